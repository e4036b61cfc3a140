/* SPDX-License-Identifier: Apache-2.0 */

/* Lists of a workspace. The plain one is of regular files and in the order of
 * their paths, as the index of changes sees them (walk.h); the other kinds are
 * made from a tree as a snapshot sees it (tree.h). */

#include <stdlib.h>
#include <string.h>

#include "common/fd.h"
#include "engine/beneath.h"
#include "engine/tree.h"
#include "engine/walk.h"
#include "engine/workspace.h"

#define MAX_LIST_PATH_BYTES (256u << 20)
#define LIST_PIECE_BYTES    (256u << 10)

static int fail_list_memory(struct gbx_err* err) {
  return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "file list");
}

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
  if (files == NULL) return fail_list_memory(err);

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
  cleanup_fd int fd = gbx__workspace_open_folder(workspace, path, err);
  if (fd < 0) return fd;
  int result = gbx__beneath_clean(path, true, prefix, err);
  if (result < 0) return result;
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

/* A list that grows: the paths are in a row beside it until it is whole. */
struct growing_list {
  struct gbx_file_entry* files;
  char* paths;
  size_t count, room, path_bytes, path_room;
};

static int add_entry(struct growing_list* list,
                     const struct gbx_tree_head* head, const void* path,
                     struct gbx_err* err) {
  size_t path_bytes = list->path_bytes + head->path_size + 1;
  if (path_bytes > MAX_LIST_PATH_BYTES)
    return gbx_fail(err, GBX_E_TOO_LARGE, E2BIG, "list",
                    "more than %u bytes of paths", MAX_LIST_PATH_BYTES);
  if (list->count == list->room) {
    size_t room = list->room == 0 ? 64 : list->room * 2;
    void* grown = realloc(list->files, room * sizeof *list->files);
    if (grown == NULL) return fail_list_memory(err);
    list->files = grown;
    list->room = room;
  }
  if (path_bytes > list->path_room) {
    size_t room = list->path_room * 2 + GBX__PATH_SIZE;
    void* grown = realloc(list->paths, room);
    if (grown == NULL) return fail_list_memory(err);
    list->paths = grown;
    list->path_room = room;
  }
  memcpy(list->paths + list->path_bytes, path, head->path_size);
  list->paths[path_bytes - 1] = '\0';
  list->path_bytes = path_bytes;
  list->files[list->count++] =
      (struct gbx_file_entry){.size = head->size,
                              .mtime_ns = head->mtime_ns,
                              .type = (enum gbx_file_type)head->type,
                              .mode = head->mode & 07777};
  return 0;
}

static int add_entries(struct growing_list* list, struct gbx__tree_out* tree,
                       unsigned flags, struct gbx_err* err) {
  cleanup_free uint8_t* piece = malloc(LIST_PIECE_BYTES);
  if (piece == NULL) return fail_list_memory(err);
  for (;;) {
    size_t size;
    int result = gbx__tree_out_read(tree, piece, LIST_PIECE_BYTES, &size, err);
    if (result < 0 || size == 0) return result;
    for (size_t at = 0; at < size;) {
      struct gbx_tree_head head;
      memcpy(&head, piece + at, sizeof head);
      const uint8_t* path = piece + at + sizeof head;
      at += sizeof head + head.path_size + head.target_size;
      if ((flags & GBX_LIST_ALL) == 0 && head.type != GBX_FILE) continue;
      result = add_entry(list, &head, path, err);
      if (result < 0) return result;
    }
  }
}

/* Makes one block of it. */
static int take_list(const struct growing_list* list,
                     struct gbx__file_list* ret_list, struct gbx_err* err) {
  struct gbx_file_entry* files = NULL;
  size_t array_bytes = list->count * sizeof *files;
  if (list->count > 0) {
    files = malloc(array_bytes + list->path_bytes);
    if (files == NULL) return fail_list_memory(err);
    memcpy(files, list->files, array_bytes);
    char* path = (char*)files + array_bytes;
    memcpy(path, list->paths, list->path_bytes);
    for (size_t i = 0; i < list->count; i++, path += strlen(path) + 1)
      files[i].path = path;
  }
  *ret_list = (struct gbx__file_list){.files = files, .count = list->count};
  return 0;
}

int gbx__workspace_list_entries(const struct gbx__workspace* workspace,
                                const char* path, unsigned flags,
                                struct gbx__file_list* ret_list,
                                struct gbx_err* err) {
  struct gbx__tree_out_options options = {.flat = (flags & GBX_LIST_FLAT) != 0,
                                          .without_deps = *path == '\0'};
  struct gbx__tree_out* tree;
  int result = gbx__tree_out_new(workspace, path, &options, &tree, err);
  if (result < 0) return result;
  struct growing_list list = {0};
  result = add_entries(&list, tree, flags, err);
  if (result == 0) result = take_list(&list, ret_list, err);
  free(list.files);
  free(list.paths);
  gbx__tree_out_free(tree);
  return result;
}

void gbx__file_list_done(struct gbx__file_list* list) {
  free(list->files);
  *list = (struct gbx__file_list){0};
}
