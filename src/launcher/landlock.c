/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/landlock.h"

#include <errno.h>
#include <stdint.h>

#include "common/fd.h"
#include "common/sys.h"

/* Of <linux/landlock.h>, which older headers do not have, or not with scopes.
 */
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#endif
#ifndef SYS_landlock_restrict_self
#define SYS_landlock_restrict_self 446
#endif
#define CREATE_RULESET_VERSION     1u
#define SCOPE_ABSTRACT_UNIX_SOCKET 1u
#define SCOPE_SIGNAL               2u

/* The first version of the interface that has them. */
#define VERSION_WITH_SCOPES 6

struct ruleset_attr {
  uint64_t handled_access_fs;
  uint64_t handled_access_net;
  uint64_t scoped;
};

long landlock_version(void) {
  long version =
      syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);
  return version < 0 ? 0 : version;
}

bool landlock_can_scope(void) {
  return landlock_version() >= VERSION_WITH_SCOPES;
}

int landlock_scope_self(struct gbx_err* err) {
  /* No file rules: they would change what rename(2) between folders says. */
  const struct ruleset_attr attr = {.scoped = SCOPE_ABSTRACT_UNIX_SOCKET |
                                              SCOPE_SIGNAL};
  cleanup_fd int fd =
      (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
  if (fd < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "landlock_create_ruleset",
                    "scopes of a box with the host's network");
  if (syscall(SYS_landlock_restrict_self, fd, 0) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "landlock_restrict_self",
                    "scopes of a box with the host's network");
  return 0;
}
