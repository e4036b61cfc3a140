/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_CGROUP_VERSION_H_
#define SRC_LAUNCHER_CGROUP_VERSION_H_

/* What differs between the versions of cgroups; cgroup.c does the rest. */

#include "launcher/cgroup.h"

struct cgroup_version {
  /* Fills in parents and controllers; false if it is not to be had. */
  bool (*find)(struct cgroup* cgroup);
  int (*set_limits)(const struct cgroup* cgroup, uint32_t number,
                    const struct gbx_wire_limits* limits, struct gbx_err* err);
  /* For cgroup_make_leaf(). What a failure leaves open is closed by the
   * caller. */
  int (*open_fds)(const struct cgroup* cgroup, uint32_t number,
                  struct cgroup_leaf* leaf, struct gbx_err* err);
  /* NULL where a leaf cannot be used again. */
  int (*open_residue)(const struct cgroup* cgroup, uint32_t number);
  bool (*renew)(const struct cgroup_leaf* leaf, int residue_fd);
};

extern const struct cgroup_version cgroup_v1, cgroup_v2;

/* Opens the folder of leaf `number` below `parent`. */
int cgroup_open_leaf(const struct cgroup* cgroup, int parent, uint32_t number,
                     struct gbx_err* err);

/* A control file with one number in it. Reading returns -1 if there is none. */
int cgroup_write_number(int dir_fd, const char* file, long long number);
long long cgroup_read_number(int dir_fd, const char* file);

/* The one limit that is the same file in both. */
int cgroup_set_pids(int dir_fd, uint64_t pids, struct gbx_err* err);

int cgroup_open_in(int dir_fd, const char* file, int flags,
                   struct gbx_err* err);

/* Appends a descriptor, or passes the failure of its opening on. */
int cgroup_leaf_add(struct cgroup_leaf* leaf, int fd);

/* Opens and appends what `which` names; to be called in the order of that
 * enum. Returns the descriptor or a negative errno. */
int cgroup_leaf_open(struct cgroup_leaf* leaf, enum gbx_leaf_fd which,
                     int dir_fd, const char* file, int flags,
                     struct gbx_err* err);

#endif  // SRC_LAUNCHER_CGROUP_VERSION_H_
