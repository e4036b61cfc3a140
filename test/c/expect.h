/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_C_EXPECT_H_
#define TEST_C_EXPECT_H_

/* Tests that are functions and expect many things for one line of TAP.
 *
 *   static void test_adds(void) { EXPECT(1 + 1 == 2); }
 *   int main(void) {
 *     run_test("1 and 1 make 2", test_adds);
 *     return done();
 *   }
 */

#include "tap.h"

static bool test_failed;         /* the running test */
static const char* test_skipped; /* why it could not be made */

#define EXPECT(condition) expect((condition), #condition, __FILE__, __LINE__)

static inline void expect(bool condition, const char* text, const char* file,
                          int line) {
  if (condition) return;
  test_failed = true;
  printf("# %s:%d: not so: %s\n", file, line, text);
}

static inline void run_test(const char* title, void (*test)(void)) {
  test_failed = false;
  test_skipped = NULL;
  test();
  if (test_skipped != NULL && !test_failed)
    skip("%s: %s", title, test_skipped);
  else
    ok(!test_failed, "%s", title);
}

#endif  // TEST_C_EXPECT_H_
