/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fd.h"
#include "engine/internal.h"
#include "engine/seccomp_filter.h"

/* How long the end of the engine waits for the keeper to clean up. It takes
 * milliseconds, or as long as it takes to delete what a session that was never
 * closed left in its workspace. One that nobody waits for any more becomes a
 * zombie of a process that lives on after its worker thread. */
#define CLEAN_UP_PATIENCE_MS 10000

/* ---- Handles ----------------------------------------------------------- */

static void free_handle(uv_handle_t* handle) {
  free(handle);
}

uv_poll_t* gbx__poll_new(struct gbx_engine* engine, int fd, void* data) {
  uv_poll_t* poll = malloc(sizeof *poll);
  if (poll == NULL) return NULL;
  if (uv_poll_init(&engine->loop, poll, fd) != 0) {
    free(poll);
    return NULL;
  }
  poll->data = data;
  return poll;
}

void gbx__poll_close(uv_poll_t** poll) {
  if (*poll == NULL) return;
  uv_close((uv_handle_t*)*poll, free_handle);
  *poll = NULL;
}

uv_timer_t* gbx__timer_new(struct gbx_engine* engine, void* data) {
  uv_timer_t* timer = malloc(sizeof *timer);
  if (timer == NULL) return NULL;
  (void)uv_timer_init(&engine->loop, timer); /* cannot fail */
  timer->data = data;
  return timer;
}

void gbx__timer_close(uv_timer_t** timer) {
  if (*timer == NULL) return;
  uv_close((uv_handle_t*)*timer, free_handle);
  *timer = NULL;
}

/* ---- Filters ----------------------------------------------------------- */

static int make_filter(struct gbx__filter_options options,
                       struct gbx_bytes* ret_filter, struct gbx_err* err) {
  if (ret_filter->data != NULL) return 0; /* by a try before */
  uint8_t* program;
  size_t size;
  int result = gbx__filter_compile(&options, &program, &size, err);
  if (result < 0) return result;
  *ret_filter = (struct gbx_bytes){program, size};
  return 0;
}

int gbx__engine_make_filters(struct gbx_engine* engine, struct gbx_err* err) {
  if (engine->filters_made) return 0;
  engine->notify = gbx__filter_can_notify();
  int result =
      make_filter((struct gbx__filter_options){.notify = engine->notify},
                  &engine->payload_filter, err);
  if (result == 0)
    result = make_filter((struct gbx__filter_options){.init = true},
                         &engine->init_filter, err);
  if (result == 0)
    result = make_filter((struct gbx__filter_options){.zygote = true},
                         &engine->zygote_filter, err);
  engine->filters_made = result == 0;
  return result;
}

/* ---- The thread -------------------------------------------------------- */

void gbx__engine_post(struct gbx_engine* engine, struct gbx__task* task) {
  task->next = NULL;
  uv_mutex_lock(&engine->mutex);
  *engine->last_task = task;
  engine->last_task = &task->next;
  uv_mutex_unlock(&engine->mutex);
  (void)uv_async_send(&engine->wake);
}

uint32_t gbx__engine_next_id(struct gbx_engine* engine) {
  uv_mutex_lock(&engine->mutex);
  uint32_t id = engine->next_id++;
  uv_mutex_unlock(&engine->mutex);
  return id;
}

static struct gbx__task* take_tasks(struct gbx_engine* engine) {
  uv_mutex_lock(&engine->mutex);
  struct gbx__task* tasks = engine->first_task;
  engine->first_task = NULL;
  engine->last_task = &engine->first_task;
  uv_mutex_unlock(&engine->mutex);
  return tasks;
}

static void on_wake(uv_async_t* wake) {
  struct gbx_engine* engine = wake->data;
  struct gbx__task* task = take_tasks(engine);
  while (task != NULL) {
    struct gbx__task* next = task->next;
    task->perform(engine, task);
    task = next;
  }
}

static void run_thread(void* argument) {
  struct gbx_engine* engine = argument;
  (void)pthread_setname_np(pthread_self(), "glovebox"); /* to be told apart */
  /* A box that closes its stdin must not end this process, which need not
   * ignore the signal, as Node does until a listener of it was removed. */
  sigset_t broken_pipe;
  (void)sigemptyset(&broken_pipe);
  (void)sigaddset(&broken_pipe, SIGPIPE);
  (void)pthread_sigmask(SIG_BLOCK, &broken_pipe, NULL);
  (void)uv_run(&engine->loop, UV_RUN_DEFAULT);
}

static void close_left_over(uv_handle_t* handle, void* argument) {
  (void)argument;
  if (!uv_is_closing(handle)) uv_close(handle, free_handle);
}

