/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/root.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/fd.h"
#include "common/layout.h"
#include "common/sys.h"
#include "common/wire.h"
#include "launcher/mount.h"

/* The kinds of struct gbx_wire_entry: the numbers of enum gbx_entry_kind. */
enum { ENTRY_DIR = 1, ENTRY_BIND, ENTRY_SYMLINK, ENTRY_FILE };

struct entry {
  uint32_t kind;
  const char* target;
  const char* source;
  const void* data;
  size_t size;
  int tree_fd; /* of a BIND, opened before the old root is gone; else -1 */
};

struct plan {
  void* map;
  size_t map_size;
  struct entry* entries;
  size_t count;
  int device_fd[GBX_LAYOUT_DEVICES]; /* trees of the host's device nodes */
};

static const char* const standard_dirs[] = {
    "/dev", "/dev/shm", "/etc", "/home",      "/home/user",  "/proc",
    "/run", "/tmp",     "/var", "/workspace", ROOT_EMPTY_DIR};

/* A string of `size` bytes with its NUL at `offset` of the map. */
static const char* map_string(const struct plan* plan, size_t offset,
                              size_t size) {
  if (size == 0 || size > PATH_MAX || size > plan->map_size - offset)
    return NULL;
  const char* text = (const char*)plan->map + offset;
  return text[size - 1] == '\0' && strlen(text) == size - 1 ? text : NULL;
}

/* Reads the record at *offset. The engine wrote it, so a fault in it is a bug
 * or another build, not an attack; it is refused all the same. */
static bool read_entry(const struct plan* plan, size_t* offset,
                       struct entry* ret_entry) {
  struct gbx_wire_entry record;
  if (plan->map_size - *offset < sizeof record) return false;
  memcpy(&record, (const char*)plan->map + *offset, sizeof record);
  size_t at = *offset + sizeof record;
  const char* target = map_string(plan, at, record.target_size);
  if (target == NULL || target[0] != '/') return false;
  at += record.target_size;
  const char* source = map_string(plan, at, record.source_size);
  if (source == NULL) return false;
  at += record.source_size;
  if (record.data_size > plan->map_size - at) return false;
  *ret_entry = (struct entry){.kind = record.kind,
                              .target = target,
                              .source = source,
                              .data = (const char*)plan->map + at,
                              .size = record.data_size,
                              .tree_fd = -1};
  *offset = at + record.data_size;
  return true;
}

/* How an interpreter is started that waits. */
static int keep_standby(const struct entry* entry, struct root_image* image,
                        struct gbx_err* err) {
  int runtime = entry->source[0] - '0';
  if (runtime <= GBX_RUNTIME_NONE || runtime >= GBX_STANDBYS)
    return gbx_fail(err, GBX_E_INTERNAL, EBADMSG, "root", "runtime %d",
                    runtime);
  int fd = fd_sealed_memory("standby", entry->data, entry->size);
  if (fd < 0) return gbx_fail(err, GBX_E_SETUP, -fd, "memfd_create", "standby");
  fd_close(&image->standby_fd[runtime]);
  image->standby_fd[runtime] = fd;
  if (runtime == GBX_RUNTIME_ZYGOTE)
    image->needs_zygote = entry->source[1] == '!';
  return 0;
}

static int read_plan(int entries_fd, struct plan* plan,
                     struct root_image* image, struct gbx_err* err) {
  struct stat info;
  if (fstat(entries_fd, &info) < 0 || info.st_size <= 0)
    return gbx_fail(err, GBX_E_INTERNAL, EBADMSG, "root", "no entries");
  plan->map_size = (size_t)info.st_size;
  plan->map = mmap(NULL, plan->map_size, PROT_READ, MAP_PRIVATE, entries_fd, 0);
  if (plan->map == MAP_FAILED) {
    plan->map = NULL;
    return gbx_fail(err, GBX_E_NO_MEMORY, errno, "mmap", "entries of a root");
  }
  size_t room = plan->map_size / sizeof(struct gbx_wire_entry);
  plan->entries = calloc(room + 1, sizeof *plan->entries);
  if (plan->entries == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "calloc", "root");
  for (size_t offset = 0; offset < plan->map_size;) {
    struct entry* entry = &plan->entries[plan->count];
    if (!read_entry(plan, &offset, entry))
      return gbx_fail(err, GBX_E_INTERNAL, EBADMSG, "root", "entry %zu",
                      plan->count);
    if (entry->kind != GBX_ENTRY_STANDBY) {
      plan->count++;
      continue;
    }
    int result = keep_standby(entry, image, err);
    if (result < 0) return result;
  }
  return 0;
}

