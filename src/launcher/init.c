/* SPDX-License-Identifier: Apache-2.0 */

/* Theory of operation
 * -------------------
 * init is a fork of the launcher, made with new pid, ipc, uts and net
 * namespaces; it never executes anything. It takes itself into the cgroup leaf
 * and the prepared root, makes what is the box's own (/proc, /tmp, home,
 * /dev/shm, loopback), forks the payload, and says BOX_READY: in a box for an
 * interpreter once that has executed and waits. Then it sleeps
 * until the launcher's GO, which brings the workspace and the payload's
 * descriptors. It attaches the one, gives up its own rights, hands the others
 * on, reaps until the payload has ended, reports that, and exits: with pid 1
 * the kernel ends everything in the box.
 *
 * A box that shares the host's network has no net namespace of its own, and no
 * loopback to set up; it has no rights over the host's.
 *
 * What the payload can do to it: signals without a handler are dropped for pid
 * 1 and it has none; its memory and descriptors are closed to the payload by
 * dumpable = 0; its sockets are unknown to the payload, which closed them
 * before it executed anything. */

#include "launcher/init.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "common/fd.h"
#include "common/layout.h"
#include "common/sys.h"
#include "launcher/caps.h"
#include "launcher/mount.h"
#include "launcher/mounts.h"
#include "launcher/net.h"
#include "launcher/payload.h"
#include "launcher/profile.h"
#include "launcher/pty.h"
#include "launcher/root.h"

static void die(int socket_fd, const struct gbx_err* err)
    __attribute__((noreturn));
static void die(int socket_fd, const struct gbx_err* err) {
  struct gbx_msg_result message = {.err = *err};
  GBX_MSG_INIT(&message, GBX_M_FAILED, 0);
  (void)gbx_msg_send(socket_fd, &message.head, NULL, 0); /* then our end says */
  _exit(127);
}

/* Through descriptors that the keeper opened: permission is the opener's. */
static int join_cgroup(const struct box_spec* spec, struct gbx_err* err) {
  for (int i = 0; i < spec->procs_count; i++) {
    if (write(spec->procs_fd[i], "0", 1) != 1)
      return gbx_fail(err, GBX_E_LIMIT, errno, "cgroup.procs", "join");
    (void)close(spec->procs_fd[i]);
  }
  return 0;
}

/* Interpreters may live where a box has its own tmpfs, below /tmp say: their
 * trees are taken before it covers them and put on top of it. */
#define COVERED_MAX 64

static int take_covered(const struct box_spec* spec, int* ret_trees,
                        struct gbx_err* err) {
  int count = 0;
  const char* path = spec->root->covered;
  for (; path != NULL && *path != '\0'; path += strlen(path) + 1) {
    if (count == COVERED_MAX)
      return gbx_fail(err, GBX_E_SETUP, E2BIG, "root",
                      "more than %d entries below /tmp", COVERED_MAX);
    ret_trees[count] = mount_clone_tree(path, err);
    if (ret_trees[count] < 0) return ret_trees[count];
    count++;
  }
  return 0;
}

static int put_covered(const struct box_spec* spec, int* trees,
                       struct gbx_err* err) {
  const char* path = spec->root->covered;
  for (; path != NULL && *path != '\0'; path += strlen(path) + 1, trees++) {
    int result = root_attach(*trees, path, err);
    if (result < 0) return result;
    (void)close(*trees);
  }
  return 0;
}

