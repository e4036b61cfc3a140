/* SPDX-License-Identifier: Apache-2.0 */

/* The start of a run: which one is next, its pipes, and the message RUN. */

#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/fd.h"
#include "common/sys.h"
#include "engine/run.h"

/* More at a time would only make each of them slower, and their descriptors
 * would be in flight between the processes. */
#define MAX_STARTING 64
/* Four times what a pipe holds. */
#define STREAM_PIPE_BYTES (256 << 10)

static int open_output(struct gbx_run* run, int stream, int* ret_write_fd,
                       struct gbx_err* err) {
  int pair[2];
  if (pipe2(pair, O_CLOEXEC) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "pipe2", "output");
  cleanup_fd int read_fd = pair[0];
  *ret_write_fd = pair[1];
  /* A pipe is its maker's, mode 0600, and root's boxes are another user: there
   * `echo x > /dev/stdout`, which opens it anew, would be EACCES. Nobody else
   * gains by it, since a pipe has no name but in /proc/<pid>/fd. */
  if (fchmod(pair[1], 0666) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "fchmod", "output");
  /* A stream is read by another thread than the one that waits for it: in
   * larger pieces it is woken less often. Not by much, since the kernel counts
   * the pages of all pipes of a user; where they are used up, it is as it was.
   */
  if (run->stream && stream == GBX_STDOUT)
    (void)fcntl(read_fd, F_SETPIPE_SZ, STREAM_PIPE_BYTES);
  return gbx__run_take_output_fd(run, stream, fd_steal(&read_fd), err);
}

int gbx__run_take_output_fd(struct gbx_run* run, int stream, int fd,
                            struct gbx_err* err) {
  struct gbx__capture* capture = &run->output[stream];
  /* First, since it makes the descriptor non-blocking: of a stream the caller's
   * thread reads as soon as it sees one. */
  capture->poll = gbx__poll_new(run->engine, fd, run);
  if (capture->poll == NULL) {
    (void)close(fd);
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "uv_poll_init", "output");
  }
  uv_mutex_lock(&run->mutex);
  capture->fd = fd;
  uv_mutex_unlock(&run->mutex);
  return 0;
}

/* Descriptors 3 and 4 of a program in the box. */
struct extra_fds {
  int third, fourth;
};

static int open_control(struct gbx_run* run, struct extra_fds* ret_fds,
                        struct gbx_err* err) {
  struct gbx__control* control = &run->control;
  int cells[2], frames[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, cells) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "socketpair", "control");
  control->cell_fd = cells[0];
  ret_fds->third = cells[1];
  /* Before anybody in a box has the other end, who then meets EPIPE. */
  if (shutdown(control->cell_fd, SHUT_RD) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "shutdown", "control");
  if (pipe2(frames, O_CLOEXEC) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "pipe2", "control");
  control->fd = frames[0];
  ret_fds->fourth = frames[1];
  /* A socket nobody could open anew in /proc either. */
  if (fchmod(control->fd, 0) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "fchmod", "control");
  control->poll = gbx__poll_new(run->engine, control->fd, run);
  control->cell_poll = gbx__poll_new(run->engine, control->cell_fd, run);
  if (control->poll == NULL || control->cell_poll == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "uv_poll_init", "control");
  gbx__control_begin(&run->control);
  if (run->kernel) return 0;
  run->control.shut_when_sent = true;
  int result = gbx__control_send(&run->control, GBX_FRAME_CELL, run->cell, err);
  gbx__bytes_free(&run->cell);
  return result;
}

static int open_extra(struct gbx_run* run, struct extra_fds* ret_fds,
                      struct gbx_err* err) {
  if (run->has_control) return open_control(run, ret_fds, err);
  if (run->script.data == NULL) return 0;
  int fd = fd_sealed_memory("script", run->script.data, run->script.size);
  gbx__bytes_free(&run->script);
  if (fd < 0) return gbx_fail(err, GBX_E_SETUP, -fd, "memfd_create", "script");
  ret_fds->third = fd;
  return 0;
}

static void close_extra(struct extra_fds* fds) {
  fd_close(&fds->third);
  fd_close(&fds->fourth);
}

/* Those that no descriptor goes with. */
static uint32_t flags_of(const struct gbx_run* run) {
  return (run->input.is_terminal ? GBX_RUN_PTY : 0u) |
         (run->stream || run->kernel ? GBX_RUN_HANDLE : 0u) |
         (run->kernel ? GBX_RUN_METER : 0u) |
         (run->session->enforce_limits ? 0u : GBX_RUN_NO_CGROUP) |
         (run->trace != NULL ? GBX_RUN_TRACE : 0u) |
         (run->cold ? GBX_RUN_COLD : 0u);
}

