/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_JOIN_ZYGOTE_H_
#define SRC_JOIN_ZYGOTE_H_

#include <stdint.h>

#include "join/join.h"

/* What an interpreter calls that forks payloads into boxes (a zygote). It was
 * executed with its socket to the launcher at GBX_TAKE_SOCKET and the payload's
 * filter in a memfd at GBX_ZYGOTE_FILTER, and it forks twice for each box:
 *
 *   zygote    gbx_zygote_wait: a box wants a payload
 *   └ middle  gbx_zygote_aim: its children will be in the box's pid namespace
 *     └ payload   gbx_zygote_become: enters the box, gives everything up, and
 *                 is where src/join/take.h begins
 *   middle    gbx_zygote_tell: which process it is; and exits
 *
 * so that the launcher, which adopts the payload, reaps it. The forks are the
 * interpreter's own, since it has to know of them. */

#define GBX_ZYGOTE_FILTER 5

struct gbx_zygote {
  uint32_t box;
  int32_t pid_ns_fd;
  int32_t payload_fd; /* its socket to init */
  int32_t procs_fd[4];
  uint32_t procs_count;
  uint32_t awaited;
  uint64_t files_soft, files_hard;
  struct gbx_join join;
};

/* Waits for a box. Returns 1, or 0 when the launcher is gone. The filter is
 * mapped with the first call; WAITING tells the launcher that it was. */
long gbx_zygote_wait(struct gbx_zygote* zygote);

/* In the middle process. 0 or a negative errno. */
long gbx_zygote_aim(struct gbx_zygote* zygote);

/* In the payload. Returns 0, or 1 if no call waits for it yet, or a negative
 * errno: init knows why, and the process must exit without running anything. */
long gbx_zygote_become(struct gbx_zygote* zygote);

/* In the middle process: `pid` is the payload's, or a negative errno if it
 * could not be forked. */
long gbx_zygote_tell(struct gbx_zygote* zygote, long pid);

/* In the zygote, once the middle process is forked. The kernel reaps that one
 * by itself. */
void gbx_zygote_close(struct gbx_zygote* zygote);

#endif  // SRC_JOIN_ZYGOTE_H_
