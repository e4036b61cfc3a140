/* SPDX-License-Identifier: Apache-2.0 */

/* The cells of a kernel: one is active at a time, the others wait in the run.
 *
 *   scan (worker) -> CELL is sent, its deadline runs -> DONE comes: what is in
 *   the pipes at that moment is the cell's -> compare (worker) -> [traced, or
 *   the interpreter died: ask the launcher] -> on_cell
 *
 * A cell is stopped in steps, by interrupt.c.
 * Should the box end first, the active cell gets its end, the others an error.
 */

#include <stdlib.h>
#include <string.h>

#include "engine/run.h"

/* A launcher that hangs must not hold a cell for ever. */
#define ANSWER_PATIENCE_MS 10000

/* ---- Reporting --------------------------------------------------------- */

static void report_cell(struct gbx_run* run, const struct gbx_err* err) {
  struct gbx__cell* cell = run->cells;
  run->cells = cell->next;
  if (run->cells == NULL) run->last_cell = &run->cells;
  struct gbx_cell_result result = {
      .output = {gbx__capture_view(&run->output[0]),
                 gbx__capture_view(&run->output[1])},
      .done = run->done,
      .fault =
          run->state == RUN_ENDED ? gbx__run_find_fault(run) : GBX_FAULT_NONE,
      .interrupted = run->cell_interrupted,
      .timed_out = run->cell_timed_out,
      .has_exit = run->state == RUN_ENDED,
      .usage = gbx__meter_read(&run->meter, run->pidfd,
                               run->state == RUN_ENDED ? &run->end : NULL),
      .blocked = gbx__trace_view(run),
      .frames_truncated = run->control.dropped,
      .duration_us = (run->cell_end_ns - run->cell_start_ns) / 1000,
      .files = run->files,
      .file_count = run->file_count,
      .files_truncated = run->files_truncated,
  };
  if (result.has_exit)
    result.exit_code = gbx__run_find_exit(run, &result.signal);
  gbx__run_name_syscall(run, result.fault_syscall, sizeof result.fault_syscall);
  gbx_moment(run->engine->moments, GBX_AT_CELL_CONCLUDED, run->id);
  if (run->events.on_cell != NULL)
    run->events.on_cell(run->data, cell->data, err,
                        err == NULL ? &result : NULL);
  for (int i = 0; i < 2; i++)
    (void)gbx_run_take_output(run, (enum gbx_stream)i, NULL);
  gbx__cell_free(cell);
  run->cell_active = run->cell_interrupted = run->cell_timed_out = false;
  run->interrupt_due = run->term_sent = run->cell_asked = false;
  gbx__bytes_free(&run->done);
  free(run->files);
  run->files = NULL;
  run->file_count = 0;
  if (run->trace != NULL) run->trace->known = false;
}

void gbx__cells_report(struct gbx_run* run, const struct gbx_err* failure) {
  if (run->cell_active) {
    run->cell_end_ns = uv_hrtime();
    report_cell(run, failure);
  }
  struct gbx_err dead = {0};
  (void)gbx_fail(&dead, GBX_E_KERNEL_DEAD, 0, "kernel",
                 "its interpreter is gone");
  while (run->cells != NULL)
    report_cell(run, run->closed ? failure : &dead);
}

/* ---- Serving ----------------------------------------------------------- */

static void send_cell(struct gbx_run* run) {
  struct gbx__cell* cell = run->cells;
  struct gbx_err err = {0};
  gbx__control_begin(&run->control);
  /* Results since the last cell are this one's, a DONE is nobody's. */
  gbx__run_read_control(run);
  run->control.done_came = false;
  gbx__meter_begin(&run->meter);
  run->cell_active = true;
  run->cell_start_ns = uv_hrtime();
  if (run->control.fd < 0) return; /* it died: its END reports the cell */
  /* First: the interpreter wakes up while the rest is done. */
  int result = gbx__control_send(&run->control, cell->options.type,
                                 cell->options.body, &err);
  gbx_moment(run->engine->moments, GBX_AT_CELL_SENT, run->id);
  gbx__run_set_deadline(run, cell->options.timeout_ms);
  if (result < 0) {
    run->failure = err;
    gbx__run_send_kill(run);
    return;
  }
  /* What was written since the last cell waits for the next one. */
  if (cell->options.type == GBX_FRAME_CELL) gbx__run_poll_output(run, true);
  gbx__run_poll_control(run);
  if (run->control.out == NULL) gbx__cell_sent(run);
}

