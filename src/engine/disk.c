/* SPDX-License-Identifier: Apache-2.0 */

/* Theory of operation
 * -------------------
 * diskMb bounds by how much a session's workspace grows: what is counted now
 * (usage.h) less what was counted when the session was opened. While boxes of
 * the session run, a timer has a worker look at it:
 *
 *   glance  every 100 ms: how much is free in the filesystem
 *   count   when the filesystem lost more than half of what the session may
 *           still grow by, and every 2 s anyway, since others free while a box
 *           fills
 *
 * Where the only box is of a kernel that has opened no file of the workspace
 * since it began, it can neither write nor have mapped one without an event of
 * the tracker's watches. Then a count that saw all, and no event since it
 * began, say that there is nothing to look at; the timer rests, and the next
 * event starts it again.
 *
 * When the last box has ended, one more glance follows, so that no growth goes
 * unnoticed because every call is short; the next run waits for it, mostly no
 * time at all. No timer exists while no box runs.
 *
 * Above the limit all boxes of the session are killed and the session is full:
 * each further run has the workspace counted first, and fails while it is.
 *
 * Files without a name are in no folder: those that the boxes have open are
 * looked for when the filesystem lost what the folders do not explain.
 *
 * A count cannot see everything: folders may be too deep, or closed to us.
 * Where it has not, and the filesystem lost more than the session might grow by
 * since it was last found in order (`mark`), that counts as the session's:
 * whoever hides files from a count must not gain by it. The mark rises with
 * what is free, or a box could use what others freed. */

#include <stdlib.h>

#include "engine/nameless.h"
#include "engine/run.h"

#define GLANCE_MS       100
#define COUNT_EVERY_NS  (2 * UINT64_C(1000000000))
#define MAX_COUNTS      2  /* of the pool's threads; the others serve files */
#define LOOKS_PER_COUNT 10 /* a count takes a tenth of the time at most */
#define BYTES_PER_MIB   (1u << 20)
#define NO_STIRS        UINT64_MAX

static struct gbx_session* session_of(struct gbx__work* work) {
  return (struct gbx_session*)((char*)work -
                               offsetof(struct gbx_session, disk.work));
}

/* ---- On a worker --------------------------------------------------------- */

static uint64_t enough(const struct gbx__disk* disk) {
  return disk->base_bytes + disk->limit_bytes;
}

int gbx__disk_open(struct gbx_session* session, struct gbx_err* err) {
  struct gbx__disk* disk = &session->disk;
  const struct gbx__workspace* workspace = &session->workspace;
  if (disk->limit_bytes == 0) return 0;
  struct gbx__usage usage;
  uint64_t start_ns = uv_hrtime();
  int result = gbx__space_read(workspace->fd, &disk->mark);
  if (result < 0)
    return gbx_fail(err, GBX_E_WORKSPACE, -result, "fstatfs", "%s",
                    workspace->path);
  result = gbx__usage_count(workspace->fd, workspace->uid, UINT64_MAX,
                            &disk->cancelled, &usage, err);
  if (result < 0) return result;
  disk->base_bytes = usage.bytes;
  disk->now = disk->mark;
  disk->counted_ns = uv_hrtime();
  disk->count_took_ns = disk->counted_ns - start_ns;
  return 0;
}

static void set_mark(struct gbx__disk* disk) {
  disk->mark = disk->now;
  disk->mark_grown_bytes = disk->grown_bytes;
}

static void glance(struct gbx__work* work) {
  struct gbx_session* session = session_of(work);
  struct gbx__disk* disk = &session->disk;
  /* A filesystem that does not answer has nothing new to say. */
  (void)gbx__space_read(session->workspace.fd, &disk->now);
  if (disk->now.bytes > disk->mark.bytes ||
      disk->now.inodes > disk->mark.inodes) {
    disk->mark_grown_bytes = disk->grown_bytes;
    if (disk->now.bytes > disk->mark.bytes) disk->mark.bytes = disk->now.bytes;
    if (disk->now.inodes > disk->mark.inodes)
      disk->mark.inodes = disk->now.inodes;
  }
}

