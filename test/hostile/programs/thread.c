/* SPDX-License-Identifier: Apache-2.0 */

/* A second thread makes a system call while the main thread sleeps, or, with
 * "exec", executes another program at the same moment.
 *
 *   thread NUMBER [exec] */

#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void* call(void* number) {
  (void)syscall(*(long*)number, -1, -1, -1, -1, -1, -1);
  puts("the call returned");
  (void)fflush(stdout);
  return NULL;
}

int main(int argc, char** argv) {
  long number = atol(argv[1]);
  pthread_t thread;
  if (pthread_create(&thread, NULL, call, &number) != 0) return 2;
  if (argc > 2) (void)execlp("true", "true", (char*)NULL);
  (void)sleep(1000);
  return 0;
}
