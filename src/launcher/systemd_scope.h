/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_SYSTEMD_SCOPE_H_
#define SRC_LAUNCHER_SYSTEMD_SCOPE_H_

#include <stdbool.h>

/* Whether systemd manages this machine, or this container. */
bool systemd_is_manager(void);

/* Whether the service manager of this user has handed the cgroup of that unit
 * over to whatever runs in it. */
bool systemd_unit_is_delegated(const char* unit);

/* Asks the service manager of this user for a scope of that name in which this
 * process is alone and may do with the cgroup as it likes, and waits until it
 * is there: no longer than a few seconds, and not at all if the user has no
 * manager. Returns whether the process is in it. */
bool systemd_scope_enter(const char* unit, const char* description);

/* The part of it that listens to somebody else: whether the manager at the
 * other end of a non-blocking socket takes the job, within `timeout_ms`. */
bool systemd_scope_request(int fd, const char* unit, const char* description,
                           int timeout_ms);

#endif  // SRC_LAUNCHER_SYSTEMD_SCOPE_H_
