/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_ENGINE_CHANGES_H_
#define SRC_ENGINE_CHANGES_H_

/* Which files of a workspace a call changed: an index before it, one after it,
 * and the difference.
 *
 *   gbx__index_scan(&workspace, &before, &err);
 *   gbx__index_settle(&workspace, before);
 *   ... the call ...
 *   gbx__index_scan(&workspace, &after, &err);
 *   gbx__index_diff(before, after, &files, &count, &err);
 *
 * A file counts as changed if its inode, size, mtime or ctime differ: a program
 * can put the mtime back, but not the ctime. So a new mode or a new hard link
 * counts as well. A file that moves is deleted at one path and created at the
 * other.
 *
 * All of it blocks, on the filesystem only: no file is opened. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/walk.h"

struct gbx__workspace;

struct gbx__index {
  struct gbx__walk walk;
};

/* Looks at every regular file but ".deps" and our temporary files. A folder
 * that may not be read is left out. Errors: see gbx__walk_init. */
int gbx__index_scan(const struct gbx__workspace* workspace,
                    struct gbx__index** ret_index, struct gbx_err* err);

/* The same, with a visitor of its folders. GBX_E_TOO_LARGE for more than so
 * many files and folders; 0: as many as a walk may meet. */
int gbx__index_scan_with(const struct gbx__workspace* workspace,
                         const struct gbx__walk_visitor* visitor,
                         uint32_t most_entries, struct gbx__index** ret_index,
                         struct gbx_err* err);

/* Whether the two are the same file with the same content, as far as a look at
 * it can tell. */
bool gbx__index_same_file(const struct gbx__walk_node* a,
                          const struct gbx__walk_node* b);

/* Waits until whatever is changed from now on will have a later ctime than the
 * index holds. Up to Linux 6.12, and on some filesystems, that takes a timer
 * tick (1 to 10 ms) if a file was changed within the last one; else it returns
 * at once. */
void gbx__index_settle(const struct gbx__workspace* workspace,
                       const struct gbx__index* index);
/* The same where nothing may be tried in the workspace: it always waits. */
void gbx__index_age(const struct gbx__index* index);
/* Whether that would return at once. */
bool gbx__index_is_old(const struct gbx__index* index);
/* Whether gbx__index_settle would. */
bool gbx__index_is_settled(const struct gbx__workspace* workspace,
                           const struct gbx__index* index);

/* The files that differ, sorted by path. *ret_files is one block with all the
 * paths in it, for free(); NULL if there are none. Says nothing about the files
 * of a folder that could not be read either time. `size` of a deleted file is
 * 0. Errors: GBX_E_NO_MEMORY, GBX_E_TOO_LARGE (more than 256 MiB of paths). */
int gbx__index_diff(const struct gbx__index* before,
                    const struct gbx__index* after,
                    struct gbx_changed_file** ret_files, size_t* ret_count,
                    struct gbx_err* err);

/* Takes NULL. */
void gbx__index_free(struct gbx__index* index);

#endif  // SRC_ENGINE_CHANGES_H_
