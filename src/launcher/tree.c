/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/tree.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "common/fd.h"
#include "common/host_rules.h"
#include "common/sys.h"
#include "launcher/mount.h"

/* Where the host's mount is shared (systemd makes all of them so), its clone is
 * a peer: what the host mounts below it later would appear in boxes, writable
 * and with setuid programs and devices, and a box that could mount would mount
 * on the host. */
#define PROPAGATION MS_PRIVATE

int tree_open_root_part(const char* path, struct gbx_err* err) {
  cleanup_fd int fd = mount_clone_tree(path, err);
  if (fd < 0) return fd;
  struct sys_mount_attr attr = {
      .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
      .propagation = PROPAGATION};
  if (sys_mount_setattr(fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "mount_setattr", "%s", path);
  return fd_steal(&fd);
}

/* Writes "<inside> <outside> 1" as both id maps of process `pid`. */
static int write_maps(pid_t pid, uint32_t inside_uid, uint32_t inside_gid,
                      uint32_t outside) {
  char path[64], map[64];
  (void)snprintf(path, sizeof path, "/proc/%d/gid_map", pid);
  (void)snprintf(map, sizeof map, "%u %u 1", inside_gid, outside);
  int result = fd_write_file(AT_FDCWD, path, map);
  if (result < 0) return result;
  (void)snprintf(path, sizeof path, "/proc/%d/uid_map", pid);
  (void)snprintf(map, sizeof map, "%u %u 1", inside_uid, outside);
  return fd_write_file(AT_FDCWD, path, map);
}

/* An id map for a mount is given as a user namespace, and a user namespace
 * needs a process for the moment in which it is made. Returns a descriptor of
 * the namespace that maps the owner to box_uid. */
static int open_idmap(uint32_t uid, uint32_t gid, uint32_t box_uid,
                      struct gbx_err* err) {
  int pidfd = -1;
  struct clone_args args = {.flags = CLONE_NEWUSER | CLONE_PIDFD,
                            .pidfd = (uint64_t)(uintptr_t)&pidfd,
                            .exit_signal = SIGCHLD};
  pid_t keeper = getpid();
  pid_t pid = sys_clone3(&args);
  if (pid < 0) return gbx_fail(err, GBX_E_WORKSPACE, errno, "clone3", "id map");
  if (pid == 0) {
    /* Should the keeper be killed now, nobody would end this process. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    while (getppid() == keeper)
      (void)pause();
    _exit(1);
  }
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
  int result = write_maps(pid, uid, gid, box_uid);
  int fd = result < 0 ? result : open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 && result == 0) result = -errno;
  (void)sys_pidfd_kill(pidfd, SIGKILL); /* our own child: cannot fail */
  (void)RETRY(waitpid(pid, NULL, 0));
  (void)close(pidfd);
  if (result < 0)
    return gbx_fail(err, GBX_E_WORKSPACE, -result, "id map", "owner %u:%u", uid,
                    gid);
  return fd;
}

/* The last one: it takes a process to make, and what a session has mostly
 * belongs to one owner. Ours is the only box_uid. */
static struct {
  int fd;
  uint32_t uid, gid;
} last_map = {.fd = -1};

static int use_idmap(const struct stat* owner, uint32_t box_uid,
                     struct gbx_err* err) {
  if (last_map.fd >= 0 && last_map.uid == owner->st_uid &&
      last_map.gid == owner->st_gid)
    return last_map.fd;
  int fd = open_idmap(owner->st_uid, owner->st_gid, box_uid, err);
  if (fd < 0) return fd;
  fd_close(&last_map.fd);
  last_map.fd = fd;
  last_map.uid = owner->st_uid;
  last_map.gid = owner->st_gid;
  return fd;
}

static int map_ids(int tree_fd, const struct stat* owner, uint32_t box_uid,
                   struct gbx_err* err) {
  int map_fd = use_idmap(owner, box_uid, err);
  if (map_fd < 0) return map_fd;
  struct sys_mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP,
                                .userns_fd = (uint64_t)map_fd};
  if (sys_mount_setattr(tree_fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr) < 0)
    return gbx_fail(err, GBX_E_WORKSPACE, errno, "mount_setattr",
                    "id-mapped mount of the workspace");
  return 0;
}

int tree_open_workspace(const char* path, uint64_t dev, uint64_t ino,
                        bool temporary, uint32_t box_uid, struct gbx_err* err) {
  cleanup_fd int fd = mount_clone_tree(path, err);
  if (fd < 0) {
    if (err != NULL) err->code = GBX_E_WORKSPACE;
    return fd;
  }
  /* The engine looked at the folder before it sent the path; what lies there
   * now must be the same. */
  struct stat info;
  if (fstat(fd, &info) < 0)
    return gbx_fail(err, GBX_E_WORKSPACE, errno, "fstat", "%s", path);
  if (!S_ISDIR(info.st_mode) || info.st_dev != dev || info.st_ino != ino)
    return gbx_fail(err, GBX_E_WORKSPACE, ESTALE, "workspace",
                    "%s was replaced, or lies on a mount that cannot be seen",
                    path);
  struct sys_mount_attr attr = {
      .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
      .propagation = PROPAGATION};
  if (sys_mount_setattr(fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr) < 0)
    return gbx_fail(err, GBX_E_WORKSPACE, errno, "mount_setattr", "%s", path);
  if (box_uid == 0 || info.st_uid == box_uid) return fd_steal(&fd);

  int result = map_ids(fd, &info, box_uid, temporary ? NULL : err);
  if (result < 0 && temporary) {
    /* Not every file system can map ids (tmpfs since 6.3). Nobody else has
     * seen a temporary workspace yet, so it may as well belong to the box. By
     * its descriptor: what lies at the path may have changed. */
    if (fchownat(fd, "", box_uid, box_uid, AT_EMPTY_PATH) < 0)
      return gbx_fail(err, GBX_E_WORKSPACE, errno, "fchownat", "%s", path);
    result = 0;
  }
  return result < 0 ? result : fd_steal(&fd);
}

/* ---- Mounts -------------------------------------------------------------- */

static int judge(int fd, const struct gbx_msg_tree* request,
                 struct gbx_err* err) {
  const struct gbx_host_user user = {.home = request->user.home,
                                     .temp_dir = request->user.temp_dir};
  struct gbx_host_refusal refusal;
  int result = gbx_host_judge(
      fd, request->writable ? GBX_USE_WRITE : GBX_USE_READ, &user, &refusal);
  if (result < 0)
    return gbx_fail(err, GBX_E_MOUNT, -result, "mount", "cannot be judged: %s",
                    request->path);
  if (result == 1)
    return gbx_fail(err, GBX_E_MOUNT_REFUSED, EPERM, "mount", "%s %s: %s",
                    refusal.rule, refusal.words, request->path);
  return 0;
}

int tree_open_mount(struct gbx_msg_tree* request, uint32_t box_uid,
                    struct gbx_err* err) {
  request->path[sizeof request->path - 1] = '\0';
  request->user.home[sizeof request->user.home - 1] = '\0';
  request->user.temp_dir[sizeof request->user.temp_dir - 1] = '\0';
  cleanup_fd int fd = sys_open_unlinked(request->path);
  struct stat info;
  if (fd < 0 || fstat(fd, &info) < 0)
    return gbx_fail(err, GBX_E_MOUNT, errno, "mount", "cannot be opened: %s",
                    request->path);
  if (info.st_dev != request->dev || info.st_ino != request->ino)
    return gbx_fail(err, GBX_E_MOUNT, ESTALE, "mount",
                    "was replaced, or lies on a mount that cannot be seen: %s",
                    request->path);
  /* Of the descriptor that is judged, and before it is: what is mounted in it
   * from now on is in no box. */
  cleanup_fd int tree_fd = sys_open_tree(
      fd, "",
      OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH);
  if (tree_fd < 0)
    return gbx_fail(err, GBX_E_MOUNT, errno, "mount", "cannot be cloned: %s",
                    request->path);
  struct sys_mount_attr attr = {
      .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                  (request->writable ? 0 : MOUNT_ATTR_RDONLY),
      .propagation = PROPAGATION};
  if (sys_mount_setattr(tree_fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr) < 0)
    return gbx_fail(err, GBX_E_MOUNT, errno, "mount", "cannot be made %s: %s",
                    request->writable ? "safe" : "read-only", request->path);
  int result = judge(fd, request, err);
  if (result < 0) return result;
  if (box_uid == 0 || info.st_uid == box_uid) return fd_steal(&tree_fd);

  struct gbx_err map_err = {0};
  result = map_ids(tree_fd, &info, box_uid, &map_err);
  /* What everybody may read a box can read all the same. */
  if (result < 0 && request->writable)
    return gbx_fail(err, GBX_E_MOUNT, -result, "id map",
                    "cannot be given to the box's user: %s", request->path);
  return fd_steal(&tree_fd);
}
