/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>

#include "common/fd.h"

static const char* const controller_names[CGROUP_HIERARCHIES] = {
    "memory", "pids", "cpu", "cpuacct"};

/* Whether the comma-separated `list` of `size` bytes has `word`. */
static bool list_has(const char* list, size_t size, const char* word) {
  size_t length = strlen(word);
  for (size_t i = 0; i < size;) {
    size_t end = i;
    while (end < size && list[end] != ',')
      end++;
    if (end - i == length && memcmp(list + i, word, length) == 0) return true;
    i = end + 1;
  }
  return false;
}

/* From /proc/self/cgroup, lines "4:memory:/path": our path in the controller's
 * hierarchy. */
static bool own_path(const char* controller, char* ret_path, size_t size) {
  FILE* file = fopen("/proc/self/cgroup", "re");
  if (file == NULL) return false;
  char line[PATH_MAX + 64];
  bool found = false;
  while (!found && fgets(line, sizeof line, file) != NULL) {
    char* list = strchr(line, ':');
    if (list == NULL) continue;
    char* path = strchr(++list, ':');
    if (path == NULL) continue;
    if (!list_has(list, (size_t)(path - list), controller)) continue;
    path++;
    path[strcspn(path, "\n")] = '\0';
    found = snprintf(ret_path, size, "%s", path) < (int)size;
  }
  (void)fclose(file);
  return found;
}

/* From mountinfo: where the v1 hierarchy with the controller is mounted, and
 * which part of it. In a container the mount's root is the container's own
 * cgroup, which our path then begins with. */
static bool hierarchy_dir(const char* controller, const char* path,
                          char* ret_dir, size_t size) {
  FILE* file = fopen("/proc/self/mountinfo", "re");
  if (file == NULL) return false;
  char* line = NULL;
  size_t room = 0;
  bool found = false;
  while (!found && getline(&line, &room, file) >= 0) {
    char* tail = strstr(line, " - cgroup ");
    if (tail == NULL) continue;
    char root[PATH_MAX], mount_point[PATH_MAX], options[PATH_MAX];
    if (sscanf(line, "%*s %*s %*s %4095s %4095s", root, mount_point) != 2)
      continue;
    if (sscanf(tail, " - cgroup %*s %4095s", options) != 1) continue;
    if (!list_has(options, strlen(options), controller)) continue;
    size_t skip = strcmp(root, "/") == 0 ? 0 : strlen(root);
    if (strncmp(path, root, skip) != 0) continue;
    const char* rest = strcmp(path + skip, "/") == 0 ? "" : path + skip;
    found = snprintf(ret_dir, size, "%s%s", mount_point, rest) < (int)size;
  }
  free(line);
  (void)fclose(file);
  return found;
}

/* The number of this process' pid namespace; 0 if it is not to be had. */
static unsigned long pid_namespace(void) {
  struct stat info;
  return stat("/proc/self/ns/pid", &info) == 0 ? (unsigned long)info.st_ino : 0;
}

/* A leaf is stale when the keeper that made it is gone. One of another pid
 * namespace cannot be seen from here: its leaves stay, or one that it is just
 * making for a box would be taken for stale. */
static void remove_stale_leaves(const char* parent) {
  unsigned long own_namespace = pid_namespace();
  DIR* dir = opendir(parent);
  if (dir == NULL) return;
  const struct dirent* entry;
  while ((entry = readdir(dir)) != NULL) {
    long keeper_pid;
    unsigned long namespace;
    if (sscanf(entry->d_name, "gbx-%*d-%ld-%lu-", &keeper_pid, &namespace) !=
            2 ||
        namespace != own_namespace)
      continue;
    if (keeper_pid <= 0 || kill((pid_t)keeper_pid, 0) == 0 || errno != ESRCH)
      continue;
    /* Fails while its last processes die: tried again at our own end, and by
     * the next keeper. */
    (void)unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
  }
  (void)closedir(dir);
}

void cgroup_probe(struct cgroup* cgroup, const char* node_pid) {
  memset(cgroup, 0, sizeof *cgroup);
  (void)snprintf(cgroup->prefix, sizeof cgroup->prefix, "gbx-%.12s-%d-%lu-",
                 node_pid, getpid(), pid_namespace());
  for (int i = 0; i < CGROUP_HIERARCHIES; i++) {
    char path[PATH_MAX];
    char* parent = cgroup->parent[i];
    if (!own_path(controller_names[i], path, sizeof path) ||
        !hierarchy_dir(controller_names[i], path, parent, PATH_MAX) ||
        faccessat(AT_FDCWD, parent, W_OK, AT_EACCESS) < 0) {
      /* All or nothing: a box with half its limits would be hard to explain,
       * and v1 hosts without one of these four are rare. */
      memset(cgroup->parent, 0, sizeof cgroup->parent);
      return;
    }
  }
  for (int i = 0; i < CGROUP_HIERARCHIES; i++)
    remove_stale_leaves(cgroup->parent[i]);
  cgroup->controllers = GBX_CTL_MEMORY | GBX_CTL_PIDS | GBX_CTL_CPU;
}

