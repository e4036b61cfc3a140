/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_MOUNTS_H_
#define SRC_LAUNCHER_MOUNTS_H_

/* What sessions get of the host beside their workspaces.
 *
 * The root of a session with mounts has a place for each (MOUNT records), so
 * boxes wait for it as for any root. The mounts themselves are the session's:
 * they lie side by side on a shelf of its own, from which a box gets one clone
 * of all of them with its workspace, and init moves each to its place. A
 * session without mounts pays nothing. */

#include <stdbool.h>

#include "common/wire.h"
#include "launcher/root.h"

/* ---- In the launcher ----------------------------------------------------- */

/* Opens the mounts of session request->head.id, which the memfd `list_fd` has,
 * by the keeper if `rooted`, and puts them on a shelf. The detail of an error
 * begins with the number of the mount. */
int mounts_shelve(const struct gbx_msg_workspace* request, int list_fd,
                  bool rooted, struct gbx_err* err);

/* Drops the session's shelf, if it has one. */
void mounts_drop(uint32_t session);

/* Returns a detached copy of the shelf with all that is on it. */
int mounts_clone(uint32_t session, struct gbx_err* err);

/* ---- In init ------------------------------------------------------------- */

/* Takes what lies on the shelf `tree_fd` to the places that `image` has for
 * it. */
int mounts_attach(int tree_fd, const struct root_image* image,
                  struct gbx_err* err);

#endif  // SRC_LAUNCHER_MOUNTS_H_
