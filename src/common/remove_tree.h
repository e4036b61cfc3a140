/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_COMMON_REMOVE_TREE_H_
#define SRC_COMMON_REMOVE_TREE_H_

#include "common/error.h"

/* Removes `name` below `parent_fd` (AT_FDCWD: `name` may be an absolute path)
 * with all that is in it, whatever a hostile program left there: any depth, any
 * names, any modes, any number of entries.
 *
 * `name` is a path that the caller trusts up to its last part; nothing from
 * there on is followed if it is a symlink, and no mount is entered. A missing
 * `name` is no error. What cannot be removed stays, with everything else gone,
 * and the first cause is returned.
 *
 * The caller has ended every process that could write below `name`: one that
 * lives cannot lead this elsewhere, but can keep it busy.
 *
 * Blocks. Allocates nothing, uses 32 KiB of stack and at most 17 descriptors.
 * Modes are changed through /proc where a folder is closed to its own owner;
 * for a tree of somebody else's the caller needs CAP_DAC_OVERRIDE.
 *
 * Errors: GBX_E_IO, GBX_E_INVALID (`name` is empty or ends in "/" or a dot
 * entry). Kernel floor: 5.8 (statx's mount root attribute). */
int gbx_remove_tree(int parent_fd, const char* name, struct gbx_err* err);

#endif  // SRC_COMMON_REMOVE_TREE_H_
