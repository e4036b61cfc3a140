/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_ENGINE_FILTER_PROGRAM_H_
#define SRC_ENGINE_FILTER_PROGRAM_H_

/* Writes the program of a seccomp filter: which call gets which action, as
 * instructions for the kernel.
 *
 * Whenever a process loads it, which is once or twice a box, the kernel
 * translates each instruction, and runs the program for each number that it
 * knows. So what counts is how many instructions there are, and how soon a
 * number has its answer. Numbers with the same answer are one range, ranges are
 * found by halving, and calls with the same rules share what was written for
 * them. libseccomp's binary tree has a branch for each number: five times as
 * many instructions, and three times as long to load. */

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* ---- Rules about arguments ---------------------------------------------- */

enum gbx__filter_compare {
  GBX__FILTER_NOTHING,
  GBX__FILTER_EQUAL, /* (word & mask) == value */
  GBX__FILTER_ANY,   /* (word & mask) != 0 */
  GBX__FILTER_BELOW, /* word < value */
};

/* One condition. A word is half an argument: where the kernel takes an int, a
 * comparison of all 64 bits does not see 40 in 40 | 1<<32, and the kernel does.
 */
struct gbx__filter_test {
  enum gbx__filter_compare compare;
  uint32_t word; /* offset in struct seccomp_data */
  uint32_t mask;
  uint32_t value;
};

#define GBX__FILTER_TESTS 3

/* All tests must hold; NOTHING and what comes after it does not count. */
struct gbx__filter_rule {
  unsigned verdict; /* index of gbx__filter_policy.actions */
  struct gbx__filter_test test[GBX__FILTER_TESTS];
};

#define GBX__FILTER_RULES_MAX 32

/* ---- Policies ----------------------------------------------------------- */

/* What one number gets: `verdict`, or what the first of the rules says that
 * holds, and the policy's `otherwise` where none does. */
struct gbx__filter_call {
  unsigned verdict;
  const struct gbx__filter_rule* rules; /* or NULL */
  size_t rule_count;
};

/* All architectures number below. */
#define GBX__FILTER_CALLS 1024

struct gbx__filter_policy {
  const uint32_t* actions; /* SECCOMP_RET_... by verdict */
  uint32_t arch;           /* AUDIT_ARCH_... */
  bool has_x32;            /* what has its bit is foreign */
  unsigned foreign;        /* verdict of calls of other architectures */
  unsigned otherwise;      /* verdict of numbers beyond `calls`, and of -1 */
  struct gbx__filter_call calls[GBX__FILTER_CALLS];
};

/* An array of struct sock_filter, to be freed with free(); *ret_size is in
 * bytes. GBX_E_NO_MEMORY. GBX_E_START: longer than any policy of ours. */
int gbx__filter_write(const struct gbx__filter_policy* policy,
                      uint8_t** ret_program, size_t* ret_size,
                      struct gbx_err* err);

#endif  // SRC_ENGINE_FILTER_PROGRAM_H_
