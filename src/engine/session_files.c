/* SPDX-License-Identifier: Apache-2.0 */

/* The file calls of a session: each is one job on a worker thread, so that a
 * slow disk holds up neither a deadline nor the host's JavaScript. */

#include <stdlib.h>
#include <string.h>

#include "engine/file_job.h"

/* ---- Jobs ---------------------------------------------------------------- */

struct gbx__file_job* gbx__file_job_new(struct gbx_engine* engine,
                                        uint32_t session_id,
                                        const struct gbx__file_job_kind* kind,
                                        void* data, struct gbx_err* err) {
  struct gbx__file_job* job = calloc(1, sizeof *job);
  if (job == NULL) {
    (void)gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "file");
    return NULL;
  }
  job->engine = engine;
  job->session_id = session_id;
  job->kind = kind;
  job->data = data;
  return job;
}

void gbx__file_job_free(struct gbx__file_job* job) {
  gbx__file_list_done(&job->list);
  free(job->path);
  free(job->to);
  free(job->bytes);
  free(job);
}

int gbx__file_job_set_bytes(struct gbx__file_job* job, const void* bytes,
                            size_t size, struct gbx_err* err) {
  job->bytes = malloc(size + 1);
  if (job->bytes == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "file");
  if (size > 0) memcpy(job->bytes, bytes, size);
  job->size = size;
  return 0;
}

static void operate(struct gbx__work* work) {
  struct gbx__file_job* job = (struct gbx__file_job*)work;
  gbx__workspace_regain(&job->session->workspace);
  job->kind->operate(job);
}

static void operated(struct gbx__work* work) {
  struct gbx__file_job* job = (struct gbx__file_job*)work;
  struct gbx_session* session = job->session;
  job->kind->report(job);
  session->pending_work--;
  gbx__session_settle(session);
}

void gbx__file_job_start(struct gbx__file_job* job,
                         struct gbx_session* session) {
  job->work.work = operate;
  job->work.done = operated;
  job->session = session;
  session->pending_work++;
  gbx__work_start(job->engine, &job->work);
}

static void start(struct gbx_engine* engine, struct gbx__task* task) {
  struct gbx__file_job* job = gbx__file_job_of_task(task);
  struct gbx_session* session = gbx__session_find(engine, job->session_id);
  if (session == NULL || session->closing || engine->closing) {
    job->err = gbx__session_closed;
    job->kind->report(job);
    return;
  }
  gbx__file_job_start(job, session);
}

/* ---- Calls on paths ------------------------------------------------------ */

static void report_done(struct gbx__file_job* job) {
  job->cb.done(job->data, gbx__file_job_err(job));
  gbx__file_job_free(job);
}

static void report_bytes(struct gbx__file_job* job) {
  const struct gbx_err* err = gbx__file_job_err(job);
  job->cb.read(job->data, err, err == NULL ? job->bytes : NULL,
               err == NULL ? job->size : 0);
  gbx__file_job_free(job);
}

static void report_list(struct gbx__file_job* job) {
  const struct gbx_err* err = gbx__file_job_err(job);
  job->cb.list(job->data, err, err == NULL ? job->list.files : NULL,
               err == NULL ? job->list.count : 0);
  gbx__file_job_free(job);
}

static void report_stat(struct gbx__file_job* job) {
  const struct gbx_err* err = gbx__file_job_err(job);
  job->cb.list(job->data, err, err == NULL ? &job->entry : NULL, err == NULL);
  gbx__file_job_free(job);
}

static void write_file(struct gbx__file_job* job) {
  (void)gbx__workspace_write(&job->session->workspace, job->path, job->bytes,
                             job->size, &job->err);
}

static void read_file(struct gbx__file_job* job) {
  (void)gbx__workspace_read(&job->session->workspace, job->path, job->number,
                            &job->bytes, &job->size, &job->err);
}

static void list_files(struct gbx__file_job* job) {
  const struct gbx__workspace* workspace = &job->session->workspace;
  if (job->number == 0)
    (void)gbx__workspace_list(workspace, job->path, &job->list, &job->err);
  else
    (void)gbx__workspace_list_entries(
        workspace, job->path, (unsigned)job->number, &job->list, &job->err);
}

