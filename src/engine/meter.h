/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_ENGINE_METER_H_
#define SRC_ENGINE_METER_H_

/* What the box of a kernel used between two moments. Its leaf counts for the
 * whole life of the box, in files that stay open here: a cell is too short for
 * asking the launcher. */

#include <stdbool.h>
#include <stdint.h>

#include "common/wire.h"
#include "engine/engine.h"

struct gbx__meter {
  int fd[GBX_LEAF_FDS];         /* GBX_LEAF_METERS of them; -1 without a leaf */
  struct gbx_wire_usage before; /* as it was at the beginning */
  bool has_peak;                /* the peak is that since the beginning */
};

void gbx__meter_init(struct gbx__meter* meter);
void gbx__meter_close(struct gbx__meter* meter);

/* Takes from STARTED's descriptors those that it `has`. */
void gbx__meter_take(struct gbx__meter* meter, uint32_t has,
                     struct gbx_fds* fds);

void gbx__meter_begin(struct gbx__meter* meter);

/* What was used since. `end`: how the box ended, if it did; `init_fd` is the
 * pidfd of its init. */
struct gbx_usage gbx__meter_read(const struct gbx__meter* meter, int init_fd,
                                 const struct gbx_msg_end* end);

#endif  // SRC_ENGINE_METER_H_
