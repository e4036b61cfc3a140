/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/mounts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "common/fd.h"
#include "common/sys.h"
#include "launcher/keeper_client.h"
#include "launcher/mount.h"
#include "launcher/shelf.h"
#include "launcher/tree.h"

/* Names of up to GBX_MOUNTS_MAX places; each takes an inode of the shelf. */
#define SHELF_BYTES (GBX_MOUNTS_MAX * 4096)

static void shelf_of(uint32_t session, char* ret_path, size_t size) {
  (void)snprintf(ret_path, size, SHELF_PATH "/%u-mounts", session);
}

static int open_one(const struct gbx_wire_mount* mount,
                    const struct gbx_wire_user* user, bool rooted,
                    struct gbx_err* err) {
  struct gbx_msg_tree ask = {.kind = GBX_TREE_MOUNT,
                             .writable = mount->writable,
                             .dev = mount->dev,
                             .ino = mount->ino,
                             .user = *user};
  (void)snprintf(ask.path, sizeof ask.path, "%.*s", PATH_MAX - 1,
                 mount->source);
  GBX_MSG_INIT(&ask, GBX_M_TREE, 0);
  return rooted ? keeper_ask_for_tree(&ask.head, err)
                : tree_open_mount(&ask, 0, err);
}

/* A mount goes on what is like it: a folder or a file. */
static int make_place(const char* path, bool is_file, struct gbx_err* err) {
  int fd = is_file ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)
                   : mkdir(path, 0700);
  if (fd < 0) return gbx_fail(err, GBX_E_MOUNT, errno, "shelf", "%s", path);
  if (is_file) (void)close(fd);
  return 0;
}

static int shelve_one(const char* shelf, uint32_t index,
                      const struct gbx_wire_mount* mount,
                      const struct gbx_wire_user* user, bool rooted,
                      struct gbx_err* err) {
  cleanup_fd int tree_fd = open_one(mount, user, rooted, err);
  if (tree_fd < 0) return tree_fd;
  char path[80];
  (void)snprintf(path, sizeof path, "%s/%u", shelf, index);
  int result = make_place(path, mount->is_file != 0, err);
  if (result < 0) return result;
  if (sys_move_mount(tree_fd, AT_FDCWD, path) < 0)
    return gbx_fail(err, GBX_E_MOUNT, errno, "move_mount", "%s", path);
  return 0;
}

/* Says of which mount the error speaks. */
static void add_index(struct gbx_err* err, uint32_t index) {
  char detail[sizeof err->detail];
  memcpy(detail, err->detail, sizeof detail);
  (void)snprintf(err->detail, sizeof err->detail, "%u %.180s", index, detail);
}

int mounts_shelve(const struct gbx_msg_workspace* request, int list_fd,
                  bool rooted, struct gbx_err* err) {
  if (list_fd < 0)
    return gbx_fail(err, GBX_E_SETUP, EMFILE, "recvmsg", "mounts");
  struct stat info;
  size_t size = request->mounts * sizeof(struct gbx_wire_mount);
  if (request->mounts > GBX_MOUNTS_MAX || fstat(list_fd, &info) < 0 ||
      info.st_size != (off_t)size)
    return gbx_fail(err, GBX_E_INTERNAL, EBADMSG, "mounts", "%u of them",
                    request->mounts);
  const struct gbx_wire_mount* list =
      mmap(NULL, size, PROT_READ, MAP_PRIVATE, list_fd, 0);
  if (list == MAP_FAILED)
    return gbx_fail(err, GBX_E_NO_MEMORY, errno, "mmap", "mounts");
  char shelf[64];
  shelf_of(request->head.id, shelf, sizeof shelf);
  int result = mkdir(shelf, 0700) < 0
                   ? gbx_fail(err, GBX_E_MOUNT, errno, "mkdir", "%s", shelf)
                   : mount_tmpfs(shelf, 0700, SHELF_BYTES, err);
  for (uint32_t i = 0; result == 0 && i < request->mounts; i++) {
    result = shelve_one(shelf, i, &list[i], &request->user, rooted, err);
    if (result < 0 &&
        (err->code == GBX_E_MOUNT || err->code == GBX_E_MOUNT_REFUSED))
      add_index(err, i);
  }
  (void)munmap((void*)list, size);
  if (result < 0) mounts_drop(request->head.id);
  return result;
}

void mounts_drop(uint32_t session) {
  char shelf[64];
  shelf_of(session, shelf, sizeof shelf);
  /* What is mounted on it goes with it. ENOENT: it had none. */
  (void)umount2(shelf, MNT_DETACH);
  (void)rmdir(shelf);
}

int mounts_clone(uint32_t session, struct gbx_err* err) {
  char shelf[64];
  shelf_of(session, shelf, sizeof shelf);
  return mount_clone_tree(shelf, err);
}

/* ---- In init ------------------------------------------------------------- */

/* Nothing is followed: what the target is in may be a mount that other boxes
 * write to. */
static int attach_one(const char* from, const char* target,
                      struct gbx_err* err) {
  cleanup_fd int fd = sys_open_unlinked(target);
  if (fd < 0)
    return gbx_fail(err, GBX_E_MOUNT, errno, "mount target", "%s", target);
  if (sys_move_mounted(from, fd) == 0) return 0;
  /* Both are there: what has no name any more cannot be moved. */
  if (errno == ENOENT)
    return gbx_fail(err, GBX_E_MOUNT, ESTALE, "mount target",
                    "has lost its source, which was deleted or replaced: %s",
                    target);
  return gbx_fail(err, GBX_E_MOUNT, errno, "mount target", "%s", target);
}

int mounts_attach(int tree_fd, const struct root_image* image,
                  struct gbx_err* err) {
  /* A detached tree cannot be taken apart: it lies here for the moment. The
   * folder is empty, and no code runs yet that could look into it. */
  if (sys_move_mount(tree_fd, AT_FDCWD, ROOT_EMPTY_DIR) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "move_mount", "mounts");
  int result = 0, index = 0;
  for (const char* target = image->mounts;
       result == 0 && target != NULL && *target != '\0';
       target += strlen(target) + 1, index++) {
    char from[64];
    (void)snprintf(from, sizeof from, ROOT_EMPTY_DIR "/%d", index);
    result = attach_one(from, target, err);
  }
  if (umount2(ROOT_EMPTY_DIR, MNT_DETACH) < 0 && result == 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "umount2", "mounts");
  return result;
}
