/* SPDX-License-Identifier: Apache-2.0 */

/* Theory of operation
 * -------------------
 * Node starts the keeper with posix_spawn and is its parent. It stands outside
 * every namespace of ours, has the rights that Node has, and is the only
 * process that uses them on a box's behalf: id maps, id-mapped trees, cgroup
 * leaves. It starts one child, the launcher, which is pid 1 of a pid namespace
 * that holds every box.
 *
 *   Node dies        the engine's socket ends; the keeper kills the launcher,
 *                    the kernel kills every box with it; then the keeper
 *                    removes leaves and temporary workspaces and exits. So a
 *                    SIGKILL of Node leaves nothing, and no state file or
 *                    daemon is needed to find a box again. An engine that
 *                    lives on says TEMP_FORGET before it closes the socket.
 *   keeper dies      the launcher's parent-death signal kills it and with it
 *                    every box; the next keeper removes the leaves.
 *   launcher dies    the keeper sees its pidfd, cleans up and exits; the
 *                    engine starts both anew with the next call.
 *
 * It has no parent-death signal of its own: it must outlive Node to clean up.
 *
 * Privileges: those of Node's user. Nothing that a box says comes here: the
 * launcher asks for trees of paths that the engine named, and for leaves. */

#include "launcher/keeper.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/fd.h"
#include "common/remove_tree.h"
#include "common/sys.h"
#include "common/wire.h"
#include "launcher/caps.h"
#include "launcher/cgroup.h"
#include "launcher/launcher.h"
#include "launcher/leaves.h"
#include "launcher/tree.h"

/* Box ids of the rooted mode begin here: above every range that useradd, LDAP
 * or systemd hand out, and below 2^31. */
#define BOX_UID_FIRST 1879048192u
#define BOX_UID_COUNT 65536u

struct temp_folder {
  struct temp_folder* next;
  char path[PATH_MAX];
};

struct keeper {
  int engine_fd;
  int launcher_fd;    /* our end of the launcher's requests */
  int launcher_pidfd; /* -1 before it runs */
  pid_t launcher_pid;
  bool rooted;
  uint32_t box_uid; /* in the rooted mode */
  struct cgroup cgroup;
  struct temp_folder* temp_folders;
};

static void send_result(int fd, enum gbx_msg_type type, uint32_t id,
                        const struct gbx_err* err, const struct gbx_fds* fds) {
  struct gbx_msg_result message = {.err = *err};
  GBX_MSG_INIT(&message, type, id);
  /* A peer that is gone shows as the end of its socket. */
  (void)gbx_msg_send(fd, &message.head, fds == NULL ? NULL : fds->fd,
                     fds == NULL ? 0 : fds->count);
}

/* The id that boxes get on the host: one that is mapped in our own user
 * namespace, since a container may map only a few. */
static uint32_t choose_box_uid(void) {
  uint32_t wanted = BOX_UID_FIRST + (uint32_t)getpid() % BOX_UID_COUNT;
  uint32_t highest = 0;
  FILE* file = fopen("/proc/self/uid_map", "re");
  if (file == NULL) return wanted;
  unsigned first, count;
  while (fscanf(file, "%u %*u %u", &first, &count) == 2) {
    if (wanted >= first && wanted - first < count) {
      (void)fclose(file);
      return wanted;
    }
    if (count > 0 && first + count - 1 > highest) highest = first + count - 1;
  }
  (void)fclose(file);
  return highest;
}

/* Whether we can give boxes another id than our own. The root of a user
 * namespace with one id, or one that may not change its groups (`unshare -r`),
 * is a plain user under another name. */
static bool is_rooted(const struct keeper* keeper) {
  char setgroups[16];
  return geteuid() == 0 && caps_can_be_root() && keeper->box_uid != 0 &&
         fd_read_file(AT_FDCWD, "/proc/self/setgroups", setgroups,
                      sizeof setgroups) > 0 &&
         strcmp(setgroups, "allow") == 0;
}

