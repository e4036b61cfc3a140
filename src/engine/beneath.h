/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_ENGINE_BENEATH_H_
#define SRC_ENGINE_BENEATH_H_

/* Names and opens below a workspace, whose content is a box's and hostile. */

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

/* Longest path below a workspace, with its NUL: what one system call takes. */
#define GBX__PATH_SIZE 4096

/* Opens `path` below `dir_fd` by openat2(2): no symlink is followed, anywhere
 * in it, and whatever is renamed meanwhile, what is opened lies below `dir_fd`.
 * `resolve` adds RESOLVE_... flags, and O_CLOEXEC is added; O_CREAT is not
 * possible. Returns a descriptor or a negative errno: -ELOOP for a symlink,
 * -EXDEV for what lies outside. Kernel floor: 5.6. */
int gbx__beneath_open(int dir_fd, const char* path, int flags,
                      uint64_t resolve);

/* What an errno of a path below a workspace means, as one of our codes. */
enum gbx_code gbx__beneath_code(int sys_errno);

/* Copies `path` without empty and "." parts. Refuses with GBX_E_PATH and the
 * rule: a path that is absolute, too long, or has ".."; that ends in "/"; that
 * names nothing ("", "."), unless `may_be_empty` and it is "". */
int gbx__beneath_clean(const char* path, bool may_be_empty,
                       char ret_path[GBX__PATH_SIZE], struct gbx_err* err);

/* Names of our temporary files and folders in a workspace, which neither a list
 * nor an index shows: ".glovebox-<16 hexadecimal digits>.tmp". */
#define GBX__TEMP_NAME_SIZE 31

/* Returns 0 or a negative errno. */
int gbx__temp_name_make(char ret_name[GBX__TEMP_NAME_SIZE]);
bool gbx__temp_name_is(const char* name);

#endif  // SRC_ENGINE_BENEATH_H_
