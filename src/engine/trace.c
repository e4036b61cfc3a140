/* SPDX-License-Identifier: Apache-2.0 */

/* What the filter refused, of runs that are traced. The launcher counts and
 * says so in BLOCKED: before a run's END, and when it is asked, which is done
 * at the end of each cell. The order of its socket makes the numbers right: a
 * refused call is counted before it returns, so before the code can end. */

#include <stdio.h>

#include "engine/run.h"
#include "engine/seccomp_filter.h"

/* A launcher that hangs must not hold a cell for ever. */
#define ANSWER_PATIENCE_MS 10000

struct gbx_blocked gbx__trace_view(const struct gbx_run* run) {
  if (run->trace == NULL || !run->trace->known) return (struct gbx_blocked){0};
  return (struct gbx_blocked){run->trace->calls, run->trace->count};
}

static void on_no_answer(uv_timer_t* timer) {
  gbx__run_send_kill(timer->data);
}

void gbx__trace_ask(struct gbx_run* run) {
  struct gbx_msg_head head;
  gbx_msg_head_init(&head, GBX_M_TRACE, sizeof head, run->id);
  run->trace->asked = true;
  /* Once killed, the timer holds the patience for the run's end. */
  if (!run->killed)
    (void)uv_timer_start(run->timer, on_no_answer, ANSWER_PATIENCE_MS, 0);
  (void)gbx__client_send(run->engine, &head, NULL, 0); /* none: cannot fail */
}

static void keep(struct gbx__trace* trace,
                 const struct gbx_msg_blocked* blocked) {
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

void gbx__run_blocked(struct gbx_run* run,
                      const struct gbx_msg_blocked* blocked) {
  if (run->trace == NULL || run->state == RUN_ENDED) return;
  keep(run->trace, blocked);
  if (!run->trace->asked) return;
  run->trace->asked = false;
  if (!run->killed) (void)uv_timer_stop(run->timer);
  gbx__cell_complete(run);
}