static int write_launcher_maps(const struct keeper* keeper,
                               struct gbx_err* err) {
  char path[64], map[64];
  int result = 0;
  if (!keeper->rooted) {
    /* Without this a gid_map of an unprivileged process is EPERM: it would be
     * a way to drop a group that denies something. */
    (void)snprintf(path, sizeof path, "/proc/%d/setgroups",
                   keeper->launcher_pid);
    result = fd_write_file(AT_FDCWD, path, "deny");
    if (result < 0)
      return gbx_fail(err, GBX_E_START, -result, "setgroups", "deny");
  }
  (void)snprintf(path, sizeof path, "/proc/%d/gid_map", keeper->launcher_pid);
  (void)snprintf(map, sizeof map, "1000 %u 1",
                 keeper->rooted ? keeper->box_uid : getegid());
  result = fd_write_file(AT_FDCWD, path, map);
  if (result < 0)
    return gbx_fail(err, GBX_E_START, -result, "gid_map", "%s", map);
  (void)snprintf(path, sizeof path, "/proc/%d/uid_map", keeper->launcher_pid);
  (void)snprintf(map, sizeof map, "1000 %u 1",
                 keeper->rooted ? keeper->box_uid : geteuid());
  result = fd_write_file(AT_FDCWD, path, map);
  if (result < 0)
    return gbx_fail(err, GBX_E_START, -result, "uid_map", "%s", map);
  return 0;
}

/* In the launcher-to-be: waits for its id maps, puts its two sockets where the
 * launcher looks for them, and goes on there. */
static void child_main(int exe_fd, int engine_fd, int keeper_fd, int go_fd,
                       int rooted) {
  char go;
  if (RETRY(read(go_fd, &go, 1)) != 1) _exit(1); /* the keeper gave up */
  (void)close(go_fd);
  /* Out of the way of the numbers that they get: dup2 clears close-on-exec. */
  int engine = fcntl(engine_fd, F_DUPFD_CLOEXEC, 10);
  int keeper = fcntl(keeper_fd, F_DUPFD_CLOEXEC, 10);
  int exe = fcntl(exe_fd, F_DUPFD_CLOEXEC, 10);
  if (dup2(engine, GBX_FD_ENGINE) < 0 || dup2(keeper, GBX_FD_PEER) < 0)
    _exit(1);
  launcher_enter(exe, rooted);
}

static int start_launcher(struct keeper* keeper, struct gbx_err* err) {
  /* Opened now: from inside its namespaces the launcher may not reach it. */
  cleanup_fd int exe_fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);
  if (exe_fd < 0)
    return gbx_fail(err, GBX_E_START, errno, "open", "/proc/self/exe");
  int pair[2], go[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
    return gbx_fail(err, GBX_E_START, errno, "socketpair", "launcher");
  keeper->launcher_fd = pair[0];
  cleanup_fd int child_fd = pair[1];
  if (pipe2(go, O_CLOEXEC) < 0)
    return gbx_fail(err, GBX_E_START, errno, "pipe2", "launcher");
  cleanup_fd int go_read_fd = go[0];
  cleanup_fd int go_write_fd = go[1];

  /* One call for all three, so that the mount and pid namespaces belong to the
   * new user namespace. */
  struct clone_args args = {
      .flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_PIDFD,
      .pidfd = (uint64_t)(uintptr_t)&keeper->launcher_pidfd,
      .exit_signal = SIGCHLD};
  pid_t pid = sys_clone3(&args);
  if (pid < 0)
    return gbx_fail(err, GBX_E_START, errno, "clone3",
                    "user, mount and pid namespaces");
  if (pid == 0) {
    (void)close(go_write_fd);
    child_main(exe_fd, GBX_FD_PEER, child_fd, go_read_fd, keeper->rooted);
  }
  keeper->launcher_pid = pid;
  int result = write_launcher_maps(keeper, err);
  if (result < 0) return result;
  if (fd_write_all(go_write_fd, "g", 1) < 0)
    return gbx_fail(err, GBX_E_START, EPIPE, "launcher", "ended at once");
  return 0;
}

