/* SPDX-License-Identifier: Apache-2.0 */

/* What the launcher does before it is the launcher: in the keeper's child, with
 * the keeper's memory, until it executes itself anew. */

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/sys.h"
#include "common/wire.h"
#include "launcher/caps.h"
#include "launcher/launcher.h"
#include "launcher/mount.h"
#include "launcher/shelf.h"

#define SHELF_SIZE (256u << 20) /* a folder for each: 65,000 */

void launcher_fail_start(const struct gbx_err* err) {
  struct gbx_msg_result message = {.err = *err};
  GBX_MSG_INIT(&message, GBX_M_FAILED, 0);
  (void)gbx_msg_send(GBX_FD_ENGINE, &message.head, NULL, 0);
  _exit(1);
}

/* From Node's user to the box's: 1000 inside, an id outside that owns nothing.
 * As a plain user we are that already, by the map. */
static int become_box_user(struct gbx_err* err) {
  if (setgroups(0, NULL) < 0)
    return gbx_fail(err, GBX_E_START, errno, "setgroups", "none");
  /* The change of uid would take all capabilities. */
  if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
    return gbx_fail(err, GBX_E_START, errno, "PR_SET_KEEPCAPS", "1");
  if (setresgid(1000, 1000, 1000) < 0 || setresuid(1000, 1000, 1000) < 0)
    return gbx_fail(err, GBX_E_START, errno, "setresuid", "1000");
  return 0;
}

static int leave_host_mounts(struct gbx_err* err) {
  /* Slave, not private: what the host mounts later must be seen, or a
   * workspace there would be missing; nothing of ours goes back. */
  if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
    return gbx_fail(err, GBX_E_START, errno, "mount slave", "/");
  if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) <
      0)
    return gbx_fail(err, GBX_E_START, errno, "mount proc",
                    "/proc of the launcher");
  int result = mount_tmpfs(SHELF_PATH, 0700, SHELF_SIZE, err);
  if (result < 0) err->code = GBX_E_START;
  return result;
}

/* What an epoll watches is counted for the user who made it. Ours is Node's,
 * while we still are that: a box that watches as much as the boxes' user may
 * would keep us from watching, and so from making, any other. */
static int open_epoll(struct gbx_err* err) {
  int fd = epoll_create1(0);
  if (fd == GBX_FD_EPOLL) return 0;
  if (fd < 0 || dup2(fd, GBX_FD_EPOLL) < 0)
    return gbx_fail(err, GBX_E_START, errno, "epoll_create1", "launcher");
  (void)close(fd);
  return 0;
}

#define IOPRIO_WHO_PROCESS_ 1 /* linux/ioprio.h is younger than our floor */
#define IOPRIO_CLASS_SHIFT_ 13
#define IOPRIO_CLASS_RT_    1

static bool is_hurried(int policy) {
  errno = 0;
  int nice = getpriority(PRIO_PROCESS, 0);
  return (nice < 0 && errno == 0) || policy == SCHED_FIFO || policy == SCHED_RR;
}

/* Node may have been started ahead of others: with real-time priority, say. It
 * and we keep that, the better to see a deadline; strangers' code must not have
 * it. Nor could it join a cgroup with a limit of processor time. */
static int keep_priority_from_boxes(struct gbx_err* err) {
  int policy = sched_getscheduler(0);
  struct sched_param param;
  if (policy < 0 || sched_getparam(0, &param) < 0)
    return gbx_fail(err, GBX_E_START, errno, "sched_getscheduler", "launcher");
  if (is_hurried(policy & ~SCHED_RESET_ON_FORK) &&
      sched_setscheduler(0, policy | SCHED_RESET_ON_FORK, &param) < 0)
    return gbx_fail(err, GBX_E_START, errno, "sched_setscheduler",
                    "SCHED_RESET_ON_FORK");
  long ioprio = syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS_, 0);
  if (ioprio >> IOPRIO_CLASS_SHIFT_ == IOPRIO_CLASS_RT_ &&
      syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS_, 0, 0) < 0)
    return gbx_fail(err, GBX_E_START, errno, "ioprio_set", "none");
  return 0;
}

/* `setarch -R` and its like switch the randomization of addresses off for all
 * that comes after them. */
static int use_own_personality(struct gbx_err* err) {
  if (personality(0xffffffff) != PER_LINUX && personality(PER_LINUX) < 0)
    return gbx_fail(err, GBX_E_START, errno, "personality", "PER_LINUX");
  return 0;
}

void launcher_enter(int exe_fd, int rooted) {
  struct gbx_err err = {0};
  if (keep_priority_from_boxes(&err) < 0 || use_own_personality(&err) < 0 ||
      open_epoll(&err) < 0 || (rooted && become_box_user(&err) < 0) ||
      caps_keep_over_exec(&err) < 0 || leave_host_mounts(&err) < 0)
    launcher_fail_start(&err);
  /* Executed anew inside the user namespace, so that our memory belongs to it:
   * only then can we open /proc/<init>/ns of a non-dumpable child. */
  char* argv[] = {"glovebox-launcher", "launcher", rooted ? "rooted" : "plain",
                  NULL};
  char* envp[] = {NULL};
  (void)sys_execveat(exe_fd, argv, envp);
  (void)gbx_fail(&err, GBX_E_START, errno, "execveat", "launcher");
  launcher_fail_start(&err);
}
