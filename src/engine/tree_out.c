/* SPDX-License-Identifier: Apache-2.0 */

/* Depth first, with the names of each folder on the way in memory and one
 * descriptor open: a tree may be as deep as a path is long, and no process may
 * have that many. A box may be at work in it meanwhile; what is gone when we
 * come to it was never there. */

#include <dirent.h>
#include <linux/openat2.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fd.h"
#include "engine/beneath.h"
#include "engine/tree.h"

struct frame {
  char* names; /* one block, in the order in which they were read */
  uint32_t* sorted;
  uint32_t count, next;
  uint32_t name_bytes;
  uint16_t path_size; /* of the folder */
};

struct gbx__tree_out {
  int root_fd; /* borrowed: the workspace's */
  struct gbx__tree_out_options options;
  char path[GBX__PATH_SIZE]; /* from the workspace to the top frame's folder */
  size_t path_size;
  struct frame* frames;
  uint32_t depth, room;
  int fd;      /* of the top frame's folder; -1: not open now */
  int file_fd; /* of the file whose bytes come next; -1: none */
  uint64_t file_left;
  uint32_t entries, steps;
  size_t name_bytes; /* of all frames */
};

static int fail_memory(struct gbx_err* err) {
  return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "tree");
}

static void free_frame(struct gbx__tree_out* tree, struct frame* frame) {
  tree->name_bytes -= frame->name_bytes;
  free(frame->names);
  free(frame->sorted);
}

/* ---- Folders ------------------------------------------------------------- */

static bool is_wanted(const struct gbx__tree_out* tree, const char* name) {
  if (name[0] != '.') return true;
  if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return false;
  if (tree->options.without_deps && tree->path_size == 0 &&
      strcmp(name, ".deps") == 0)
    return false;
  return !gbx__temp_name_is(name);
}

static int add_name(struct gbx__tree_out* tree, struct frame* frame,
                    uint32_t* name_room, uint32_t* sorted_room,
                    const char* name, struct gbx_err* err) {
  size_t size = strlen(name) + 1;
  if (++tree->entries > GBX__TREE_MAX_ENTRIES)
    return gbx_fail(err, GBX_E_TOO_LARGE, E2BIG, "walk",
                    "more than %u files and folders", GBX__TREE_MAX_ENTRIES);
  if (tree->name_bytes + size > GBX__TREE_MAX_NAME_BYTES)
    return gbx_fail(err, GBX_E_TOO_LARGE, E2BIG, "walk",
                    "more than %u bytes of file names",
                    GBX__TREE_MAX_NAME_BYTES);
  if (frame->name_bytes + size > *name_room) {
    uint32_t room = *name_room == 0 ? 4096 : *name_room * 2;
    void* grown = realloc(frame->names, room);
    if (grown == NULL) return fail_memory(err);
    frame->names = grown;
    *name_room = room;
  }
  if (frame->count == *sorted_room) {
    uint32_t room = *sorted_room == 0 ? 64 : *sorted_room * 2;
    void* grown = realloc(frame->sorted, room * sizeof *frame->sorted);
    if (grown == NULL) return fail_memory(err);
    frame->sorted = grown;
    *sorted_room = room;
  }
  memcpy(frame->names + frame->name_bytes, name, size);
  frame->sorted[frame->count++] = frame->name_bytes;
  frame->name_bytes += (uint32_t)size;
  tree->name_bytes += size;
  return 0;
}

static int compare_names(const void* a, const void* b, void* names) {
  return strcmp((const char*)names + *(const uint32_t*)a,
                (const char*)names + *(const uint32_t*)b);
}

