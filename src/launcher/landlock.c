/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/landlock.h"

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/landlock.h"
#include "common/sys.h"

long landlock_version(void) {
  long version =
      syscall(__NR_landlock_create_ruleset, NULL, 0, GBX_LANDLOCK_ASK_VERSION);
  return version < 0 ? 0 : version;
}

bool landlock_can_scope(void) {
  return landlock_version() >= GBX_LANDLOCK_VERSION_WITH_SCOPES;
}

int landlock_scope_self(struct gbx_err* err) {
  const struct gbx_landlock_ruleset rules = GBX_LANDLOCK_SCOPES;
  cleanup_fd int fd =
      (int)syscall(__NR_landlock_create_ruleset, &rules, sizeof rules, 0);
  if (fd < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "landlock_create_ruleset",
                    "scopes of a box with the host's network");
  if (syscall(__NR_landlock_restrict_self, fd, 0) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "landlock_restrict_self",
                    "scopes of a box with the host's network");
  return 0;
}
