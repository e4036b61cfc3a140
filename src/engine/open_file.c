/* SPDX-License-Identifier: Apache-2.0 */

/* Theory of operation
 * -------------------
 * An open file belongs to its session as long as that is open, and its memory
 * to the caller until gbx_file_close. Only the engine's thread looks at
 * `session` and the counters; what is behind the file - descriptors, trees -
 * belongs to whoever holds its mutex: a worker, one job at a time.
 *
 *   caller closes   -> a job releases what is behind it, then it is freed
 *   session closes  -> a job of ours releases it; the caller's calls fail
 *   engine ends     -> no worker may start: it is released where it is
 *
 * A read of a watch that has nothing to tell waits without a worker: the
 * engine's loop polls. */

#include <stdlib.h>
#include <string.h>

#include "common/fd.h"
#include "engine/file_job.h"
#include "engine/run.h"
#include "engine/tree.h"
#include "engine/watch.h"
#include "engine/writer.h"

#define LEAST_PIECE (64u << 10)
#define MOST_PIECE  (16u << 20)

struct gbx_file {
  struct gbx_file* next;
  struct gbx_engine* engine;
  struct gbx_session* session; /* NULL: it is closed */
  enum gbx_file_use use;
  unsigned jobs;                 /* on their way through a worker */
  bool dead;                     /* the caller closed it */
  bool ended;                    /* a watch that has no more to tell */
  struct gbx__file_job* waiting; /* a read of a watch */
  uv_poll_t* poll;
  struct gbx__file_job* close_job; /* so that closing cannot fail */
  struct gbx__file_job* drop_job;  /* ditto, for the session's sake */

  uv_mutex_t mutex; /* protects what follows */
  bool open;
  int fd;
  struct gbx__temp_file temp;
  struct gbx__tree_out* tree_out;
  struct gbx__tree_in* tree_in;
  struct gbx__watch* watch;
};

static int fail_closed(struct gbx_err* err) {
  *err = gbx__session_closed;
  return -EBADF;
}

/* ---- What is behind it; with the mutex ----------------------------------- */

static int open_behind(struct gbx_file* file,
                       const struct gbx__workspace* workspace, const char* path,
                       uint64_t* ret_size, struct gbx_err* err) {
  const struct gbx__tree_out_options all = {.contents = true};
  switch (file->use) {
    case GBX_FILE_READ:
      return file->fd = gbx__workspace_open(workspace, path, ret_size, err);
    case GBX_FILE_WRITE:
      return gbx__temp_file_open(workspace, path, &file->temp, err);
    case GBX_FILE_PACK:
      return gbx__tree_out_new(workspace, "", &all, &file->tree_out, err);
    case GBX_FILE_UNPACK:
      return gbx__tree_in_new(workspace, &file->tree_in, err);
    case GBX_FILE_WATCH:
      return gbx__watch_new(workspace, path, &file->watch, err);
  }
  return gbx_fail(err, GBX_E_INVALID, EINVAL, "open_file", "%d", file->use);
}

static int release(struct gbx_file* file, bool keep, struct gbx_err* err) {
  if (!file->open) return keep ? fail_closed(err) : 0;
  file->open = false;
  switch (file->use) {
    case GBX_FILE_READ:
      fd_close(&file->fd);
      break;
    case GBX_FILE_WRITE:
      return gbx__temp_file_close(&file->temp, keep, err);
    case GBX_FILE_PACK:
      gbx__tree_out_free(file->tree_out);
      break;
    case GBX_FILE_UNPACK:
      return gbx__tree_in_free(file->tree_in, keep, err);
    case GBX_FILE_WATCH:
      gbx__watch_free(file->watch);
      break;
  }
  return 0;
}

static int read_piece(struct gbx_file* file, struct gbx__file_job* job) {
  struct gbx_err* err = &job->err;
  if (!file->open) return fail_closed(err);
  if (file->use == GBX_FILE_WATCH)
    return gbx__watch_read(file->watch, &job->bytes, &job->size, &job->ended,
                           err);
  size_t room = job->size;
  job->size = 0;
  job->bytes = malloc(room + 1);
  if (job->bytes == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "file");
  if (file->use == GBX_FILE_PACK)
    return gbx__tree_out_read(file->tree_out, job->bytes, room, &job->size,
                              err);
  if (file->use != GBX_FILE_READ)
    return gbx_fail(err, GBX_E_INVALID, EINVAL, "read", "an open file");
  ssize_t size = RETRY(pread(file->fd, job->bytes, room, (off_t)job->number));
  if (size < 0) return gbx_fail(err, GBX_E_IO, errno, "read", "an open file");
  job->size = (size_t)size;
  return 0;
}

