/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_CAPS_H_
#define SRC_LAUNCHER_CAPS_H_

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

/* Whether this process has what the root mode needs: SYS_ADMIN, SETUID and
 * SETGID, effective. */
bool caps_can_be_root(void);

/* Makes all permitted capabilities effective again (a change of uid cleared
 * them) and ambient, so that they outlive an exec as a uid other than 0. */
int caps_keep_over_exec(struct gbx_err* err);

/* Keeps only those of a mask, which then are ambient too: what is executed has
 * them, and nothing gives it others. */
int caps_keep_only(uint64_t mask, struct gbx_err* err);

/* Keeps those of a mask for this process alone: an exec has none, and none can
 * be had back. */
int caps_hold(uint64_t mask, struct gbx_err* err);

/* Gives up every capability in every set, the bounding set included, and reads
 * back that none is left. */
int caps_drop_all(struct gbx_err* err);

#endif  // SRC_LAUNCHER_CAPS_H_
