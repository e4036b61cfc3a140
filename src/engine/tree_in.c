/* SPDX-License-Identifier: Apache-2.0 */

/* A restore: all of it is made in a hidden folder of the workspace, beneath
 * which every step stays by openat2, whatever a box does to it meanwhile, and
 * then takes the place of what was there (swap.h). */

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fd.h"
#include "engine/beneath.h"
#include "engine/swap.h"
#include "engine/tree.h"
#include "engine/writer.h"

struct folder {
  char* path;
  uint32_t mode;
  int64_t mtime_ns;
};

struct gbx__tree_in {
  const struct gbx__workspace* workspace;
  struct gbx__swap swap;
  struct gbx__writer writer; /* into its folder for the new */
  /* The folder that the last file went into: the next mostly does too. */
  char parent[GBX__PATH_SIZE];
  int parent_fd;
  /* The file that bytes are awaited for. */
  int file_fd;
  uint64_t file_left;
  struct gbx_tree_head file_head;
  /* Their modes and times come last: some would not let us in. */
  struct folder* folders;
  size_t folder_count, folder_room;
};

static int fail_memory(struct gbx_err* err) {
  return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "tree");
}

static int fail_entry(const char* path, int sys_errno, struct gbx_err* err) {
  enum gbx_code code = GBX_E_IO;
  if (sys_errno == EEXIST || sys_errno == ENOTDIR) code = GBX_E_EXISTS;
  return gbx_fail(err, code, sys_errno, "restore", "%s", path);
}

int gbx__tree_in_new(const struct gbx__workspace* workspace,
                     struct gbx__tree_in** ret_tree, struct gbx_err* err) {
  struct gbx__tree_in* tree = calloc(1, sizeof *tree);
  if (tree == NULL) return fail_memory(err);
  tree->workspace = workspace;
  tree->parent_fd = tree->file_fd = -1;
  int result = gbx__writer_init(&tree->writer, workspace, err);
  if (result == 0) result = gbx__swap_init(workspace->fd, &tree->swap, err);
  if (result < 0) {
    free(tree);
    return result;
  }
  tree->writer.root_fd = tree->swap.new_fd;
  *ret_tree = tree;
  return 0;
}

/* ---- Making -------------------------------------------------------------- */

/* The folder that `path` lies in, made if missing. Borrowed. */
static int enter_parent(struct gbx__tree_in* tree, const char* path,
                        const char** ret_name, struct gbx_err* err) {
  const char* slash = strrchr(path, '/');
  size_t size = slash == NULL ? 0 : (size_t)(slash - path);
  *ret_name = slash == NULL ? path : slash + 1;
  if (tree->parent_fd >= 0 && strlen(tree->parent) == size &&
      memcmp(tree->parent, path, size) == 0)
    return tree->parent_fd;
  fd_close(&tree->parent_fd);
  memcpy(tree->parent, path, size);
  tree->parent[size] = '\0';
  int fd = gbx__writer_open_folder(&tree->writer, tree->parent);
  if (fd < 0) return fail_entry(path, -fd, err);
  tree->parent_fd = fd;
  return fd;
}

static struct timespec to_timespec(int64_t ns) {
  struct timespec time = {.tv_sec = ns / INT64_C(1000000000),
                          .tv_nsec = ns % INT64_C(1000000000)};
  if (time.tv_nsec < 0) {
    time.tv_sec--;
    time.tv_nsec += 1000000000;
  }
  return time;
}

/* Whose it is, its permission bits (not setuid ones), its time. */
static int set_facts(const struct gbx__tree_in* tree, int fd, uint32_t mode,
                     int64_t mtime_ns) {
  const struct gbx__writer* writer = &tree->writer;
  struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, to_timespec(mtime_ns)};
  if (writer->gives && fchown(fd, writer->uid, writer->gid) < 0) return -errno;
  if (fchmod(fd, (mode_t)(mode & 0777)) < 0) return -errno;
  /* A filesystem that knows no such year keeps the time that it has. */
  if (futimens(fd, times) < 0 && errno != EINVAL && errno != ERANGE)
    return -errno;
  return 0;
}

static int end_file(struct gbx__tree_in* tree, struct gbx_err* err) {
  int result = set_facts(tree, tree->file_fd, tree->file_head.mode,
                         tree->file_head.mtime_ns);
  if (close(fd_steal(&tree->file_fd)) < 0 && errno != EINTR && result == 0)
    result = -errno;
  return result < 0 ? fail_entry(tree->parent, -result, err) : 0;
}