static int write_piece(struct gbx_file* file, struct gbx__file_job* job) {
  struct gbx_err* err = &job->err;
  if (!file->open) return fail_closed(err);
  if (file->use == GBX_FILE_WRITE)
    return gbx__temp_file_write(&file->temp, job->bytes, job->size, err);
  if (file->use == GBX_FILE_UNPACK)
    return gbx__tree_in_write(file->tree_in, job->bytes, job->size, err);
  return gbx_fail(err, GBX_E_INVALID, EINVAL, "write", "an open file");
}

/* ---- Its memory ---------------------------------------------------------- */

static void free_file(struct gbx_file* file) {
  (void)release(file, false, NULL); /* only where the engine ends */
  for (struct gbx_file** at = &file->engine->files; *at != NULL;
       at = &(*at)->next)
    if (*at == file) {
      *at = file->next;
      break;
    }
  if (file->close_job != NULL) gbx__file_job_free(file->close_job);
  if (file->drop_job != NULL) gbx__file_job_free(file->drop_job);
  uv_mutex_destroy(&file->mutex);
  free(file);
}

static void free_if_done(struct gbx_file* file) {
  if (file->dead && file->jobs == 0) free_file(file);
}

void gbx__files_free(struct gbx_engine* engine) {
  while (engine->files != NULL)
    free_file(engine->files);
}

/* ---- Jobs ---------------------------------------------------------------- */

static void start_job(struct gbx__file_job* job) {
  job->file->jobs++;
  gbx__file_job_start(job, job->file->session);
}

static void end_job(struct gbx__file_job* job) {
  struct gbx_file* file = job->file;
  gbx__file_job_free(job);
  file->jobs--;
  free_if_done(file);
}

static bool is_closed(const struct gbx_file* file) {
  return file->session == NULL || file->session->closing ||
         file->engine->closing || file->dead;
}

/* A call that never got as far as a worker. */
static void fail_job(struct gbx__file_job* job, struct gbx_err err) {
  job->err = err;
  job->file->jobs++; /* the report counts it down */
  job->kind->report(job);
}

static void start_on_file(struct gbx_engine* engine, struct gbx__task* task) {
  (void)engine;
  struct gbx__file_job* job = gbx__file_job_of_task(task);
  if (is_closed(job->file))
    fail_job(job, gbx__session_closed);
  else
    start_job(job);
}

/* ---- Restores and runs --------------------------------------------------- */

/* What is in the workspace is not exchanged under a program that uses it. */
static bool is_in_use(const struct gbx_session* session) {
  for (const struct gbx_run* run = session->engine->runs; run != NULL;
       run = run->next)
    if (run->session == session && run->state != RUN_ENDED &&
        (!run->kernel || run->cells != NULL))
      return true;
  return false;
}

static struct gbx_err busy(const char* detail) {
  struct gbx_err err = {0};
  (void)gbx_fail(&err, GBX_E_BUSY, EBUSY, "restore", "%s", detail);
  return err;
}

/* ---- Opening ------------------------------------------------------------- */

static void open_file(struct gbx__file_job* job) {
  struct gbx_file* file = job->file;
  uv_mutex_lock(&file->mutex);
  file->open = open_behind(file, &job->session->workspace, job->path,
                           &job->number, &job->err) >= 0;
  uv_mutex_unlock(&file->mutex);
}

static void report_open(struct gbx__file_job* job) {
  struct gbx_file* file = job->file;
  const struct gbx_err* err = gbx__file_job_err(job);
  if (err != NULL) {
    file->dead = true;
    if (file->use == GBX_FILE_UNPACK && job->session != NULL)
      job->session->unpacking = false;
  }
  job->cb.file(job->data, err, err == NULL ? file : NULL, job->number);
  end_job(job);
}

static const struct gbx__file_job_kind opening = {open_file, report_open};

static void start_open(struct gbx_engine* engine, struct gbx__task* task) {
  struct gbx__file_job* job = gbx__file_job_of_task(task);
  struct gbx_file* file = job->file;
  struct gbx_session* session = gbx__session_find(engine, job->session_id);
  file->next = engine->files;
  engine->files = file;
  if (session == NULL || session->closing || engine->closing) {
    fail_job(job, gbx__session_closed);
    return;
  }
  if (file->use == GBX_FILE_UNPACK) {
    if (session->unpacking || is_in_use(session)) {
      fail_job(job, busy(session->unpacking ? "another one is on its way"
                                            : "a call runs"));
      return;
    }
    session->unpacking = true;
  }
  file->session = session;
  start_job(job);
}

/* ---- Reading and writing ------------------------------------------------- */

static void read_on_file(struct gbx__file_job* job) {
  uv_mutex_lock(&job->file->mutex);
  (void)read_piece(job->file, job);
  uv_mutex_unlock(&job->file->mutex);
}

