/* SPDX-License-Identifier: Apache-2.0 */
#include "join/zygote.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "join/bare.h"
#include "join/join.h"
#include "join/take.h"
#include "join/talk.h"

#undef errno /* it is libc's; its numbers are not */

#define PROCS_MAX 4

/* What a box wants. */
struct order {
  uint32_t box;
  int pid_ns_fd;
  int payload_fd; /* its socket to init */
  struct gbx_join join;
  int procs_fd[PROCS_MAX];
  int procs_count;
  uint64_t files[2]; /* RLIMIT_NOFILE */
};

static const struct sock_filter* filter;
static uint32_t filter_count;

static long map_filter(void) {
  struct stat info;
  long result = call(__NR_fstat, GBX_ZYGOTE_FILTER, (long)&info, 0, 0);
  if (result < 0) return result;
  result = call6(__NR_mmap, 0, info.st_size, PROT_READ, MAP_PRIVATE,
                 GBX_ZYGOTE_FILTER, 0);
  if (result < 0) return result;
  filter = (const struct sock_filter*)result;
  filter_count = (uint32_t)((unsigned long)info.st_size / sizeof *filter);
  (void)call(__NR_close, GBX_ZYGOTE_FILTER, 0, 0, 0);
  return 0;
}

/* The interpreter's own table goes on saying that nothing was changed, and in
 * payloads that is true again. */
static void handle_children(long handler) {
  const unsigned long action[4] = {(unsigned long)handler}; /* the kernel's */
  (void)call(__NR_rt_sigaction, BARE_SIGCHLD, (long)action, 0, 8);
}

static long begin(void) {
  long result = map_filter();
  if (result < 0) return result;
  talk_rename("glovebox-zygote");
  handle_children(BARE_SIG_IGN); /* the kernel reaps middles by itself */
  struct gbx_msg_head word;
  talk_begin(&word, GBX_M_WAITING, sizeof word);
  return talk_send(GBX_TAKE_SOCKET, &word, -1);
}

/* False: the launcher is gone. It never says anything else, so what makes no
 * sense is its end too. */
static bool receive(struct order* order) {
  struct gbx_msg_fork ask;
  struct gbx_fds fds;
  const int usual = GBX_NAMESPACES + 1;
  if (talk_receive(GBX_TAKE_SOCKET, GBX_M_FORK, sizeof ask, &ask.head, &fds) <=
          0 ||
      fds.count < usual || fds.count > usual + PROCS_MAX)
    return false;
  *order = (struct order){
      .box = ask.head.id,
      .pid_ns_fd = fds.fd[0],
      .payload_fd = fds.fd[GBX_NAMESPACES],
      .files = {ask.files_soft, ask.files_hard},
      .procs_count = fds.count - usual,
      .join = {.version = GBX_JOIN_VERSION,
               .pids = ask.pids,
               .filter = (uint64_t)filter,
               .filter_count = filter_count,
               .listener = ask.notify,
               .shares_network = ask.shares_network,
               .scoped = ask.scoped,
               /* The payload's socket will be the first of them. */
               .keep_fd = {GBX_TAKE_SOCKET, GBX_TAKE_SOCKET + 1, -1, -1}},
  };
  for (int i = 0; i < order->procs_count; i++)
    order->procs_fd[i] = fds.fd[usual + i];
  for (int i = 0; i < GBX_JOIN_NAMESPACES; i++)
    order->join.namespace_fd[i] = fds.fd[1 + i];
  return true;
}

static void close_all(const struct order* order) {
  (void)call(__NR_close, order->pid_ns_fd, 0, 0, 0);
  (void)call(__NR_close, order->payload_fd, 0, 0, 0);
  for (int i = 0; i < GBX_JOIN_NAMESPACES; i++)
    (void)call(__NR_close, order->join.namespace_fd[i], 0, 0, 0);
  for (int i = 0; i < order->procs_count; i++)
    (void)call(__NR_close, order->procs_fd[i], 0, 0, 0);
}

static void tell(const struct order* order, long pid) {
  struct gbx_msg_forked word = {.pid = (int32_t)pid};
  talk_begin(&word.head, GBX_M_FORKED, sizeof word);
  word.head.id = order->box;
  (void)talk_send(GBX_TAKE_SOCKET, &word.head, -1); /* gone: all of it ends */
}

