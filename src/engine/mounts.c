/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fd.h"
#include "common/host_place.h"
#include "common/host_rules.h"
#include "common/wire.h"
#include "engine/beneath.h"

/* ---- What was asked for -------------------------------------------------- */

static bool is_clean(const char* path) {
  if (path[0] != '/' || path[1] == '\0' || strlen(path) >= PATH_MAX)
    return false;
  for (const char* at = path; *at != '\0';) {
    size_t size = strcspn(++at, "/");
    if (size == 0 || (size <= 2 && strncmp(at, "..", size) == 0)) return false;
    at += size;
  }
  return true;
}

/* What every box needs where it is, or what would be made on the host. lib/
 * says it in more words, and refuses a little more. */
static bool is_reserved(const char* target) {
  static const char* const taken[] = {"/dev",          "/proc",      "/sys",
                                      "/run/glovebox", "/workspace", "/.proc"};
  for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
    if (gbx_path_is_within(target, taken[i]) ||
        gbx_path_is_within(taken[i], target))
      return true;
  return strcmp(target, "/tmp") == 0 ||
         gbx_path_is_within("/home/user", target);
}

/* One that comes before it and whose target holds its own; -1: none. */
static ptrdiff_t find_outer(const struct gbx__mounts* mounts, size_t index) {
  for (size_t i = index; i-- > 0;)
    if (gbx_path_is_within(mounts->list[index].target, mounts->list[i].target))
      return (ptrdiff_t)i;
  return -1;
}

int gbx__mounts_init(struct gbx__mounts* mounts, const struct gbx_mount* list,
                     size_t count, struct gbx_err* err) {
  *mounts = (struct gbx__mounts){0};
  if (count == 0) return 0;
  if (count > GBX_MOUNTS_MAX)
    return gbx_fail(err, GBX_E_INVALID, 0, "mounts", "more than %d",
                    GBX_MOUNTS_MAX);
  mounts->list = calloc(count, sizeof *mounts->list);
  if (mounts->list == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "calloc", "mounts");
  for (; mounts->count < count; mounts->count++) {
    const struct gbx_mount* from = &list[mounts->count];
    struct gbx__mount* mount = &mounts->list[mounts->count];
    if (from->source[0] != '/' || !is_clean(from->target) ||
        is_reserved(from->target)) {
      gbx__mounts_done(mounts);
      return gbx_fail(err, GBX_E_INVALID, 0, "mounts", "%s", from->target);
    }
    mount->source = strdup(from->source);
    mount->target = strdup(from->target);
    mount->writable = from->writable;
    if (mount->source == NULL || mount->target == NULL) {
      mounts->count++;
      gbx__mounts_done(mounts);
      return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "strdup", "mounts");
    }
    ptrdiff_t outer = find_outer(mounts, mounts->count);
    mount->is_nested = outer >= 0;
    if (outer >= 0 && strcmp(mounts->list[outer].target, mount->target) == 0) {
      mounts->count++;
      gbx__mounts_done(mounts);
      return gbx_fail(err, GBX_E_INVALID, 0, "mounts", "%s is there twice",
                      from->target);
    }
  }
  return 0;
}

void gbx__mounts_done(struct gbx__mounts* mounts) {
  for (size_t i = 0; i < mounts->count; i++) {
    free(mounts->list[i].source);
    free(mounts->list[i].target);
  }
  free(mounts->list);
  *mounts = (struct gbx__mounts){0};
}

/* ---- What is there ------------------------------------------------------- */

/* The number comes first, for lib/ to say which mount it is: the path may be
 * cut. */
static int fail_one(const struct gbx__mounts* mounts, size_t index,
                    enum gbx_code code, int sys_errno, const char* words,
                    struct gbx_err* err) {
  return gbx_fail(err, code, sys_errno, "mount", "%zu %s: %s", index, words,
                  mounts->list[index].source);
}

static enum gbx_host_use use_of(const struct gbx__mount* mount) {
  return mount->writable ? GBX_USE_WRITE : GBX_USE_READ;
}

static int fail_refused(const struct gbx__mounts* mounts, size_t index,
                        const struct gbx_host_refusal* refusal,
                        struct gbx_err* err) {
  char words[200];
  (void)snprintf(words, sizeof words, "%s %s", refusal->rule, refusal->words);
  return fail_one(mounts, index, GBX_E_MOUNT_REFUSED, EPERM, words, err);
}

static int judge(int fd, const struct gbx__mounts* mounts, size_t index,
                 const struct gbx_host_user* user, struct gbx_err* err) {
  struct gbx_host_refusal refusal;
  int result = gbx_host_judge(fd, use_of(&mounts->list[index]), user, &refusal);
  if (result < 0)
    return fail_one(mounts, index, GBX_E_MOUNT, -result,
                    result == -ESTALE
                        ? "has no name among the mounts of this process"
                        : "cannot be judged",
                    err);
  return result == 0 ? 0 : fail_refused(mounts, index, &refusal, err);
}

/* Of what cannot be opened the place is judged: nobody is to be told to make
 * what would then be refused. */
static int fail_unopened(const struct gbx__mounts* mounts, size_t index,
                         int sys_errno, const struct gbx_host_user* user,
                         struct gbx_err* err) {
  const struct gbx__mount* mount = &mounts->list[index];
  char path[PATH_MAX];
  (void)snprintf(path, sizeof path, "%s", mount->source);
  cleanup_fd int fd = -1;
  for (char* slash; fd < 0 && (slash = strrchr(path, '/')) != NULL;) {
    struct gbx_host_refusal refusal;
    *slash = '\0';
    fd = open(slash == path ? "/" : path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 &&
        gbx_host_judge_new(fd, slash + 1, use_of(mount), user, &refusal) == 1)
      return fail_refused(mounts, index, &refusal, err);
  }
  return fail_one(mounts, index, GBX_E_MOUNT, sys_errno, "cannot be opened",
                  err);
}