static int read_names(struct gbx__tree_out* tree, struct frame* frame, int fd,
                      struct gbx_err* err) {
  alignas(8) char buffer[32 * 1024];
  uint32_t name_room = 0, sorted_room = 0;
  for (;;) {
    ssize_t size = getdents64(fd, buffer, sizeof buffer);
    if (size == 0 || (size < 0 && errno == ENOENT)) break;
    if (size < 0)
      return gbx_fail(err, GBX_E_IO, errno, "getdents64", "%s", tree->path);
    for (ssize_t at = 0; at < size;) {
      const struct dirent64* entry = (const void*)(buffer + at);
      at += entry->d_reclen;
      if (!is_wanted(tree, entry->d_name)) continue;
      int result =
          add_name(tree, frame, &name_room, &sorted_room, entry->d_name, err);
      if (result < 0) return result;
    }
  }
  if (frame->count > 1)
    qsort_r(frame->sorted, frame->count, sizeof *frame->sorted, compare_names,
            frame->names);
  return 0;
}

/* Opens the folder at tree->path. Returns a descriptor or a negative errno. */
static int open_folder(struct gbx__tree_out* tree) {
  for (const char* at = tree->path; at != NULL; at = strchr(at + 1, '/'))
    tree->steps++;
  if (tree->steps > GBX__TREE_MAX_STEPS) return -E2BIG;
  return gbx__beneath_open(
      tree->root_fd, tree->path_size == 0 ? "." : tree->path,
      O_RDONLY | O_DIRECTORY | O_NONBLOCK, RESOLVE_NO_XDEV);
}

static int fail_folder(const struct gbx__tree_out* tree, int sys_errno,
                       struct gbx_err* err) {
  if (sys_errno == E2BIG)
    return gbx_fail(err, GBX_E_TOO_LARGE, E2BIG, "walk",
                    "too many folders in too deep a tree");
  return gbx_fail(err, GBX_E_IO, sys_errno, "openat2", "%s", tree->path);
}

static bool is_gone(int sys_errno) {
  return sys_errno == ENOENT || sys_errno == ENOTDIR || sys_errno == ELOOP ||
         sys_errno == EXDEV;
}

/* Goes into the folder at tree->path. One that cannot be entered is an empty
 * one, unless its files were to be read. */
static int push_frame(struct gbx__tree_out* tree, struct gbx_err* err) {
  if (tree->depth == tree->room) {
    uint32_t room = tree->room == 0 ? 16 : tree->room * 2;
    void* grown = realloc(tree->frames, room * sizeof *tree->frames);
    if (grown == NULL) return fail_memory(err);
    tree->frames = grown;
    tree->room = room;
  }
  struct frame frame = {.path_size = (uint16_t)tree->path_size};
  fd_close(&tree->fd);
  int fd = open_folder(tree);
  int result = 0;
  if (fd >= 0)
    result = read_names(tree, &frame, fd, err);
  else if (!is_gone(-fd) && (fd == -E2BIG || tree->options.contents))
    result = fail_folder(tree, -fd, err);
  if (result < 0) {
    if (fd >= 0) (void)close(fd);
    free_frame(tree, &frame);
    return result;
  }
  tree->fd = fd < 0 ? -1 : fd;
  tree->frames[tree->depth++] = frame;
  return 0;
}

static void pop_frame(struct gbx__tree_out* tree) {
  free_frame(tree, &tree->frames[--tree->depth]);
  fd_close(&tree->fd);
  tree->path_size =
      tree->depth == 0 ? 0 : tree->frames[tree->depth - 1].path_size;
  tree->path[tree->path_size] = '\0';
}

/* ---- Entries ------------------------------------------------------------- */

/* A place in the caller's buffer. */
struct output {
  uint8_t* bytes;
  size_t size, room;
};

static void put_head(struct output* output, struct gbx_tree_head head,
                     const char* path, const char* target) {
  head.path_size = (uint32_t)strlen(path);
  head.target_size = (uint32_t)strlen(target);
  uint8_t* at = output->bytes + output->size;
  memcpy(at, &head, sizeof head);
  memcpy(at + sizeof head, path, head.path_size);
  memcpy(at + sizeof head + head.path_size, target, head.target_size);
  output->size += sizeof head + head.path_size + head.target_size;
}

static struct gbx_tree_head head_of(enum gbx_file_type type, uint32_t mode,
                                    uint64_t size, int64_t seconds,
                                    uint32_t nanoseconds) {
  struct gbx_tree_head head = {.type = type, .mode = mode, .size = size};
  if (__builtin_mul_overflow(seconds, INT64_C(1000000000), &head.mtime_ns) ||
      __builtin_add_overflow(head.mtime_ns, (int64_t)nanoseconds,
                             &head.mtime_ns))
    head.mtime_ns = seconds < 0 ? INT64_MIN : INT64_MAX;
  return head;
}

