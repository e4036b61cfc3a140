/* SPDX-License-Identifier: Apache-2.0 */

/* The files in a workspace. A box may be at work in it meanwhile, swapping
 * folders for symlinks as fast as it can; each step here therefore works on a
 * descriptor that was checked, or fails. */

#include <dirent.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fd.h"
#include "engine/beneath.h"
#include "engine/workspace.h"
#include "engine/writer.h"

/* Whether the last part of `path`, and no part before it, is a symlink. */
static bool is_symlink(int dir_fd, const char* path) {
  cleanup_fd int fd = gbx__beneath_open(dir_fd, path, O_PATH | O_NOFOLLOW, 0);
  struct stat st;
  return fd >= 0 && fstat(fd, &st) == 0 && S_ISLNK(st.st_mode);
}

/* Says why a file could not be opened. */
static int fail_file(int dir_fd, const char* path, int sys_errno,
                     struct gbx_err* err) {
  enum gbx_code code = gbx__beneath_code(sys_errno);
  if (sys_errno == ELOOP && is_symlink(dir_fd, path)) code = GBX_E_NOT_REGULAR;
  return gbx_fail(err, code, sys_errno, "openat2", "%s", path);
}

/* Says why a folder could not be opened or made. `not_folder`: the code for
 * what is something else. */
static int fail_folder(const char* path, int sys_errno,
                       enum gbx_code not_folder, struct gbx_err* err) {
  enum gbx_code code = gbx__beneath_code(sys_errno);
  const char* what = "";
  if (sys_errno == ENOTDIR) {
    code = not_folder;
    what = "not a folder: ";
  } else if (sys_errno == ELOOP) {
    what = "leads through a symlink: ";
  }
  return gbx_fail(err, code, sys_errno, "folder", "%s%s", what, path);
}

int gbx__workspace_open_folder(const struct gbx__workspace* workspace,
                               const char* path, struct gbx_err* err) {
  char clean[GBX__PATH_SIZE];
  int result = gbx__beneath_clean(path, true, clean, err);
  if (result < 0) return result;
  int fd = gbx__beneath_open(workspace->fd, *clean == '\0' ? "." : clean,
                             O_PATH | O_DIRECTORY, 0);
  return fd < 0 ? fail_folder(path, -fd, GBX_E_NOT_FOUND, err) : fd;
}

/* Says that something is in the place of a file. */
static int fail_not_regular(const char* op, const char* path, mode_t mode,
                            struct gbx_err* err) {
  int sys_errno = S_ISDIR(mode) ? EISDIR : S_ISLNK(mode) ? ELOOP : EINVAL;
  return gbx_fail(err, GBX_E_NOT_REGULAR, sys_errno, op, "%s", path);
}

/* ---- Reading ------------------------------------------------------------- */

/* Reads to the end, but no more than a byte above `max_bytes`. */
static int read_all(int fd, size_t first_room, uint64_t max_bytes,
                    uint8_t** ret_bytes, size_t* ret_size) {
  size_t room = first_room, size = 0;
  cleanup_free uint8_t* bytes = malloc(room);
  if (bytes == NULL) return -ENOMEM;
  for (;;) {
    if (size > max_bytes) return -EFBIG;
    if (size == room) { /* it grew since we asked for its size */
      if (room > SIZE_MAX / 2) return -ENOMEM;
      void* grown = realloc(bytes, room * 2);
      if (grown == NULL) return -ENOMEM;
      bytes = grown;
      room *= 2;
    }
    size_t wanted = room - size;
    if (max_bytes - size < wanted) wanted = (size_t)(max_bytes - size) + 1;
    ssize_t count = RETRY(read(fd, bytes + size, wanted));
    if (count < 0) return -errno;
    if (count == 0) break;
    size += (size_t)count;
  }
  *ret_bytes = bytes;
  bytes = NULL;
  *ret_size = size;
  return 0;
}

