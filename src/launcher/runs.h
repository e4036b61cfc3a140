/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_RUNS_H_
#define SRC_LAUNCHER_RUNS_H_

/* Runs, from RUN to END. */

#include <stdbool.h>

#include "launcher/state.h"

/* Takes the descriptors. */
void start_run(const struct gbx_msg_run* request, struct gbx_fds* fds);

/* Gives the run a box; `cold` one in which nothing waits. */
void place_run(struct root* root, struct run* run, bool cold);

/* Its box is ready: with its limits in force and the workspace's tree, off it
 * goes. */
void begin_run(struct box* box);

/* Says END and frees it. `box`: NULL if it got none. */
void end_run(struct box* box, struct run* run, const struct gbx_msg_end* end);

void cancel_run(uint32_t run_id);
/* A cell of the run is over: BLOCKED, or END if that or an earlier one used up
 * the memory. */
void answer_ask(uint32_t run_id);

bool run_wants_leaf(const struct gbx_msg_run* run);

#endif  // SRC_LAUNCHER_RUNS_H_
