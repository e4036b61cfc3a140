/* SPDX-License-Identifier: Apache-2.0 */
#include "join/take.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/wire.h"
#include "join/bare.h"
#include "join/talk.h"

#undef errno /* it is libc's; its numbers are not */

/* ---- The steps --------------------------------------------------------- */

/* As src/launcher/limits.c sets them: never above what is in force. */
static long bound(long resource, uint64_t value) {
  struct rlimit limit;
  if (value == 0) return 0;
  long result = call(__NR_prlimit64, 0, resource, 0, (long)&limit);
  if (result < 0) return result;
  if (value < limit.rlim_max) limit.rlim_max = value;
  limit.rlim_cur = limit.rlim_max;
  return call(__NR_prlimit64, 0, resource, (long)&limit, 0);
}

static long map_blob(long fd, struct gbx_take* take) {
  struct stat info;
  long result = call(__NR_fstat, fd, (long)&info, 0, 0);
  if (result < 0) return result;
  struct gbx_exec_head* head;
  if (info.st_size <= (long)sizeof *head) return -EBADMSG;
  result = call6(__NR_mmap, 0, info.st_size, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE, fd, 0);
  if (result < 0) return result;
  head = (struct gbx_exec_head*)result;
  const char* text = (const char*)result;
  if (head->magic != GBX_WIRE_MAGIC || text[info.st_size - 1] != '\0')
    return -EBADMSG;
  take->ret_blob = (uint64_t)result;
  take->ret_size = (uint64_t)info.st_size;
  return 0;
}

static long put(long fd, long number) {
  return call(__NR_dup3, fd, number, 0, 0);
}

/* One of the driver's own, which no program that the code starts may have. An
 * interpreter that starts with it sees to that; this one has started. */
static long put_private(long fd, long number) {
  return call(__NR_dup3, fd, number, BARE_O_CLOEXEC, 0);
}

/* As place_descriptors() of src/launcher/payload.c, but that a call without
 * stdin gets /dev/null in place of our pipe. */
static long place(const struct gbx_fds* fds, uint32_t flags) {
  const int* next = fds->fd + 1;
  long result = put(*next++, 1);
  if (result >= 0) result = put(*next++, 2);
  if (result >= 0)
    result = (flags & GBX_RUN_FD3) != 0 ? put_private(*next++, 3)
                                        : call(__NR_close, 3, 0, 0, 0);
  if (result >= 0)
    result = (flags & GBX_RUN_FD4) != 0 ? put_private(*next++, 4)
                                        : call(__NR_close, 4, 0, 0, 0);
  if (result < 0) return result;
  long stdin_fd = (flags & GBX_RUN_STDIN) != 0
                      ? *next
                      : call(__NR_openat, BARE_AT_FDCWD, (long)"/dev/null",
                             BARE_O_RDONLY | BARE_O_CLOEXEC, 0);
  if (stdin_fd < 0) return stdin_fd;
  result = put(stdin_fd, 0);
  if ((flags & GBX_RUN_STDIN) == 0) (void)call(__NR_close, stdin_fd, 0, 0, 0);
  for (int i = 0; i < fds->count; i++)
    (void)call(__NR_close, fds->fd[i], 0, 0, 0);
  return result;
}

/* As regain_workspace() of src/launcher/program.c. */
static void regain_workspace(void) {
  const long workspace = (long)"/workspace";
  struct stat st;
  if (call(__NR_newfstatat, BARE_AT_FDCWD, workspace, (long)&st, 0) == 0)
    (void)call(__NR_fchmodat, BARE_AT_FDCWD, workspace,
               (st.st_mode & 07777) | 0700, 0);
}

/* A folder that is not below the root shows as "(unreachable)"
 * (CVE-2024-21626). */
static long enter(const char* cwd) {
  char now[PATH_MAX];
  long result = call(__NR_chdir, (long)cwd, 0, 0, 0);
  if (result == -EACCES) {
    regain_workspace();
    result = call(__NR_chdir, (long)cwd, 0, 0, 0);
  }
  if (result < 0) return result;
  result = call(__NR_getcwd, (long)now, sizeof now, 0, 0);
  if (result < 0) return result;
  return now[0] == '/' ? 0 : -EACCES;
}

static long give_up(long socket_fd, long error, const char* step,
                    const char* detail) {
  (void)talk_fail(socket_fd, error, step, detail);
  /* That is all: nobody has to wait for our end. */
  (void)call(__NR_shutdown, socket_fd, SHUT_WR, 0, 0);
  return error;
}

#define STEP(step, expression)                                     \
  do {                                                             \
    long result_ = (expression);                                   \
    if (result_ < 0) return give_up(socket_fd, result_, step, ""); \
  } while (0)

__attribute__((visibility("default"))) long gbx_take(struct gbx_take* take) {
  long socket_fd = GBX_TAKE_SOCKET;
  take->ret_blob = take->ret_size = 0;
  struct gbx_msg_head word;
  talk_begin(&word, GBX_M_WAITING, sizeof word);
  word.id = (uint32_t)call(__NR_getpid, 0, 0, 0, 0);
  /* Before it is said: who ends zygotes by their name ends no call. */
  talk_rename("glovebox-ready");
  if (talk_send(socket_fd, &word, -1) < 0) return 0; /* init is gone */
  struct gbx_msg_go go;
  struct gbx_fds fds;
  long result = talk_receive(socket_fd, GBX_M_GO, sizeof go, &go.head, &fds);
  if (result == 0) return 0;
  STEP("recvmsg", result);
  talk_rename_back();
  STEP("recvmsg", fds.count < gbx_run_fd_count(go.flags) ? -EMFILE : 0);
  /* Out of the driver's way, and not for programs that the code starts. */
  result = call(__NR_fcntl, socket_fd, BARE_DUPFD_CLOEXEC, 10, 0);
  STEP("fcntl", result);
  socket_fd = result;
  /* The limits before anything of the call is there. */
  STEP("RLIMIT_NPROC", bound(RLIMIT_NPROC, go.pids));
  STEP("RLIMIT_FSIZE", bound(RLIMIT_FSIZE, go.file_bytes));
  STEP("exec blob", map_blob(fds.fd[0], take));
  STEP("dup3", place(&fds, go.flags));
  const char* cwd = (const char*)take->ret_blob + sizeof(struct gbx_exec_head);
  result = enter(cwd);
  if (result < 0) return give_up(socket_fd, result, "chdir", cwd);
  talk_begin(&word, GBX_M_EXECUTING, sizeof word);
  (void)talk_send(socket_fd, &word, -1);
  (void)call(__NR_close, socket_fd, 0, 0, 0); /* tells init that it worked */
  return 0;
}
