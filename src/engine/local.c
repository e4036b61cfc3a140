/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/local.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include "common/fd.h"

#ifndef BTRFS_SUPER_MAGIC
#define BTRFS_SUPER_MAGIC 0x9123683E
#endif
#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

/* overlayfs tells of no mapping, and network filesystems not of others. */
bool gbx__is_local(int fd) {
  struct statfs fs;
  if (RETRY(fstatfs(fd, &fs)) < 0) return false;
  switch ((unsigned long)fs.f_type) {
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case TMPFS_MAGIC:
      return true;
    default:
      return false;
  }
}
