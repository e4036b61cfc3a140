/* SPDX-License-Identifier: Apache-2.0 */

/* Times commands without Node in the way:
 *
 *   time-exec COUNT PAUSE_MS COMMAND [ARGUMENT...]
 *
 * starts COMMAND (an absolute path) COUNT times, one after the other, and
 * prints for each the microseconds from before the spawn to after the wait. A
 * command that fails ends it: the time of a failure says nothing.
 *
 * Everything here favours the command: posix_spawn does not copy this process,
 * and its output goes to /dev/null, where our own runs capture theirs. */

#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void pause_ms(long duration_ms) {
  struct timespec left = {.tv_sec = duration_ms / 1000,
                          .tv_nsec = duration_ms % 1000 * 1000000};
  nanosleep(&left, NULL);
}

/* Returns the nanoseconds taken, or -1 having said why. */
static int64_t time_once(char** argv, const posix_spawn_file_actions_t* to) {
  int64_t start_ns = now_ns();
  pid_t pid;
  int error = posix_spawn(&pid, argv[0], to, NULL, argv, environ);
  if (error != 0) {
    fprintf(stderr, "time-exec: %s: %s\n", argv[0], strerror(error));
    return -1;
  }
  int status;
  if (waitpid(pid, &status, 0) != pid || status != 0) {
    fprintf(stderr, "time-exec: %s: wait status 0x%x\n", argv[0],
            (unsigned)status);
    return -1;
  }
  return now_ns() - start_ns;
}

int main(int argc, char** argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: time-exec COUNT PAUSE_MS COMMAND [ARGUMENT...]\n");
    return 2;
  }
  long count = strtol(argv[1], NULL, 10);
  long duration_ms = strtol(argv[2], NULL, 10);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null",
                                   O_WRONLY, 0);
  for (long i = 0; i < count; i++) {
    if (duration_ms > 0) pause_ms(duration_ms);
    int64_t taken_ns = time_once(argv + 3, &actions);
    if (taken_ns < 0) return 1;
    printf("%.1f\n", (double)taken_ns / 1000);
  }
  posix_spawn_file_actions_destroy(&actions);
  return 0;
}
