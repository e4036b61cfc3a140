/* SPDX-License-Identifier: Apache-2.0 */

/* Theory of operation
 * -------------------
 * A session is a workspace on disk and a description of a root; both exist
 * without any process. To run something it must be *attached*: the launcher
 * that runs now has to know the root (shared by sessions with equal records)
 * and hold a tree of the workspace. When the launcher dies, every session is
 * detached, and the next run attaches its session to the next launcher.
 *
 *   open    prepare the workspace (worker, or at once where that is a new
 * folder on a disk of this machine) -> start keeper and launcher -> ROOT ->
 *           WORKSPACE -> callback
 *   close   kill the runs -> they end -> WORKSPACE_DROP -> remove a temporary
 *           workspace (worker, or at once where next to nothing is in it) ->
 *           callback -> free
 *
 * Close is in that order so that nothing of a box can still write when the
 * folder is removed. */

#include <stdlib.h>
#include <string.h>

#include "common/fd.h"
#include "engine/internal.h"
#include "engine/local.h"
#include "engine/swap.h"

const struct gbx_err gbx__session_closed = {
    .code = GBX_E_CLOSED, .op = "session", .detail = "it is closed"};

struct gbx_session* gbx__session_find(struct gbx_engine* engine, uint32_t id) {
  struct gbx_session* session = engine->sessions;
  while (session != NULL && session->id != id)
    session = session->next;
  return session;
}

void gbx__session_discard(struct gbx_session* session) {
  if (session == NULL) return;
  gbx__mounts_done(&session->mounts);
  free(session->blob);
  free(session->temp_dir);
  free(session->wanted_workspace);
  free(session->close_task);
  free(session);
}

static void free_session(struct gbx_session* session) {
  for (struct gbx_session** at = &session->engine->sessions; *at != NULL;
       at = &(*at)->next)
    if (*at == session) {
      *at = session->next;
      break;
    }
  gbx__session_drop_files(session);
  if (session->has_workspace) gbx__workspace_done(&session->workspace);
  gbx__tracker_free(session->tracker);
  gbx__session_discard(session);
}

/* ---- Open -------------------------------------------------------------- */

static enum gbx_enforcement enforcement(const struct gbx_session* session,
                                        uint32_t controller) {
  if (session->enforce_limits &&
      (session->engine->client.controllers & controller) != 0)
    return GBX_ENFORCED_KERNEL;
  /* Without a cgroup the nested user namespace counts the processes, and the
   * launcher looks at the memory. */
  if (controller == GBX_CTL_PIDS) return GBX_ENFORCED_KERNEL;
  return controller == GBX_CTL_MEMORY && session->enforce_limits
             ? GBX_ENFORCED_WATCHDOG
             : GBX_ENFORCED_NONE;
}

static void report_open(struct gbx_session* session,
                        const struct gbx_err* err) {
  gbx_session_open_cb cb = session->open_cb;
  session->open_cb = NULL;
  if (cb == NULL) return;
  if (err != NULL) {
    cb(session->open_data, err, NULL, NULL);
    return;
  }
  if (session->enforce_limits)
    session->controllers = session->engine->client.controllers;
  const struct gbx_session_info info = {
      .workspace = session->workspace.path,
      .memory = enforcement(session, GBX_CTL_MEMORY),
      .pids = enforcement(session, GBX_CTL_PIDS),
      .cpus = enforcement(session, GBX_CTL_CPU),
      .disk = GBX_ENFORCED_WATCHDOG,
      .cgroups = session->engine->client.controllers != 0,
      .scoped = session->shares_network && session->engine->client.scopes};
  cb(session->open_data, NULL, session, &info);
}

/* Fails the runs of the session with `err`; kills them where that is NULL. One
 * that had not started ends at once. */
static void end_runs(struct gbx_session* session, const struct gbx_err* err) {
  struct gbx_engine* engine = session->engine;
  session->pending_work++; /* or the end of the last one could free it */
  gbx__runs_hold(engine);
  for (struct gbx_run* run = engine->runs; run != NULL;) {
    struct gbx_run* next = run->next;
    if (run->session == session) {
      if (err != NULL)
        gbx__run_fail(run, err);
      else
        gbx__run_kill(run, WHY_CLOSED);
    }
    run = next;
  }
  gbx__runs_release(engine);
  session->pending_work--;
}

