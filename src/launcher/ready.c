/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/ready.h"

/* One for the next call, and one for the call that comes while that box is
 * being replaced. */
#define READY_BOXES 2
/* After a burst that outran them. */
#define READY_MAX 8

/* What waits takes memory. */
#define IDLE_MS 30000

/* An interpreter that cannot wait, for want of something in its image, never
 * will; one that had no memory may. */
#define FAILURES_MAX 3

void stock_init(struct stock stock[GBX_RUNTIMES]) {
  for (int i = 0; i < GBX_RUNTIMES; i++)
    stock[i] = (struct stock){.always = i == GBX_RUNTIME_NONE,
                              .may_give_up = i != GBX_RUNTIME_NONE,
                              .target = READY_BOXES};
}

void stock_used(struct stock* stock, bool found, int64_t now_ms) {
  /* The first call could not find one. */
  if (!found && stock->used_ms != 0 && stock->target < READY_MAX)
    stock->target++;
  stock->used_ms = now_ms;
}

void stock_ended(struct stock* stock, bool failed) {
  /* Those that end one after the other, with no call between, do so for one
   * reason: somebody may have killed all that waited. */
  if (!failed)
    stock->failures = 0;
  else if (!stock->paused)
    stock->failures++;
  stock->paused = failed;
}

void stock_resume(struct stock* stock) {
  stock->paused = false;
}

bool stock_is_given_up(const struct stock* stock) {
  return stock->may_give_up &&
         (stock->paused || stock->failures >= FAILURES_MAX);
}

int stock_wants(const struct stock* stock) {
  bool asked = stock->always || stock->used_ms != 0;
  return asked && !stock->paused && !stock_is_given_up(stock) ? stock->target
                                                              : 0;
}

int64_t stock_expire(struct stock* stock, int64_t now_ms) {
  if (stock->used_ms == 0) return -1;
  int64_t left = stock->used_ms + IDLE_MS - now_ms;
  if (left > 0) return left;
  stock->used_ms = 0;
  stock->target = READY_BOXES;
  return 0;
}
