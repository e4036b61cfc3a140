/* SPDX-License-Identifier: Apache-2.0 */

/* Tries a forbidden call over and over while signals interrupt it: a timer
 * every millisecond, and with "storm" a sibling that sends as fast as it can.
 * A call that waits for a verdict is taken back by a signal and starts anew.
 * Should one succeed, or end with an errno of the kernel's own, it is printed.
 *
 *   signals NUMBER COUNT [storm] */

#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

static void ignore(int number) {
  (void)number;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  long number = atol(argv[1]);
  long count = atol(argv[2]);
  /* Without SA_RESTART the call comes back with EINTR. */
  struct sigaction action = {.sa_handler = ignore};
  if (sigaction(SIGALRM, &action, NULL) < 0) return 2;
  struct itimerval each = {{0, 1000}, {0, 1000}};
  if (setitimer(ITIMER_REAL, &each, NULL) < 0) return 2;
  pid_t self = getpid();
  if (argc > 3 && fork() == 0)
    for (;;)
      if (kill(self, SIGALRM) < 0) _exit(0);
  puts("begin");
  (void)fflush(stdout);
  for (long i = 0; i < count; i++) {
    long result = syscall(number, -1, -1, -1, -1, -1, -1);
    if (result == -1 && errno == EINTR) continue;
    printf("returned %ld %d\n", result, errno);
    (void)fflush(stdout);
    return 1;
  }
  puts("end");
  return 0;
}
