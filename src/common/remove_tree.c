/* SPDX-License-Identifier: Apache-2.0 */

/* Theory of operation
 * -------------------
 * A walk in depth with a fixed number of levels, each with a descriptor and a
 * small buffer of entries. A folder that is not empty on the lowest level is
 * not entered: it is renamed into the uppermost folder, where a later pass
 * finds it. Each folder moves at most once, so the work stays linear, while
 * neither the depth of the tree nor the length of its paths matters.
 *
 * Every step names one entry of an open folder, and no step follows a symlink:
 * an entry that is swapped between two steps makes a step fail, or makes it act
 * on another entry of the same tree, never on something outside. */

#include "common/remove_tree.h"

#include <dirent.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "common/fd.h"

enum { level_count = 16, level_bytes = 2024 };

struct level {
  int fd;
  uint16_t next, end; /* what is left in `entries` */
  const char* name;   /* the entry at work, in `entries` */
  bool progress;      /* this pass removed something, or something moved here */
  alignas(8) char entries[level_bytes];
};

struct removal {
  const char* name;   /* of the folder on level 0 */
  int parent_fd;      /* of the same */
  int result;         /* of the first failure */
  struct gbx_err err; /* the same */
  uint64_t token;     /* makes the names of moved folders ours alone */
  uint32_t moved;
  int depth; /* the level at work */
  struct level levels[level_count];
};

static void note(struct removal* removal, int sys_errno, const char* op,
                 const char* name) {
  if (removal->result == 0)
    removal->result =
        gbx_fail(&removal->err, GBX_E_IO, sys_errno, op, "%s", name);
}

