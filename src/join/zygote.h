/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_JOIN_ZYGOTE_H_
#define SRC_JOIN_ZYGOTE_H_

#include "join/scout.h"

/* What an interpreter calls that forks payloads into boxes (a zygote). It was
 * executed with its socket to the launcher at GBX_TAKE_SOCKET and the payload's
 * filter in a memfd at GBX_ZYGOTE_FILTER.
 *
 *   zygote      waits for a box that wants a payload
 *   └ middle    shares the zygote's memory (vfork): its child will be in the
 *   .           box's pid namespace; it tells which process that is, and ends
 *   └ payload   the launcher's child then, which reaps it. It enters the box,
 *               gives everything up, and is where src/join/take.h begins
 *
 * All of it is done here and not by the interpreter, since each page that a
 * process writes to after a fork is copied: running its language writes to
 * hundreds, in the zygote again and again. */

#define GBX_ZYGOTE_FILTER 5

/* `fork` is the C library's, which has to know of it. `spans`: what a scout has
 * told. Returns in payloads: 0, or a negative errno: init knows why, and the
 * process must exit without running anything. And in the zygote with -EPIPE:
 * the launcher is gone. Nothing of the interpreter may run meanwhile. */
long gbx_zygote_serve(int (*fork)(void), const struct gbx_span* spans,
                      unsigned long span_count);

/* Instead of that: the zygote cannot be used, since importing `module` failed,
 * for the reason that `error` gives. Both are cut where they are too long. */
void gbx_zygote_fail(const char* module, const char* error);

#endif  // SRC_JOIN_ZYGOTE_H_
