/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_DBUS_H_
#define SRC_LAUNCHER_DBUS_H_

/* As much of the D-Bus protocol as it takes to call one method of systemd's
 * manager: the bytes of the call, and what comes back. Nothing here waits or
 * opens. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* More than the call takes, and than the names of its units allow. */
#define DBUS_CALL_MAX 1024
/* The manager also tells of units that come and go, in such messages. */
#define DBUS_MESSAGE_MAX (64u << 10)

/* Writes the call of org.freedesktop.systemd1.Manager.StartTransientUnit for a
 * delegated scope that is to hold the process that sends it. Returns its size,
 * or 0 if it does not fit. */
size_t dbus_write_scope_call(const char* unit, const char* description,
                             uint8_t bytes[static DBUS_CALL_MAX]);

/* Writes the question whether the manager has handed the cgroup of a service,
 * scope or slice over. */
size_t dbus_write_delegate_call(const char* unit,
                                uint8_t bytes[static DBUS_CALL_MAX]);

enum dbus_kind {
  DBUS_UNFINISHED, /* more bytes are to come */
  DBUS_RETURN,     /* who makes one call need not ask which it answers */
  DBUS_ERROR,
  DBUS_OTHER,
  DBUS_BROKEN, /* no such message, or a larger one than we take */
};

/* What the message at `bytes` is, and how long, unless it is unfinished or
 * broken. */
enum dbus_kind dbus_read(const uint8_t* bytes, size_t size, size_t* ret_length);

/* Whether a whole message brings the answer "true" to such a question. */
bool dbus_says_true(const uint8_t* bytes, size_t length);

#endif  // SRC_LAUNCHER_DBUS_H_