/* Host paths are looked up here, before the new root exists, and never again:
 * from now on only these trees stand for them. */
static int open_trees(struct plan* plan, root_open_tree open_tree,
                      struct gbx_err* err) {
  for (size_t i = 0; i < GBX_LAYOUT_DEVICES; i++) {
    plan->device_fd[i] = mount_clone_tree(gbx_layout_devices[i], err);
    if (plan->device_fd[i] < 0) return plan->device_fd[i];
  }
  for (size_t i = 0; i < plan->count; i++) {
    struct entry* entry = &plan->entries[i];
    if (entry->kind != ENTRY_BIND) continue;
    entry->tree_fd = open_tree(entry->source, err);
    if (entry->tree_fd < 0) return entry->tree_fd;
  }
  return 0;
}

static void close_plan(struct plan* plan) {
  for (size_t i = 0; i < GBX_LAYOUT_DEVICES; i++)
    fd_close(&plan->device_fd[i]);
  for (size_t i = 0; i < plan->count; i++)
    fd_close(&plan->entries[i].tree_fd);
  free(plan->entries);
  if (plan->map != NULL) (void)munmap(plan->map, plan->map_size);
}

/* Makes the folders above `path`. */
static int make_parents(const char* path, struct gbx_err* err) {
  char partial[PATH_MAX];
  (void)snprintf(partial, sizeof partial, "%s", path);
  for (char* at = partial + 1; (at = strchr(at, '/')) != NULL; at++) {
    *at = '\0';
    if (mkdir(partial, 0755) < 0 && errno != EEXIST)
      return gbx_fail(err, GBX_E_SETUP, errno, "mkdir", "%s", partial);
    *at = '/';
  }
  return 0;
}

static int make_dir(const char* path, struct gbx_err* err) {
  if (mkdir(path, 0755) < 0 && errno != EEXIST)
    return gbx_fail(err, GBX_E_SETUP, errno, "mkdir", "%s", path);
  return 0;
}

static int make_file(const char* path, const void* data, size_t size,
                     struct gbx_err* err) {
  cleanup_fd int fd =
      open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0444);
  if (fd < 0) return gbx_fail(err, GBX_E_SETUP, errno, "open", "%s", path);
  int result = fd_write_all(fd, data, size);
  if (result < 0)
    return gbx_fail(err, GBX_E_SETUP, -result, "write", "%s", path);
  return 0;
}

int root_attach(int tree_fd, const char* target, struct gbx_err* err) {
  struct stat info;
  if (fstat(tree_fd, &info) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "fstat", "%s", target);
  int result = make_parents(target, err);
  if (result < 0) return result;
  result = S_ISDIR(info.st_mode) ? make_dir(target, err)
                                 : make_file(target, "", 0, err);
  if (result < 0) return result;
  if (sys_move_mount(tree_fd, AT_FDCWD, target) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "move_mount", "%s", target);
  return 0;
}

/* The error is the caller's: its root has no place for a mount. */
static int refuse_place(const char* target, int sys_errno, const char* words,
                        struct gbx_err* err) {
  return gbx_fail(err, GBX_E_MOUNT, sys_errno, "mount target", "%s: %s", words,
                  target);
}

/* A place for a mount of the session: what is there already, or something new.
 * No symlink may lead to it, be it in an image. */
