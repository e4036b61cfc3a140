/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_JOIN_TALK_H_
#define SRC_JOIN_TALK_H_

/* Messages of common/wire.h without a libc. */

#include "common/wire.h"

void talk_begin(struct gbx_msg_head* head, enum gbx_msg_type type,
                unsigned long size);

/* `fd` goes along, if it is not negative. Returns 0 or a negative errno. */
long talk_send(long socket_fd, const struct gbx_msg_head* head, int fd);

/* Copies text, or the beginning of it, without its NUL. Returns its length. */
unsigned long talk_put(char* to, unsigned long room, const char* from);

/* init reports a step that failed, and with what; returns `error`. */
long talk_fail(long socket_fd, long error, const char* step,
               const char* detail);

/* One message of that type and size, with at least `fd_count` descriptors
 * (close-on-exec). Returns 1, 0 at the end, or a negative errno. */
long talk_receive(long socket_fd, enum gbx_msg_type type, unsigned long size,
                  struct gbx_msg_head* ret_message, struct gbx_fds* ret_fds);

/* What `ps` calls this process while it waits, so that one who looks at the
 * host sees what it is there for. */
void talk_rename(const char* name);
/* As it was before. */
void talk_rename_back(void);

#endif  // SRC_JOIN_TALK_H_
