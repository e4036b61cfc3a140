/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/meter.h"

#include "common/fd.h"
#include "common/leaf.h"

/* STARTED of a kernel brings init's pidfd and the payload's first. */
#define FIRST_INDEX 2

void gbx__meter_init(struct gbx__meter* meter) {
  for (int i = 0; i < GBX_LEAF_FDS; i++)
    meter->fd[i] = -1;
}

void gbx__meter_close(struct gbx__meter* meter) {
  for (int i = 0; i < GBX_LEAF_FDS; i++)
    fd_close(&meter->fd[i]);
}

void gbx__meter_take(struct gbx__meter* meter, uint32_t has,
                     struct gbx_fds* fds) {
  int index = FIRST_INDEX;
  for (int i = 0; i < GBX_LEAF_FDS; i++)
    if ((has & GBX_LEAF_METERS & 1u << i) != 0)
      meter->fd[i] = gbx_fds_steal(fds, index++);
}

void gbx__meter_begin(struct gbx__meter* meter) {
  meter->before = (struct gbx_wire_usage){0};
  meter->has_peak = gbx_leaf_set_peak_back(meter->fd);
  gbx_leaf_read_usage(meter->fd, &meter->before);
}

struct gbx_usage gbx__meter_read(const struct gbx__meter* meter, int init_fd,
                                 const struct gbx_msg_end* end) {
  const struct gbx_wire_usage* before = &meter->before;
  struct gbx_wire_usage now = {0};
  /* The leaf may be another box's by now, or gone. */
  if (end != NULL)
    now = end->usage;
  else
    gbx_leaf_read_usage(meter->fd, &now);
  bool is_known = meter->fd[GBX_LEAF_CPU_USAGE] >= 0 &&
                  now.cpu_us >= before->cpu_us &&
                  (end != NULL || !fd_is_readable(init_fd));
  if (!is_known) return (struct gbx_usage){0};
  bool has_split = before->has_cpu_split && now.has_cpu_split &&
                   now.cpu_user_us >= before->cpu_user_us &&
                   now.cpu_system_us >= before->cpu_system_us;
  return (struct gbx_usage){
      .cpu_us = now.cpu_us - before->cpu_us,
      .cpu_user_us = has_split ? now.cpu_user_us - before->cpu_user_us : 0,
      .cpu_system_us =
          has_split ? now.cpu_system_us - before->cpu_system_us : 0,
      .max_memory_bytes = meter->has_peak ? now.max_memory_bytes : 0,
      .has_cpu = true,
      .has_cpu_split = has_split,
  };
}