/* A session that could not be opened: nobody has it, so it goes by itself. It
 * says so when it is gone, or who is told would still find its workspace. */
static void fail_open(struct gbx_session* session, const struct gbx_err* err) {
  if (session->open_err.code == GBX_OK) session->open_err = *err;
  session->closing = true;
  session->attach = DETACHED;
  end_runs(session, err);
  gbx__session_settle(session);
}

/* From the first moment, since only the keeper can remove the folder should
 * Node be killed. */
static void tell_keeper(struct gbx_session* session) {
  if (session->engine->client.state != CLIENT_DOWN && session->has_workspace &&
      session->workspace.temporary)
    session->keeper_knows = gbx__client_temp(session->engine, GBX_M_TEMP_ADD,
                                             session->workspace.path);
}

void gbx__sessions_client_starts(struct gbx_engine* engine) {
  for (struct gbx_session* session = engine->sessions; session != NULL;
       session = session->next)
    tell_keeper(session);
}

struct prepare_work {
  struct gbx__work work;
  struct gbx_session* session;
  struct gbx_err err;
};

static void prepare_workspace(struct gbx__work* work) {
  struct prepare_work* job = (struct prepare_work*)work;
  struct gbx_session* session = job->session;
  if (gbx__workspace_prepare(session->wanted_workspace, session->temp_dir,
                             &session->workspace, &job->err) < 0)
    return;
  if (!session->workspace.temporary) gbx__swaps_mend(session->workspace.fd);
  if (gbx__mounts_prepare(&session->mounts, session->temp_dir, &job->err) ==
          0 &&
      gbx__mounts_add_places(&session->mounts, &session->blob,
                             &session->blob_size, &job->err) == 0)
    (void)gbx__disk_open(session, &job->err);
}

/* For prepares_at_once(), which trusts it until the next one is made. */
static void remember_temp_dir(const struct gbx_session* session,
                              bool is_local) {
  char** known = &session->engine->local_temp_dir;
  if (is_local && *known != NULL && strcmp(*known, session->temp_dir) == 0)
    return;
  free(*known);
  *known = is_local ? strdup(session->temp_dir) : NULL; /* or it is not known */
}

static void workspace_prepared(struct gbx__work* work) {
  struct prepare_work* job = (struct prepare_work*)work;
  struct gbx_session* session = job->session;
  session->pending_work--;
  session->has_workspace = session->workspace.fd >= 0;
  if (session->wanted_workspace == NULL)
    remember_temp_dir(session, session->has_workspace &&
                                   gbx__is_local(session->workspace.fd));
  tell_keeper(session);
  /* It closes by itself if the launcher could not be started meanwhile. */
  if (session->engine->closing || session->closing || job->err.code != GBX_OK)
    fail_open(session,
              job->err.code != GBX_OK ? &job->err : &gbx__session_closed);
  else
    gbx__session_attach(session);
  free(job);
}

/* Made when the session is, since a close must not fail. */
struct close_task {
  struct gbx__task task;
  uint32_t session_id;
  gbx_done_cb cb;
  void* data;
};

struct open_task {
  struct gbx__task task;
  struct gbx_session* session;
};

/* A new folder takes less time than it takes to wake a worker up, who would be
 * woken for each call that has a session of its own. But a network may not
 * answer, and a folder of the caller's may be large or lie on one: so this is
 * for new ones alone, where the last one was made on a disk of this machine.
 * Should that be slow for once, it holds up the deadlines of other runs for as
 * long as this open, which waits for nothing else. */
static bool prepares_at_once(const struct gbx_session* session) {
  const struct gbx_engine* engine = session->engine;
  return session->wanted_workspace == NULL && session->mounts.count == 0 &&
         engine->local_temp_dir != NULL &&
         strcmp(engine->local_temp_dir, session->temp_dir) == 0;
}

