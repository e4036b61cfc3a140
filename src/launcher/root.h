/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_ROOT_H_
#define SRC_LAUNCHER_ROOT_H_

#include <stdint.h>

#include "common/error.h"
#include "common/wire.h"

/* An empty folder of a prepared root: what folders of /proc are hidden with. */
#define ROOT_EMPTY_DIR "/.proc"

/* Gets the read-only tree of a host path: from the keeper or by itself.
 * Returns the descriptor. */
typedef int (*root_open_tree)(const char* path, struct gbx_err* err);

/* A prepared root. */
struct root_image {
  int ns_fd; /* its mount namespace */
  /* Targets that the box's own tmpfs mounts would hide, NUL-terminated one
   * after the other and an empty one at the end; NULL if there are none. */
  char* covered;
  /* Targets of the session's mounts, in the same way. */
  char* mounts;
  /* By enum gbx_runtime: the exec blob of an interpreter that can wait for its
   * call, or for boxes, in a memfd; -1 if there is none. */
  int standby_fd[GBX_STANDBYS];
  bool needs_zygote; /* else it makes no root */
};

/* Builds the root that the records in memfd `entries_fd` describe, in a mount
 * namespace of its own. */
int root_prepare(int entries_fd, root_open_tree open_tree,
                 struct root_image* ret_image, struct gbx_err* err);
void root_image_done(struct root_image* image);

/* Attaches a tree at `target`, a folder or file that is made with the folders
 * above it. */
int root_attach(int tree_fd, const char* target, struct gbx_err* err);

#endif  // SRC_LAUNCHER_ROOT_H_
