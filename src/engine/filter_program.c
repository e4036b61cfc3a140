/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/filter_program.h"

#include <errno.h>
#include <linux/filter.h>
#include <stdlib.h>
#include <string.h>

#include "common/fd.h"

#define ALL_BITS 0xffffffffu

/* A number with this bit is a call of the x32 interface; -1, which has it too,
 * is how a tracer skips a call. */
#define X32_BIT 0x40000000u
#define SKIPPED 0xffffffffu

/* About as many numbers as a kernel has: those beyond are not tried. */
#define KERNEL_CALLS 480

/* In a group: one more is one comparison more for each number of it, and a few
 * instructions less. With 2 to 6 loading takes the least. */
#define OTHERS_MAX 4

/* How many instructions a branch can lead over is 255; one of them may be the
 * jump that its other side needs. */
#define REACH 250

#define LENGTH_MAX 2048
#define RANGES_MAX (GBX__FILTER_CALLS + 3)
/* Sets of rules, each for one or more calls. */
#define SETS_MAX 32

/* What is about to be loaded, or lies in the accumulator. */
struct load {
  uint32_t word;
  uint32_t mask;
};

/* Where a rule's test was written: 0 is nowhere. */
struct place {
  unsigned loaded; /* for who has loaded what it compares */
  unsigned bare;
};

struct range {
  uint32_t first; /* it ends before the next one's */
  struct gbx__filter_call call;
};

/* Ranges with the answer of the first one, and between them a few numbers that
 * have others. */
struct group {
  size_t first_range, last_range;
};

/* Jumps lead forward only, so a program is written from its end: what is jumped
 * to is there already. A label is the number of instructions from there on. */
struct writer {
  const struct gbx__filter_policy* policy;
  struct sock_filter reversed[LENGTH_MAX];
  unsigned length;
  bool too_long;

  struct {
    const struct gbx__filter_rule* rules;
    unsigned label;
  } sets[SETS_MAX];
  size_t set_count;
  /* Of the set that is being written. */
  struct place places[GBX__FILTER_RULES_MAX][GBX__FILTER_TESTS];

  struct range ranges[RANGES_MAX];
  size_t range_count;
  struct group groups[RANGES_MAX];
  size_t group_count;
};

/* ---- Instructions ------------------------------------------------------- */

static unsigned put(struct writer* writer, unsigned code, unsigned yes,
                    unsigned no, uint32_t k) {
  if (writer->length == LENGTH_MAX) {
    writer->too_long = true;
    return writer->length;
  }
  writer->reversed[writer->length++] =
      (struct sock_filter){(uint16_t)code, (uint8_t)yes, (uint8_t)no, k};
  return writer->length;
}

/* How many instructions lie between what is put next and `label`. */
static unsigned distance(const struct writer* writer, unsigned label) {
  return writer->length - label;
}

static unsigned put_jump(struct writer* writer, unsigned label) {
  return put(writer, BPF_JMP | BPF_JA, 0, 0, distance(writer, label));
}

static unsigned put_branch(struct writer* writer, unsigned compare,
                           uint32_t value, unsigned yes, unsigned no) {
  if (distance(writer, yes) > REACH) yes = put_jump(writer, yes);
  if (distance(writer, no) > REACH) no = put_jump(writer, no);
  return put(writer, BPF_JMP | compare | BPF_K, distance(writer, yes),
             distance(writer, no), value);
}

/* In front of `label`. */
static unsigned put_load(struct writer* writer, struct load load,
                         unsigned label) {
  if (distance(writer, label) != 0) (void)put_jump(writer, label);
  if (load.mask != ALL_BITS)
    (void)put(writer, BPF_ALU | BPF_AND | BPF_K, 0, 0, load.mask);
  return put(writer, BPF_LD | BPF_W | BPF_ABS, 0, 0, load.word);
}

/* The nearest return of this verdict; a new one if none is within reach. */
static unsigned put_verdict(struct writer* writer, unsigned verdict) {
  const uint32_t action = writer->policy->actions[verdict];
  for (unsigned label = writer->length; label > 0; label--) {
    const struct sock_filter* step = &writer->reversed[label - 1];
    if (distance(writer, label) > REACH) break;
    if (step->code == (BPF_RET | BPF_K) && step->k == action) return label;
  }
  return put(writer, BPF_RET | BPF_K, 0, 0, action);
}

/* ---- Rules -------------------------------------------------------------- */

static bool is_same(const struct gbx__filter_test* left,
                    const struct gbx__filter_test* right) {
  return left->compare == right->compare && left->word == right->word &&
         left->mask == right->mask && left->value == right->value;
}

/* Whether one of them at most can hold. */
static bool exclude_each_other(const struct gbx__filter_test* left,
                               const struct gbx__filter_test* right) {
  return left->compare == GBX__FILTER_EQUAL &&
         right->compare == GBX__FILTER_EQUAL && left->word == right->word &&
         left->mask == right->mask && left->value != right->value;
}

