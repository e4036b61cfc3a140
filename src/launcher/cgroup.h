/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_CGROUP_H_
#define SRC_LAUNCHER_CGROUP_H_

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/wire.h"

/* Cgroup leaves: one per box, made by the keeper below the cgroup that Node is
 * in. The rung that exists today is cgroup v1 as root. */

enum cgroup_hierarchy {
  CGROUP_MEMORY,
  CGROUP_PIDS,
  CGROUP_CPU,
  CGROUP_CPUACCT,
  CGROUP_HIERARCHIES,
};

struct cgroup {
  const struct cgroup_version* version; /* NULL: none is to be had */
  /* The folders below which leaves are made; v1: for each controller one.
   * Controllers that are mounted together share a folder. */
  int parents;
  char parent[CGROUP_HIERARCHIES][PATH_MAX];
  char prefix[64]; /* "gbx-<node pid>-<keeper pid>-<pid namespace>-" */
  uint32_t controllers;
};

/* Finds the writable v1 hierarchies of this process and removes the leaves
 * that dead keepers left there. */
void cgroup_probe(struct cgroup* cgroup, const char* node_pid);

/* Makes leaf `number` with its limits, reads them back, and returns its
 * descriptors: enum gbx_leaf_fd (-1 never occurs), then cgroup.procs. On
 * failure nothing is left of it. */
int cgroup_make_leaf(const struct cgroup* cgroup, uint32_t number,
                     const struct gbx_wire_limits* limits,
                     struct gbx_fds* ret_fds, struct gbx_err* err);

int cgroup_set_limits(const struct cgroup* cgroup, uint32_t number,
                      const struct gbx_wire_limits* limits,
                      struct gbx_err* err);

/* Returns 0, or -EBUSY as long as processes are in it. */
int cgroup_remove_leaf(const struct cgroup* cgroup, uint32_t number);

/* Removes all leaves of this keeper; the boxes must be gone. */
void cgroup_remove_all(const struct cgroup* cgroup);

#endif  // SRC_LAUNCHER_CGROUP_H_