/* With its thread gone, or never there. */
static void free_engine(struct gbx_engine* engine) {
  /* Before the loop: a worker may still be about to ring its bell. */
  gbx__pool_done(&engine->pool);
  uv_walk(&engine->loop, close_left_over, NULL);
  (void)uv_run(&engine->loop, UV_RUN_DEFAULT);
  (void)uv_loop_close(&engine->loop);
  uv_mutex_destroy(&engine->mutex);
  fd_close(&engine->client.keeper_pidfd);
  gbx_moments_unmap(engine->moments);
  fd_close(&engine->moments_fd);
  gbx__files_free(engine);
  free(engine->local_temp_dir);
  free((void*)engine->payload_filter.data);
  free((void*)engine->init_filter.data);
  free(engine);
}

int gbx_engine_new(const struct gbx_engine_options* options,
                   struct gbx_engine** ret_engine, struct gbx_err* err) {
  struct gbx_engine* engine = calloc(1, sizeof *engine);
  if (engine == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "calloc", "engine");
  if (snprintf(engine->launcher_path, sizeof engine->launcher_path, "%s",
               options->launcher_path) >= (int)sizeof engine->launcher_path) {
    free(engine);
    return gbx_fail(err, GBX_E_START, ENAMETOOLONG, "launcher", "its path");
  }
  engine->last_task = &engine->first_task;
  engine->last_run = &engine->runs;
  engine->next_id = 1;
  engine->moments_fd = -1;
  gbx__client_init(&engine->client);
  int result = gbx__pool_init(&engine->pool);
  if (result != 0) {
    free(engine);
    return gbx_fail(err, GBX_E_START, -result, "uv_mutex_init", "engine");
  }
  result = uv_loop_init(&engine->loop);
  if (result != 0) {
    gbx__pool_done(&engine->pool);
    free(engine);
    return gbx_fail(err, GBX_E_START, -result, "uv_loop_init", "engine");
  }
  (void)uv_mutex_init(&engine->mutex); /* fails for want of memory only */
  (void)uv_async_init(&engine->loop, &engine->wake, on_wake);
  engine->wake.data = engine;
  if (options->profile_path != NULL)
    result = gbx_moments_create(options->profile_path, &engine->moments,
                                &engine->moments_fd, err);
  if (result == 0) {
    result = uv_thread_create(&engine->thread, run_thread, engine);
    if (result != 0)
      (void)gbx_fail(err, GBX_E_START, -result, "uv_thread_create", "engine");
  }
  if (result != 0) {
    uv_close((uv_handle_t*)&engine->wake, NULL);
    free_engine(engine);
    return result;
  }
  *ret_engine = engine;
  return 0;
}

/* The keeper did not come to an end in time: it goes on by itself. */
static void stop_waiting(uv_timer_t* timer) {
  struct gbx_engine* engine = timer->data;
  gbx__poll_close(&engine->client.keeper_end);
  fd_close(&engine->client.keeper_pidfd);
  uv_close((uv_handle_t*)timer, free_handle);
}

void gbx__engine_settle(struct gbx_engine* engine) {
  uv_handle_t* wake = (uv_handle_t*)&engine->wake;
  /* A worker rings it when its job is done. */
  if (engine->closing && engine->working == 0 && !uv_is_closing(wake))
    uv_close(wake, NULL);
}

static void close_engine(struct gbx_engine* engine, struct gbx__task* task) {
  free(task);
  struct gbx_err err = {0};
  (void)gbx_fail(&err, GBX_E_CLOSED, 0, "engine", "is closing");
  engine->closing = true;
  gbx__sessions_abandon(engine, &err);
  gbx__client_stop(engine, &err);
  gbx__engine_settle(engine);
  /* The loop ends with its last handle: the bell, the keeper's pidfd or this
   * timer. */
  uv_timer_t* patience = gbx__timer_new(engine, engine);
  if (engine->client.keeper_end == NULL || patience == NULL) {
    if (patience != NULL) uv_close((uv_handle_t*)patience, free_handle);
    if (engine->client.keeper_end != NULL)
      gbx__poll_close(&engine->client.keeper_end);
    return;
  }
  (void)uv_timer_start(patience, stop_waiting, CLEAN_UP_PATIENCE_MS, 0);
  uv_unref((uv_handle_t*)patience);
}

void gbx_engine_free(struct gbx_engine* engine) {
  if (engine == NULL) return;
  struct gbx__task* task = calloc(1, sizeof *task);
  if (task == NULL) return; /* the process is about to fail anyway */
  task->perform = close_engine;
  gbx__engine_post(engine, task);
  (void)uv_thread_join(&engine->thread);
  /* Tasks that came too late: nobody waits for them any more. */
  struct gbx__task* late = take_tasks(engine);
  while (late != NULL) {
    struct gbx__task* next = late->next;
    late->perform(engine, late);
    late = next;
  }
  free_engine(engine);
}