void gbx__session_begin(struct gbx_session* session) {
  struct gbx_engine* engine = session->engine;
  session->id = gbx__engine_next_id(engine);
  session->next = engine->sessions;
  engine->sessions = session;
  struct prepare_work* job = engine->closing ? NULL : calloc(1, sizeof *job);
  if (job == NULL) {
    struct gbx_err err = gbx__session_closed;
    if (!engine->closing)
      (void)gbx_fail(&err, GBX_E_NO_MEMORY, ENOMEM, "calloc", "session");
    fail_open(session, &err);
    return;
  }
  job->work.work = prepare_workspace;
  job->work.done = workspace_prepared;
  job->session = session;
  session->pending_work++;
  if (prepares_at_once(session)) {
    prepare_workspace(&job->work);
    workspace_prepared(&job->work);
  } else {
    gbx__work_start(engine, &job->work);
    gbx__client_start(engine); /* at the same time */
  }
}

static void open_session(struct gbx_engine* engine, struct gbx__task* task) {
  (void)engine;
  struct gbx_session* session = ((struct open_task*)task)->session;
  free(task);
  gbx__session_begin(session);
}

int gbx__session_new(struct gbx_engine* engine,
                     const struct gbx_session_options* options,
                     gbx_session_open_cb cb, void* data,
                     struct gbx_session** ret_session, struct gbx_err* err) {
  if (options->standby_count > GBX_STANDBYS)
    return gbx_fail(err, GBX_E_INVALID, EINVAL, "session", "standbys");
  struct gbx_session* session = calloc(1, sizeof *session);
  if (session == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "calloc", "session");
  session->engine = engine;
  session->workspace.fd = -1;
  session->limits = options->limits;
  session->disk.limit_bytes = options->disk_bytes;
  session->enforce_limits = options->enforce_limits;
  session->shares_network = options->shares_network;
  session->open_cb = cb;
  session->open_data = data;
  session->blob = gbx__root_records_make(options, &session->blob_size);
  session->temp_dir = strdup(options->temp_dir);
  session->close_task = calloc(1, sizeof(struct close_task));
  if (options->workspace != NULL)
    session->wanted_workspace = strdup(options->workspace);
  int result = 0;
  if (session->blob == NULL || session->temp_dir == NULL ||
      session->close_task == NULL ||
      (options->workspace != NULL && session->wanted_workspace == NULL))
    result = gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "session");
  else
    result = gbx__mounts_init(&session->mounts, options->mounts,
                              options->mount_count, err);
  if (result < 0) {
    gbx__session_discard(session);
    return result;
  }
  *ret_session = session;
  return 0;
}

int gbx_session_open(struct gbx_engine* engine,
                     const struct gbx_session_options* options,
                     gbx_session_open_cb cb, void* data, struct gbx_err* err) {
  struct open_task* task = calloc(1, sizeof *task);
  if (task == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "calloc", "session");
  int result = gbx__session_new(engine, options, cb, data, &task->session, err);
  if (result < 0) {
    free(task);
    return result;
  }
  task->task.perform = open_session;
  gbx__engine_post(engine, &task->task);
  return 0;
}

/* ---- Attach ------------------------------------------------------------ */

/* Fails everything that waits for the session to be attached. */
static void fail_attach(struct gbx_session* session,
                        const struct gbx_err* err) {
  session->attach = DETACHED;
  session->root = NULL;
  if (session->open_cb != NULL) {
    fail_open(session, err);
  } else {
    end_runs(session, err);
    gbx__session_settle(session); /* a close waits for the attaching to end */
  }
}

/* What the rules for mounts need to know. */
static int tell_user(const struct gbx_session* session,
                     struct gbx_wire_user* user, struct gbx_err* err) {
  const char* home = getenv("HOME");
  if (home == NULL) home = "";
  if (strlen(home) >= sizeof user->home ||
      strlen(session->temp_dir) >= sizeof user->temp_dir)
    return gbx_fail(err, GBX_E_MOUNT, ENAMETOOLONG, "mounts",
                    "$HOME or TMPDIR is longer than 1023 bytes");
  memcpy(user->home, home, strlen(home));
  memcpy(user->temp_dir, session->temp_dir, strlen(session->temp_dir));
  return 0;
}

