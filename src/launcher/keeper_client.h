/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_KEEPER_CLIENT_H_
#define SRC_LAUNCHER_KEEPER_CLIENT_H_

/* How the launcher gets from the keeper what takes the host's rights: trees of
 * host paths and cgroup leaves. The keeper never waits for the launcher, so the
 * launcher may wait for its answers. */

#include <stdint.h>

#include "common/wire.h"

/* Returns 0 with the answer and its descriptors, or the error that it carries.
 */
int keeper_ask(const struct gbx_msg_head* request, union gbx_msg* ret_answer,
               struct gbx_fds* ret_fds, struct gbx_err* err);

/* Sends a TREE. Returns the tree's descriptor. */
int keeper_ask_for_tree(const struct gbx_msg_head* request,
                        struct gbx_err* err);

/* The leaf's box is gone. There is no answer. */
void keeper_drop_leaf(uint32_t leaf);

#endif  // SRC_LAUNCHER_KEEPER_CLIENT_H_
