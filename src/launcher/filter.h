/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_FILTER_H_
#define SRC_LAUNCHER_FILTER_H_

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* Since Linux 5.19. Without it a signal's handler runs while a call waits for
 * its answer, and the call fails with EINTR where it would have been refused.
 * An older kernel gives a listener without it. */
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1ul << 5)
#endif

/* A BPF program as seccomp(2) takes it: an array of struct sock_filter. */
struct filter {
  const void* program;
  size_t size;
};

/* Loads a filter for this process. `flags` are SECCOMP_FILTER_FLAG_...: with
 * NEW_LISTENER the kernel gives a descriptor on which calls are reported.
 * Returns it, or 0, or a negative errno. */
int filter_load(const struct filter* filter, unsigned flags,
                struct gbx_err* err);

/* A copy, on the heap, in which each verdict of the action `from` (SECCOMP_RET_
 * without data) is `to`. */
int filter_derive(const struct filter* filter, uint32_t from, uint32_t to,
                  struct filter* ret_filter, struct gbx_err* err);

/* A filter whose kill set asks a listener is of no use where there can be none:
 * it is replaced by one that kills by itself, and *notify is then false. Once,
 * in the launcher: forks. */
int filter_settle(struct filter* filter, bool* notify, struct gbx_err* err);

#endif  // SRC_LAUNCHER_FILTER_H_
