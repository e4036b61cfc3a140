/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_HOSTILE_PROGRAMS_RUN_UNDER_H_
#define TEST_HOSTILE_PROGRAMS_RUN_UNDER_H_

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Becomes the program `argv` with a filter that it cannot take off. Returns an
 * exit code if that failed. */
static int run_under(const struct sock_fprog* filter, char** argv) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter) < 0) {
    perror("seccomp");
    return 2;
  }
  (void)execvp(argv[0], argv);
  perror(argv[0]);
  return 2;
}

#endif  // TEST_HOSTILE_PROGRAMS_RUN_UNDER_H_
