/* SPDX-License-Identifier: Apache-2.0 */

/* The folder itself: making, choosing, refusing and removing it. Paths that
 * lead here are the caller's, not a box's, and are followed as usual. */

#include "engine/workspace.h"

#include <dirent.h>
#include <limits.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "common/fd.h"
#include "common/host_rules.h"
#include "common/remove_tree.h"
#include "engine/beneath.h"

/* The rule comes first, for the detail may cut a long path. */
static int refuse(struct gbx_err* err, int sys_errno, const char* path,
                  const char* rule) {
  return gbx_fail(err, GBX_E_WORKSPACE, sys_errno, "workspace", "%s: %s", rule,
                  path);
}

static int refuse_unusable(struct gbx_err* err, int sys_errno,
                           const char* path) {
  return refuse(err, sys_errno, path, "cannot be read, written and searched");
}

/* Without it nothing in the workspace can be reached safely. That is said here,
 * once, and not by the first file that is written. */
static int check_openat2(int fd, struct gbx_err* err) {
  cleanup_fd int self_fd = gbx__beneath_open(fd, ".", O_PATH | O_DIRECTORY, 0);
  /* EPERM is how an outer container's filter refuses what it does not know. */
  if (self_fd == -ENOSYS || self_fd == -EPERM)
    return gbx_fail(err, GBX_E_UNSUPPORTED, -self_fd, "openat2", "Linux 5.6");
  return 0;
}

/* Fills `workspace` for the open folder at `path`. Takes *fd if it succeeds. */
static int describe(struct gbx__workspace* workspace, const char* path, int* fd,
                    struct gbx_err* err) {
  struct stat st, st_at_path;
  if (fstat(*fd, &st) < 0)
    return gbx_fail(err, GBX_E_WORKSPACE, errno, "fstat", "%s", path);
  int result = check_openat2(*fd, err);
  if (result < 0) return result;
  char real[PATH_MAX];
  if (realpath(path, real) == NULL)
    return gbx_fail(err, GBX_E_WORKSPACE, errno, "realpath", "%s", path);
  /* The keeper goes by the path, and checks once more that it leads here. */
  if (lstat(real, &st_at_path) < 0 || st_at_path.st_dev != st.st_dev ||
      st_at_path.st_ino != st.st_ino)
    return refuse(err, ESTALE, path, "replaced meanwhile");
  *workspace = (struct gbx__workspace){.dev = st.st_dev,
                                       .ino = st.st_ino,
                                       .uid = st.st_uid,
                                       .gid = st.st_gid,
                                       .fd = fd_steal(fd)};
  memcpy(workspace->path, real, strlen(real) + 1);
  return 0;
}

/* ---- Which folders are refused --------------------------------------------
 */

static int report(int judgement, const struct gbx_host_refusal* refusal,
                  const char* path, struct gbx_err* err) {
  if (judgement < 0) return refuse_unusable(err, -judgement, path);
  return judgement == 1 ? refuse(err, EPERM, path, refusal->words) : 0;
}

static int check_new(int fd, const char* name, const char* path,
                     const struct gbx_host_user* user, struct gbx_err* err) {
  struct gbx_host_refusal refusal;
  int judgement =
      gbx_host_judge_new(fd, name, GBX_USE_WORKSPACE, user, &refusal);
  return report(judgement, &refusal, path, err);
}

static int check_folder(int fd, const char* path,
                        const struct gbx_host_user* user, struct gbx_err* err) {
  struct gbx_host_refusal refusal;
  int judgement = gbx_host_judge(fd, GBX_USE_WORKSPACE, user, &refusal);
  int result = report(judgement, &refusal, path, err);
  if (result < 0) return result;
  if (faccessat(fd, ".", R_OK | W_OK | X_OK, AT_EACCESS) < 0)
    return refuse_unusable(err, errno, path);
  return 0;
}

/* ---- A given folder ------------------------------------------------------ */

/* Opens one part of the path, and makes it if missing. Returns a descriptor or
 * a negative errno with `err` filled. */
static int enter_part(int fd, const char* part, const char* path,
                      const struct gbx_host_user* user, bool* made,
                      struct gbx_err* err) {
  const int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  int next_fd = openat(fd, part, flags);
  if (next_fd < 0 && errno == ENOENT) {
    int result = check_new(fd, part, path, user, err);
    if (result < 0) return result;
    if (mkdirat(fd, part, 0755) < 0 && errno != EEXIST)
      return gbx_fail(err, GBX_E_WORKSPACE, errno, "mkdir", "%s", path);
    *made = true;
    next_fd = openat(fd, part, flags);
  }
  if (next_fd >= 0) return next_fd;
  if (errno == ENOTDIR) return refuse(err, ENOTDIR, path, "not a folder");
  return gbx_fail(err, GBX_E_WORKSPACE, errno, "open", "%s", path);
}

