/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/walk.h"

#include <dirent.h>
#include <linux/openat2.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fd.h"
#include "engine/beneath.h"

enum { buffer_bytes = 32 * 1024 };

/* Grows an array so that `wanted` items fit. Returns it, or NULL for want of
 * memory: then the old one is still there. */
static void* grow(void* items, uint32_t* room, size_t wanted,
                  size_t item_size) {
  if (wanted <= *room) return items;
  size_t new_room = *room == 0 ? 64 : (size_t)*room * 2;
  if (new_room < wanted) new_room = wanted;
  void* grown = realloc(items, new_room * item_size);
  if (grown != NULL) *room = (uint32_t)new_room;
  return grown;
}

static int fail_memory(struct gbx_err* err) {
  return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "realloc", "file list");
}

/* A new folder to read. */
static int add_folder(struct gbx__walk* walk, struct gbx__walk_folder folder,
                      struct gbx_err* err) {
  void* folders = grow(walk->folders, &walk->folder_room,
                       walk->folder_count + 1u, sizeof *walk->folders);
  if (folders == NULL) return fail_memory(err);
  walk->folders = folders;
  walk->folders[walk->folder_count++] = folder;
  return 0;
}

/* Filesystems know years that nanoseconds in an int64 do not: beyond 1677 and
 * 2262 the nearest end stands for them. */
static int64_t to_ns(const struct statx_timestamp* time) {
  int64_t ns;
  if (__builtin_mul_overflow(time->tv_sec, INT64_C(1000000000), &ns) ||
      __builtin_add_overflow(ns, (int64_t)time->tv_nsec, &ns))
    return time->tv_sec < 0 ? INT64_MIN : INT64_MAX;
  return ns;
}

/* Appends a node, with its name. `st` is NULL for a folder. */
static int add_node(struct gbx__walk* walk, const char* name, size_t name_size,
                    const struct statx* st, struct gbx_err* err) {
  size_t name_bytes = walk->name_bytes + name_size + (st == NULL ? 2 : 1);
  if (name_bytes > GBX__WALK_MAX_NAME_BYTES)
    return gbx_fail(err, GBX_E_TOO_LARGE, E2BIG, "walk",
                    "more than %u bytes of file names",
                    GBX__WALK_MAX_NAME_BYTES);
  void* names = grow(walk->names, &walk->name_room, name_bytes, 1);
  if (names == NULL) return fail_memory(err);
  walk->names = names;
  void* nodes = grow(walk->nodes, &walk->node_room, walk->node_count + 1u,
                     sizeof *walk->nodes);
  if (nodes == NULL) return fail_memory(err);
  walk->nodes = nodes;

  struct gbx__walk_node* node = &walk->nodes[walk->node_count++];
  *node = (struct gbx__walk_node){.name = walk->name_bytes,
                                  .folder = GBX__WALK_NO_FOLDER};
  char* text = walk->names + walk->name_bytes;
  memcpy(text, name, name_size);
  if (st == NULL) {
    node->folder = 0; /* add_folders() gives it its number */
    text[name_size++] = '/';
  } else {
    node->inode = st->stx_ino;
    node->size = st->stx_size;
    node->mtime_ns = to_ns(&st->stx_mtime);
    node->ctime_ns = to_ns(&st->stx_ctime);
    if (node->ctime_ns > walk->newest_ns) walk->newest_ns = node->ctime_ns;
    walk->file_count++;
  }
  text[name_size] = '\0';
  walk->name_bytes = (uint32_t)name_bytes;
  return 0;
}

/* Returns false for an entry that is never looked at. */
static bool is_wanted(const struct gbx__walk* walk, uint32_t folder,
                      const char* name) {
  if (name[0] != '.') return true;
  if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return false;
  if (folder == 0 && walk->prefix_size == 0 && strcmp(name, ".deps") == 0)
    return false;
  return !gbx__temp_name_is(name);
}

