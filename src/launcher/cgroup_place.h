/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_CGROUP_PLACE_H_
#define SRC_LAUNCHER_CGROUP_PLACE_H_

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

/* Where this process is in a hierarchy of cgroups, as folders. */
struct cgroup_place {
  char top[PATH_MAX]; /* the uppermost cgroup that is to be seen */
  char own[PATH_MAX]; /* ours: it begins with `top` */
};

/* v2 has one hierarchy for all controllers and names none. */
#define CGROUP_UNIFIED ""

/* Of the hierarchy of v1 that has the controller, or of CGROUP_UNIFIED. False:
 * there is none, or it is not to be seen. */
bool cgroup_find_place(const char* controller, struct cgroup_place* ret_place);

/* Likewise, out of what /proc/self/cgroup and /proc/self/mountinfo hold. */
bool cgroup_read_place(FILE* cgroups, FILE* mounts, const char* controller,
                       struct cgroup_place* ret_place);

#endif  // SRC_LAUNCHER_CGROUP_PLACE_H_
