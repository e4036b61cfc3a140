/* SPDX-License-Identifier: Apache-2.0 */

/* The public calls of a run, from any thread: they copy what they are given and
 * hand it to the engine's thread. A run may end meanwhile, so what crosses is
 * its number. */

#include <stdlib.h>
#include <string.h>

#include "common/fd.h"
#include "engine/run.h"

struct run_task {
  struct gbx__task task;
  struct gbx_run* run; /* to start */
  uint32_t session_id;
  uint32_t run_id; /* to abort, or of the cell */
  struct gbx__cell* cell;
  struct gbx__chunk* chunk;
  bool ends, insist;
  int signal;
  uint16_t columns, rows;
  enum gbx_stream stream;
};

/* What a task for a run that lives is made of; NULL without memory. */
static struct run_task* task_for(const struct gbx_run* run,
                                 void (*perform)(struct gbx_engine*,
                                                 struct gbx__task*)) {
  struct run_task* task = calloc(1, sizeof *task);
  if (task == NULL) return NULL;
  task->task.perform = perform;
  task->run_id = run->id;
  return task;
}

static void perform_start(struct gbx_engine* engine, struct gbx__task* task) {
  struct run_task* request = (struct run_task*)task;
  struct gbx_run* run = request->run;
  run->session = gbx__session_find(engine, request->session_id);
  free(request);
  if (run->session == NULL || run->session->closing || engine->closing) {
    struct gbx_err err = {0};
    (void)gbx_fail(&err, GBX_E_CLOSED, 0, "session", "it is closed");
    run->events.on_end(run->data, &err, NULL);
    gbx__run_free(run);
    return;
  }
  gbx__run_enlist(run, run->session);
  if (gbx__session_takes_runs(run->session))
    gbx__runs_advance(engine);
  else
    gbx__session_attach(run->session);
}

static void perform_abort(struct gbx_engine* engine, struct gbx__task* task) {
  struct run_task* request = (struct run_task*)task;
  struct gbx_run* run = gbx__run_find(engine, request->run_id);
  if (run != NULL) gbx__run_kill(run, WHY_ABORTED);
  free(request);
}

static bool are_valid(const struct gbx_run_options* options,
                      const struct gbx_run_events* events) {
  return !(
      options->argv == NULL || options->argv[0] == NULL ||
      options->env == NULL || events->on_end == NULL ||
      (options->control && options->script.data != NULL) ||
      (options->kernel && !options->control) ||
      (options->control && !options->kernel && options->cell.data == NULL) ||
      (options->timeout_ms == 0 && !options->kernel) ||
      (options->stream && options->kernel) ||
      (options->first_input.data != NULL && !options->input) ||
      ((options->pty_columns == 0) != (options->pty_rows == 0)) ||
      (options->pty_columns != 0 && (!options->stream || !options->input)));
}

/* What a run has on the heap. Returns 0 or -ENOMEM; gbx__run_free() knows what
 * is there by then. */
static int make_parts(struct gbx_run* run,
                      const struct gbx_run_options* options) {
  if (options->first_input.data != NULL || options->input_ends) {
    struct gbx__chunk* chunk =
        gbx__chunk_new(options->first_input.data, options->first_input.size);
    if (chunk == NULL) return -ENOMEM;
    gbx__input_add(&run->input, chunk, options->input_ends);
  }
  struct run_task* abort_task = calloc(1, sizeof *abort_task);
  if (abort_task == NULL) return -ENOMEM;
  abort_task->task.perform = perform_abort;
  abort_task->run_id = run->id;
  run->abort_task = &abort_task->task;
  if (options->trace) {
    run->trace = calloc(1, sizeof *run->trace);
    if (run->trace == NULL) return -ENOMEM;
  }
  const char* cwd = options->cwd == NULL ? "/workspace" : options->cwd;
  int result =
      gbx__exec_blob_make(cwd, options->argv, options->env, &run->blob);
  if (result == 0) result = gbx__bytes_copy(options->script, &run->script);
  if (result == 0) result = gbx__bytes_copy(options->cell, &run->cell);
  return result;
}