static void count(struct gbx__work* work) {
  struct gbx_session* session = session_of(work);
  struct gbx__disk* disk = &session->disk;
  uint64_t start_ns = uv_hrtime();
  disk->usage = (struct gbx__usage){0}; /* if it fails: nothing was seen */
  disk->nameless = (struct gbx__usage){.complete = true};
  (void)gbx__usage_count(session->workspace.fd, session->workspace.uid,
                         enough(disk), &disk->cancelled, &disk->usage, NULL);
  if (disk->suspicious && disk->found_boxes != NULL && disk->usage.complete &&
      disk->usage.bytes <= enough(disk))
    disk->nameless =
        gbx__nameless_count(disk->found_boxes, disk->found_box_count,
                            session->workspace.dev, &disk->cancelled);
  disk->counted_ns = uv_hrtime();
  disk->count_took_ns = disk->counted_ns - start_ns;
}

/* ---- Looks --------------------------------------------------------------- */

static void start_look(struct gbx_session* session,
                       void (*look)(struct gbx__work*),
                       void (*done)(struct gbx__work*)) {
  struct gbx__disk* disk = &session->disk;
  disk->looking = true;
  disk->work.work = look;
  disk->work.done = done;
  session->pending_work++;
  gbx__work_start(session->engine, &disk->work);
}

static struct gbx_session* end_look(struct gbx__work* work) {
  struct gbx_session* session = session_of(work);
  session->disk.looking = false;
  session->pending_work--;
  return session;
}

static uint64_t left_of(const struct gbx__disk* disk, uint64_t used_bytes) {
  return used_bytes < disk->limit_bytes ? disk->limit_bytes - used_bytes : 0;
}

/* The boxes whose nameless files count. For want of memory, none. */
static void list_boxes(struct gbx_session* session) {
  struct gbx__disk* disk = &session->disk;
  disk->found_box_count = 0;
  disk->found_boxes =
      disk->boxes == 0 ? NULL : calloc(disk->boxes, sizeof *disk->found_boxes);
  if (disk->found_boxes == NULL) return;
  for (const struct gbx_run* run = session->engine->runs; run != NULL;
       run = run->next) {
    if (run->session != session || run->state != RUN_RUNNING ||
        disk->found_box_count == disk->boxes)
      continue;
    struct gbx__box box;
    if (gbx__box_find(run->pidfd, &box))
      disk->found_boxes[disk->found_box_count++] = box;
  }
}

static void overflow(struct gbx_session* session, enum gbx__fullness fullness) {
  session->disk.full = fullness;
  for (struct gbx_run* run = session->engine->runs; run != NULL;
       run = run->next) {
    if (run->session != session || run->killed ||
        (run->state != RUN_STARTING && run->state != RUN_RUNNING))
      continue;
    run->over_disk = true;
    gbx__run_send_kill(run);
  }
}

/* What the count says about the limit. */
static enum gbx__fullness judge(struct gbx__disk* disk) {
  uint64_t bytes = disk->usage.bytes;
  uint64_t grown = bytes > disk->base_bytes ? bytes - disk->base_bytes : 0;
  if (disk->usage.complete || grown > disk->grown_bytes)
    disk->grown_bytes = grown;
  if (disk->suspicious) disk->nameless_bytes = disk->nameless.bytes;
  if (grown > disk->limit_bytes ||
      grown + disk->nameless_bytes > disk->limit_bytes)
    return DISK_FULL;
  return disk->usage.complete && disk->nameless.complete ? DISK_OK
                                                         : DISK_HIDDEN;
}

/* ---- Rest ---------------------------------------------------------------- */

/* What the tracker was told, if that is all that happens in the workspace, and
 * if it is still there. */
static uint64_t count_stirs(const struct gbx_session* session) {
  const struct gbx_run* run = session->tracking;
  if (run == NULL || !run->kernel || run->state != RUN_RUNNING ||
      run->scanning || session->disk.boxes != 1 ||
      !gbx__tracker_is_still(session->tracker))
    return NO_STIRS;
  return gbx__tracker_stirs(session->tracker);
}