static bool asks_for_no_bit(const struct gbx__filter_test* test) {
  return test->compare == GBX__FILTER_EQUAL && test->value == 0 &&
         test->mask != ALL_BITS;
}

/* BPF has an instruction for "any of these bits", which needs no masking. */
static struct load load_of(const struct gbx__filter_test* test) {
  bool is_masked = test->compare == GBX__FILTER_EQUAL && !asks_for_no_bit(test);
  return (struct load){test->word, is_masked ? test->mask : ALL_BITS};
}

static unsigned put_test(struct writer* writer,
                         const struct gbx__filter_test* test, unsigned yes,
                         unsigned no) {
  if (test->compare == GBX__FILTER_BELOW)
    return put_branch(writer, BPF_JGE, test->value, no, yes);
  if (test->compare == GBX__FILTER_ANY)
    return put_branch(writer, BPF_JSET, test->mask, yes, no);
  if (asks_for_no_bit(test))
    return put_branch(writer, BPF_JSET, test->mask, no, yes);
  return put_branch(writer, BPF_JEQ, test->value, yes, no);
}

static bool is_last(const struct gbx__filter_rule* rule, size_t at) {
  return at == GBX__FILTER_TESTS ||
         rule->test[at].compare == GBX__FILTER_NOTHING;
}

/* Whether `rule` cannot hold where the first `at` tests of `tried` do, and the
 * next one does not. */
static bool is_ruled_out(const struct gbx__filter_rule* rule,
                         const struct gbx__filter_rule* tried, size_t at) {
  for (size_t i = 0; !is_last(rule, i); i++) {
    if (is_same(&rule->test[i], &tried->test[at])) return true;
    for (size_t known = 0; known < at; known++)
      if (exclude_each_other(&rule->test[i], &tried->test[known])) return true;
  }
  return false;
}

static unsigned put_rule(struct writer* writer,
                         const struct gbx__filter_call* call, size_t index,
                         size_t at, const struct load* held);

/* What comes after test `at` of a rule has failed: the next rule that can still
 * hold, from its first test on whose answer is not known. */
static unsigned put_next_rule(struct writer* writer,
                              const struct gbx__filter_call* call, size_t index,
                              size_t at) {
  const struct gbx__filter_rule* tried = &call->rules[index];
  const struct load held = load_of(&tried->test[at]);
  for (size_t next = index + 1; next < call->rule_count; next++) {
    const struct gbx__filter_rule* rule = &call->rules[next];
    if (is_ruled_out(rule, tried, at)) continue;
    size_t known = 0;
    while (known < at && is_same(&rule->test[known], &tried->test[known]))
      known++;
    return put_rule(writer, call, next, known, &held);
  }
  return put_verdict(writer, writer->policy->otherwise);
}

/* A rule from test `at` on, those before it being known to hold. `held` is what
 * the accumulator has for who comes this way, or NULL. Each is written once,
 * however many ways lead to it. */
static unsigned put_rule(struct writer* writer,
                         const struct gbx__filter_call* call, size_t index,
                         size_t at, const struct load* held) {
  const struct gbx__filter_rule* rule = &call->rules[index];
  if (is_last(rule, at)) return put_verdict(writer, rule->verdict);
  const struct gbx__filter_test* test = &rule->test[at];
  const struct load needed = load_of(test);
  struct place* place = &writer->places[index][at];
  if (place->loaded == 0) {
    unsigned no = put_next_rule(writer, call, index, at);
    unsigned yes = put_rule(writer, call, index, at + 1, &needed);
    place->loaded = put_test(writer, test, yes, no);
  }
  if (held != NULL && held->word == needed.word && held->mask == needed.mask)
    return place->loaded;
  if (place->bare == 0) place->bare = put_load(writer, needed, place->loaded);
  return place->bare;
}

static unsigned put_call(struct writer* writer,
                         const struct gbx__filter_call* call) {
  if (call->rules == NULL) return put_verdict(writer, call->verdict);
  for (size_t i = 0; i < writer->set_count; i++)
    if (writer->sets[i].rules == call->rules) return writer->sets[i].label;
  if (writer->set_count == SETS_MAX ||
      call->rule_count > GBX__FILTER_RULES_MAX) {
    writer->too_long = true;
    return writer->length;
  }
  memset(writer->places, 0, sizeof writer->places);
  unsigned label = put_rule(writer, call, 0, 0, NULL);
  writer->sets[writer->set_count].rules = call->rules;
  writer->sets[writer->set_count++].label = label;
  return label;
}

/* ---- Numbers ------------------------------------------------------------ */

static bool get_the_same(const struct writer* writer,
                         const struct gbx__filter_call* left,
                         const struct gbx__filter_call* right) {
  if (left->rules != NULL || right->rules != NULL)
    return left->rules == right->rules;
  const uint32_t* actions = writer->policy->actions;
  return actions[left->verdict] == actions[right->verdict];
}