int gbx__run_new(struct gbx_engine* engine,
                 const struct gbx_run_options* options,
                 const struct gbx_run_events* events, void* data,
                 struct gbx_run** ret_run, struct gbx_err* err) {
  if (!are_valid(options, events))
    return gbx_fail(err, GBX_E_INVALID, EINVAL, "run", "options");
  struct gbx_run* run = calloc(1, sizeof *run);
  if (run == NULL || uv_mutex_init(&run->mutex) != 0) {
    free(run);
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "calloc", "run");
  }
  run->engine = engine;
  run->id = gbx__engine_next_id(engine);
  run->events = *events;
  run->data = data;
  run->timeout_ms = options->timeout_ms;
  run->limits = options->limits;
  run->has_control = options->control;
  run->kernel = options->kernel;
  run->cold = options->cold;
  run->runtime = options->control ? options->standby : GBX_RUNTIME_NONE;
  run->track_files = options->track_files;
  run->has_input = options->input;
  run->stream = options->stream;
  run->pty_columns = options->pty_columns;
  run->pty_rows = options->pty_rows;
  gbx__input_init(&run->input);
  run->input.is_terminal = options->pty_columns != 0;
  run->pidfd = run->payload_fd = -1;
  gbx__meter_init(&run->meter);
  run->control.fd = run->control.cell_fd = -1;
  run->last_cell = &run->cells;
  run->end.escape_syscall = -1;
  for (int i = 0; i < 2; i++) {
    run->output[i].fd = -1;
    run->output[i].is_stream = options->stream;
    run->output[i].limit = (size_t)options->max_output_bytes;
  }
  if (make_parts(run, options) < 0) {
    gbx__run_free(run);
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "run");
  }
  *ret_run = run;
  return 0;
}

void gbx__run_enlist(struct gbx_run* run, struct gbx_session* session) {
  struct gbx_engine* engine = run->engine;
  gbx_moment(engine->moments, GBX_AT_TAKEN, run->id);
  run->session = session;
  *engine->last_run = run;
  engine->last_run = &run->next;
}

int gbx_run_start(struct gbx_session* session,
                  const struct gbx_run_options* options,
                  const struct gbx_run_events* events, void* data,
                  struct gbx_run** ret_run, struct gbx_err* err) {
  struct run_task* task = calloc(1, sizeof *task);
  if (task == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "calloc", "run");
  struct gbx_run* run;
  int result = gbx__run_new(session->engine, options, events, data, &run, err);
  if (result < 0) {
    free(task);
    return result;
  }
  task->task.perform = perform_start;
  task->run = run;
  task->session_id = session->id;
  *ret_run = run;
  gbx_moment(session->engine->moments, GBX_AT_CALLED, run->id);
  gbx__engine_post(session->engine, &task->task);
  return 0;
}

static void perform_cell(struct gbx_engine* engine, struct gbx__task* task) {
  struct run_task* request = (struct run_task*)task;
  struct gbx_run* run = gbx__run_find(engine, request->run_id);
  if (run == NULL) {
    gbx__cell_free(request->cell); /* on_end was called: that ends the cell */
  } else {
    gbx_moment(engine->moments, GBX_AT_CELL_TAKEN, run->id);
    *run->last_cell = request->cell;
    run->last_cell = &request->cell->next;
    gbx__cell_start(run);
  }
  free(request);
}

int gbx_run_cell(struct gbx_run* run, const struct gbx_cell_options* options,
                 void* cell_data, struct gbx_err* err) {
  if (options->body.data == NULL || options->timeout_ms == 0 ||
      (options->type != GBX_FRAME_CELL && options->type != GBX_FRAME_COMMAND))
    return gbx_fail(err, GBX_E_INVALID, EINVAL, "cell", "options");
  struct gbx__cell* cell = calloc(1, sizeof *cell);
  struct run_task* task = task_for(run, perform_cell);
  struct gbx_bytes copy = {0};
  if (cell == NULL || task == NULL ||
      gbx__bytes_copy(options->body, &copy) < 0) {
    free(cell);
    free(task);
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "cell");
  }
  gbx_moment(run->engine->moments, GBX_AT_CELL_CALLED, run->id);
  *cell = (struct gbx__cell){.data = cell_data, .options = *options};
  cell->options.body = copy;
  task->cell = cell;
  gbx__engine_post(run->engine, &task->task);
  return 0;
}

