/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "engine/internal.h"

static size_t measure(const char* const* list, uint32_t* ret_count) {
  size_t size = 0;
  for (*ret_count = 0; list[*ret_count] != NULL; ++*ret_count)
    size += strlen(list[*ret_count]) + 1;
  return size;
}

int gbx__exec_blob_make(const char* cwd, const char* const* argv,
                        const char* const* env, struct gbx_bytes* ret_blob) {
  struct gbx_exec_head head = {.magic = GBX_WIRE_MAGIC};
  size_t size = sizeof head + strlen(cwd) + 1;
  size += measure(argv, &head.argc);
  size += measure(env, &head.envc);
  char* blob = malloc(size);
  if (blob == NULL) return -ENOMEM;
  memcpy(blob, &head, sizeof head);
  char* at = stpcpy(blob + sizeof head, cwd) + 1;
  for (uint32_t i = 0; i < head.argc; i++)
    at = stpcpy(at, argv[i]) + 1;
  for (uint32_t i = 0; i < head.envc; i++)
    at = stpcpy(at, env[i]) + 1;
  *ret_blob = (struct gbx_bytes){blob, size};
  return 0;
}
