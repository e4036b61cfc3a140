/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_ZYGOTES_H_
#define SRC_LAUNCHER_ZYGOTES_H_

/* The zygotes of all roots, and whose child is whose. */

#include <signal.h>
#include <stdbool.h>

#include "launcher/state.h"

/* A failure shows in the root's zygote. */
void start_zygote(struct root* root);

/* What zygotes said: which process is whose payload. */
void serve_zygotes(void);

/* False if the process was none. */
bool end_zygote(const siginfo_t* info);

#endif  // SRC_LAUNCHER_ZYGOTES_H_
