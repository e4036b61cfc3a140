/* SPDX-License-Identifier: Apache-2.0 */

/* A walk in depth. Each level keeps its folder open and what is left of a small
 * buffer of entries, so memory and descriptors are bounded by the number of
 * levels, whatever is in the folders. A folder is opened by its name in the one
 * above, never by a path, so one that is moved meanwhile is at worst missed.
 *
 * The box writes while we look. Without a snapshot no walk can promise to see
 * what is moved from where it will be to where it has been; the next one, at
 * most seconds later, is as likely to. */

#include "engine/usage.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "common/fd.h"
#include "engine/beneath.h"

enum { level_bytes = 2048 };

/* Of 24 bytes each. Beyond it, inodes with many names count by shares. */
#define MAX_INODES (1u << 20)

struct level {
  int fd;
  uint32_t owner;     /* of the folder */
  uint16_t next, end; /* what is left in `entries` */
  alignas(8) char entries[level_bytes];
};

struct count {
  struct gbx__usage usage;
  struct gbx__inodes many_names;
  uint32_t owner;
  int depth;
  struct level levels[GBX__USAGE_LEVELS];
};

/* ---- Space --------------------------------------------------------------- */

int gbx__space_read(int fd, struct gbx__space* ret_space) {
  struct statfs fs;
  if (RETRY(fstatfs(fd, &fs)) < 0) return -errno;
  uint64_t unit = (uint64_t)(fs.f_frsize > 0 ? fs.f_frsize : fs.f_bsize);
  *ret_space =
      (struct gbx__space){.bytes = fs.f_bfree * unit, .inodes = fs.f_ffree};
  return 0;
}

uint64_t gbx__space_fall(const struct gbx__space* from,
                         const struct gbx__space* to) {
  uint64_t fall = from->bytes > to->bytes ? from->bytes - to->bytes : 0;
  uint64_t inodes = from->inodes > to->inodes ? from->inodes - to->inodes : 0;
  return fall + inodes * GBX__USAGE_NAME_BYTES;
}

/* ---- Inodes -------------------------------------------------------------- */

bool gbx__inodes_add(struct gbx__inodes* inodes, struct gbx__inode inode) {
  if (inodes->count == inodes->room) {
    size_t room = inodes->room == 0 ? 64 : inodes->room * 2;
    if (room > MAX_INODES) return false;
    void* grown = realloc(inodes->items, room * sizeof *inodes->items);
    if (grown == NULL) return false;
    inodes->items = grown;
    inodes->room = room;
  }
  inodes->items[inodes->count++] = inode;
  return true;
}

static int compare_inodes(const void* a, const void* b) {
  const struct gbx__inode *first = a, *second = b;
  if (first->dev != second->dev) return first->dev < second->dev ? -1 : 1;
  if (first->ino != second->ino) return first->ino < second->ino ? -1 : 1;
  return 0;
}

uint64_t gbx__inodes_sum(struct gbx__inodes* inodes) {
  uint64_t sum = 0;
  if (inodes->count > 1)
    qsort(inodes->items, inodes->count, sizeof *inodes->items, compare_inodes);
  for (size_t i = 0; i < inodes->count; i++)
    if (i == 0 || compare_inodes(&inodes->items[i - 1], &inodes->items[i]) != 0)
      sum += inodes->items[i].bytes;
  return sum;
}

void gbx__inodes_done(struct gbx__inodes* inodes) {
  free(inodes->items);
  *inodes = (struct gbx__inodes){0};
}

/* ---- The walk ------------------------------------------------------------ */

static void add_inode(struct count* count, const struct statx* st) {
  uint64_t bytes = st->stx_blocks * 512u;
  count->usage.bytes += GBX__USAGE_NAME_BYTES;
  if (S_ISDIR(st->stx_mode) || st->stx_nlink < 2) {
    count->usage.bytes += bytes;
    return;
  }
  struct gbx__inode inode = {
      .dev = makedev(st->stx_dev_major, st->stx_dev_minor),
      .ino = st->stx_ino,
      .bytes = bytes};
  if (!gbx__inodes_add(&count->many_names, inode))
    count->usage.bytes += bytes / st->stx_nlink;
}

