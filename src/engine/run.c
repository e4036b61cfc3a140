/* SPDX-License-Identifier: Apache-2.0 */

/* Theory of operation
 * -------------------
 * A run is one payload in one box.
 *
 *   WAITING   its session is not attached, or the launcher has enough to start
 *   SCANNING  a worker lists the workspace, to know later what changed
 *   STARTING  pipes are made, RUN is sent, the deadline runs
 *   RUNNING   STARTED came, with the pidfd of the box's init
 *   ENDED     END came: nothing of the box lives, so whatever is in the pipes
 *             is all there will ever be; files are compared, on_end is called
 *
 * A run is ended from here by one way only: SIGKILL to init by its pidfd (or
 * CANCEL, before there is one), after which END comes. Should END not come
 * within KILL_PATIENCE_MS - a process in the box that even SIGKILL cannot end -
 * the run ends all the same, so that no caller waits for ever; and the launcher
 * has to show that it is not the one that hangs.
 *
 * With `kernel` the box serves cells, one at a time. Between cells nothing of
 * its pipes is read: what a background thread of the code writes meanwhile
 * belongs to the next cell. */

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "common/fd.h"
#include "common/sys.h"
#include "engine/run.h"
#include "engine/seccomp_filter.h"

#define KILL_PATIENCE_MS 5000
/* A kernel's driver closed its socket: time for its exit to be reported. */
#define EXIT_PATIENCE_MS 500
/* What is read of one stream at a time: a loud box must not starve deadlines
 * and the other boxes. */
#define LOUD_SHARE (1u << 20)
/* More than all frames cost that a socket holds, however small they are. */
#define LAST_SHARE (64u << 20)

struct gbx_run* gbx__run_find(struct gbx_engine* engine, uint32_t id) {
  struct gbx_run* run = engine->runs;
  while (run != NULL && run->id != id)
    run = run->next;
  return run;
}

void gbx__bytes_free(struct gbx_bytes* bytes) {
  free((void*)bytes->data);
  *bytes = (struct gbx_bytes){0};
}

int gbx__bytes_copy(struct gbx_bytes source, struct gbx_bytes* ret_copy) {
  if (source.data == NULL) return 0;
  void* copy = malloc(source.size + 1); /* an empty one is not NULL */
  if (copy == NULL) return -ENOMEM;
  memcpy(copy, source.data, source.size);
  *ret_copy = (struct gbx_bytes){copy, source.size};
  return 0;
}

void gbx__cell_free(struct gbx__cell* cell) {
  gbx__bytes_free(&cell->options.body);
  free(cell);
}

/* Everything but its place in the engine's list. */
void gbx__run_free(struct gbx_run* run) {
  for (int i = 0; i < 2; i++)
    gbx__capture_close(&run->output[i]);
  gbx__control_close(&run->control);
  gbx__input_close(&run->input);
  gbx__timer_close(&run->timer);
  fd_close(&run->pidfd);
  fd_close(&run->payload_fd);
  gbx__meter_close(&run->meter);
  gbx__bytes_free(&run->blob);
  gbx__bytes_free(&run->script);
  gbx__bytes_free(&run->cell);
  gbx__bytes_free(&run->done);
  gbx__run_drop_scan(run);
  gbx__run_leave_tracker(run);
  free(run->files);
  while (run->cells != NULL) {
    struct gbx__cell* cell = run->cells;
    run->cells = cell->next;
    gbx__cell_free(cell);
  }
  free(run->trace);
  free(run->abort_task);
  uv_mutex_destroy(&run->mutex);
  free(run);
}

/* ---- Output and frames ------------------------------------------------- */

/* Tells the caller of new output, unless it knows of some already. */
static void announce(struct gbx_run* run) {
  if (run->events.on_output == NULL) return;
  uv_mutex_lock(&run->mutex);
  bool news = !run->announced && (run->output[0].taken < run->output[0].size ||
                                  run->output[1].taken < run->output[1].size);
  if (news) run->announced = true;
  uv_mutex_unlock(&run->mutex);
  if (news) run->events.on_output(run->data);
}

bool gbx__run_read_output(struct gbx_run* run, int stream, size_t most) {
  uv_mutex_lock(&run->mutex);
  bool open = gbx__capture_read(&run->output[stream], most);
  uv_mutex_unlock(&run->mutex);
  announce(run);
  return open;
}

