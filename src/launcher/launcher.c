/* SPDX-License-Identifier: Apache-2.0 */

/* Theory of operation
 * -------------------
 * The launcher is the keeper's child: pid 1 of a pid namespace, inside a user
 * namespace in which it has every capability and outside of which it is nobody
 * in particular (rooted) or the user that started Node (plain). All boxes are
 * below it: when it dies, the kernel kills them.
 *
 * One thread, one epoll. It waits for
 *   the engine      CONFIG, ROOT, WORKSPACE, RUN, CANCEL, TRACE; the end: we
 *                   exit
 *   SIGCHLD         a box's init is gone, and with it all of the box
 *   a box's socket  BOX_READY, FAILED, BOX_END
 *   a listener      a call of the kill set: record it, kill the box; of a
 *                   traced box also one that is refused: count and answer it
 *   an oom eventfd  the box's memory is at its limit: kill the box, since the
 *                   kernel would kill only one process of it (cgroup v1; v2
 *                   kills all, and counts it)
 *   time            to look at boxes whose memory no cgroup limits, as long as
 *                   one runs
 * and asks the keeper for trees and leaves, waiting for the answer: the keeper
 * never waits for us.
 *
 * A run gets a ready box, or one made on demand. Ready boxes are made when
 * nothing else is to do: ready.c knows which. A box is used once.
 *
 * The order at the end of a box: init reports and exits; the kernel kills what
 * is left and lets us reap init; END goes to the engine; then descriptors and
 * leaf are freed, off the caller's path. */

#include "launcher/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "common/fd.h"
#include "common/sys.h"
#include "launcher/box.h"
#include "launcher/keeper_client.h"
#include "launcher/landlock.h"
#include "launcher/limits.h"
#include "launcher/mounts.h"
#include "launcher/profile.h"
#include "launcher/ready.h"
#include "launcher/root.h"
#include "launcher/shelf.h"
#include "launcher/tree.h"
#include "launcher/zygote.h"

/* We keep up to eight of each box. Twice that and more for those that wait
 * leaves half of our descriptors to those that run. */
#define DESCRIPTORS_A_BOX 20

/* What ready boxes are made for: the defaults of lib/options.js. A run with
 * other limits has them changed before GO. */
static const struct gbx_wire_limits ready_limits = {
    .memory_bytes = 512ull << 20, .pids = 256, .cpu_millis = 0};

struct root {
  struct root* next;
  uint32_t id;
  struct root_image image;
  bool shares_network; /* as all of its boxes do, those that wait too */
  struct stock stock[GBX_RUNTIMES]; /* of ready boxes */
  struct zygote zygote;
  bool answered; /* ROOT, whose answer waits for a zygote that is needed */
};

static struct {
  int epoll_fd;
  int signal_fd;
  bool rooted;
  bool notify;
  bool engine_gone;
  bool leaves; /* the keeper can make them */
  bool joins;  /* boxes join theirs, instead of being made in it */
  int64_t joined_ms;
  bool scopes; /* Landlock has them */
  struct filter payload_filter, init_filter;
  struct filter trace_filter; /* made for the first traced run */
  struct filter zygote_filter;
  uint64_t files_soft, files_hard; /* of payloads */
  int most_spare; /* boxes that may wait, in all roots together */
  uint32_t next_box;
  struct root* roots;
  struct box* boxes;
  uint32_t next_leaf;
  int64_t next_look_ms; /* of the watchdog; 0: nothing to look at */
} launcher = {.epoll_fd = -1, .signal_fd = -1, .next_leaf = 1};

