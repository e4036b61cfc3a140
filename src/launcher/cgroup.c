/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/fd.h"
#include "launcher/cgroup_version.h"

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

void cgroup_probe(struct cgroup* cgroup, const char* node_pid, bool rooted) {
  static const struct cgroup_version* const versions[] = {&cgroup_v2,
                                                          &cgroup_v1};
  memset(cgroup, 0, sizeof *cgroup);
  cgroup->rooted = rooted;
  (void)snprintf(cgroup->prefix, sizeof cgroup->prefix, "gbx-%.12s-%d-%lu-",
                 node_pid, getpid(), pid_namespace());
  for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
    if (cgroup->version == NULL && versions[i]->find(cgroup))
      cgroup->version = versions[i];
  for (int i = 0; i < cgroup->parents; i++)
    remove_stale_leaves(cgroup->parent[i]);
}

static int leaf_path(const struct cgroup* cgroup, int parent, uint32_t number,
                     char* ret_path, size_t size) {
  int length = snprintf(ret_path, size, "%s/%s%u", cgroup->parent[parent],
                        cgroup->prefix, number);
  return length < (int)size ? 0 : -ENAMETOOLONG;
}

int cgroup_open_leaf(const struct cgroup* cgroup, int parent, uint32_t number,
                     struct gbx_err* err) {
  char path[PATH_MAX];
  int result = leaf_path(cgroup, parent, number, path, sizeof path);
  int fd = result < 0 ? -1 : open(path, O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0)
    return gbx_fail(err, GBX_E_LIMIT, result < 0 ? -result : errno, "open leaf",
                    "%s%u", cgroup->prefix, number);
  return fd;
}

int cgroup_write_number(int dir_fd, const char* file, long long number) {
  char text[32];
  (void)snprintf(text, sizeof text, "%lld", number);
  return fd_write_file(dir_fd, file, text);
}

long long cgroup_read_number(int dir_fd, const char* file) {
  char text[32];
  return fd_read_file(dir_fd, file, text, sizeof text) > 0 ? atoll(text) : -1;
}

/* The kernel's PID_MAX_LIMIT: pids.max takes a larger number for "max". */
#define MOST_PIDS (4u << 20)

int cgroup_set_pids(int dir_fd, uint64_t pids, struct gbx_err* err) {
  /* One for init, which is ours: as without a cgroup, where only the payload's
   * user namespace is counted. */
  if (pids != 0 && pids < MOST_PIDS) pids++;
  int result = pids == 0
                   ? fd_write_file(dir_fd, "pids.max", "max")
                   : cgroup_write_number(dir_fd, "pids.max", (long long)pids);
  if (result < 0)
    return gbx_fail(err, GBX_E_LIMIT, -result, "pids limit", "%llu",
                    (unsigned long long)pids);
  long long in_force = cgroup_read_number(dir_fd, "pids.max");
  if (pids != 0 && in_force != (long long)pids)
    return gbx_fail(err, GBX_E_LIMIT, 0, "pids limit",
                    "wrote %llu, read back %lld", (unsigned long long)pids,
                    in_force);
  return 0;
}

int cgroup_open_in(int dir_fd, const char* file, int flags,
                   struct gbx_err* err) {
  int fd = openat(dir_fd, file, flags | O_CLOEXEC);
  if (fd < 0) return gbx_fail(err, GBX_E_LIMIT, errno, "open leaf", "%s", file);
  return fd;
}

int cgroup_leaf_add(struct cgroup_leaf* leaf, int fd) {
  if (fd >= 0) leaf->fds.fd[leaf->fds.count++] = fd;
  return fd;
}

int cgroup_leaf_open(struct cgroup_leaf* leaf, enum gbx_leaf_fd which,
                     int dir_fd, const char* file, int flags,
                     struct gbx_err* err) {
  int fd = cgroup_leaf_add(leaf, cgroup_open_in(dir_fd, file, flags, err));
  if (fd >= 0) leaf->has |= 1u << which;
  return fd;
}

int cgroup_set_limits(const struct cgroup* cgroup, uint32_t number,
                      const struct gbx_wire_limits* limits,
                      struct gbx_err* err) {
  if (cgroup->version == NULL)
    return gbx_fail(err, GBX_E_LIMIT, ENOENT, "leaf", "no cgroup for leaves");
  return cgroup->version->set_limits(cgroup, number, limits, err);
}

int cgroup_make_leaf(const struct cgroup* cgroup, uint32_t number,
                     const struct gbx_wire_limits* limits,
                     struct cgroup_leaf* ret_leaf, struct gbx_err* err) {
  struct cgroup_leaf leaf = {0};
  int result = 0;
  for (int i = 0; i < cgroup->parents && result == 0; i++) {
    char path[PATH_MAX];
    if (leaf_path(cgroup, i, number, path, sizeof path) < 0 ||
        /* EEXIST: a hierarchy with two of our controllers. */
        (mkdir(path, 0755) < 0 && errno != EEXIST))
      result = gbx_fail(err, GBX_E_LIMIT, errno, "make leaf", "%.150s", path);
  }
  if (result == 0) result = cgroup_set_limits(cgroup, number, limits, err);
  if (result == 0)
    result = cgroup->version->open_fds(cgroup, number, &leaf, err);
  if (result < 0) {
    gbx_fds_close(&leaf.fds);
    (void)cgroup_remove_leaf(cgroup, number); /* empty: cannot be busy */
    return result;
  }
  *ret_leaf = leaf;
  return 0;
}

int cgroup_remove_leaf(const struct cgroup* cgroup, uint32_t number) {
  int result = 0;
  for (int i = 0; i < cgroup->parents; i++) {
    char path[PATH_MAX];
    if (leaf_path(cgroup, i, number, path, sizeof path) < 0) continue;
    if (rmdir(path) < 0 && errno != ENOENT) result = -errno;
  }
  return result;
}

int cgroup_open_residue(const struct cgroup* cgroup, uint32_t number) {
  return cgroup->version->open_residue == NULL
             ? -ENOSYS
             : cgroup->version->open_residue(cgroup, number);
}

bool cgroup_renew_leaf(const struct cgroup* cgroup,
                       const struct cgroup_leaf* leaf, int residue_fd) {
  return cgroup->version->renew(leaf, residue_fd);
}

void cgroup_remove_all(const struct cgroup* cgroup) {
  for (int i = 0; i < cgroup->parents; i++) {
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
