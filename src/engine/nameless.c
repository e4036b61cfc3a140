/* SPDX-License-Identifier: Apache-2.0 */

/* Boxes are pid namespaces below ours, so our own /proc has their processes.
 * We may look into them: they are in a user namespace that this process' user
 * made. Descriptors are looked at where they are and not opened: opening one
 * could wait, or be noticed. */

#include "engine/nameless.h"

#include <dirent.h>
#include <linux/kcmp.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fd.h"
#include "common/sys.h"

/* Of all boxes of a session, in one look. */
#define MAX_DESCRIPTORS 65536
#define MAX_THREADS     16384
/* A process can have 65,530 mappings, each with a path of 4 KiB: the kernel
 * takes four seconds to write them down. */
#define MAX_MAP_BYTES (32u << 20)

struct look {
  const struct gbx__box* boxes;
  size_t count;
  uint64_t dev;
  const atomic_bool* cancelled;
  struct gbx__inodes inodes;
  int descriptors_left, threads_left;
  size_t map_bytes_left;
  bool complete;
  bool has_maps; /* of the process at work: seen already */
  pid_t leader;  /* the same: a thread whose descriptors were seen */
};

/* ---- Small readers ------------------------------------------------------- */

/* Calls `each` for each entry of a folder of /proc that is a number, until it
 * returns false. */
static void list_numbers(int dir_fd,
                         bool (*each)(struct look*, int dir_fd, int number),
                         struct look* look) {
  alignas(8) char buffer[8192];
  for (;;) {
    ssize_t size = getdents64(dir_fd, buffer, sizeof buffer);
    if (size <= 0) return;
    for (ssize_t at = 0; at < size;) {
      const struct dirent64* entry = (const void*)(buffer + at);
      at += entry->d_reclen;
      if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
      if (atomic_load_explicit(look->cancelled, memory_order_relaxed) ||
          !each(look, dir_fd, atoi(entry->d_name)))
        return;
    }
  }
}

static int open_below(int dir_fd, int number, const char* name) {
  char path[64];
  (void)snprintf(path, sizeof path, "%d/%s", number, name);
  return openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

static uint64_t namespace_of(int dir_fd, int number) {
  char path[64];
  struct stat st;
  (void)snprintf(path, sizeof path, "%d/ns/pid", number);
  return fstatat(dir_fd, path, &st, 0) < 0 ? 0 : st.st_ino;
}

bool gbx__box_find(int pidfd, struct gbx__box* ret_box) {
  char path[64], text[512];
  (void)snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
  if (fd_read_file(AT_FDCWD, path, text, sizeof text) < 0) return false;
  const char* line = strstr(text, "\nPid:");
  int pid = line == NULL ? 0 : atoi(line + sizeof "\nPid:" - 1);
  if (pid <= 0) return false;
  cleanup_fd int proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
  uint64_t namespace = proc_fd < 0 ? 0 : namespace_of(proc_fd, pid);
  /* Alive now, it was alive then: the number was its own, not that of some
   * process of the host, whose namespace would be everybody's. */
  if (namespace == 0 || sys_pidfd_kill(pidfd, 0) < 0) return false;
  *ret_box = (struct gbx__box){.pid_namespace = namespace, .init = pid};
  return true;
}

/* ---- One process --------------------------------------------------------- */

/* A socket with descriptors that nobody has received yet. */
static void look_into_socket(struct look* look, int fd_dir_fd, int number) {
  char path[64], text[1024];
  (void)snprintf(path, sizeof path, "../fdinfo/%d", number);
  if (fd_read_file(fd_dir_fd, path, text, sizeof text) < 0) return;
  const char* line = strstr(text, "\nscm_fds:");
  if (line != NULL && atoi(line + sizeof "\nscm_fds:" - 1) > 0)
    look->complete = false;
}

static void add_if_nameless(struct look* look, const struct stat* st) {
  if ((!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode)) || st->st_nlink > 0 ||
      st->st_dev != look->dev)
    return;
  struct gbx__inode inode = {
      .dev = st->st_dev,
      .ino = st->st_ino,
      .bytes = (uint64_t)st->st_blocks * 512u + GBX__USAGE_NAME_BYTES};
  if (!gbx__inodes_add(&look->inodes, inode)) look->complete = false;
}

