/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/zygote.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "common/fd.h"
#include "common/layout.h"
#include "common/sys.h"
#include "join/take.h"
#include "join/zygote.h"
#include "launcher/caps.h"
#include "launcher/limits.h"
#include "launcher/mount.h"
#include "launcher/program.h"

/* An interpreter that ends as often as that would end again. */
#define FAILURES_MAX 3

/* With `preload` it ends itself before. */
#define START_MS 90000
#define SLOW_MS  2000

/* To enter namespaces, to change the root with the mount namespace, and to
 * empty the bounding set of what enters. */
#define KEPT \
  ((uint64_t)1 << CAP_SYS_ADMIN | 1u << CAP_SYS_CHROOT | 1u << CAP_SETPCAP)

/* Of each folder that a module may write to while it is imported. */
#define SCRATCH_BYTES ((uint64_t)64 << 20)

void zygote_init(struct zygote* zygote) {
  *zygote = (struct zygote){.socket_fd = -1};
}

bool zygote_is_possible(const struct zygote* zygote,
                        const struct root_image* root) {
  return root->standby_fd[GBX_RUNTIME_ZYGOTE] >= 0 &&
         zygote->failures < FAILURES_MAX;
}

/* A copy of the root. It gets no procfs: that would be the launcher's, which
 * shows every box. */
static int enter_root(const struct root_image* root, struct gbx_err* err) {
  if (setns(root->ns_fd, CLONE_NEWNS) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "setns", "prepared root");
  if (unshare(CLONE_NEWNS | CLONE_NEWCGROUP) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "unshare", "mount namespace");
  /* Modules look for a place for what they cache. Payloads have their own. */
  for (size_t i = 0; i < GBX_LAYOUT_SCRATCH; i++) {
    const struct gbx_layout_scratch* scratch = &gbx_layout_scratch[i];
    if (!root->needs_zygote || root->covered != NULL) break;
    if (mount_tmpfs(scratch->path, scratch->mode, SCRATCH_BYTES, err) < 0)
      return -EIO;
  }
  if (sethostname("glovebox", 8) < 0 || setdomainname("(none)", 6) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "sethostname", "zygote");
  return 0;
}

/* What it gives up here none of its payloads has to. */
static int confine(const struct zygote_filters* filters, struct gbx_err* err) {
  int result = limits_set_fixed(err);
  if (result == 0) result = caps_keep_only(KEPT, err);
  if (result < 0) return result;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "PR_SET_NO_NEW_PRIVS", "zygote");
  return filter_load(filters->own, 0, err);
}

/* Its end is all that the launcher learns of a failure. */
static void zygote_main(const struct root_image* root,
                        const struct zygote_filters* filters, int socket_fd)
    __attribute__((noreturn));
static void zygote_main(const struct root_image* root,
                        const struct zygote_filters* filters, int socket_fd) {
  struct gbx_err err = {0};
  struct program program;
  /* Its payloads have it from here, as a box's have it from init. */
  (void)fd_write_file(AT_FDCWD, "/proc/self/oom_score_adj", "500");
  if (program_read(root->standby_fd[GBX_RUNTIME_ZYGOTE], &program, &err) < 0 ||
      setsid() < 0 || enter_root(root, &err) < 0)
    _exit(127);
  program_reset_signals();
  int filter_fd = fd_sealed_memory("filter", filters->payload->program,
                                   filters->payload->size);
  /* By way of numbers above all of them, so that none is overwritten. */
  filter_fd = fcntl(filter_fd, F_DUPFD, GBX_ZYGOTE_FILTER + 1);
  socket_fd = fcntl(socket_fd, F_DUPFD, GBX_ZYGOTE_FILTER + 1);
  if (dup2(filter_fd, GBX_ZYGOTE_FILTER) < 0 ||
      dup2(socket_fd, GBX_TAKE_SOCKET) < 0 ||
      dup2(socket_fd, GBX_TAKE_SOCKET + 1) < 0 ||
      sys_close_range(GBX_ZYGOTE_FILTER + 1, ~0u, 0) < 0 ||
      confine(filters, &err) < 0)
    _exit(127);
  (void)program_stand_by(&program, &err);
  _exit(127);
}

int zygote_start(struct zygote* zygote, const struct root_image* root,
                 const struct zygote_filters* filters, bool shares_network,
                 struct gbx_err* err) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "socketpair", "zygote");
  cleanup_fd int own_fd = pair[0];
  cleanup_fd int its_fd = pair[1];
  struct clone_args args = {.flags = CLONE_NEWIPC | CLONE_NEWUTS,
                            .exit_signal = SIGCHLD};
  if (!shares_network) args.flags |= CLONE_NEWNET;
  pid_t pid = sys_clone3(&args);
  if (pid < 0) return gbx_fail(err, GBX_E_SETUP, errno, "clone3", "zygote");
  if (pid == 0) zygote_main(root, filters, its_fd);
  int flags = fcntl(own_fd, F_GETFL);
  (void)fcntl(own_fd, F_SETFL, flags | O_NONBLOCK);
  zygote->pid = pid;
  zygote->socket_fd = fd_steal(&own_fd);
  zygote->state = ZYGOTE_STARTING;
  zygote->started_ms = 0;
  zygote->is_slow = false;
  zygote->err = (struct gbx_err){0};
  return 0;
}