static int own_mounts(const struct box_spec* spec, struct gbx_err* err) {
  int tty_fd = -1;
  if (spec->pty) {
    tty_fd = pty_take_tty(err);
    if (tty_fd < 0) return tty_fd;
  }
  /* Here, where the launcher's is to be seen: a root has none. */
  cleanup_fd int proc_fd = mount_open_proc(err);
  if (proc_fd < 0) return proc_fd;
  /* Copies of the prepared root: what a box does to its mounts stays there. */
  if (setns(spec->root->ns_fd, CLONE_NEWNS) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "setns", "prepared root");
  if (unshare(CLONE_NEWNS) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "unshare", "mount namespace");
  (void)close(spec->root->ns_fd);
  int covered[COVERED_MAX];
  int result = take_covered(spec, covered, err);
  if (result < 0) return result;
  if (spec->pty) { /* before /dev/shm, which lies in it */
    result = pty_mount_dev(tty_fd, err);
    if (result < 0) return result;
  }

  for (size_t i = 0; i < GBX_LAYOUT_SCRATCH; i++) {
    const struct gbx_layout_scratch* scratch = &gbx_layout_scratch[i];
    result =
        mount_tmpfs(scratch->path, scratch->mode,
                    spec->limits.memory_bytes / 4 * scratch->quarters, err);
    if (result < 0) return result;
  }
  result = put_covered(spec, covered, err);
  if (result < 0) return result;

  if (sys_move_mount(proc_fd, AT_FDCWD, "/proc") < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "move_mount", "/proc of a box");
  return mount_mask_proc(ROOT_EMPTY_DIR, err);
}

static int make_box(const struct box_spec* spec, struct gbx_err* err) {
  /* 1. The cgroup, before everything that costs memory, and before the cgroup
   *    namespace, whose root is the cgroup of that moment: the other way round
   *    the box would see the host's path. */
  int result = join_cgroup(spec, err);
  if (result < 0) return result;
  if (unshare(CLONE_NEWCGROUP) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "unshare", "cgroup namespace");
  /* 2. Mounts, while we have the capabilities for them. */
  result = own_mounts(spec, err);
  if (result < 0) return result;
  /* 3. What else needs capabilities. */
  result = spec->shares_network ? 0 : net_loopback_up(err);
  if (result < 0) return result;
  if (sethostname("glovebox", 8) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "sethostname", "glovebox");
  /* The namespace began as a copy of the host's names. */
  if (setdomainname("(none)", 6) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "setdomainname", "(none)");
  /* Under memory pressure on the host the box goes first. Not a rule of the
   * box, so a kernel that refuses is no reason to stop. */
  (void)fd_write_file(AT_FDCWD, "/proc/self/oom_score_adj", "500");
  return 0;
}

/* What BOX_READY brings, after the listener that the payload sent. */
static int send_ready(const struct box_spec* spec, int socket_fd, pid_t payload,
                      int master_fd, struct gbx_fds* fds, struct gbx_err* err) {
  int pidfd = sys_pidfd_open(payload);
  if (pidfd < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "pidfd_open", "payload");
  fds->fd[fds->count++] = pidfd;
  if (master_fd >= 0) fds->fd[fds->count++] = master_fd;
  /* Its content is of our ipc namespace, wherever it is read. */
  if (!spec->has_cgroup) {
    int shm_fd = open("/proc/sysvipc/shm", O_RDONLY | O_CLOEXEC);
    if (shm_fd >= 0) fds->fd[fds->count++] = shm_fd; /* else: no such memory */
  }
  struct gbx_msg_box_ready ready = {.pid = payload};
  GBX_MSG_INIT(&ready, GBX_M_BOX_READY, 0);
  int result = gbx_msg_send(socket_fd, &ready.head, fds->fd, fds->count);
  gbx_fds_close(fds);
  if (result < 0)
    return gbx_fail(err, GBX_E_INTERNAL, -result, "sendmsg", "BOX_READY");
  return 0;
}

/* It says WAITING itself, so what it says is as good as the interpreter: that
 * of the root, which has seen no code yet. Returns its pid. */
static pid_t await_interpreter(int payload_fd, struct gbx_err* err) {
  union gbx_msg message;
  struct gbx_fds fds;
  int result = gbx_msg_recv(payload_fd, &message, &fds);
  gbx_fds_close(&fds);
  if (result > 0 && message.head.type == GBX_M_WAITING && message.head.id > 1)
    return (pid_t)message.head.id;
  if (result > 0 && message.head.type == GBX_M_FAILED) {
    *err = message.result.err;
    return -1;
  }
  return gbx_fail(err, GBX_E_DIED, ECHILD, "interpreter", "cannot wait");
}