static void write_on_file(struct gbx__file_job* job) {
  uv_mutex_lock(&job->file->mutex);
  (void)write_piece(job->file, job);
  uv_mutex_unlock(&job->file->mutex);
}

static void report_write(struct gbx__file_job* job) {
  job->cb.done(job->data, gbx__file_job_err(job));
  end_job(job);
}

static void stop_waiting(struct gbx_file* file) {
  gbx__poll_close(&file->poll);
  struct gbx__file_job* job = file->waiting;
  file->waiting = NULL;
  if (job != NULL) fail_job(job, gbx__session_closed);
}

static void on_change(uv_poll_t* poll, int status, int events) {
  (void)status, (void)events; /* the read says what is wrong */
  struct gbx_file* file = poll->data;
  struct gbx__file_job* job = file->waiting;
  gbx__poll_close(&file->poll);
  file->waiting = NULL;
  start_job(job);
}

static void wait_for_change(struct gbx__file_job* job) {
  struct gbx_file* file = job->file;
  int fd = gbx__watch_fd(file->watch);
  if (file->waiting == NULL) file->poll = gbx__poll_new(file->engine, fd, file);
  if (file->waiting != NULL || file->poll == NULL ||
      uv_poll_start(file->poll, UV_READABLE, on_change) != 0) {
    struct gbx_err err = {0};
    (void)gbx_fail(&err, GBX_E_NO_MEMORY, ENOMEM, "uv_poll_start", "watch");
    fail_job(job, err);
    return;
  }
  file->waiting = job;
}

static void report_read(struct gbx__file_job* job) {
  struct gbx_file* file = job->file;
  if (job->ended) file->ended = true;
  const struct gbx_err* err = gbx__file_job_err(job);
  /* Only of what we do not tell, such as our own temporary files. */
  if (file->use == GBX_FILE_WATCH && err == NULL && job->size == 0 &&
      !job->ended && !is_closed(file)) {
    file->jobs--;
    free(job->bytes);
    job->bytes = NULL;
    wait_for_change(job);
    return;
  }
  job->cb.read(job->data, err, err == NULL ? job->bytes : NULL,
               err == NULL ? job->size : 0);
  end_job(job);
}

static const struct gbx__file_job_kind reading = {read_on_file, report_read};
static const struct gbx__file_job_kind writing = {write_on_file, report_write};

static void start_watch_read(struct gbx_engine* engine,
                             struct gbx__task* task) {
  (void)engine;
  struct gbx__file_job* job = gbx__file_job_of_task(task);
  if (is_closed(job->file))
    fail_job(job, gbx__session_closed);
  else if (job->file->ended)
    start_job(job); /* nothing will come to be waited for */
  else
    wait_for_change(job);
}

/* ---- Closing ------------------------------------------------------------- */

static void close_on_file(struct gbx__file_job* job) {
  uv_mutex_lock(&job->file->mutex);
  (void)release(job->file, job->keep, &job->err);
  uv_mutex_unlock(&job->file->mutex);
}

static void end_swap(struct gbx_session* session) {
  session->unpacking = false;
  if (!session->swapping) return;
  session->swapping = false;
  gbx__runs_hold(session->engine);
  for (struct gbx_run* run = session->engine->runs; run != NULL;
       run = run->next)
    if (run->session == session && run->kernel) gbx__cell_start(run);
  gbx__runs_release(session->engine);
  gbx__runs_advance(session->engine);
}

static void report_close(struct gbx__file_job* job) {
  struct gbx_file* file = job->file;
  if (file->use == GBX_FILE_UNPACK && file->session != NULL)
    end_swap(file->session);
  job->cb.done(job->data, gbx__file_job_err(job));
  end_job(job);
}

static const struct gbx__file_job_kind closing = {close_on_file, report_close};

static void start_close(struct gbx_engine* engine, struct gbx__task* task) {
  struct gbx__file_job* job = gbx__file_job_of_task(task);
  struct gbx_file* file = job->file;
  struct gbx_session* session = file->session;
  stop_waiting(file);
  file->dead = true;
  if (session == NULL || session->closing || engine->closing) {
    /* The session's closing releases it. */
    if (job->keep)
      fail_job(job, gbx__session_closed);
    else
      fail_job(job, (struct gbx_err){0});
    return;
  }
  if (file->use == GBX_FILE_UNPACK && job->keep) {
    session->swapping = !is_in_use(session);
    if (!session->swapping) {
      job->keep = false;
      job->err = busy("a call runs");
    }
  }
  start_job(job);
}

/* The session forgets the file when it is freed itself: an opening that this
 * one overtook is undone there. */
static void report_drop(struct gbx__file_job* job) {
  end_job(job);
}

