/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_MEMORY_WATCH_H_
#define SRC_LAUNCHER_MEMORY_WATCH_H_

/* Boxes whose memory no cgroup limits. */

/* Milliseconds until the next look; -1 while there is nothing to look at, and
 * then nothing wakes us. Looks if it is time. */
int keep_watch(void);

#endif  // SRC_LAUNCHER_MEMORY_WATCH_H_
