/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/runs.h"

#include <errno.h>
#include <stdlib.h>

#include "common/fd.h"
#include "launcher/boxes.h"
#include "launcher/clock.h"
#include "launcher/keeper_client.h"
#include "launcher/mounts.h"
#include "launcher/profile.h"
#include "launcher/roots.h"
#include "launcher/shelf.h"
#include "launcher/spares.h"
#include "launcher/trace.h"

static void tell_blocked(const struct box* box) {
  struct gbx_msg_blocked message;
  trace_take(box->trace, box->run->request.head.id, &message);
  tell_engine(&message.head, NULL, 0);
}

void end_run(struct box* box, struct run* run, const struct gbx_msg_end* end) {
  if (box != NULL && box->trace != NULL) tell_blocked(box);
  struct gbx_msg_end message = *end;
  GBX_MSG_INIT(&message, GBX_M_END, run->request.head.id);
  profile_note(GBX_AT_END_MADE, message.head.id);
  tell_engine(&message.head, NULL, 0);
  gbx_fds_close(&run->fds);
  free(run);
  launcher.runs--;
  launcher.ended_ms = now_ms();
  if (box != NULL) box->run = NULL;
}

static void fail_run(struct run* run, const struct gbx_err* err) {
  struct gbx_msg_end end = {.escape_syscall = -1, .err = *err};
  end_run(NULL, run, &end);
}

static bool same_limits(const struct gbx_wire_limits* a,
                        const struct gbx_wire_limits* b) {
  return a->memory_bytes == b->memory_bytes && a->pids == b->pids &&
         a->cpu_millis == b->cpu_millis;
}

static int dispatch(struct box* box, struct run* run, struct gbx_err* err) {
  const struct gbx_wire_limits* limits = &run->request.limits;
  if (box_payload_is_gone(box))
    return gbx_fail(err, GBX_E_DIED, ECHILD, "payload", "ended as it waited");
  if (box->leaf != 0 && !same_limits(limits, &box->limits)) {
    struct gbx_msg_leaf request = {.limits = *limits};
    GBX_MSG_INIT(&request, GBX_M_LEAF_SET, box->leaf);
    union gbx_msg answered;
    struct gbx_fds none;
    int result = keeper_ask(&request.head, &answered, &none, err);
    if (result < 0) return result;
    gbx_fds_close(&none);
    box->limits = *limits;
  }
  /* A new one says so best: it cannot get the workspace any more. */
  if (box->state == BOX_BOUND && shelf_is_lost(run->request.workspace))
    return gbx_fail(err, GBX_E_WORKSPACE, ESTALE, "workspace", "is lost");
  cleanup_fd int tree_fd = -1;
  cleanup_fd int mounts_fd = -1;
  if (box->state != BOX_BOUND) {
    tree_fd = shelf_clone(run->request.workspace, err);
    if (tree_fd < 0) return tree_fd;
    const struct root* root = find_root(run->request.root);
    if (root != NULL && root->image.mounts != NULL) {
      mounts_fd = mounts_clone(run->request.workspace, err);
      if (mounts_fd < 0) return mounts_fd;
    }
  }
  profile_note(GBX_AT_GO_MADE, run->request.head.id);
  int result = box_go(box, run, tree_fd, mounts_fd, err);
  if (result < 0) return result;
  struct gbx_msg_started started = {.pid = box->payload_pid};
  GBX_MSG_INIT(&started, GBX_M_STARTED, run->request.head.id);
  int fds[3 + GBX_LEAF_FDS] = {box->pidfd};
  int count = 1;
  if ((run->request.flags & GBX_RUN_HANDLE) != 0)
    fds[count++] = box->payload_fd;
  if (box->pty_fd >= 0) fds[count++] = box->pty_fd;
  for (int i = 0; i < GBX_LEAF_FDS; i++) {
    uint32_t bit = 1u << i & GBX_LEAF_METERS;
    if ((run->request.flags & GBX_RUN_METER) == 0 || bit == 0 ||
        box->leaf_fd[i] < 0)
      continue;
    started.has |= bit;
    fds[count++] = box->leaf_fd[i];
  }
  tell_engine(&started.head, fds, count);
  fd_close(&box->pty_fd); /* its end is for the engine to see */
  unwatch(box->payload_fd);
  fd_close(&box->payload_fd);
  return 0;
}

bool run_wants_leaf(const struct gbx_msg_run* run) {
  return launcher.leaves && (run->flags & GBX_RUN_NO_CGROUP) == 0;
}

/* What the box of a run that found none is made for. An interpreter that has to
 * start is no faster for having a box of its kind. */
static enum gbx_runtime choose_runtime(const struct root* root,
                                       const struct gbx_msg_run* run) {
  const uint32_t own = GBX_RUN_COLD | GBX_RUN_PTY | GBX_RUN_TRACE;
  return run->runtime == GBX_RUNTIME_PYTHON && (run->flags & own) == 0 &&
                 root->zygote.state == ZYGOTE_WAITING
             ? GBX_RUNTIME_PYTHON
             : GBX_RUNTIME_NONE;
}