static int leaf_path(const struct cgroup* cgroup, int hierarchy,
                     uint32_t number, char* ret_path, size_t size) {
  int length = snprintf(ret_path, size, "%s/%s%u", cgroup->parent[hierarchy],
                        cgroup->prefix, number);
  return length < (int)size ? 0 : -ENAMETOOLONG;
}

static int open_leaf(const struct cgroup* cgroup, int hierarchy,
                     uint32_t number) {
  char path[PATH_MAX];
  if (leaf_path(cgroup, hierarchy, number, path, sizeof path) < 0) return -1;
  return open(path, O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

static int write_number(int dir_fd, const char* file, long long number) {
  char text[32];
  (void)snprintf(text, sizeof text, "%lld", number);
  return fd_write_file(dir_fd, file, text);
}

static long long read_number(int dir_fd, const char* file) {
  char text[32];
  return fd_read_file(dir_fd, file, text, sizeof text) > 0 ? atoll(text) : -1;
}

/* Memory and swap together may not exceed the limit. The kernel refuses any
 * moment in which the sum is below the memory part, so the order depends on
 * the direction: try one, then the other. */
static int set_memory(int dir_fd, uint64_t bytes, struct gbx_err* err) {
  const char* memory = "memory.limit_in_bytes";
  const char* sum = "memory.memsw.limit_in_bytes";
  long long value = bytes == 0 ? -1 : (long long)bytes;
  bool has_sum = faccessat(dir_fd, sum, F_OK, 0) == 0;
  int result = write_number(dir_fd, memory, value);
  if (result == -EINVAL && has_sum) {
    result = write_number(dir_fd, sum, value);
    if (result == 0) result = write_number(dir_fd, memory, value);
  } else if (result == 0 && has_sum) {
    result = write_number(dir_fd, sum, value);
  }
  if (result < 0)
    return gbx_fail(err, GBX_E_LIMIT, -result, "memory limit", "%lld", value);
  /* The kernel rounds down to whole pages. */
  long long in_force = read_number(dir_fd, memory);
  if (bytes != 0 && (in_force < 0 || in_force > value))
    return gbx_fail(err, GBX_E_LIMIT, 0, "memory limit",
                    "wrote %lld bytes, read back %lld", value, in_force);
  return 0;
}

/* The kernel's PID_MAX_LIMIT: pids.max takes a larger number for "max". */
#define MOST_PIDS (4u << 20)

static int set_pids(int dir_fd, uint64_t pids, struct gbx_err* err) {
  /* One for init, which is ours: as without a cgroup, where only the payload's
   * user namespace is counted. */
  if (pids != 0 && pids < MOST_PIDS) pids++;
  int result = pids == 0 ? fd_write_file(dir_fd, "pids.max", "max")
                         : write_number(dir_fd, "pids.max", (long long)pids);
  if (result < 0)
    return gbx_fail(err, GBX_E_LIMIT, -result, "pids limit", "%llu",
                    (unsigned long long)pids);
  long long in_force = read_number(dir_fd, "pids.max");
  if (pids != 0 && in_force != (long long)pids)
    return gbx_fail(err, GBX_E_LIMIT, 0, "pids limit",
                    "wrote %llu, read back %lld", (unsigned long long)pids,
                    in_force);
  return 0;
}

static int set_cpu(int dir_fd, uint64_t millis, struct gbx_err* err) {
  /* The period is the kernel's default of 100 ms, so a thousandth of a core is
   * 100 us of quota. */
  long long quota = millis == 0 ? -1 : (long long)millis * 100;
  int result = write_number(dir_fd, "cpu.cfs_quota_us", quota);
  if (result < 0)
    return gbx_fail(err, GBX_E_LIMIT, -result, "cpu limit", "%lld us", quota);
  long long in_force = read_number(dir_fd, "cpu.cfs_quota_us");
  if (in_force != quota)
    return gbx_fail(err, GBX_E_LIMIT, 0, "cpu limit",
                    "wrote %lld us, read back %lld", quota, in_force);
  return 0;
}

int cgroup_set_limits(const struct cgroup* cgroup, uint32_t number,
                      const struct gbx_wire_limits* limits,
                      struct gbx_err* err) {
  for (int i = CGROUP_MEMORY; i <= CGROUP_CPU; i++) {
    if (cgroup->parent[i][0] == '\0') continue;
    cleanup_fd int dir_fd = open_leaf(cgroup, i, number);
    if (dir_fd < 0)
      return gbx_fail(err, GBX_E_LIMIT, errno, "open leaf", "%s%u",
                      cgroup->prefix, number);
    int result = i == CGROUP_MEMORY
                     ? set_memory(dir_fd, limits->memory_bytes, err)
                 : i == CGROUP_PIDS ? set_pids(dir_fd, limits->pids, err)
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

static int open_in(int dir_fd, const char* file, int flags,
                   struct gbx_err* err) {
  int fd = openat(dir_fd, file, flags | O_CLOEXEC);
  if (fd < 0) return gbx_fail(err, GBX_E_LIMIT, errno, "open leaf", "%s", file);
  return fd;
}

/* Appends a descriptor that the kernel gave, or passes its failure on. */
static int add_fd(struct gbx_fds* fds, int fd) {
  if (fd >= 0) fds->fd[fds->count++] = fd;
  return fd;
}

static int open_leaf_fds(const struct cgroup* cgroup, uint32_t number,
                         struct gbx_fds* fds, struct gbx_err* err) {
  cleanup_fd int memory_fd = open_leaf(cgroup, CGROUP_MEMORY, number);
  cleanup_fd int usage_fd = open_leaf(cgroup, CGROUP_CPUACCT, number);
  int control =
      add_fd(fds, open_in(memory_fd, "memory.oom_control", O_RDONLY, err));
  if (control < 0) return control;
  int result = add_fd(fds, open_oom_event(memory_fd, control, err));
  if (result < 0) return result;
  result = add_fd(
      fds, open_in(memory_fd, "memory.max_usage_in_bytes", O_RDONLY, err));
  if (result < 0) return result;
  result = add_fd(fds, open_in(usage_fd, "cpuacct.usage", O_RDONLY, err));
  if (result < 0) return result;
  for (int i = 0; i < CGROUP_HIERARCHIES; i++) {
    cleanup_fd int dir_fd = open_leaf(cgroup, i, number);
    result = add_fd(fds, open_in(dir_fd, "cgroup.procs", O_WRONLY, err));
    if (result < 0) return result;
  }
  return 0;
}

int cgroup_make_leaf(const struct cgroup* cgroup, uint32_t number,
                     const struct gbx_wire_limits* limits,
                     struct gbx_fds* ret_fds, struct gbx_err* err) {
  struct gbx_fds fds = {0};
  int result = 0;
  for (int i = 0; i < CGROUP_HIERARCHIES && result == 0; i++) {
    char path[PATH_MAX];
    if (leaf_path(cgroup, i, number, path, sizeof path) < 0 ||
        /* EEXIST: a hierarchy with two of our controllers. */
        (mkdir(path, 0755) < 0 && errno != EEXIST))
      result = gbx_fail(err, GBX_E_LIMIT, errno, "make leaf", "%.150s", path);
  }
  if (result == 0) result = cgroup_set_limits(cgroup, number, limits, err);
  if (result == 0) result = open_leaf_fds(cgroup, number, &fds, err);
  if (result < 0) {
    gbx_fds_close(&fds);
    (void)cgroup_remove_leaf(cgroup, number); /* empty: cannot be busy */
    return result;
  }
  *ret_fds = fds;
  return 0;
}

int cgroup_remove_leaf(const struct cgroup* cgroup, uint32_t number) {
  int result = 0;
  for (int i = 0; i < CGROUP_HIERARCHIES; i++) {
    char path[PATH_MAX];
    if (cgroup->parent[i][0] == '\0' ||
        leaf_path(cgroup, i, number, path, sizeof path) < 0)
      continue;
    if (rmdir(path) < 0 && errno != ENOENT) result = -errno;
  }
  return result;
}

void cgroup_remove_all(const struct cgroup* cgroup) {
  for (int i = 0; i < CGROUP_HIERARCHIES; i++) {
    if (cgroup->parent[i][0] == '\0') continue;
    DIR* dir = opendir(cgroup->parent[i]);
    if (dir == NULL) continue;
    const struct dirent* entry;
    while ((entry = readdir(dir)) != NULL) {
      if (strncmp(entry->d_name, cgroup->prefix, strlen(cgroup->prefix)) != 0)
        continue;
      /* The boxes are dead, but the kernel may still be putting the last of
       * their tasks away. */
      for (int tries = 0; tries < 200; tries++) {
        if (unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR) == 0 ||
            errno != EBUSY)
          break;
        struct timespec pause = {.tv_nsec = 5 * 1000 * 1000};
        (void)nanosleep(&pause, NULL);
      }
    }
    (void)closedir(dir);
    remove_stale_leaves(cgroup->parent[i]);
  }
}
