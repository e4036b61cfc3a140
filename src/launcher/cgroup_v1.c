/* SPDX-License-Identifier: Apache-2.0 */

/* cgroup v1, as root: a hierarchy for each controller. */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "common/fd.h"
#include "launcher/cgroup_place.h"
#include "launcher/cgroup_version.h"

static const char* const controller_names[CGROUP_HIERARCHIES] = {
    "memory", "pids", "cpu", "cpuacct"};

static bool find(struct cgroup* cgroup) {
  if (!cgroup->rooted) return false; /* nobody else may make leaves */
  for (int i = 0; i < CGROUP_HIERARCHIES; i++) {
    struct cgroup_place place;
    /* All or nothing: a box with half its limits would be hard to explain, and
     * v1 hosts without one of these four are rare. */
    if (!cgroup_find_place(controller_names[i], &place) ||
        faccessat(AT_FDCWD, place.own, W_OK, AT_EACCESS) < 0)
      return false;
    memcpy(cgroup->parent[i], place.own, PATH_MAX);
  }
  cgroup->parents = CGROUP_HIERARCHIES;
  cgroup->controllers = GBX_CTL_MEMORY | GBX_CTL_PIDS | GBX_CTL_CPU;
  return true;
}

/* Memory and swap together may not exceed the limit. The kernel refuses any
 * moment in which the sum is below the memory part, so the order depends on
 * the direction: try one, then the other. */
static int set_memory(int dir_fd, uint64_t bytes, struct gbx_err* err) {
  const char* memory = "memory.limit_in_bytes";
  const char* sum = "memory.memsw.limit_in_bytes";
  long long value = bytes == 0 ? -1 : (long long)bytes;
  bool has_sum = faccessat(dir_fd, sum, F_OK, 0) == 0;
  int result = cgroup_write_number(dir_fd, memory, value);
  if (result == -EINVAL && has_sum) {
    result = cgroup_write_number(dir_fd, sum, value);
    if (result == 0) result = cgroup_write_number(dir_fd, memory, value);
  } else if (result == 0 && has_sum) {
    result = cgroup_write_number(dir_fd, sum, value);
  }
  if (result < 0)
    return gbx_fail(err, GBX_E_LIMIT, -result, "memory limit", "%lld", value);
  /* The kernel rounds down to whole pages. */
  long long in_force = cgroup_read_number(dir_fd, memory);
  if (bytes != 0 && (in_force < 0 || in_force > value))
    return gbx_fail(err, GBX_E_LIMIT, 0, "memory limit",
                    "wrote %lld bytes, read back %lld", value, in_force);
  return 0;
}

static int set_cpu(int dir_fd, uint64_t millis, struct gbx_err* err) {
  /* The period is the kernel's default of 100 ms, so a thousandth of a core is
   * 100 us of quota. */
  long long quota = millis == 0 ? -1 : (long long)millis * 100;
  int result = cgroup_write_number(dir_fd, "cpu.cfs_quota_us", quota);
  if (result < 0)
    return gbx_fail(err, GBX_E_LIMIT, -result, "cpu limit", "%lld us", quota);
  long long in_force = cgroup_read_number(dir_fd, "cpu.cfs_quota_us");
  if (in_force != quota)
    return gbx_fail(err, GBX_E_LIMIT, 0, "cpu limit",
                    "wrote %lld us, read back %lld", quota, in_force);
  return 0;
}

static int set_limits(const struct cgroup* cgroup, uint32_t number,
                      const struct gbx_wire_limits* limits,
                      struct gbx_err* err) {
  for (int i = CGROUP_MEMORY; i <= CGROUP_CPU; i++) {
    cleanup_fd int dir_fd = cgroup_open_leaf(cgroup, i, number, err);
    if (dir_fd < 0) return dir_fd;
    int result = i == CGROUP_MEMORY
                     ? set_memory(dir_fd, limits->memory_bytes, err)
                 : i == CGROUP_PIDS ? cgroup_set_pids(dir_fd, limits->pids, err)
                                    : set_cpu(dir_fd, limits->cpu_millis, err);
    if (result < 0) return result;
  }
  return 0;
}

/* Tells the kernel to signal an eventfd when the leaf runs out of memory. */
static int open_oom_event(int dir_fd, int oom_control_fd, struct gbx_err* err) {
  cleanup_fd int event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event_fd < 0) return gbx_fail(err, GBX_E_LIMIT, errno, "eventfd", "oom");
  char text[32];
  (void)snprintf(text, sizeof text, "%d %d", event_fd, oom_control_fd);
  int result = fd_write_file(dir_fd, "cgroup.event_control", text);
  if (result < 0)
    return gbx_fail(err, GBX_E_LIMIT, -result, "cgroup.event_control", "oom");
  return fd_steal(&event_fd);
}

