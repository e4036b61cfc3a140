/* SPDX-License-Identifier: Apache-2.0 */
#include "join/zygote.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "join/bare.h"
#include "join/take.h"
#include "join/talk.h"

#undef errno /* it is libc's; its numbers are not */

#define PROCS_MAX 4

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

__attribute__((visibility("default"))) long gbx_zygote_wait(
    struct gbx_zygote* zygote) {
  if (filter == NULL) {
    if (map_filter() < 0) return 0;
    talk_rename("glovebox-zygote");
    handle_children(BARE_SIG_IGN);
    struct gbx_msg_head word;
    talk_begin(&word, GBX_M_WAITING, sizeof word);
    if (talk_send(GBX_TAKE_SOCKET, &word, -1) < 0) return 0;
  }
  struct gbx_msg_fork ask;
  struct gbx_fds fds;
  const int usual = GBX_NAMESPACES + 1;
  /* The launcher never says anything else, so what makes no sense is its end.
   */
  if (talk_receive(GBX_TAKE_SOCKET, GBX_M_FORK, sizeof ask, &ask.head, &fds) <=
          0 ||
      fds.count < usual || fds.count > usual + PROCS_MAX)
    return 0;
  zygote->box = ask.head.id;
  zygote->pid_ns_fd = fds.fd[0];
  zygote->payload_fd = fds.fd[GBX_NAMESPACES];
  zygote->procs_count = (uint32_t)(fds.count - usual);
  for (int i = usual; i < fds.count; i++)
    zygote->procs_fd[i - usual] = fds.fd[i];
  zygote->awaited = ask.awaited;
  zygote->files_soft = ask.files_soft;
  zygote->files_hard = ask.files_hard;
  zygote->join = (struct gbx_join){
      .version = GBX_JOIN_VERSION,
      .pids = ask.pids,
      .filter = (uint64_t)filter,
      .filter_count = filter_count,
      .listener = ask.notify,
      /* The payload's socket will be the first of them. */
      .keep_fd = {GBX_TAKE_SOCKET, GBX_TAKE_SOCKET + 1, -1, -1},
  };
  for (int i = 0; i < GBX_JOIN_NAMESPACES; i++)
    zygote->join.namespace_fd[i] = fds.fd[1 + i];
  return 1;
}

__attribute__((visibility("default"))) void gbx_zygote_close(
    struct gbx_zygote* zygote) {
  (void)call(__NR_close, zygote->pid_ns_fd, 0, 0, 0);
  (void)call(__NR_close, zygote->payload_fd, 0, 0, 0);
  for (int i = 0; i < GBX_JOIN_NAMESPACES; i++)
    (void)call(__NR_close, zygote->join.namespace_fd[i], 0, 0, 0);
  for (uint32_t i = 0; i < zygote->procs_count; i++)
    (void)call(__NR_close, zygote->procs_fd[i], 0, 0, 0);
}

__attribute__((visibility("default"))) long gbx_zygote_aim(
    struct gbx_zygote* zygote) {
  /* Its own child is not to vanish: the launcher will want to know. */
  handle_children(BARE_SIG_DFL);
  return call(__NR_setns, zygote->pid_ns_fd, CLONE_NEWPID, 0, 0);
}

__attribute__((visibility("default"))) long gbx_zygote_tell(
    struct gbx_zygote* zygote, long pid) {
  struct gbx_msg_forked word = {.pid = (int32_t)pid};
  talk_begin(&word.head, GBX_M_FORKED, sizeof word);
  word.head.id = zygote->box;
  return talk_send(GBX_TAKE_SOCKET, &word.head, -1);
}

#define STEP(step, expression)                                   \
  do {                                                           \
    long result_ = (expression);                                 \
    if (result_ < 0) return talk_fail(socket_fd, result_, step); \
  } while (0)

__attribute__((visibility("default"))) long gbx_zygote_become(
    struct gbx_zygote* zygote) {
  long socket_fd = zygote->payload_fd;
  /* The order, and why: payload.c and init.c. The cgroup comes first, through
   * descriptors that the keeper opened: permission is the opener's. */
  for (uint32_t i = 0; i < zygote->procs_count; i++)
    STEP("cgroup.procs",
         call(__NR_write, zygote->procs_fd[i], (long)"0", 1, 0));
  STEP("setsid", call(__NR_setsid, 0, 0, 0, 0));
  STEP("dup3", call(__NR_dup3, socket_fd, GBX_TAKE_SOCKET, 0, 0));
  socket_fd = GBX_TAKE_SOCKET;
  long result = gbx_join(&zygote->join);
  if (result < 0) {
    static const char* const steps[] = {
        "join",         "version",       "setns",          "chdir",
        "close_range",  "nested userns", "RLIMIT_NPROC",   "capset",
        "no_new_privs", "seccomp",       "PR_SET_DUMPABLE"};
    return talk_fail(socket_fd, result, steps[zygote->join.ret_step]);
  }
  struct gbx_msg_head word;
  talk_begin(&word, GBX_M_PAYLOAD_READY, sizeof word);
  int listener_fd = zygote->join.listener != 0 ? zygote->join.ret_listener : -1;
  result = talk_send(socket_fd, &word, listener_fd);
  if (result < 0) return result;
  if (listener_fd >= 0) (void)call(__NR_close, listener_fd, 0, 0, 0);
  /* After the last message with a descriptor: limits.h says why. */
  uint64_t files[2] = {zygote->files_soft, zygote->files_hard};
  STEP("RLIMIT_NOFILE", call(__NR_prlimit64, 0, RLIMIT_NOFILE, (long)files, 0));
  return zygote->awaited != 0 ? 0 : 1;
}
