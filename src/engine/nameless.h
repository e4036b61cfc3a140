/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_ENGINE_NAMELESS_H_
#define SRC_ENGINE_NAMELESS_H_

/* Files that have no name any more, or never had one (O_TMPFILE), but are open
 * or run in a box: they take room on the disk and are in no folder. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/usage.h"

struct gbx__box {
  uint64_t pid_namespace; /* what its processes are known by */
  int init;               /* its pid, in our namespace */
};

/* Finds the box whose init `pidfd` is. False: it has ended, or /proc does not
 * say. Does not block. */
bool gbx__box_find(int pidfd, struct gbx__box* ret_box);

/* Adds up the nameless files of filesystem `dev` that processes of the boxes
 * have open. Not complete: there are more than can be looked at, or a box holds
 * what nobody can look into: descriptors on their way through a socket, a
 * nameless file that is mapped, a process that is closed to us. Ends early once
 * *cancelled is true. Blocks: for a worker thread. */
struct gbx__usage gbx__nameless_count(const struct gbx__box* boxes,
                                      size_t count, uint64_t dev,
                                      const atomic_bool* cancelled);

#endif  // SRC_ENGINE_NAMELESS_H_
