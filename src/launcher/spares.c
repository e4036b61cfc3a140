/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/spares.h"

#include "common/fd.h"
#include "launcher/boxes.h"
#include "launcher/clock.h"
#include "launcher/leaves.h"
#include "launcher/roots.h"
#include "launcher/runs.h"
#include "launcher/shelf.h"
#include "launcher/zygotes.h"

/* What ready boxes are made for: the defaults of lib/options.js. A run with
 * other limits has them changed before GO. */
static const struct gbx_wire_limits ready_limits = {
    .memory_bytes = 512ull << 20, .pids = 256, .cpu_millis = 0};

void add_spare_box(struct root* root, struct box* box) {
  box->next_spare = root->spares;
  root->spares = box;
}

void remove_spare_box(struct box* box) {
  struct root* root = find_root(box->root);
  if (root == NULL) return; /* then nobody counts them any more */
  for (struct box** at = &root->spares; *at != NULL; at = &(*at)->next_spare)
    if (*at == box) {
      *at = box->next_spare;
      return;
    }
}

/* Without a cgroup the number of processes may only be lowered. The filter of
 * a ready box is the usual one. */
static bool spare_box_suits(const struct box* box,
                            const struct gbx_msg_run* run) {
  const uint32_t own = GBX_RUN_COLD | GBX_RUN_PTY | GBX_RUN_TRACE;
  if ((run->flags & own) != 0 || box->dismissed ||
      box->end.err.code != GBX_OK || (box->leaf != 0) != run_wants_leaf(run) ||
      (box->leaf != 0 && limits_are_small(&run->limits)))
    return false;
  if (box->workspace != 0 &&
      (box->workspace != run->workspace ||
       box->limits.memory_bytes != run->limits.memory_bytes))
    return false;
  return box->leaf != 0 ||
         (run->limits.pids != 0 && run->limits.pids <= box->limits.pids);
}

struct box* find_spare_box(const struct root* root,
                           const struct gbx_msg_run* run,
                           enum gbx_runtime runtime, enum box_state state) {
  struct box* box = root->spares;
  while (box != NULL && (box->state != state || box->runtime != runtime ||
                         !spare_box_suits(box, run)))
    box = box->next_spare;
  return box;
}

static int count_spare_boxes(const struct root* root,
                             enum gbx_runtime runtime) {
  int count = 0;
  for (const struct box* box = root->spares; box != NULL; box = box->next_spare)
    if (box->runtime == runtime) count++;
  return count;
}

/* Whether one can be made now, or the zygote for it. */
static bool can_be_made(struct root* root, enum gbx_runtime runtime) {
  if (runtime == GBX_RUNTIME_NONE) return true;
  if (root->image.standby_fd[runtime] < 0) return false;
  if (runtime != GBX_RUNTIME_PYTHON) return true;
  struct stock* stock = &root->stock[runtime];
  bool possible = zygote_is_possible(&root->zygote, &root->image);
  /* Whether it can wait at least by itself is found out now. */
  if (stock->always && !possible) stock_used(stock, true, now_ms());
  stock->always = possible;
  return !possible || root->zygote.state != ZYGOTE_STARTING;
}

static struct root* root_that_wants_a_box(enum gbx_runtime* ret_runtime) {
  if (launcher.box_count >= launcher.boxes_to_spare) return NULL;
  for (struct root* root = launcher.roots; root != NULL; root = root->next)
    for (int i = 0; i < GBX_RUNTIMES; i++) {
      enum gbx_runtime runtime = (enum gbx_runtime)i;
      if (!can_be_made(root, runtime)) continue;
      int wanted = stock_wants(&root->stock[runtime]);
      if (wanted <= count_spare_boxes(root, runtime)) continue;
      *ret_runtime = runtime;
      return root;
    }
  return NULL;
}

static void refill(struct root* root, enum gbx_runtime runtime) {
  struct gbx_err err = {0};
  if (runtime == GBX_RUNTIME_PYTHON && root->zygote.state == ZYGOTE_NONE &&
      zygote_is_possible(&root->zygote, &root->image)) {
    start_zygote(root);
    return;
  }
  /* A failure is reported by the run that needs the box. */
  struct box* box =
      make_box(root, runtime, launcher.leaves, &ready_limits, NULL, &err);
  if (box == NULL)
    stock_ended(&root->stock[runtime], true);
  else
    add_spare_box(root, box);
}

static void dismiss(struct box* box) {
  remove_spare_box(box);
  box->dismissed = true;
  box_kill(box);
}

static void dismiss_spare_boxes(const struct root* root,
                                enum gbx_runtime runtime, int but) {
  for (struct box *box = root->spares, *next; box != NULL; box = next) {
    next = box->next_spare;
    if (box->runtime == runtime && but-- <= 0) dismiss(box);
  }
}

/* ---- Boxes that have their workspace before they have a run ------------- */

void dismiss_bound_boxes(uint32_t workspace) {
  for (struct root* root = launcher.roots; root != NULL; root = root->next)
    for (struct box *box = root->spares, *next; box != NULL; box = next) {
      next = box->next_spare;
      if (box->workspace == workspace) dismiss(box);
    }
}

/* A session that is used once gains nothing. */
#define RUNS_TO_BIND 2

void note_run(struct root* root, const struct gbx_msg_run* run) {
  struct recent* recent = &root->recent[run->runtime];
  if (recent->workspace != run->workspace)
    *recent = (struct recent){.workspace = run->workspace};
  recent->runs++;
}

