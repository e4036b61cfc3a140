/* SPDX-License-Identifier: Apache-2.0 */

/* The file calls of a session: each is one job on a worker thread, so that a
 * slow disk holds up neither a deadline nor the host's JavaScript. */

#include <stdlib.h>
#include <string.h>

#include "engine/internal.h"

enum file_operation { FILE_WRITE, FILE_READ, FILE_LIST };

struct file_work {
  struct gbx__work work;
  struct gbx__task task;
  struct gbx_engine* engine;
  struct gbx_session* session;
  uint32_t session_id;
  enum file_operation operation;
  char* path;
  uint8_t* bytes; /* to write, or read */
  size_t size;
  uint64_t max_bytes;
  struct gbx__file_list list;
  union {
    gbx_done_cb done;
    gbx_read_cb read;
    gbx_list_cb list;
  } cb;
  void* data;
  struct gbx_err err;
};

static void free_file_work(struct file_work* job) {
  gbx__file_list_done(&job->list);
  free(job->path);
  free(job->bytes);
  free(job);
}

static void report_file(struct file_work* job) {
  const struct gbx_err* err = job->err.code == GBX_OK ? NULL : &job->err;
  switch (job->operation) {
    case FILE_WRITE:
      job->cb.done(job->data, err);
      break;
    case FILE_READ:
      job->cb.read(job->data, err, err == NULL ? job->bytes : NULL,
                   err == NULL ? job->size : 0);
      break;
    case FILE_LIST:
      job->cb.list(job->data, err, err == NULL ? job->list.files : NULL,
                   err == NULL ? job->list.count : 0);
      break;
  }
  free_file_work(job);
}

static void do_file(struct gbx__work* work) {
  struct file_work* job = (struct file_work*)work;
  const struct gbx__workspace* workspace = &job->session->workspace;
  switch (job->operation) {
    case FILE_WRITE:
      (void)gbx__workspace_write(workspace, job->path, job->bytes, job->size,
                                 &job->err);
      break;
    case FILE_READ:
      (void)gbx__workspace_read(workspace, job->path, job->max_bytes,
                                &job->bytes, &job->size, &job->err);
      break;
    case FILE_LIST:
      (void)gbx__workspace_list(workspace, job->path, &job->list, &job->err);
      break;
  }
}

static void file_done(struct gbx__work* work) {
  struct file_work* job = (struct file_work*)work;
  struct gbx_session* session = job->session;
  report_file(job);
  session->pending_work--;
  gbx__session_settle(session);
}

static void start_file(struct gbx_engine* engine, struct gbx__task* task) {
  struct file_work* job =
      (struct file_work*)((char*)task - offsetof(struct file_work, task));
  job->session = gbx__session_find(engine, job->session_id);
  if (job->session == NULL || job->session->closing || engine->closing) {
    job->err = gbx__session_closed;
    report_file(job);
    return;
  }
  job->session->pending_work++;
  gbx__work_start(engine, &job->work);
}

static struct file_work* new_file_work(struct gbx_session* session,
                                       enum file_operation operation,
                                       const char* path, void* data,
                                       struct gbx_err* err) {
  struct file_work* job = calloc(1, sizeof *job);
  if (job != NULL) job->path = strdup(path);
  if (job == NULL || job->path == NULL) {
    free(job);
    (void)gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "file");
    return NULL;
  }
  job->work.work = do_file;
  job->work.done = file_done;
  job->task.perform = start_file;
  job->engine = session->engine;
  job->session_id = session->id;
  job->operation = operation;
  job->data = data;
  return job;
}

int gbx_session_write_file(struct gbx_session* session, const char* path,
                           const void* bytes, size_t size, gbx_done_cb cb,
                           void* data, struct gbx_err* err) {
  struct file_work* job = new_file_work(session, FILE_WRITE, path, data, err);
  if (job == NULL) return -ENOMEM;
  job->cb.done = cb;
  job->bytes = malloc(size + 1);
  if (job->bytes == NULL) {
    free_file_work(job);
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "file");
  }
  if (size > 0) memcpy(job->bytes, bytes, size);
  job->size = size;
  gbx__engine_post(session->engine, &job->task);
  return 0;
}

int gbx_session_read_file(struct gbx_session* session, const char* path,
                          uint64_t max_bytes, gbx_read_cb cb, void* data,
                          struct gbx_err* err) {
  struct file_work* job = new_file_work(session, FILE_READ, path, data, err);
  if (job == NULL) return -ENOMEM;
  job->cb.read = cb;
  job->max_bytes = max_bytes;
  gbx__engine_post(session->engine, &job->task);
  return 0;
}

int gbx_session_list_files(struct gbx_session* session, const char* path,
                           gbx_list_cb cb, void* data, struct gbx_err* err) {
  struct file_work* job = new_file_work(session, FILE_LIST, path, data, err);
  if (job == NULL) return -ENOMEM;
  job->cb.list = cb;
  gbx__engine_post(session->engine, &job->task);
  return 0;
}
