/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/spares.h"

#include "launcher/boxes.h"
#include "launcher/runs.h"
#include "launcher/zygotes.h"

/* What ready boxes are made for: the defaults of lib/options.js. A run with
 * other limits has them changed before GO. */
static const struct gbx_wire_limits ready_limits = {
    .memory_bytes = 512ull << 20, .pids = 256, .cpu_millis = 0};

/* Without a cgroup the number of processes may only be lowered. The filter of
 * a ready box is the usual one. */
static bool spare_box_suits(const struct box* box,
                            const struct gbx_msg_run* run) {
  const uint32_t own = GBX_RUN_COLD | GBX_RUN_PTY | GBX_RUN_TRACE;
  if ((run->flags & own) != 0 || box->run != NULL || box->reaped ||
      box->dismissed || box->end.err.code != GBX_OK || box->root != run->root ||
      (box->leaf != 0) != run_wants_leaf(run))
    return false;
  return box->leaf != 0 ||
         (run->limits.pids != 0 && run->limits.pids <= box->limits.pids);
}

struct box* find_spare_box(const struct gbx_msg_run* run,
                           enum gbx_runtime runtime, enum box_state state) {
  struct box* box = launcher.boxes;
  while (box != NULL && (box->state != state || box->runtime != runtime ||
                         !spare_box_suits(box, run)))
    box = box->next;
  return box;
}

static bool is_room_for_spare_box(void) {
  int count = 0;
  for (const struct box* box = launcher.boxes; box != NULL; box = box->next)
    if (box->run == NULL && !box->reaped) count++;
  return count < launcher.most_spare;
}

static int count_spare_boxes(const struct root* root,
                             enum gbx_runtime runtime) {
  int count = 0;
  for (const struct box* box = launcher.boxes; box != NULL; box = box->next)
    if (box->root == root->id && box->runtime == runtime && box->run == NULL &&
        !box->reaped)
      count++;
  return count;
}

/* How long nothing may happen before a ready box is made. A box that joins its
 * cgroup stops every fork, exec and exit of the machine for milliseconds (the
 * kernel waits for an RCU grace period), so it must not fall into a call: not
 * into one that runs, unless that one is long. But the kernel waits only where
 * no box has joined just before: while calls follow one another, boxes can be
 * made beside them. */
#define QUIET_MS         0
#define QUIET_RUNNING_MS 50
#define CHEAP_JOIN_MS    8

int quiet_time(void) {
  if (!launcher.joins || now_ms() - launcher.joined_ms < CHEAP_JOIN_MS)
    return QUIET_MS;
  for (const struct box* box = launcher.boxes; box != NULL; box = box->next)
    if (box->run != NULL && !box->reaped) return QUIET_RUNNING_MS;
  return QUIET_MS;
}

/* Whether one can be made now, or the zygote for it. */
static bool can_be_made(struct root* root, enum gbx_runtime runtime) {
  if (runtime == GBX_RUNTIME_NONE) return true;
  if (root->image.standby_fd[runtime] < 0) return false;
  if (runtime != GBX_RUNTIME_PYTHON) return true;
  bool possible = zygote_is_possible(&root->zygote, &root->image);
  root->stock[runtime].always = possible;
  return !possible || root->zygote.state != ZYGOTE_STARTING;
}

struct root* root_that_wants_a_box(enum gbx_runtime* ret_runtime) {
  if (!is_room_for_spare_box()) return NULL;
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

void refill(struct root* root, enum gbx_runtime runtime) {
  struct gbx_err err = {0};
  if (runtime == GBX_RUNTIME_PYTHON && root->zygote.state == ZYGOTE_NONE &&
      zygote_is_possible(&root->zygote, &root->image)) {
    start_zygote(root);
    return;
  }
  /* A failure is reported by the run that needs the box. */
  if (make_box(root, runtime, launcher.leaves, &ready_limits, NULL, &err) ==
      NULL)
    stock_ended(&root->stock[runtime], true);
}

static void dismiss_spare_boxes(const struct root* root,
                                enum gbx_runtime runtime, int but) {
  for (struct box* box = launcher.boxes; box != NULL; box = box->next)
    if (box->root == root->id && box->runtime == runtime && box->run == NULL &&
        !box->reaped && !box->dismissed && but-- <= 0) {
      box->dismissed = true;
      box_kill(box);
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