static void send_workspace(struct gbx_session* session) {
  struct gbx_engine* engine = session->engine;
  struct gbx_msg_workspace message;
  memset(&message, 0, sizeof message);
  cleanup_fd int mounts_fd = -1;
  if (session->mounts.count > 0) {
    struct gbx_err err = {0};
    mounts_fd = gbx__mounts_pack(&session->mounts);
    if (mounts_fd < 0)
      (void)gbx_fail(&err, GBX_E_MOUNT, -mounts_fd, "memfd_create", "mounts");
    if (mounts_fd < 0 || tell_user(session, &message.user, &err) < 0) {
      fail_attach(session, &err);
      return;
    }
    message.mounts = (uint32_t)session->mounts.count;
  }
  message.temporary = session->workspace.temporary;
  message.dev = session->workspace.dev;
  message.ino = session->workspace.ino;
  memcpy(message.path, session->workspace.path, sizeof message.path);
  GBX_MSG_INIT(&message, GBX_M_WORKSPACE, session->id);
  session->attach = ATTACHING_WORKSPACE;
  (void)gbx__client_send(engine, &message.head, &mounts_fd,
                         mounts_fd < 0 ? 0 : 1); /* cannot fail */
  gbx__runs_advance(engine);
}

/* The launcher takes messages in their order, so a run may be behind that with
 * its workspace. If there is none after all, it does not start there, and fails
 * here. */
bool gbx__session_takes_runs(const struct gbx_session* session) {
  return session->attach == ATTACHED || session->attach == ATTACHING_WORKSPACE;
}

/* The keeper that runs now need not be the one that the session was opened
 * with, and may have no cgroup where that one had. What was said to be the
 * kernel's is the kernel's, or nothing runs. */
static int check_controllers(const struct gbx_session* session,
                             struct gbx_err* err) {
  uint32_t lost = session->controllers & ~session->engine->client.controllers;
  if (lost == 0) return 0;
  return gbx_fail(err, GBX_E_LIMIT, 0, "cgroup",
                  "this session was opened with limits of %s by the kernel, "
                  "which it no longer has",
                  (lost & GBX_CTL_MEMORY) != 0 ? "memory" : "cpu time");
}

void gbx__session_attach(struct gbx_session* session) {
  struct gbx_engine* engine = session->engine;
  if (session->attach != DETACHED || !session->has_workspace ||
      session->closing)
    return;
  if (engine->client.state != CLIENT_UP) {
    gbx__client_start(engine); /* gbx__sessions_client_up calls us again */
    return;
  }
  struct gbx_err err = {0};
  if (check_controllers(session, &err) < 0) {
    fail_attach(session, &err);
    return;
  }
  session->attach = ATTACHING_ROOT;
  session->root = gbx__root_find_for(session);
  atomic_store(&session->given_up,
               session->root != NULL ? session->root->given_up : 0);
  if (session->root == NULL) {
    if (gbx__root_send(session, &err) < 0) fail_attach(session, &err);
  } else if (session->root->ready) {
    send_workspace(session);
  }
}

void gbx__sessions_given_up(struct gbx_engine* engine, uint32_t id,
                            uint32_t runtimes) {
  struct gbx__root* root = gbx__root_find(engine, id);
  if (root == NULL) return;
  root->given_up = runtimes;
  for (struct gbx_session* session = engine->sessions; session != NULL;
       session = session->next)
    if (session->root == root) atomic_store(&session->given_up, runtimes);
}

uint32_t gbx_session_given_up(const struct gbx_session* session) {
  return atomic_load(&session->given_up);
}

static bool is_wanted(const struct gbx_session* session) {
  if (session->open_cb != NULL) return true;
  for (struct gbx_run* run = session->engine->runs; run != NULL;
       run = run->next)
    if (run->session == session && run->state == RUN_WAITING) return true;
  return false;
}

bool gbx__sessions_wait(const struct gbx_engine* engine, bool all) {
  const struct gbx_session* session = engine->sessions;
  while (session != NULL && (session->closing || (!all && !is_wanted(session))))
    session = session->next;
  return session != NULL;
}

bool gbx__sessions_await(const struct gbx_engine* engine) {
  for (const struct gbx_session* session = engine->sessions; session != NULL;
       session = session->next)
    if (session->attach == ATTACHING_ROOT ||
        session->attach == ATTACHING_WORKSPACE)
      return true;
  for (const struct gbx_run* run = engine->runs; run != NULL; run = run->next)
    if (run->state == RUN_STARTING) return true;
  return false;
}