/* Returns 0 or a negative errno. */
static int check_folder(int fd, mode_t* ret_mode) {
  struct statx st;
  if (statx(fd, "", AT_EMPTY_PATH, STATX_MODE, &st) < 0) return -errno;
  /* Another mount is somebody's, be it of the same filesystem. rmdir refuses it
   * before it comes to this, but not what is mounted or moved here since. */
  if ((st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0) return -EBUSY;
  *ret_mode = st.stx_mode;
  return 0;
}

/* Gives a folder that its owner may not even read back to the owner. chmod by
 * name would follow a symlink that took the folder's place after a look at it;
 * the link in /proc leads to the open folder itself. */
static int unlock_folder(int parent_fd, const char* name) {
  cleanup_fd int fd =
      openat(parent_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -errno;
  mode_t mode;
  int result = check_folder(fd, &mode);
  if (result < 0) return result;
  char path[32];
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return chmod(path, S_IRWXU) < 0 ? -errno : 0;
}

/* Returns a descriptor or a negative errno. */
static int open_folder(int parent_fd, const char* name) {
  const int flags =
      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  cleanup_fd int fd = openat(parent_fd, name, flags);
  if (fd < 0 && errno == EACCES) {
    int result = unlock_folder(parent_fd, name);
    if (result < 0) return result;
    fd = openat(parent_fd, name, flags);
  }
  if (fd < 0) return -errno;
  mode_t mode;
  int result = check_folder(fd, &mode);
  if (result < 0) return result;
  /* Removing entries takes the write and the search bit, moving the folder its
   * write bit. Where this fails a capability may serve; if none does, the steps
   * that follow say so. */
  if ((mode & S_IRWXU) != S_IRWXU) (void)fchmod(fd, S_IRWXU);
  return fd_steal(&fd);
}

static bool is_changed_meanwhile(int sys_errno) {
  return sys_errno == ENOENT || sys_errno == ENOTDIR || sys_errno == ELOOP;
}

/* Puts the folder where a later pass over level 0 finds it. */
static void move_up(struct removal* removal, struct level* level,
                    const char* name) {
  struct level* top = &removal->levels[0];
  char moved[48];
  (void)snprintf(moved, sizeof moved, "%016llx-%u",
                 (unsigned long long)removal->token, removal->moved++);
  if (renameat(level->fd, name, top->fd, moved) < 0) {
    if (errno != ENOENT) note(removal, errno, "rename", name);
    return;
  }
  level->progress = true;
  top->progress = true;
}

static void enter_folder(struct removal* removal, struct level* level,
                         const char* name) {
  cleanup_fd int fd = open_folder(level->fd, name);
  if (fd < 0) {
    /* Changed meanwhile: the next pass sees what it is now. */
    if (!is_changed_meanwhile(-fd)) note(removal, -fd, "open", name);
  } else if (removal->depth + 1 == level_count) {
    move_up(removal, level, name);
  } else {
    struct level* below = &removal->levels[++removal->depth];
    below->fd = fd_steal(&fd);
    below->next = below->end = 0;
    below->progress = false;
  }
}

enum removed { REMOVED, ABSENT, NOT_EMPTY, FAILED };

static enum removed remove_entry(struct removal* removal, int fd,
                                 const char* name, bool maybe_folder) {
  if (!maybe_folder) {
    if (unlinkat(fd, name, 0) == 0) return REMOVED;
    if (errno == ENOENT) return ABSENT;
    if (errno != EISDIR) {
      note(removal, errno, "unlink", name);
      return FAILED;
    }
  }
  if (unlinkat(fd, name, AT_REMOVEDIR) == 0) return REMOVED;
  if (errno == ENOENT) return ABSENT;
  if (errno == ENOTEMPTY || errno == EEXIST) return NOT_EMPTY;
  if (errno == ENOTDIR && unlinkat(fd, name, 0) == 0) return REMOVED;
  if (errno == ENOENT) return ABSENT;
  note(removal, errno, "rmdir", name);
  return FAILED;
}

static void visit(struct removal* removal, struct level* level,
                  const struct dirent64* entry) {
  const char* name = entry->d_name;
  if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return;
  bool maybe_folder = entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN;
  level->name = name;
  enum removed removed = remove_entry(removal, level->fd, name, maybe_folder);
  if (removed == REMOVED) level->progress = true;
  if (removed == NOT_EMPTY) enter_folder(removal, level, name);
}

/* At the end of the entries of the deepest level: removes its folder and goes
 * back to the level above, or makes ready for one more pass. Returns false once
 * level 0 is through. */
static bool leave_folder(struct removal* removal) {
  struct level* level = &removal->levels[removal->depth];
  struct level* above = removal->depth == 0 ? NULL : level - 1;
  int above_fd = above == NULL ? removal->parent_fd : above->fd;
  const char* name = above == NULL ? removal->name : above->name;
  enum removed removed = remove_entry(removal, above_fd, name, true);
  if (removed == NOT_EMPTY && level->progress) {
    /* Folders moved here, or the filesystem passed over entries because the
     * folder shrank while it was read. */
    level->progress = false;
    if (lseek(level->fd, 0, SEEK_SET) == 0) return true;
  }
  if (removed == NOT_EMPTY) note(removal, ENOTEMPTY, "rmdir", name);
  if (removed == REMOVED && above != NULL) above->progress = true;
  fd_close(&level->fd);
  return removal->depth-- > 0;
}

static void walk(struct removal* removal) {
  for (;;) {
    struct level* level = &removal->levels[removal->depth];
    if (level->next == level->end) {
      ssize_t size = getdents64(level->fd, level->entries, level_bytes);
      if (size < 0 && errno != ENOENT)
        note(removal, errno, "getdents64", removal->name);
      level->next = 0;
      level->end = size < 0 ? 0 : (uint16_t)size;
      if (size <= 0 && !leave_folder(removal)) return;
      continue;
    }
    const struct dirent64* entry = (const void*)(level->entries + level->next);
    level->next = (uint16_t)(level->next + entry->d_reclen);
    visit(removal, level, entry);
  }
}

static bool is_removable_name(const char* name) {
  const char* slash = strrchr(name, '/');
  const char* last = slash == NULL ? name : slash + 1;
  return *last != '\0' && strcmp(last, ".") != 0 && strcmp(last, "..") != 0;
}

int gbx_remove_tree(int parent_fd, const char* name, struct gbx_err* err) {
  if (!is_removable_name(name))
    return gbx_fail(err, GBX_E_INVALID, EINVAL, "remove_tree", "%s", name);
  struct removal removal = {.name = name, .parent_fd = parent_fd};
  enum removed removed = remove_entry(&removal, parent_fd, name, true);
  if (removed == NOT_EMPTY) {
    struct level* top = &removal.levels[0];
    top->fd = open_folder(parent_fd, name);
    if (top->fd < 0) {
      note(&removal, -top->fd, "open", name);
    } else if (getrandom(&removal.token, sizeof removal.token, 0) < 0) {
      note(&removal, errno, "getrandom", name);
      fd_close(&top->fd);
    } else {
      walk(&removal);
    }
  }
  /* Whatever failed on the way, only what is left counts. */
  struct stat st;
  if (removal.result == 0 ||
      (fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 &&
       errno == ENOENT))
    return 0;
  if (err != NULL) *err = removal.err;
  return removal.result;
}
