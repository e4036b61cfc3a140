/* SPDX-License-Identifier: Apache-2.0 */

/* Makes one system call by number and prints what came of it: the result, or -1
 * and the errno's number.
 *
 *   call NUMBER [ARGUMENT...]
 *
 * An argument is a number, or
 *   s:TEXT   a pointer to TEXT
 *   z:SIZE   a pointer to SIZE zero bytes
 *   o:PATH   a descriptor: PATH opened for reading
 *   p:PID    a descriptor: the pidfd of PID
 * What a call leaves behind as a new process exits at once. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PIDFD_OPEN 434

static long parse(const char* text) {
  long value = -1;
  if (strncmp(text, "s:", 2) == 0) return (long)(text + 2);
  if (strncmp(text, "z:", 2) == 0)
    value = (long)calloc(1, atol(text + 2));
  else if (strncmp(text, "o:", 2) == 0)
    value = open(text + 2, O_RDONLY);
  else if (strncmp(text, "p:", 2) == 0)
    value = syscall(PIDFD_OPEN, atol(text + 2), 0);
  else
    return (long)strtoull(text, NULL, 0);
  if (value > 0) return value;
  perror(text);
  exit(2);
}

int main(int argc, char** argv) {
  long arguments[7] = {0};
  for (int i = 1; i < argc && i <= 7; i++)
    arguments[i - 1] = parse(argv[i]);
  pid_t self = getpid();
  long result = syscall(arguments[0], arguments[1], arguments[2], arguments[3],
                        arguments[4], arguments[5], arguments[6]);
  int error = errno;
  if (getpid() != self) _exit(0);
  printf("%ld %d\n", result, result == -1 ? error : 0);
  return 0;
}
