/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_LEAVES_H_
#define SRC_LAUNCHER_LEAVES_H_

/* The leaves that the keeper has made, by the numbers that the launcher gives
 * them. Making and removing one takes the kernel longer than all else that a
 * cgroup costs a box, so where what a leaf has counted can be set back
 * (cgroup v1) one that is empty again waits for the next box. */

#include "launcher/cgroup.h"

/* Of spare ones, while nothing happens. */
#define LEAVES_IDLE 8
/* More than that wait for so long. */
#define LEAVES_IDLE_MS 2000

/* Whether a box would miss what its leaf may hold of one before it. Such get a
 * new leaf, and no box that waits. */
static inline bool limits_are_small(const struct gbx_wire_limits* limits) {
  return limits->memory_bytes != 0 && limits->memory_bytes < (8ull << 20);
}

/* Makes leaf `number`, or takes a spare one, with its limits in force. The
 * descriptors in `ret_parts` are for sending; leaves_sent() comes next. On
 * failure nothing is left of it. */
int leaves_make(const struct cgroup* cgroup, uint32_t number,
                const struct gbx_wire_limits* limits,
                struct cgroup_leaf* ret_parts, struct gbx_err* err);

/* What leaves_make() gave was sent, or cannot be. */
void leaves_sent(uint32_t number, struct cgroup_leaf* parts);

int leaves_set_limits(const struct cgroup* cgroup, uint32_t number,
                      const struct gbx_wire_limits* limits,
                      struct gbx_err* err);

/* Its box is gone. */
void leaves_drop(const struct cgroup* cgroup, uint32_t number);

/* Whether there are more spare ones than LEAVES_IDLE. */
bool leaves_are_many(void);

/* Removes those. */
void leaves_trim(const struct cgroup* cgroup);

#endif  // SRC_LAUNCHER_LEAVES_H_
