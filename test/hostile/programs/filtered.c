/* SPDX-License-Identifier: Apache-2.0 */

/* Starts a program behind a filter of system calls, as a container or a service
 * manager does.
 *
 *   filtered ERRNO RULE... -- PROGRAM [ARGUMENT...]
 *
 * ERRNO 0 kills instead. A RULE is NUMBER for every such call, NUMBER&MASK for
 * those whose first argument has a bit of MASK, NUMBER=VALUE for those whose
 * first argument is VALUE. */

#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static struct sock_filter code[512];
static unsigned short length;

static void add(unsigned short operation, unsigned char yes, unsigned char no,
                unsigned value) {
  code[length++] = (struct sock_filter)BPF_JUMP(operation, value, yes, no);
}

static void add_rule(const char* rule, unsigned verdict) {
  char* end;
  unsigned number = (unsigned)strtoul(rule, &end, 0);
  add(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
  if (*end == '\0') {
    add(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, number);
  } else {
    unsigned value = (unsigned)strtoul(end + 1, NULL, 0);
    add(BPF_JMP | BPF_JEQ | BPF_K, 0, 3, number);
    add(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, args));
    add(BPF_JMP | (*end == '&' ? BPF_JSET : BPF_JEQ) | BPF_K, 0, 1, value);
  }
  add(BPF_RET | BPF_K, 0, 0, verdict);
}

int main(int argc, char** argv) {
  int at = 2;
  unsigned error = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
  unsigned verdict =
      error == 0 ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | error;
  for (; at < argc && strcmp(argv[at], "--") != 0; at++)
    add_rule(argv[at], verdict);
  add(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {length, code};
  if (at + 1 >= argc || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0) {
    perror("filtered");
    return 2;
  }
  (void)execvp(argv[at + 1], argv + at + 1);
  perror(argv[at + 1]);
  return 127;
}
