/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/payload.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>

#include "common/fd.h"
#include "common/sys.h"
#include "launcher/caps.h"
#include "launcher/landlock.h"
#include "launcher/limits.h"
#include "launcher/profile.h"
#include "launcher/program.h"

/* The two numbers a shell gives for an argv that cannot be executed. */
#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND      127

static void die(int socket_fd, const struct gbx_err* err, int exit_code)
    __attribute__((noreturn));
static void die(int socket_fd, const struct gbx_err* err, int exit_code) {
  struct gbx_msg_result message = {.err = *err};
  GBX_MSG_INIT(&message, GBX_M_FAILED, 0);
  (void)gbx_msg_send(socket_fd, &message.head, NULL, 0); /* or our end tells */
  _exit(exit_code);
}

/* The terminal becomes 0, 1 and 2, and the controlling one of this session,
 * which has none. Takes `slave_fd`. */
static int take_terminal(int slave_fd, struct gbx_err* err) {
  for (int fd = 0; fd <= 2; fd++)
    if (dup2(slave_fd, fd) < 0)
      return gbx_fail(err, GBX_E_SETUP, errno, "dup2", "terminal");
  (void)close(slave_fd);
  if (ioctl(0, TIOCSCTTY, 0) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "TIOCSCTTY", "terminal");
  return 0;
}

/* Gives everything up. Returns the listener's descriptor, 0 if there is none,
 * or a negative errno. */
static int confine(const struct box_spec* spec, int slave_fd,
                   struct gbx_err* err) {
  /* Its own session: no terminal of the host can be the controlling one. */
  if (setsid() < 0) return gbx_fail(err, GBX_E_SETUP, errno, "setsid", "-");
  program_reset_signals();
  /* Limits before capabilities go: a hard limit may still have to be set in
   * the nested user namespace, which also gives CAP_SETPCAP for what follows.
   */
  int result = slave_fd < 0 ? 0 : take_terminal(slave_fd, err);
  if (result == 0 && !spec->has_cgroup)
    result = limits_nest_for_pids(spec->limits.pids, err);
  if (result == 0) result = limits_set_fixed(err);
  /* No descriptor of launcher, keeper or another box may be left when the
   * first instruction of the program runs (CVE-2016-9962, CVE-2024-21626). */
  if (result == 0 && sys_close_range(4, ~0u, 0) < 0)
    result = gbx_fail(err, GBX_E_SETUP, errno, "close_range", "4");
  if (result == 0) result = caps_drop_all(err);
  if (result < 0) return result;
  /* seccomp(2) wants it, and no setuid program may give anything back. */
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "PR_SET_NO_NEW_PRIVS", "payload");
  if (spec->scoped) {
    result = landlock_scope_self(err);
    if (result < 0) return result;
  }
  /* The filter last, since it forbids most of the above. */
  unsigned flags = spec->notify ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0;
  if (spec->traced) flags |= SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
  return filter_load(spec->payload_filter, flags, err);
}

/* 0 to 4 as RUN's flags say, from what came after the exec blob. Without a
 * pipe stdin is the box's own /dev/null; with a terminal 0 to 2 are in place.
 * All others are close-on-exec. */
static int place_descriptors(struct gbx_fds* fds, uint32_t flags,
                             struct gbx_err* err) {
  bool pty = (flags & GBX_RUN_PTY) != 0;
  const int* next = fds->fd + 1;
  int result = 0;
  if (!pty) {
    result = dup2(*next++, 1);
    if (result >= 0) result = dup2(*next++, 2);
  }
  if (result >= 0 && (flags & GBX_RUN_FD3) != 0) result = dup2(*next++, 3);
  /* At 4 the kernel put the exec blob, which was read; the rest lies above. */
  if (result >= 0 && (flags & GBX_RUN_FD4) != 0) result = dup2(*next++, 4);
  if ((flags & GBX_RUN_STDIN) != 0) {
    if (result >= 0) result = dup2(*next, 0);
  } else if (!pty) {
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null_fd < 0)
      return gbx_fail(err, GBX_E_SETUP, errno, "open", "/dev/null");
    if (result >= 0) result = dup2(null_fd, 0);
  }
  if (result < 0) return gbx_fail(err, GBX_E_SETUP, errno, "dup2", "stdio");
  return 0;
}

static void send_head(int socket_fd, enum gbx_msg_type type, uint32_t id,
                      int fd) {
  struct gbx_msg_head head;
  gbx_msg_head_init(&head, type, sizeof head, id);
  if (gbx_msg_send(socket_fd, &head, &fd, fd > 0 ? 1 : 0) < 0) _exit(127);
}

void payload_main(const struct box_spec* spec, int init_fd, int slave_fd) {
  struct gbx_err err = {0};
  struct program program = {0};
  /* While its descriptor is there. */
  bool stands_by = spec->standby_fd >= 0;
  int read = stands_by ? program_read(spec->standby_fd, &program, &err) : 0;
  /* At 3, so that everything above can be closed in one call. */
  if (dup2(init_fd, 3) < 0 || fcntl(3, F_SETFD, FD_CLOEXEC) < 0) _exit(127);
  if (read < 0) die(3, &err, 127);
  int listener_fd = confine(spec, slave_fd, &err);
  if (listener_fd < 0) die(3, &err, 127);
  send_head(3, GBX_M_PAYLOAD_READY, 0, listener_fd);
  if (listener_fd > 0) (void)close(listener_fd);
  if (limits_set_files(&err) < 0) die(3, &err, 127);
  if (stands_by) {
    (void)program_stand_by(&program, &err);
    die(3, &err, 127);
  }

  union gbx_msg message;
  struct gbx_fds fds;
  if (gbx_msg_recv(3, &message, &fds) <= 0 ||
      fds.count < gbx_run_fd_count(message.go.flags))
    _exit(127);
  profile_note(GBX_AT_WORK_RECEIVED, message.head.id);
  /* Out of the way: 3 may be needed for the driver's socket. */
  int socket_fd = fcntl(3, F_DUPFD_CLOEXEC, 10);
  bool fd3 = (message.go.flags & GBX_RUN_FD3) != 0;
  if (socket_fd < 0) _exit(127);
  if (!fd3) (void)close(3);

  if ((message.go.pids != 0 && limits_lower_pids(message.go.pids, &err) < 0) ||
      (message.go.file_bytes != 0 &&
       limits_set_file_size(message.go.file_bytes, &err) < 0) ||
      program_read(fds.fd[0], &program, &err) < 0 ||
      place_descriptors(&fds, message.go.flags, &err) < 0 ||
      program_enter_cwd(&program, &err) < 0)
    die(socket_fd, &err, 127);
  profile_note(GBX_AT_EXECUTING, message.head.id);
  send_head(socket_fd, GBX_M_EXECUTING, message.head.id, -1);
  /* Point of no return: on success nothing of us is left. */
  int why = program_execute(&program);
  bool missing = why == ENOENT;
  (void)gbx_fail(&err, GBX_E_EXEC, why, "execve", "%.150s", program.argv[0]);
  die(socket_fd, &err, missing ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
}
