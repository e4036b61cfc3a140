/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_LAUNCHER_H_
#define SRC_LAUNCHER_LAUNCHER_H_

#include "common/error.h"

/* What the keeper's child does between clone3 and exec, with maps written: it
 * becomes the box's user, keeps its capabilities, leaves the host's mount
 * propagation and starts itself again by `exe_fd`. Does not return; a failure
 * goes to the engine as FAILED. */
void launcher_enter(int exe_fd, int rooted) __attribute__((noreturn));

/* The launcher after that exec; returns its exit code. `mode` is "rooted" or
 * "plain". */
int launcher_main(const char* mode);

/* Tells the engine why there will be no launcher, and exits. */
void launcher_fail_start(const struct gbx_err* err) __attribute__((noreturn));

#endif  // SRC_LAUNCHER_LAUNCHER_H_
