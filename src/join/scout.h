/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_JOIN_SCOUT_H_
#define SRC_JOIN_SCOUT_H_

#include <stdint.h>

/* After a fork each page that is written to is copied, at the first write: an
 * interpreter that runs two lines of code writes to some hundreds, always the
 * same. A scout is a child of the zygote's that does what a payload does, finds
 * which those are, and ends. From then on they are copied into each payload
 * before its call comes. */

struct gbx_span {
  uint64_t start; /* address */
  uint64_t size;
};

/* In the scout, when all is done: writes the spans that it has written to since
 * it was forked to a descriptor. Nothing is lost where some are missing.
 * Returns 0 or a negative errno. Costs a copy of all that could be written to,
 * up to 128 MiB. */
long gbx_scout_tell(int fd, unsigned long page_bytes);

/* In a payload. What cannot be had is had when it is written to. */
void scout_follow(const struct gbx_span* spans, unsigned long count);

#endif  // SRC_JOIN_SCOUT_H_
