/* SPDX-License-Identifier: Apache-2.0 */

/* Runs a program whose system calls somebody could listen to: what a container
 * runtime does that answers some of them itself. The kernel then gives no
 * listener to anybody further in.
 *
 *   listened PROGRAM [ARGUMENT...] */

#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char** argv) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {1, code};
  if (argc < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
              SECCOMP_FILTER_FLAG_NEW_LISTENER, &program) < 0) {
    perror("listener");
    return 2;
  }
  /* It is close-on-exec, and without it there would be nobody to listen. */
  pid_t parent = getpid();
  if (fork() == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    while (getppid() == parent)
      (void)pause();
    _exit(0);
  }
  (void)execvp(argv[1], argv + 1);
  perror(argv[1]);
  return 2;
}
