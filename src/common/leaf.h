/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_COMMON_LEAF_H_
#define SRC_COMMON_LEAF_H_

/* What the control files of a box's cgroup say, of either version. */

#include <stdbool.h>
#include <stdint.h>

#include "common/wire.h"

/* The number after `key` in the file, or at its beginning if that is "". False,
 * and ret_count as it was, if there is none. */
bool gbx_leaf_read_counter(int fd, const char* key, uint64_t* ret_count);

/* Puts into `usage` what the files say, and leaves what they do not. `fd` is by
 * enum gbx_leaf_fd, with -1 for what there is none of. */
void gbx_leaf_read_usage(const int fd[GBX_LEAF_FDS],
                         struct gbx_wire_usage* usage);

/* From now on the peak of memory is that from now on. False: this kernel
 * cannot, or there is no such file. */
bool gbx_leaf_set_peak_back(const int fd[GBX_LEAF_FDS]);

#endif  // SRC_COMMON_LEAF_H_
