/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_ENGINE_FILE_JOB_H_
#define SRC_ENGINE_FILE_JOB_H_

/* One file call on its way: made on the caller's thread, started on the
 * engine's, done by a worker, reported on the engine's. */

#include "engine/internal.h"

struct gbx__file_job;

struct gbx__file_job_kind {
  void (*operate)(struct gbx__file_job* job); /* worker */
  /* Calls back, and frees the job. The session, if there is one, is valid. */
  void (*report)(struct gbx__file_job* job);
};

struct gbx__file_job {
  struct gbx__work work;
  struct gbx__task task;
  struct gbx_engine* engine;
  struct gbx_session* session; /* while a worker has it */
  uint32_t session_id;
  const struct gbx__file_job_kind* kind;
  struct gbx_file* file; /* of calls on an open file */
  char *path, *to;
  uint8_t* bytes; /* to write, or read */
  size_t size;
  uint64_t number; /* what the call has besides: a bound, flags, an offset */
  bool keep, ended;
  struct gbx__file_list list;
  struct gbx_file_entry entry;
  union {
    gbx_done_cb done;
    gbx_read_cb read;
    gbx_list_cb list;
    gbx_file_cb file;
  } cb;
  void* data;
  struct gbx_err err;
};

/* NULL: no memory, with `err` filled. */
struct gbx__file_job* gbx__file_job_new(struct gbx_engine* engine,
                                        uint32_t session_id,
                                        const struct gbx__file_job_kind* kind,
                                        void* data, struct gbx_err* err);
void gbx__file_job_free(struct gbx__file_job* job);
/* Copies them. */
int gbx__file_job_set_bytes(struct gbx__file_job* job, const void* bytes,
                            size_t size, struct gbx_err* err);
/* Engine's thread: gives it to a worker. */
void gbx__file_job_start(struct gbx__file_job* job,
                         struct gbx_session* session);

static inline struct gbx__file_job* gbx__file_job_of_task(
    struct gbx__task* task) {
  return (struct gbx__file_job*)((char*)task -
                                 offsetof(struct gbx__file_job, task));
}

static inline const struct gbx_err* gbx__file_job_err(
    const struct gbx__file_job* job) {
  return job->err.code == GBX_OK ? NULL : &job->err;
}

#endif  // SRC_ENGINE_FILE_JOB_H_