static int send_run(struct gbx_run* run, struct gbx_err* err) {
  struct gbx_session* session = run->session;
  cleanup_fd int blob_fd =
      fd_sealed_memory("exec", run->blob.data, run->blob.size);
  if (blob_fd < 0)
    return gbx_fail(err, GBX_E_SETUP, -blob_fd, "memfd_create", "argv and env");
  gbx__bytes_free(&run->blob);
  cleanup_fd int stdout_fd = -1, stderr_fd = -1, stdin_fd = -1;
  __attribute__((cleanup(close_extra))) struct extra_fds extra = {-1, -1};
  bool is_terminal = run->input.is_terminal;
  int result = 0;
  if (!is_terminal) result = open_output(run, GBX_STDOUT, &stdout_fd, err);
  if (result == 0 && !is_terminal)
    result = open_output(run, GBX_STDERR, &stderr_fd, err);
  if (result == 0) result = open_extra(run, &extra, err);
  if (result == 0 && run->has_input && !is_terminal)
    result = gbx__run_open_input(run, &stdin_fd, err);
  if (result < 0) return result;
  run->timer = gbx__timer_new(run->engine, run);
  if (run->timer == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "deadline");

  struct gbx_msg_run message = {
      .root = session->root->id,
      .workspace = session->id,
      .flags = flags_of(run) | (extra.third >= 0 ? GBX_RUN_FD3 : 0u) |
               (extra.fourth >= 0 ? GBX_RUN_FD4 : 0u) |
               (stdin_fd >= 0 ? GBX_RUN_STDIN : 0u),
      .runtime = run->runtime,
      .columns = run->pty_columns,
      .rows = run->pty_rows,
      .limits = {run->limits.memory_bytes, run->limits.pids,
                 run->limits.cpu_millis},
      .file_bytes = session->disk.limit_bytes};
  GBX_MSG_INIT(&message, GBX_M_RUN, run->id);
  const int in_order[] = {blob_fd,     stdout_fd,    stderr_fd,
                          extra.third, extra.fourth, stdin_fd};
  int fds[6];
  int count = 0;
  for (int i = 0; i < 6; i++)
    if (in_order[i] >= 0) fds[count++] = in_order[i];
  result = gbx__disk_box_starts(session, err);
  if (result < 0) return result;
  run->start_ns = uv_hrtime();
  gbx_moment(run->engine->moments, GBX_AT_RUN_MADE, run->id);
  result = gbx__client_send(run->engine, &message.head, fds, count);
  if (result < 0) {
    gbx__disk_box_ended(session);
    return gbx_fail(err, GBX_E_SETUP, -result, "sendmsg", "argv and output");
  }
  run->state = RUN_STARTING;
  if (!run->kernel) {
    gbx__run_set_deadline(run, run->timeout_ms);
    gbx__run_poll_output(run, true);
    gbx__run_poll_control(run);
  }
  return 0;
}

static void send_or_fail(struct gbx_run* run) {
  struct gbx_err err = {0};
  if (send_run(run, &err) < 0) gbx__run_fail(run, &err);
}

static void scanned_run(struct gbx__work* work) {
  struct gbx_run* run = gbx__run_end_scan(work);
  gbx_moment(run->engine->moments, GBX_AT_LISTED, run->id);
  if (run->state == RUN_ENDED) {
    gbx__run_conclude(run); /* failed meanwhile */
  } else if (run->closed || run->aborted) {
    gbx__run_end_box(run, true);
  } else if (!gbx__session_takes_runs(run->session)) {
    run->engine->starting--;
    run->state = RUN_WAITING; /* the launcher died meanwhile */
    gbx__session_attach(run->session);
  } else if (run->session->disk.full != DISK_OK) {
    run->engine->starting--;
    run->state = RUN_WAITING; /* it filled up meanwhile */
    gbx__runs_advance(run->engine);
  } else {
    send_or_fail(run);
  }
}

/* Starting one may change the list behind it, so after each the search begins
 * anew. */
static struct gbx_run* next_to_start(struct gbx_engine* engine) {
  if (engine->starting >= MAX_STARTING) return NULL;
  for (struct gbx_run* run = engine->runs; run != NULL; run = run->next)
    if (run->state == RUN_WAITING && gbx__session_takes_runs(run->session) &&
        gbx__disk_admits(run->session) && !run->session->swapping)
      return run;
  return NULL;
}

void gbx__runs_advance(struct gbx_engine* engine) {
  if (engine->held > 0 || engine->closing) return;
  /* A run that cannot start ends, and its end comes here again: the call that
   * is on its way goes on instead, or thousands of them would be as many calls
   * deep. */
  engine->held++;
  struct gbx_run* run;
  while ((run = next_to_start(engine)) != NULL) {
    engine->starting++;
    run->state = RUN_SCANNING;
    gbx__run_disturb_changes(run);
    if (run->track_files)
      gbx__run_start_scan(run, false, scanned_run);
    else
      send_or_fail(run);
  }
  engine->held--;
}

void gbx__runs_hold(struct gbx_engine* engine) {
  engine->held++;
}

void gbx__runs_release(struct gbx_engine* engine) {
  engine->held--;
  gbx__runs_advance(engine);
}

void gbx__run_started(struct gbx_run* run,
                      const struct gbx_msg_started* started,
                      struct gbx_fds* fds) {
  if (run->state != RUN_STARTING) return;
  struct gbx_engine* engine = run->engine;
  gbx_moment(engine->moments, GBX_AT_STARTED, run->id);
  run->state = RUN_RUNNING;
  run->pidfd = gbx_fds_steal(fds, 0);
  engine->starting--;
  if (run->killed) {
    gbx__run_send_kill(run);
  } else if ((run->stream || run->kernel) &&
             gbx__run_take_handle(run, started->pid, fds, &run->failure) < 0) {
    gbx__run_send_kill(run);
  } else if (run->kernel) {
    gbx__meter_take(&run->meter, started->has, fds);
  }
  if (run->kernel) gbx__cell_start(run);
  gbx__runs_advance(engine);
}
