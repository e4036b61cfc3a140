/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_PROFILE_H_
#define SRC_LAUNCHER_PROFILE_H_

/* The moments of common/moments.h, for the launcher and its forks. */

#include "common/moments.h"

/* From here on profile_note() notes, in the ring that `fd` leads to. */
void profile_start(int fd);

void profile_note(enum gbx_moment moment, uint32_t run);

#endif  // SRC_LAUNCHER_PROFILE_H_