static int no_memory(const char* what, struct gbx_err* err) {
  return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "%s", what);
}

static void perform_write(struct gbx_engine* engine, struct gbx__task* task) {
  struct run_task* request = (struct run_task*)task;
  struct gbx_run* run = gbx__run_find(engine, request->run_id);
  if (run == NULL)
    free(request->chunk);
  else
    gbx__run_write(run, request->chunk, request->ends);
  free(request);
}

int gbx_run_write(struct gbx_run* run, const void* data, size_t size, bool ends,
                  struct gbx_err* err) {
  struct run_task* task = task_for(run, perform_write);
  struct gbx__chunk* chunk = gbx__chunk_new(data, size);
  if (task == NULL || chunk == NULL) {
    free(task);
    free(chunk);
    return no_memory("input", err);
  }
  chunk->is_asked = true;
  task->chunk = chunk;
  task->ends = ends;
  gbx__engine_post(run->engine, &task->task);
  return 0;
}

static void perform_signal(struct gbx_engine* engine, struct gbx__task* task) {
  struct run_task* request = (struct run_task*)task;
  struct gbx_run* run = gbx__run_find(engine, request->run_id);
  if (run != NULL) gbx__run_signal(run, request->signal);
  free(request);
}

int gbx_run_signal(struct gbx_run* run, int signal, struct gbx_err* err) {
  if (signal < 1 || signal > 64)
    return gbx_fail(err, GBX_E_INVALID, EINVAL, "signal", "%d", signal);
  struct run_task* task = task_for(run, perform_signal);
  if (task == NULL) return no_memory("signal", err);
  task->signal = signal;
  gbx__engine_post(run->engine, &task->task);
  return 0;
}

static void perform_interrupt(struct gbx_engine* engine,
                              struct gbx__task* task) {
  struct run_task* request = (struct run_task*)task;
  struct gbx_run* run = gbx__run_find(engine, request->run_id);
  if (run != NULL) gbx__cell_interrupt(run, request->insist);
  free(request);
}

int gbx_run_interrupt(struct gbx_run* run, bool insist, struct gbx_err* err) {
  struct run_task* task = task_for(run, perform_interrupt);
  if (task == NULL) return no_memory("interrupt", err);
  task->insist = insist;
  gbx__engine_post(run->engine, &task->task);
  return 0;
}

static void perform_resize(struct gbx_engine* engine, struct gbx__task* task) {
  struct run_task* request = (struct run_task*)task;
  struct gbx_run* run = gbx__run_find(engine, request->run_id);
  if (run != NULL) gbx__run_resize(run, request->columns, request->rows);
  free(request);
}

int gbx_run_resize(struct gbx_run* run, uint16_t columns, uint16_t rows,
                   struct gbx_err* err) {
  struct run_task* task = task_for(run, perform_resize);
  if (task == NULL) return no_memory("resize", err);
  task->columns = columns;
  task->rows = rows;
  gbx__engine_post(run->engine, &task->task);
  return 0;
}

static void perform_close_output(struct gbx_engine* engine,
                                 struct gbx__task* task) {
  struct run_task* request = (struct run_task*)task;
  struct gbx_run* run = gbx__run_find(engine, request->run_id);
  if (run != NULL) gbx__run_close_output(run, request->stream);
  free(request);
}

int gbx_run_close_output(struct gbx_run* run, enum gbx_stream stream,
                         struct gbx_err* err) {
  struct run_task* task = task_for(run, perform_close_output);
  if (task == NULL) return no_memory("close", err);
  task->stream = stream;
  gbx__engine_post(run->engine, &task->task);
  return 0;
}

void gbx_run_abort(struct gbx_run* run) {
  uv_mutex_lock(&run->mutex);
  struct gbx__task* task = run->abort_task;
  run->abort_task = NULL;
  uv_mutex_unlock(&run->mutex);
  if (task != NULL) gbx__engine_post(run->engine, task);
}