static int open_fds(const struct cgroup* cgroup, uint32_t number,
                    struct cgroup_leaf* leaf, struct gbx_err* err) {
  cleanup_fd int memory_fd =
      cgroup_open_leaf(cgroup, CGROUP_MEMORY, number, err);
  if (memory_fd < 0) return memory_fd;
  cleanup_fd int usage_fd =
      cgroup_open_leaf(cgroup, CGROUP_CPUACCT, number, err);
  if (usage_fd < 0) return usage_fd;
  int control = cgroup_leaf_open(leaf, GBX_LEAF_OOM_COUNT, memory_fd,
                                 "memory.oom_control", O_RDONLY, err);
  if (control < 0) return control;
  int result = open_oom_event(memory_fd, control, err);
  if (result < 0) return result;
  leaf->has |= 1u << GBX_LEAF_OOM_EVENT;
  (void)cgroup_leaf_add(leaf, result);
  /* Also for writing, which sets them back. */
  result = cgroup_leaf_open(leaf, GBX_LEAF_MAX_USAGE, memory_fd,
                            "memory.max_usage_in_bytes", O_RDWR, err);
  if (result < 0) return result;
  result = cgroup_leaf_open(leaf, GBX_LEAF_CPU_USAGE, usage_fd, "cpuacct.usage",
                            O_RDWR, err);
  if (result < 0) return result;
  cleanup_fd int pids_fd = cgroup_open_leaf(cgroup, CGROUP_PIDS, number, err);
  if (pids_fd < 0) return pids_fd;
  result = cgroup_leaf_open(leaf, GBX_LEAF_PIDS, pids_fd, "pids.current",
                            O_RDONLY, err);
  if (result < 0) return result;
  /* Not cgroup.procs: for a process the kernel takes a lock that every fork,
   * exec and exit of the machine needs, and waits for an RCU grace period. A
   * thread that moves itself, and is the only one of its process, takes none.
   */
  for (int i = 0; i < CGROUP_HIERARCHIES; i++) {
    cleanup_fd int dir_fd = cgroup_open_leaf(cgroup, i, number, err);
    if (dir_fd < 0) return dir_fd;
    result =
        cgroup_leaf_add(leaf, cgroup_open_in(dir_fd, "tasks", O_WRONLY, err));
    if (result < 0) return result;
  }
  return 0;
}

/* ---- Leaves that are used again ----------------------------------------- */

/* What may be left in memory that a leaf pays for: what each processor holds in
 * reserve for it, and what the kernel frees a little later. The next box can
 * have as much less; anything more of it is the kernel's to take back. */
#define RESIDUE_MAX ((uint64_t)2 << 20)

static int open_residue(const struct cgroup* cgroup, uint32_t number) {
  struct gbx_err ignored = {0};
  cleanup_fd int dir_fd =
      cgroup_open_leaf(cgroup, CGROUP_MEMORY, number, &ignored);
  return dir_fd < 0 ? dir_fd
                    : cgroup_open_in(dir_fd, "memory.usage_in_bytes", O_RDONLY,
                                     &ignored);
}

/* No number is larger than the `most` that may be there. */
static bool is_at_most(int fd, uint64_t most) {
  char text[32];
  ssize_t size = RETRY(pread(fd, text, sizeof text - 1, 0));
  if (size <= 0) return false;
  text[size] = '\0';
  return strtoull(text, NULL, 10) <= most;
}

static bool had_oom(int control_fd, int event_fd) {
  char text[256];
  uint64_t count;
  ssize_t size = RETRY(pread(control_fd, text, sizeof text - 1, 0));
  if (size <= 0) return true;
  text[size] = '\0';
  return strstr(text, "under_oom 0\n") == NULL ||
         strstr(text, "oom_kill 0\n") == NULL ||
         read(event_fd, &count, sizeof count) >= 0;
}

static bool set_back(int fd) {
  return RETRY(pwrite(fd, "0", 1, 0)) == 1;
}

static bool renew(const struct cgroup_leaf* leaf, int residue_fd) {
  /* In the order of their enum, in which v1 lacks one. */
  const int* fd = leaf->fds.fd;
  return is_at_most(fd[GBX_LEAF_PIDS - 1], 0) &&
         !had_oom(fd[GBX_LEAF_OOM_COUNT], fd[GBX_LEAF_OOM_EVENT]) &&
         is_at_most(residue_fd, RESIDUE_MAX) &&
         set_back(fd[GBX_LEAF_MAX_USAGE]) && set_back(fd[GBX_LEAF_CPU_USAGE]);
}

_Static_assert(GBX_LEAF_MAX_USAGE == 2 && GBX_LEAF_CPU_USAGE == 3 &&
                   GBX_LEAF_MAX_PIDS == 4 && GBX_LEAF_PIDS == 5,
               "renew() counts on it");

const struct cgroup_version cgroup_v1 = {.find = find,
                                         .set_limits = set_limits,
                                         .open_fds = open_fds,
                                         .open_residue = open_residue,
                                         .renew = renew};