static void on_tick(uv_timer_t* timer);

static void end_rest(struct gbx_session* session) {
  struct gbx__disk* disk = &session->disk;
  if (disk->rest == NULL) return;
  gbx__poll_close(&disk->rest);
  if (disk->timer != NULL)
    (void)uv_timer_start(disk->timer, on_tick, GLANCE_MS, GLANCE_MS);
}

static void on_event(uv_poll_t* poll, int status, int events) {
  (void)status;
  (void)events;
  struct gbx_session* session = poll->data;
  end_rest(session);
  if (session->disk.timer != NULL) on_tick(session->disk.timer);
}

static void rest_if_still(struct gbx_session* session) {
  struct gbx__disk* disk = &session->disk;
  if (disk->rest != NULL || disk->timer == NULL || disk->looking ||
      disk->full != DISK_OK || disk->seen_stirs == NO_STIRS ||
      count_stirs(session) != disk->seen_stirs)
    return;
  int fd = gbx__tracker_fd(session->tracker);
  disk->rest = gbx__poll_new(session->engine, fd, session);
  if (disk->rest == NULL) return; /* the timer goes on */
  (void)uv_poll_start(disk->rest, UV_READABLE, on_event);
  (void)uv_timer_stop(disk->timer);
}

void gbx__disk_stirs(struct gbx_session* session) {
  end_rest(session);
}

/* ---- What comes of a look ------------------------------------------------ */

static void glanced(struct gbx__work* work);

/* What waited for the look that is over. */
static void go_on(struct gbx_session* session) {
  struct gbx__disk* disk = &session->disk;
  bool has_held = disk->holding;
  disk->holding = false;
  if (disk->last_look_due && disk->full == DISK_OK) {
    disk->last_look_due = false;
    disk->holding = true;
    start_look(session, glance, glanced);
  } else if (has_held || disk->full != DISK_OK) {
    gbx__runs_advance(session->engine);
  }
  rest_if_still(session);
}

static void counted(struct gbx__work* work) {
  struct gbx_session* session = end_look(work);
  struct gbx__disk* disk = &session->disk;
  session->engine->counts--;
  free(disk->found_boxes);
  disk->found_boxes = NULL;
  if (session->closing || session->engine->closing) {
    gbx__session_settle(session);
    return;
  }
  enum gbx__fullness fullness = judge(disk);
  disk->seen_stirs = fullness == DISK_OK ? disk->counting_stirs : NO_STIRS;
  uint64_t lost_bytes = gbx__space_fall(&disk->mark, &disk->now);
  if (fullness == DISK_FULL ||
      (fullness == DISK_HIDDEN &&
       lost_bytes > left_of(disk, disk->mark_grown_bytes)))
    overflow(session, fullness);
  else if (fullness == DISK_OK && disk->suspicious)
    set_mark(disk);
  go_on(session);
}

static bool wants_count(struct gbx_session* session) {
  struct gbx__disk* disk = &session->disk;
  uint64_t left_bytes = left_of(disk, disk->grown_bytes + disk->nameless_bytes);
  disk->suspicious = gbx__space_fall(&disk->mark, &disk->now) > left_bytes / 2;
  disk->counting_stirs = NO_STIRS;
  if (disk->suspicious && disk->boxes == 0) return true;
  uint64_t pause_ns =
      disk->count_took_ns * (disk->suspicious ? 1 : LOOKS_PER_COUNT);
  disk->counting_stirs = count_stirs(session);
  bool may_rest = disk->counting_stirs != disk->seen_stirs &&
                  disk->counting_stirs != NO_STIRS;
  if (!disk->suspicious && !may_rest && pause_ns < COUNT_EVERY_NS)
    pause_ns = COUNT_EVERY_NS;
  return uv_hrtime() - disk->counted_ns >= pause_ns;
}

