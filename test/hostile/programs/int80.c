/* SPDX-License-Identifier: Apache-2.0 */

/* Makes a system call by the i386 entry. `socketcall` shows the arguments that
 * it takes: in memory, below 4 GiB.
 *
 *   int80 NUMBER */

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define SOCKETCALL        102
#define SOCKETCALL_SOCKET 1
#define AF_ALG            38
#define SOCK_SEQPACKET    5

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  long number = atol(argv[1]);
  unsigned* memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  if (memory == MAP_FAILED) return 2;
  memory[0] = AF_ALG;
  memory[1] = SOCK_SEQPACKET;
  unsigned first = number == SOCKETCALL ? SOCKETCALL_SOCKET : 0;
  unsigned second = number == SOCKETCALL ? (unsigned)(size_t)memory : 0;
  int result;
  __asm__ volatile("int $0x80"
                   : "=a"(result)
                   : "a"((int)number), "b"(first), "c"(second), "d"(0), "S"(0),
                     "D"(0)
                   : "memory", "r8", "r9", "r10", "r11");
  printf("%d\n", result);
  return 0;
}