int zygote_fork(struct zygote* zygote, const struct gbx_msg_fork* request,
                const struct gbx_fds* fds, struct gbx_err* err) {
  if (zygote->state != ZYGOTE_WAITING)
    return gbx_fail(err, GBX_E_SETUP, ESRCH, "fork", "the zygote ended");
  int result =
      gbx_msg_send(zygote->socket_fd, &request->head, fds->fd, fds->count);
  if (result < 0)
    return gbx_fail(err, GBX_E_SETUP, -result, "sendmsg", "zygote");
  return 0;
}

/* Memory that is mapped as shared stays one and the same in all forks: what a
 * call writes there others read. smaps and not maps, since what cannot be
 * written to may be made so, but for files that were opened to be read. */
static int refuse_shared_memory(pid_t pid, struct gbx_err* err) {
  char path[64], *line = NULL;
  char found[128] = "";
  size_t room = 0;
  bool is_shared = false;
  (void)snprintf(path, sizeof path, "/proc/%d/smaps", pid);
  FILE* file = fopen(path, "re");
  if (file == NULL)
    return gbx_fail(err, GBX_E_PRELOAD, errno, "open", "%s", path);
  while (!is_shared && getline(&line, &room, file) >= 0) {
    unsigned long start, end;
    if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %127[^\n]", &start, &end,
               found) == 2)
      found[0] = '\0'; /* it has no name */
    is_shared =
        strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " sh ") != NULL;
  }
  bool failed = ferror(file) != 0;
  free(line);
  (void)fclose(file);
  if (failed) return gbx_fail(err, GBX_E_PRELOAD, errno, "read", "%s", path);
  if (!is_shared) return 0;
  return gbx_fail(
      err, GBX_E_PRELOAD, 0, "interpreter",
      "has mapped memory in an import that all calls would share (%.100s)",
      found);
}

bool zygote_receive(struct zygote* zygote, struct gbx_msg_forked* ret_forked) {
  if (zygote->socket_fd < 0) return false;
  union gbx_msg message;
  struct gbx_fds fds;
  int result = gbx_msg_recv(zygote->socket_fd, &message, &fds);
  if (result == -EAGAIN) return false;
  if (result <= 0) { /* its reaping follows */
    if (zygote->state != ZYGOTE_NONE) (void)kill(zygote->pid, SIGKILL);
    return false;
  }
  gbx_fds_close(&fds);
  *ret_forked = (struct gbx_msg_forked){0};
  if (message.head.type == GBX_M_WAITING) {
    struct gbx_err err = {0};
    if (refuse_shared_memory(zygote->pid, &err) == 0) {
      zygote->state = ZYGOTE_WAITING;
    } else {
      zygote->err = err;
      (void)kill(zygote->pid, SIGKILL); /* its reaping does the rest */
    }
  } else if (message.head.type == GBX_M_FORKED) {
    *ret_forked = message.forked;
  } else if (message.head.type == GBX_M_FAILED) {
    gbx_err_sanitize(&message.result.err);
    zygote->err = message.result.err;
  }
  return true;
}

void zygote_explain(struct zygote* zygote, const siginfo_t* info) {
  if (zygote->err.code != GBX_OK) return;
  if (info->si_code == CLD_EXITED)
    (void)gbx_fail(&zygote->err, GBX_E_PRELOAD, 0, "interpreter",
                   "has ended in an import with exit code %d", info->si_status);
  else
    (void)gbx_fail(&zygote->err, GBX_E_PRELOAD, 0, "interpreter",
                   "was ended in an import by signal %d", info->si_status);
}

int64_t zygote_expire(struct zygote* zygote, int64_t now_ms) {
  if (zygote->state != ZYGOTE_STARTING) return -1;
  if (zygote->started_ms == 0) zygote->started_ms = now_ms;
  int64_t left_to_slow = zygote->started_ms + SLOW_MS - now_ms;
  if (left_to_slow > 0) return left_to_slow;
  zygote->is_slow = true;
  int64_t left = zygote->started_ms + START_MS - now_ms;
  if (left > 0) return left;
  (void)kill(zygote->pid, SIGKILL); /* its reaping does the rest */
  return -1;
}

void zygote_end(struct zygote* zygote) {
  fd_close(&zygote->socket_fd);
  zygote->state = ZYGOTE_NONE;
  zygote->pid = 0;
  zygote->failures++;
}
