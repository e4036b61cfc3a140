/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_BOXES_H_
#define SRC_LAUNCHER_BOXES_H_

/* All boxes, from their making to their reaping. */

#include "launcher/state.h"

/* For `run`, or a ready one for whoever comes: NULL. */
struct box* make_box(const struct root* root, enum gbx_runtime runtime,
                     bool with_leaf, const struct gbx_wire_limits* limits,
                     const struct gbx_msg_run* run, struct gbx_err* err);

/* The box cannot run its run: say so and end it. */
void give_up_box(struct box* box, const struct gbx_err* err);

void serve_box(struct box* box, enum box_source source, uint32_t events);

/* Collects children that ended. */
void reap(void);
/* After the events at hand, which may still point to them. */
void free_reaped(void);

#endif  // SRC_LAUNCHER_BOXES_H_
