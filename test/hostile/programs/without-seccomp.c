/* SPDX-License-Identifier: Apache-2.0 */

/* Runs a program where seccomp(2) with a certain operation, and one of certain
 * flags set, fails: what an old kernel does, or a container around us.
 *
 *   without-seccomp OPERATION FLAGS ERRNO PROGRAM [ARGUMENT...]
 *
 * OPERATION -1 is all of them; FLAGS 0 does not look at flags. */

#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "run-under.h"

#define LOAD(field) \
  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define SKIP_UNLESS(test, value, count) \
  BPF_JUMP(BPF_JMP | (test) | BPF_K, (unsigned)(value), 0, count)

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  int operation = atoi(argv[1]);
  int flags = atoi(argv[2]);
  unsigned error = (unsigned)atoi(argv[3]);
  struct sock_filter code[] = {
      LOAD(nr),
      SKIP_UNLESS(BPF_JEQ, SYS_seccomp, 5),
      LOAD(args[0]),
      SKIP_UNLESS(BPF_JEQ, operation, operation < 0 ? 0 : 3),
      LOAD(args[1]),
      SKIP_UNLESS(BPF_JSET, flags, flags == 0 ? 0 : 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  return run_under(&program, argv + 4);
}
