/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_ENGINE_SWAP_H_
#define SRC_ENGINE_SWAP_H_

/* All that is in a workspace, exchanged for something else in such a way that a
 * host which is killed on the way leaves the one or the other.
 *
 *   gbx__swap_init(root_fd, &swap, &err);
 *   ... make the new content in swap.new_fd ...
 *   gbx__swap_perform(&swap, &err);   or not: then the old one stays
 *   gbx__swap_done(&swap);
 *
 * The workspace may be a box's, and hostile. All of it blocks. */

#include "common/error.h"
#include "engine/beneath.h"

struct gbx__swap {
  int root_fd;                    /* the workspace's; borrowed */
  int fd;                         /* of the hidden folder, and locked */
  int new_fd;                     /* of the folder in there for the new */
  char name[GBX__TEMP_NAME_SIZE]; /* of the hidden folder */
};

/* GBX_E_IO; untouched on failure. */
int gbx__swap_init(int root_fd, struct gbx__swap* ret_swap,
                   struct gbx_err* err);

/* After an error (GBX_E_IO) the old content is back. */
int gbx__swap_perform(struct gbx__swap* swap, struct gbx_err* err);

/* Removes what has no place in the workspace: the new or the old. */
void gbx__swap_done(struct gbx__swap* swap);

/* Brings to an end what was cut off in the workspace, one way or the other.
 * Leaves alone what somebody is at work with. */
void gbx__swaps_mend(int root_fd);

#endif  // SRC_ENGINE_SWAP_H_