void gbx__run_read_waiting(struct gbx_run* run) {
  if (run->kernel &&
      (!run->cell_active || run->cells->options.type != GBX_FRAME_CELL))
    return; /* it waits for the next cell */
  for (int i = 0; i < 2; i++) {
    int waiting = 0;
    if (run->output[i].fd >= 0 &&
        ioctl(run->output[i].fd, FIONREAD, &waiting) == 0 && waiting > 0)
      (void)gbx__run_read_output(run, i, (size_t)waiting);
  }
}

static void on_output(uv_poll_t* poll, int status, int events) {
  (void)status;
  (void)events;
  struct gbx_run* run = poll->data;
  int stream = poll == run->output[GBX_STDOUT].poll ? GBX_STDOUT : GBX_STDERR;
  if (run->stream)
    gbx__run_tell_of_output(run, stream);
  else if (!gbx__run_read_output(run, stream, LOUD_SHARE))
    gbx__poll_close(&run->output[stream].poll);
}

long gbx_run_take_output(struct gbx_run* run, enum gbx_stream stream,
                         uint8_t** ret_data) {
  if (ret_data != NULL) *ret_data = NULL;
  uv_mutex_lock(&run->mutex);
  struct gbx__capture* capture = &run->output[stream];
  size_t size = capture->size - capture->taken;
  long result = (long)size;
  if (ret_data == NULL) {
    capture->taken = capture->size;
  } else if (size > 0) {
    *ret_data = malloc(size);
    if (*ret_data == NULL) {
      result = -ENOMEM;
    } else {
      memcpy(*ret_data, capture->data + capture->taken, size);
      capture->taken = capture->size;
    }
  }
  run->announced = false;
  uv_mutex_unlock(&run->mutex);
  return result;
}

static void on_control(uv_poll_t* poll, int status, int events);

/* To start or stop one anew takes system calls. */
static bool is_polled(const uv_poll_t* poll) {
  return uv_is_active((const uv_handle_t*)poll) != 0;
}

static void on_cell_room(uv_poll_t* poll, int status, int events) {
  (void)status;
  (void)events;
  struct gbx_run* run = poll->data;
  if (gbx__control_flush(&run->control)) return;
  (void)uv_poll_stop(poll);
  gbx__cell_sent(run);
}

void gbx__run_poll_control(struct gbx_run* run) {
  if (run->control.poll == NULL) return;
  if (!is_polled(run->control.poll))
    (void)uv_poll_start(run->control.poll, UV_READABLE, on_control);
  if (run->control.out != NULL)
    (void)uv_poll_start(run->control.cell_poll, UV_WRITABLE, on_cell_room);
}

static void lose_control(struct gbx_run* run, enum gbx__control_event why);

/* A frame is complete. Returns whether to read on. */
static bool take_frame(struct gbx_run* run) {
  struct gbx__control* control = &run->control;
  enum gbx_frame type = (enum gbx_frame)control->type;
  if (run->kernel && type == GBX_FRAME_DONE) {
    if (!run->cell_active) return true; /* of no cell: nobody's reply */
    /* An INTERRUPT may wait for room that is there by now. Who answers a cell
     * without having read it leaves a rest that would be read as the next. */
    bool is_cell = control->out != NULL && control->out[4] == GBX_FRAME_CELL;
    if (control->out != NULL && (is_cell || gbx__control_flush(control))) {
      lose_control(run, CONTROL_FAULT);
      return false;
    }
    run->done = (struct gbx_bytes){control->body, control->body_size};
    control->body = NULL;
    gbx__control_next(control);
    gbx__cell_finish(run);
    return false;
  }
  if (type == GBX_FRAME_DONE)
    gbx_moment(run->engine->moments, GBX_AT_ANSWERED, run->id);
  /* What the code wrote before a result is told of before it. */
  if (type == GBX_FRAME_RESULT && !run->stream) gbx__run_read_waiting(run);
  if (run->events.on_frame != NULL)
    run->events.on_frame(run->data, type, control->body, control->body_size);
  return true;
}

static void on_exit_patience(uv_timer_t* timer);

