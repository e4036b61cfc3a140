/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_WATCHDOG_H_
#define SRC_LAUNCHER_WATCHDOG_H_

/* The memory limit of a box that has no memory cgroup: what its processes and
 * its file systems hold is added up every few milliseconds.
 *
 * All of it is read from /proc, and written by code that wants to hide: nothing
 * of a box is opened but files of /proc, nothing that can wait is asked, and
 * the work of one look is bounded. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* How long between the starts of two looks. A look that takes long, because
 * there are many processes, has at least as long a pause after it. */
#define WATCHDOG_MS 50

/* One box, in its owner's memory. What is "own" is the watchdog's. */
struct watchdog_box {
  struct watchdog_box* next; /* in the list for one look */
  pid_t init;
  int shm_fd;             /* /proc/sysvipc/shm of the box; -1: not known */
  uint64_t limit_bytes;   /* not 0 */
  bool is_over;           /* what the look found */
  uint64_t pid_namespace; /* own: its inode; 0 until it was looked up */
  int first;              /* own: its processes, in the order of falling ids */
  uint32_t turn;          /* own: at which process the next look begins */
  bool is_suspect;        /* own: the last weighing found it too heavy */
  pid_t weighed;          /* own: the weighing goes on below; 0: from the top */
  uint64_t anonymous, shared; /* own: what was weighed until there */
};

/* Sets `is_over` of each in the list. Never waits. Returns whether it came to a
 * decision for each: otherwise the next look should not be late. */
bool watchdog_look(struct watchdog_box* boxes);

#endif  // SRC_LAUNCHER_WATCHDOG_H_
