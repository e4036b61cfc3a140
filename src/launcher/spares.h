/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_SPARES_H_
#define SRC_LAUNCHER_SPARES_H_

/* Boxes without a run: those that are ready, and those that will be. */

#include "launcher/state.h"

/* Made for no run yet. */
void add_spare_box(struct root* root, struct box* box);
/* It has a run, or its end has come; or it was none. */
void remove_spare_box(struct box* box);

/* A run in the workspace asks for it: the next one is likely to as well. */
void note_run(struct root* root, const struct gbx_msg_run* run);
/* A run begins. */
void note_pace(int64_t now);

/* The session is closed. */
void dismiss_bound_boxes(uint32_t workspace);

/* NULL: there is none in that state that the run can have. */
struct box* find_spare_box(const struct root* root,
                           const struct gbx_msg_run* run,
                           enum gbx_runtime runtime, enum box_state state);

/* Whether one should be made or bound, and how long nothing may happen before
 * that is done: milliseconds, or -1 if there is nothing to do. */
int spare_work_quiet(void);
/* Does one piece of it. */
void do_spare_work(void);

/* Tells the engine what is news of interpreters that cannot wait. */
void tell_of_given_up(void);

/* Ends what has waited for too long. Milliseconds until there may be more of
 * that; -1 for never. */
int expire_spare_boxes(void);

#endif  // SRC_LAUNCHER_SPARES_H_