static void glanced(struct gbx__work* work) {
  struct gbx_session* session = end_look(work);
  struct gbx_engine* engine = session->engine;
  struct gbx__disk* disk = &session->disk;
  if (session->closing || engine->closing) {
    gbx__session_settle(session);
  } else if (disk->full == DISK_OK && wants_count(session) &&
             (engine->counts < MAX_COUNTS || disk->boxes == 0)) {
    engine->counts++;
    if (disk->suspicious) list_boxes(session);
    start_look(session, count, counted);
    if (!disk->suspicious && disk->holding) {
      disk->holding = false;
      gbx__runs_advance(engine);
    }
  } else {
    go_on(session);
  }
}

static void on_tick(uv_timer_t* timer) {
  struct gbx_session* session = timer->data;
  if (!session->disk.looking) start_look(session, glance, glanced);
}

/* ---- Runs ---------------------------------------------------------------- */

int gbx__disk_box_starts(struct gbx_session* session, struct gbx_err* err) {
  struct gbx__disk* disk = &session->disk;
  if (disk->limit_bytes == 0) return 0;
  if (disk->timer == NULL) {
    disk->timer = gbx__timer_new(session->engine, session);
    if (disk->timer == NULL)
      return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "disk watch");
    (void)uv_timer_start(disk->timer, on_tick, GLANCE_MS, GLANCE_MS);
  }
  end_rest(session);
  disk->seen_stirs = NO_STIRS;
  disk->boxes++;
  return 0;
}

void gbx__disk_box_ended(struct gbx_session* session) {
  struct gbx__disk* disk = &session->disk;
  if (disk->limit_bytes == 0 || --disk->boxes > 0) return;
  gbx__timer_close(&disk->timer);
  end_rest(session);
  disk->nameless_bytes = 0; /* they went with the boxes */
  disk->last_look_due = true;
}

void gbx__disk_run_ended(struct gbx_session* session) {
  if (session->disk.last_look_due && !session->disk.looking &&
      !session->closing && !session->engine->closing)
    go_on(session);
}

/* ---- A full session ------------------------------------------------------ */

static void reject_runs(struct gbx_session* session) {
  struct gbx_engine* engine = session->engine;
  unsigned long long limit_mib = session->disk.limit_bytes / BYTES_PER_MIB;
  struct gbx_err err = {0};
  if (session->disk.full == DISK_FULL)
    (void)gbx_fail(&err, GBX_E_DISK_FULL, 0, "workspace",
                   "it grew by more than diskMb %llu", limit_mib);
  else
    (void)gbx_fail(&err, GBX_E_DISK_FULL, 0, "workspace",
                   "it took more than diskMb %llu of the disk, where this "
                   "process cannot look, in folders that are closed to it or "
                   "deeper than %u",
                   limit_mib, GBX__USAGE_LEVELS);
  gbx__runs_hold(engine);
  for (struct gbx_run* run = engine->runs; run != NULL;) {
    struct gbx_run* next = run->next;
    if (run->session == session && run->state == RUN_WAITING)
      gbx__run_fail(run, &err);
    run = next;
  }
  gbx__runs_release(engine);
}

static void checked(struct gbx__work* work) {
  struct gbx_session* session = end_look(work);
  struct gbx__disk* disk = &session->disk;
  if (!session->closing && !session->engine->closing) {
    enum gbx__fullness fullness = judge(disk);
    if (fullness == DISK_FULL || disk->full == fullness) {
      disk->full = fullness;
      reject_runs(session);
    } else {
      disk->full = DISK_OK;
      if (fullness == DISK_OK) set_mark(disk);
      gbx__runs_advance(session->engine);
    }
  }
  gbx__session_settle(session);
}

static void check(struct gbx__work* work) {
  session_of(work)->disk.suspicious = false;
  glance(work);
  count(work);
}

bool gbx__disk_admits(struct gbx_session* session) {
  struct gbx__disk* disk = &session->disk;
  /* The last look at the boxes before comes first. */
  if (disk->full == DISK_OK)
    return !disk->holding && !(disk->last_look_due && disk->looking);
  if (!disk->looking) start_look(session, check, checked);
  return false;
}
