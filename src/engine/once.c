/* SPDX-License-Identifier: Apache-2.0 */

/* Theory of operation
 * -------------------
 * A run with a session of its own. To open one, to run something in it and to
 * close it are three calls, each of which wakes the engine's thread and then
 * the caller's; here the engine goes from one to the next by itself. The run
 * waits in the engine's list from the start, as any does whose session is not
 * attached, and the session closes when it has ended. If it cannot be opened,
 * the run fails with the reason. */

#include <stdlib.h>

#include "engine/run.h"

struct once_task {
  struct gbx__task task;
  struct gbx_session* session;
  struct gbx_run* run;
};

/* Whom the session tells. */
struct caller {
  struct gbx_run_events events;
  void* data;
};

static void opened(void* data, const struct gbx_err* err,
                   struct gbx_session* session,
                   const struct gbx_session_info* info) {
  struct caller* caller = data;
  (void)session;
  if (err == NULL && caller->events.on_open != NULL)
    caller->events.on_open(caller->data, info);
}

static void closed(void* data, const struct gbx_err* err) {
  struct caller* caller = data;
  caller->events.on_close(caller->data, err);
  free(caller);
}

static void perform_once(struct gbx_engine* engine, struct gbx__task* task) {
  struct once_task* request = (struct once_task*)task;
  (void)engine;
  gbx__run_enlist(request->run, request->session);
  gbx__session_begin(request->session);
  free(request);
}

int gbx_run_once(struct gbx_engine* engine,
                 const struct gbx_session_options* session,
                 const struct gbx_run_options* options,
                 const struct gbx_run_events* events, void* data,
                 struct gbx_run** ret_run, struct gbx_err* err) {
  if (events->on_close == NULL)
    return gbx_fail(err, GBX_E_INVALID, EINVAL, "run", "on_close");
  struct once_task* task = calloc(1, sizeof *task);
  struct caller* caller = calloc(1, sizeof *caller);
  int result = 0;
  if (task == NULL || caller == NULL)
    result = gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "calloc", "run");
  if (result == 0)
    result =
        gbx__session_new(engine, session, opened, caller, &task->session, err);
  if (result == 0)
    result = gbx__run_new(engine, options, events, data, &task->run, err);
  if (result < 0) {
    if (task != NULL) gbx__session_discard(task->session);
    free(caller);
    free(task);
    return result;
  }
  *caller = (struct caller){.events = *events, .data = data};
  task->session->once = true;
  task->session->close_cb = closed;
  task->session->close_data = caller;
  task->task.perform = perform_once;
  *ret_run = task->run;
  gbx_moment(engine->moments, GBX_AT_CALLED, task->run->id);
  gbx__engine_post(engine, &task->task);
  return 0;
}
