/* SPDX-License-Identifier: Apache-2.0 */
/* sources: src/launcher/box.c src/launcher/trace.c src/launcher/filter.c
 * src/common/bpf.c src/common/wire.c src/common/error.c src/common/fd.c
 * src/common/leaf.c
 * libs: */

/* What a box used, from files that say what those of a leaf say. */

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "expect.h"
#include "launcher/box.h"
#include "launcher/init.h"

/* No box is made here. */
void init_main(const struct box_spec* spec, int socket_fd) {
  (void)spec;
  (void)socket_fd;
  _exit(1);
}

static struct box box;

static int file_with(const char* text) {
  int fd = memfd_create("leaf", MFD_CLOEXEC);
  EXPECT(fd >= 0);
  EXPECT(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
  return fd;
}

/* A box of which init has counted this. NULL: its leaf has no such file. */
static const struct gbx_wire_usage* usage_of(const char* peak, const char* cpu,
                                             const char* pids) {
  const struct {
    int place;
    const char* text;
  } files[] = {{GBX_LEAF_MAX_USAGE, peak},
               {GBX_LEAF_CPU_USAGE, cpu},
               {GBX_LEAF_MAX_PIDS, pids}};
  for (int i = 0; i < GBX_LEAF_FDS; i++)
    box.leaf_fd[i] = -1;
  box.end.usage = (struct gbx_wire_usage){.cpu_us = 70,
                                          .cpu_user_us = 40,
                                          .cpu_system_us = 30,
                                          .max_memory_bytes = 4096,
                                          .max_pids = 2,
                                          .has_cpu_split = 1};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (files[i].text != NULL)
      box.leaf_fd[files[i].place] = file_with(files[i].text);
  box_read_usage(&box);
  for (int i = 0; i < GBX_LEAF_FDS; i++)
    if (box.leaf_fd[i] >= 0) (void)close(box.leaf_fd[i]);
  return &box.end.usage;
}

static void test_v2(void) {
  /* As Linux 6.12 writes it, with the cpu controller in force. */
  const char* cpu =
      "usage_usec 1234567\nuser_usec 1000000\nsystem_usec 234567\n"
      "nice_usec 5\ncore_sched.force_idle_usec 6\nnr_periods 7\n"
      "nr_throttled 8\nthrottled_usec 9\nnr_bursts 10\nburst_usec 11\n";
  const struct gbx_wire_usage* usage = usage_of("104857600\n", cpu, "12\n");
  EXPECT(usage->max_memory_bytes == 104857600);
  EXPECT(usage->cpu_us == 1234567);
  EXPECT(usage->has_cpu_split);
  EXPECT(usage->cpu_user_us == 1000000);
  EXPECT(usage->cpu_system_us == 234567);
  EXPECT(usage->max_pids == 11); /* without init */
}

/* memory.peak came with 5.19, pids.peak with 6.1. */
static void test_old_v2(void) {
  const struct gbx_wire_usage* usage =
      usage_of(NULL, "usage_usec 9\nuser_usec 5\nsystem_usec 4\n", NULL);
  EXPECT(usage->cpu_us == 9);
  EXPECT(usage->max_memory_bytes == 4096);
  EXPECT(usage->max_pids == 2);
}

static void test_v1(void) {
  const struct gbx_wire_usage* usage = usage_of("8192\n", "7000\n", NULL);
  EXPECT(usage->cpu_us == 7);
  EXPECT(usage->max_memory_bytes == 8192);
  /* Of the processes, as init has counted them. */
  EXPECT(usage->cpu_user_us == 40);
  EXPECT(usage->cpu_system_us == 30);
}

static void test_empty(void) {
  const struct gbx_wire_usage* usage = usage_of("", "", "0\n");
  EXPECT(usage->cpu_us == 70);
  EXPECT(usage->max_memory_bytes == 4096);
  EXPECT(usage->max_pids == 0);
}

static bool had_oom(const char* events) {
  box.leaf = 1;
  for (int i = 0; i < GBX_LEAF_FDS; i++)
    box.leaf_fd[i] = -1;
  box.leaf_fd[GBX_LEAF_OOM_COUNT] = file_with(events);
  bool result = box_had_oom(&box);
  (void)close(box.leaf_fd[GBX_LEAF_OOM_COUNT]);
  return result;
}

static void test_oom(void) {
  EXPECT(
      !had_oom("low 0\nhigh 1\nmax 7\noom 3\noom_kill 0\n"
               "oom_group_kill 0\n"));
  EXPECT(
      had_oom("low 0\nhigh 0\nmax 7\noom 1\noom_kill 2\n"
              "oom_group_kill 1\n"));
}

int main(void) {
  run_test("cgroup v2 tells time, memory and processes", test_v2);
  run_test("what an old cgroup v2 does not tell init has counted", test_old_v2);
  run_test("cgroup v1 tells time and memory", test_v1);
  run_test("files that say nothing change nothing", test_empty);
  run_test("only what the kernel killed for memory is out of memory", test_oom);
  return done();
}
