/* SPDX-License-Identifier: Apache-2.0 */
/* sources: src/launcher/cgroup_place.c libs: */

/* Where a process is in the hierarchies of cgroups, on hosts of several kinds.
 */

#include "launcher/cgroup_place.h"

#include <string.h>

#include "expect.h"

#define V1                      \
  "13:memory:/docker/box\n"     \
  "4:cpu,cpuacct:/docker/box\n" \
  "1:name=systemd:/docker/box\n"

#define V1_MOUNTS                                                            \
  "24 1 8:1 / / rw - ext4 /dev/sda rw\n"                                     \
  "30 24 0:26 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n" \
  "31 24 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup "              \
  "rw,cpu,cpuacct\n"                                                         \
  "32 24 0:28 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n"

#define V2 "0::/user.slice/a.scope\n"

#define V2_MOUNTS                        \
  "24 1 8:1 / / rw - ext4 /dev/sda rw\n" \
  "29 24 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"

/* `wanted`: "top own", or "" where there is none. */
static void expect_place(const char* cgroups, const char* mounts,
                         const char* controller, const char* wanted) {
  FILE* first = fmemopen((void*)cgroups, strlen(cgroups), "r");
  FILE* second = fmemopen((void*)mounts, strlen(mounts), "r");
  static struct cgroup_place place;
  static char text[2 * PATH_MAX];
  *text = '\0';
  if (cgroup_read_place(first, second, controller, &place))
    (void)snprintf(text, sizeof text, "%s %s", place.top, place.own);
  (void)fclose(first);
  (void)fclose(second);
  if (strcmp(text, wanted) != 0)
    printf("# %s: \"%s\", wanted \"%s\"\n", controller, text, wanted);
  EXPECT(strcmp(text, wanted) == 0);
}

static void test_v1(void) {
  expect_place(V1, V1_MOUNTS, "memory",
               "/sys/fs/cgroup/memory /sys/fs/cgroup/memory/docker/box");
  for (int i = 0; i < 2; i++)
    expect_place(V1, V1_MOUNTS, i == 0 ? "cpu" : "cpuacct",
                 "/sys/fs/cgroup/cpu,cpuacct "
                 "/sys/fs/cgroup/cpu,cpuacct/docker/box");
  expect_place(V1, V1_MOUNTS, "pids", "");
  expect_place(V1, V1_MOUNTS, "mem", "");
  expect_place(V1, V1_MOUNTS, CGROUP_UNIFIED, "");
  expect_place("4:memory:/\n", V1_MOUNTS, "memory",
               "/sys/fs/cgroup/memory /sys/fs/cgroup/memory");
}

static void test_v2(void) {
  expect_place(V2, V2_MOUNTS, CGROUP_UNIFIED,
               "/sys/fs/cgroup /sys/fs/cgroup/user.slice/a.scope");
  expect_place("0::/\n", V2_MOUNTS, CGROUP_UNIFIED,
               "/sys/fs/cgroup /sys/fs/cgroup");
  expect_place(V2, V2_MOUNTS, "memory", "");
}

/* v1 with the controllers, and v2 beside it with none. */
static void test_both(void) {
  expect_place(V1 V2,
               V1_MOUNTS
               "33 24 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
               CGROUP_UNIFIED,
               "/sys/fs/cgroup/unified "
               "/sys/fs/cgroup/unified/user.slice/a.scope");
  expect_place(V2 V1, V1_MOUNTS, "memory",
               "/sys/fs/cgroup/memory /sys/fs/cgroup/memory/docker/box");
}

/* Where a part of the hierarchy is mounted, it is ours only if we are in it. */
static void test_parts(void) {
  const char* memory = "13:memory:/docker/box\n";
  const char* in = "32 24 0:28 /docker/box /cg ro - cgroup cgroup rw,memory\n";
  const char* beside =
      "32 24 0:28 /docker/b /cg ro - cgroup cgroup rw,memory\n";
  const char* above = "32 24 0:28 /docker /cg ro - cgroup cgroup rw,memory\n";
  expect_place(memory, in, "memory", "/cg /cg");
  expect_place(memory, beside, "memory", "");
  expect_place(memory, above, "memory", "/cg /cg/box");
  expect_place("0::/docker/box\n", "29 24 0:25 /docker/b /cg - cgroup2 c rw\n",
               CGROUP_UNIFIED, "");
  expect_place("13:memory:/\n", in, "memory", "");
}

int main(void) {
  run_test("v1: the folder of a controller's hierarchy", test_v1);
  run_test("v2: the folder of the one hierarchy", test_v2);
  run_test("where there are both, each is found", test_both);
  run_test("of a part that is mounted, only what holds us", test_parts);
  return done();
}
