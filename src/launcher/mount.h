/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_MOUNT_H_
#define SRC_LAUNCHER_MOUNT_H_

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/sys.h"

/* A tmpfs at `path` with nosuid and nodev; `size_bytes` 0: without a limit. */
int mount_tmpfs(const char* path, unsigned mode, uint64_t size_bytes,
                struct gbx_err* err);

/* Changes the size of a tmpfs. */
int mount_resize_tmpfs(const char* path, unsigned mode, uint64_t size_bytes,
                       struct gbx_err* err);

/* Adds MOUNT_ATTR_ flags to the mount at `path`. */
int mount_add_flags(const char* path, uint64_t flags, bool recursive,
                    struct gbx_err* err);

/* A detached copy of what is mounted or lies at `path`, submounts included.
 * Never follows a symlink at the end of the path. Returns the descriptor. */
int mount_clone_tree(const char* path, struct gbx_err* err);

/* A detached procfs of this process' pid namespace. The kernel wants to see one
 * that hides nothing, mounted in the mount namespace that this process is in.
 * Returns the descriptor. */
int mount_open_proc(struct gbx_err* err);

/* Hides /proc of a box: own files over what tells of the host, read-only over
 * what could change it. `empty_dir` is an empty folder to hide folders with. */
int mount_mask_proc(const char* empty_dir, struct gbx_err* err);

#endif  // SRC_LAUNCHER_MOUNT_H_
