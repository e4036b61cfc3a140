/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/boxes.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fd.h"
#include "launcher/keeper_client.h"
#include "launcher/profile.h"
#include "launcher/roots.h"
#include "launcher/runs.h"
#include "launcher/spares.h"
#include "launcher/zygotes.h"

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
  return 0;
}

void give_up_box(struct box* box, const struct gbx_err* err) {
  if (box->end.err.code == GBX_OK) box->end.err = *err;
  box_kill(box);
}

struct box* make_box(const struct root* root, enum gbx_runtime runtime,
                     bool with_leaf, const struct gbx_wire_limits* limits,
                     const struct gbx_msg_run* run, struct gbx_err* err) {
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
  box->is_own = run != NULL;
  box->number = ++launcher.next_box;
  box->next = launcher.boxes;
  launcher.boxes = box;
  launcher.box_count++;
  if (watch(box->socket_fd, &box->watch[BOX_SOCKET], err) < 0 ||
      (box->leaf_fd[GBX_LEAF_OOM_EVENT] >= 0 &&
       watch(box->leaf_fd[GBX_LEAF_OOM_EVENT], &box->watch[BOX_OOM], err) < 0))
    give_up_box(box, err); /* its reaping tells whom it concerns */
  return box;
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
  if (box->leaf == 0) {
    box->memory.shm_fd = gbx_fds_steal(fds, next);
    box_hold_mounts(box); /* END may have to wait for init */
  }
  box->state = BOX_READY;
  if (box->run != NULL)
    profile_note(GBX_AT_BOX_MADE, box->run->request.head.id);
  struct root* root = find_root(box->root);
  if (box->by_zygote && root != NULL) root->zygote.failures = 0;
  if (box->run != NULL)
    begin_run(box);
  else if (watch(box->payload_fd, &box->watch[BOX_PAYLOAD], &err) < 0)
    give_up_box(box, &err);
}

static void box_is_bound(struct box* box) {
  if (box->state != BOX_BINDING) return;
  box->state = BOX_BOUND;
  if (box->run != NULL) begin_run(box);
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
    case GBX_M_BOUND:
      box_is_bound(box);
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
      box->is_empty = message.box_end.alone != 0;
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

/* No process of the code is left: END does not wait for init's. */
static void conclude(struct box* box) {
  if (box->state == BOX_ENDED) return;
  if (box->run != NULL) profile_note(GBX_AT_REAPED, box->run->request.head.id);
  /* A call or an oom may be waiting in its descriptor behind the death that it
   * caused. */
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
  bool is_cancelled = box->run != NULL && box->run->cancelled;
  /* One that ended without a run would do so again, and again. */
  if (root != NULL && box->by_zygote && box->state == BOX_MAKING &&
      !box->dismissed && !is_cancelled)
    root->zygote.failures++;
  else if (root != NULL && !box->dismissed)
    stock_ended(&root->stock[box->runtime], failed || box->run == NULL);
  bool was_making = box->state == BOX_MAKING;
  bool was_binding = box->state == BOX_BINDING;
  box->state = BOX_ENDED;
  remove_spare_box(box);
  if (box->run == NULL) return;
  if (root != NULL && !failed)
    stock_resume(&root->stock[box->run->request.runtime]);
  struct run* run = box->run;
  /* It is the interpreter that cannot wait for a call. */
  bool cold = was_making && box->runtime != GBX_RUNTIME_NONE;
  if (root == NULL || is_cancelled || (!cold && !was_binding)) {
    end_run(box, run, &box->end);
    return;
  }
  box->run = NULL;
  place_run(root, run, cold);
}

/* init was reaped, the last process of the box. */
static void finish_box(struct box* box) {
  /* What init said last may still lie in the socket. */
  while (serve_box_socket(box))
    continue;
  conclude(box);
  box->reaped = true;
}

void serve_box(struct box* box, enum box_source source, uint32_t events) {
  if (box->reaped) return;
  switch (source) {
    case BOX_SOCKET:
      (void)serve_box_socket(box);
      if (box->is_empty) conclude(box);
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

static void finish_payload(struct box* box, const siginfo_t* info,
                           const struct rusage* usage) {
  box_payload_ended(box, info, usage);
  if (box_is_empty(box)) conclude(box);
}

void reap(void) {
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
      finish_payload(box, &info, &usage);
  }
}

void free_reaped(void) {
  for (struct box** at = &launcher.boxes; *at != NULL;) {
    struct box* box = *at;
    if (!box->reaped) {
      at = &box->next;
      continue;
    }
    *at = box->next;
    launcher.box_count--;
    uint32_t leaf = box->leaf;
    unwatch(box->socket_fd);
    unwatch(box->listener_fd);
    unwatch(box->payload_fd);
    unwatch(box->leaf_fd[GBX_LEAF_OOM_EVENT]);
    box_free(box);
    if (leaf != 0) keeper_drop_leaf(leaf);
  }
}