static int add_entry(struct gbx__walk* walk, uint32_t folder, int fd,
                     const struct dirent64* entry, struct gbx_err* err) {
  const char* name = entry->d_name;
  unsigned char type = entry->d_type;
  if (!is_wanted(walk, folder, name)) return 0;
  if (++walk->entries_seen > GBX__WALK_MAX_ENTRIES)
    return gbx_fail(err, GBX_E_TOO_LARGE, E2BIG, "walk",
                    "more than %u files and folders", GBX__WALK_MAX_ENTRIES);
  size_t name_size = strlen(name);
  /* Counts the "/" of a folder or the NUL of a file. */
  if (walk->prefix_size + walk->folders[folder].path_size + name_size + 1 >
      GBX__PATH_SIZE)
    return 0;
  if (type == DT_DIR) return add_node(walk, name, name_size, NULL, err);
  if (type != DT_REG && type != DT_UNKNOWN) return 0;

  struct statx st;
  if (statx(fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
            STATX_TYPE | STATX_INO | STATX_SIZE | STATX_MTIME | STATX_CTIME,
            &st) < 0) {
    if (errno == ENOENT) return 0; /* gone since it was listed */
    if (errno == EACCES) { /* a folder with its read bit but no search bit */
      walk->folders[folder].unreadable = true;
      return 0;
    }
    return gbx_fail(err, GBX_E_IO, errno, "statx", "%s", name);
  }
  if (S_ISDIR(st.stx_mode)) return add_node(walk, name, name_size, NULL, err);
  if (!S_ISREG(st.stx_mode) ||
      (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0) /* a bound file */
    return 0;
  return add_node(walk, name, name_size, &st, err);
}

static int read_entries(struct gbx__walk* walk, uint32_t folder, int fd,
                        struct gbx_err* err) {
  alignas(8) char buffer[buffer_bytes];
  for (;;) {
    ssize_t size = getdents64(fd, buffer, sizeof buffer);
    if (size == 0 || (size < 0 && errno == ENOENT)) return 0;
    if (size < 0) return gbx_fail(err, GBX_E_IO, errno, "getdents64", "folder");
    for (ssize_t at = 0; at < size;) {
      const struct dirent64* entry = (const void*)(buffer + at);
      at += entry->d_reclen;
      int result = add_entry(walk, folder, fd, entry, err);
      if (result < 0) return result;
    }
  }
}

static int compare_nodes(const void* a, const void* b, void* names) {
  const struct gbx__walk_node* node_a = a;
  const struct gbx__walk_node* node_b = b;
  return strcmp((const char*)names + node_a->name,
                (const char*)names + node_b->name);
}

/* Appends those of the folder's nodes that are folders to the folders to read.
 */
static int add_folders(struct gbx__walk* walk, uint32_t folder,
                       struct gbx_err* err) {
  struct gbx__walk_folder parent = walk->folders[folder];
  for (uint32_t i = parent.first; i < parent.first + parent.count; i++) {
    struct gbx__walk_node* node = &walk->nodes[i];
    if (node->folder == GBX__WALK_NO_FOLDER) continue;
    node->folder = walk->folder_count;
    int result = add_folder(
        walk,
        (struct gbx__walk_folder){
            .parent = folder,
            .node = i,
            .path_size = (uint16_t)(parent.path_size +
                                    strlen(gbx__walk_name(walk, node))),
            .depth = (uint16_t)(parent.depth + 1)},
        err);
    if (result < 0) return result;
  }
  return 0;
}

/* Writes the way from the first folder to `folder`, with "/" at the end, so
 * that it ends at `end`. */
static void write_folder_path(const struct gbx__walk* walk, uint32_t folder,
                              char* end) {
  while (folder != 0) {
    const struct gbx__walk_folder* from = &walk->folders[folder];
    size_t size =
        (size_t)from->path_size - walk->folders[from->parent].path_size;
    end -= size;
    memcpy(end, gbx__walk_name(walk, &walk->nodes[from->node]), size);
    folder = from->parent;
  }
}

/* Returns a descriptor, or a negative errno. */
static int open_folder(const struct gbx__walk* walk, uint32_t folder,
                       int dir_fd) {
  char path[GBX__PATH_SIZE + 1] = ".";
  size_t size = walk->folders[folder].path_size;
  if (folder != 0) {
    write_folder_path(walk, folder, path + size);
    path[size - 1] = '\0'; /* in the place of the last "/" */
  }
  return gbx__beneath_open(dir_fd, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK,
                           RESOLVE_NO_XDEV);
}

static int read_folder(struct gbx__walk* walk, uint32_t folder, int dir_fd,
                       struct gbx_err* err) {
  walk->folders[folder].first = walk->node_count;
  walk->steps += walk->folders[folder].depth + 1u;
  if (walk->steps > GBX__WALK_MAX_STEPS)
    return gbx_fail(err, GBX_E_TOO_LARGE, E2BIG, "walk",
                    "too many folders in too deep a tree");
  cleanup_fd int fd = open_folder(walk, folder, dir_fd);
  switch (-fd) {
    case EACCES:
    case EPERM:
      walk->folders[folder].unreadable = true;
      return 0;
    case EXDEV: /* a mount, or moved out of the workspace meanwhile */
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
      return 0; /* what it was when it was listed is gone */
    case ENOSYS:
      return gbx_fail(err, GBX_E_UNSUPPORTED, ENOSYS, "openat2", "Linux 5.6");
    default:
      if (fd < 0) return gbx_fail(err, GBX_E_IO, -fd, "openat2", "folder");
  }
  int result = read_entries(walk, folder, fd, err);
  if (result < 0) return result;
  struct gbx__walk_folder* read = &walk->folders[folder];
  read->count = walk->node_count - read->first;
  if (read->count > 1)
    qsort_r(walk->nodes + read->first, read->count, sizeof *walk->nodes,
            compare_nodes, walk->names);
  return add_folders(walk, folder, err);
}

int gbx__walk_init(struct gbx__walk* walk, int dir_fd, size_t prefix_size,
                   struct gbx_err* err) {
  *walk = (struct gbx__walk){.prefix_size = (uint32_t)prefix_size};
  int result = add_folder(walk, (struct gbx__walk_folder){0}, err);
  for (uint32_t i = 0; result == 0 && i < walk->folder_count; i++)
    result = read_folder(walk, i, dir_fd, err);
  if (result < 0) gbx__walk_done(walk);
  return result;
}

void gbx__walk_done(struct gbx__walk* walk) {
  free(walk->nodes);
  free(walk->folders);
  free(walk->names);
  *walk = (struct gbx__walk){0};
}

const struct gbx__walk_node* gbx__walk_next(const struct gbx__walk* walk,
                                            struct gbx__walk_cursor* cursor,
                                            uint32_t* ret_folder) {
  for (;;) {
    const struct gbx__walk_folder* folder = &walk->folders[cursor->folder];
    if (cursor->next == folder->first + folder->count) {
      if (cursor->folder == 0) return NULL;
      cursor->next = folder->node + 1;
      cursor->folder = folder->parent;
      continue;
    }
    const struct gbx__walk_node* node = &walk->nodes[cursor->next];
    if (node->folder == GBX__WALK_NO_FOLDER) {
      cursor->next++;
      *ret_folder = cursor->folder;
      return node;
    }
    cursor->folder = node->folder;
    cursor->next = walk->folders[node->folder].first;
  }
}

size_t gbx__walk_path_size(const struct gbx__walk* walk, uint32_t folder,
                           const struct gbx__walk_node* file) {
  return walk->folders[folder].path_size + strlen(gbx__walk_name(walk, file));
}

void gbx__walk_path(const struct gbx__walk* walk, uint32_t folder,
                    const struct gbx__walk_node* file, char* path) {
  char* name = path + walk->folders[folder].path_size;
  write_folder_path(walk, folder, name);
  strcpy(name, gbx__walk_name(walk, file)); /* the caller made the room */
}