static int make_place(const char* target, bool is_file, struct gbx_err* err) {
  struct gbx_err cause = {0};
  if (make_parents(target, &cause) < 0)
    return refuse_place(target, cause.sys_errno, "has no folder to be in", err);
  cleanup_fd int fd = sys_open_unlinked(target);
  if (fd < 0 && errno == ENOENT) {
    int result =
        is_file ? make_file(target, "", 0, &cause) : make_dir(target, &cause);
    if (result < 0)
      return refuse_place(target, cause.sys_errno, "cannot be made", err);
    fd = sys_open_unlinked(target);
  }
  struct stat info;
  if (fd < 0 || fstat(fd, &info) < 0)
    return refuse_place(
        target, errno,
        errno == ELOOP ? "leads through a symlink" : "cannot be opened", err);
  if (!is_file && !S_ISDIR(info.st_mode))
    return refuse_place(target, ENOTDIR, "is a file, and its source a folder",
                        err);
  if (is_file && !S_ISREG(info.st_mode))
    return refuse_place(target, EISDIR, "is no file, as its source is", err);
  return 0;
}

static bool is_mount(const struct entry* entry) {
  return entry->kind == GBX_WIRE_MOUNT_DIR ||
         entry->kind == GBX_WIRE_MOUNT_FILE ||
         entry->kind == GBX_WIRE_MOUNT_NESTED;
}

static int make_entry(const struct entry* entry, struct gbx_err* err) {
  /* Its place comes with what it is in. */
  if (entry->kind == GBX_WIRE_MOUNT_NESTED) return 0;
  if (is_mount(entry))
    return make_place(entry->target, entry->kind == GBX_WIRE_MOUNT_FILE, err);
  int result = make_parents(entry->target, err);
  if (result < 0) return result;
  switch (entry->kind) {
    case ENTRY_DIR:
      return make_dir(entry->target, err);
    case ENTRY_BIND:
      return root_attach(entry->tree_fd, entry->target, err);
    case ENTRY_SYMLINK:
      if (symlink(entry->source, entry->target) < 0)
        return gbx_fail(err, GBX_E_SETUP, errno, "symlink", "%s",
                        entry->target);
      return 0;
    case ENTRY_FILE:
      return make_file(entry->target, entry->data, entry->size, err);
    default:
      return gbx_fail(err, GBX_E_INTERNAL, EBADMSG, "root", "entry kind %u",
                      entry->kind);
  }
}

/* An empty tmpfs becomes "/", and the host's tree is gone from this mount
 * namespace before anything is put into the new one: no path or symlink that
 * follows can reach the host. */
static int enter_empty_root(struct gbx_err* err) {
  if (unshare(CLONE_NEWNS) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "unshare", "mount namespace");
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "mount private", "/");
  /* Any folder will do to stand on: it is covered only in here. */
  int result = mount_tmpfs("/proc", 0755, 16 << 20, err);
  if (result < 0) return result;
  if (chdir("/proc") < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "chdir", "new root");
  if (sys_pivot_root(".", ".") < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "pivot_root", ".");
  /* The old root lies on top of the new one now; chroot alone would leave it
   * within reach. */
  if (umount2(".", MNT_DETACH) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "umount2", "old root");
  if (chdir("/") < 0) return gbx_fail(err, GBX_E_SETUP, errno, "chdir", "/");
  return 0;
}

static int build(const struct plan* plan, struct gbx_err* err) {
  int result = enter_empty_root(err);
  if (result < 0) return result;
  for (size_t i = 0; i < sizeof standard_dirs / sizeof *standard_dirs; i++) {
    result = make_dir(standard_dirs[i], err);
    if (result < 0) return result;
  }
  for (size_t i = 0; i < GBX_LAYOUT_LINKS; i++) {
    const struct gbx_layout_link* one = &gbx_layout_links[i];
    if (symlink(one->text, one->target) < 0)
      return gbx_fail(err, GBX_E_SETUP, errno, "symlink", "%s", one->target);
  }
  for (size_t i = 0; i < GBX_LAYOUT_DEVICES; i++) {
    result = root_attach(plan->device_fd[i], gbx_layout_devices[i], err);
    if (result < 0) return result;
    /* Not nodev, or they could not be opened. */
    result = mount_add_flags(gbx_layout_devices[i],
                             MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, false, err);
    if (result < 0) return result;
  }
  for (size_t i = 0; i < plan->count; i++) {
    result = make_entry(&plan->entries[i], err);
    if (result < 0) return result;
  }
  /* The device nodes are slaves of the host's mounts: what the host did below
   * those would happen here. */
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "mount private", "new root");
  /* Last: the tmpfs belongs to the box's uid, so only the mount flag keeps the
   * box from writing into it. */
  return mount_add_flags(
      "/", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, false,
      err);
}

