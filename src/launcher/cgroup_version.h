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
  /* The descriptors of cgroup_make_leaf(). What a failure leaves in `fds` is
   * closed by the caller. */
  int (*open_fds)(const struct cgroup* cgroup, uint32_t number,
                  struct gbx_fds* fds, struct gbx_err* err);
};

extern const struct cgroup_version cgroup_v1;

/* Opens the folder of leaf `number` below `parent`. */
int cgroup_open_leaf(const struct cgroup* cgroup, int parent, uint32_t number,
                     struct gbx_err* err);

/* A control file with one number in it. Reading returns -1 if there is none. */
int cgroup_write_number(int dir_fd, const char* file, long long number);
long long cgroup_read_number(int dir_fd, const char* file);

#endif  // SRC_LAUNCHER_CGROUP_VERSION_H_