/* In order of the time that they take. A box that is being made or bound will
 * be there before a new one. */
static struct box* choose_spare_box(const struct root* root,
                                    const struct gbx_msg_run* run) {
  static const enum box_state order[] = {BOX_BOUND, BOX_READY, BOX_BINDING,
                                         BOX_MAKING};
  struct box* box = NULL;
  for (size_t i = 0; i < sizeof order / sizeof *order && box == NULL; i++)
    box = find_spare_box(root, run, run->runtime, order[i]);
  if (box != NULL || choose_runtime(root, run) != GBX_RUNTIME_NONE) return box;
  for (size_t i = 0; i < 2 && box == NULL; i++)
    box = find_spare_box(root, run, GBX_RUNTIME_NONE, order[i]);
  return box;
}

static void make_place(const struct root* root, struct run* run,
                       enum gbx_runtime runtime) {
  struct gbx_err err = {0};
  struct box* box = make_box(root, runtime, run_wants_leaf(&run->request),
                             &run->request.limits, &run->request, &err);
  if (box == NULL)
    fail_run(run, &err);
  else
    box->run = run;
}

void begin_run(struct box* box) {
  struct gbx_err err = {0};
  struct run* run = box->run;
  if (dispatch(box, run, &err) == 0) return;
  const struct root* root = find_root(box->root);
  bool gets_another = !box->is_own && !run->cancelled && root != NULL;
  if (gets_another) box->run = NULL;
  give_up_box(box, &err);
  /* It died while it waited, or has used more than the run's limits allow: a
   * new one works, or says why not. */
  if (gets_another) make_place(root, run, choose_runtime(root, &run->request));
}

void place_run(struct root* root, struct run* run, bool cold) {
  struct box* box = cold ? NULL : choose_spare_box(root, &run->request);
  if (box == NULL) {
    make_place(root, run,
               cold ? GBX_RUNTIME_NONE : choose_runtime(root, &run->request));
    return;
  }
  remove_spare_box(box);
  box->run = run;
  /* Else its BOX_READY or BOUND begins it. */
  if (box->state != BOX_MAKING && box->state != BOX_BINDING) begin_run(box);
}

void start_run(const struct gbx_msg_run* request, struct gbx_fds* fds) {
  profile_note(GBX_AT_RUN_RECEIVED, request->head.id);
  struct gbx_err err = {0};
  struct run* run = calloc(1, sizeof *run);
  if (run == NULL) {
    launcher.engine_gone = true; /* it cannot be told: end with everything */
    gbx_fds_close(fds);
    return;
  }
  run->request = *request;
  run->fds = *fds;
  launcher.runs++;
  struct root* root = find_root(request->root);
  if (root == NULL || request->runtime >= GBX_RUNTIMES)
    (void)gbx_fail(&err, GBX_E_INTERNAL, EBADMSG, "run", "no such root");
  else if (fds->count < gbx_run_fd_count(request->flags))
    (void)gbx_fail(&err, GBX_E_SETUP, EMFILE, "recvmsg", "argv and output");
  /* The engine does not wait for the answer to WORKSPACE. */
  else if (!shelf_has(request->workspace))
    (void)gbx_fail(&err, GBX_E_WORKSPACE, ENOENT, "run", "no such workspace");
  bool traced = (request->flags & GBX_RUN_TRACE) != 0;
  if (err.code == GBX_OK && traced)
    (void)trace_make_filter(&launcher.payload_filter, launcher.notify,
                            &launcher.trace_filter, &err);
  if (err.code != GBX_OK) {
    fail_run(run, &err);
    return;
  }
  bool found =
      find_spare_box(root, request, request->runtime, BOX_BOUND) != NULL ||
      find_spare_box(root, request, request->runtime, BOX_READY) != NULL;
  int64_t now = now_ms();
  note_run(root, request);
  note_pace(now);
  stock_used(&root->stock[request->runtime], found, now);
  place_run(root, run, false);
}

static struct box* box_of_run(uint32_t run_id) {
  struct box* box = launcher.boxes;
  while (box != NULL &&
         (box->run == NULL || box->run->request.head.id != run_id))
    box = box->next;
  return box;
}

/* No such run: its END has gone out, with all that is known. */
void answer_ask(uint32_t run_id) {
  struct box* box = box_of_run(run_id);
  if (box == NULL) return;
  if (box_had_oom(box)) {
    /* Its event may not have come yet. END answers. */
    box->end.oom = 1;
    box_kill(box);
    return;
  }
  tell_blocked(box);
}

void cancel_run(uint32_t run_id) {
  struct box* box = box_of_run(run_id);
  if (box == NULL) return;
  box->run->cancelled = true;
  box_kill(box);
}
