/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_PAYLOAD_H_
#define SRC_LAUNCHER_PAYLOAD_H_

#include "launcher/init.h"

/* A payload from fork to exec. `socket_fd` leads to init. */
void payload_main(const struct box_spec* spec, int socket_fd)
    __attribute__((noreturn));

/* Loads a filter for this process. `flags` are SECCOMP_FILTER_FLAG_...: with
 * NEW_LISTENER the kernel gives a descriptor on which calls are reported.
 * Returns it, or 0, or a negative errno. */
int payload_load_filter(const struct filter* filter, unsigned flags,
                        struct gbx_err* err);

#endif  // SRC_LAUNCHER_PAYLOAD_H_
