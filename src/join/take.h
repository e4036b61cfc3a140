/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_JOIN_TAKE_H_
#define SRC_JOIN_TAKE_H_

#include <stdint.h>

/* How an interpreter that waits in a ready box becomes the payload of a call:
 * what src/launcher/payload.c does between GO and execve, done by a process
 * that is not going to execute anything.
 *
 * The box's payload executed the interpreter with its socket to init at
 * GBX_TAKE_SOCKET, something at the number behind it, so that both are free for
 * the driver, and pipes that nobody uses as 0, 1 and 2. */

#define GBX_TAKE_SOCKET 3

/* What a call brought: the exec blob of wire.h, mapped, whose strings are cwd,
 * argv and env. It stays for as long as the process lives. */
struct gbx_take {
  uint64_t ret_blob; /* address */
  uint64_t ret_size; /* 0: there will be no call */
};

/* Tells init that the interpreter waits, waits for the call, and takes it: its
 * limits, its descriptors 0 to 4, its working folder. Returns 0, or a negative
 * errno: init knows why then, and the process must exit without running
 * anything. */
long gbx_take(struct gbx_take* take);

#endif  // SRC_JOIN_TAKE_H_
