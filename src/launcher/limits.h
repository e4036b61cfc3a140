/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_LIMITS_H_
#define SRC_LAUNCHER_LIMITS_H_

#include <stdint.h>

#include "common/error.h"

/* The resource limits that every payload has, whatever the cgroups do. */
int limits_set_fixed(struct gbx_err* err);

/* The limit of open files. After the last message with descriptors: below it
 * another box could keep this process from sending them. */
int limits_set_files(struct gbx_err* err);

/* What that limit is: for a payload that is no child of ours. */
int limits_of_files(uint64_t* ret_soft, uint64_t* ret_hard,
                    struct gbx_err* err);

/* Puts this process into a user namespace of its own, in which it has the same
 * uid, and bounds the processes there. The kernel counts them per user
 * namespace and uid (since 5.14): set before, the limit would count every
 * process that the host's user has. */
int limits_nest_for_pids(uint64_t pids, struct gbx_err* err);

/* Lowers RLIMIT_NPROC, soft and hard, to `pids`. */
int limits_lower_pids(uint64_t pids, struct gbx_err* err);

/* Bounds each file that is written to, also in memory. Known only with the
 * run: a ready box may serve any session. */
int limits_set_file_size(uint64_t bytes, struct gbx_err* err);

#endif  // SRC_LAUNCHER_LIMITS_H_
