/* SPDX-License-Identifier: Apache-2.0 */

/* Theory of operation
 * -------------------
 * The workspace's own folder cannot be exchanged in one step, as boxes, the
 * launcher and the caller hold it. So its content moves name by name, by way of
 * a hidden folder in it, and what is in that says how far it has come:
 *
 *   new         the new content is being made
 *   new, old    it is whole; the old content moves into "old"
 *   new, gone   all of that has; the new content moves into its place
 *
 * "old" becomes "gone" in one step, which is the moment of the exchange. Who
 * finds a hidden folder that nobody is at work with moves what is in "old" back
 * or, beside a "gone", what is in "new" on, and removes the rest. At work with
 * it is who holds its lock; of one that is killed the kernel takes it.
 *
 * A box can make such folders itself. What it gains is that its own files are
 * moved and removed; it could do that without us. */

#include "engine/swap.h"

#include <dirent.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "common/fd.h"
#include "common/remove_tree.h"

/* ---- Names --------------------------------------------------------------- */

/* Of what lies in a folder. */
struct names {
  char* text;
  size_t size, room;
};

static int add_name(struct names* names, const char* name) {
  size_t size = strlen(name) + 1;
  if (names->size + size > names->room) {
    size_t room = names->room == 0 ? 4096 : names->room * 2;
    if (room > (64u << 20)) return -E2BIG;
    void* grown = realloc(names->text, room);
    if (grown == NULL) return -ENOMEM;
    names->text = grown;
    names->room = room;
  }
  memcpy(names->text + names->size, name, size);
  names->size += size;
  return 0;
}

/* What of it is wanted: all but `but`. */
static bool is_other(const char* name, const char* but) {
  return strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
         strcmp(name, but) != 0;
}

static bool is_hidden(const char* name, const char* but) {
  (void)but;
  return gbx__temp_name_is(name);
}

static int list_names(int dir_fd, bool (*is_wanted)(const char*, const char*),
                      const char* but, struct names* ret_names) {
  alignas(8) char buffer[32 * 1024];
  cleanup_fd int fd =
      gbx__beneath_open(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0);
  if (fd < 0) return fd;
  for (;;) {
    ssize_t size = getdents64(fd, buffer, sizeof buffer);
    if (size <= 0) return size == 0 ? 0 : -errno;
    for (ssize_t at = 0; at < size;) {
      const struct dirent64* entry = (const void*)(buffer + at);
      at += entry->d_reclen;
      if (!is_wanted(entry->d_name, but)) continue;
      int result = add_name(ret_names, entry->d_name);
      if (result < 0) return result;
    }
  }
}

/* ---- Moving -------------------------------------------------------------- */

/* A folder is moved only by who may write in it, as its ".." changes: one that
 * is closed to its own owner is opened. Returns 0 or a negative errno. */
static int move(int from_fd, int to_fd, const char* name) {
  for (int tries = 0;; tries++) {
    if (renameat2(from_fd, name, to_fd, name, RENAME_NOREPLACE) == 0) return 0;
    if (errno == EINVAL && renameat(from_fd, name, to_fd, name) == 0) return 0;
    if (errno != EACCES || tries > 0) return -errno;
    cleanup_fd int fd =
        gbx__beneath_open(from_fd, name, O_PATH | O_DIRECTORY, 0);
    struct stat st;
    char path[32];
    if (fd < 0 || fstat(fd, &st) < 0) return -EACCES;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (chmod(path, (st.st_mode & 0777) | 0700) < 0) return -EACCES;
  }
}

/* Moves all of `names`. After an error what was moved is back. */
static int move_all(int from_fd, int to_fd, const struct names* names) {
  for (size_t at = 0; at < names->size; at += strlen(names->text + at) + 1) {
    int result = move(from_fd, to_fd, names->text + at);
    if (result == 0 || result == -ENOENT) continue;
    for (size_t back = 0; back < at; back += strlen(names->text + back) + 1)
      (void)move(to_fd, from_fd, names->text + back); /* the first one counts */
    return result;
  }
  return 0;
}

/* ---- The exchange -------------------------------------------------------- */

static int open_folder(int fd, const char* name) {
  return gbx__beneath_open(fd, name, O_RDONLY | O_DIRECTORY, 0);
}

static int make_folder(int fd, const char* name) {
  return mkdirat(fd, name, 0700) < 0 ? -errno : open_folder(fd, name);
}

