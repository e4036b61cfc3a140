/* SPDX-License-Identifier: Apache-2.0 */

/* cgroup v2: one hierarchy for all controllers.
 *
 * A cgroup either holds processes or hands controllers on to the cgroups in it
 * (the root of the machine may do both), so leaves are made where no process
 * is. First choice is a cgroup that was handed over: one that systemd was told
 * to leave to Node (Delegate=), or the root of a container. If it has processes
 * they move into a folder of it, since they can be nowhere else. Second choice
 * is a scope that the service manager is asked for, for keeper and launcher
 * alone: Node and whatever runs beside it stay where they are.
 *
 * A cgroup that may be written to and is not handed over is left alone: the
 * manager takes controllers away there as it likes, and limits with them.
 * docs/decisions/0005 has the reasons. */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "common/fd.h"
#include "launcher/cgroup_place.h"
#include "launcher/cgroup_version.h"
#include "launcher/systemd_scope.h"

/* Where processes go that stand in the way of leaves. One for all keepers of a
 * cgroup: what is started later is in it from the beginning. */
#define BYSTANDERS "gbx-bystanders"

/* Without these two a box would be under no limit worth the name. */
#define NEEDED (GBX_CTL_MEMORY | GBX_CTL_PIDS)

static bool join_path(char* ret_path, const char* folder, const char* name) {
  return snprintf(ret_path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX;
}

/* ---- What is to be had there -------------------------------------------- */

static uint32_t read_controllers(const char* folder, const char* file) {
  static const struct {
    const char* name;
    uint32_t controller;
  } known[] = {
      {"memory", GBX_CTL_MEMORY}, {"pids", GBX_CTL_PIDS}, {"cpu", GBX_CTL_CPU}};
  char path[PATH_MAX], text[512];
  if (!join_path(path, folder, file) ||
      fd_read_file(AT_FDCWD, path, text, sizeof text) <= 0)
    return 0;
  uint32_t controllers = 0;
  char* rest = text;
  for (const char* word; (word = strsep(&rest, " ")) != NULL;)
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
      if (strcmp(word, known[i].name) == 0) controllers |= known[i].controller;
  return controllers;
}

static bool has_needed(uint32_t controllers) {
  return (controllers & NEEDED) == NEEDED;
}

/* Whether we may make leaves there and put processes into them. */
static bool is_writable(const char* folder) {
  static const char* const files[] = {".", "cgroup.procs",
                                      "cgroup.subtree_control"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    char path[PATH_MAX];
    if (!join_path(path, folder, files[i]) ||
        faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) < 0)
      return false;
  }
  return true;
}

/* The root of the machine, unlike that of a container, lacks this file. */
static bool is_machine_root(const char* folder) {
  char path[PATH_MAX];
  return join_path(path, folder, "cgroup.type") &&
         faccessat(AT_FDCWD, path, F_OK, AT_EACCESS) < 0;
}

/* The cgroup of a unit of systemd, by its name. */
static bool is_unit(const char* folder) {
  static const char* const suffixes[] = {".service", ".scope", ".slice"};
  size_t length = strlen(folder);
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
    size_t size = strlen(suffixes[i]);
    if (length > size && strcmp(folder + length - size, suffixes[i]) == 0)
      return true;
  }
  return false;
}

/* The system's manager marks what it hands over. A user's manager that does not
 * is asked. */
static bool is_handed_over(const char* unit) {
  static const char* const marks[] = {"user.delegate", "trusted.delegate"};
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
    char value;
    if (lgetxattr(unit, marks[i], &value, 1) == 1 && value == '1') return true;
  }
  char manager[48];
  (void)snprintf(manager, sizeof manager, "/user@%u.service/", geteuid());
  return strstr(unit, manager) != NULL && geteuid() != 0 && is_writable(unit) &&
         systemd_unit_is_delegated(strrchr(unit, '/') + 1);
}

static bool go_up(char* path, const struct cgroup_place* place) {
  if (strlen(path) <= strlen(place->top)) return false;
  *strrchr(path, '/') = '\0';
  return true;
}

/* The uppermost cgroup that is Node's to use. */
static bool find_own_subtree(const struct cgroup_place* place,
                             char ret_path[static PATH_MAX]) {
  memcpy(ret_path, place->own, PATH_MAX);
  do {
    if (is_unit(ret_path)) return is_handed_over(ret_path);
  } while (go_up(ret_path, place));
  /* No unit on the way: a container, or a machine without systemd, of which
   * only the root is nobody's. */
  return !is_machine_root(place->top) || strcmp(place->own, place->top) == 0;
}

/* ---- Making room for leaves --------------------------------------------- */

