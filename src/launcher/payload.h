/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_PAYLOAD_H_
#define SRC_LAUNCHER_PAYLOAD_H_

#include "launcher/init.h"

/* A payload from fork to exec. `socket_fd` leads to init; `slave_fd` is its
 * terminal, -1 if it has none. */
void payload_main(const struct box_spec* spec, int socket_fd, int slave_fd)
    __attribute__((noreturn));

#endif  // SRC_LAUNCHER_PAYLOAD_H_
