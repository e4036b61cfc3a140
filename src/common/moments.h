/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_COMMON_MOMENTS_H_
#define SRC_COMMON_MOMENTS_H_

/* When each step of a call happened, for `npm run bench`; off unless asked.
 *
 * A moment is a time, a number from the list below and the run's number, put
 * into the next slot of a ring in a file that engine and launcher have mapped:
 * no system call and no lock, so that it changes little of what it measures.
 * Without a ring it costs a comparison with NULL. The clock is CLOCK_MONOTONIC,
 * one for all processes and boxes. bench/lib/moments.js reads the file, and the
 * list from this one.
 *
 * Of a box, init and the payload until its exec have the ring, with the rest of
 * the launcher's memory; a program in a box does not, nor any descriptor of it.
 * Nothing of ours ever reads it. */

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, where it is noted, what is done by then). The first list is a run's,
 * in the order in which its steps follow one another; the second a cell's. What
 * is noted before a message is sent: its receiver may be the faster. */
#define GBX_MOMENTS(X)                                                        \
  X(CALLED, "JavaScript", "options read")                                     \
  X(TAKEN, "engine", "its thread woken")                                      \
  X(LISTED, "engine", "workspace looked at")                                  \
  X(RUN_MADE, "engine", "pipes and exec blob made")                           \
  X(RUN_RECEIVED, "launcher", "RUN sent, launcher woken")                     \
  X(BOX_MADE, "launcher", "no box was ready: one made")                       \
  X(GO_MADE, "launcher", "workspace cloned")                                  \
  X(GO_RECEIVED, "init", "GO sent, init woken")                               \
  X(ATTACHED, "init", "workspace attached")                                   \
  X(CONFINED, "init", "rights given up, filter on")                           \
  X(WORK_RECEIVED, "payload", "work handed on, payload woken")                \
  X(EXECUTING, "payload", "descriptors in place")                             \
  X(ANSWERED, "engine",                                                       \
    "interpreter woken, ran the code, answered; engine woken")                \
  X(ENDED, "init", "program ended; init woken")                               \
  X(REAPED, "launcher", "its end reported, launcher woken")                   \
  X(END_MADE, "launcher", "usage read")                                       \
  X(END_RECEIVED, "engine", "END sent, engine woken")                         \
  X(DRAINED, "engine", "pipes emptied")                                       \
  X(COMPARED, "engine", "workspace compared")                                 \
  X(CONCLUDED, "engine", "result made")                                       \
  X(STARTED, "engine", "STARTED read, beside the others")                     \
  X(CELL_CALLED, "JavaScript", "options read")                                \
  X(CELL_TAKEN, "engine", "its thread woken")                                 \
  X(CELL_SENT, "engine", "files listed, CELL sent")                           \
  X(CELL_DONE, "engine", "interpreter woken, ran it, answered; engine woken") \
  X(CELL_DRAINED, "engine", "pipes emptied")                                  \
  X(CELL_CONCLUDED, "engine", "files compared, result made")

enum gbx_moment {
#define GBX_MOMENT_NAME(name, where, what) GBX_AT_##name,
  GBX_MOMENTS(GBX_MOMENT_NAME)
#undef GBX_MOMENT_NAME
};

struct gbx_moments;

/* Makes `path`, which must not exist, and maps a new ring in it. Whoever
 * shortens the file while it is in use ends this process. `ret_fd` is for
 * gbx_moments_map() elsewhere. GBX_E_START. */
int gbx_moments_create(const char* path, struct gbx_moments** ret_moments,
                       int* ret_fd, struct gbx_err* err);

/* Maps the ring that another process made; NULL if it cannot. Leaves `fd` to
 * its owner. */
struct gbx_moments* gbx_moments_map(int fd);

/* Takes NULL. */
void gbx_moments_unmap(struct gbx_moments* moments);

/* For gbx_moment(). */
void gbx__moment_note(struct gbx_moments* moments, enum gbx_moment moment,
                      uint32_t run);

/* It happened now. Any thread; without a ring: nothing. */
static inline void gbx_moment(struct gbx_moments* moments,
                              enum gbx_moment moment, uint32_t run) {
  if (moments != NULL) gbx__moment_note(moments, moment, run);
}

#ifdef __cplusplus
}
#endif

#endif  // SRC_COMMON_MOMENTS_H_