static int64_t now_ms(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail */
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Messages --------------------------------------------------------- */

static void tell_engine(const struct gbx_msg_head* head, const int* fds,
                        int count) {
  int result = gbx_msg_send(GBX_FD_ENGINE, head, fds, count);
  /* This user has too many descriptors on their way between processes: the
   * engine then has no pidfd and ends its run by CANCEL. */
  if (result == -ETOOMANYREFS)
    result = gbx_msg_send(GBX_FD_ENGINE, head, NULL, 0);
  if (result < 0) launcher.engine_gone = true;
}

static void answer(uint32_t id, const struct gbx_err* err) {
  struct gbx_msg_result message = {.err = *err};
  GBX_MSG_INIT(&message, GBX_M_DONE, id);
  tell_engine(&message.head, NULL, 0);
}

static void tell_blocked(const struct box* box) {
  struct gbx_msg_blocked message;
  trace_take(box->trace, box->run->request.head.id, &message);
  tell_engine(&message.head, NULL, 0);
}

static void end_run(struct box* box, struct run* run,
                    const struct gbx_msg_end* end) {
  if (box != NULL && box->trace != NULL) tell_blocked(box);
  struct gbx_msg_end message = *end;
  GBX_MSG_INIT(&message, GBX_M_END, run->request.head.id);
  profile_note(GBX_AT_END_MADE, message.head.id);
  tell_engine(&message.head, NULL, 0);
  gbx_fds_close(&run->fds);
  free(run);
  if (box != NULL) box->run = NULL;
}

static void fail_run(struct run* run, const struct gbx_err* err) {
  struct gbx_msg_end end = {.escape_syscall = -1, .err = *err};
  end_run(NULL, run, &end);
}

/* ---- Events ----------------------------------------------------------- */

static int watch(int fd, void* what, struct gbx_err* err) {
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
  if (epoll_ctl(launcher.epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
    return gbx_fail(err, GBX_E_INTERNAL, errno, "epoll_ctl", "add");
  return 0;
}

/* Before a close: epoll keeps an entry for as long as anybody has a copy of
 * the descriptor, and a box that is being made has copies of all of ours. */
static void unwatch(int fd) {
  if (fd >= 0) (void)epoll_ctl(launcher.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

/* ---- Roots and workspaces --------------------------------------------- */

static int open_root_part(const char* path, struct gbx_err* err) {
  if (!launcher.rooted) return tree_open_root_part(path, err);
  struct gbx_msg_tree request = {.kind = GBX_TREE_ROOT_PART};
  (void)snprintf(request.path, sizeof request.path, "%s", path);
  GBX_MSG_INIT(&request, GBX_M_TREE, 0);
  return keeper_ask_for_tree(&request.head, err);
}

static struct root* find_root(uint32_t id) {
  struct root* root = launcher.roots;
  while (root != NULL && root->id != id)
    root = root->next;
  return root;
}

static void start_zygote(struct root* root);
static void drop_root(uint32_t id);

/* That it can be used, or with `err` that it cannot. */
static void answer_root(struct root* root, const struct gbx_err* err) {
  if (root->answered) return;
  root->answered = true;
  answer(root->id, err);
  if (err->code != GBX_OK) drop_root(root->id); /* the engine has */
}

static void add_root(const struct gbx_msg_root* request, int entries_fd) {
  uint32_t id = request->head.id;
  struct gbx_err err = {0};
  struct root* root = calloc(1, sizeof *root);
  if (root == NULL) {
    (void)gbx_fail(&err, GBX_E_NO_MEMORY, ENOMEM, "calloc", "root");
    answer(id, &err);
    return;
  }
  root->id = id;
  root->shares_network = request->shares_network != 0;
  if (root_prepare(entries_fd, open_root_part, &root->image, &err) < 0) {
    free(root);
    answer(id, &err);
    return;
  }
  stock_init(root->stock);
  zygote_init(&root->zygote);
  root->next = launcher.roots;
  launcher.roots = root;
  if (root->image.needs_zygote)
    start_zygote(root);
  else
    answer_root(root, &err);
}

/* No session uses it any more. Boxes that run are none of its matter: they
 * have copies of their own. */
static void drop_root(uint32_t id) {
  for (struct root** at = &launcher.roots; *at != NULL; at = &(*at)->next) {
    struct root* root = *at;
    if (root->id != id) continue;
    *at = root->next;
    unwatch(root->zygote.socket_fd);
    if (root->zygote.state != ZYGOTE_NONE)
      (void)kill(root->zygote.pid, SIGKILL);
    fd_close(&root->zygote.socket_fd);
    root_image_done(&root->image);
    free(root);
    break;
  }
  for (struct box* box = launcher.boxes; box != NULL; box = box->next)
    if (box->root == id && box->run == NULL) box_kill(box);
}

static void drop_workspace(uint32_t id) {
  shelf_drop(id);
  mounts_drop(id);
}

/* `mounts_fd`: -1 where there are none. */
static void add_workspace(struct gbx_msg_workspace* request, int mounts_fd) {
  struct gbx_err err = {0};
  int result = shelf_add(request, launcher.rooted, &err);
  if (result == 0 && request->mounts > 0) {
    result = mounts_shelve(request, mounts_fd, launcher.rooted, &err);
    if (result < 0) drop_workspace(request->head.id);
  }
  answer(request->head.id, &err); /* it carries the error */
}

/* ---- Boxes ------------------------------------------------------------ */

/* Fills in what of the parts a box's leaf is. */
static int make_leaf(struct box_parts* parts, struct gbx_fds* ret_fds,
                     struct gbx_err* err) {
  struct gbx_msg_leaf request = {.limits = parts->spec.limits};
  uint32_t number = launcher.next_leaf++;
  GBX_MSG_INIT(&request, GBX_M_LEAF_MAKE, number);
  union gbx_msg made;
  int result = keeper_ask(&request.head, &made, ret_fds, err);
  if (result < 0) return result;
  int count = __builtin_popcount(made.leaf_made.has);
  if (ret_fds->count <= count) {
    gbx_fds_close(ret_fds);
    keeper_drop_leaf(number);
    return gbx_fail(err, GBX_E_SETUP, EMFILE, "recvmsg", "a cgroup leaf");
  }
  parts->leaf = number;
  parts->leaf_has = made.leaf_made.has;
  parts->spec.has_cgroup = true;
  if (made.leaf_made.is_folder != 0)
    parts->folder_fd = ret_fds->fd[count];
  else
    for (; count < ret_fds->count; count++)
      parts->spec.procs_fd[parts->spec.procs_count++] = ret_fds->fd[count];
  launcher.joins = parts->spec.procs_count > 0;
  return 0;
}

/* The box cannot run its run: say so and end it. */
static void give_up_box(struct box* box, const struct gbx_err* err) {
  if (box->end.err.code == GBX_OK) box->end.err = *err;
  box_kill(box);
}

/* For `run`, or a ready one for whoever comes: NULL. */
static struct box* make_box(const struct root* root, enum gbx_runtime runtime,
                            bool with_leaf,
                            const struct gbx_wire_limits* limits,
                            const struct gbx_msg_run* run,
                            struct gbx_err* err) {
  uint32_t flags = run == NULL ? 0 : run->flags;
  bool by_zygote =
      runtime == GBX_RUNTIME_PYTHON && root->zygote.state == ZYGOTE_WAITING;
  bool traced = (flags & GBX_RUN_TRACE) != 0;
  struct gbx_fds leaf_fds = {0};
  struct box_parts parts = {
      .root = root->id,
      .runtime = runtime,
      .leaf_fds = &leaf_fds,
      .usual = &launcher.payload_filter,
      .folder_fd = -1,
      .spec = {.root = &root->image,
               .limits = *limits,
               .payload_filter =
                   traced ? &launcher.trace_filter : &launcher.payload_filter,
               .init_filter = &launcher.init_filter,
               .shares_network = root->shares_network,
               .scoped = root->shares_network && launcher.scopes,
               .notify = launcher.notify,
               .traced = traced,
               .by_zygote = by_zygote,
               .standby_fd = by_zygote ? -1 : root->image.standby_fd[runtime]},
  };
  if ((flags & GBX_RUN_PTY) != 0) {
    parts.spec.pty = true;
    parts.spec.columns = run->columns;
    parts.spec.rows = run->rows;
  }
  if (with_leaf && make_leaf(&parts, &leaf_fds, err) < 0) return NULL;
  struct box* box = box_new(&parts, err);
  if (box == NULL) {
    if (parts.leaf != 0) keeper_drop_leaf(parts.leaf);
    return NULL;
  }
  box->number = ++launcher.next_box;
  box->next = launcher.boxes;
  launcher.boxes = box;
  if (watch(box->socket_fd, &box->watch[BOX_SOCKET], err) < 0 ||
      (box->leaf_fd[GBX_LEAF_OOM_EVENT] >= 0 &&
       watch(box->leaf_fd[GBX_LEAF_OOM_EVENT], &box->watch[BOX_OOM], err) < 0))
    give_up_box(box, err); /* its reaping tells whom it concerns */
  return box;
}

static bool same_limits(const struct gbx_wire_limits* a,
                        const struct gbx_wire_limits* b) {
  return a->memory_bytes == b->memory_bytes && a->pids == b->pids &&
         a->cpu_millis == b->cpu_millis;
}

/* With the run's limits in force and the workspace's tree, off it goes. */
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
  cleanup_fd int tree_fd = shelf_clone(run->request.workspace, err);
  if (tree_fd < 0) return tree_fd;
  const struct root* root = find_root(run->request.root);
  cleanup_fd int mounts_fd = -1;
  if (root != NULL && root->image.mounts != NULL) {
    mounts_fd = mounts_clone(run->request.workspace, err);
    if (mounts_fd < 0) return mounts_fd;
  }
  profile_note(GBX_AT_GO_MADE, run->request.head.id);
  int result = box_go(box, run, tree_fd, mounts_fd, err);
  if (result < 0) return result;
  struct gbx_msg_started started = {.pid = box->payload_pid};
  GBX_MSG_INIT(&started, GBX_M_STARTED, run->request.head.id);
  int fds[3] = {box->pidfd};
  int count = 1;
  if ((run->request.flags & GBX_RUN_HANDLE) != 0)
    fds[count++] = box->payload_fd;
  if (box->pty_fd >= 0) fds[count++] = box->pty_fd;
  tell_engine(&started.head, fds, count);
  fd_close(&box->pty_fd); /* its end is for the engine to see */
  unwatch(box->payload_fd);
  fd_close(&box->payload_fd);
  return 0;
}

static bool wants_leaf(const struct gbx_msg_run* run) {
  return launcher.leaves && (run->flags & GBX_RUN_NO_CGROUP) == 0;
}

/* Without a cgroup the number of processes may only be lowered. The filter of
 * a ready box is the usual one. */
static bool spare_box_suits(const struct box* box,
                            const struct gbx_msg_run* run) {
  const uint32_t own = GBX_RUN_COLD | GBX_RUN_PTY | GBX_RUN_TRACE;
  if ((run->flags & own) != 0 || box->run != NULL || box->reaped ||
      box->dismissed || box->end.err.code != GBX_OK || box->root != run->root ||
      (box->leaf != 0) != wants_leaf(run))
    return false;
  return box->leaf != 0 ||
         (run->limits.pids != 0 && run->limits.pids <= box->limits.pids);
}

static struct box* find_spare_box(const struct gbx_msg_run* run,
                                  enum gbx_runtime runtime,
                                  enum box_state state) {
  struct box* box = launcher.boxes;
  while (box != NULL && (box->state != state || box->runtime != runtime ||
                         !spare_box_suits(box, run)))
    box = box->next;
  return box;
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

/* In order of the time that they take. A box that is being made will be there
 * before a new one. */
static struct box* choose_spare_box(const struct root* root,
                                    const struct gbx_msg_run* run) {
  struct box* box = find_spare_box(run, run->runtime, BOX_READY);
  if (box == NULL) box = find_spare_box(run, run->runtime, BOX_MAKING);
  if (box == NULL && choose_runtime(root, run) == GBX_RUNTIME_NONE)
    box = find_spare_box(run, GBX_RUNTIME_NONE, BOX_READY);
  return box;
}

/* Gives the run a box; `cold` one in which nothing waits. */
static void place_run(struct root* root, struct run* run, bool cold) {
  struct gbx_err err = {0};
  struct box* box = cold ? NULL : choose_spare_box(root, &run->request);
  if (box != NULL) {
    box->run = run;
    if (box->state == BOX_MAKING) return; /* its BOX_READY dispatches it */
    if (dispatch(box, run, &err) == 0) return;
    /* It died while it waited, or has used more than the run's limits allow: a
     * new one works, or says why not. */
    box->run = NULL;
    give_up_box(box, &err);
  }
  enum gbx_runtime runtime =
      cold ? GBX_RUNTIME_NONE : choose_runtime(root, &run->request);
  box = make_box(root, runtime, wants_leaf(&run->request), &run->request.limits,
                 &run->request, &err);
  if (box == NULL)
    fail_run(run, &err);
  else
    box->run = run;
}

static void start_run(const struct gbx_msg_run* request, struct gbx_fds* fds) {
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
  struct root* root = find_root(request->root);
  if (root == NULL || request->runtime >= GBX_RUNTIMES)
    (void)gbx_fail(&err, GBX_E_INTERNAL, EBADMSG, "run", "no such root");
  else if (fds->count < gbx_run_fd_count(request->flags))
    (void)gbx_fail(&err, GBX_E_SETUP, EMFILE, "recvmsg", "argv and output");
  bool traced = (request->flags & GBX_RUN_TRACE) != 0;
  if (err.code == GBX_OK && traced)
    (void)trace_make_filter(&launcher.payload_filter, launcher.notify,
                            &launcher.trace_filter, &err);
  if (err.code != GBX_OK) {
    fail_run(run, &err);
    return;
  }
  bool found = find_spare_box(request, request->runtime, BOX_READY) != NULL;
  stock_used(&root->stock[request->runtime], found, now_ms());
  place_run(root, run, false);
}

static void box_is_ready(struct box* box, const struct gbx_msg_box_ready* ready,
                         struct gbx_fds* fds) {
  struct gbx_err err = {0};
  int next = 0;
  /* It said so before it was killed: its run gets another. */
  if (box->dismissed) return;
  if (launcher.notify) {
    box->listener_fd = gbx_fds_steal(fds, next++);
    int result = box->listener_fd < 0
                     ? gbx_fail(&err, GBX_E_SETUP, EMFILE, "recvmsg",
                                "the filter's listener")
                     : watch(box->listener_fd, &box->watch[BOX_LISTENER], &err);
    if (result < 0) {
      give_up_box(box, &err);
      return;
    }
  }
  box->payload_pid = ready->pid;
  box->payload_fd = gbx_fds_steal(fds, next++);
  if (box->has_pty) box->pty_fd = gbx_fds_steal(fds, next++);
  if (box->payload_fd < 0 || (box->has_pty && box->pty_fd < 0)) {
    (void)gbx_fail(&err, GBX_E_SETUP, EMFILE, "recvmsg", "payload");
    give_up_box(box, &err);
    return;
  }
  if (box->leaf == 0) box->memory.shm_fd = gbx_fds_steal(fds, next);
  box_hold_mounts(box);
  box->state = BOX_READY;
  launcher.joined_ms = now_ms();
  if (box->run != NULL)
    profile_note(GBX_AT_BOX_MADE, box->run->request.head.id);
  struct root* root = find_root(box->root);
  if (box->by_zygote && root != NULL) root->zygote.failures = 0;
  int result = box->run != NULL
                   ? dispatch(box, box->run, &err)
                   : watch(box->payload_fd, &box->watch[BOX_PAYLOAD], &err);
  if (result < 0) give_up_box(box, &err);
}

/* init has made the box. `fds`: its namespaces and its payload's socket. */
static void fork_payload(struct box* box, struct gbx_fds* fds) {
  struct gbx_err err = {0};
  struct root* root = find_root(box->root);
  struct gbx_msg_fork request = {.files_soft = launcher.files_soft,
                                 .files_hard = launcher.files_hard,
                                 .notify = launcher.notify};
  if (root != NULL && root->shares_network) {
    request.shares_network = 1;
    request.scoped = launcher.scopes;
  }
  /* Without a cgroup the kernel counts processes in a user namespace. */
  if (box->leaf == 0)
    request.pids = box->limits.pids != 0 ? box->limits.pids : UINT64_MAX;
  GBX_MSG_INIT(&request, GBX_M_FORK, box->number);
  bool fits = fds->count == GBX_NAMESPACES + 1 &&
              fds->count + box->procs.count <= GBX_MSG_FDS;
  struct gbx_fds all = *fds;
  if (fits)
    for (int i = 0; i < box->procs.count; i++)
      all.fd[all.count++] = box->procs.fd[i];
  int result = !fits || root == NULL
                   ? gbx_fail(&err, GBX_E_SETUP, EMFILE, "recvmsg",
                              "namespaces of a box")
                   : zygote_fork(&root->zygote, &request, &all, &err);
  gbx_fds_close(&box->procs); /* the others are the caller's */
  if (result < 0) give_up_box(box, &err);
}

/* Returns false when there is nothing more to read. */
static bool serve_box_socket(struct box* box) {
  union gbx_msg message;
  struct gbx_fds fds;
  int flags = fcntl(box->socket_fd, F_GETFL);
  if ((flags & O_NONBLOCK) == 0)
    (void)fcntl(box->socket_fd, F_SETFL, flags | O_NONBLOCK);
  int result = gbx_msg_recv(box->socket_fd, &message, &fds);
  if (result == -EAGAIN) return false;
  if (result <= 0) {
    /* init is gone, or soon will be: its reaping tells the rest. */
    unwatch(box->socket_fd);
    box_kill(box);
    return false;
  }
  switch (message.head.type) {
    case GBX_M_NAMESPACES:
      fork_payload(box, &fds);
      break;
    case GBX_M_BOX_READY:
      box_is_ready(box, &message.box_ready, &fds);
      break;
    case GBX_M_FAILED:
      gbx_err_sanitize(&message.result.err);
      box->end.err = message.result.err;
      break;
    case GBX_M_BOX_END:
      box->end.reported = 1;
      box->end.wait_code = message.box_end.wait_code;
      box->end.wait_status = message.box_end.wait_status;
      box->end.usage = message.box_end.usage;
      if (message.box_end.err.code != GBX_OK) {
        gbx_err_sanitize(&message.box_end.err);
        box->end.err = message.box_end.err;
      }
      break;
    default:
      break;
  }
  gbx_fds_close(&fds);
  return true;
}

/* What zygotes said: which process is whose payload. */
static void serve_zygotes(void) {
  struct gbx_msg_forked forked;
  for (struct root* root = launcher.roots; root != NULL; root = root->next) {
    while (zygote_receive(&root->zygote, &forked)) {
      struct box* box = launcher.boxes;
      while (box != NULL &&
             (!box->by_zygote || box->reaped || box->number != forked.head.id))
        box = box->next;
      if (forked.head.type == 0 || box == NULL) continue;
      if (forked.pid > 0) {
        box->payload = forked.pid;
        continue;
      }
      struct gbx_err err = {0};
      (void)gbx_fail(&err, GBX_E_SETUP, -forked.pid, "fork", "payload");
      give_up_box(box, &err);
    }
    if (root->zygote.state == ZYGOTE_WAITING)
      answer_root(root, &(struct gbx_err){0});
  }
}

/* The boxes that wait for it are made in another way, or by another. */
static bool end_zygote(const siginfo_t* info) {
  struct root* root = launcher.roots;
  while (root != NULL && root->zygote.pid != info->si_pid)
    root = root->next;
  if (root == NULL) return false;
  zygote_explain(&root->zygote, info);
  unwatch(root->zygote.socket_fd);
  zygote_end(&root->zygote);
  for (struct box* box = launcher.boxes; box != NULL; box = box->next)
    if (box->root == root->id && box->by_zygote && box->state == BOX_MAKING) {
      box->dismissed = true; /* or one end would count as many */
      box_kill(box);
    }
  struct gbx_err err = root->zygote.err; /* the root may go with the answer */
  answer_root(root, &err);
  return true;
}

static void serve_box(struct box* box, enum box_source source,
                      uint32_t events) {
  if (box->reaped) return;
  switch (source) {
    case BOX_SOCKET:
      (void)serve_box_socket(box);
      break;
    case BOX_LISTENER:
      if (events & EPOLLIN)
        box_take_notification(box);
      else /* nothing is left that could call: it would wake us for ever */
        unwatch(box->listener_fd);
      break;
    case BOX_PAYLOAD: /* while it waited; init waits for a call, not for it */
      unwatch(box->payload_fd);
      box_kill(box);
      break;
    case BOX_OOM:
      if (box_had_oom(box)) box->end.oom = 1;
      box_kill(box);
      break;
  }
}

static void finish_box(struct box* box) {
  if (box->run != NULL) profile_note(GBX_AT_REAPED, box->run->request.head.id);
  /* What init said last may still lie in the socket; a call or an oom may be
   * waiting in its descriptor behind the death that it caused. */
  while (serve_box_socket(box))
    continue;
  if (box->listener_fd >= 0) {
    struct pollfd polled = {.fd = box->listener_fd, .events = POLLIN};
    if (poll(&polled, 1, 0) > 0 && (polled.revents & POLLIN) != 0)
      box_take_notification(box);
  }
  if (box_had_oom(box)) box->end.oom = 1;
  box_read_usage(box);
  bool failed = box->end.err.code != GBX_OK && box->end.err.code != GBX_E_EXEC;
  /* One that ran out of memory ended for the reason that END gives: its run
   * allows less than a box takes. */
  if (box->state == BOX_MAKING && !failed && box->end.oom == 0)
    (void)gbx_fail(&box->end.err, GBX_E_DIED, ECHILD, "box",
                   "ended in its set-up");
  struct root* root = find_root(box->root);
  /* One that ended without a run would do so again, and again. */
  if (root != NULL && box->by_zygote && box->state == BOX_MAKING &&
      !box->dismissed)
    root->zygote.failures++;
  else if (root != NULL && !box->dismissed)
    stock_ended(&root->stock[box->runtime], failed || box->run == NULL);
  box->reaped = true;
  if (box->run == NULL) return;
  if (root != NULL && !failed)
    stock_resume(&root->stock[box->run->request.runtime]);
  if (root != NULL && box->state == BOX_MAKING &&
      box->runtime != GBX_RUNTIME_NONE) {
    /* It is the interpreter that cannot wait for a call. */
    struct run* run = box->run;
    box->run = NULL;
    place_run(root, run, true);
  } else {
    end_run(box, box->run, &box->end);
  }
}

static void reap(void) {
  struct signalfd_siginfo ignored[8];
  while (read(launcher.signal_fd, ignored, sizeof ignored) > 0)
    continue;
  for (;;) {
    siginfo_t info = {0};
    struct rusage usage;
    /* The system call tells of usage, the C library's function does not. */
    if (syscall(SYS_waitid, P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT,
                NULL) < 0 ||
        info.si_pid == 0)
      return;
    /* Whose it is was said before it could become ours to reap. */
    serve_zygotes();
    if (syscall(SYS_waitid, P_PID, info.si_pid, &info, WEXITED, &usage) < 0)
      return;
    struct box* box = launcher.boxes;
    while (box != NULL &&
           ((box->pid != info.si_pid && box->payload != info.si_pid) ||
            box->reaped))
      box = box->next;
    if (box == NULL)
      (void)end_zygote(&info); /* or it is what a box left behind */
    else if (box->pid == info.si_pid)
      finish_box(box);
    else
      box_payload_ended(box, &info, &usage);
  }
}

/* After the events at hand, which may still point to them. */
static void free_reaped(void) {
  for (struct box** at = &launcher.boxes; *at != NULL;) {
    struct box* box = *at;
    if (!box->reaped) {
      at = &box->next;
      continue;
    }
    *at = box->next;
    uint32_t leaf = box->leaf;
    unwatch(box->socket_fd);
    unwatch(box->listener_fd);
    unwatch(box->payload_fd);
    unwatch(box->leaf_fd[GBX_LEAF_OOM_EVENT]);
    box_free(box);
    if (leaf != 0) keeper_drop_leaf(leaf);
  }
}

/* No such run: its last BLOCKED went out before its END. */
static void answer_trace(uint32_t run_id) {
  for (struct box* box = launcher.boxes; box != NULL; box = box->next)
    if (box->trace != NULL && box->run != NULL &&
        box->run->request.head.id == run_id)
      tell_blocked(box);
}

static void cancel(uint32_t run_id) {
  for (struct box* box = launcher.boxes; box != NULL; box = box->next)
    if (box->run != NULL && box->run->request.head.id == run_id) box_kill(box);
}

/* ---- Ready boxes ------------------------------------------------------ */

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

static int quiet_time(void) {
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

static struct root* root_that_wants_a_box(enum gbx_runtime* ret_runtime) {
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

static void start_zygote(struct root* root) {
  static struct box_watch zygote_watch;
  struct gbx_err err = {0};
  const struct zygote_filters filters = {&launcher.zygote_filter,
                                         &launcher.payload_filter};
  if (zygote_start(&root->zygote, &root->image, &filters, root->shares_network,
                   &err) < 0) {
    zygote_end(&root->zygote);
    answer_root(root, &err);
  } else if (watch(root->zygote.socket_fd, &zygote_watch, &err) < 0) {
    (void)kill(root->zygote.pid, SIGKILL); /* its reaping does the rest */
  }
}

static void refill(struct root* root, enum gbx_runtime runtime) {
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

/* Ends what has waited for too long. Milliseconds until there may be more of
 * that; -1 for never. */
static int expire_spare_boxes(void) {
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

/* ---- Boxes without a memory cgroup ------------------------------------- */

static bool is_watched(const struct box* box) {
  return box->leaf == 0 && box->state == BOX_RUNNING && box->run != NULL &&
         !box->reaped && box->run->request.limits.memory_bytes != 0 &&
         (box->run->request.flags & GBX_RUN_NO_CGROUP) == 0;
}

static bool look_at_memory(void) {
  struct watchdog_box* list = NULL;
  for (struct box* box = launcher.boxes; box != NULL; box = box->next) {
    if (!is_watched(box)) continue;
    box->memory.limit_bytes = box->run->request.limits.memory_bytes;
    box->memory.is_over = false;
    box->memory.next = list;
    list = &box->memory;
  }
  bool is_complete = watchdog_look(list);
  for (struct box* box = launcher.boxes; box != NULL; box = box->next) {
    if (!is_watched(box) || !box->memory.is_over) continue;
    box->end.oom = 1;
    box_kill(box);
  }
  return is_complete;
}

/* Milliseconds until the next look; -1 while there is nothing to look at, and
 * then nothing wakes us. Looks if it is time. */
static int keep_watch(void) {
  const struct box* box = launcher.boxes;
  while (box != NULL && !is_watched(box))
    box = box->next;
  if (box == NULL) {
    launcher.next_look_ms = 0;
    return -1;
  }
  int64_t now = now_ms();
  if (launcher.next_look_ms == 0) {
    launcher.next_look_ms = now + WATCHDOG_MS;
  } else if (now >= launcher.next_look_ms) {
    bool is_complete = look_at_memory();
    int64_t took = now_ms() - now;
    /* The boxes of others wait while we look: half of the time is theirs. */
    launcher.next_look_ms =
        now + (is_complete && took < WATCHDOG_MS / 2 ? WATCHDOG_MS : 2 * took);
    now += took;
  }
  return (int)(launcher.next_look_ms - now);
}

/* ---- The loop --------------------------------------------------------- */

static int map_filter(int fd, struct filter* ret_filter) {
  struct stat info;
  if (fstat(fd, &info) < 0 || info.st_size <= 0) return -1;
  void* map = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (map == MAP_FAILED) return -1;
  ret_filter->program = map;
  ret_filter->size = (size_t)info.st_size;
  return 0;
}

static void configure(const struct gbx_msg_config* config,
                      const struct gbx_fds* fds) {
  struct gbx_err err = {0};
  if (fds->count < 3 || map_filter(fds->fd[0], &launcher.payload_filter) < 0 ||
      map_filter(fds->fd[1], &launcher.init_filter) < 0 ||
      map_filter(fds->fd[2], &launcher.zygote_filter) < 0) {
    (void)gbx_fail(&err, GBX_E_START, EBADMSG, "config", "no filters");
    launcher_fail_start(&err);
  }
  launcher.notify = config->notify != 0;
  if (filter_settle(&launcher.payload_filter, &launcher.notify, &err) < 0)
    launcher_fail_start(&err);
  launcher.leaves = config->leaves != 0;
  if (fds->count > 3) profile_start(fds->fd[3]);
  if (limits_of_files(&launcher.files_soft, &launcher.files_hard, &err) < 0)
    launcher_fail_start(&err);
  struct rlimit files = {0};
  (void)getrlimit(RLIMIT_NOFILE, &files); /* or no box waits */
  launcher.most_spare = files.rlim_cur / DESCRIPTORS_A_BOX < INT32_MAX
                            ? (int)(files.rlim_cur / DESCRIPTORS_A_BOX)
                            : INT32_MAX;
  launcher.scopes = landlock_can_scope();
  struct gbx_msg_launcher_up up = {.scopes = launcher.scopes};
  GBX_MSG_INIT(&up, GBX_M_LAUNCHER_UP, 0);
  tell_engine(&up.head, NULL, 0);
}

static void serve_engine(void) {
  union gbx_msg message;
  struct gbx_fds fds;
  if (gbx_msg_recv(GBX_FD_ENGINE, &message, &fds) <= 0) {
    launcher.engine_gone = true;
    return;
  }
  switch (message.head.type) {
    case GBX_M_CONFIG:
      configure(&message.config, &fds);
      break;
    case GBX_M_ROOT:
      add_root(&message.root, fds.count > 0 ? fds.fd[0] : -1);
      break;
    case GBX_M_ROOT_DROP:
      drop_root(message.head.id);
      break;
    case GBX_M_WORKSPACE:
      add_workspace(&message.workspace, fds.count > 0 ? fds.fd[0] : -1);
      break;
    case GBX_M_WORKSPACE_DROP:
      drop_workspace(message.head.id);
      break;
    case GBX_M_RUN:
      start_run(&message.run, &fds);
      return; /* it took the descriptors */
    case GBX_M_CANCEL:
      cancel(message.head.id);
      break;
    case GBX_M_TRACE:
      answer_trace(message.head.id);
      break;
    case GBX_M_PING:
      answer(message.head.id, &(struct gbx_err){0});
      break;
    default:
      break;
  }
  gbx_fds_close(&fds);
}

static void serve(void) {
  static int engine_mark, signal_mark, keeper_mark; /* addresses as tags */
  struct gbx_err err = {0};
  if (watch(GBX_FD_ENGINE, &engine_mark, &err) < 0 ||
      watch(GBX_FD_PEER, &keeper_mark, &err) < 0 ||
      watch(launcher.signal_fd, &signal_mark, &err) < 0)
    launcher_fail_start(&err);
  int64_t quiet_since = 0; /* 0: from now on */
  while (!launcher.engine_gone) {
    enum gbx_runtime wanted = GBX_RUNTIME_NONE;
    struct root* wanting = root_that_wants_a_box(&wanted);
    int look = keep_watch();
    int expiry = expire_spare_boxes();
    int timeout = look < 0 || (expiry >= 0 && expiry < look) ? expiry : look;
    bool may_refill = false;
    if (wanting != NULL) {
      int quiet = quiet_time();
      if (look >= 0) {
        /* The watchdog's wake-ups are no events: the quiet goes on. */
        int64_t now = now_ms();
        if (quiet_since == 0) quiet_since = now;
        int64_t left = quiet_since + quiet - now;
        quiet = left > 0 ? (int)left : 0;
      }
      may_refill = look < 0 || quiet <= look;
      if (may_refill) timeout = quiet;
    }
    struct epoll_event events[32];
    int count = (int)RETRY(epoll_wait(launcher.epoll_fd, events, 32, timeout));
    if (count < 0) return;
    if (count > 0 || may_refill) quiet_since = 0;
    if (count == 0 && may_refill) refill(wanting, wanted);
    for (int i = 0; i < count; i++) {
      void* mark = events[i].data.ptr;
      if (mark == &engine_mark) {
        serve_engine();
      } else if (mark == &signal_mark) {
        reap();
      } else if (mark == &keeper_mark) {
        return; /* it speaks only when asked: this is its end */
      } else {
        const struct box_watch* box_watch = mark;
        if (box_watch->box == NULL)
          serve_zygotes();
        else
          serve_box(box_watch->box, box_watch->source, events[i].events);
      }
    }
    free_reaped();
  }
}

int launcher_main(const char* mode) {
  launcher.rooted = strcmp(mode, "rooted") == 0;
  struct gbx_err err = {0};
  (void)fcntl(GBX_FD_ENGINE, F_SETFD, FD_CLOEXEC);
  (void)fcntl(GBX_FD_PEER, F_SETFD, FD_CLOEXEC);
  (void)fcntl(GBX_FD_EPOLL, F_SETFD, FD_CLOEXEC);
  /* After the last change of credentials, which clears it. If the keeper died
   * before this line, its end of the socket is closed and serve() sees that. */
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) {
    (void)gbx_fail(&err, GBX_E_START, errno, "PR_SET_PDEATHSIG", "SIGKILL");
    launcher_fail_start(&err);
  }
  sigset_t child;
  (void)sigemptyset(&child);
  (void)sigaddset(&child, SIGCHLD);
  (void)sigprocmask(SIG_BLOCK, &child, NULL);
  launcher.signal_fd = signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
  launcher.epoll_fd = GBX_FD_EPOLL;
  if (launcher.signal_fd < 0) {
    (void)gbx_fail(&err, GBX_E_START, errno, "signalfd", "launcher");
    launcher_fail_start(&err);
  }
  serve();
  return 0; /* the kernel kills every box with its pid namespace */
}
