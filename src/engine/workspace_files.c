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
#include "engine/walk.h"
#include "engine/workspace.h"

/* Whether the last part of `path`, and no part before it, is a symlink. */
static bool is_symlink(int dir_fd, const char* path) {
  cleanup_fd int fd = gbx__beneath_open(dir_fd, path, O_PATH | O_NOFOLLOW, 0);
  struct stat st;
  return fd >= 0 && fstat(fd, &st) == 0 && S_ISLNK(st.st_mode);
}

/* Says why a file could not be opened. */
static int fail_file(int dir_fd, const char* path, int sys_errno,
                     struct gbx_err* err) {
  enum gbx_code code = GBX_E_IO;
  switch (sys_errno) {
    case ENOENT:
    case ENOTDIR: /* the path goes on below a file */
      code = GBX_E_NOT_FOUND;
      break;
    case ELOOP:
      code = is_symlink(dir_fd, path) ? GBX_E_NOT_REGULAR : GBX_E_PATH;
      break;
    case EXDEV: /* a folder on the way was moved out meanwhile */
    case ENAMETOOLONG:
      code = GBX_E_PATH;
      break;
    case ENXIO: /* a socket, or a device without a driver */
      code = GBX_E_NOT_REGULAR;
      break;
    case EAGAIN: /* opening it would wait for the holder of a lease */
      code = GBX_E_BUSY;
      break;
    default:
      break;
  }
  return gbx_fail(err, code, sys_errno, "openat2", "%s", path);
}

/* Says why a folder could not be opened or made. `not_folder`: the code for
 * what is something else. */
static int fail_folder(const char* path, int sys_errno,
                       enum gbx_code not_folder, struct gbx_err* err) {
  enum gbx_code code = GBX_E_IO;
  const char* what = "";
  switch (sys_errno) {
    case ENOENT:
      code = GBX_E_NOT_FOUND;
      break;
    case ENOTDIR:
      code = not_folder;
      what = "not a folder: ";
      break;
    case ELOOP:
      code = GBX_E_PATH;
      what = "leads through a symlink: ";
      break;
    case EXDEV:
    case ENAMETOOLONG:
      code = GBX_E_PATH;
      break;
    default:
      break;
  }
  return gbx_fail(err, code, sys_errno, "folder", "%s%s", what, path);
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

int gbx__workspace_read(const struct gbx__workspace* workspace,
                        const char* path, uint64_t max_bytes,
                        uint8_t** ret_bytes, size_t* ret_size,
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
    return gbx_fail(err, GBX_E_NOT_REGULAR, EINVAL, "read", "%s", clean);
  uint64_t file_size = (uint64_t)st.st_size;
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
                    clean);
  if (result == -ENOMEM)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "read", "%s", clean);
  if (result < 0) return gbx_fail(err, GBX_E_IO, -result, "read", "%s", clean);
  return 0;
}

/* ---- Writing ------------------------------------------------------------- */

/* One write: what is made belongs to `uid` and `gid` if `gives` is set. */
struct writer {
  int workspace_fd;
  bool gives;
  uid_t uid;
  gid_t gid;
};