/* What a zygote needs to fork a payload into this box. Permission to enter is
 * the opener's. */
static int send_namespaces(int socket_fd, int payload_fd, struct gbx_err* err) {
  static const char* const names[GBX_NAMESPACES] = {"pid", "net",    "ipc",
                                                    "uts", "cgroup", "mnt"};
  struct gbx_fds fds = {0};
  for (int i = 0; i < GBX_NAMESPACES; i++) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/ns/%s", names[i]);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return gbx_fail(err, GBX_E_SETUP, errno, "open", "%s", path);
    fds.fd[fds.count++] = fd;
  }
  fds.fd[fds.count++] = payload_fd; /* closed with the others */
  struct gbx_msg_head head;
  gbx_msg_head_init(&head, GBX_M_NAMESPACES, sizeof head, 0);
  int result = gbx_msg_send(socket_fd, &head, fds.fd, fds.count);
  gbx_fds_close(&fds);
  if (result < 0)
    return gbx_fail(err, GBX_E_SETUP, -result, "sendmsg", "NAMESPACES");
  return 0;
}

/* Returns the payload's pid, 0 if it is yet to come. Takes `payload_fd`. */
static pid_t fork_payload(const struct box_spec* spec, int socket_fd,
                          int payload_fd, int* ret_master_fd,
                          struct gbx_err* err) {
  if (spec->by_zygote) return send_namespaces(socket_fd, payload_fd, err);
  int slave_fd = -1;
  if (spec->pty &&
      pty_open(spec->columns, spec->rows, ret_master_fd, &slave_fd, err) < 0)
    return -1;
  pid_t pid = fork();
  if (pid < 0) return gbx_fail(err, GBX_E_SETUP, errno, "fork", "payload");
  if (pid == 0) payload_main(spec, payload_fd, slave_fd);
  (void)close(payload_fd);
  fd_close(&slave_fd); /* or the terminal's end would not show */
  return pid;
}

/* Starts the payload and waits until it is set up. Returns its pid; the
 * listener of its filter is sent on with BOX_READY. */
static pid_t start_payload(const struct box_spec* spec, int socket_fd,
                           struct gbx_err* err) {
  int master_fd = -1;
  int work_fd = spec->work_fds[0];
  pid_t pid = fork_payload(spec, socket_fd, spec->work_fds[1], &master_fd, err);
  if (pid < 0) return pid;

  /* From here on nothing of the payload's user may look into us: our memory
   * is a copy of the launcher's. */
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "PR_SET_DUMPABLE", "0");

  union gbx_msg message;
  struct gbx_fds fds;
  int result = gbx_msg_recv(work_fd, &message, &fds);
  if (result <= 0)
    return gbx_fail(err, GBX_E_DIED, ECHILD, "payload", "ended in its set-up");
  if (message.head.type == GBX_M_FAILED) {
    *err = message.result.err;
    return -1;
  }
  if (fds.count > 1)
    return gbx_fail(err, GBX_E_INTERNAL, EBADMSG, "payload",
                    "sent %d descriptors", fds.count);
  if (spec->by_zygote || spec->standby_fd >= 0) {
    pid_t waiting = await_interpreter(work_fd, err);
    if (waiting < 0) return waiting;
    pid = waiting;
  }
  result = send_ready(spec, socket_fd, pid, master_fd, &fds, err);
  if (result < 0) return result;
  return pid;
}

static int attach_workspace(int tree_fd, struct gbx_err* err) {
  if (sys_move_mount(tree_fd, AT_FDCWD, "/workspace") == 0) {
    (void)close(tree_fd);
    return 0;
  }
  /* The place is in every root: what has no name any more cannot be moved. */
  if (errno == ENOENT)
    return gbx_fail(err, GBX_E_WORKSPACE, ESTALE, "workspace",
                    "has been deleted or replaced");
  return gbx_fail(err, GBX_E_SETUP, errno, "move_mount", "/workspace");
}

