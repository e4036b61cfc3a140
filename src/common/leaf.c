/* SPDX-License-Identifier: Apache-2.0 */
#include "common/leaf.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fd.h"

#define TEXT_MAX 1024

static bool read_text(int fd, char text[TEXT_MAX]) {
  ssize_t size = RETRY(pread(fd, text, TEXT_MAX - 1, 0));
  if (size <= 0) return false;
  text[size] = '\0';
  return true;
}

static bool find_number(const char* text, const char* key,
                        uint64_t* ret_number) {
  const char* at = strstr(text, key);
  if (at == NULL) return false;
  *ret_number = strtoull(at + strlen(key), NULL, 10);
  return true;
}

bool gbx_leaf_read_counter(int fd, const char* key, uint64_t* ret_count) {
  char text[TEXT_MAX];
  return read_text(fd, text) && find_number(text, key, ret_count);
}

void gbx_leaf_read_usage(const int fd[GBX_LEAF_FDS],
                         struct gbx_wire_usage* usage) {
  char text[TEXT_MAX];
  uint64_t nanoseconds;
  bool has_time = read_text(fd[GBX_LEAF_CPU_USAGE], text);
  if (has_time && find_number(text, "usage_usec ", &usage->cpu_us))
    usage->has_cpu_split =
        find_number(text, "user_usec ", &usage->cpu_user_us) &&
        find_number(text, "system_usec ", &usage->cpu_system_us);
  else if (has_time && find_number(text, "", &nanoseconds))
    usage->cpu_us = nanoseconds / 1000;
  (void)gbx_leaf_read_counter(fd[GBX_LEAF_MAX_USAGE], "",
                              &usage->max_memory_bytes);
  /* One of them is init. */
  if (gbx_leaf_read_counter(fd[GBX_LEAF_MAX_PIDS], "", &usage->max_pids) &&
      usage->max_pids > 0)
    usage->max_pids--;
}

bool gbx_leaf_set_peak_back(const int fd[GBX_LEAF_FDS]) {
  return RETRY(pwrite(fd[GBX_LEAF_MAX_USAGE], "0", 1, 0)) == 1;
}
