/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/filter.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/bpf.h"
#include "common/fd.h"
#include "common/sys.h"

int filter_load(const struct filter* filter, unsigned flags,
                struct gbx_err* err) {
  struct sock_fprog program = {
      .len = (unsigned short)(filter->size / sizeof(struct sock_filter)),
      .filter = (struct sock_filter*)filter->program};
  long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
  /* Remove this once 5.19 is the floor. */
  const unsigned optional = SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
  if (result < 0 && errno == EINVAL && (flags & optional) != 0)
    result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags & ~optional,
                     &program);
  if (result < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "seccomp", "%u instructions",
                    program.len);
  return (int)result;
}

int filter_derive(const struct filter* filter, uint32_t from, uint32_t to,
                  struct filter* ret_filter, struct gbx_err* err) {
  struct sock_filter* program = malloc(filter->size);
  if (program == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "filter");
  memcpy(program, filter->program, filter->size);
  gbx_bpf_replace(program, filter->size / sizeof *program, from, to);
  *ret_filter = (struct filter){.program = program, .size = filter->size};
  return 0;
}

/* The kernel gives a process one listener only: a container whose runtime looks
 * at system calls has it already, and ours is EBUSY. Whether that is so can
 * only be tried. */
static bool can_listen(const struct filter* filter) {
  pid_t pid = fork();
  if (pid == 0) {
    struct gbx_err err = {0};
    _exit(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
          filter_load(filter, SECCOMP_FILTER_FLAG_NEW_LISTENER, &err) < 0);
  }
  int status;
  /* Without a process to try it, the first box will say what is wrong. */
  if (pid < 0 || RETRY(waitpid(pid, &status, 0)) != pid) return true;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int filter_settle(struct filter* filter, bool* notify, struct gbx_err* err) {
  if (!*notify || can_listen(filter)) return 0;
  *notify = false;
  return filter_derive(filter, SECCOMP_RET_USER_NOTIF, SECCOMP_RET_KILL_PROCESS,
                       filter, err);
}
