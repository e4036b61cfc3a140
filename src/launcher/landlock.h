/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_LANDLOCK_H_
#define SRC_LAUNCHER_LANDLOCK_H_

/* A box that shares the host's network shares its namespace of abstract unix
 * sockets as well, where no permission and no mount stands before anybody's
 * socket. Landlock's scopes (landlock(7), Linux 6.12) put the wall back. */

#include <stdbool.h>

#include "common/error.h"

/* The version of Landlock's interface; 0: there is none, or it is off. */
long landlock_version(void);

/* Whether this kernel has the scopes. */
bool landlock_can_scope(void);

/* Takes from this process and all that come of it the abstract sockets and the
 * processes that are not among them. Needs no-new-privileges, and must come
 * before the filter, which has no Landlock. For ever. */
int landlock_scope_self(struct gbx_err* err);

#endif  // SRC_LAUNCHER_LANDLOCK_H_
