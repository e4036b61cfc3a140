/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_INIT_H_
#define SRC_LAUNCHER_INIT_H_

#include <stdbool.h>
#include <stdint.h>

#include "common/wire.h"
#include "launcher/filter.h"
#include "launcher/root.h"

/* All that init and the payload need to know, set before the fork. */
struct box_spec {
  const struct root_image* root;
  bool has_cgroup;           /* is in one from the start, or joins it: */
  int procs_fd[GBX_MSG_FDS]; /* cgroup.procs to join by */
  int procs_count;
  struct gbx_wire_limits limits; /* sizes of tmpfs; pids without a cgroup */
  const struct filter* payload_filter;
  const struct filter* init_filter;
  bool shares_network; /* it has no network namespace of its own */
  bool scoped;         /* and Landlock shuts what that one would have shut */
  bool notify;         /* the payload's filter has a listener */
  bool traced;         /* which answers, so that a call waits for it */
  bool pty;            /* the box has a terminal, of this size */
  uint16_t columns, rows;
  int work_fds[2]; /* a socket pair: what brings the payload its work, and its
                    */
  int standby_fd;  /* exec blob of an interpreter that waits for GO; or -1 */
  bool by_zygote;  /* or one is forked into the box */
};

/* The life of a box's pid 1. `socket_fd` leads to the launcher. */
void init_main(const struct box_spec* spec, int socket_fd)
    __attribute__((noreturn));

#endif  // SRC_LAUNCHER_INIT_H_
