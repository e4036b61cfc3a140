/* SPDX-License-Identifier: Apache-2.0 */

/* Preloaded into Node: the wall clock is set back and forth by a day, at each
 * look at it. Clocks that only run on are as they are. */

#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long next_step(void) {
  static _Atomic unsigned looks;
  return (looks++ / 3) % 2 == 0 ? 86400 : -86400;
}

int clock_gettime(clockid_t clock, struct timespec* ret_time) {
  int result = (int)syscall(SYS_clock_gettime, clock, ret_time);
  if (result == 0 &&
      (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    ret_time->tv_sec += next_step();
  return result;
}

int gettimeofday(struct timeval* restrict ret_time, void* restrict zone) {
  (void)zone;
  struct timespec now;
  (void)clock_gettime(CLOCK_REALTIME, &now);
  ret_time->tv_sec = now.tv_sec;
  ret_time->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* ret_time) {
  struct timespec now;
  (void)clock_gettime(CLOCK_REALTIME, &now);
  if (ret_time != NULL) *ret_time = now.tv_sec;
  return now.tv_sec;
}