static void add_range(struct writer* writer, uint32_t first,
                      struct gbx__filter_call call) {
  struct range* last = writer->ranges + writer->range_count;
  if (writer->range_count > 0 && get_the_same(writer, &last[-1].call, &call))
    return;
  *last = (struct range){first, call};
  writer->range_count++;
}

static void find_ranges(struct writer* writer) {
  const struct gbx__filter_policy* policy = writer->policy;
  const struct gbx__filter_call otherwise = {.verdict = policy->otherwise};
  for (uint32_t number = 0; number < GBX__FILTER_CALLS; number++)
    add_range(writer, number, policy->calls[number]);
  add_range(writer, GBX__FILTER_CALLS, otherwise);
  if (!policy->has_x32) return;
  add_range(writer, X32_BIT,
            (struct gbx__filter_call){.verdict = policy->foreign});
  add_range(writer, SKIPPED, otherwise);
}

/* Greedy: each group goes as far as it can. */
static void find_groups(struct writer* writer) {
  const struct range* ranges = writer->ranges;
  size_t next = 0;
  while (next < writer->range_count) {
    struct group group = {next, next};
    uint32_t others = 0;
    for (size_t i = next + 1; i < writer->range_count; i++) {
      if (get_the_same(writer, &ranges[i].call, &ranges[next].call)) {
        group.last_range = i;
        continue;
      }
      if (i + 1 == writer->range_count) break;
      others += ranges[i + 1].first - ranges[i].first;
      if (others > OTHERS_MAX) break;
    }
    next = group.last_range + 1;
    writer->groups[writer->group_count++] = group;
  }
}

static unsigned put_group(struct writer* writer, const struct group* group) {
  const struct range* ranges = writer->ranges;
  unsigned label = put_call(writer, &ranges[group->first_range].call);
  for (size_t i = group->last_range; i > group->first_range; i--) {
    const struct range* range = &ranges[i - 1];
    if (get_the_same(writer, &range->call, &ranges[group->first_range].call))
      continue;
    for (uint32_t number = ranges[i].first; number > range->first; number--)
      label = put_branch(writer, BPF_JEQ, number - 1,
                         put_call(writer, &range->call), label);
  }
  return label;
}

/* How many numbers that the kernel tries lie before a group. */
static uint32_t tried_before(const struct writer* writer, size_t index) {
  if (index == writer->group_count) return KERNEL_CALLS;
  uint32_t first = writer->ranges[writer->groups[index].first_range].first;
  return first < KERNEL_CALLS ? first : KERNEL_CALLS;
}

/* The first group of the upper half. */
static size_t find_middle(const struct writer* writer, size_t first,
                          size_t last) {
  uint32_t twice = tried_before(writer, first) + tried_before(writer, last + 1);
  size_t middle = first + 1;
  while (middle < last && 2 * tried_before(writer, middle) < twice)
    middle++;
  return middle;
}

static unsigned put_groups(struct writer* writer, size_t first, size_t last) {
  if (first == last) return put_group(writer, &writer->groups[first]);
  size_t middle = find_middle(writer, first, last);
  unsigned no = put_groups(writer, first, middle - 1);
  unsigned yes = put_groups(writer, middle, last);
  uint32_t start = writer->ranges[writer->groups[middle].first_range].first;
  return put_branch(writer, BPF_JGE, start, yes, no);
}

/* ---- The program -------------------------------------------------------- */

static void put_program(struct writer* writer) {
  static const struct load number = {offsetof(struct seccomp_data, nr),
                                     ALL_BITS};
  static const struct load arch = {offsetof(struct seccomp_data, arch),
                                   ALL_BITS};
  find_ranges(writer);
  find_groups(writer);
  unsigned tree = put_groups(writer, 0, writer->group_count - 1);
  unsigned ours = put_load(writer, number, tree);
  unsigned foreign = put_verdict(writer, writer->policy->foreign);
  unsigned check =
      put_branch(writer, BPF_JEQ, writer->policy->arch, ours, foreign);
  (void)put_load(writer, arch, check);
}

int gbx__filter_write(const struct gbx__filter_policy* policy,
                      uint8_t** ret_program, size_t* ret_size,
                      struct gbx_err* err) {
  cleanup_free struct writer* writer = calloc(1, sizeof *writer);
  if (writer == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "filter");
  writer->policy = policy;
  put_program(writer);
  if (writer->too_long)
    return gbx_fail(err, GBX_E_START, E2BIG, "seccomp filter",
                    "%u instructions and more", writer->length);
  size_t size = writer->length * sizeof(struct sock_filter);
  struct sock_filter* program = malloc(size);
  if (program == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "filter");
  for (unsigned i = 0; i < writer->length; i++)
    program[i] = writer->reversed[writer->length - 1 - i];
  *ret_program = (uint8_t*)program;
  *ret_size = size;
  return 0;
}
