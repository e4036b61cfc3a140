/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_ZYGOTE_H_
#define SRC_LAUNCHER_ZYGOTE_H_

/* An interpreter that was started once for a root and forks payloads into its
 * boxes. It never sees code; what it keeps of its capabilities is what entering
 * a box takes. */

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "common/wire.h"
#include "launcher/filter.h"
#include "launcher/root.h"

enum zygote_state {
  ZYGOTE_NONE,
  ZYGOTE_STARTING, /* what it is asked meanwhile waits in its socket */
  ZYGOTE_WAITING,
};

struct zygote {
  enum zygote_state state;
  pid_t pid;
  int socket_fd;
  int failures; /* of it and of boxes by it, in a row */
  int64_t started_ms;
  bool is_slow; /* to start: calls have been cold for long */
  struct gbx_err
      err; /* what it said of its failure to start; code 0: nothing */
};

struct zygote_filters {
  const struct filter* own;     /* loaded by the zygote */
  const struct filter* payload; /* that it loads in the boxes */
};

void zygote_init(struct zygote* zygote);

/* Starts the interpreter of the root, if it has one. Where its boxes share the
 * host's network it does too: nobody has the right to enter that again. */
int zygote_start(struct zygote* zygote, const struct root_image* root,
                 const struct zygote_filters* filters, bool shares_network,
                 struct gbx_err* err);

/* Asks for a payload. `fds`: as FORK has them. */
int zygote_fork(struct zygote* zygote, const struct gbx_msg_fork* request,
                const struct gbx_fds* fds, struct gbx_err* err);

/* One message that it sent: true with FORKED in *ret_forked, or with head.type
 * 0 for any other. False: there is none now. */
bool zygote_receive(struct zygote* zygote, struct gbx_msg_forked* ret_forked);

/* Says, if it did not, how it ended. */
void zygote_explain(struct zygote* zygote, const siginfo_t* info);

/* Notes one that is slow to start, and ends one that takes too long: what it
 * imports may hang. Milliseconds until then; negative for never. */
int64_t zygote_expire(struct zygote* zygote, int64_t now_ms);

/* It was reaped, or is of no use any more. */
void zygote_end(struct zygote* zygote);

/* Whether the root can have one: it did not fail too often. */
bool zygote_is_possible(const struct zygote* zygote,
                        const struct root_image* root);

#endif  // SRC_LAUNCHER_ZYGOTE_H_
