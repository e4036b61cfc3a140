/* SPDX-License-Identifier: Apache-2.0 */

/* An addon of Node's that does to its process what another addon of the same
 * program might do. The environment variable DISTURB says what:
 *
 *   interrupt  a signal every millisecond in every thread, whose handler does
 *              not ask for calls to be restarted
 *   ignore     SIGCHLD is ignored, so that the kernel reaps every child
 *   reap       a thread that waits for every child that there is
 *
 * Environment variable DISTURB_COUNT is a file that holds the number of signals
 * that were handled, or of children that were reaped, as a native int. */

#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static _Atomic int* count;

static void on_signal(int number) {
  (void)number;
  (*count)++;
}

static void* interrupt(void* argument) {
  (void)argument;
  pid_t own = (pid_t)syscall(SYS_gettid);
  for (;;) {
    DIR* dir = opendir("/proc/self/task");
    const struct dirent* entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
      int thread = atoi(entry->d_name);
      if (thread > 0 && thread != own)
        (void)syscall(SYS_tgkill, getpid(), thread, SIGALRM);
    }
    if (dir != NULL) (void)closedir(dir);
    (void)usleep(1000);
  }
  return NULL;
}

static void* reap(void* argument) {
  (void)argument;
  /* One at least is its own: it counts that, so that it is seen to wait. */
  if (fork() == 0) _exit(0);
  for (;;) {
    if (waitpid(-1, NULL, __WALL) > 0)
      (*count)++;
    else
      (void)usleep(100);
  }
  return NULL;
}

__attribute__((visibility("default"))) void* napi_register_module_v1(
    void* env, void* exports);

void* napi_register_module_v1(void* env, void* exports) {
  (void)env;
  const char* what = getenv("DISTURB");
  int fd = open(getenv("DISTURB_COUNT"), O_RDWR | O_CLOEXEC);
  count = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  (void)close(fd);
  if (what == NULL || count == MAP_FAILED) abort();
  pthread_t thread;
  if (strcmp(what, "interrupt") == 0) {
    struct sigaction action = {.sa_handler = on_signal};
    (void)sigaction(SIGALRM, &action, NULL);
    (void)pthread_create(&thread, NULL, interrupt, NULL);
  } else if (strcmp(what, "ignore") == 0) {
    (void)signal(SIGCHLD, SIG_IGN);
  } else if (strcmp(what, "reap") == 0) {
    (void)pthread_create(&thread, NULL, reap, NULL);
  }
  return exports;
}
