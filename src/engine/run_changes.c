/* SPDX-License-Identifier: Apache-2.0 */

/* What a call changed in the workspace: by a tracker, which the session keeps,
 * or by two walks of its own. There is one tracker and its list is of one
 * moment, so it serves a call that begins while no other box lives; and its
 * shorter way one that ends so as well.
 *
 * A kernel that is started while no other box lives has it for its life, since
 * most cells leave the workspace alone, and the tracker knows without a look.
 */

#include <stdlib.h>

#include "engine/local.h"
#include "engine/run.h"

static struct gbx_run* run_of_scan(struct gbx__work* work) {
  return (struct gbx_run*)((char*)work - offsetof(struct gbx_run, scan));
}

/* ---- Who has the tracker ------------------------------------------------- */

static bool shares_workspace(const struct gbx_session* a,
                             const struct gbx_session* b) {
  return a->workspace.dev == b->workspace.dev &&
         a->workspace.ino == b->workspace.ino;
}

static bool may_live(const struct gbx_run* run) {
  return run->state != RUN_WAITING && run->state != RUN_ENDED;
}

/* Whether no box but that of this run can be in its workspace. */
static bool is_alone(const struct gbx_run* run) {
  for (const struct gbx_run* other = run->engine->runs; other != NULL;
       other = other->next)
    if (other != run && may_live(other) &&
        shares_workspace(other->session, run->session))
      return false;
  return true;
}

static bool is_tracking(const struct gbx_run* run) {
  return run->session != NULL && run->session->tracking == run;
}

/* A first call is not worth it. Where a folder above the workspace is mounted a
 * file of it can be given a name outside, and be written to by that. */
static bool take_tracker(struct gbx_run* run) {
  struct gbx_session* session = run->session;
  if (session->tracking != NULL || session->doubtful ||
      session->mounts.count > 0 ||
      (!run->kernel &&
       atomic_load(&session->file_count) < GBX__TRACKER_LEAST_FILES) ||
      !is_alone(run))
    return false;
  if (session->tracker == NULL)
    session->tracker = gbx__tracker_new(&run->engine->tracker_budget);
  if (session->tracker == NULL || !gbx__tracker_is_useful(session->tracker))
    return false;
  session->tracking = run;
  session->tracking_alone = true;
  return true;
}

void gbx__run_leave_tracker(struct gbx_run* run) {
  if (!is_tracking(run)) return;
  if (run->kernel) gbx__tracker_attend(run->session->tracker, false);
  run->session->tracking = NULL;
  run->tracks = false;
}

void gbx__run_disturb_changes(struct gbx_run* run) {
  for (struct gbx_session* session = run->engine->sessions; session != NULL;
       session = session->next)
    if (session->tracking != NULL && session->tracking != run &&
        shares_workspace(session, run->session))
      session->tracking_alone = false;
}

void gbx__run_doubt_changes(struct gbx_run* run) {
  for (struct gbx_session* session = run->engine->sessions; session != NULL;
       session = session->next)
    if (shares_workspace(session, run->session)) {
      session->doubtful = true;
      session->tracking_alone = false;
    }
}

/* ---- Looking ------------------------------------------------------------- */

static void track(struct gbx_run* run, struct gbx_err* err) {
  struct gbx_session* session = run->session;
  /* A kernel's box goes on while the names are looked at: it is walked. */
  if (run->comparing)
    (void)gbx__tracker_end(session->tracker, &session->workspace,
                           run->compares_alone && !run->kernel, &run->files,
                           &run->file_count, err);
  else
    run->scanned =
        gbx__tracker_begin(session->tracker, &session->workspace, err) == 0;
}

/* The same without a look, if nothing was touched. */
static bool track_at_once(struct gbx_run* run) {
  struct gbx_session* session = run->session;
  if (!run->kernel || run->is_new_kernel ||
      !(run->comparing ? gbx__tracker_is_still(session->tracker)
                       : gbx__tracker_can_begin(session->tracker)))
    return false;
  if (!run->comparing) run->scanned = true;
  return true;
}