int gbx__workspace_open(const struct gbx__workspace* workspace,
                        const char* path, uint64_t* ret_size,
                        struct gbx_err* err) {
  char clean[GBX__PATH_SIZE];
  int result = gbx__beneath_clean(path, false, clean, err);
  if (result < 0) return result;
  /* Nonblocking for fifos and leases; no terminal becomes ours. */
  cleanup_fd int fd = gbx__beneath_open(workspace->fd, clean,
                                        O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
  if (fd < 0) return fail_file(workspace->fd, clean, -fd, err);
  struct stat st;
  if (fstat(fd, &st) < 0)
    return gbx_fail(err, GBX_E_IO, errno, "fstat", "%s", clean);
  if (!S_ISREG(st.st_mode))
    return fail_not_regular("read", clean, st.st_mode, err);
  *ret_size = (uint64_t)st.st_size;
  return fd_steal(&fd);
}

int gbx__workspace_read(const struct gbx__workspace* workspace,
                        const char* path, uint64_t max_bytes,
                        uint8_t** ret_bytes, size_t* ret_size,
                        struct gbx_err* err) {
  uint64_t file_size;
  cleanup_fd int fd = gbx__workspace_open(workspace, path, &file_size, err);
  if (fd < 0) return fd;
  int result;
  /* One byte more shows the end without another round. */
  if (file_size > max_bytes)
    result = -EFBIG;
  else if (file_size >= SIZE_MAX)
    result = -ENOMEM;
  else
    result =
        read_all(fd, (size_t)file_size + 1, max_bytes, ret_bytes, ret_size);
  if (result == -EFBIG)
    return gbx_fail(err, GBX_E_TOO_LARGE, EFBIG, "read",
                    "more than %llu bytes: %s", (unsigned long long)max_bytes,
                    path);
  if (result == -ENOMEM)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "read", "%s", path);
  if (result < 0) return gbx_fail(err, GBX_E_IO, -result, "read", "%s", path);
  return 0;
}

/* ---- Writing ------------------------------------------------------------- */

int gbx__writer_init(struct gbx__writer* writer,
                     const struct gbx__workspace* workspace,
                     struct gbx_err* err) {
  /* Asked anew: the keeper may have given a temporary workspace to the boxes'
   * id since it was prepared. */
  struct stat st;
  if (fstat(workspace->fd, &st) < 0)
    return gbx_fail(err, GBX_E_IO, errno, "fstat", "workspace");
  *writer = (struct gbx__writer){
      .root_fd = workspace->fd,
      .gives = geteuid() == 0 && (st.st_uid != 0 || st.st_gid != getegid()),
      .uid = st.st_uid,
      .gid = st.st_gid};
  return 0;
}

/* Whether a folder has no entries. */
static bool is_empty(int fd) {
  alignas(8) char entries[1024];
  ssize_t size = getdents64(fd, entries, sizeof entries);
  if (size <= 0) return false;
  for (ssize_t at = 0; at < size;) {
    const struct dirent64* entry = (const void*)(entries + at);
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      return false;
    at += entry->d_reclen;
  }
  return true;
}

static int rename_new(int fd, const char* from, const char* to) {
  if (renameat2(fd, from, fd, to, RENAME_NOREPLACE) == 0) return 0;
  /* Where the filesystem cannot do that, plain rename replaces an empty folder
   * at most. */
  if (errno == EINVAL && renameat(fd, from, fd, to) == 0) return 0;
  return errno == ENOTEMPTY ? -EEXIST : -errno;
}

/* Makes a folder that belongs to somebody else. It gets its name only when it
 * is complete, so that a write beside this one never finds it half made.
 *
 * Between mkdir and open a box could put another folder in its place, to be
 * given that. It gains nothing: given is only what is empty and was ours, and
 * an empty folder in a folder of the box is the box's to remove and make again
 * anyway. */
static int make_given_folder(const struct gbx__writer* writer, int fd,
                             const char* name) {
  char temp_name[GBX__TEMP_NAME_SIZE];
  int result = gbx__temp_name_make(temp_name);
  if (result < 0) return result;
  if (mkdirat(fd, temp_name, 0755) < 0) return -errno;
  cleanup_fd int made_fd =
      gbx__beneath_open(fd, temp_name, O_RDONLY | O_DIRECTORY, 0);
  struct stat st;
  if (made_fd < 0)
    result = made_fd;
  else if (fstat(made_fd, &st) < 0)
    result = -errno;
  else if (st.st_uid != geteuid() || !is_empty(made_fd))
    result = -ESTALE;
  else if (fchown(made_fd, writer->uid, writer->gid) < 0)
    result = -errno;
  else
    result = rename_new(fd, temp_name, name);
  if (result < 0) (void)unlinkat(fd, temp_name, AT_REMOVEDIR); /* best effort */
  return result;
}

static int make_folder(const struct gbx__writer* writer, int fd,
                       const char* name) {
  int result = 0;
  if (writer->gives)
    result = make_given_folder(writer, fd, name);
  else if (mkdirat(fd, name, 0755) < 0)
    result = -errno;
  return result == -EEXIST ? 0 : result; /* it was made meanwhile */
}

int gbx__writer_open_folder(const struct gbx__writer* writer,
                            const char* path) {
  const int flags = O_PATH | O_DIRECTORY;
  cleanup_fd int fd = gbx__beneath_open(writer->root_fd, ".", flags, 0);
  for (const char* rest = path; fd >= 0 && *rest != '\0';) {
    char name[NAME_MAX + 1];
    size_t size = strcspn(rest, "/");
    memcpy(name, rest, size);
    name[size] = '\0';
    rest += size + (rest[size] == '/');
    int next_fd = gbx__beneath_open(fd, name, flags, 0);
    if (next_fd == -ENOENT) {
      int result = make_folder(writer, fd, name);
      if (result < 0) return result;
      next_fd = gbx__beneath_open(fd, name, flags, 0);
    }
    fd_close(&fd);
    fd = next_fd;
  }
  return fd < 0 ? fd : fd_steal(&fd);
}

