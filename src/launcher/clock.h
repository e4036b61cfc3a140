/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_CLOCK_H_
#define SRC_LAUNCHER_CLOCK_H_

#include <stdint.h>
#include <time.h>

/* Of the clock that only goes forward, from a moment that means nothing. */
static inline int64_t now_ms(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail */
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

#endif  // SRC_LAUNCHER_CLOCK_H_