static int make_file(struct gbx__tree_in* tree,
                     const struct gbx_tree_head* head, const char* path,
                     struct gbx_err* err) {
  const char* name;
  int parent_fd = enter_parent(tree, path, &name, err);
  if (parent_fd < 0) return parent_fd;
  int fd = openat(
      parent_fd, name,
      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0600);
  if (fd < 0) return fail_entry(path, errno, err);
  tree->file_fd = fd;
  tree->file_head = *head;
  tree->file_left = head->size;
  return head->size == 0 ? end_file(tree, err) : 0;
}

static int make_folder(struct gbx__tree_in* tree,
                       const struct gbx_tree_head* head, const char* path,
                       struct gbx_err* err) {
  cleanup_fd int fd = gbx__writer_open_folder(&tree->writer, path);
  if (fd < 0) return fail_entry(path, -fd, err);
  if (tree->folder_count == tree->folder_room) {
    size_t room = tree->folder_room == 0 ? 64 : tree->folder_room * 2;
    void* grown = realloc(tree->folders, room * sizeof *tree->folders);
    if (grown == NULL) return fail_memory(err);
    tree->folders = grown;
    tree->folder_room = room;
  }
  char* copy = strdup(path);
  if (copy == NULL) return fail_memory(err);
  tree->folders[tree->folder_count++] = (struct folder){
      .path = copy, .mode = head->mode, .mtime_ns = head->mtime_ns};
  return 0;
}

static int make_symlink(struct gbx__tree_in* tree,
                        const struct gbx_tree_head* head, const char* path,
                        const char* target, struct gbx_err* err) {
  const char* name;
  int parent_fd = enter_parent(tree, path, &name, err);
  if (parent_fd < 0) return parent_fd;
  if (symlinkat(target, parent_fd, name) < 0)
    return fail_entry(path, errno, err);
  const struct gbx__writer* writer = &tree->writer;
  if (writer->gives && fchownat(parent_fd, name, writer->uid, writer->gid,
                                AT_SYMLINK_NOFOLLOW) < 0)
    return fail_entry(path, errno, err);
  struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                              to_timespec(head->mtime_ns)};
  (void)utimensat(parent_fd, name, times, AT_SYMLINK_NOFOLLOW); /* a nicety */
  return 0;
}

static int make_link(struct gbx__tree_in* tree, const char* path,
                     const char* target, struct gbx_err* err) {
  char clean[GBX__PATH_SIZE];
  const char *name, *target_name;
  int result = gbx__beneath_clean(target, false, clean, err);
  if (result < 0) return result;
  cleanup_fd int target_fd =
      gbx__writer_open_parent(&tree->writer, clean, &target_name, err);
  if (target_fd < 0) return target_fd;
  int parent_fd = enter_parent(tree, path, &name, err);
  if (parent_fd < 0) return parent_fd;
  /* Without AT_SYMLINK_FOLLOW: a link to a symlink is one to itself. */
  if (linkat(target_fd, target_name, parent_fd, name, 0) < 0)
    return fail_entry(path, errno, err);
  return 0;
}

static int make_entry(struct gbx__tree_in* tree,
                      const struct gbx_tree_head* head, const char* path,
                      const char* target, struct gbx_err* err) {
  switch (head->type) {
    case GBX_FILE:
      return make_file(tree, head, path, err);
    case GBX_FOLDER:
      return make_folder(tree, head, path, err);
    case GBX_SYMLINK:
      return make_symlink(tree, head, path, target, err);
    case GBX_LINK:
      return make_link(tree, path, target, err);
    default:
      return gbx_fail(err, GBX_E_INVALID, EINVAL, "restore", "type %u",
                      head->type);
  }
}

/* Copies a path that ends where its bytes end. */
static int take_text(const uint8_t* bytes, uint32_t size,
                     char ret_text[GBX__PATH_SIZE], struct gbx_err* err) {
  if (size >= GBX__PATH_SIZE || memchr(bytes, 0, size) != NULL)
    return gbx_fail(err, GBX_E_INVALID, EINVAL, "restore", "a path");
  memcpy(ret_text, bytes, size);
  ret_text[size] = '\0';
  return 0;
}

