/* SPDX-License-Identifier: Apache-2.0 */
// clang-format off
/* sources: src/common/wire.c src/common/error.c src/common/fd.c libs: */
// clang-format on

/* The payload's reader of the exec blob, and its search of PATH. The input is
 * the blob. execve() is replaced: it looks at its arguments and refuses. */

#include "exact_map.h"

static int refuse_execve(const char* path, char** argv, char** envp) {
  CHECK(argv[0] != NULL);
  touch(path, strlen(path) + 1);
  for (; *argv != NULL; argv++)
    touch(*argv, strlen(*argv) + 1);
  for (; *envp != NULL; envp++)
    touch(*envp, strlen(*envp) + 1);
  /* Both ways on: the search ends, or it does not. */
  errno = strlen(path) % 3 == 0 ? EACCES : ENOENT;
  return -1;
}

#define execve refuse_execve
/* In this order: the above redefine what program.c calls. */
#include "launcher/program.c"

static size_t count_strings(char** list) {
  size_t count = 0;
  while (list[count] != NULL)
    count++;
  return count;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  /* Each directory of PATH looks at all arguments. */
  if (size > 2048) return 0;
  struct gbx_err err = {0};
  struct program program = {0};
  int result = program_read(input_fd(data, size), &program, &err);
  CHECK((result == 0) == (err.code == GBX_OK));
  if (result == 0) {
    struct gbx_exec_head head;
    CHECK(size > sizeof head);
    memcpy(&head, data, sizeof head);
    CHECK(strcmp(program.cwd, (const char*)data + sizeof head) == 0);
    CHECK(count_strings(program.argv) == head.argc);
    CHECK(count_strings(program.envp) == head.envc);
    int why = program_execute(&program);
    CHECK(why == ENOENT || why == EACCES);
  }
  exact_unmap_all();
  return 0;
}
