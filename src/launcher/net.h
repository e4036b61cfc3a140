/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_NET_H_
#define SRC_LAUNCHER_NET_H_

#include "common/error.h"

/* Sets the loopback interface of this network namespace up. */
int net_loopback_up(struct gbx_err* err);

#endif  // SRC_LAUNCHER_NET_H_
