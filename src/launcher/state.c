/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/state.h"

#include <errno.h>
#include <sys/epoll.h>

#include "common/wire.h"

struct launcher launcher = {.epoll_fd = -1, .signal_fd = -1, .next_leaf = 1};

/* ---- Messages --------------------------------------------------------- */

void tell_engine(const struct gbx_msg_head* head, const int* fds, int count) {
  int result = gbx_msg_send(GBX_FD_ENGINE, head, fds, count);
  /* This user has too many descriptors on their way between processes: the
   * engine then has no pidfd and ends its run by CANCEL. */
  if (result == -ETOOMANYREFS)
    result = gbx_msg_send(GBX_FD_ENGINE, head, NULL, 0);
  if (result < 0) launcher.engine_gone = true;
}

void answer(uint32_t id, const struct gbx_err* err) {
  struct gbx_msg_result message = {.err = *err};
  GBX_MSG_INIT(&message, GBX_M_DONE, id);
  tell_engine(&message.head, NULL, 0);
}

int watch(int fd, void* what, struct gbx_err* err) {
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
  if (epoll_ctl(launcher.epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
    return gbx_fail(err, GBX_E_INTERNAL, errno, "epoll_ctl", "add");
  return 0;
}

void unwatch(int fd) {
  if (fd >= 0) (void)epoll_ctl(launcher.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}
