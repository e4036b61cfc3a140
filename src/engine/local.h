/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_ENGINE_LOCAL_H_
#define SRC_ENGINE_LOCAL_H_

#include <stdbool.h>

/* Whether a file lies on a filesystem whose answers come from this machine, and
 * whose changes the kernel tells of. */
bool gbx__is_local(int fd);

#endif  // SRC_ENGINE_LOCAL_H_