int gbx__writer_open_parent(const struct gbx__writer* writer, const char* path,
                            const char** ret_name, struct gbx_err* err) {
  const char* slash = strrchr(path, '/');
  *ret_name = slash == NULL ? path : slash + 1;
  char parent[GBX__PATH_SIZE] = ".";
  if (slash != NULL) {
    memcpy(parent, path, (size_t)(slash - path));
    parent[slash - path] = '\0';
  }
  int fd = gbx__beneath_open(writer->root_fd, parent, O_PATH | O_DIRECTORY, 0);
  if (fd == -ENOENT) fd = gbx__writer_open_folder(writer, parent);
  if (fd < 0) return fail_folder(path, -fd, GBX_E_NOT_REGULAR, err);
  return fd;
}

int gbx__temp_file_open(const struct gbx__workspace* workspace,
                        const char* path, struct gbx__temp_file* ret_file,
                        struct gbx_err* err) {
  char clean[GBX__PATH_SIZE];
  struct gbx__writer writer;
  const char* name;
  int result = gbx__beneath_clean(path, false, clean, err);
  if (result < 0) return result;
  result = gbx__writer_init(&writer, workspace, err);
  if (result < 0) return result;
  cleanup_fd int parent_fd =
      gbx__writer_open_parent(&writer, clean, &name, err);
  if (parent_fd < 0) return parent_fd;

  struct stat st;
  int kept_mode = -1;
  if (fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
    if (!S_ISREG(st.st_mode))
      return fail_not_regular("write", clean, st.st_mode, err);
    /* Not setuid bits: what was trusted with them were other bytes. */
    kept_mode = st.st_mode & 0777;
  } else if (errno != ENOENT) {
    return gbx_fail(err, GBX_E_IO, errno, "fstatat", "%s", clean);
  }

  struct gbx__temp_file file = {.writer = writer, .kept_mode = kept_mode};
  result = gbx__temp_name_make(file.temp_name);
  if (result < 0)
    return gbx_fail(err, GBX_E_IO, -result, "getrandom", "%s", clean);
  /* What replaces a private file is never readable in between. */
  file.fd =
      openat(parent_fd, file.temp_name,
             O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC,
             kept_mode < 0 ? 0644 : 0600);
  if (file.fd < 0) return gbx_fail(err, GBX_E_IO, errno, "write", "%s", clean);
  file.parent_fd = fd_steal(&parent_fd);
  memcpy(file.name, name, strlen(name) + 1);
  *ret_file = file;
  return 0;
}

int gbx__temp_file_write(struct gbx__temp_file* file, const void* bytes,
                         size_t size, struct gbx_err* err) {
  int result = fd_write_all(file->fd, bytes, size);
  if (result == 0) return 0;
  return gbx_fail(err, GBX_E_IO, -result, "write", "%s", file->name);
}

/* Returns 0 or a negative errno. */
static int finish_temp_file(struct gbx__temp_file* file) {
  const struct gbx__writer* writer = &file->writer;
  if (writer->gives && fchown(file->fd, writer->uid, writer->gid) < 0)
    return -errno;
  if (file->kept_mode >= 0 && fchmod(file->fd, (mode_t)file->kept_mode) < 0)
    return -errno;
  /* Network filesystems say here that the disk is full. */
  if (close(fd_steal(&file->fd)) < 0 && errno != EINTR) return -errno;
  int parent_fd = file->parent_fd;
  return renameat(parent_fd, file->temp_name, parent_fd, file->name) < 0
             ? -errno
             : 0;
}

int gbx__temp_file_close(struct gbx__temp_file* file, bool keep,
                         struct gbx_err* err) {
  int result = keep ? finish_temp_file(file) : 0;
  if (!keep || result < 0)
    (void)unlinkat(file->parent_fd, file->temp_name, 0); /* the error counts */
  fd_close(&file->fd);
  fd_close(&file->parent_fd);
  if (result == 0) return 0;
  return gbx_fail(err, result == -EISDIR ? GBX_E_NOT_REGULAR : GBX_E_IO,
                  -result, "write", "%s", file->name);
}

int gbx__workspace_write(const struct gbx__workspace* workspace,
                         const char* path, const void* bytes, size_t size,
                         struct gbx_err* err) {
  struct gbx__temp_file file;
  int result = gbx__temp_file_open(workspace, path, &file, err);
  if (result < 0) return result;
  result = gbx__temp_file_write(&file, bytes, size, err);
  if (result == 0) return gbx__temp_file_close(&file, true, err);
  (void)gbx__temp_file_close(&file, false, NULL); /* it cannot fail */
  return result;
}
