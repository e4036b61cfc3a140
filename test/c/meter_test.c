/* SPDX-License-Identifier: Apache-2.0 */
/* sources: src/engine/meter.c src/common/leaf.c src/common/wire.c
 * src/common/error.c src/common/fd.c
 * libs: */

/* What a box used between two moments, from files that say what those of a leaf
 * say. */

#include "engine/meter.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "expect.h"

static struct gbx__meter meter;

static void write_text(int fd, const char* text) {
  EXPECT(ftruncate(fd, 0) == 0);
  EXPECT(pwrite(fd, text, strlen(text), 0) == (ssize_t)strlen(text));
}

static int file_with(const char* text) {
  int fd = memfd_create("leaf", MFD_CLOEXEC);
  EXPECT(fd >= 0);
  write_text(fd, text);
  return fd;
}

static int for_reading(int fd) {
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  int result = open(path, O_RDONLY | O_CLOEXEC);
  EXPECT(result >= 0);
  (void)close(fd);
  return result;
}

/* As STARTED of a kernel brings them. -1: the leaf has none. */
static void take(int peak_fd, int cpu_fd) {
  struct gbx_fds fds = {.count = 2, .fd = {-1, -1}};
  uint32_t has = 0;
  if (peak_fd >= 0) {
    has |= 1u << GBX_LEAF_MAX_USAGE;
    fds.fd[fds.count++] = peak_fd;
  }
  if (cpu_fd >= 0) {
    has |= 1u << GBX_LEAF_CPU_USAGE;
    fds.fd[fds.count++] = cpu_fd;
  }
  gbx__meter_init(&meter);
  gbx__meter_take(&meter, has, &fds);
}

static void test_v1(void) {
  int peak_fd = file_with("900000\n");
  int cpu_fd = file_with("5000000\n");
  take(peak_fd, cpu_fd);
  gbx__meter_begin(&meter);
  char first = 0;
  EXPECT(pread(peak_fd, &first, 1, 0) == 1 && first == '0');
  write_text(peak_fd, "8192\n");
  write_text(cpu_fd, "5007000\n");
  struct gbx_usage usage = gbx__meter_read(&meter, -1, NULL);
  EXPECT(usage.has_cpu && usage.cpu_us == 7);
  EXPECT(!usage.has_cpu_split);
  EXPECT(usage.max_memory_bytes == 8192);
  gbx__meter_close(&meter);
}

static void test_v2(void) {
  int cpu_fd = file_with("usage_usec 100\nuser_usec 70\nsystem_usec 30\n");
  take(file_with("4096\n"), cpu_fd);
  gbx__meter_begin(&meter);
  write_text(cpu_fd, "usage_usec 105\nuser_usec 74\nsystem_usec 31\n");
  struct gbx_usage usage = gbx__meter_read(&meter, -1, NULL);
  EXPECT(usage.cpu_us == 5);
  EXPECT(usage.has_cpu_split);
  EXPECT(usage.cpu_user_us == 4 && usage.cpu_system_us == 1);
  gbx__meter_begin(&meter);
  usage = gbx__meter_read(&meter, -1, NULL);
  EXPECT(usage.has_cpu && usage.cpu_us == 0); /* known to be nothing */
  EXPECT(!usage.has_io && usage.max_pids == 0);
  gbx__meter_close(&meter);
}

/* Before Linux 6.12: it would be that of all the box's life. */
static void test_fixed_peak(void) {
  take(for_reading(file_with("4096\n")), file_with("usage_usec 100\n"));
  gbx__meter_begin(&meter);
  struct gbx_usage usage = gbx__meter_read(&meter, -1, NULL);
  EXPECT(usage.has_cpu && usage.max_memory_bytes == 0);
  gbx__meter_close(&meter);
}

/* Its leaf may be gone, or count for another box. */
static void test_ended(void) {
  take(file_with("4096\n"), file_with("5000000\n"));
  gbx__meter_begin(&meter);
  struct gbx_msg_end end = {
      .usage = {.cpu_us = 5300, .max_memory_bytes = 12288}};
  struct gbx_usage usage = gbx__meter_read(&meter, -1, &end);
  EXPECT(usage.cpu_us == 300);
  EXPECT(usage.max_memory_bytes == 12288);
  int ends[2];
  EXPECT(pipe(ends) == 0); /* readable, as the pidfd of one that has exited */
  (void)close(ends[1]);
  usage = gbx__meter_read(&meter, ends[0], NULL);
  EXPECT(!usage.has_cpu && usage.max_memory_bytes == 0);
  (void)close(ends[0]);
  end.usage.cpu_us = 2000; /* less than at the beginning: not of this box */
  usage = gbx__meter_read(&meter, -1, &end);
  EXPECT(!usage.has_cpu && usage.max_memory_bytes == 0);
  gbx__meter_close(&meter);
}

static void test_no_leaf(void) {
  take(-1, -1);
  gbx__meter_begin(&meter);
  struct gbx_usage usage = gbx__meter_read(&meter, -1, NULL);
  EXPECT(!usage.has_cpu && usage.max_memory_bytes == 0);
  const struct gbx_msg_end end = {
      .usage = {.cpu_us = 5300, .max_memory_bytes = 12288}};
  usage = gbx__meter_read(&meter, -1, &end);
  EXPECT(!usage.has_cpu && usage.max_memory_bytes == 0);
  gbx__meter_close(&meter);
}

int main(void) {
  run_test("cgroup v1 tells time and memory of a cell", test_v1);
  run_test("cgroup v2 tells user and system time of a cell apart", test_v2);
  run_test("a peak that cannot be set back is not told", test_fixed_peak);
  run_test("of a box that has ended its END tells", test_ended);
  run_test("without a leaf nothing is known", test_no_leaf);
  return done();
}