static void scanned_cell(struct gbx__work* work) {
  struct gbx_run* run = gbx__run_end_scan(work);
  if (run->state == RUN_ENDED)
    gbx__run_conclude(run);
  else if (!run->killed) /* or its END reports the cell */
    send_cell(run);
}

void gbx__cell_start(struct gbx_run* run) {
  if (run->state != RUN_RUNNING || run->cell_active || run->scanning ||
      run->killed || run->cells == NULL || run->session->swapping)
    return;
  uv_mutex_lock(&run->mutex);
  for (int i = 0; i < 2; i++)
    gbx__capture_reset(&run->output[i],
                       (size_t)run->cells->options.max_output_bytes);
  uv_mutex_unlock(&run->mutex);
  if (run->cells->options.track_files)
    gbx__run_start_scan(run, false, scanned_cell);
  else
    send_cell(run);
}

void gbx__cell_complete(struct gbx_run* run) {
  report_cell(run, NULL);
  gbx__cell_start(run);
}

static void on_no_answer(uv_timer_t* timer) {
  gbx__run_send_kill(timer->data);
}

/* Only the launcher knows what was refused, and whether it was for want of
 * memory that an interpreter died: its supervisor may tell of the death first.
 */
static void complete_or_ask(struct gbx_run* run) {
  if (run->trace == NULL && !run->control.was_reset) {
    gbx__cell_complete(run);
    return;
  }
  struct gbx_msg_head head;
  gbx_msg_head_init(&head, GBX_M_ASK, sizeof head, run->id);
  run->cell_asked = true;
  /* Once killed, the timer holds the patience for the run's end. */
  if (!run->killed)
    (void)uv_timer_start(run->timer, on_no_answer, ANSWER_PATIENCE_MS, 0);
  (void)gbx__client_send(run->engine, &head, NULL, 0); /* none: cannot fail */
}

void gbx__run_blocked(struct gbx_run* run,
                      const struct gbx_msg_blocked* blocked) {
  if (run->state == RUN_ENDED) return;
  gbx__trace_keep(run, blocked);
  if (!run->cell_asked) return;
  run->cell_asked = false;
  if (!run->killed) (void)uv_timer_stop(run->timer);
  gbx__cell_complete(run);
}

static void compared_cell(struct gbx__work* work) {
  struct gbx_run* run = gbx__run_end_scan(work);
  if (run->state == RUN_ENDED)
    gbx__run_conclude(run);
  else
    complete_or_ask(run);
}

static void stop_polls(struct gbx_run* run) {
  gbx__run_poll_output(run, false);
  if (run->control.poll != NULL) (void)uv_poll_stop(run->control.poll);
  if (run->control.cell_poll != NULL &&
      uv_is_active((uv_handle_t*)run->control.cell_poll))
    (void)uv_poll_stop(run->control.cell_poll);
}

/* DONE came. The cell has what is in the pipes at this moment. */
void gbx__cell_finish(struct gbx_run* run) {
  if (run->state == RUN_ENDED) return; /* gbx__run_conclude() reports it */
  gbx_moment(run->engine->moments, GBX_AT_CELL_DONE, run->id);
  /* Once killed, the timer holds the patience for the run's end. */
  if (!run->killed) (void)uv_timer_stop(run->timer);
  gbx__run_read_waiting(run);
  run->cell_end_ns = uv_hrtime();
  gbx_moment(run->engine->moments, GBX_AT_CELL_DRAINED, run->id);
  if (run->cells->options.track_files)
    gbx__run_start_scan(run, true, compared_cell);
  else
    complete_or_ask(run);
  /* Last: the caller wakes up meanwhile. Another cell may be active by now. */
  if (!run->cell_active || run->done.data != NULL) stop_polls(run);
}