static const struct gbx__file_job_kind dropping = {close_on_file, report_drop};

void gbx__session_close_files(struct gbx_session* session) {
  for (struct gbx_file* file = session->engine->files; file != NULL;) {
    struct gbx_file* next = file->next;
    struct gbx__file_job* job = file->drop_job;
    if (file->session == session && job != NULL) {
      file->drop_job = NULL;
      file->jobs++; /* not to be freed by what waits */
      stop_waiting(file);
      file->jobs--;
      start_job(job);
    }
    file = next;
  }
}

void gbx__session_drop_files(struct gbx_session* session) {
  for (struct gbx_file* file = session->engine->files; file != NULL;) {
    struct gbx_file* next = file->next;
    if (file->session == session) {
      file->jobs++;
      stop_waiting(file);
      file->jobs--;
      uv_mutex_lock(&file->mutex); /* no worker has it any more */
      (void)release(file, false, NULL);
      uv_mutex_unlock(&file->mutex);
      file->session = NULL;
      free_if_done(file);
    }
    file = next;
  }
}

/* ---- The caller's side --------------------------------------------------- */

static struct gbx_file* new_file(struct gbx_session* session,
                                 enum gbx_file_use use) {
  struct gbx_file* file = calloc(1, sizeof *file);
  if (file == NULL) return NULL;
  file->engine = session->engine;
  file->use = use;
  file->fd = -1;
  file->close_job =
      gbx__file_job_new(file->engine, session->id, &closing, NULL, NULL);
  file->drop_job =
      gbx__file_job_new(file->engine, session->id, &dropping, NULL, NULL);
  if (file->close_job != NULL && file->drop_job != NULL &&
      uv_mutex_init(&file->mutex) == 0) {
    file->close_job->file = file->drop_job->file = file;
    return file;
  }
  free(file->close_job);
  free(file->drop_job);
  free(file);
  return NULL;
}

int gbx_session_open_file(struct gbx_session* session, enum gbx_file_use use,
                          const char* path, gbx_file_cb cb, void* data,
                          struct gbx_err* err) {
  if (use < GBX_FILE_READ || use > GBX_FILE_WATCH)
    return gbx_fail(err, GBX_E_INVALID, EINVAL, "open_file", "%d", use);
  struct gbx_file* file = new_file(session, use);
  struct gbx__file_job* job =
      file == NULL ? NULL
                   : gbx__file_job_new(session->engine, session->id, &opening,
                                       data, NULL);
  if (job != NULL) job->path = strdup(path);
  if (job == NULL || job->path == NULL) {
    if (job != NULL) gbx__file_job_free(job);
    if (file != NULL) free_file(file);
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "file");
  }
  job->file = file;
  job->cb.file = cb;
  job->task.perform = start_open;
  gbx__engine_post(session->engine, &job->task);
  return 0;
}

static struct gbx__file_job* new_job(struct gbx_file* file,
                                     const struct gbx__file_job_kind* kind,
                                     void* data, struct gbx_err* err) {
  struct gbx__file_job* job =
      gbx__file_job_new(file->engine, 0, kind, data, err);
  if (job == NULL) return NULL;
  job->file = file;
  job->task.perform = start_on_file;
  return job;
}

int gbx_file_read(struct gbx_file* file, uint64_t offset, size_t max,
                  gbx_read_cb cb, void* data, struct gbx_err* err) {
  struct gbx__file_job* job = new_job(file, &reading, data, err);
  if (job == NULL) return -ENOMEM;
  if (max > MOST_PIECE) max = MOST_PIECE;
  if (file->use == GBX_FILE_PACK && max < LEAST_PIECE) max = LEAST_PIECE;
  if (file->use == GBX_FILE_WATCH) job->task.perform = start_watch_read;
  job->cb.read = cb;
  job->number = offset;
  job->size = max;
  gbx__engine_post(file->engine, &job->task);
  return 0;
}

int gbx_file_write(struct gbx_file* file, const void* bytes, size_t size,
                   gbx_done_cb cb, void* data, struct gbx_err* err) {
  struct gbx__file_job* job = new_job(file, &writing, data, err);
  if (job == NULL) return -ENOMEM;
  if (gbx__file_job_set_bytes(job, bytes, size, err) < 0) {
    gbx__file_job_free(job);
    return -ENOMEM;
  }
  job->cb.done = cb;
  gbx__engine_post(file->engine, &job->task);
  return 0;
}

void gbx_file_close(struct gbx_file* file, bool keep, gbx_done_cb cb,
                    void* data) {
  struct gbx__file_job* job = file->close_job;
  file->close_job = NULL;
  job->keep = keep;
  job->cb.done = cb;
  job->data = data;
  job->task.perform = start_close;
  gbx__engine_post(file->engine, &job->task);
}
