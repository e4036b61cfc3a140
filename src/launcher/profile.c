/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/profile.h"

static struct { struct gbx_moments* moments; /* NULL: nobody asked */ } profile;

void profile_start(int fd) {
  profile.moments = gbx_moments_map(fd);
}

void profile_note(enum gbx_moment moment, uint32_t run) {
  gbx_moment(profile.moments, moment, run);
}
