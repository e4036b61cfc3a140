/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/shelf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/sys.h"
#include "launcher/keeper_client.h"
#include "launcher/mount.h"
#include "launcher/tree.h"

static void place_of(uint32_t id, char* ret_path, size_t size) {
  (void)snprintf(ret_path, size, SHELF_PATH "/%u", id);
}

static int open_workspace(const struct gbx_msg_workspace* request, bool rooted,
                          struct gbx_err* err) {
  if (!rooted)
    return tree_open_workspace(request->path, request->dev, request->ino,
                               request->temporary != 0, 0, err);
  struct gbx_msg_tree ask = {.kind = GBX_TREE_WORKSPACE,
                             .temporary = request->temporary,
                             .dev = request->dev,
                             .ino = request->ino};
  (void)snprintf(ask.path, sizeof ask.path, "%s", request->path);
  GBX_MSG_INIT(&ask, GBX_M_TREE, 0);
  return keeper_ask_for_tree(&ask.head, err);
}

int shelf_add(struct gbx_msg_workspace* request, bool rooted,
              struct gbx_err* err) {
  char path[64];
  request->path[sizeof request->path - 1] = '\0';
  place_of(request->head.id, path, sizeof path);
  cleanup_fd int tree_fd = open_workspace(request, rooted, err);
  if (tree_fd < 0) return tree_fd;
  if (mkdir(path, 0700) < 0)
    return gbx_fail(err, GBX_E_WORKSPACE, errno, "mkdir", "%s", path);
  if (sys_move_mount(tree_fd, AT_FDCWD, path) == 0) return 0;
  int result = gbx_fail(err, GBX_E_WORKSPACE, errno, "move_mount", "%s", path);
  (void)rmdir(path); /* empty, and ours */
  return result;
}

void shelf_drop(uint32_t id) {
  char path[64];
  place_of(id, path, sizeof path);
  /* Its boxes are gone; a busy one would go with us. */
  if (umount2(path, MNT_DETACH) == 0) (void)rmdir(path);
}

bool shelf_has(uint32_t id) {
  char path[64];
  place_of(id, path, sizeof path);
  return access(path, F_OK) == 0;
}

bool shelf_is_lost(uint32_t id) {
  char path[64];
  struct stat info;
  place_of(id, path, sizeof path);
  return stat(path, &info) == 0 && info.st_nlink == 0;
}

int shelf_clone(uint32_t id, struct gbx_err* err) {
  char path[64];
  place_of(id, path, sizeof path);
  return mount_clone_tree(path, err);
}