static void lose_control(struct gbx_run* run, enum gbx__control_event why) {
  gbx__control_close(&run->control);
  if (!run->kernel || run->state == RUN_ENDED) return;
  if (why == CONTROL_NO_MEMORY && run->failure.code == GBX_OK)
    (void)gbx_fail(&run->failure, GBX_E_NO_MEMORY, ENOMEM, "malloc",
                   "what the driver sent");
  if (why == CONTROL_FAULT && run->failure.code == GBX_OK)
    (void)gbx_fail(&run->failure, GBX_E_PROTOCOL, EBADMSG, "driver",
                   "sent what is no frame of the protocol");
  if (run->killed) return; /* the timer holds the patience for its end */
  /* A kernel without its socket is over; how it ended, init will say. */
  (void)uv_timer_start(run->timer, on_exit_patience,
                       why == CONTROL_END ? EXIT_PATIENCE_MS : 0, 0);
}

static void read_control(struct gbx_run* run, size_t share) {
  for (;;) {
    enum gbx__control_event event = gbx__control_read(&run->control, &share);
    if (event == CONTROL_NOTHING) return;
    if (event != CONTROL_FRAME) {
      lose_control(run, event);
      return;
    }
    if (!take_frame(run)) return;
    gbx__control_next(&run->control);
  }
}

static void on_control(uv_poll_t* poll, int status, int events) {
  (void)status;
  (void)events;
  read_control(poll->data, LOUD_SHARE);
}

void gbx__run_read_control(struct gbx_run* run) {
  if (run->control.fd >= 0) read_control(run, LOUD_SHARE);
}

void gbx__run_poll_output(struct gbx_run* run, bool on) {
  for (int i = 0; i < 2; i++) {
    if (run->output[i].poll == NULL) continue;
    bool is_wanted = on && gbx__run_is_awaited(run, i);
    if (is_wanted == is_polled(run->output[i].poll)) continue;
    if (is_wanted)
      (void)uv_poll_start(run->output[i].poll, UV_READABLE, on_output);
    else
      (void)uv_poll_stop(run->output[i].poll);
  }
}

/* ---- Ending ------------------------------------------------------------ */

enum gbx_fault gbx__run_find_fault(const struct gbx_run* run) {
  const struct gbx_msg_end* end = &run->end;
  bool by_sigkill = !end->reported || (end->wait_code != CLD_EXITED &&
                                       end->wait_status == SIGKILL);
  if (end->escape) return GBX_FAULT_ESCAPE;
  /* A program that ended by itself just before the kill is no timeout. */
  if (run->timed_out && by_sigkill) return GBX_FAULT_TIMEOUT;
  if (end->oom && by_sigkill) return GBX_FAULT_OOM;
  if (run->over_disk && by_sigkill) return GBX_FAULT_DISK;
  return by_sigkill ? GBX_FAULT_KILLED : GBX_FAULT_NONE;
}

int gbx__run_find_exit(const struct gbx_run* run, int* ret_signal) {
  enum gbx_fault fault = gbx__run_find_fault(run);
  int signal = 0;
  if (fault == GBX_FAULT_ESCAPE)
    signal = SIGSYS;
  else if (fault != GBX_FAULT_NONE)
    signal = SIGKILL;
  else if (run->end.wait_code != CLD_EXITED)
    signal = run->end.wait_status;
  *ret_signal = signal;
  return signal != 0 ? 128 + signal : run->end.wait_status & 0xff;
}

void gbx__run_name_syscall(const struct gbx_run* run, char* ret_name,
                           size_t size) {
  if (run->end.escape_syscall >= 0)
    gbx__filter_name_syscall(run->end.escape_arch, run->end.escape_syscall,
                             ret_name, size);
}

struct gbx_output gbx__capture_view(const struct gbx__capture* capture) {
  if (capture->is_stream) return (struct gbx_output){0};
  return (struct gbx_output){capture->data, capture->size, capture->truncated};
}

/* Why there is no result, or NULL. */
static const struct gbx_err* find_failure(struct gbx_run* run) {
  if (run->closed)
    (void)gbx_fail(&run->failure, GBX_E_CLOSED, 0, "call", "ended by close()");
  else if (run->aborted)
    (void)gbx_fail(&run->failure, GBX_E_ABORTED, 0, "run", "was aborted");
  return run->failure.code == GBX_OK ? NULL : &run->failure;
}

