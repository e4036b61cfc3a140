/* SPDX-License-Identifier: Apache-2.0 */

/* What the filter refused, of runs that are traced. The launcher counts and
 * says so in BLOCKED: before a run's END, and when it is asked, which is done
 * at the end of each cell. The order of its socket makes the numbers right: a
 * refused call is counted before it returns, so before the code can end. */

#include "engine/run.h"
#include "engine/seccomp_filter.h"

struct gbx_blocked gbx__trace_view(const struct gbx_run* run) {
  if (run->trace == NULL || !run->trace->known) return (struct gbx_blocked){0};
  return (struct gbx_blocked){run->trace->calls, run->trace->count};
}

void gbx__trace_keep(struct gbx_run* run,
                     const struct gbx_msg_blocked* blocked) {
  struct gbx__trace* trace = run->trace;
  if (trace == NULL) return;
  trace->known = true;
  trace->count = 0;
  for (uint64_t i = 0; i < blocked->count && i < GBX_BLOCKED_MAX; i++) {
    const struct gbx_wire_blocked* from = &blocked->calls[i];
    struct gbx_blocked_call* to = &trace->calls[trace->count++];
    *to = (struct gbx_blocked_call){.sys_errno = from->sys_errno,
                                    .count = from->count};
    gbx__filter_name_syscall(from->arch, from->syscall, to->syscall,
                             sizeof to->syscall);
  }
  if (blocked->others != 0)
    trace->calls[trace->count++] =
        (struct gbx_blocked_call){.count = blocked->others};
}