/* Waits for the builder's word and opens its mount namespace while the builder
 * is alive. */
static int take_namespace(int socket_fd, pid_t builder, struct gbx_err* err) {
  union gbx_msg message;
  struct gbx_fds fds;
  int result = gbx_msg_recv(socket_fd, &message, &fds);
  gbx_fds_close(&fds);
  if (result <= 0 || message.head.type != GBX_M_DONE)
    return gbx_fail(err, GBX_E_DIED, ECHILD, "root", "its builder ended");
  if (message.result.err.code != GBX_OK) {
    *err = message.result.err;
    return err->sys_errno != 0 ? -err->sys_errno : -EIO;
  }
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/%d/ns/mnt", builder);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return gbx_fail(err, GBX_E_SETUP, errno, "open", "%s", path);
  return fd;
}

static int build_in_child(const struct plan* plan, struct gbx_err* err) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "socketpair", "root");
  cleanup_fd int own_fd = pair[0];
  cleanup_fd int child_fd = pair[1];
  pid_t pid = fork();
  if (pid < 0) return gbx_fail(err, GBX_E_SETUP, errno, "fork", "root");
  if (pid == 0) {
    struct gbx_msg_result answer = {0};
    (void)build(plan, &answer.err); /* the answer carries it */
    GBX_MSG_INIT(&answer, GBX_M_DONE, 0);
    if (gbx_msg_send(child_fd, &answer.head, NULL, 0) < 0) _exit(1);
    for (;;)
      (void)pause();
  }
  fd_close(&child_fd); /* or its death would not show */
  int result = take_namespace(own_fd, pid, err);
  (void)kill(pid, SIGKILL);
  (void)RETRY(waitpid(pid, NULL, 0));
  return result;
}

static bool is_covered(const struct entry* entry) {
  static const char* const own[] = {"/tmp/", "/home/user/", "/dev/shm/"};
  if (entry->kind == GBX_WIRE_MOUNT_NESTED) return false;
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    if (strncmp(entry->target, own[i], strlen(own[i])) == 0) return true;
  return false;
}

/* The targets of the entries that `is_wanted` picks, as struct root_image has
 * them. */
static int list_targets(const struct plan* plan,
                        bool (*is_wanted)(const struct entry* entry),
                        char** ret_list, struct gbx_err* err) {
  size_t size = 1;
  for (size_t i = 0; i < plan->count; i++)
    if (is_wanted(&plan->entries[i]))
      size += strlen(plan->entries[i].target) + 1;
  if (size == 1) return 0;
  char* list = calloc(1, size);
  if (list == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "calloc", "root");
  *ret_list = list;
  for (size_t i = 0; i < plan->count; i++)
    if (is_wanted(&plan->entries[i]))
      list = stpcpy(list, plan->entries[i].target) + 1;
  return 0;
}

int root_prepare(int entries_fd, root_open_tree open_tree,
                 struct root_image* ret_image, struct gbx_err* err) {
  struct plan plan = {.device_fd = {-1, -1, -1, -1, -1}};
  *ret_image = (struct root_image){.ns_fd = -1};
  for (int i = 0; i < GBX_STANDBYS; i++)
    ret_image->standby_fd[i] = -1;
  int result = read_plan(entries_fd, &plan, ret_image, err);
  if (result == 0)
    result = list_targets(&plan, is_covered, &ret_image->covered, err);
  if (result == 0)
    result = list_targets(&plan, is_mount, &ret_image->mounts, err);
  if (result == 0) result = open_trees(&plan, open_tree, err);
  if (result == 0) result = build_in_child(&plan, err);
  close_plan(&plan);
  if (result < 0) {
    root_image_done(ret_image);
    return result;
  }
  ret_image->ns_fd = result;
  return 0;
}

void root_image_done(struct root_image* image) {
  fd_close(&image->ns_fd);
  for (int i = 0; i < GBX_STANDBYS; i++)
    fd_close(&image->standby_fd[i]);
  free(image->covered);
  image->covered = NULL;
  free(image->mounts);
  image->mounts = NULL;
}
