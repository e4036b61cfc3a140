/* SPDX-License-Identifier: Apache-2.0 */

/* A run that somebody talks to: its streams, the terminal that it may have, and
 * the signals that its payload is sent.
 *
 * Its output is read by the caller's own thread, out of the pipe: that is as
 * fast as a pipe, and where nobody reads the payload waits. The engine only
 * tells when there is something to read, once for each time that there was
 * not. */

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "common/fd.h"
#include "common/sys.h"
#include "engine/run.h"

/* ---- stdin --------------------------------------------------------------- */

static void flush_input(struct gbx_run* run);

static void on_writable(uv_poll_t* poll, int status, int events) {
  (void)status; /* the next write says what is wrong */
  (void)events;
  flush_input(poll->data);
}

/* Writes what the pipe takes and tells the caller. */
static void flush_input(struct gbx_run* run) {
  int written = 0;
  enum gbx__input_state state = gbx__input_flush(&run->input, &written);
  if (run->input.poll != NULL) {
    if (state == INPUT_WAITING)
      (void)uv_poll_start(run->input.poll, UV_WRITABLE, on_writable);
    else
      (void)uv_poll_stop(run->input.poll);
  }
  if (run->events.on_input == NULL) return;
  for (; written > 0; written--)
    run->events.on_input(run->data, true);
  if (state == INPUT_BROKEN) run->events.on_input(run->data, false);
}

int gbx__run_open_input(struct gbx_run* run, int* ret_read_fd,
                        struct gbx_err* err) {
  int pair[2];
  if (pipe2(pair, O_CLOEXEC) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "pipe2", "input");
  run->input.fd = pair[1];
  *ret_read_fd = pair[0];
  /* As with output: `cat /dev/stdin` opens it anew, as another user. */
  if (fchmod(pair[0], 0444) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "fchmod", "input");
  run->input.poll = gbx__poll_new(run->engine, run->input.fd, run);
  if (run->input.poll == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "uv_poll_init", "input");
  flush_input(run); /* what fits is there when the payload starts */
  return 0;
}

void gbx__run_write(struct gbx_run* run, struct gbx__chunk* chunk, bool ends) {
  bool had_pipe = run->input.fd >= 0;
  /* Given up: on_input said so. Not yet there: it waits with the run. */
  bool is_over = !had_pipe && run->state == RUN_RUNNING;
  if (is_over || run->state == RUN_ENDED || !run->has_input) {
    free(chunk);
    return;
  }
  gbx__input_add(&run->input, chunk, ends);
  if (had_pipe) flush_input(run);
}

/* ---- Output ---------------------------------------------------------------
 */

bool gbx__run_is_awaited(struct gbx_run* run, int stream) {
  if (!run->stream) return true;
  uv_mutex_lock(&run->mutex);
  bool is_awaited = run->output[stream].is_awaited;
  uv_mutex_unlock(&run->mutex);
  return is_awaited;
}

void gbx__run_tell_of_output(struct gbx_run* run, int stream) {
  struct gbx__capture* capture = &run->output[stream];
  (void)uv_poll_stop(capture->poll);
  uv_mutex_lock(&run->mutex);
  capture->is_awaited = false;
  uv_mutex_unlock(&run->mutex);
  if (run->events.on_output != NULL) run->events.on_output(run->data);
}

struct await_task {
  struct gbx__task task;
  uint32_t run_id;
};

static void perform_await(struct gbx_engine* engine, struct gbx__task* task) {
  struct await_task* request = (struct await_task*)task;
  struct gbx_run* run = gbx__run_find(engine, request->run_id);
  if (run != NULL) gbx__run_poll_output(run, true);
  free(request);
}

/* With the mutex. What comes before there is a pipe is found when it is made.
 */
static long await_output(struct gbx_run* run, struct gbx__capture* capture) {
  struct await_task* task = calloc(1, sizeof *task);
  if (task == NULL) return -ENOMEM;
  capture->is_awaited = true;
  task->task.perform = perform_await;
  task->run_id = run->id;
  gbx__engine_post(run->engine, &task->task);
  return 0;
}

