/* SPDX-License-Identifier: Apache-2.0 */

/* How a cell is stopped: in steps, so that it costs no more than it has to.
 *
 *   INTERRUPT and SIGINT -> GRACE_MS -> SIGTERM -> GRACE_MS -> SIGKILL to init
 *   the cell ends,                      the payload kills     the box is gone
 *   the state stays                     the interpreter
 *
 * The second step is left out where the payload is the interpreter itself. All
 * of it is done here, on the engine's thread, so that it happens on time
 * however busy JavaScript is.
 *
 * SIGINT alone does not say which cell it is for: one that is sent before the
 * driver has begun the cell would be lost, since the driver has to ignore what
 * comes between cells. The frame stays in the socket until the driver looks: at
 * the beginning of the cell, where it ends it; or between cells, where it was
 * for one that has ended. */

#include <signal.h>

#include "common/sys.h"
#include "engine/run.h"

/* For exception handlers and the like; said in docs/protocol.md. */
#define GRACE_MS 500

static void send_interrupt(struct gbx_run* run) {
  struct gbx_err err = {0};
  run->interrupt_due = false;
  run->cell_interrupted = true;
  /* Should there be no memory for it, the signal goes all the same. */
  (void)gbx__control_send(&run->control, GBX_FRAME_INTERRUPT,
                          (struct gbx_bytes){0}, &err);
  gbx__run_poll_control(run);
  (void)sys_pidfd_kill_group(run->payload_fd, SIGINT); /* ESRCH: END comes */
}

static void on_grace(uv_timer_t* timer) {
  struct gbx_run* run = timer->data;
  if (run->cells->options.supervised && !run->term_sent) {
    run->term_sent = true;
    (void)sys_pidfd_kill(run->payload_fd, SIGTERM); /* ESRCH: END comes */
    (void)uv_timer_start(run->timer, on_grace, GRACE_MS, 0);
    return;
  }
  run->timed_out = run->cell_timed_out;
  gbx__run_send_kill(run);
}

void gbx__cell_interrupt(struct gbx_run* run, bool insist) {
  if (run->state != RUN_RUNNING || run->killed || run->cells == NULL ||
      run->cells->options.type != GBX_FRAME_CELL) {
    /* A command that hangs: there is no code to interrupt. */
    if (insist && run->cell_active && !run->killed) on_grace(run->timer);
    return;
  }
  if (run->done.data != NULL) return; /* it ended by itself */
  if (run->control.fd < 0) return;    /* END is on its way */
  if (run->cell_active && insist)
    (void)uv_timer_start(run->timer, on_grace, GRACE_MS, 0);
  if (run->cell_active && run->control.out == NULL)
    send_interrupt(run);
  else
    run->interrupt_due = true;
}

void gbx__cell_sent(struct gbx_run* run) {
  if (run->interrupt_due) send_interrupt(run);
}
