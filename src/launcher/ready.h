/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_READY_H_
#define SRC_LAUNCHER_READY_H_

/* How many ready boxes a root is to have, of each kind. It grows where calls
 * come faster than boxes are made, and shrinks when they stop. */

#include <stdbool.h>
#include <stdint.h>

#include "common/wire.h"

/* Of one root and one runtime. */
struct stock {
  bool always; /* also before the first call, and however long ago it was */
  bool may_give_up;
  bool paused;     /* making one failed; a run has to succeed first */
  int failures;    /* in a row */
  int target;      /* how many, while calls come */
  int64_t used_ms; /* when the last call asked for one; 0: none has yet */
};

void stock_init(struct stock stock[GBX_RUNTIMES]);

/* A run asks for this runtime, and found none that was ready. */
void stock_used(struct stock* stock, bool found, int64_t now_ms);

/* A box of it ended, or could not be made. */
void stock_ended(struct stock* stock, bool failed);
/* A run that asked for it went well, in whatever box. */
void stock_resume(struct stock* stock);

/* Those that were to wait ended, and none is made now, or ever. */
bool stock_is_given_up(const struct stock* stock);

/* How many should wait. */
int stock_wants(const struct stock* stock);

/* Whether some that wait are to go, since nobody has asked for long: 0, once.
 * Else the milliseconds until then; negative for never. */
int64_t stock_expire(struct stock* stock, int64_t now_ms);

#endif  // SRC_LAUNCHER_READY_H_