/* Puts the processes of one cgroup into another, until there is none left.
 * They may fork meanwhile, hence the rounds. */
static bool move_processes(const char* from, const char* to) {
  char source[PATH_MAX], text[4096];
  cleanup_fd int to_fd = open(to, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (to_fd < 0 || !join_path(source, from, "cgroup.procs")) return false;
  for (int round = 0; round < 100; round++) {
    ssize_t size = fd_read_file(AT_FDCWD, source, text, sizeof text);
    if (size <= 0) return size == 0;
    /* The last number may be half of one. */
    if (size == sizeof text - 1) *strrchr(text, '\n') = '\0';
    char* rest = text;
    for (const char* pid; (pid = strsep(&rest, "\n")) != NULL;) {
      int result = fd_write_file(to_fd, "cgroup.procs", pid);
      if (result < 0 && result != -ESRCH) return false;
    }
  }
  return false;
}

static bool hand_controllers_on(const char* folder) {
  char path[PATH_MAX];
  if (!join_path(path, folder, "cgroup.subtree_control")) return false;
  if (fd_write_file(AT_FDCWD, path, "+memory +pids") < 0) return false;
  (void)fd_write_file(AT_FDCWD, path, "+cpu"); /* it may be missing */
  return true;
}

/* Makes a parent of leaves of a cgroup that we are in. */
static bool make_room(const char* folder) {
  if (!is_writable(folder) ||
      !has_needed(read_controllers(folder, "cgroup.controllers")))
    return false;
  if (is_machine_root(folder)) return hand_controllers_on(folder);
  char bystanders[PATH_MAX];
  if (!join_path(bystanders, folder, BYSTANDERS) ||
      (mkdir(bystanders, 0755) < 0 && errno != EEXIST))
    return false;
  /* EBUSY: what was started since then is in the way. */
  for (int tries = 0; tries < 10; tries++)
    if (move_processes(folder, bystanders) && hand_controllers_on(folder))
      return true;
  /* Everything as it was. */
  (void)move_processes(bystanders, folder);
  (void)rmdir(bystanders);
  return false;
}

static bool use(struct cgroup* cgroup, const char* folder) {
  uint32_t controllers = read_controllers(folder, "cgroup.subtree_control");
  if (!has_needed(controllers)) return false;
  cgroup->controllers = controllers;
  memcpy(cgroup->parent[0], folder, strlen(folder) + 1);
  cgroup->parents = 1;
  return true;
}

static bool use_own_subtree(struct cgroup* cgroup,
                            const struct cgroup_place* place) {
  char uppermost[PATH_MAX], path[PATH_MAX];
  if (!find_own_subtree(place, uppermost)) return false;
  memcpy(path, place->own, PATH_MAX);
  /* Room that there is already: Node was started where another one had made
   * it, or by somebody who knows what it needs. */
  while (strlen(path) > strlen(uppermost) && go_up(path, place))
    if (is_writable(path) && use(cgroup, path)) return true;
  return make_room(place->own) && use(cgroup, place->own);
}

static bool use_own_scope(struct cgroup* cgroup, struct cgroup_place* place) {
  char unit[80], description[80];
  int node_pid, keeper_pid;
  if (sscanf(cgroup->prefix, "gbx-%d-%d-", &node_pid, &keeper_pid) != 2)
    return false;
  (void)snprintf(unit, sizeof unit, "glovebox-%d-%d.scope", node_pid,
                 keeper_pid);
  (void)snprintf(description, sizeof description, "glovebox of process %d",
                 node_pid);
  return systemd_scope_enter(unit, description) &&
         cgroup_find_place(CGROUP_UNIFIED, place) && make_room(place->own) &&
         use(cgroup, place->own);
}

static bool find(struct cgroup* cgroup) {
  struct cgroup_place place;
  /* On a machine that has v2 beside v1 the controllers are v1's. */
  if (!cgroup_find_place(CGROUP_UNIFIED, &place) ||
      !has_needed(read_controllers(place.top, "cgroup.controllers")))
    return false;
  return use_own_subtree(cgroup, &place) ||
         (systemd_is_manager() && use_own_scope(cgroup, &place));
}

/* ---- Leaves ------------------------------------------------------------- */

static int set_memory(int dir_fd, uint64_t bytes, struct gbx_err* err) {
  /* Where the kernel does not count swap there is no such file. */
  int result =
      fd_write_file(dir_fd, "memory.swap.max", bytes == 0 ? "max" : "0");
  if (result == 0 || result == -ENOENT)
    result = fd_write_file(dir_fd, "memory.oom.group", "1");
  if (result == 0)
    result = bytes == 0
                 ? fd_write_file(dir_fd, "memory.max", "max")
                 : cgroup_write_number(dir_fd, "memory.max", (long long)bytes);
  if (result < 0)
    return gbx_fail(err, GBX_E_LIMIT, -result, "memory limit", "%llu",
                    (unsigned long long)bytes);
  if (cgroup_read_number(dir_fd, "memory.oom.group") != 1)
    return gbx_fail(err, GBX_E_LIMIT, 0, "memory.oom.group",
                    "wrote 1, and it is not in force");
  if (bytes == 0) return 0;
  /* The kernel rounds down to whole pages. */
  long long in_force = cgroup_read_number(dir_fd, "memory.max");
  if (in_force < 0 || in_force > (long long)bytes)
    return gbx_fail(err, GBX_E_LIMIT, 0, "memory limit",
                    "wrote %llu bytes, read back %lld",
                    (unsigned long long)bytes, in_force);
  return 0;
}

static int set_cpu(int dir_fd, uint64_t millis, struct gbx_err* err) {
  /* Of a period of 100 ms: a thousandth of a core is 100 us of quota. */
  char wanted[48], in_force[48] = "nothing";
  if (millis == 0)
    (void)snprintf(wanted, sizeof wanted, "max 100000");
  else
    (void)snprintf(wanted, sizeof wanted, "%llu 100000",
                   (unsigned long long)millis * 100);
  int result = fd_write_file(dir_fd, "cpu.max", wanted);
  if (result < 0)
    return gbx_fail(err, GBX_E_LIMIT, -result, "cpu limit", "%s", wanted);
  (void)fd_read_file(dir_fd, "cpu.max", in_force, sizeof in_force);
  if (strcmp(in_force, wanted) != 0)
    return gbx_fail(err, GBX_E_LIMIT, 0, "cpu limit", "wrote %s, read back %s",
                    wanted, in_force);
  return 0;
}

static int set_limits(const struct cgroup* cgroup, uint32_t number,
                      const struct gbx_wire_limits* limits,
                      struct gbx_err* err) {
  cleanup_fd int dir_fd = cgroup_open_leaf(cgroup, 0, number, err);
  if (dir_fd < 0) return dir_fd;
  int result = set_memory(dir_fd, limits->memory_bytes, err);
  if (result == 0) result = cgroup_set_pids(dir_fd, limits->pids, err);
  if (result == 0 && (cgroup->controllers & GBX_CTL_CPU) != 0)
    result = set_cpu(dir_fd, limits->cpu_millis, err);
  return result;
}

static int open_fds(const struct cgroup* cgroup, uint32_t number,
                    struct cgroup_leaf* leaf, struct gbx_err* err) {
  cleanup_fd int dir_fd = cgroup_open_leaf(cgroup, 0, number, err);
  if (dir_fd < 0) return dir_fd;
  int result = cgroup_leaf_open(leaf, GBX_LEAF_OOM_COUNT, dir_fd,
                                "memory.events", O_RDONLY, err);
  /* Since 5.19; without it init's own count stands. Since 6.12 it can be
   * written to, which sets back what it reads as. */
  int how = faccessat(dir_fd, "memory.peak", W_OK, AT_EACCESS) == 0 ? O_RDWR
                                                                    : O_RDONLY;
  if (result >= 0 && faccessat(dir_fd, "memory.peak", F_OK, 0) == 0)
    result = cgroup_leaf_open(leaf, GBX_LEAF_MAX_USAGE, dir_fd, "memory.peak",
                              how, err);
  if (result >= 0)
    result = cgroup_leaf_open(leaf, GBX_LEAF_CPU_USAGE, dir_fd, "cpu.stat",
                              O_RDONLY, err);
  if (result >= 0 && faccessat(dir_fd, "pids.peak", F_OK, 0) == 0)
    result = cgroup_leaf_open(leaf, GBX_LEAF_MAX_PIDS, dir_fd, "pids.peak",
                              O_RDONLY, err);
  if (result >= 0)
    result = cgroup_leaf_open(leaf, GBX_LEAF_PIDS, dir_fd, "pids.current",
                              O_RDONLY, err);
  if (result < 0) return result;
  /* The launcher of a plain user may make a process in there, which is the
   * quicker way. That of root is nobody on the host, so its boxes join by what
   * we opened. */
  leaf->is_folder = !cgroup->rooted;
  if (leaf->is_folder) return cgroup_leaf_add(leaf, fd_steal(&dir_fd));
  return cgroup_leaf_add(leaf,
                         cgroup_open_in(dir_fd, "cgroup.procs", O_WRONLY, err));
}

const struct cgroup_version cgroup_v2 = {
    .find = find, .set_limits = set_limits, .open_fds = open_fds};
