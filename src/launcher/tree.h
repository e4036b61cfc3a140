/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_TREE_H_
#define SRC_LAUNCHER_TREE_H_

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/wire.h"

/* Detached mount trees of host paths. In the rooted mode the keeper makes
 * them, since it may look below a 0700 folder and map ids; as a plain user the
 * launcher makes them in its own mount namespace. */

/* A read-only tree for a prepared root. Returns the descriptor. */
int tree_open_root_part(const char* path, struct gbx_err* err);

/* A writable tree of a workspace, which must be the folder with this device and
 * inode. `box_uid` != 0: ids are mapped so that the folder's owner is the box's
 * user; where the file system cannot, a temporary workspace changes its owner
 * and another is refused. Returns the descriptor. */
int tree_open_workspace(const char* path, uint64_t dev, uint64_t ino,
                        bool temporary, uint32_t box_uid, struct gbx_err* err);

/* The tree of a mount, of what is at request->path, if the rules of
 * host_rules.h allow it. It has nosuid and nodev, and is read-only all the way
 * down unless request->writable. `box_uid` as above, but what is only read and
 * cannot be mapped comes as it is. GBX_E_MOUNT_REFUSED: the detail is the rule
 * and the reason; else GBX_E_MOUNT. Returns the descriptor. */
int tree_open_mount(struct gbx_msg_tree* request, uint32_t box_uid,
                    struct gbx_err* err);

#endif  // SRC_LAUNCHER_TREE_H_