/* A ready box was made for the default memory limit. */
static int resize_scratch(uint64_t memory_bytes, struct gbx_err* err) {
  for (size_t i = 0; i < GBX_LAYOUT_SCRATCH; i++) {
    const struct gbx_layout_scratch* scratch = &gbx_layout_scratch[i];
    int result = mount_resize_tmpfs(scratch->path, scratch->mode,
                                    memory_bytes / 4 * scratch->quarters, err);
    if (result < 0) return result;
  }
  return 0;
}

/* init's own rights, but for the one that attaching the workspace takes. */
static int give_up_most_rights(struct gbx_err* err) {
  int result = caps_hold((uint64_t)1 << CAP_SYS_ADMIN, err);
  if (result < 0) return result;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "PR_SET_NO_NEW_PRIVS", "init");
  return 0;
}

/* The rest goes before the payload runs. */
static int give_up_rights(const struct box_spec* spec, struct gbx_err* err) {
  int result = caps_drop_all(err);
  if (result < 0) return result;
  return filter_load(spec->init_filter, 0, err);
}

/* Returns the run's number. What the payload said from GO on until it executed,
 * or died. Success is EXECUTING and then the end of the socket, which its exec
 * closes; the end alone means that it died. */
static uint32_t hear_payload(int payload_fd, struct gbx_msg_box_end* end) {
  bool executing = false;
  uint32_t run = 0;
  union gbx_msg message;
  struct gbx_fds fds;
  while (gbx_msg_recv(payload_fd, &message, &fds) > 0) {
    gbx_fds_close(&fds);
    run = message.head.id;
    if (message.head.type == GBX_M_EXECUTING) executing = true;
    if (message.head.type == GBX_M_FAILED) {
      end->err = message.result.err;
      executing = true; /* it said why */
    }
  }
  (void)close(payload_fd);
  if (!executing && end->err.code == GBX_OK)
    (void)gbx_fail(&end->err, GBX_E_DIED, ECHILD, "payload",
                   "ended before it executed");
  return run;
}

static uint64_t microseconds(const struct timeval* time) {
  return (uint64_t)time->tv_sec * 1000000u + (uint64_t)time->tv_usec;
}

/* A payload that a zygote forked is the launcher's to reap, which then ends
 * this box. Orphans are nobody's. */
static void await_end(int launcher_fd) __attribute__((noreturn));
static void await_end(int launcher_fd) {
  union gbx_msg message;
  struct gbx_fds fds;
  while (gbx_msg_recv(launcher_fd, &message, &fds) > 0)
    gbx_fds_close(&fds);
  _exit(127);
}

/* Reaps orphans too, for as long as the payload lives. */
static void reap_until(pid_t payload, struct gbx_msg_box_end* end) {
  for (;;) {
    siginfo_t info;
    if (RETRY(waitid(P_ALL, 0, &info, WEXITED)) < 0) break;
    if (info.si_pid != payload) continue;
    end->wait_code = info.si_code;
    end->wait_status = info.si_status;
    /* All orphans are our children: without one nobody else is left. */
    end->alone = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 &&
                 errno == ECHILD;
    break;
  }
  struct rusage usage;
  if (getrusage(RUSAGE_CHILDREN, &usage) < 0) return;
  uint64_t user_us = microseconds(&usage.ru_utime);
  uint64_t system_us = microseconds(&usage.ru_stime);
  end->usage = (struct gbx_wire_usage){
      .cpu_us = user_us + system_us,
      .cpu_user_us = user_us,
      .cpu_system_us = system_us,
      /* Counted in 512 bytes, whatever the block size is. */
      .read_bytes = (uint64_t)usage.ru_inblock * 512u,
      .written_bytes = (uint64_t)usage.ru_oublock * 512u,
      .max_memory_bytes = (uint64_t)usage.ru_maxrss * 1024u,
      .has_cpu_split = true,
      .has_io = true,
  };
}

