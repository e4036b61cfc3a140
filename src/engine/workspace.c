/* SPDX-License-Identifier: Apache-2.0 */

/* The folder itself: making, choosing, refusing and removing it. Paths that
 * lead here are the caller's, not a box's, and are followed as usual. */

#include "engine/workspace.h"

#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "common/fd.h"
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

static const struct rule {
  const char* path;
  bool below; /* what is in it is refused too */
} rules[] = {
    {"/", false},     {"/bin", true},    {"/boot", true}, {"/dev", true},
    {"/etc", true},   {"/home", false},  {"/lib", true},  {"/lib32", true},
    {"/lib64", true}, {"/libx32", true}, {"/proc", true}, {"/root", false},
    {"/run", false},  {"/sbin", true},   {"/sys", true},  {"/tmp", false},
    {"/usr", true},   {"/var", false},
};

enum { rule_count = sizeof rules / sizeof rules[0] };

/* What the kernel makes up, where a write is a command, and hugetlbfs, which
 * takes none. */
static const uint32_t refused_filesystems[] = {
    BPF_FS_MAGIC,       BINFMTFS_MAGIC,
    CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,
    DEBUGFS_MAGIC,      DEVPTS_SUPER_MAGIC,
    EFIVARFS_MAGIC,     HUGETLBFS_MAGIC,
    NSFS_MAGIC,         PROC_SUPER_MAGIC,
    PSTOREFS_MAGIC,     SECURITYFS_MAGIC,
    SELINUX_MAGIC,      SYSFS_MAGIC,
    TRACEFS_MAGIC,      0x62656570 /* configfs; no header names it */,
};

/* Returns 1 if the folder `fd` is the folder `top` or lies in it, 0 if not, and
 * a negative errno if we may not know. Climbs by "..", for the same folder may
 * be reached by many paths. */
static int is_at_or_below(int fd, const struct stat* top) {
  cleanup_fd int at_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  struct stat st, up;
  if (at_fd < 0 || fstat(at_fd, &st) < 0) return -errno;
  for (;;) {
    if (st.st_dev == top->st_dev && st.st_ino == top->st_ino) return 1;
    int up_fd = openat(at_fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (up_fd < 0) return -errno;
    fd_close(&at_fd);
    at_fd = up_fd;
    if (fstat(at_fd, &up) < 0) return -errno;
    if (up.st_dev == st.st_dev && up.st_ino == st.st_ino) return 0;
    st = up;
  }
}

/* Where nothing may be, nor be made. */
static int check_place(int fd, const char* path, struct gbx_err* err) {
  for (size_t i = 0; i < rule_count; i++) {
    struct stat st;
    if (!rules[i].below || stat(rules[i].path, &st) < 0) continue;
    int result = is_at_or_below(fd, &st);
    if (result < 0) return refuse_unusable(err, -result, path);
    if (result == 1)
      return gbx_fail(err, GBX_E_WORKSPACE, EPERM, "workspace",
                      "is %s, or lies in it: %s", rules[i].path, path);
  }
  struct statfs fs;
  if (fstatfs(fd, &fs) < 0)
    return gbx_fail(err, GBX_E_WORKSPACE, errno, "fstatfs", "%s", path);
  for (size_t i = 0;
       i < sizeof refused_filesystems / sizeof refused_filesystems[0]; i++) {
    if ((uint32_t)fs.f_type == refused_filesystems[i])
      return refuse(err, EPERM, path, "on a filesystem of the kernel's own");
  }
  return 0;
}

/* Refuses the folder `taken`, and what holds it. */
static int check_not_around(const struct stat* st, const char* path,
                            const char* taken, const char* taken_name,
                            struct gbx_err* err) {
  cleanup_fd int fd = open(taken, O_PATH | O_DIRECTORY | O_CLOEXEC);
  /* What holds a folder that is closed to us we cannot ask. For the fixed ones
   * that is "/", which is refused anyway. */
  if (fd < 0 || is_at_or_below(fd, st) != 1) return 0;
  return gbx_fail(err, GBX_E_WORKSPACE, EPERM, "workspace",
                  "is %s, or holds it: %s", taken_name, path);
}

static int check_folder(int fd, const char* path, struct gbx_err* err) {
  struct stat st;
  if (fstat(fd, &st) < 0)
    return gbx_fail(err, GBX_E_WORKSPACE, errno, "fstat", "%s", path);
  int result = check_place(fd, path, err);
  for (size_t i = 0; result == 0 && i < rule_count; i++)
    result = check_not_around(&st, path, rules[i].path, rules[i].path, err);
  const char* home = getenv("HOME");
  if (result == 0 && home != NULL && home[0] == '/')
    result = check_not_around(&st, path, home, "$HOME", err);
  if (result < 0) return result;
  if (faccessat(fd, ".", R_OK | W_OK | X_OK, AT_EACCESS) < 0)
    return refuse_unusable(err, errno, path);
  return 0;
}

/* ---- A given folder ------------------------------------------------------ */

/* Opens one part of the path, and makes it if missing. Returns a descriptor or
 * a negative errno with `err` filled. */
static int enter_part(int fd, const char* part, const char* path, bool* made,
                      struct gbx_err* err) {
  const int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  int next_fd = openat(fd, part, flags);
  if (next_fd < 0 && errno == ENOENT) {
    int result = check_place(fd, path, err);
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
static int enter_path(const char* path, struct gbx_err* err) {
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
    int next_fd = enter_part(fd, part, path, &made, err);
    if (next_fd < 0) return next_fd;
    fd_close(&fd);
    fd = next_fd;
  }
  return fd_steal(&fd);
}

static int prepare_given(const char* path, struct gbx__workspace* workspace,
                         struct gbx_err* err) {
  if (path[0] != '/') return refuse(err, EINVAL, path, "not an absolute path");
  if (strlen(path) >= sizeof workspace->path)
    return refuse(err, ENAMETOOLONG, path, "longer than 4095 bytes");
  cleanup_fd int path_fd = enter_path(path, err);
  if (path_fd < 0) return path_fd;
  int result = check_folder(path_fd, path, err);
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
  return path == NULL ? prepare_temporary(temp_dir, ret_workspace, err)
                      : prepare_given(path, ret_workspace, err);
}

void gbx__workspace_done(struct gbx__workspace* workspace) {
  fd_close(&workspace->fd);
}

int gbx__workspace_remove(const struct gbx__workspace* workspace,
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
    return errno == ENOENT ? 0 /* the user has removed it */
                           : gbx_fail(err, GBX_E_IO, errno, "open", "%s", path);
  if (st.st_dev != workspace->dev || st.st_ino != workspace->ino)
    return gbx_fail(err, GBX_E_IO, ESTALE, "workspace_remove",
                    "another folder is in its place: %s", path);
  return gbx_remove_tree(dir_fd, slash + 1, err);
}