/* One is left for a run in another workspace. With mounts none is bound: the
 * place of one may lie in another, and what has become of it since is for the
 * call to see. */
static struct box* box_to_bind(const struct root* root,
                               enum gbx_runtime runtime) {
  const struct recent* recent = &root->recent[runtime];
  if (recent->runs < RUNS_TO_BIND || root->image.mounts != NULL) return NULL;
  struct box *ready = NULL, *other = NULL;
  int unbound = 0, bound = 0;
  for (struct box* box = root->spares; box != NULL; box = box->next_spare) {
    if (box->runtime != runtime || box->end.err.code != GBX_OK) continue;
    if (box->workspace == recent->workspace)
      bound++;
    else if (box->workspace != 0)
      other = box;
    else if (box->state == BOX_READY) {
      unbound++;
      ready = box;
    }
  }
  if (unbound > 1) return ready;
  /* Its place is for one that is of more use. */
  return bound == 0 ? other : NULL;
}

static void bind(struct box* box, uint32_t workspace) {
  struct gbx_err err = {0};
  cleanup_fd int tree_fd = shelf_clone(workspace, &err);
  int result = tree_fd;
  if (result >= 0) result = box_bind(box, workspace, tree_fd, &err);
  /* A run would fail in the same way, and says so. */
  if (result < 0) dismiss(box);
}

static struct box* any_box_to_bind(void) {
  struct box* box = NULL;
  for (struct root* root = launcher.roots; root != NULL; root = root->next)
    for (int i = 0; i < GBX_RUNTIMES && box == NULL; i++)
      box = box_to_bind(root, (enum gbx_runtime)i);
  return box;
}

/* ---- When --------------------------------------------------------------- */

/* To make a box takes processor time that calls could have, so while one runs
 * that waits, unless the run is long, or the next call would have to wait.
 * Where one call follows another there is no better time than while a single
 * one runs: the pause before the next is shorter than to make a box takes. */
#define QUIET_MS         0
#define QUIET_RUNNING_MS 5

void note_pace(int64_t now) {
  launcher.hurried = now - launcher.ended_ms < QUIET_RUNNING_MS;
}

/* To start an interpreter takes longer than most calls. */
static bool starts_interpreter(const struct root* root,
                               enum gbx_runtime runtime) {
  return root != NULL && runtime != GBX_RUNTIME_NONE &&
         (runtime != GBX_RUNTIME_PYTHON ||
          root->zygote.state != ZYGOTE_WAITING);
}

int spare_work_quiet(void) {
  enum gbx_runtime runtime;
  const struct root* root = root_that_wants_a_box(&runtime);
  bool is_urgent = root != NULL && count_spare_boxes(root, runtime) == 0;
  if (is_urgent) return QUIET_MS;
  if (root == NULL && any_box_to_bind() == NULL) return -1;
  bool is_time =
      launcher.runs == 0 || (launcher.runs == 1 && launcher.hurried &&
                             !starts_interpreter(root, runtime));
  return is_time ? QUIET_MS : QUIET_RUNNING_MS;
}

void do_spare_work(void) {
  enum gbx_runtime runtime;
  struct root* root = root_that_wants_a_box(&runtime);
  if (root != NULL) {
    refill(root, runtime);
    return;
  }
  struct box* box = any_box_to_bind();
  if (box == NULL) return;
  root = find_root(box->root);
  if (box->workspace != 0)
    dismiss(box);
  else
    bind(box, root->recent[box->runtime].workspace);
}

static uint32_t given_up_of(const struct root* root) {
  uint32_t mask = 0;
  for (int i = 0; i < GBX_RUNTIMES; i++)
    if (stock_is_given_up(&root->stock[i])) mask |= 1u << i;
  if (root->image.standby_fd[GBX_RUNTIME_ZYGOTE] >= 0 &&
      !zygote_is_possible(&root->zygote, &root->image))
    mask |= 1u << GBX_RUNTIME_ZYGOTE;
  /* Until it is there or given up, none is made that waits by itself. */
  if (root->zygote.state == ZYGOTE_STARTING && root->zygote.is_slow)
    mask |= 1u << GBX_RUNTIME_ZYGOTE | 1u << GBX_RUNTIME_PYTHON;
  return mask;
}

void tell_of_given_up(void) {
  for (struct root* root = launcher.roots; root != NULL; root = root->next) {
    struct gbx_msg_given_up message = {.runtimes = given_up_of(root)};
    if (!root->answered || message.runtimes == root->told_given_up) continue;
    GBX_MSG_INIT(&message, GBX_M_GIVEN_UP, root->id);
    tell_engine(&message.head, NULL, 0);
    root->told_given_up = message.runtimes;
  }
}

/* Of two times that are left; negative: never. */
static int64_t sooner(int64_t a, int64_t b) {
  return a < 0 || (b >= 0 && b < a) ? b : a;
}

int expire_spare_boxes(void) {
  int64_t now = now_ms(), next = -1;
  for (struct root* root = launcher.roots; root != NULL; root = root->next) {
    next = sooner(next, zygote_expire(&root->zygote, now));
    for (int i = 0; i < GBX_RUNTIMES; i++) {
      int64_t left = stock_expire(&root->stock[i], now);
      if (left == 0)
        dismiss_spare_boxes(root, (enum gbx_runtime)i,
                            stock_wants(&root->stock[i]));
      else
        next = sooner(next, left);
    }
  }
  return (int)next;
}