static void stat_path(struct gbx__file_job* job) {
  (void)gbx__workspace_stat(&job->session->workspace, job->path, &job->entry,
                            &job->err);
}

static void change_path(struct gbx__file_job* job) {
  const struct gbx__workspace* workspace = &job->session->workspace;
  switch ((enum gbx_path_change)job->number) {
    case GBX_PATH_MKDIR:
      (void)gbx__workspace_mkdir(workspace, job->path, &job->err);
      break;
    case GBX_PATH_RENAME:
      (void)gbx__workspace_rename(workspace, job->path, job->to, &job->err);
      break;
    case GBX_PATH_REMOVE:
    case GBX_PATH_REMOVE_TREE:
      (void)gbx__workspace_remove_entry(
          workspace, job->path, job->number == GBX_PATH_REMOVE_TREE, &job->err);
      break;
  }
}

static const struct gbx__file_job_kind writing = {write_file, report_done};
static const struct gbx__file_job_kind reading = {read_file, report_bytes};
static const struct gbx__file_job_kind listing = {list_files, report_list};
static const struct gbx__file_job_kind asking = {stat_path, report_stat};
static const struct gbx__file_job_kind changing = {change_path, report_done};

static struct gbx__file_job* new_job(struct gbx_session* session,
                                     const struct gbx__file_job_kind* kind,
                                     const char* path, void* data,
                                     struct gbx_err* err) {
  struct gbx__file_job* job =
      gbx__file_job_new(session->engine, session->id, kind, data, err);
  if (job == NULL) return NULL;
  job->task.perform = start;
  job->path = strdup(path);
  if (job->path != NULL) return job;
  gbx__file_job_free(job);
  (void)gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "file");
  return NULL;
}

int gbx_session_write_file(struct gbx_session* session, const char* path,
                           const void* bytes, size_t size, gbx_done_cb cb,
                           void* data, struct gbx_err* err) {
  struct gbx__file_job* job = new_job(session, &writing, path, data, err);
  if (job == NULL) return -ENOMEM;
  job->cb.done = cb;
  if (gbx__file_job_set_bytes(job, bytes, size, err) < 0) {
    gbx__file_job_free(job);
    return -ENOMEM;
  }
  gbx__engine_post(session->engine, &job->task);
  return 0;
}

int gbx_session_read_file(struct gbx_session* session, const char* path,
                          uint64_t max_bytes, gbx_read_cb cb, void* data,
                          struct gbx_err* err) {
  struct gbx__file_job* job = new_job(session, &reading, path, data, err);
  if (job == NULL) return -ENOMEM;
  job->cb.read = cb;
  job->number = max_bytes;
  gbx__engine_post(session->engine, &job->task);
  return 0;
}

int gbx_session_list_files(struct gbx_session* session, const char* path,
                           unsigned flags, gbx_list_cb cb, void* data,
                           struct gbx_err* err) {
  struct gbx__file_job* job = new_job(session, &listing, path, data, err);
  if (job == NULL) return -ENOMEM;
  job->cb.list = cb;
  job->number = flags;
  gbx__engine_post(session->engine, &job->task);
  return 0;
}

int gbx_session_stat(struct gbx_session* session, const char* path,
                     gbx_list_cb cb, void* data, struct gbx_err* err) {
  struct gbx__file_job* job = new_job(session, &asking, path, data, err);
  if (job == NULL) return -ENOMEM;
  job->cb.list = cb;
  gbx__engine_post(session->engine, &job->task);
  return 0;
}

int gbx_session_change_path(struct gbx_session* session,
                            enum gbx_path_change change, const char* path,
                            const char* to, gbx_done_cb cb, void* data,
                            struct gbx_err* err) {
  if (change < GBX_PATH_MKDIR || change > GBX_PATH_REMOVE_TREE)
    return gbx_fail(err, GBX_E_INVALID, EINVAL, "change_path", "%d", change);
  struct gbx__file_job* job = new_job(session, &changing, path, data, err);
  if (job == NULL) return -ENOMEM;
  job->to = strdup(to);
  if (job->to == NULL) {
    gbx__file_job_free(job);
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "file");
  }
  job->cb.done = cb;
  job->number = (uint64_t)change;
  gbx__engine_post(session->engine, &job->task);
  return 0;
}
