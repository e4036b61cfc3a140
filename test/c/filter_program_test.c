/* SPDX-License-Identifier: Apache-2.0 */
// clang-format off
/* sources: src/engine/filter_program.c src/common/error.c src/common/fd.c src/common/bpf.c */
// clang-format on

/* Made-up policies, written as programs and run in an interpreter, against the
 * same policies looked up one rule after the other. Some are long enough for
 * jumps that no branch can make. */

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/bpf.h"
#include "engine/filter_program.h"
#include "expect.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

#define VERDICTS 5
static const uint32_t actions[VERDICTS] = {
    SECCOMP_RET_ALLOW,         SECCOMP_RET_KILL_PROCESS,
    SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ERRNO | ENOSYS,
    SECCOMP_RET_ALLOW, /* two verdicts of one action */
};

/* Few enough that tests repeat, contradict and overlap each other. */
static const uint32_t values[] = {0, 1, 2, 10, 0x80, 0x401, 0xffffffff};
static const uint32_t masks[] = {0xffffffff, 0xf, 0xffff, 0x80000000};

#define SETS_MAX 32
static struct gbx__filter_rule rules[SETS_MAX + 1][GBX__FILTER_RULES_MAX];
static struct gbx__filter_policy policy;
static struct sock_filter* program;
static size_t length;

/* ---- Making ------------------------------------------------------------- */

/* xorshift64: the same sequence in each run. */
static uint64_t state = 0x9e3779b97f4a7c15;

static uint64_t random_below(uint64_t end) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (state >> 11) % end;
}

static uint32_t random_word(void) {
  size_t index = random_below(4);
  return (uint32_t)(offsetof(struct seccomp_data, args) + index * 4);
}

static struct gbx__filter_test random_test(void) {
  uint32_t mask = masks[random_below(ARRAY_SIZE(masks))];
  uint32_t value = values[random_below(ARRAY_SIZE(values))];
  switch (random_below(4)) {
    case 0:
      return (struct gbx__filter_test){GBX__FILTER_ANY, random_word(), mask, 0};
    case 1:
      return (struct gbx__filter_test){GBX__FILTER_BELOW, random_word(),
                                       0xffffffff, value};
    default:
      return (struct gbx__filter_test){GBX__FILTER_EQUAL, random_word(), mask,
                                       value & mask};
  }
}

/* Half of the rules begin as the one before them does. */
static void make_rules(struct gbx__filter_rule* list, size_t count) {
  for (size_t i = 0; i < count; i++) {
    bool follows = i > 0 && random_below(2) == 0;
    list[i] = follows ? list[i - 1] : (struct gbx__filter_rule){0};
    list[i].verdict = (unsigned)random_below(VERDICTS);
    bool is_always = random_below(32) == 0;
    size_t last = is_always ? 0 : 1 + random_below(GBX__FILTER_TESTS);
    if (is_always) list[i].test[0].compare = GBX__FILTER_NOTHING;
    for (size_t at = follows ? 1 : 0; at < GBX__FILTER_TESTS; at++)
      list[i].test[at] =
          at < last ? random_test() : (struct gbx__filter_test){0};
  }
}

static void make_policy(size_t set_count, size_t rule_count) {
  policy = (struct gbx__filter_policy){
      .actions = actions,
      .arch = AUDIT_ARCH_X86_64,
      .has_x32 = random_below(2) == 0,
      .foreign = (unsigned)random_below(VERDICTS),
      .otherwise = (unsigned)random_below(VERDICTS),
  };
  for (size_t i = 0; i < set_count; i++)
    make_rules(rules[i], rule_count);
  size_t next_set = 0;
  struct gbx__filter_call call = {.verdict = policy.otherwise};
  for (size_t number = 0; number < GBX__FILTER_CALLS; number++) {
    bool has_end = number < 470;
    if (!has_end)
      call = (struct gbx__filter_call){.verdict = policy.otherwise};
    else if (random_below(8) == 0 && next_set < set_count)
      call = (struct gbx__filter_call){.rules = rules[next_set++],
                                       .rule_count = rule_count};
    else if (random_below(4) == 0)
      call = (struct gbx__filter_call){.verdict = random_below(VERDICTS)};
    policy.calls[number] = call;
  }
}

static int write_policy(struct gbx_err* err) {
  uint8_t* bytes = NULL;
  size_t size = 0;
  int result = gbx__filter_write(&policy, &bytes, &size, err);
  free(program);
  program = (struct sock_filter*)(void*)bytes;
  length = size / sizeof *program;
  return result;
}

/* ---- Looking up --------------------------------------------------------- */

static bool holds(const struct gbx__filter_test* test,
                  const struct seccomp_data* data) {
  uint32_t word;
  memcpy(&word, (const uint8_t*)data + test->word, sizeof word);
  switch (test->compare) {
    case GBX__FILTER_EQUAL:
      return (word & test->mask) == test->value;
    case GBX__FILTER_ANY:
      return (word & test->mask) != 0;
    case GBX__FILTER_BELOW:
      return word < test->value;
    case GBX__FILTER_NOTHING:
      break;
  }
  return true;
}

static unsigned look_up(const struct seccomp_data* data) {
  uint32_t number = (uint32_t)data->nr;
  bool is_x32 = number >= 0x40000000 && data->nr != -1;
  if (data->arch != policy.arch || (is_x32 && policy.has_x32))
    return policy.foreign;
  if (number >= GBX__FILTER_CALLS) return policy.otherwise;
  const struct gbx__filter_call* call = &policy.calls[number];
  if (call->rules == NULL) return call->verdict;
  for (size_t i = 0; i < call->rule_count; i++) {
    const struct gbx__filter_rule* rule = &call->rules[i];
    bool all = true;
    for (size_t at = 0; at < GBX__FILTER_TESTS; at++) {
      if (rule->test[at].compare == GBX__FILTER_NOTHING) break;
      all = all && holds(&rule->test[at], data);
    }
    if (all) return rule->verdict;
  }
  return policy.otherwise;
}