static int fail_file(const struct gbx__tree_out* tree, int sys_errno,
                     const char* op, struct gbx_err* err) {
  return gbx_fail(err, sys_errno == EAGAIN ? GBX_E_BUSY : GBX_E_IO, sys_errno,
                  op, "%s", tree->path);
}

/* A file whose bytes follow its head. */
static int put_file(struct gbx__tree_out* tree, const char* name,
                    struct output* output, struct gbx_err* err) {
  /* Nonblocking for fifos and leases, which may have come since. */
  cleanup_fd int fd =
      openat(tree->fd, name,
             O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0)
    return is_gone(errno) || errno == ENXIO
               ? 0
               : fail_file(tree, errno, "open", err);
  struct stat st;
  if (fstat(fd, &st) < 0) return fail_file(tree, errno, "fstat", err);
  if (!S_ISREG(st.st_mode)) return 0;
  struct gbx_tree_head head =
      head_of(GBX_FILE, st.st_mode, (uint64_t)st.st_size, st.st_mtim.tv_sec,
              (uint32_t)st.st_mtim.tv_nsec);
  if (st.st_nlink > 1) head.link = st.st_ino;
  put_head(output, head, tree->path, "");
  if (st.st_size == 0) return 0;
  tree->file_left = (uint64_t)st.st_size;
  tree->file_fd = fd_steal(&fd);
  return 0;
}

static int put_symlink(struct gbx__tree_out* tree, const char* name,
                       struct gbx_tree_head head, struct output* output,
                       struct gbx_err* err) {
  char target[GBX__PATH_SIZE];
  ssize_t size = readlinkat(tree->fd, name, target, sizeof target);
  if (size < 0)
    return is_gone(errno) || errno == EINVAL
               ? 0
               : fail_file(tree, errno, "readlink", err);
  if ((size_t)size == sizeof target)
    return fail_file(tree, ENAMETOOLONG, "readlink", err);
  target[size] = '\0';
  put_head(output, head, tree->path, target);
  return 0;
}

/* What is at tree->path, which is `name` in the top frame's folder. */
static int put_entry(struct gbx__tree_out* tree, const char* name,
                     struct output* output, struct gbx_err* err) {
  struct statx st;
  if (statx(tree->fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
            STATX_TYPE | STATX_MODE | STATX_SIZE | STATX_MTIME, &st) < 0) {
    if (is_gone(errno)) return 0;
    if (errno == EACCES && !tree->options.contents) return 0;
    return fail_file(tree, errno, "statx", err);
  }
  struct gbx_tree_head head =
      head_of(GBX_OTHER, st.stx_mode, st.stx_size, st.stx_mtime.tv_sec,
              st.stx_mtime.tv_nsec);
  if (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) {
    put_head(output, head, tree->path, "");
    return 0;
  }
  switch (st.stx_mode & S_IFMT) {
    case S_IFREG:
      if (tree->options.contents) return put_file(tree, name, output, err);
      head.type = GBX_FILE;
      break;
    case S_IFLNK:
      head.type = GBX_SYMLINK;
      return put_symlink(tree, name, head, output, err);
    case S_IFDIR:
      head.type = GBX_FOLDER;
      head.size = 0;
      put_head(output, head, tree->path, "");
      return tree->options.flat ? 0 : push_frame(tree, err);
    default:
      head.size = 0;
      break;
  }
  put_head(output, head, tree->path, "");
  return 0;
}