static int writer_init(struct writer* writer,
                       const struct gbx__workspace* workspace,
                       struct gbx_err* err) {
  /* Asked anew: the keeper may have given a temporary workspace to the boxes'
   * id since it was prepared. */
  struct stat st;
  if (fstat(workspace->fd, &st) < 0)
    return gbx_fail(err, GBX_E_IO, errno, "fstat", "workspace");
  *writer = (struct writer){
      .workspace_fd = workspace->fd,
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
static int make_given_folder(const struct writer* writer, int fd,
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

static int make_folder(const struct writer* writer, int fd, const char* name) {
  int result = 0;
  if (writer->gives)
    result = make_given_folder(writer, fd, name);
  else if (mkdirat(fd, name, 0755) < 0)
    result = -errno;
  return result == -EEXIST ? 0 : result; /* it was made meanwhile */
}

/* Opens the folder `path` and makes what is missing of it. Returns a descriptor
 * or a negative errno. */
static int make_folders(const struct writer* writer, const char* path) {
  const int flags = O_PATH | O_DIRECTORY;
  cleanup_fd int fd = gbx__beneath_open(writer->workspace_fd, ".", flags, 0);
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

/* Opens the folder that `path` lies in, which is made if missing, and finds the
 * name in it. */
static int open_parent(const struct writer* writer, const char* path,
                       const char** ret_name, struct gbx_err* err) {
  const char* slash = strrchr(path, '/');
  *ret_name = slash == NULL ? path : slash + 1;
  char parent[GBX__PATH_SIZE] = ".";
  if (slash != NULL) {
    memcpy(parent, path, (size_t)(slash - path));
    parent[slash - path] = '\0';
  }
  int fd =
      gbx__beneath_open(writer->workspace_fd, parent, O_PATH | O_DIRECTORY, 0);
  if (fd == -ENOENT) fd = make_folders(writer, parent);
  if (fd < 0) return fail_folder(path, -fd, GBX_E_NOT_REGULAR, err);
  return fd;
}

/* Makes the file, complete, under a name of ours. `kept_mode` is that of the
 * file it will replace, or -1. Returns 0 or a negative errno. */
static int write_temp(const struct writer* writer, int parent_fd,
                      const char* temp_name, int kept_mode, const void* bytes,
                      size_t size) {
  /* What replaces a private file is never readable in between. */
  cleanup_fd int fd =
      openat(parent_fd, temp_name,
             O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC,
             kept_mode < 0 ? 0644 : 0600);
  if (fd < 0) return -errno;
  int result = fd_write_all(fd, bytes, size);
  if (result < 0) return result;
  if (writer->gives && fchown(fd, writer->uid, writer->gid) < 0) return -errno;
  if (kept_mode >= 0 && fchmod(fd, (mode_t)kept_mode) < 0) return -errno;
  /* Network filesystems say here that the disk is full. */
  if (close(fd_steal(&fd)) < 0 && errno != EINTR) return -errno;
  return 0;
}

int gbx__workspace_write(const struct gbx__workspace* workspace,
                         const char* path, const void* bytes, size_t size,
                         struct gbx_err* err) {
  char clean[GBX__PATH_SIZE], temp_name[GBX__TEMP_NAME_SIZE];
  struct writer writer = {0};
  const char* name;
  int result = gbx__beneath_clean(path, false, clean, err);
  if (result < 0) return result;
  result = writer_init(&writer, workspace, err);
  if (result < 0) return result;
  cleanup_fd int parent_fd = open_parent(&writer, clean, &name, err);
  if (parent_fd < 0) return parent_fd;

  struct stat st;
  int kept_mode = -1;
  if (fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
    if (!S_ISREG(st.st_mode))
      return gbx_fail(err, GBX_E_NOT_REGULAR, EEXIST, "write", "%s", clean);
    /* Not setuid bits: what was trusted with them were other bytes. */
    kept_mode = st.st_mode & 0777;
  } else if (errno != ENOENT) {
    return gbx_fail(err, GBX_E_IO, errno, "fstatat", "%s", clean);
  }

  result = gbx__temp_name_make(temp_name);
  if (result < 0)
    return gbx_fail(err, GBX_E_IO, -result, "getrandom", "%s", clean);
  result = write_temp(&writer, parent_fd, temp_name, kept_mode, bytes, size);
  if (result == 0 && renameat(parent_fd, temp_name, parent_fd, name) < 0)
    result = -errno;
  if (result == 0) return 0;
  (void)unlinkat(parent_fd, temp_name, 0); /* the first error counts */
  return gbx_fail(err, result == -EISDIR ? GBX_E_NOT_REGULAR : GBX_E_IO,
                  -result, "write", "%s", clean);
}

/* ---- Listing ------------------------------------------------------------- */

#define MAX_LIST_PATH_BYTES (256u << 20)

static int fill_list(const struct gbx__walk* walk, const char* prefix,
                     struct gbx__file_list* ret_list, struct gbx_err* err) {
  size_t prefix_size = strlen(prefix), path_bytes = 0;
  uint32_t folder;
  const struct gbx__walk_node* node;
  for (struct gbx__walk_cursor at = {0};
       (node = gbx__walk_next(walk, &at, &folder)) != NULL;)
    path_bytes += prefix_size + gbx__walk_path_size(walk, folder, node) + 1;
  if (path_bytes > MAX_LIST_PATH_BYTES)
    return gbx_fail(err, GBX_E_TOO_LARGE, E2BIG, "list",
                    "%u files with %zu bytes of paths", walk->file_count,
                    path_bytes);
  size_t array_bytes = walk->file_count * sizeof *ret_list->files;
  struct gbx_file_entry* files = malloc(array_bytes + path_bytes);
  if (files == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "file list");

  struct gbx_file_entry* file = files;
  char* path = (char*)files + array_bytes;
  for (struct gbx__walk_cursor at = {0};
       (node = gbx__walk_next(walk, &at, &folder)) != NULL;) {
    *file++ = (struct gbx_file_entry){
        .path = path, .size = node->size, .mtime_ns = node->mtime_ns};
    memcpy(path, prefix, prefix_size);
    gbx__walk_path(walk, folder, node, path + prefix_size);
    path += prefix_size + gbx__walk_path_size(walk, folder, node) + 1;
  }
  *ret_list =
      (struct gbx__file_list){.files = files, .count = walk->file_count};
  return 0;
}

int gbx__workspace_list(const struct gbx__workspace* workspace,
                        const char* path, struct gbx__file_list* ret_list,
                        struct gbx_err* err) {
  char prefix[GBX__PATH_SIZE + 1];
  int result = gbx__beneath_clean(path, true, prefix, err);
  if (result < 0) return result;
  cleanup_fd int fd = gbx__beneath_open(
      workspace->fd, *prefix == '\0' ? "." : prefix, O_PATH | O_DIRECTORY, 0);
  if (fd < 0) return fail_folder(path, -fd, GBX_E_NOT_FOUND, err);
  size_t prefix_size = strlen(prefix);
  if (prefix_size > 0) memcpy(prefix + prefix_size++, "/", 2);

  struct gbx__walk walk;
  result = gbx__walk_init(&walk, fd, prefix_size, err);
  if (result < 0) return result;
  if (walk.folders[0].unreadable)
    result = gbx_fail(err, GBX_E_IO, EACCES, "list", "%s", path);
  else if (walk.file_count == 0)
    *ret_list = (struct gbx__file_list){0};
  else
    result = fill_list(&walk, prefix, ret_list, err);
  gbx__walk_done(&walk);
  return result;
}

void gbx__file_list_done(struct gbx__file_list* list) {
  free(list->files);
  *list = (struct gbx__file_list){0};
}