/* A filesystem without locks has no other session look, either. */
static bool is_locked_by_another(int fd) {
  return flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

int gbx__swap_init(int root_fd, struct gbx__swap* ret_swap,
                   struct gbx_err* err) {
  struct gbx__swap swap = {.root_fd = root_fd, .fd = -1, .new_fd = -1};
  int result = gbx__temp_name_make(swap.name);
  if (result == 0) result = swap.fd = make_folder(root_fd, swap.name);
  if (result >= 0 && is_locked_by_another(swap.fd)) result = -EBUSY;
  if (result >= 0) result = swap.new_fd = make_folder(swap.fd, "new");
  if (result < 0) {
    if (swap.fd >= 0) (void)unlinkat(root_fd, swap.name, AT_REMOVEDIR);
    fd_close(&swap.fd);
    return gbx_fail(err, GBX_E_IO, -result, "mkdir", "a hidden folder");
  }
  *ret_swap = swap;
  return 0;
}

/* Which of its two names the folder with the old content has is what counts. */
static int rename_old(const struct gbx__swap* swap, const char* from,
                      const char* to) {
  return renameat(swap->fd, from, swap->fd, to) < 0 ? -errno : 0;
}

static int exchange(struct gbx__swap* swap, int old_fd, struct names* old,
                    struct names* new) {
  int root_fd = swap->root_fd;
  /* Other names that look like ours may be a box's, which no list shows, and
   * what it put there is to go with the rest. */
  int result = list_names(root_fd, is_other, swap->name, old);
  if (result == 0) result = list_names(swap->new_fd, is_other, ".", new);
  if (result == 0) result = move_all(root_fd, old_fd, old);
  if (result < 0) return result;
  result = rename_old(swap, "old", "gone");
  if (result == 0) {
    result = move_all(swap->new_fd, root_fd, new);
    if (result == 0) return 0;
    (void)rename_old(swap, "gone", "old"); /* the first one counts */
  }
  (void)move_all(old_fd, root_fd, old); /* ditto */
  return result;
}

int gbx__swap_perform(struct gbx__swap* swap, struct gbx_err* err) {
  struct names old = {0}, new = {0};
  cleanup_fd int old_fd = make_folder(swap->fd, "old");
  int result = old_fd < 0 ? old_fd : exchange(swap, old_fd, &old, &new);
  free(old.text);
  free(new.text);
  return result < 0 ? gbx_fail(err, GBX_E_IO, -result, "restore",
                               "moving it into its place")
                    : 0;
}

void gbx__swap_done(struct gbx__swap* swap) {
  fd_close(&swap->new_fd);
  /* What cannot be removed makes what is in its place no less right. */
  (void)gbx_remove_tree(swap->root_fd, swap->name, NULL);
  fd_close(&swap->fd); /* last, with its lock */
}

/* ---- What was cut off ---------------------------------------------------- */

/* Whether nothing is left in `from_fd`. */
static bool move_what_goes(int from_fd, int to_fd) {
  struct names names = {0};
  bool all = list_names(from_fd, is_other, ".", &names) == 0;
  for (size_t at = 0; at < names.size; at += strlen(names.text + at) + 1)
    if (move(from_fd, to_fd, names.text + at) < 0) all = false;
  free(names.text);
  return all;
}

/* -1: it is not there. False: it cannot be known what is in it. */
static bool find_folder(int fd, const char* name, int* ret_fd) {
  *ret_fd = open_folder(fd, name);
  bool is_known = *ret_fd >= 0 || *ret_fd == -ENOENT;
  if (*ret_fd < 0) *ret_fd = -1;
  return is_known;
}

static void mend(int root_fd, const char* name) {
  cleanup_fd int fd = open_folder(root_fd, name);
  cleanup_fd int new_fd = -1, old_fd = -1, gone_fd = -1;
  struct stat st;
  if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid() ||
      flock(fd, LOCK_EX | LOCK_NB) < 0 || !find_folder(fd, "new", &new_fd) ||
      !find_folder(fd, "old", &old_fd) || !find_folder(fd, "gone", &gone_fd))
    return;
  int from_fd = gone_fd >= 0 ? new_fd : old_fd;
  if (new_fd < 0 && old_fd < 0 && gone_fd < 0)
    (void)unlinkat(root_fd, name, AT_REMOVEDIR); /* just begun, or not ours */
  else if (from_fd < 0 || move_what_goes(from_fd, root_fd))
    (void)gbx_remove_tree(root_fd, name, NULL);
}

void gbx__swaps_mend(int root_fd) {
  struct names names = {0};
  (void)list_names(root_fd, is_hidden, NULL, &names);
  for (size_t at = 0; at < names.size; at += strlen(names.text + at) + 1)
    mend(root_fd, names.text + at);
  free(names.text);
}