/* Forks the payload by way of a middle process. Returns true in it, and false
 * in the zygote, which stands still while the middle process runs in its memory
 * and on its stack: so that one does not return from here. */
static bool fork_payload(const struct order* order, int (*fork)(void)) {
  long middle =
      call6(__NR_clone, CLONE_VM | CLONE_VFORK | BARE_SIGCHLD, 0, 0, 0, 0, 0);
  if (middle < 0) tell(order, middle);
  if (middle != 0) return false;
  long pid = call(__NR_setns, order->pid_ns_fd, CLONE_NEWPID, 0, 0);
  /* The payload is not to vanish: the launcher will want to know how it ends.
   */
  handle_children(BARE_SIG_DFL);
  if (pid == 0) pid = fork();
  if (pid == 0) return true;
  tell(order, pid < 0 ? -EAGAIN : pid);
  for (;;)
    (void)call(__NR_exit_group, 0, 0, 0, 0);
}

__attribute__((visibility("default"))) void gbx_zygote_fail(const char* module,
                                                            const char* error) {
  struct gbx_msg_result message = {.err = {.code = GBX_E_PRELOAD}};
  char* detail = message.err.detail;
  unsigned long room = sizeof message.err.detail;
  talk_begin(&message.head, GBX_M_FAILED, sizeof message);
  (void)talk_put(message.err.op, sizeof message.err.op, "import");
  unsigned long size = talk_put(detail, room, module);
  size += talk_put(detail + size, room - size, ": ");
  (void)talk_put(detail + size, room - size, error);
  (void)talk_send(GBX_TAKE_SOCKET, &message.head, -1); /* or our end tells */
}

#define STEP(step, expression)                                       \
  do {                                                               \
    long result_ = (expression);                                     \
    if (result_ < 0) return talk_fail(socket_fd, result_, step, ""); \
  } while (0)

static long become(struct order* order) {
  long socket_fd = order->payload_fd;
  /* The order, and why: payload.c and init.c. The cgroup comes first, through
   * descriptors that the keeper opened: permission is the opener's. */
  for (int i = 0; i < order->procs_count; i++)
    STEP("cgroup.procs", call(__NR_write, order->procs_fd[i], (long)"0", 1, 0));
  STEP("setsid", call(__NR_setsid, 0, 0, 0, 0));
  STEP("dup3", call(__NR_dup3, socket_fd, GBX_TAKE_SOCKET, 0, 0));
  socket_fd = GBX_TAKE_SOCKET;
  long result = gbx_join(&order->join);
  if (result < 0) {
    static const char* const steps[] = {
        "join",         "version",       "setns",           "chdir",
        "close_range",  "nested userns", "RLIMIT_NPROC",    "capset",
        "no_new_privs", "seccomp",       "PR_SET_DUMPABLE", "landlock"};
    return talk_fail(socket_fd, result, steps[order->join.ret_step], "");
  }
  struct gbx_msg_head word;
  talk_begin(&word, GBX_M_PAYLOAD_READY, sizeof word);
  int listener_fd = order->join.listener != 0 ? order->join.ret_listener : -1;
  result = talk_send(socket_fd, &word, listener_fd);
  if (result < 0) return result;
  if (listener_fd >= 0) (void)call(__NR_close, listener_fd, 0, 0, 0);
  /* After the last message with a descriptor: limits.h says why. */
  STEP("RLIMIT_NOFILE",
       call(__NR_prlimit64, 0, RLIMIT_NOFILE, (long)order->files, 0));
  return 0;
}

__attribute__((visibility("default"))) long gbx_zygote_serve(
    int (*fork)(void), const struct gbx_span* spans, unsigned long span_count) {
  struct order order;
  long result = begin();
  if (result < 0) return result;
  while (receive(&order)) {
    if (fork_payload(&order, fork)) {
      result = become(&order);
      /* The cgroup that pays for it is the box's by now. */
      if (result == 0) scout_follow(spans, span_count);
      return result;
    }
    close_all(&order);
  }
  return -EPIPE;
}