/* A folder that we may not look into. One of another owner is none that a box
 * could have made, or could open to itself. */
static void pass_over(struct count* count, uint32_t folder_owner) {
  if (folder_owner == count->owner) count->usage.complete = false;
}

static void enter_folder(struct count* count, const char* name,
                         uint32_t folder_owner) {
  if (count->depth + 1 == GBX__USAGE_LEVELS) {
    count->usage.complete = false;
    return;
  }
  int fd = gbx__beneath_open(count->levels[count->depth].fd, name,
                             O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0);
  if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP) return; /* it is gone */
  if (fd == -EACCES || fd == -EPERM) {
    pass_over(count, folder_owner);
    return;
  }
  if (fd < 0) { /* no descriptor to be had, a mount that does not answer */
    count->usage.complete = false;
    return;
  }
  struct level* level = &count->levels[++count->depth];
  level->fd = fd;
  level->owner = folder_owner;
  level->next = level->end = 0;
}

static void visit(struct count* count, const char* name) {
  if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return;
  struct statx st;
  int fd = count->levels[count->depth].fd;
  if (statx(fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
            STATX_TYPE | STATX_UID | STATX_NLINK | STATX_INO | STATX_BLOCKS,
            &st) < 0) {
    if (errno == EACCES) /* a folder with its read bit but no search bit */
      pass_over(count, count->levels[count->depth].owner);
    else if (errno != ENOENT)
      count->usage.complete = false;
    return;
  }
  add_inode(count, &st);
  if (S_ISDIR(st.stx_mode)) enter_folder(count, name, st.stx_uid);
}

/* Returns false at the end of the folder. */
static bool fill(struct count* count, struct level* level) {
  ssize_t size = getdents64(level->fd, level->entries, level_bytes);
  if (size < 0 && errno != ENOENT) count->usage.complete = false;
  level->next = 0;
  level->end = size < 0 ? 0 : (uint16_t)size;
  return size > 0;
}

static void walk(struct count* count, uint64_t enough,
                 const atomic_bool* cancelled) {
  while (count->depth >= 0) {
    struct level* level = &count->levels[count->depth];
    if (level->next == level->end) {
      if (atomic_load_explicit(cancelled, memory_order_relaxed)) return;
      if (!fill(count, level)) {
        fd_close(&level->fd);
        count->depth--;
      }
      continue;
    }
    const struct dirent64* entry = (const void*)(level->entries + level->next);
    level->next = (uint16_t)(level->next + entry->d_reclen);
    visit(count, entry->d_name);
    if (count->usage.bytes > enough) return;
  }
}

int gbx__usage_count(int dir_fd, uint32_t owner, uint64_t enough,
                     const atomic_bool* cancelled, struct gbx__usage* ret_usage,
                     struct gbx_err* err) {
  struct statx st;
  if (statx(dir_fd, "", AT_EMPTY_PATH, STATX_TYPE | STATX_BLOCKS, &st) < 0)
    return gbx_fail(err, GBX_E_IO, errno, "statx", "workspace");
  struct count* count = malloc(sizeof *count);
  if (count == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "disk usage");
  count->usage = (struct gbx__usage){.complete = true};
  count->many_names = (struct gbx__inodes){0};
  count->owner = owner;
  count->depth = 0;
  count->levels[0].owner = owner;
  count->levels[0].next = count->levels[0].end = 0;
  /* Not a duplicate: walks at the same time must not share a position. */
  count->levels[0].fd =
      gbx__beneath_open(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0);
  if (count->levels[0].fd < 0) {
    int result = count->levels[0].fd;
    free(count);
    return gbx_fail(err, GBX_E_IO, -result, "openat2", "workspace");
  }
  add_inode(count, &st);
  walk(count, enough, cancelled);
  for (; count->depth >= 0; count->depth--)
    fd_close(&count->levels[count->depth].fd);
  count->usage.bytes += gbx__inodes_sum(&count->many_names);
  gbx__inodes_done(&count->many_names);
  *ret_usage = count->usage;
  free(count);
  return 0;
}