/* With the mutex. */
static long read_output(struct gbx_run* run, struct gbx__capture* capture,
                        uint8_t* data, size_t size) {
  size_t have = 0;
  if (capture->is_awaited || capture->is_drained) return 0;
  while (have < size && capture->fd >= 0) {
    ssize_t count = RETRY(read(capture->fd, data + have, size - have));
    if (count < 0 && errno == EAGAIN) break;
    /* EIO: nobody has the terminal open any more. */
    if (count <= 0) return have > 0 ? (long)have : -EPIPE;
    have += (size_t)count;
  }
  return have > 0 ? (long)have : await_output(run, capture);
}

long gbx_run_read_output(struct gbx_run* run, enum gbx_stream stream,
                         void* data, size_t size) {
  uv_mutex_lock(&run->mutex);
  long result = read_output(run, &run->output[stream], data, size);
  uv_mutex_unlock(&run->mutex);
  return result;
}

void gbx__run_close_output(struct gbx_run* run, enum gbx_stream stream) {
  struct gbx__capture* capture = &run->output[stream];
  gbx__poll_close(&capture->poll);
  uv_mutex_lock(&run->mutex);
  fd_close(&capture->fd);
  uv_mutex_unlock(&run->mutex);
}

/* ---- The terminal ---------------------------------------------------------
 */

static int take_terminal(struct gbx_run* run, int master_fd,
                         struct gbx_err* err) {
  if (master_fd < 0)
    return gbx_fail(err, GBX_E_SETUP, EMFILE, "recvmsg", "terminal");
  int result = gbx__run_take_output_fd(run, GBX_STDOUT, master_fd, err);
  if (result < 0) return result;
  /* A number of its own, since a loop watches each number once. */
  run->input.fd = fcntl(master_fd, F_DUPFD_CLOEXEC, 3);
  if (run->input.fd < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "fcntl", "terminal");
  run->input.poll = gbx__poll_new(run->engine, run->input.fd, run);
  if (run->input.poll == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "uv_poll_init", "terminal");
  gbx__run_resize(run, run->pty_columns, run->pty_rows); /* asked meanwhile */
  gbx__run_poll_output(run, true);
  flush_input(run);
  return 0;
}

void gbx__run_resize(struct gbx_run* run, uint16_t columns, uint16_t rows) {
  const struct winsize size = {.ws_col = columns, .ws_row = rows};
  run->pty_columns = columns;
  run->pty_rows = rows;
  /* EIO, should it ever come: its programs are gone, and so is whom to tell. */
  if (run->input.is_terminal && run->input.fd >= 0)
    (void)ioctl(run->input.fd, TIOCSWINSZ, &size);
}

/* ---- Signals --------------------------------------------------------------
 */

void gbx__run_signal(struct gbx_run* run, int signal) {
  if (run->state == RUN_ENDED) return;
  run->was_signalled = true;
  if (run->payload_fd < 0)
    run->waiting_signals |= 1ull << (signal - 1);
  else
    (void)sys_pidfd_kill(run->payload_fd, signal); /* ESRCH: it has ended */
}

/* ---- The start ------------------------------------------------------------
 */

int gbx__run_take_handle(struct gbx_run* run, int32_t pid, struct gbx_fds* fds,
                         struct gbx_err* err) {
  run->payload_fd = gbx_fds_steal(fds, 1);
  if (run->payload_fd < 0)
    return gbx_fail(err, GBX_E_SETUP, EMFILE, "recvmsg", "payload");
  if (run->input.is_terminal) {
    int result = take_terminal(run, gbx_fds_steal(fds, 2), err);
    if (result < 0) return result;
  }
  for (int signal = 1; signal <= 64; signal++)
    if ((run->waiting_signals >> (signal - 1) & 1) != 0)
      gbx__run_signal(run, signal);
  if (run->stream && run->events.on_start != NULL)
    run->events.on_start(run->data, pid);
  return 0;
}
