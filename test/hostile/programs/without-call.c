/* SPDX-License-Identifier: Apache-2.0 */

/* Runs a program for which one system call fails: a kernel that does not have
 * it, or a container around us that forbids it.
 *
 *   without-call NUMBER ERRNO PROGRAM [ARGUMENT...] */

#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>

#include "run-under.h"

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  unsigned number = (unsigned)atoi(argv[1]);
  unsigned error = (unsigned)atoi(argv[2]);
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  return run_under(&program, argv + 3);
}
