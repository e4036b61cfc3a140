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

static struct gbx__walk_node file_of(const struct statx* st) {
  return (struct gbx__walk_node){.inode = st->stx_ino,
                                 .size = st->stx_size,
                                 .mtime_ns = to_ns(&st->stx_mtime),
                                 .ctime_ns = to_ns(&st->stx_ctime),
                                 .folder = GBX__WALK_NO_FOLDER};
}

/* Appends a node, with its name. `file` is NULL for a folder. */
static int add_node(struct gbx__walk* walk, const char* name, size_t name_size,
                    const struct gbx__walk_node* file, struct gbx_err* err) {
  size_t name_bytes = walk->name_bytes + name_size + (file == NULL ? 2 : 1);
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
  char* text = walk->names + walk->name_bytes;
  memcpy(text, name, name_size);
  if (file == NULL) {
    *node = (struct gbx__walk_node){0}; /* add_folders() gives it its number */
    text[name_size++] = '/';
  } else {
    *node = *file;
    if (node->ctime_ns > walk->newest_ns) walk->newest_ns = node->ctime_ns;
    walk->file_count++;
  }
  node->name = walk->name_bytes;
  text[name_size] = '\0';
  walk->name_bytes = (uint32_t)name_bytes;
  return 0;
}

/* Returns false for an entry that is never looked at. */
static bool is_wanted(const struct gbx__walk* walk, uint32_t folder,
                      const char* name) {
  if (name[0] != '.') return true;
  if (folder == 0 && walk->prefix_size == 0 && strcmp(name, ".deps") == 0)
    return false;
  return !gbx__temp_name_is(name);
}

static bool is_too_long(const struct gbx__walk* walk, uint32_t folder,
                        size_t name_size) {
  /* Counts the "/" of a folder or the NUL of a file. */
  return walk->prefix_size + walk->folders[folder].path_size + name_size + 1 >
         GBX__PATH_SIZE;
}

/* 1: a regular file; 0: nothing that is told; -EISDIR: a folder; or another
 * negative errno. *ret_links: how many names it has. */