void gbx__sessions_client_up(struct gbx_engine* engine) {
  gbx__runs_hold(engine);
  for (struct gbx_session* session = engine->sessions; session != NULL;) {
    struct gbx_session* next = session->next;
    gbx__session_attach(session);
    session = next;
  }
  gbx__runs_release(engine);
}

void gbx__sessions_client_lost(struct gbx_engine* engine,
                               const struct gbx_err* err) {
  gbx__runs_hold(engine);
  /* First of all, so that no pointer to a root, which is freed, is followed. */
  for (struct gbx_session* session = engine->sessions; session != NULL;
       session = session->next) {
    session->attach = DETACHED;
    session->root = NULL;
    session->keeper_knows = false;
  }
  for (struct gbx_run* run = engine->runs; run != NULL;) {
    struct gbx_run* next = run->next;
    if (run->state == RUN_STARTING || run->state == RUN_RUNNING)
      gbx__run_fail(run, err);
    run = next;
  }
  for (struct gbx_session* session = engine->sessions; session != NULL;) {
    struct gbx_session* next = session->next;
    if (is_wanted(session) && !session->closing)
      fail_attach(session, err);
    else
      gbx__session_settle(session); /* its close may have waited to attach */
    session = next;
  }
  gbx__runs_release(engine);
}

static void root_done(struct gbx_engine* engine, struct gbx__root* root,
                      const struct gbx_err* err) {
  root->ready = err->code == GBX_OK;
  if (!root->ready) gbx__root_unlink(engine, root); /* the next tries anew */
  gbx__runs_hold(engine);
  for (struct gbx_session* session = engine->sessions; session != NULL;) {
    struct gbx_session* next = session->next;
    if (session->attach == ATTACHING_ROOT && session->root == root) {
      if (root->ready)
        send_workspace(session);
      else
        fail_attach(session, err);
    }
    session = next;
  }
  if (!root->ready) gbx__root_free(root);
  gbx__runs_release(engine);
}

void gbx__sessions_done(struct gbx_engine* engine, uint32_t id,
                        const struct gbx_err* err) {
  struct gbx__root* root = gbx__root_find(engine, id);
  if (root != NULL) {
    root_done(engine, root, err);
    return;
  }
  struct gbx_session* session = gbx__session_find(engine, id);
  if (session == NULL || session->attach != ATTACHING_WORKSPACE) return;
  if (err->code != GBX_OK) {
    fail_attach(session, err);
    return;
  }
  session->attach = ATTACHED;
  report_open(session, NULL);
  gbx__session_run_ended(session); /* an aborted one may have, long ago */
  gbx__session_settle(session);
  gbx__runs_advance(engine);
}

/* ---- Close ------------------------------------------------------------- */

static bool has_runs(const struct gbx_session* session) {
  const struct gbx_run* run = session->engine->runs;
  while (run != NULL && run->session != session)
    run = run->next;
  return run != NULL;
}

struct remove_work {
  struct gbx__work work;
  struct gbx_session* session;
  struct gbx_err err;
};

static void remove_tree(struct gbx__work* work) {
  struct remove_work* job = (struct remove_work*)work;
  struct gbx_session* session = job->session;
  /* The kernel takes milliseconds to end its watches. */
  gbx__tracker_free(session->tracker);
  session->tracker = NULL;
  if (session->workspace.temporary)
    (void)gbx__workspace_remove(&session->workspace, &job->err);
}

/* Before anything else is begun in it. */
void gbx__session_run_ended(struct gbx_session* session) {
  if (!session->once || session->open_cb != NULL || has_runs(session) ||
      session->engine->closing)
    return;
  session->closing = true;
  atomic_store(&session->disk.cancelled, true);
}

static void finish_close(struct gbx_session* session,
                         const struct gbx_err* err) {
  gbx_done_cb cb = session->close_cb;
  void* data = session->close_data;
  if (session->open_err.code != GBX_OK)
    report_open(session, &session->open_err);
  free_session(session);
  if (cb != NULL) cb(data, err);
}