/* The launcher's other boxes, its engine and its keeper: a fork has copies of
 * all their descriptors, and as long as it has them their ends do not show. */
static void close_foreign(const struct box_spec* spec, int socket_fd) {
  int keep[GBX_MSG_FDS + 5] = {socket_fd, spec->root->ns_fd, spec->work_fds[0],
                               spec->work_fds[1]};
  int count = 4;
  if (spec->standby_fd >= 0) keep[count++] = spec->standby_fd;
  for (int i = 0; i < spec->procs_count; i++)
    keep[count++] = spec->procs_fd[i];
  if (fd_close_except(keep, count) < 0) _exit(127);
}

/* GO or BIND: the workspace, and no rights from then on. With GO the payload
 * gets its work. */
static void take_workspace(const struct box_spec* spec, int launcher,
                           struct gbx_err* err) {
  union gbx_msg message;
  struct gbx_fds fds;
  if (gbx_msg_recv(launcher, &message, &fds) <= 0) _exit(127);
  bool is_bind = message.head.type == GBX_M_BIND;
  if (!is_bind && message.head.type != GBX_M_GO) _exit(127);
  uint32_t run = message.head.id;
  profile_note(GBX_AT_GO_RECEIVED, run);
  int trees = message.go.mounts != 0 ? 2 : 1;
  int work = is_bind ? 0 : gbx_run_fd_count(message.go.flags);
  if (fds.count < trees + work) {
    (void)gbx_fail(err, GBX_E_SETUP, EMFILE, "recvmsg", "GO");
    die(launcher, err);
  }
  if ((message.go.memory_bytes != spec->limits.memory_bytes &&
       resize_scratch(message.go.memory_bytes, err) < 0) ||
      attach_workspace(gbx_fds_steal(&fds, 0), err) < 0 ||
      (trees > 1 && mounts_attach(fds.fd[1], spec->root, err) < 0))
    die(launcher, err);
  profile_note(GBX_AT_ATTACHED, run);
  if (give_up_rights(spec, err) < 0) die(launcher, err);
  profile_note(GBX_AT_CONFINED, run);
  int result;
  if (is_bind) {
    struct gbx_msg_head bound;
    gbx_msg_head_init(&bound, GBX_M_BOUND, sizeof bound, 0);
    result = gbx_msg_send(launcher, &bound, NULL, 0);
  } else {
    result = gbx_msg_send(spec->work_fds[0], &message.head, fds.fd + trees,
                          fds.count - trees);
  }
  gbx_fds_close(&fds);
  if (result < 0)
    (void)gbx_fail(err, GBX_E_DIED, -result, "payload", "did not wait");
}

void init_main(const struct box_spec* spec, int launcher) {
  struct gbx_msg_box_end end = {0};
  struct gbx_err* err = &end.err;
  close_foreign(spec, launcher);
  if (make_box(spec, err) < 0) die(launcher, err);
  pid_t payload = start_payload(spec, launcher, err);
  if (payload < 0 || give_up_most_rights(err) < 0) die(launcher, err);

  /* Before the filter, which lets nobody say so later: the kernel reaps orphans
   * by itself. */
  if (spec->by_zygote && signal(SIGCHLD, SIG_IGN) == SIG_ERR) _exit(127);
  take_workspace(spec, launcher, err);
  /* All that the payload says before its end can wait until then: to hear it at
   * once would wake us while the program starts. */
  if (!spec->by_zygote) reap_until(payload, &end);
  uint32_t run = hear_payload(spec->work_fds[0], &end);
  if (spec->by_zygote && end.err.code == GBX_OK) await_end(launcher);
  profile_note(GBX_AT_ENDED, run);
  GBX_MSG_INIT(&end, GBX_M_BOX_END, 0);
  (void)gbx_msg_send(launcher, &end.head, NULL, 0); /* or our death tells */
  _exit(0);
}
