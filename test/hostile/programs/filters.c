/* SPDX-License-Identifier: Apache-2.0 */

/* Stacks seccomp filters of its own and then makes a call.
 *
 *   filters allow NUMBER     one filter that allows everything
 *   filters many NUMBER      as many as the kernel takes
 *   filters errno NUMBER     one that answers NUMBER with EXDEV
 *   filters listener FLAGS   asks for a listener, with further FLAGS */

#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static long add(struct sock_filter* code, size_t length, unsigned long flags) {
  struct sock_fprog program = {(unsigned short)length, code};
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

static long add_allow(unsigned long flags) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  return add(code, COUNT(code), flags);
}

/* As long as one may be: the kernel counts the instructions of all. */
static long add_long(void) {
  static struct sock_filter code[BPF_MAXINSNS];
  for (size_t i = 0; i + 1 < COUNT(code); i++)
    code[i] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_IMM, 0);
  code[COUNT(code) - 1] =
      (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  return add(code, COUNT(code), 0);
}

static long add_errno(long number) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EXDEV),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  return add(code, COUNT(code), 0);
}

int main(int argc, char** argv) {
  if (argc != 3 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return 2;
  if (strcmp(argv[1], "listener") == 0) {
    unsigned long flags = strtoul(argv[2], NULL, 0);
    long result = add_allow(SECCOMP_FILTER_FLAG_NEW_LISTENER | flags);
    printf("%ld %d\n", result, result < 0 ? errno : 0);
    return 0;
  }
  long number = atol(argv[2]);
  if (strcmp(argv[1], "many") == 0) {
    int count = 0;
    while (add_long() == 0)
      count++;
    printf("%d filters, then %d\n", count, errno);
  } else if ((strcmp(argv[1], "errno") == 0 ? add_errno(number)
                                            : add_allow(0)) < 0) {
    printf("no filter: %d\n", errno);
    return 2;
  }
  (void)fflush(stdout);
  long result = syscall(number, -1, -1, -1, -1, -1, -1);
  printf("%ld %d\n", result, result < 0 ? errno : 0);
  return 0;
}
