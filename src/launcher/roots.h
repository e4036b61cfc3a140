/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_ROOTS_H_
#define SRC_LAUNCHER_ROOTS_H_

/* Roots and workspaces, as the engine has them. */

#include "launcher/state.h"

/* NULL: it was dropped. */
struct root* find_root(uint32_t id);

/* Both answer the engine; a root that needs its zygote once that waits. */
void add_root(const struct gbx_msg_root* request, int entries_fd);
/* `mounts_fd`: -1 where there are none. */
void add_workspace(struct gbx_msg_workspace* request, int mounts_fd);

/* That it can be used, or with `err` that it cannot. Once; then it does
 * nothing. */
void answer_root(struct root* root, const struct gbx_err* err);

/* No session uses it any more. Boxes that run are none of its matter: they
 * have copies of their own. */
void drop_root(uint32_t id);
void drop_workspace(uint32_t id);

#endif  // SRC_LAUNCHER_ROOTS_H_
