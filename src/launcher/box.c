/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/box.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "common/fd.h"
#include "common/leaf.h"
#include "common/sys.h"

static int clone_init(struct box* box, const struct box_parts* parts,
                      struct gbx_err* err) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "socketpair", "box");
  box->socket_fd = pair[0];
  cleanup_fd int init_fd = pair[1];
  /* Here, or it would be in the box's list of sockets for the code to see. */
  struct box_spec spec = parts->spec;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, spec.work_fds) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "socketpair", "payload");
  box->work_fd = spec.work_fds[0];
  cleanup_fd int payload_fd = spec.work_fds[1];
  /* Not NEWCGROUP: its root would be our cgroup, also of a box that is made in
   * its own. Not NEWNS: init copies the prepared root's instead of ours. */
  struct clone_args args = {
      .flags = CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_PIDFD,
      .pidfd = (uint64_t)(uintptr_t)&box->pidfd,
      .exit_signal = SIGCHLD};
  if (!parts->spec.shares_network) args.flags |= CLONE_NEWNET;
  if (parts->folder_fd >= 0) {
    args.flags |= CLONE_INTO_CGROUP;
    args.cgroup = (uint64_t)parts->folder_fd;
  }
  pid_t pid = sys_clone3(&args);
  if (pid < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "clone3",
                    "pid, ipc, uts and network namespaces of a box");
  if (pid == 0) init_main(&spec, init_fd);
  box->pid = box->memory.init = pid;
  return 0;
}

/* The zygote's child joins the leaf that init is in. */
static int keep_procs(struct box* box, const struct box_parts* parts,
                      struct gbx_err* err) {
  if (parts->folder_fd >= 0) {
    int fd = openat(parts->folder_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
      return gbx_fail(err, GBX_E_LIMIT, errno, "open", "cgroup.procs");
    box->procs.fd[box->procs.count++] = fd;
  }
  for (int i = 0; i < parts->spec.procs_count; i++) {
    int fd = fcntl(parts->spec.procs_fd[i], F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return gbx_fail(err, GBX_E_SETUP, errno, "fcntl", "procs");
    box->procs.fd[box->procs.count++] = fd;
  }
  return 0;
}

struct box* box_new(const struct box_parts* parts, struct gbx_err* err) {
  struct gbx_fds leaf_fds = *parts->leaf_fds;
  struct box* box = calloc(1, sizeof *box);
  if (box == NULL) {
    gbx_fds_close(&leaf_fds);
    (void)gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "calloc", "box");
    return NULL;
  }
  box->pidfd = box->socket_fd = box->work_fd = box->listener_fd = -1;
  box->memory.shm_fd = -1;
  box->payload_fd = box->pty_fd = box->mounts_fd = -1;
  box->root = parts->root;
  box->by_zygote = parts->spec.by_zygote;
  box->runtime = parts->runtime;
  box->leaf = parts->leaf;
  box->limits = parts->spec.limits;
  box->has_pty = parts->spec.pty;
  box->end.escape_syscall = -1;
  for (int i = 0, next = 0; i < GBX_LEAF_FDS; i++) {
    bool has = (parts->leaf_has & (1u << i)) != 0;
    box->leaf_fd[i] = has ? gbx_fds_steal(&leaf_fds, next++) : -1;
  }
  for (int i = 0; i < BOX_SOURCES; i++)
    box->watch[i] = (struct box_watch){box, (enum box_source)i};
  if (parts->spec.traced) box->trace = trace_new(parts->usual);
  int result = parts->spec.traced && box->trace == NULL
                   ? gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "calloc", "trace")
                   : 0;
  if (result == 0 && box->by_zygote) result = keep_procs(box, parts, err);
  if (result == 0) result = clone_init(box, parts, err);
  gbx_fds_close(&leaf_fds); /* init is in its cgroup, or has what it needs */
  if (result < 0) {
    box_free(box);
    return NULL;
  }
  return box;
}

int box_go(struct box* box, struct run* run, int tree_fd, int mounts_fd,
           struct gbx_err* err) {
  struct gbx_msg_go go = {.flags = run->request.flags,
                          .memory_bytes = run->request.limits.memory_bytes,
                          .file_bytes = run->request.file_bytes};
  /* Without a cgroup the number of processes is a resource limit of the
   * payload, which may only go down. */
  if (box->leaf == 0 && run->request.limits.pids != box->limits.pids)
    go.pids = run->request.limits.pids;
  go.mounts = mounts_fd >= 0;
  GBX_MSG_INIT(&go, GBX_M_GO, run->request.head.id);
  int fds[GBX_MSG_FDS];
  int count = 0;
  if (tree_fd >= 0) fds[count++] = tree_fd;
  if (mounts_fd >= 0) fds[count++] = mounts_fd;
  for (int i = 0; i < run->fds.count && count < GBX_MSG_FDS; i++)
    fds[count++] = run->fds.fd[i];
  int socket_fd = box->state == BOX_BOUND ? box->work_fd : box->socket_fd;
  int result = gbx_msg_send(socket_fd, &go.head, fds, count);
  if (result == -EPIPE || result == -ECONNRESET)
    return gbx_fail(err, GBX_E_DIED, -result, "box", "ended before its run");
  if (result < 0) return gbx_fail(err, GBX_E_SETUP, -result, "sendmsg", "box");
  /* Ours would keep the pipes open. */
  gbx_fds_close(&run->fds);
  fd_close(&box->work_fd);
  box->state = BOX_RUNNING;
  return 0;
}