/* ---- Comparing ---------------------------------------------------------- */

static int random_number(void) {
  static const uint32_t strange[] = {
      GBX__FILTER_CALLS - 1,
      GBX__FILTER_CALLS,
      0x3fffffff,
      0x40000000,
      0x400001ff,
      0x7fffffff,
      0x80000000,
      0xfffffffe,
      0xffffffff,
  };
  if (random_below(8) != 0) return (int)random_below(480);
  return (int)strange[random_below(ARRAY_SIZE(strange))];
}

static bool says_the_same(void) {
  struct seccomp_data data = {
      .nr = random_number(),
      .arch = random_below(16) != 0 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_I386,
  };
  for (size_t i = 0; i < 3; i++) {
    uint64_t low = values[random_below(ARRAY_SIZE(values))];
    uint64_t high = values[random_below(ARRAY_SIZE(values))];
    data.args[i] = (high << 32 | low) ^ random_below(4);
  }
  uint32_t got = 0;
  uint32_t wanted = actions[look_up(&data)];
  int steps = gbx_bpf_run(program, length, &data, &got);
  if (steps > 0 && got == wanted) return true;
  printf("# call %d of arch 0x%x (%#llx, %#llx): %#x, not %#x\n", data.nr,
         data.arch, (unsigned long long)data.args[0],
         (unsigned long long)data.args[1], got, wanted);
  return false;
}

static size_t count_jumps(void) {
  size_t count = 0;
  for (size_t i = 0; i < length; i++)
    if (program[i].code == (BPF_JMP | BPF_JA) && program[i].k > 255) count++;
  return count;
}

static void test_random_policies(void) {
  size_t longest = 0;
  size_t jumps = 0;
  int wrong = 0;
  for (int i = 0; i < 300; i++) {
    make_policy(random_below(30), 1 + random_below(16));
    EXPECT(write_policy(NULL) == 0);
    for (int j = 0; j < 3000 && wrong < 5; j++)
      wrong += !says_the_same();
    if (length > longest) longest = length;
    jumps += count_jumps();
  }
  printf("# at most %zu instructions, %zu jumps over more than 255\n", longest,
         jumps);
  EXPECT(wrong == 0);
  EXPECT(jumps > 100);
}

/* ---- Size --------------------------------------------------------------- */

static void test_ranges(void) {
  policy = (struct gbx__filter_policy){.actions = actions,
                                       .arch = AUDIT_ARCH_X86_64,
                                       .foreign = 1,
                                       .otherwise = 3};
  for (size_t number = 0; number < GBX__FILTER_CALLS; number++)
    policy.calls[number].verdict = number < 400 ? 0 : 3;
  EXPECT(write_policy(NULL) == 0);
  /* Two loads, two comparisons, three answers. */
  EXPECT(length == 7);
  policy.calls[7].verdict = 1;
  EXPECT(write_policy(NULL) == 0);
  EXPECT(length == 8);
}

/* The same rules for many calls are there once. */
static void test_shared_rules(void) {
  make_policy(0, 0);
  make_rules(rules[0], GBX__FILTER_RULES_MAX);
  const struct gbx__filter_call call = {.rules = rules[0],
                                        .rule_count = GBX__FILTER_RULES_MAX};
  policy.calls[0] = call;
  EXPECT(write_policy(NULL) == 0);
  size_t once = length;
  for (size_t number = 100; number < 200; number += 10)
    policy.calls[number] = call;
  EXPECT(write_policy(NULL) == 0);
  EXPECT(length < once + 60);
}

/* No two of them have a test in common. */
static void fill_rules(struct gbx__filter_rule* list) {
  for (uint32_t i = 0; i < GBX__FILTER_RULES_MAX; i++)
    for (uint32_t at = 0; at < GBX__FILTER_TESTS; at++)
      list[i].test[at] = (struct gbx__filter_test){
          GBX__FILTER_EQUAL,
          (uint32_t)offsetof(struct seccomp_data, args) + at * 4, 0xffffffff,
          i};
}

static void test_too_long(void) {
  make_policy(0, 0);
  for (size_t i = 0; i <= SETS_MAX; i++) {
    make_rules(rules[i], 1);
    policy.calls[2 * i] =
        (struct gbx__filter_call){.rules = rules[i], .rule_count = 1};
  }
  struct gbx_err err = {0};
  EXPECT(write_policy(&err) == -E2BIG && err.code == GBX_E_START);
  EXPECT(program == NULL);
  policy.calls[2 * SETS_MAX] = (struct gbx__filter_call){.verdict = 0};
  EXPECT(write_policy(&err) == 0);
  for (size_t i = 0; i < SETS_MAX; i++) {
    fill_rules(rules[i]);
    policy.calls[2 * i].rule_count = GBX__FILTER_RULES_MAX;
  }
  EXPECT(write_policy(&err) == -E2BIG);
}

int main(void) {
  run_test("300 random policies say what their tables say",
           test_random_policies);
  run_test("numbers with one verdict are one range", test_ranges);
  run_test("rules that calls share are written once", test_shared_rules);
  run_test("what has too many rules is refused", test_too_long);
  free(program);
  return done();
}
