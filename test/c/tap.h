/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_C_TAP_H_
#define TEST_C_TAP_H_

/* The Test Anything Protocol, for one test program: ok() any number of times,
 * then `return done();` from main. */

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

static int tap_count;
static int tap_failed;

static inline void __attribute__((format(printf, 2, 0)))
tap_line(bool good, const char* format, va_list args, const char* directive) {
  tap_count++;
  if (!good) tap_failed++;
  printf("%sok %d - ", good ? "" : "not ", tap_count);
  (void)vprintf(format, args);
  printf("%s\n", directive);
  (void)fflush(stdout);
}

static inline void __attribute__((format(printf, 2, 3)))
ok(bool good, const char* format, ...) {
  va_list args;
  va_start(args, format);
  tap_line(good, format, args, "");
  va_end(args);
}

/* The line must say why. */
static inline void __attribute__((format(printf, 1, 2)))
skip(const char* format, ...) {
  va_list args;
  va_start(args, format);
  tap_line(true, format, args, " # SKIP");
  va_end(args);
}

static inline int done(void) {
  printf("1..%d\n", tap_count);
  return tap_failed == 0 && tap_count > 0 ? 0 : 1;
}

#endif  // TEST_C_TAP_H_
