/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_BINDING_NODE_ADDON_H_
#define SRC_BINDING_NODE_ADDON_H_

/* The one way to <napi.h>, so that every file sees it with the same switches.
 *
 * worker.terminate() comes from another thread, at any instruction of ours:
 * from then on every call that needs JavaScript fails, and so does throwing.
 * Without this switch node-addon-api answers the second failure with abort(),
 * which would let one worker take the process down. */
#ifndef NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS
#define NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS
#endif

/* Our warnings are stricter than those its authors build with. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#include <napi.h>
#pragma GCC diagnostic pop

#endif  // SRC_BINDING_NODE_ADDON_H_
