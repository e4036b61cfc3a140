/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_ENGINE_USAGE_H_
#define SRC_ENGINE_USAGE_H_

/* How much of a disk a workspace takes. walk.h knows the files that a user is
 * shown; this counts what is there, also what nobody is shown: the top-level
 * ".deps", symlinks, sockets, paths too long for one call, mounts in it. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* Each name counts as much besides the blocks of what it names: files without
 * content take room as well, and in some filesystems blocks that no stat()
 * shows. It also bounds how many names a limit lets a count meet. */
#define GBX__USAGE_NAME_BYTES 4096u

/* Folders deeper than this are not looked into. */
#define GBX__USAGE_LEVELS 64

struct gbx__usage {
  uint64_t bytes;
  /* Everything was seen. Not so where a folder is too deep, or closed to us
   * although it is the workspace's owner's, as a box can make it. */
  bool complete;
};

/* Counts the tree below `dir_fd` (not O_PATH): the blocks of each inode once,
 * also if it has many names. Holes take no room, whatever the size of the file
 * says. No symlink is followed, and nothing but folders is opened. What changes
 * or goes meanwhile is no error: it counts as it was seen, or not.
 *
 * Ends early, with what it has so far, when that is above `enough`, and once
 * *cancelled is true. `owner` is the workspace's. GBX_E_NO_MEMORY,
 * GBX_E_IO. Blocks: for a worker thread. */
int gbx__usage_count(int dir_fd, uint32_t owner, uint64_t enough,
                     const atomic_bool* cancelled, struct gbx__usage* ret_usage,
                     struct gbx_err* err);

/* What is free in a filesystem: cheap, but of all its users together. */
struct gbx__space {
  uint64_t bytes, inodes;
};

/* Returns 0 or a negative errno. Blocks. */
int gbx__space_read(int fd, struct gbx__space* ret_space);

/* By how much it fell, in bytes, an inode counting as a name does; 0 if it did
 * not. */
uint64_t gbx__space_fall(const struct gbx__space* from,
                         const struct gbx__space* to);

/* ---- Inodes that are met more than once --------------------------------- */

struct gbx__inode {
  uint64_t dev, ino, bytes;
};

struct gbx__inodes {
  struct gbx__inode* items;
  size_t count, room;
};

/* Returns false where there is no room for it, by memory or by our bound. */
bool gbx__inodes_add(struct gbx__inodes* inodes, struct gbx__inode inode);
/* The bytes of all, each inode once. Sorts them. */
uint64_t gbx__inodes_sum(struct gbx__inodes* inodes);
void gbx__inodes_done(struct gbx__inodes* inodes);

#endif  // SRC_ENGINE_USAGE_H_