/* One head with its paths. Returns its size. */
static long take_head(struct gbx__tree_in* tree, const uint8_t* bytes,
                      size_t size, struct gbx_err* err) {
  struct gbx_tree_head head;
  char path[GBX__PATH_SIZE], clean[GBX__PATH_SIZE], target[GBX__PATH_SIZE];
  if (size >= sizeof head) memcpy(&head, bytes, sizeof head);
  if (size < sizeof head ||
      size - sizeof head < (size_t)head.path_size + head.target_size)
    return gbx_fail(err, GBX_E_INVALID, EINVAL, "restore", "a cut-off head");
  const uint8_t* at = bytes + sizeof head;
  int result = take_text(at, head.path_size, path, err);
  if (result == 0)
    result = take_text(at + head.path_size, head.target_size, target, err);
  if (result == 0) result = gbx__beneath_clean(path, false, clean, err);
  if (result == 0) result = make_entry(tree, &head, clean, target, err);
  if (result < 0) return result;
  return (long)(sizeof head + head.path_size + head.target_size);
}

static int take_bytes(struct gbx__tree_in* tree, const uint8_t* bytes,
                      size_t size, struct gbx_err* err) {
  int result = fd_write_all(tree->file_fd, bytes, size);
  if (result < 0) return fail_entry(tree->parent, -result, err);
  tree->file_left -= size;
  return tree->file_left == 0 ? end_file(tree, err) : 0;
}

int gbx__tree_in_write(struct gbx__tree_in* tree, const uint8_t* bytes,
                       size_t size, struct gbx_err* err) {
  while (size > 0) {
    long used;
    if (tree->file_fd >= 0) {
      used = (long)(tree->file_left < size ? tree->file_left : size);
      int result = take_bytes(tree, bytes, (size_t)used, err);
      if (result < 0) return result;
    } else {
      used = take_head(tree, bytes, size, err);
      if (used < 0) return (int)used;
    }
    bytes += used;
    size -= (size_t)used;
  }
  return 0;
}

/* ---- Its place ----------------------------------------------------- */

/* Longer paths first, so that no folder is closed before what is in it is done.
 */
static int compare_folders(const void* a, const void* b) {
  size_t size_a = strlen(((const struct folder*)a)->path);
  size_t size_b = strlen(((const struct folder*)b)->path);
  return size_a < size_b ? 1 : size_a > size_b ? -1 : 0;
}

static bool is_at_top(const struct folder* folder) {
  return strchr(folder->path, '/') == NULL;
}

/* While all is still aside. A folder that is closed to its owner cannot be
 * moved, so those at the top stay open until then. */
static int set_folders(struct gbx__tree_in* tree, struct gbx_err* err) {
  for (size_t i = 0; i < tree->folder_count; i++) {
    const struct folder* folder = &tree->folders[i];
    uint32_t mode = folder->mode | (is_at_top(folder) ? 0700 : 0);
    cleanup_fd int fd = gbx__beneath_open(tree->swap.new_fd, folder->path,
                                          O_RDONLY | O_DIRECTORY, 0);
    int result = fd < 0 ? fd : set_facts(tree, fd, mode, folder->mtime_ns);
    if (result < 0) return fail_entry(folder->path, -result, err);
  }
  return 0;
}

/* In its place. A box may have put another folder there: given away is nothing
 * any more, and closed is only what belongs to the workspace's owner. */
static void close_folders(const struct gbx__tree_in* tree) {
  const struct gbx__writer* writer = &tree->writer;
  uid_t owner = writer->gives ? writer->uid : geteuid();
  for (size_t i = 0; i < tree->folder_count; i++) {
    const struct folder* folder = &tree->folders[i];
    struct stat st;
    if (!is_at_top(folder) || (folder->mode & 0700) == 0700) continue;
    cleanup_fd int fd = gbx__beneath_open(tree->workspace->fd, folder->path,
                                          O_RDONLY | O_DIRECTORY, 0);
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == owner)
      (void)fchmod(fd, folder->mode & 0777); /* it is restored all the same */
  }
}

static int keep_tree(struct gbx__tree_in* tree, struct gbx_err* err) {
  if (tree->file_fd >= 0)
    return gbx_fail(err, GBX_E_INVALID, EINVAL, "restore", "a cut-off file");
  if (tree->folder_count > 1)
    qsort(tree->folders, tree->folder_count, sizeof *tree->folders,
          compare_folders);
  int result = set_folders(tree, err);
  if (result < 0) return result;
  result = gbx__swap_perform(&tree->swap, err);
  if (result == 0) close_folders(tree);
  return result;
}

int gbx__tree_in_free(struct gbx__tree_in* tree, bool keep,
                      struct gbx_err* err) {
  int result = keep ? keep_tree(tree, err) : 0;
  fd_close(&tree->file_fd);
  fd_close(&tree->parent_fd);
  gbx__swap_done(&tree->swap);
  for (size_t i = 0; i < tree->folder_count; i++)
    free(tree->folders[i].path);
  free(tree->folders);
  free(tree);
  return result;
}
