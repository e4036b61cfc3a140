/* SPDX-License-Identifier: Apache-2.0 */

/* Theory of operation
 * -------------------
 * What may block - looking through a workspace, reading and removing files - is
 * done by threads of the engine's own. libuv's are Node's: four reads of the
 * host's that hang would hold up every run, and process.exit() ends those
 * threads while the engine still runs, so that its next uv_queue_work would
 * abort the process.
 *
 * A job waits in the pool's list, is done by a thread, and goes back to the
 * engine's thread as a task. A thread is made when a job finds none idle; it
 * stays until the engine ends. */

#include <pthread.h>

#include "engine/internal.h"

/* The next job; NULL when the pool ends. With the mutex. */
static struct gbx__work* take_job(struct gbx__pool* pool) {
  while (pool->first == NULL && !pool->ending) {
    pool->idle++;
    uv_cond_wait(&pool->wake, &pool->mutex);
    pool->idle--;
  }
  struct gbx__work* job = pool->first;
  if (job == NULL) return NULL;
  pool->first = job->next;
  if (pool->first == NULL) pool->last = &pool->first;
  pool->waiting--;
  return job;
}

static void run_thread(void* argument) {
  struct gbx_engine* engine = argument;
  struct gbx__pool* pool = &engine->pool;
  (void)pthread_setname_np(pthread_self(), "glovebox-worker");
  uv_mutex_lock(&pool->mutex);
  struct gbx__work* job;
  while ((job = take_job(pool)) != NULL) {
    uv_mutex_unlock(&pool->mutex);
    job->work(job);
    gbx__engine_post(engine, &job->task);
    uv_mutex_lock(&pool->mutex);
  }
  uv_mutex_unlock(&pool->mutex);
}

static void perform_done(struct gbx_engine* engine, struct gbx__task* task) {
  struct gbx__work* job = (struct gbx__work*)task;
  engine->working--;
  job->done(job);
  gbx__engine_settle(engine);
}

void gbx__work_start(struct gbx_engine* engine, struct gbx__work* job) {
  struct gbx__pool* pool = &engine->pool;
  job->task.perform = perform_done;
  job->next = NULL;
  engine->working++;
  uv_mutex_lock(&pool->mutex);
  *pool->last = job;
  pool->last = &job->next;
  pool->waiting++;
  if (pool->waiting > pool->idle && pool->count < GBX__POOL_THREADS &&
      uv_thread_create(&pool->threads[pool->count], run_thread, engine) == 0)
    pool->count++;
  /* Not one thread is to be had: it holds up the loop, but it is done. */
  job = pool->count == 0 ? take_job(pool) : NULL;
  uv_cond_signal(&pool->wake);
  uv_mutex_unlock(&pool->mutex);
  if (job == NULL) return;
  job->work(job);
  gbx__engine_post(engine, &job->task);
}

int gbx__pool_init(struct gbx__pool* pool) {
  pool->last = &pool->first;
  int result = uv_mutex_init(&pool->mutex);
  if (result != 0) return result;
  result = uv_cond_init(&pool->wake);
  if (result != 0) uv_mutex_destroy(&pool->mutex);
  return result;
}

void gbx__pool_done(struct gbx__pool* pool) {
  uv_mutex_lock(&pool->mutex);
  pool->ending = true;
  uv_cond_broadcast(&pool->wake);
  uv_mutex_unlock(&pool->mutex);
  for (int i = 0; i < pool->count; i++)
    (void)uv_thread_join(&pool->threads[i]);
  uv_cond_destroy(&pool->wake);
  uv_mutex_destroy(&pool->mutex);
}
