/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/net.h"

#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "common/fd.h"

int net_loopback_up(struct gbx_err* err) {
  cleanup_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "socket", "for loopback");
  /* The kernel gives the interface 127.0.0.1 and ::1 when it comes up. */
  struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
  if (ioctl(fd, SIOCSIFFLAGS, &request) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "SIOCSIFFLAGS", "lo");
  return 0;
}