/* The real path: whoever opens it again follows no symlink. */
static int settle_path(int fd, struct gbx__mounts* mounts, size_t index,
                       struct gbx_err* err) {
  struct gbx__mount* mount = &mounts->list[index];
  char link[64], path[PATH_MAX];
  (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, path, sizeof path);
  if (size < 0 || size == (ssize_t)sizeof path)
    return fail_one(mounts, index, GBX_E_MOUNT, size < 0 ? errno : ENAMETOOLONG,
                    "cannot be found", err);
  path[size] = '\0';
  struct stat st;
  if (lstat(path, &st) < 0 || st.st_dev != mount->dev ||
      st.st_ino != mount->ino)
    return fail_one(mounts, index, GBX_E_MOUNT, ESTALE,
                    "was deleted or replaced meanwhile", err);
  char* real = strdup(path);
  if (real == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "strdup", "mounts");
  free(mount->source);
  mount->source = real;
  return 0;
}

/* Nothing is made on the host, so the place must be there in what the outer one
 * brings. */
static int check_nested(const struct gbx__mounts* mounts, size_t index,
                        struct gbx_err* err) {
  const struct gbx__mount* mount = &mounts->list[index];
  const struct gbx__mount* outer = &mounts->list[find_outer(mounts, index)];
  cleanup_fd int outer_fd = open(outer->source, O_PATH | O_CLOEXEC);
  cleanup_fd int fd =
      outer_fd < 0
          ? -errno
          : gbx__beneath_open(
                outer_fd, mount->target + strlen(outer->target) + 1, O_PATH, 0);
  struct stat st;
  if (fd >= 0 && fstat(fd, &st) == 0 &&
      S_ISDIR(st.st_mode) == !mount->is_file &&
      S_ISREG(st.st_mode) == mount->is_file)
    return 0;
  return fail_one(mounts, index, GBX_E_MOUNT, fd < 0 ? -fd : ENOTDIR,
                  "needs such a place in the mount that its target is in", err);
}

static int prepare_one(struct gbx__mounts* mounts, size_t index,
                       const struct gbx_host_user* user, struct gbx_err* err) {
  struct gbx__mount* mount = &mounts->list[index];
  cleanup_fd int fd = open(mount->source, O_PATH | O_CLOEXEC);
  struct stat st;
  if (fd < 0 || fstat(fd, &st) < 0)
    return fail_unopened(mounts, index, errno, user, err);
  mount->dev = st.st_dev;
  mount->ino = st.st_ino;
  mount->is_file = !S_ISDIR(st.st_mode);
  int result = judge(fd, mounts, index, user, err);
  if (result == 0) result = settle_path(fd, mounts, index, err);
  if (result == 0 && mount->is_nested)
    result = check_nested(mounts, index, err);
  return result;
}

int gbx__mounts_prepare(struct gbx__mounts* mounts, const char* temp_dir,
                        struct gbx_err* err) {
  const struct gbx_host_user user = {.home = getenv("HOME"),
                                     .temp_dir = temp_dir};
  int result = 0;
  for (size_t i = 0; result == 0 && i < mounts->count; i++)
    result = prepare_one(mounts, i, &user, err);
  return result;
}

/* ---- What the launcher is told ------------------------------------------- */

int gbx__mounts_add_places(const struct gbx__mounts* mounts, void** blob,
                           size_t* blob_size, struct gbx_err* err) {
  size_t size = *blob_size;
  for (size_t i = 0; i < mounts->count; i++)
    size += sizeof(struct gbx_wire_entry) + strlen(mounts->list[i].target) + 2;
  char* all = realloc(*blob, size + 1);
  if (all == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "realloc", "root");
  char* at = all + *blob_size;
  for (size_t i = 0; i < mounts->count; i++) {
    const struct gbx__mount* mount = &mounts->list[i];
    struct gbx_wire_entry record = {
        .kind = mount->is_nested ? GBX_WIRE_MOUNT_NESTED
                : mount->is_file ? GBX_WIRE_MOUNT_FILE
                                 : GBX_WIRE_MOUNT_DIR,
        .target_size = (uint32_t)strlen(mount->target) + 1,
        .source_size = 1};
    memcpy(at, &record, sizeof record);
    at += sizeof record;
    memcpy(at, mount->target, record.target_size);
    at += record.target_size;
    *at++ = '\0'; /* no source: that is the session's, not the root's */
  }
  *blob = all;
  *blob_size = size;
  return 0;
}

int gbx__mounts_pack(const struct gbx__mounts* mounts) {
  size_t size = mounts->count * sizeof(struct gbx_wire_mount);
  cleanup_free struct gbx_wire_mount* list = calloc(1, size);
  if (list == NULL) return -ENOMEM;
  for (size_t i = 0; i < mounts->count; i++) {
    const struct gbx__mount* mount = &mounts->list[i];
    list[i].writable = mount->writable;
    list[i].is_file = mount->is_file;
    list[i].dev = mount->dev;
    list[i].ino = mount->ino;
    (void)snprintf(list[i].source, sizeof list[i].source, "%s", mount->source);
  }
  return fd_sealed_memory("mounts", list, size);
}