static int look(int fd, const char* name, struct gbx__walk_node* ret_file,
                uint32_t* ret_links) {
  struct statx st;
  if (statx(fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
            STATX_TYPE | STATX_INO | STATX_SIZE | STATX_MTIME | STATX_CTIME |
                STATX_NLINK,
            &st) < 0)
    return -errno;
  *ret_links = st.stx_nlink;
  if (S_ISDIR(st.stx_mode)) return -EISDIR;
  if (!S_ISREG(st.stx_mode)) return 0;
  if ((st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0) { /* a bound file */
    *ret_links = UINT32_MAX;
    return 0;
  }
  *ret_file = file_of(&st);
  return 1;
}

static int add_entry(struct gbx__walk* walk, uint32_t folder, int fd,
                     const struct dirent64* entry, struct gbx_err* err) {
  const char* name = entry->d_name;
  unsigned char type = entry->d_type;
  if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return 0;
  /* What is not wanted takes its time as well. */
  uint32_t most =
      walk->most_entries == 0 ? GBX__WALK_MAX_ENTRIES : walk->most_entries;
  if (++walk->entries_seen > most)
    return gbx_fail(err, GBX_E_TOO_LARGE, E2BIG, "walk",
                    "more than %u files and folders", most);
  if (!is_wanted(walk, folder, name)) {
    if (type == DT_DIR || type == DT_UNKNOWN) walk->partial = true;
    return 0;
  }
  size_t name_size = strlen(name);
  if (is_too_long(walk, folder, name_size)) {
    walk->partial = true;
    return 0;
  }
  if (type == DT_DIR) return add_node(walk, name, name_size, NULL, err);
  if (type != DT_REG && type != DT_UNKNOWN) return 0;

  struct gbx__walk_node file;
  uint32_t links = 1;
  int found = look(fd, name, &file, &links);
  if (links > 1 && found != -EISDIR) walk->partial = true;
  if (found == 1) return add_node(walk, name, name_size, &file, err);
  if (found == -EISDIR) return add_node(walk, name, name_size, NULL, err);
  if (found == -EACCES) /* a folder with its read bit but no search bit */
    walk->folders[folder].unreadable = walk->partial = true;
  else if (found < 0 && found != -ENOENT) /* gone since it was listed */
    return gbx_fail(err, GBX_E_IO, -found, "statx", "%s", name);
  return 0;
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

void gbx__walk_folder_path(const struct gbx__walk* walk, uint32_t folder,
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

int gbx__walk_open_folder(const struct gbx__walk* walk, uint32_t folder,
                          int dir_fd) {
  char path[GBX__PATH_SIZE + 1] = ".";
  size_t size = walk->folders[folder].path_size;
  if (folder != 0) {
    gbx__walk_folder_path(walk, folder, path + size);
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
  cleanup_fd int fd = gbx__walk_open_folder(walk, folder, dir_fd);
  switch (-fd) {
    case EACCES:
    case EPERM:
      walk->folders[folder].unreadable = walk->partial = true;
      return 0;
    case EXDEV: /* a mount, or moved out of the workspace meanwhile */
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
      walk->partial = true;
      return 0; /* what it was when it was listed is gone */
    case ENOSYS:
      return gbx_fail(err, GBX_E_UNSUPPORTED, ENOSYS, "openat2", "Linux 5.6");
    default:
      if (fd < 0) return gbx_fail(err, GBX_E_IO, -fd, "openat2", "folder");
  }
  if (walk->visitor != NULL)
    walk->visitor->enter(walk->visitor->data, folder, fd);
  int result = read_entries(walk, folder, fd, err);
  if (result < 0) return result;
  struct gbx__walk_folder* read = &walk->folders[folder];
  read->count = walk->node_count - read->first;
  if (read->count > 1)
    qsort_r(walk->nodes + read->first, read->count, sizeof *walk->nodes,
            compare_nodes, walk->names);
  return add_folders(walk, folder, err);
}

static int read_tree(struct gbx__walk* walk, int dir_fd, struct gbx_err* err) {
  int result = add_folder(walk, (struct gbx__walk_folder){0}, err);
  for (uint32_t i = 0; result == 0 && i < walk->folder_count; i++)
    result = read_folder(walk, i, dir_fd, err);
  walk->visitor = NULL;
  if (result < 0) gbx__walk_done(walk);
  return result;
}

int gbx__walk_init(struct gbx__walk* walk, int dir_fd, size_t prefix_size,
                   struct gbx_err* err) {
  *walk = (struct gbx__walk){.prefix_size = (uint32_t)prefix_size};
  return read_tree(walk, dir_fd, err);
}

int gbx__walk_init_with(struct gbx__walk* walk, int dir_fd,
                        const struct gbx__walk_visitor* visitor,
                        uint32_t most_entries, struct gbx_err* err) {
  *walk = (struct gbx__walk){.visitor = visitor, .most_entries = most_entries};
  return read_tree(walk, dir_fd, err);
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
  gbx__walk_folder_path(walk, folder, name);
  strcpy(name, gbx__walk_name(walk, file)); /* the caller made the room */
}

/* ---- Keeping it up to date ----------------------------------------------- */

int gbx__walk_look(const struct gbx__walk* walk, uint32_t folder, int fd,
                   const char* name, struct gbx__walk_node* ret_file) {
  uint32_t links = 1;
  int found = look(fd, name, ret_file, &links);
  if (found == 1 && links > 1) return -EMLINK;
  if (found == 0 && links == UINT32_MAX) return -EXDEV;
  if (found == 1 && (!is_wanted(walk, folder, name) ||
                     is_too_long(walk, folder, strlen(name))))
    return 0;
  return found;
}

/* Where in its folder a name is or belongs: an index in `nodes`. */
static uint32_t place_of(const struct gbx__walk* walk, uint32_t folder,
                         const char* name, bool* ret_found) {
  uint32_t low = walk->folders[folder].first;
  uint32_t high = low + walk->folders[folder].count;
  *ret_found = false;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    int order = strcmp(gbx__walk_name(walk, &walk->nodes[middle]), name);
    if (order == 0) *ret_found = true;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

const struct gbx__walk_node* gbx__walk_find(const struct gbx__walk* walk,
                                            uint32_t folder, const char* name) {
  bool found;
  uint32_t place = place_of(walk, folder, name, &found);
  return found ? &walk->nodes[place] : NULL;
}

/* Nodes have moved: folders among them are told where they are now. */
static void renumber(struct gbx__walk* walk, uint32_t from, uint32_t end) {
  for (uint32_t i = from; i < end; i++)
    if (walk->nodes[i].folder != GBX__WALK_NO_FOLDER)
      walk->folders[walk->nodes[i].folder].node = i;
}

/* Moves a folder's nodes to the end, where there is room for one more. Where
 * they were nothing is any more. */
static int move_to_end(struct gbx__walk* walk, uint32_t number,
                       struct gbx_err* err) {
  struct gbx__walk_folder* folder = &walk->folders[number];
  if (folder->first + folder->count == walk->node_count) return 0;
  size_t wanted = (size_t)walk->node_count + folder->count;
  if (wanted > 2 * (size_t)GBX__WALK_MAX_ENTRIES)
    return gbx_fail(err, GBX_E_TOO_LARGE, E2BIG, "walk", "nodes");
  void* nodes =
      grow(walk->nodes, &walk->node_room, wanted, sizeof *walk->nodes);
  if (nodes == NULL) return fail_memory(err);
  walk->nodes = nodes;
  memcpy(walk->nodes + walk->node_count, walk->nodes + folder->first,
         folder->count * sizeof *walk->nodes);
  folder->first = walk->node_count;
  walk->node_count = (uint32_t)wanted;
  renumber(walk, folder->first, walk->node_count);
  return 0;
}

int gbx__walk_put(struct gbx__walk* walk, uint32_t folder, const char* name,
                  const struct gbx__walk_node* file, struct gbx_err* err) {
  bool found;
  uint32_t place = place_of(walk, folder, name, &found);
  if (found) {
    uint32_t old_name = walk->nodes[place].name;
    walk->nodes[place] = *file;
    walk->nodes[place].name = old_name;
    if (file->ctime_ns > walk->newest_ns) walk->newest_ns = file->ctime_ns;
    return 0;
  }
  place -= walk->folders[folder].first;
  int result = move_to_end(walk, folder, err);
  if (result == 0) result = add_node(walk, name, strlen(name), file, err);
  if (result < 0) return result;
  place += walk->folders[folder].first;
  struct gbx__walk_node added = walk->nodes[walk->node_count - 1];
  memmove(walk->nodes + place + 1, walk->nodes + place,
          (walk->node_count - 1 - place) * sizeof added);
  walk->nodes[place] = added;
  walk->folders[folder].count++;
  renumber(walk, place + 1, walk->node_count);
  return 0;
}

void gbx__walk_drop(struct gbx__walk* walk, uint32_t folder, const char* name) {
  bool found;
  uint32_t place = place_of(walk, folder, name, &found);
  if (!found) return;
  struct gbx__walk_folder* from = &walk->folders[folder];
  uint32_t end = from->first + from->count;
  memmove(walk->nodes + place, walk->nodes + place + 1,
          (end - place - 1) * sizeof *walk->nodes);
  from->count--;
  walk->file_count--;
  if (end == walk->node_count) walk->node_count--;
  renumber(walk, place, end - 1);
}
