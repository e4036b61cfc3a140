/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_ENGINE_WALK_H_
#define SRC_ENGINE_WALK_H_

/* The regular files below a folder of a workspace, at one moment: what the list
 * of files and the index of changes are both made from.
 *
 *   struct gbx__walk walk;
 *   gbx__walk_init(&walk, dir_fd, 0, &err);   reads the tree
 *   ... gbx__walk_next, gbx__walk_path ...
 *   gbx__walk_done(&walk);
 *
 * Symlinks are not followed, mounts not entered. Nothing but folders is opened,
 * so nothing blocks. The top-level folder ".deps" and our own temporary files
 * are left out, as is what has a path too long to be named in one call.
 *
 * Memory is bounded, whatever is there: three growing arrays without pointers.
 * Files are not kept by path but as nodes of their folder, and are sorted
 * there; since a folder's name is kept with its "/", going through the tree in
 * order gives whole paths in the order of strcmp. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* More than this is refused with GBX_E_TOO_LARGE. A search step is one name
 * looked up in the way to a folder: it bounds the time that many deep folders
 * take. */
#define GBX__WALK_MAX_ENTRIES    1000000u
#define GBX__WALK_MAX_NAME_BYTES (64u << 20)
#define GBX__WALK_MAX_STEPS      (8u << 20)

#define GBX__WALK_NO_FOLDER UINT32_MAX

struct gbx__walk_node {
  uint64_t inode, size; /* of a file; 0 for a folder */
  int64_t mtime_ns, ctime_ns;
  uint32_t name;   /* offset in `names`; a folder's ends in "/" */
  uint32_t folder; /* index in `folders`; GBX__WALK_NO_FOLDER: a file */
};

struct gbx__walk_folder {
  uint32_t first, count; /* its nodes, sorted by name */
  uint32_t parent, node; /* its parent, its own node; 0 for the first */
  uint16_t path_size;    /* with "/" at the end; 0 for the first */
  uint16_t depth;
  bool unreadable; /* it has no nodes, for we may not look */
};

struct gbx__walk {
  struct gbx__walk_node* nodes;
  struct gbx__walk_folder* folders; /* the first: where the walk began. Each
                                       stands after its parent. */
  char* names;
  uint32_t node_count, node_room;
  uint32_t folder_count, folder_room;
  uint32_t name_bytes, name_room;
  uint32_t file_count;
  uint32_t entries_seen, steps; /* against the bounds */
  uint32_t prefix_size;
  int64_t newest_ns; /* the latest ctime of a file */
  /* Something was left out where files may be, or a file has several names. */
  bool partial;
  const struct gbx__walk_visitor* visitor; /* while the tree is read */
  uint32_t most_entries;                   /* 0: GBX__WALK_MAX_ENTRIES */
};

/* Called for each folder, when it is open and nothing of it read. */
struct gbx__walk_visitor {
  void (*enter)(void* data, uint32_t folder, int fd);
  void* data;
};

/* Reads the tree below `dir_fd`, which may be O_PATH. `prefix_size` is the
 * length of the way from the workspace to it, "/" included; 0: it is the
 * workspace. Errors: GBX_E_TOO_LARGE, GBX_E_NO_MEMORY, GBX_E_IO,
 * GBX_E_UNSUPPORTED (no openat2). A failed walk holds nothing. */
int gbx__walk_init(struct gbx__walk* walk, int dir_fd, size_t prefix_size,
                   struct gbx_err* err);
/* The same of the whole workspace, with a visitor. */
int gbx__walk_init_with(struct gbx__walk* walk, int dir_fd,
                        const struct gbx__walk_visitor* visitor,
                        uint32_t most_entries, struct gbx_err* err);
void gbx__walk_done(struct gbx__walk* walk);

static inline const char* gbx__walk_name(const struct gbx__walk* walk,
                                         const struct gbx__walk_node* node) {
  return walk->names + node->name;
}

/* A place in the walk. {0} stands before the first file. */
struct gbx__walk_cursor {
  uint32_t folder, next;
};

/* The next file in the order of paths, with the folder that it lies in; NULL
 * after the last. */
const struct gbx__walk_node* gbx__walk_next(const struct gbx__walk* walk,
                                            struct gbx__walk_cursor* cursor,
                                            uint32_t* ret_folder);

/* Length of the path of a file in `folder`, without NUL. */
size_t gbx__walk_path_size(const struct gbx__walk* walk, uint32_t folder,
                           const struct gbx__walk_node* file);
/* Writes that path, relative to where the walk began, and a NUL. */
void gbx__walk_path(const struct gbx__walk* walk, uint32_t folder,
                    const struct gbx__walk_node* file, char* path);

/* Writes the way to `folder`, with "/" at its end, so that it ends at `end`. */
void gbx__walk_folder_path(const struct gbx__walk* walk, uint32_t folder,
                           char* end);

/* ---- Keeping it up to date ---------------------------------------------- */

/* Opens a folder for reading. Returns a descriptor or a negative errno. */
int gbx__walk_open_folder(const struct gbx__walk* walk, uint32_t folder,
                          int dir_fd);

/* Looks at the file `name` in a folder. Returns 1 if it is a regular file, 0
 * for what a walk would not tell of, or a negative errno: -ENOENT for nothing,
 * -EISDIR for a folder, -EMLINK for a file with several names, -EXDEV for a
 * mount. */
int gbx__walk_look(const struct gbx__walk* walk, uint32_t folder, int fd,
                   const char* name, struct gbx__walk_node* ret_file);

/* The file of that name; NULL if there is none. */
const struct gbx__walk_node* gbx__walk_find(const struct gbx__walk* walk,
                                            uint32_t folder, const char* name);
/* Adds a file, or gives it the facts of `file`. GBX_E_NO_MEMORY,
 * GBX_E_TOO_LARGE. The order stays; pointers to nodes do not. */
int gbx__walk_put(struct gbx__walk* walk, uint32_t folder, const char* name,
                  const struct gbx__walk_node* file, struct gbx_err* err);
/* Takes a file out, if there is one of that name. Its name stays in memory. */
void gbx__walk_drop(struct gbx__walk* walk, uint32_t folder, const char* name);

#endif  // SRC_ENGINE_WALK_H_