/* The next name of the top frame. */
static int put_next(struct gbx__tree_out* tree, struct output* output,
                    struct gbx_err* err) {
  struct frame* frame = &tree->frames[tree->depth - 1];
  if (frame->next == frame->count) {
    pop_frame(tree);
    return 0;
  }
  const char* name = frame->names + frame->sorted[frame->next++];
  if (tree->fd < 0) { /* back from a folder in it */
    tree->fd = open_folder(tree);
    if (tree->fd < 0) {
      int sys_errno = -tree->fd;
      tree->fd = -1;
      frame->next = frame->count; /* it is gone, with all that was in it */
      return is_gone(sys_errno) ? 0 : fail_folder(tree, sys_errno, err);
    }
  }
  size_t folder_size = tree->path_size;
  size_t path_size = folder_size + (folder_size > 0) + strlen(name);
  if (path_size >= GBX__PATH_SIZE)
    return tree->options.contents
               ? gbx_fail(err, GBX_E_TOO_LARGE, ENAMETOOLONG, "walk",
                          "a path longer than 4095 bytes, in %s", tree->path)
               : 0;
  if (folder_size > 0) tree->path[folder_size] = '/';
  strcpy(tree->path + folder_size + (folder_size > 0), name);
  tree->path_size = path_size;
  uint32_t depth = tree->depth;
  int result = put_entry(tree, name, output, err);
  if (result == 0 && tree->depth == depth) {
    tree->path_size = folder_size;
    tree->path[folder_size] = '\0';
  }
  return result;
}

static int put_bytes(struct gbx__tree_out* tree, struct output* output,
                     struct gbx_err* err) {
  size_t wanted = output->room - output->size;
  if (tree->file_left < wanted) wanted = (size_t)tree->file_left;
  ssize_t count =
      RETRY(read(tree->file_fd, output->bytes + output->size, wanted));
  if (count < 0)
    return gbx_fail(err, GBX_E_IO, errno, "read", "a file below %s",
                    tree->path_size == 0 ? "the workspace" : tree->path);
  if (count == 0) /* its size is told already */
    return gbx_fail(err, GBX_E_BUSY, ESTALE, "read",
                    "a file shrank while it was read, below %s",
                    tree->path_size == 0 ? "the workspace" : tree->path);
  output->size += (size_t)count;
  tree->file_left -= (uint64_t)count;
  if (tree->file_left == 0) fd_close(&tree->file_fd);
  return 0;
}

int gbx__tree_out_read(struct gbx__tree_out* tree, uint8_t* bytes, size_t room,
                       size_t* ret_size, struct gbx_err* err) {
  struct output output = {.bytes = bytes, .room = room};
  while (output.size < room) {
    int result;
    if (tree->file_fd >= 0)
      result = put_bytes(tree, &output, err);
    else if (tree->depth == 0 || room - output.size < GBX__TREE_LEAST_ROOM)
      break;
    else
      result = put_next(tree, &output, err);
    if (result < 0) return result;
  }
  *ret_size = output.size;
  return 0;
}

int gbx__tree_out_new(const struct gbx__workspace* workspace, const char* path,
                      const struct gbx__tree_out_options* options,
                      struct gbx__tree_out** ret_tree, struct gbx_err* err) {
  char clean[GBX__PATH_SIZE];
  int result = gbx__beneath_clean(path, true, clean, err);
  if (result < 0) return result;
  struct gbx__tree_out* tree = calloc(1, sizeof *tree);
  if (tree == NULL) return fail_memory(err);
  tree->root_fd = workspace->fd;
  tree->options = *options;
  tree->fd = tree->file_fd = -1;
  tree->path_size = strlen(clean);
  memcpy(tree->path, clean, tree->path_size + 1);
  /* What the caller named must be there, and must be a folder. */
  cleanup_fd int fd = gbx__workspace_open_folder(workspace, path, err);
  result = fd < 0 ? fd : push_frame(tree, err);
  if (result == 0 && tree->fd < 0)
    result = gbx_fail(err, GBX_E_IO, EACCES, "list", "%s", path);
  if (result < 0) {
    gbx__tree_out_free(tree);
    return result;
  }
  *ret_tree = tree;
  return 0;
}

void gbx__tree_out_free(struct gbx__tree_out* tree) {
  if (tree == NULL) return;
  while (tree->depth > 0)
    pop_frame(tree);
  fd_close(&tree->fd);
  fd_close(&tree->file_fd);
  free(tree->frames);
  free(tree);
}