static void walk(struct gbx_run* run, struct gbx_err* err) {
  struct gbx_session* session = run->session;
  struct gbx__index* index = NULL;
  if (gbx__index_scan(&session->workspace, &index, err) < 0) return;
  atomic_store(&session->file_count, index->walk.file_count);
  if (!run->comparing) {
    gbx__index_settle(&session->workspace, index);
    run->before = index;
    run->scanned = true;
    return;
  }
  if (run->before != NULL)
    (void)gbx__index_diff(run->before, index, &run->files, &run->file_count,
                          err);
  gbx__index_free(index);
}

static void scan(struct gbx__work* work) {
  struct gbx_run* run = run_of_scan(work);
  /* A workspace that cannot be read has no changed files; the code may have
   * made it so, and its result is still due. */
  struct gbx_err err = {0};
  if (run->tracks && run->is_new_kernel)
    gbx__tracker_attend(run->session->tracker, true);
  if (run->tracks)
    track(run, &err);
  else
    walk(run, &err);
  if (err.code == GBX_E_TOO_LARGE) run->files_truncated = true;
}

/* A few files in memory are looked at sooner than a worker wakes up. Not where
 * the look could wait for somebody: for another machine, for a box that lives,
 * or for the clock. */
#define FEW_FILES 32u

static bool is_quick(const struct gbx_run* run) {
  const struct gbx_session* session = run->session;
  return !run->kernel && !session->doubtful &&
         atomic_load(&session->file_count) < FEW_FILES && is_alone(run) &&
         gbx__is_local(session->workspace.fd);
}

/* Returns whether it is done. */
static bool walk_at_once(struct gbx_run* run) {
  struct gbx_session* session = run->session;
  struct gbx_err err = {0};
  struct gbx__index* index = NULL;
  if (gbx__index_scan_with(&session->workspace, NULL, FEW_FILES, &index, &err) <
      0)
    return false;
  if (!run->comparing) {
    if (!gbx__index_is_settled(&session->workspace, index)) {
      gbx__index_free(index);
      return false;
    }
    run->before = index;
    run->scanned = true;
    return true;
  }
  if (run->before != NULL)
    (void)gbx__index_diff(run->before, index, &run->files, &run->file_count,
                          &err);
  gbx__index_free(index);
  return true;
}

void gbx__run_start_scan(struct gbx_run* run, bool compare,
                         void (*done)(struct gbx__work*)) {
  run->is_new_kernel = run->kernel && run->state == RUN_SCANNING;
  if (!compare) {
    gbx__run_drop_scan(run);
    run->files_truncated = false;
    if (!run->kernel || run->is_new_kernel) run->tracks = take_tracker(run);
  }
  run->compares_alone = run->session->tracking_alone;
  run->scan.work = scan;
  run->scan.done = done;
  run->comparing = compare;
  run->scanning = true;
  run->session->pending_work++;
  bool is_done =
      run->tracks ? track_at_once(run)
                  : run->is_new_kernel || (is_quick(run) && walk_at_once(run));
  if (is_done) {
    done(&run->scan);
    return;
  }
  if (run->tracks) gbx__disk_stirs(run->session);
  gbx__work_start(run->engine, &run->scan);
}

struct gbx_run* gbx__run_end_scan(struct gbx__work* work) {
  struct gbx_run* run = run_of_scan(work);
  run->scanning = false;
  run->session->pending_work--;
  if (run->comparing || run->is_new_kernel) gbx__run_drop_scan(run);
  return run;
}

bool gbx__run_was_scanned(const struct gbx_run* run) {
  return run->scanned;
}

void gbx__run_drop_scan(struct gbx_run* run) {
  if (!run->kernel) gbx__run_leave_tracker(run);
  run->scanned = false;
  gbx__index_free(run->before);
  run->before = NULL;
}
