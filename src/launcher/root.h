/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_ROOT_H_
#define SRC_LAUNCHER_ROOT_H_

#include <stdint.h>

#include "common/error.h"

/* Where a prepared root keeps the procfs that lets a box mount its own; empty
 * once the box has unmounted it. */
#define ROOT_HIDDEN_PROC "/.proc"

/* Gets the read-only tree of a host path: from the keeper or by itself.
 * Returns the descriptor. */
typedef int (*root_open_tree)(const char* path, struct gbx_err* err);

/* Builds the root that the records in memfd `entries_fd` describe, in a mount
 * namespace of its own, and returns that namespace's descriptor. */
int root_prepare(int entries_fd, root_open_tree open_tree, struct gbx_err* err);

#endif  // SRC_LAUNCHER_ROOT_H_