static void add_temp_folder(struct keeper* keeper, const char* path) {
  struct temp_folder* folder = calloc(1, sizeof *folder);
  if (folder == NULL) return; /* it would then stay if Node is killed */
  (void)snprintf(folder->path, sizeof folder->path, "%s", path);
  folder->next = keeper->temp_folders;
  keeper->temp_folders = folder;
}

static void drop_temp_folder(struct keeper* keeper, const char* path) {
  for (struct temp_folder** at = &keeper->temp_folders; *at != NULL;
       at = &(*at)->next) {
    if (strcmp((*at)->path, path) != 0) continue;
    struct temp_folder* folder = *at;
    *at = folder->next;
    free(folder);
    return;
  }
}

/* Returns false at the end of the engine's socket: Node is gone. */
static bool serve_engine(struct keeper* keeper) {
  union gbx_msg message;
  struct gbx_fds fds;
  int result = gbx_msg_recv(keeper->engine_fd, &message, &fds);
  gbx_fds_close(&fds);
  if (result <= 0) return false;
  message.path.path[sizeof message.path.path - 1] = '\0';
  if (message.head.type == GBX_M_TEMP_ADD)
    add_temp_folder(keeper, message.path.path);
  else if (message.head.type == GBX_M_TEMP_DROP)
    drop_temp_folder(keeper, message.path.path);
  else if (message.head.type == GBX_M_TEMP_FORGET)
    while (keeper->temp_folders != NULL)
      drop_temp_folder(keeper, keeper->temp_folders->path);
  return true;
}

static void answer_tree(struct keeper* keeper, struct gbx_msg_tree* request) {
  struct gbx_err err = {0};
  request->path[sizeof request->path - 1] = '\0';
  int fd;
  switch ((enum gbx_tree_kind)request->kind) {
    case GBX_TREE_WORKSPACE:
      fd = tree_open_workspace(request->path, request->dev, request->ino,
                               request->temporary != 0, keeper->box_uid, &err);
      break;
    case GBX_TREE_MOUNT:
      fd = tree_open_mount(request, keeper->box_uid, &err);
      break;
    case GBX_TREE_ROOT_PART:
    default:
      fd = tree_open_root_part(request->path, &err);
      break;
  }
  struct gbx_fds fds = {.count = fd < 0 ? 0 : 1, .fd = {fd}};
  send_result(keeper->launcher_fd, GBX_M_DONE, request->head.id, &err, &fds);
  gbx_fds_close(&fds);
}

static void answer_leaf(struct keeper* keeper,
                        const struct gbx_msg_leaf* request) {
  struct cgroup_leaf leaf = {0};
  struct gbx_msg_leaf_made made = {0};
  if (request->head.type == GBX_M_LEAF_MAKE)
    (void)leaves_make(&keeper->cgroup, request->head.id, &request->limits,
                      &leaf, &made.err); /* the answer carries it */
  else
    (void)leaves_set_limits(&keeper->cgroup, request->head.id, &request->limits,
                            &made.err); /* the same */
  made.has = leaf.has;
  made.is_folder = leaf.is_folder;
  GBX_MSG_INIT(&made, GBX_M_DONE, request->head.id);
  /* A launcher that is gone shows as the end of its socket. */
  (void)gbx_msg_send(keeper->launcher_fd, &made.head, leaf.fds.fd,
                     leaf.fds.count);
  leaves_sent(request->head.id, &leaf);
}

/* Returns false when the launcher is gone. */
static bool serve_launcher(struct keeper* keeper) {
  union gbx_msg message;
  struct gbx_fds fds;
  if (gbx_msg_recv(keeper->launcher_fd, &message, &fds) <= 0) return false;
  gbx_fds_close(&fds); /* none of its requests has any */
  if (message.head.type == GBX_M_TREE)
    answer_tree(keeper, &message.tree);
  else if (message.head.type == GBX_M_LEAF_MAKE ||
           message.head.type == GBX_M_LEAF_SET)
    answer_leaf(keeper, &message.leaf);
  else if (message.head.type == GBX_M_LEAF_DROP)
    leaves_drop(&keeper->cgroup, message.head.id);
  return true;
}