static void tell_keeper_of_end(const struct gbx_session* session) {
  if (session->keeper_knows)
    (void)gbx__client_temp(session->engine, GBX_M_TEMP_DROP,
                           session->workspace.path); /* or it finds nothing */
}

static void tree_removed(struct gbx__work* work) {
  struct remove_work* job = (struct remove_work*)work;
  struct gbx_session* session = job->session;
  tell_keeper_of_end(session);
  finish_close(session, job->err.code == GBX_OK ? NULL : &job->err);
  free(job);
}

/* What is next to nothing is gone before a worker would wake up. Not where it
 * could wait for another machine, or go on for a box that lives. */
static bool remove_at_once(const struct gbx_session* session) {
  return session->workspace.temporary && session->tracker == NULL &&
         !session->doubtful && gbx__is_local(session->workspace.fd) &&
         gbx__workspace_remove_little(&session->workspace);
}

static void remove_workspace(struct gbx_session* session) {
  struct remove_work* job = NULL;
  if (session->has_workspace && remove_at_once(session)) {
    tell_keeper_of_end(session);
    finish_close(session, NULL);
    return;
  }
  if (session->has_workspace &&
      (session->workspace.temporary || session->tracker != NULL))
    job = calloc(1, sizeof *job);
  if (job == NULL) {
    finish_close(session, NULL);
    return;
  }
  job->work.work = remove_tree;
  job->work.done = tree_removed;
  job->session = session;
  session->pending_work++; /* never again to settle */
  gbx__work_start(session->engine, &job->work);
}

void gbx__session_settle(struct gbx_session* session) {
  if (!session->closing || session->pending_work > 0 ||
      (session->open_cb != NULL && session->open_err.code == GBX_OK) ||
      session->attach == ATTACHING_ROOT ||
      session->attach == ATTACHING_WORKSPACE)
    return;
  if (has_runs(session)) return;
  if (session->attach == ATTACHED) {
    struct gbx_msg_head head;
    gbx_msg_head_init(&head, GBX_M_WORKSPACE_DROP, sizeof head, session->id);
    (void)gbx__client_send(session->engine, &head, NULL, 0); /* cannot fail */
    session->attach = DETACHED;
    session->root = NULL;
    gbx__roots_trim(session->engine);
  }
  remove_workspace(session);
}

static void close_session(struct gbx_engine* engine, struct gbx__task* task) {
  struct close_task* request = (struct close_task*)task;
  struct gbx_session* session = gbx__session_find(engine, request->session_id);
  if (session == NULL || session->closing) {
    request->cb(request->data, NULL); /* the engine closed it already */
  } else {
    session->closing = true;
    atomic_store(&session->disk.cancelled, true);
    session->close_cb = request->cb;
    session->close_data = request->data;
    end_runs(session, NULL);
    gbx__session_close_files(session);
    gbx__session_settle(session);
  }
  free(request);
}

void gbx_session_close(struct gbx_session* session, gbx_done_cb cb,
                       void* data) {
  struct close_task* task = (struct close_task*)session->close_task;
  session->close_task = NULL;
  task->task.perform = close_session;
  task->session_id = session->id;
  task->cb = cb;
  task->data = data;
  gbx__engine_post(session->engine, &task->task);
}

void gbx__sessions_abandon(struct gbx_engine* engine,
                           const struct gbx_err* err) {
  for (struct gbx_run* run = engine->runs; run != NULL;) {
    struct gbx_run* next = run->next;
    gbx__run_fail(run, err);
    run = next;
  }
  for (struct gbx_session* session = engine->sessions; session != NULL;) {
    struct gbx_session* next = session->next;
    session->attach = DETACHED;
    if (session->pending_work == 0) {
      if (session->open_err.code == GBX_OK) report_open(session, err);
      /* The keeper removes a temporary workspace when our sockets end. One
       * that it was not told of must go here, since no worker may start. */
      if (session->has_workspace && session->workspace.temporary &&
          !session->keeper_knows)
        (void)gbx__workspace_remove(&session->workspace, NULL);
      finish_close(session, session->close_cb == NULL ? NULL : err);
    } else {
      if (session->open_cb != NULL) session->open_err = *err;
      session->closing = true; /* its job's end frees it */
      atomic_store(&session->disk.cancelled, true);
    }
    session = next;
  }
}
