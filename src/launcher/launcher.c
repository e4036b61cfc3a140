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

#include "launcher/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#include "common/fd.h"
#include "launcher/boxes.h"
#include "launcher/clock.h"
#include "launcher/landlock.h"
#include "launcher/limits.h"
#include "launcher/memory_watch.h"
#include "launcher/profile.h"
#include "launcher/roots.h"
#include "launcher/runs.h"
#include "launcher/spares.h"
#include "launcher/zygotes.h"

/* Some fifteen are our own, and ten of each box that there is, whether it
 * waits, runs or is about to be gone; the making of one takes twenty for a
 * moment. Boxes that wait leave half of what there is, and this, to those that
 * run: a call that finds none left fails. */
#define DESCRIPTORS_A_BOX  20
#define DESCRIPTORS_SPARED 64

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
  if (files.rlim_cur > DESCRIPTORS_SPARED)
    launcher.boxes_to_spare =
        (files.rlim_cur - DESCRIPTORS_SPARED) / DESCRIPTORS_A_BOX;
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
      cancel_run(message.head.id);
      break;
    case GBX_M_ASK:
      answer_ask(message.head.id);
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
    int quiet = spare_work_quiet();
    int look = keep_watch();
    int expiry = expire_spare_boxes();
    tell_of_given_up();
    int timeout = look < 0 || (expiry >= 0 && expiry < look) ? expiry : look;
    bool may_work = false;
    if (quiet >= 0) {
      if (look >= 0) {
        /* The watchdog's wake-ups are no events: the quiet goes on. */
        int64_t now = now_ms();
        if (quiet_since == 0) quiet_since = now;
        int64_t left = quiet_since + quiet - now;
        quiet = left > 0 ? (int)left : 0;
      }
      may_work = look < 0 || quiet <= look;
      if (may_work) timeout = quiet;
    }
    struct epoll_event events[32];
    int count = (int)RETRY(epoll_wait(launcher.epoll_fd, events, 32, timeout));
    if (count < 0) return;
    if (count > 0 || may_work) quiet_since = 0;
    if (count == 0 && may_work) do_spare_work();
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
