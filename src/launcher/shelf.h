/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_SHELF_H_
#define SRC_LAUNCHER_SHELF_H_

/* The workspaces of the sessions that are open. A tree can be cloned for a box
 * only from where it is attached, so each lies here, in our mount namespace,
 * which no box sees. */

#include <stdbool.h>
#include <stdint.h>

#include "common/wire.h"

#define SHELF_PATH "/sys"

/* Opens the workspace, by the keeper if `rooted`, and attaches it. */
int shelf_add(struct gbx_msg_workspace* request, bool rooted,
              struct gbx_err* err);
void shelf_drop(uint32_t id);

bool shelf_has(uint32_t id);

/* Whether it seems to have been deleted on the host: some file systems count no
 * names of a folder. */
bool shelf_is_lost(uint32_t id);

/* Returns a detached copy of its tree. */
int shelf_clone(uint32_t id, struct gbx_err* err);

#endif  // SRC_LAUNCHER_SHELF_H_
