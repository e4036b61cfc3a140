/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_CGROUP_H_
#define SRC_LAUNCHER_CGROUP_H_

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/wire.h"

/* Cgroup leaves: one per box, made by the keeper. With v1, as root, below the
 * cgroup that Node is in; with v2 where cgroup_v2.c finds or makes room. */

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
  bool rooted;     /* boxes have another uid than we have */
  uint32_t controllers;
};

/* What of a leaf goes to the launcher. */
struct cgroup_leaf {
  uint32_t has;   /* 1 << enum gbx_leaf_fd: these descriptors come first */
  bool is_folder; /* then comes the leaf itself, else its cgroup.procs */
  struct gbx_fds fds;
};

/* Finds, or makes, a place for leaves and removes those that dead keepers left
 * there. May move this process to another cgroup: before it has children. */
void cgroup_probe(struct cgroup* cgroup, const char* node_pid, bool rooted);

/* Makes leaf `number` with its limits, reads them back, and returns its
 * descriptors. On failure nothing is left of it. */
int cgroup_make_leaf(const struct cgroup* cgroup, uint32_t number,
                     const struct gbx_wire_limits* limits,
                     struct cgroup_leaf* ret_leaf, struct gbx_err* err);

int cgroup_set_limits(const struct cgroup* cgroup, uint32_t number,
                      const struct gbx_wire_limits* limits,
                      struct gbx_err* err);

/* Returns 0, or -EBUSY as long as processes are in it. */
int cgroup_remove_leaf(const struct cgroup* cgroup, uint32_t number);

/* The descriptor of what tells how much memory a leaf pays for; negative where
 * a leaf can have one box only. */
int cgroup_open_residue(const struct cgroup* cgroup, uint32_t number);

/* Sets back what a leaf has counted whose box is gone. False if it is not as
 * good as a new one: somebody is in it, it ran out of memory, or what the box
 * left in memory counts towards it. */
bool cgroup_renew_leaf(const struct cgroup* cgroup,
                       const struct cgroup_leaf* leaf, int residue_fd);

/* Removes all leaves of this keeper; the boxes must be gone. */
void cgroup_remove_all(const struct cgroup* cgroup);

#endif  // SRC_LAUNCHER_CGROUP_H_