static bool look_at_descriptor(struct look* look, int fd_dir_fd, int number) {
  if (look->descriptors_left-- == 0) {
    look->complete = false;
    return false;
  }
  char name[16];
  struct stat st;
  (void)snprintf(name, sizeof name, "%d", number);
  if (fstatat(fd_dir_fd, name, &st, 0) < 0) return true; /* closed meanwhile */
  if (S_ISSOCK(st.st_mode)) look_into_socket(look, fd_dir_fd, number);
  add_if_nameless(look, &st);
  return true;
}

/* What a process holds besides descriptors and mappings: the program that it
 * runs, whose mapping it may have given up, and the folder that it is in. */
static void look_at_link(struct look* look, int task_fd, int number,
                         const char* name) {
  char path[64];
  struct stat st;
  (void)snprintf(path, sizeof path, "%d/%s", number, name);
  if (fstatat(task_fd, path, &st, 0) == 0) add_if_nameless(look, &st);
}

static bool is_nameless(const char* line) {
  static const char mark[] = " (deleted)";
  size_t size = strlen(line);
  return size > sizeof mark && strstr(line, " /workspace/") != NULL &&
         strcmp(line + size - (sizeof mark - 1), mark) == 0;
}

/* A file can be open no more and still be mapped. How much of it there is only
 * the kernel knows. */
static void look_at_maps(struct look* look, int task_fd, int number) {
  cleanup_fd int fd = open_below(task_fd, number, "maps");
  FILE* file = fd < 0 ? NULL : fdopen(fd, "r");
  if (file == NULL) return;
  (void)fd_steal(&fd);
  cleanup_free char* line = NULL;
  size_t room = 0;
  ssize_t size;
  while ((size = getline(&line, &room, file)) > 0) {
    look->has_maps = true; /* a first thread that has ended shows none */
    if (look->map_bytes_left < (size_t)size) {
      look->complete = false;
      break;
    }
    look->map_bytes_left -= (size_t)size;
    if (line[size - 1] == '\n') line[size - 1] = '\0';
    if (is_nameless(line)) {
      look->complete = false;
      break;
    }
  }
  (void)fclose(file);
}

/* A thread can have a table of descriptors of its own. */
static bool look_at_thread(struct look* look, int task_fd, int number) {
  if (look->threads_left-- == 0) {
    look->complete = false;
    return false;
  }
  if (!look->has_maps) {
    look_at_maps(look, task_fd, number);
    look_at_link(look, task_fd, number, "exe");
  }
  look_at_link(look, task_fd, number, "cwd");
  if (look->leader != 0 &&
      syscall(SYS_kcmp, look->leader, number, KCMP_FILES, 0, 0) == 0)
    return true;
  look->leader = number;
  cleanup_fd int fd = open_below(task_fd, number, "fd");
  if (fd >= 0)
    list_numbers(fd, look_at_descriptor, look);
  else if (errno == EACCES || errno == EPERM) /* made itself not dumpable */
    look->complete = false;
  return true;
}

static bool look_at_process(struct look* look, int proc_fd, int number) {
  uint64_t namespace = namespace_of(proc_fd, number);
  size_t i = 0;
  while (i < look->count && look->boxes[i].pid_namespace != namespace)
    i++;
  /* init is ours, and closed to everybody. */
  if (namespace == 0 || i == look->count || look->boxes[i].init == number)
    return true;
  cleanup_fd int task_fd = open_below(proc_fd, number, "task");
  look->has_maps = false;
  look->leader = 0;
  if (task_fd >= 0) list_numbers(task_fd, look_at_thread, look);
  return true;
}

struct gbx__usage gbx__nameless_count(const struct gbx__box* boxes,
                                      size_t count, uint64_t dev,
                                      const atomic_bool* cancelled) {
  struct look look = {.boxes = boxes,
                      .count = count,
                      .dev = dev,
                      .cancelled = cancelled,
                      .descriptors_left = MAX_DESCRIPTORS,
                      .threads_left = MAX_THREADS,
                      .map_bytes_left = MAX_MAP_BYTES,
                      .complete = true};
  cleanup_fd int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (proc_fd >= 0) list_numbers(proc_fd, look_at_process, &look);
  struct gbx__usage usage = {.bytes = gbx__inodes_sum(&look.inodes),
                             .complete = look.complete};
  gbx__inodes_done(&look.inodes);
  return usage;
}
