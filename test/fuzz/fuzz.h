/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_FUZZ_FUZZ_H_
#define TEST_FUZZ_FUZZ_H_

/* A fuzz target is one function: it gives the input to the code under test and
 * CHECKs what must hold of any input. libFuzzer calls it (scripts/fuzz.js), or
 * replay_main.c with the inputs that were kept. */

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

/* Also for what only the machine can do wrong: a target that went on would
 * test nothing. */
#define CHECK(condition)                                                    \
  do {                                                                      \
    if (!(condition)) {                                                     \
      fprintf(stderr, "%s:%d: not so: %s (errno %d)\n", __FILE__, __LINE__, \
              #condition, errno);                                           \
      abort();                                                              \
    }                                                                       \
  } while (0)

/* Makes the sanitizer look at every byte. */
static inline void touch(const void* bytes, size_t size) {
  volatile uint8_t sum = 0;
  for (size_t i = 0; i < size; i++)
    sum = (uint8_t)(sum + ((const uint8_t*)bytes)[i]);
}

#endif  // TEST_FUZZ_FUZZ_H_
