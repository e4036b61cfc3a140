/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "common/fd.h"
#include "common/layout.h"

static int mount_tmpfs_with(const char* path, unsigned mode,
                            uint64_t size_bytes, unsigned long flags,
                            struct gbx_err* err) {
  char options[96];
  /* An inode costs about a KiB of kernel memory, so their number is capped
   * with the bytes: one for each 4 KiB. 0 lifts both. */
  uint64_t inodes = size_bytes == 0 ? 0 : size_bytes / 4096 + 16;
  (void)snprintf(options, sizeof options, "mode=%o,size=%llu,nr_inodes=%llu",
                 mode, (unsigned long long)size_bytes,
                 (unsigned long long)inodes);
  if (mount("tmpfs", path, "tmpfs", flags | MS_NOSUID | MS_NODEV, options) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "mount tmpfs", "%s", path);
  return 0;
}

int mount_tmpfs(const char* path, unsigned mode, uint64_t size_bytes,
                struct gbx_err* err) {
  return mount_tmpfs_with(path, mode, size_bytes, 0, err);
}

int mount_resize_tmpfs(const char* path, unsigned mode, uint64_t size_bytes,
                       struct gbx_err* err) {
  return mount_tmpfs_with(path, mode, size_bytes, MS_REMOUNT, err);
}

int mount_add_flags(const char* path, uint64_t flags, bool recursive,
                    struct gbx_err* err) {
  struct sys_mount_attr attr = {.attr_set = flags};
  if (sys_mount_setattr(AT_FDCWD, path, recursive ? AT_RECURSIVE : 0, &attr) <
      0)
    return gbx_fail(err, GBX_E_SETUP, errno, "mount_setattr", "%s", path);
  return 0;
}

int mount_clone_tree(const char* path, struct gbx_err* err) {
  int fd = sys_open_tree(
      AT_FDCWD, path,
      OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW);
  if (fd < 0) return gbx_fail(err, GBX_E_SETUP, errno, "open_tree", "%s", path);
  return fd;
}

int mount_open_proc(struct gbx_err* err) {
  cleanup_fd int fs_fd = sys_fsopen("proc");
  if (fs_fd < 0 || sys_fsconfig_create(fs_fd) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "fsopen", "proc of a box");
  int fd = sys_fsmount(
      fs_fd, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
  if (fd < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "fsmount", "proc of a box");
  return fd;
}

/* What this kernel does not have need not be hidden. Every other failure would
 * leave a hole, so it ends the box; also ENOENT, where it is `under` that is
 * missing. */
static int hide(const char* path, const char* under, struct gbx_err* err) {
  if (mount(under, path, NULL, MS_BIND, NULL) == 0) return 0;
  int error = errno;
  if (error == ENOENT && access(path, F_OK) < 0 && errno == ENOENT) return 0;
  return gbx_fail(err, GBX_E_SETUP, error, "mask", "%s", path);
}

int mount_mask_proc(const char* empty_dir, struct gbx_err* err) {
  for (const char* const* at = gbx_layout_hidden_files; *at != NULL; at++) {
    int result = hide(*at, "/dev/null", err);
    if (result < 0) return result;
  }
  for (const char* const* at = gbx_layout_hidden_dirs; *at != NULL; at++) {
    int result = hide(*at, empty_dir, err);
    if (result < 0) return result;
  }
  for (const char* const* at = gbx_layout_read_only_dirs; *at != NULL; at++) {
    const char* path = *at;
    if (mount(path, path, NULL, MS_BIND, NULL) < 0) {
      /* /proc/sys is everywhere; that it is not could only be a trick. */
      if (errno == ENOENT && strcmp(path, "/proc/sys") != 0) continue;
      return gbx_fail(err, GBX_E_SETUP, errno, "mask", "%s", path);
    }
    int result = mount_add_flags(path,
                                 MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
                                     MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
                                 false, err);
    if (result < 0) return result;
  }
  return 0;
}
