/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_COMMON_LANDLOCK_H_
#define SRC_COMMON_LANDLOCK_H_

/* What of <linux/landlock.h> is in use: older headers do not have it, or not
 * with scopes (Linux 6.12). */

#include <stdint.h>

#ifndef __NR_landlock_create_ruleset
#define __NR_landlock_create_ruleset 444
#endif
#ifndef __NR_landlock_restrict_self
#define __NR_landlock_restrict_self 446
#endif

#define GBX_LANDLOCK_ASK_VERSION          1u /* a flag of create_ruleset */
#define GBX_LANDLOCK_VERSION_WITH_SCOPES  6
#define GBX_LANDLOCK_ABSTRACT_UNIX_SOCKET 1u
#define GBX_LANDLOCK_SIGNAL               2u

struct gbx_landlock_ruleset {
  uint64_t handled_access_fs;
  uint64_t handled_access_net;
  uint64_t scoped;
};

/* Of a box that shares the host's network: to connect, to send and to signal
 * within the box only. No file rules: they would change what rename(2) between
 * folders says. */
#define GBX_LANDLOCK_SCOPES                                           \
  (struct gbx_landlock_ruleset) {                                     \
    .scoped = GBX_LANDLOCK_ABSTRACT_UNIX_SOCKET | GBX_LANDLOCK_SIGNAL \
  }

#endif  // SRC_COMMON_LANDLOCK_H_
