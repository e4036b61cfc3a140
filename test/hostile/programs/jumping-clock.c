/* SPDX-License-Identifier: Apache-2.0 */

/* Preloaded into a process: its time of day jumps by an hour, back and forth,
 * with each question for it. Clocks that count from the start are left alone,
 * as they are when an administrator sets the time. */

#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t jump(void) {
  static unsigned count;
  return __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED) % 2 == 0 ? 3600
                                                                  : -3600;
}

int clock_gettime(clockid_t clock, struct timespec* ret_time) {
  int result = (int)syscall(SYS_clock_gettime, clock, ret_time);
  if (result == 0 &&
      (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    ret_time->tv_sec += jump();
  return result;
}

int gettimeofday(struct timeval* restrict ret_time, void* restrict zone) {
  (void)zone;
  struct timespec now;
  int result = clock_gettime(CLOCK_REALTIME, &now);
  ret_time->tv_sec = now.tv_sec;
  ret_time->tv_usec = now.tv_nsec / 1000;
  return result;
}

time_t time(time_t* ret_time) {
  struct timespec now;
  (void)clock_gettime(CLOCK_REALTIME, &now);
  if (ret_time != NULL) *ret_time = now.tv_sec;
  return now.tv_sec;
}