/* Returns an O_PATH descriptor or a negative errno with `err` filled. */
static int enter_path(const char* path, const struct gbx_host_user* user,
                      struct gbx_err* err) {
  cleanup_fd int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return gbx_fail(err, GBX_E_WORKSPACE, errno, "open", "/");
  bool made = false;
  for (const char* rest = path; *rest != '\0';) {
    char part[NAME_MAX + 1];
    size_t size = strcspn(rest, "/");
    if (size > NAME_MAX)
      return refuse(err, ENAMETOOLONG, path, "has a name over 255 bytes");
    memcpy(part, rest, size);
    part[size] = '\0';
    rest += size + (rest[size] == '/');
    if (size == 0 || strcmp(part, ".") == 0) continue;
    if (made && strcmp(part, "..") == 0)
      return refuse(err, EINVAL, path, "has \"..\" after a missing folder");
    int next_fd = enter_part(fd, part, path, user, &made, err);
    if (next_fd < 0) return next_fd;
    fd_close(&fd);
    fd = next_fd;
  }
  return fd_steal(&fd);
}

static int prepare_given(const char* path, const struct gbx_host_user* user,
                         struct gbx__workspace* workspace,
                         struct gbx_err* err) {
  if (path[0] != '/') return refuse(err, EINVAL, path, "not an absolute path");
  if (strlen(path) >= sizeof workspace->path)
    return refuse(err, ENAMETOOLONG, path, "longer than 4095 bytes");
  cleanup_fd int path_fd = enter_path(path, user, err);
  if (path_fd < 0) return path_fd;
  int result = check_folder(path_fd, path, user, err);
  if (result < 0) return result;
  cleanup_fd int fd = openat(path_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return gbx_fail(err, GBX_E_WORKSPACE, errno, "open", "%s", path);
  return describe(workspace, path, &fd, err);
}

/* ---- A temporary folder -------------------------------------------------- */

#define TEMP_FOLDER_NAME_SIZE sizeof "glovebox-XXXXXX"

static int make_temp_folder_name(char name[TEMP_FOLDER_NAME_SIZE]) {
  static const char letters[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  uint8_t random[6];
  if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
    return -errno;
  memcpy(name, "glovebox-XXXXXX", TEMP_FOLDER_NAME_SIZE);
  for (size_t i = 0; i < sizeof random; i++)
    name[TEMP_FOLDER_NAME_SIZE - 2 - i] =
        letters[random[i] % (sizeof letters - 1)];
  return 0;
}

static int make_temp_folder(int dir_fd, const char* temp_dir,
                            char name[TEMP_FOLDER_NAME_SIZE],
                            struct gbx_err* err) {
  for (int tries = 0; tries < 100; tries++) {
    int result = make_temp_folder_name(name);
    if (result < 0)
      return gbx_fail(err, GBX_E_WORKSPACE, -result, "getrandom", "%s",
                      temp_dir);
    if (mkdirat(dir_fd, name, 0700) == 0) return 0;
    if (errno != EEXIST) break;
  }
  return gbx_fail(err, GBX_E_WORKSPACE, errno, "mkdir", "%s", temp_dir);
}

static int open_temp_folder(int dir_fd, const char* name, const char* path,
                            struct gbx__workspace* workspace,
                            struct gbx_err* err) {
  cleanup_fd int fd =
      openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat st;
  if (fd < 0 || fstat(fd, &st) < 0)
    return gbx_fail(err, GBX_E_WORKSPACE, errno, "open", "%s", path);
  /* In a temp_dir without the sticky bit, others could have replaced it. */
  if (st.st_uid != geteuid() || (st.st_mode & 077) != 0)
    return refuse(err, ESTALE, path, "replaced meanwhile");
  return describe(workspace, path, &fd, err);
}

static int prepare_temporary(const char* temp_dir,
                             struct gbx__workspace* workspace,
                             struct gbx_err* err) {
  if (temp_dir[0] != '/')
    return refuse(err, EINVAL, temp_dir, "not an absolute path");
  cleanup_fd int dir_fd = open(temp_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (dir_fd < 0)
    return gbx_fail(err, GBX_E_WORKSPACE, errno, "open", "%s", temp_dir);
  char name[TEMP_FOLDER_NAME_SIZE];
  int result = make_temp_folder(dir_fd, temp_dir, name, err);
  if (result < 0) return result;
  char path[PATH_MAX];
  if (snprintf(path, sizeof path, "%s/%s", temp_dir, name) >= PATH_MAX)
    result = refuse(err, ENAMETOOLONG, temp_dir, "too long");
  else
    result = open_temp_folder(dir_fd, name, path, workspace, err);
  if (result < 0)
    (void)unlinkat(dir_fd, name, AT_REMOVEDIR); /* the first error counts */
  else
    workspace->temporary = true;
  return result;
}

/* ---- For all ------------------------------------------------------------- */

int gbx__workspace_prepare(const char* path, const char* temp_dir,
                           struct gbx__workspace* ret_workspace,
                           struct gbx_err* err) {
  const struct gbx_host_user user = {.home = getenv("HOME"),
                                     .temp_dir = temp_dir};
  return path == NULL ? prepare_temporary(temp_dir, ret_workspace, err)
                      : prepare_given(path, &user, ret_workspace, err);
}

void gbx__workspace_regain(const struct gbx__workspace* workspace) {
  struct stat st;
  if (fstat(workspace->fd, &st) == 0 && st.st_uid == geteuid() &&
      (st.st_mode & S_IRWXU) != S_IRWXU)
    (void)fchmod(workspace->fd, (st.st_mode & 07777) | S_IRWXU);
}

void gbx__workspace_done(struct gbx__workspace* workspace) {
  fd_close(&workspace->fd);
}

/* Opens (O_PATH) the folder that a temporary workspace is in, and makes sure
 * that it is still there. Returns a descriptor, -ENOENT if the user has removed
 * it, or a negative errno with `err` filled. */
static int open_above(const struct gbx__workspace* workspace,
                      const char** ret_name, struct stat* ret_st,
                      struct gbx_err* err) {
  const char* path = workspace->path;
  const char* slash = strrchr(path, '/');
  if (!workspace->temporary || slash == NULL)
    return gbx_fail(err, GBX_E_INTERNAL, EINVAL, "workspace_remove", "%s",
                    path);
  char dir_path[PATH_MAX] = "/";
  if (slash > path) memcpy(dir_path, path, (size_t)(slash - path));
  cleanup_fd int dir_fd = open(dir_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  struct stat st;
  if (dir_fd < 0 || fstatat(dir_fd, slash + 1, &st, AT_SYMLINK_NOFOLLOW) < 0)
    return errno == ENOENT ? -ENOENT
                           : gbx_fail(err, GBX_E_IO, errno, "open", "%s", path);
  if (st.st_dev != workspace->dev || st.st_ino != workspace->ino)
    return gbx_fail(err, GBX_E_IO, ESTALE, "workspace",
                    "another folder is in its place: %s", path);
  *ret_name = slash + 1;
  *ret_st = st;
  return fd_steal(&dir_fd);
}

int gbx__workspace_remove(const struct gbx__workspace* workspace,
                          struct gbx_err* err) {
  const char* name;
  struct stat st;
  cleanup_fd int dir_fd = open_above(workspace, &name, &st, err);
  if (dir_fd < 0) return dir_fd == -ENOENT ? 0 : dir_fd;
  return gbx_remove_tree(dir_fd, name, err);
}

/* ---- Little ----------------------------------------------------------------
 */

/* Of names, as getdents64 gives them: some dozens. */
#define LITTLE_NAMES 2048
/* Of all files. To free the blocks of a large one takes milliseconds. */
#define LITTLE_BYTES (1 << 20)
/* A folder that held many names is as long as it was then, and is read from end
 * to end before it is removed. */
#define LITTLE_FOLDER_BYTES (64 << 10)

static bool remove_little_folder(int fd, const char* name,
                                 const struct stat* st) {
  return st->st_size <= LITTLE_FOLDER_BYTES &&
         unlinkat(fd, name, AT_REMOVEDIR) == 0;
}

static bool remove_little_entry(int fd, const char* name, int64_t* left_bytes) {
  if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return true;
  struct stat st;
  if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) return false;
  if (S_ISDIR(st.st_mode)) return remove_little_folder(fd, name, &st);
  *left_bytes -= (int64_t)st.st_blocks * 512;
  return *left_bytes >= 0 && unlinkat(fd, name, 0) == 0;
}

static bool remove_little_content(int fd) {
  alignas(struct dirent64) char entries[LITTLE_NAMES];
  int64_t left_bytes = LITTLE_BYTES;
  ssize_t size = getdents64(fd, entries, sizeof entries);
  for (ssize_t at = 0; at < size;) {
    const struct dirent64* entry = (const void*)(entries + at);
    if (!remove_little_entry(fd, entry->d_name, &left_bytes)) return false;
    at += entry->d_reclen;
  }
  return size >= 0; /* if that was not all, the folder is not empty */
}

bool gbx__workspace_remove_little(const struct gbx__workspace* workspace) {
  const char* name;
  struct stat st;
  cleanup_fd int dir_fd = open_above(workspace, &name, &st, NULL);
  if (dir_fd < 0) return false;
  if (remove_little_folder(dir_fd, name, &st)) return true;
  if (errno != ENOTEMPTY || st.st_size > LITTLE_FOLDER_BYTES) return false;
  cleanup_fd int fd =
      openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  return fd >= 0 && remove_little_content(fd) &&
         unlinkat(dir_fd, name, AT_REMOVEDIR) == 0;
}