/* The last act: reports, forgets and frees the run. */
void gbx__run_conclude(struct gbx_run* run) {
  struct gbx_engine* engine = run->engine;
  struct gbx_session* session = run->session;
  struct gbx_run** at = &engine->runs;
  while (*at != run)
    at = &(*at)->next;
  *at = run->next;
  if (run->next == NULL) engine->last_run = at;

  const struct gbx_err* failure = find_failure(run);
  gbx__cells_report(run, failure);
  struct gbx_run_result result = {
      .output = {gbx__capture_view(&run->output[0]),
                 gbx__capture_view(&run->output[1])},
      .exec = run->end.err,
      .frames_truncated = run->control.dropped,
      .duration_us = (uv_hrtime() - run->start_ns) / 1000,
      .usage = {.cpu_us = run->end.usage.cpu_us,
                .has_cpu = run->end.usage.cpu_us != 0,
                .cpu_user_us = run->end.usage.cpu_user_us,
                .cpu_system_us = run->end.usage.cpu_system_us,
                .read_bytes = run->end.usage.read_bytes,
                .written_bytes = run->end.usage.written_bytes,
                .max_memory_bytes = run->end.usage.max_memory_bytes,
                .max_pids = run->end.usage.max_pids,
                .has_cpu_split = run->end.usage.has_cpu_split,
                .has_io = run->end.usage.has_io},
      .blocked = gbx__trace_view(run),
      .files = run->files,
      .file_count = run->file_count,
      .files_truncated = run->files_truncated,
  };
  result.fault = gbx__run_find_fault(run);
  result.exit_code = gbx__run_find_exit(run, &result.signal);
  gbx__run_name_syscall(run, result.fault_syscall, sizeof result.fault_syscall);
  gbx_moment(engine->moments, GBX_AT_CONCLUDED, run->id);
  run->events.on_end(run->data, failure, failure == NULL ? &result : NULL);
  gbx__run_free(run);
  gbx__session_run_ended(session);
  gbx__disk_run_ended(session);
  gbx__session_settle(session);
  gbx__runs_advance(engine);
}

static void compared_run(struct gbx__work* work) {
  struct gbx_run* run = gbx__run_end_scan(work);
  gbx_moment(run->engine->moments, GBX_AT_COMPARED, run->id);
  gbx__run_conclude(run);
}

/* What is left in the pipe of a stream is no more than a pipe holds. */
static void let_rest_in(struct gbx_run* run, int stream) {
  struct gbx__capture* capture = &run->output[stream];
  if (!capture->is_stream) return;
  uv_mutex_lock(&run->mutex);
  capture->limit = SIZE_MAX / 2;
  capture->is_drained = true;
  uv_mutex_unlock(&run->mutex);
}

/* What is in the pipe at this moment. A descriptor of it may live on in another
 * box, through a socket in the workspace, and be written to without end. */
static size_t rest_of(const struct gbx_run* run, int stream) {
  int waiting = 0;
  /* Of a terminal it does not count what the driver has not passed on yet; all
   * of that is less than the share. */
  if (run->input.is_terminal ||
      ioctl(run->output[stream].fd, FIONREAD, &waiting) < 0)
    return LOUD_SHARE;
  return waiting > 0 ? (size_t)waiting : 0;
}

/* Where it is not certain that the box is gone only a share of the frames is
 * read. */
void gbx__run_end_box(struct gbx_run* run, bool is_certain) {
  if (run->state == RUN_SCANNING || run->state == RUN_STARTING)
    run->engine->starting--;
  bool ran = run->state == RUN_STARTING || run->state == RUN_RUNNING;
  if (ran) gbx__disk_box_ended(run->session);
  run->state = RUN_ENDED;
  gbx__timer_close(&run->timer);
  fd_close(&run->pidfd);
  gbx__input_close(&run->input);
  for (int i = 0; i < 2; i++) {
    gbx__poll_close(&run->output[i].poll);
    let_rest_in(run, i);
    if (run->output[i].fd >= 0)
      (void)gbx__run_read_output(run, i, rest_of(run, i));
  }
  if (run->control.fd >= 0)
    read_control(run, is_certain ? LAST_SHARE : LOUD_SHARE);
  gbx__control_close(&run->control);
  gbx_moment(run->engine->moments, GBX_AT_DRAINED, run->id);
  if (ran && !is_certain) gbx__run_doubt_changes(run);
  if (run->scanning) return; /* a cell's scan goes on to conclude */
  if (ran && gbx__run_was_scanned(run) && find_failure(run) == NULL)
    gbx__run_start_scan(run, true, compared_run);
  else
    gbx__run_conclude(run);
}

