/* SPDX-License-Identifier: Apache-2.0 */

/* What changes names in a workspace and not content: the last part of a path is
 * looked at in its folder, which was opened beneath, so one that a box swaps
 * for a symlink is that symlink and never what it leads to. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fd.h"
#include "common/remove_tree.h"
#include "engine/workspace.h"
#include "engine/writer.h"

static int fail_path(const char* op, const char* path, int sys_errno,
                     struct gbx_err* err) {
  return gbx_fail(err, gbx__beneath_code(sys_errno), sys_errno, op, "%s", path);
}

/* Opens the folder that `path` lies in. `clean` gets the path, *ret_name points
 * into it. */
static int open_parent(const struct gbx__workspace* workspace, const char* op,
                       const char* path, char clean[GBX__PATH_SIZE],
                       const char** ret_name, struct gbx_err* err) {
  int result = gbx__beneath_clean(path, false, clean, err);
  if (result < 0) return result;
  char* slash = strrchr(clean, '/');
  *ret_name = slash == NULL ? clean : slash + 1;
  if (slash != NULL) *slash = '\0';
  int fd = gbx__beneath_open(workspace->fd, slash == NULL ? "." : clean,
                             O_PATH | O_DIRECTORY, 0);
  if (slash != NULL) *slash = '/';
  return fd < 0 ? fail_path(op, path, -fd, err) : fd;
}

static enum gbx_file_type type_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return GBX_FILE;
    case S_IFDIR:
      return GBX_FOLDER;
    case S_IFLNK:
      return GBX_SYMLINK;
    default:
      return GBX_OTHER;
  }
}

int gbx__workspace_stat(const struct gbx__workspace* workspace,
                        const char* path, struct gbx_file_entry* ret_entry,
                        struct gbx_err* err) {
  char clean[GBX__PATH_SIZE];
  const char* name;
  struct stat st;
  cleanup_fd int fd = open_parent(workspace, "stat", path, clean, &name, err);
  if (fd < 0) return fd;
  if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
    return fail_path("stat", path, errno, err);
  int64_t mtime_ns;
  if (__builtin_mul_overflow(st.st_mtim.tv_sec, INT64_C(1000000000),
                             &mtime_ns) ||
      __builtin_add_overflow(mtime_ns, st.st_mtim.tv_nsec, &mtime_ns))
    mtime_ns = st.st_mtim.tv_sec < 0 ? INT64_MIN : INT64_MAX;
  *ret_entry = (struct gbx_file_entry){
      .path = path,
      .size = S_ISDIR(st.st_mode) ? 0 : (uint64_t)st.st_size,
      .mtime_ns = mtime_ns,
      .type = type_of(st.st_mode),
      .mode = st.st_mode & 07777};
  return 0;
}

int gbx__workspace_mkdir(const struct gbx__workspace* workspace,
                         const char* path, struct gbx_err* err) {
  char clean[GBX__PATH_SIZE];
  struct gbx__writer writer;
  int result = gbx__beneath_clean(path, false, clean, err);
  if (result == 0) result = gbx__writer_init(&writer, workspace, err);
  if (result < 0) return result;
  cleanup_fd int fd = gbx__writer_open_folder(&writer, clean);
  if (fd >= 0) return 0;
  return fail_path("mkdir", path, fd == -ENOTDIR ? EEXIST : -fd, err);
}

static bool lies_below(const char* path, const char* folder) {
  size_t size = strlen(folder);
  return strncmp(path, folder, size) == 0 && path[size] == '/';
}

int gbx__workspace_rename(const struct gbx__workspace* workspace,
                          const char* from, const char* to,
                          struct gbx_err* err) {
  char clean[GBX__PATH_SIZE], clean_to[GBX__PATH_SIZE];
  const char *name, *name_to;
  struct gbx__writer writer;
  struct stat st;
  cleanup_fd int fd = open_parent(workspace, "rename", from, clean, &name, err);
  if (fd < 0) return fd;
  /* Both before folders are made for it. */
  if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
    return fail_path("rename", from, errno, err);
  int result = gbx__beneath_clean(to, false, clean_to, err);
  if (result == 0 && lies_below(clean_to, clean))
    return gbx_fail(err, GBX_E_PATH, EINVAL, "rename",
                    "lies below what is to be moved: %s", to);
  if (result == 0) result = gbx__writer_init(&writer, workspace, err);
  if (result < 0) return result;
  cleanup_fd int fd_to =
      gbx__writer_open_parent(&writer, clean_to, &name_to, err);
  if (fd_to < 0) return fd_to;
  /* Whether it replaces a file, the kernel decides; a folder it never does. */
  if (fstatat(fd_to, name_to, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
      S_ISDIR(st.st_mode) && strcmp(clean, clean_to) != 0)
    return fail_path("rename", to, EEXIST, err);
  if (renameat(fd, name, fd_to, name_to) == 0) return 0;
  int sys_errno = errno;
  if (sys_errno == ENOTDIR || sys_errno == EISDIR || sys_errno == ENOTEMPTY)
    sys_errno = EEXIST;
  return fail_path("rename", to, sys_errno, err);
}

int gbx__workspace_remove_entry(const struct gbx__workspace* workspace,
                                const char* path, bool recursive,
                                struct gbx_err* err) {
  char clean[GBX__PATH_SIZE];
  const char* name;
  struct stat st;
  cleanup_fd int fd = open_parent(workspace, "rm", path, clean, &name, err);
  if (fd < 0) return fd;
  if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
    return fail_path("rm", path, errno, err);
  if (!S_ISDIR(st.st_mode)) {
    if (unlinkat(fd, name, 0) == 0) return 0;
    return fail_path("rm", path, errno, err);
  }
  if (!recursive)
    return gbx_fail(err, GBX_E_NOT_REGULAR, EISDIR, "rm", "%s", clean);
  return gbx_remove_tree(fd, name, err);
}