static void serve(struct keeper* keeper) {
  for (;;) {
    struct pollfd polled[] = {
        {.fd = keeper->engine_fd, .events = POLLIN},
        {.fd = keeper->launcher_fd, .events = POLLIN},
        {.fd = keeper->launcher_pidfd, .events = POLLIN},
    };
    int timeout = leaves_are_many() ? LEAVES_IDLE_MS : -1;
    int count = (int)RETRY(poll(polled, 3, timeout));
    if (count < 0) return;
    if (count == 0) leaves_trim(&keeper->cgroup);
    if (polled[2].revents != 0) return;
    if (polled[1].revents != 0 && !serve_launcher(keeper)) return;
    if (polled[0].revents != 0 && !serve_engine(keeper)) return;
  }
}

/* Kills the launcher, which takes every box with it, and only then removes
 * what the boxes used. */
static void clean_up(struct keeper* keeper) {
  if (keeper->launcher_pidfd >= 0) {
    (void)sys_pidfd_kill(keeper->launcher_pidfd, SIGKILL); /* or it is dead */
    (void)RETRY(waitpid(keeper->launcher_pid, NULL, 0));
  }
  cgroup_remove_all(&keeper->cgroup);
  /* If it was the launcher that ended first, its sessions go on in the next
   * one, and the engine is about to say so; or Node is dying, whose sockets the
   * kernel closes one after the other. Either way this one ends. */
  struct pollfd polled = {.fd = keeper->engine_fd, .events = POLLIN};
  do {
    if (RETRY(poll(&polled, 1, -1)) < 0) return;
  } while (serve_engine(keeper));
  while (keeper->temp_folders != NULL) {
    struct temp_folder* folder = keeper->temp_folders;
    keeper->temp_folders = folder->next;
    /* Nobody is left to tell of a failure. */
    (void)gbx_remove_tree(AT_FDCWD, folder->path, NULL);
    free(folder);
  }
}

static int prepare(struct gbx_err* err) {
  /* Whatever the host process had open without close-on-exec ends here. */
  if (sys_close_range(GBX_FD_PEER + 1, ~0u, 0) < 0)
    return gbx_fail(err, GBX_E_START, errno, "close_range", "keeper");
  (void)fcntl(GBX_FD_ENGINE, F_SETFD, FD_CLOEXEC); /* open, or recv fails */
  (void)fcntl(GBX_FD_PEER, F_SETFD, FD_CLOEXEC);
  (void)umask(022);
  if (chdir("/") < 0) /* keep no folder of the host busy */
    return gbx_fail(err, GBX_E_START, errno, "chdir", "/");
  /* A thousand boxes have some thousand descriptors in the launcher. */
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
  }
  return 0;
}

int keeper_main(const char* node_pid) {
  struct keeper keeper = {.engine_fd = GBX_FD_ENGINE,
                          .launcher_fd = -1,
                          .launcher_pidfd = -1,
                          .box_uid = choose_box_uid()};
  struct gbx_err err = {0};
  bool is_prepared = prepare(&err) == 0;
  keeper.rooted = is_rooted(&keeper);
  if (!keeper.rooted) keeper.box_uid = 0;
  /* Before there is a launcher, which is to be in the same cgroup as we are. */
  cgroup_probe(&keeper.cgroup, node_pid, keeper.rooted);
  if (!is_prepared || start_launcher(&keeper, &err) < 0) {
    send_result(keeper.engine_fd, GBX_M_FAILED, 0, &err, NULL);
    clean_up(&keeper);
    return 1;
  }
  (void)close(GBX_FD_PEER); /* the launcher has it: its end must be seen */
  struct gbx_msg_keeper_up up = {.controllers = keeper.cgroup.controllers};
  GBX_MSG_INIT(&up, GBX_M_KEEPER_UP, 0);
  if (gbx_msg_send(keeper.engine_fd, &up.head, NULL, 0) == 0) serve(&keeper);
  clean_up(&keeper);
  return 0;
}