static void take_end(struct gbx_run* run, const struct gbx_msg_end* end,
                     bool is_certain) {
  if (run->state == RUN_ENDED) return;
  gbx_moment(run->engine->moments, GBX_AT_END_RECEIVED, run->id);
  run->end = *end;
  gbx_err_sanitize(&run->end.err);
  bool killed_by_us =
      run->timed_out || run->aborted || run->closed || run->over_disk;
  /* A signal that came before the program executed was meant for it. */
  if (run->was_signalled && run->end.reported &&
      run->end.wait_code != CLD_EXITED && run->end.err.code == GBX_E_DIED)
    run->end.err = (struct gbx_err){0};
  int code = run->end.err.code;
  if (code != GBX_OK && code != GBX_E_EXEC && !killed_by_us && !run->end.oom &&
      !run->end.escape && run->failure.code == GBX_OK)
    run->failure = run->end.err;
  if (code != GBX_E_EXEC) run->end.err = (struct gbx_err){0};
  gbx__run_end_box(run, is_certain);
}

void gbx__run_end(struct gbx_run* run, const struct gbx_msg_end* end) {
  take_end(run, end, true);
}

void gbx__run_fail(struct gbx_run* run, const struct gbx_err* err) {
  if (run->state == RUN_ENDED) return;
  if (run->failure.code == GBX_OK) run->failure = *err;
  gbx__run_end_box(run, false);
}

static void on_kill_patience(uv_timer_t* timer) {
  struct gbx_run* run = timer->data;
  struct gbx_engine* engine = run->engine;
  const struct gbx_msg_end end = {.escape_syscall = -1};
  take_end(run, &end, false);
  gbx__client_ping(engine);
}

void gbx__run_send_kill(struct gbx_run* run) {
  bool again = run->killed;
  run->killed = true;
  if (run->pidfd >= 0) {
    (void)sys_pidfd_kill(run->pidfd, SIGKILL); /* ESRCH: END is on its way */
  } else { /* not started yet, or no room was left for the pidfd */
    struct gbx_msg_head head;
    gbx_msg_head_init(&head, GBX_M_CANCEL, sizeof head, run->id);
    (void)gbx__client_send(run->engine, &head, NULL, 0); /* none: cannot fail */
  }
  if (!again && run->timer != NULL)
    (void)uv_timer_start(run->timer, on_kill_patience, KILL_PATIENCE_MS, 0);
}

static void on_deadline(uv_timer_t* timer) {
  struct gbx_run* run = timer->data;
  if (run->kernel && run->cell_active) {
    run->cell_timed_out = true;
    gbx__cell_interrupt(run, true);
    return;
  }
  run->timed_out = true;
  gbx__run_send_kill(run);
}

void gbx__run_set_deadline(struct gbx_run* run, uint64_t timeout_ms) {
  uv_update_time(&run->engine->loop); /* the loop may have been busy */
  (void)uv_timer_start(run->timer, on_deadline, timeout_ms, 0);
}

static void on_second_patience(uv_timer_t* timer) {
  gbx__run_send_kill(timer->data);
}

/* On a busy host the reason of an exit takes longer than the exit. A kill
 * before it came would be taken for the reason. */
static void on_exit_patience(uv_timer_t* timer) {
  const struct gbx_run* run = timer->data;
  if (fd_is_readable(run->payload_fd))
    (void)uv_timer_start(timer, on_second_patience, KILL_PATIENCE_MS, 0);
  else
    on_second_patience(timer);
}

void gbx__run_kill(struct gbx_run* run, enum gbx__why why) {
  if (run->state == RUN_ENDED) {
    if (why == WHY_CLOSED) run->closed = true;
    return;
  }
  run->aborted = run->aborted || why == WHY_ABORTED;
  run->closed = run->closed || why == WHY_CLOSED;
  if (run->state == RUN_WAITING)
    gbx__run_end_box(run, true);
  else if (run->state != RUN_SCANNING) /* its scan's end sees the flags */
    gbx__run_send_kill(run);
}
