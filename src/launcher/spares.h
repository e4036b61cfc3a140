/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_SPARES_H_
#define SRC_LAUNCHER_SPARES_H_

/* Boxes without a run: those that are ready, and those that will be. */

#include "launcher/state.h"

/* NULL: there is none in that state that the run can have. */
struct box* find_spare_box(const struct gbx_msg_run* run,
                           enum gbx_runtime runtime, enum box_state state);

/* Of the roots the one that has too few of some kind; NULL: none has. */
struct root* root_that_wants_a_box(enum gbx_runtime* ret_runtime);

/* How long nothing may happen before one is made. Milliseconds. */
int quiet_time(void);

/* Makes one, or the zygote for it. */
void refill(struct root* root, enum gbx_runtime runtime);

/* Ends what has waited for too long. Milliseconds until there may be more of
 * that; -1 for never. */
int expire_spare_boxes(void);

#endif  // SRC_LAUNCHER_SPARES_H_