int box_bind(struct box* box, uint32_t workspace, int tree_fd,
             struct gbx_err* err) {
  struct gbx_msg_go bind = {.memory_bytes = box->limits.memory_bytes};
  GBX_MSG_INIT(&bind, GBX_M_BIND, 0);
  int result = gbx_msg_send(box->socket_fd, &bind.head, &tree_fd, 1);
  if (result < 0) return gbx_fail(err, GBX_E_SETUP, -result, "sendmsg", "BIND");
  box->workspace = workspace;
  box->state = BOX_BINDING;
  return 0;
}

static uint64_t microseconds(const struct timeval* time) {
  return (uint64_t)time->tv_sec * 1000000u + (uint64_t)time->tv_usec;
}

void box_payload_ended(struct box* box, const siginfo_t* info,
                       const struct rusage* usage) {
  uint64_t user_us = microseconds(&usage->ru_utime);
  uint64_t system_us = microseconds(&usage->ru_stime);
  box->payload = 0;
  box->end.reported = 1;
  box->end.wait_code = info->si_code;
  box->end.wait_status = info->si_status;
  /* As init counts it, but for processes that its payload did not wait for. */
  box->end.usage = (struct gbx_wire_usage){
      .cpu_us = user_us + system_us,
      .cpu_user_us = user_us,
      .cpu_system_us = system_us,
      .read_bytes = (uint64_t)usage->ru_inblock * 512u,
      .written_bytes = (uint64_t)usage->ru_oublock * 512u,
      .max_memory_bytes = (uint64_t)usage->ru_maxrss * 1024u,
      .has_cpu_split = true,
      .has_io = true,
  };
  box_kill(box);
}

void box_kill(struct box* box) {
  (void)sys_pidfd_kill(box->pidfd, SIGKILL); /* ESRCH: it is dead */
}

/* Whether that was all there is to do about it. */
static bool is_answered(struct box* box, const struct seccomp_notif* call) {
  struct gbx_err err = {0};
  switch (trace_answer(box->trace, box->listener_fd, call, &err)) {
    case TRACE_ANSWERED:
      return true;
    case TRACE_FORBIDDEN:
      break;
    case TRACE_FAILED:
      box->end.err = err;
      box_kill(box);
      return true;
  }
  return false;
}

void box_take_notification(struct box* box) {
  /* Room for what a later kernel adds to the struct; it must be zero. */
  union {
    struct seccomp_notif notification;
    char room[512];
  } buffer;
  memset(&buffer, 0, sizeof buffer);
  bool received =
      ioctl(box->listener_fd, SECCOMP_IOCTL_NOTIF_RECV, &buffer) == 0;
  if (box->trace != NULL) {
    /* A signal took the call back; made again, it comes again. */
    if (!received && errno == ENOENT) return;
    if (received && is_answered(box, &buffer.notification)) return;
  }
  if (received) {
    box->end.escape_syscall = buffer.notification.data.nr;
    box->end.escape_arch = buffer.notification.data.arch;
  }
  /* ENOENT: a signal took the call back before we read it. It was tried. */
  box->end.escape = 1;
  box_kill(box);
}

bool box_had_oom(struct box* box) {
  if (box->leaf == 0) return false;
  uint64_t count = 0;
  if (box->leaf_fd[GBX_LEAF_OOM_EVENT] >= 0 &&
      read(box->leaf_fd[GBX_LEAF_OOM_EVENT], &count, sizeof count) ==
          (ssize_t)sizeof count)
    return true;
  return gbx_leaf_read_counter(box->leaf_fd[GBX_LEAF_OOM_COUNT], "oom_kill ",
                               &count) &&
         count > 0;
}

bool box_is_empty(const struct box* box) {
  uint64_t tasks = 0;
  return gbx_leaf_read_counter(box->leaf_fd[GBX_LEAF_PIDS], "", &tasks) &&
         tasks <= 1;
}

void box_read_usage(struct box* box) {
  /* What the leaf does not have init has counted. */
  gbx_leaf_read_usage(box->leaf_fd, &box->end.usage);
}

bool box_payload_is_gone(const struct box* box) {
  return fd_is_readable(box->payload_fd);
}

void box_hold_mounts(struct box* box) {
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/%d/ns/mnt", box->pid);
  box->mounts_fd = open(path, O_RDONLY | O_CLOEXEC); /* or it takes longer */
}

void box_free(struct box* box) {
  fd_close(&box->mounts_fd);
  fd_close(&box->pidfd);
  fd_close(&box->socket_fd);
  fd_close(&box->work_fd);
  fd_close(&box->listener_fd);
  fd_close(&box->payload_fd);
  fd_close(&box->pty_fd);
  fd_close(&box->memory.shm_fd);
  gbx_fds_close(&box->procs);
  box->trace = trace_free(box->trace);
  for (int i = 0; i < GBX_LEAF_FDS; i++)
    fd_close(&box->leaf_fd[i]);
  free(box);
}
