/* SPDX-License-Identifier: Apache-2.0 */

/* Lets another process execute an illegal instruction when it next runs on:
 *   crash PID */

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

static int fail(const char* step) {
  perror(step);
  return 1;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  pid_t pid = (pid_t)atoi(argv[1]);
  if (ptrace(PTRACE_ATTACH, pid, NULL, NULL) < 0) return fail("attach");
  if (waitpid(pid, NULL, __WALL) < 0) return fail("waitpid");
  struct user_regs_struct registers;
  struct iovec part = {&registers, sizeof registers};
  if (ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &part) < 0)
    return fail("getregset");
#ifdef __x86_64__
  void* next = (void*)registers.rip;
  long illegal = 0x0b0f; /* ud2 */
#else
  void* next = (void*)registers.pc;
  long illegal = 0; /* udf */
#endif
  if (ptrace(PTRACE_POKETEXT, pid, next, (void*)illegal) < 0)
    return fail("poke");
  if (ptrace(PTRACE_DETACH, pid, NULL, NULL) < 0) return fail("detach");
  return 0;
}
