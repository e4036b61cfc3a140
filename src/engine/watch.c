/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/watch.h"

#include <dirent.h>
#include <linux/openat2.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>

#include "common/fd.h"
#include "engine/beneath.h"

/* Modified by a write, also one by a mapping that is seen when the file is
 * closed, and by a new mode or time. */
static const uint32_t changed = IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB;
static const uint32_t appeared = IN_CREATE | IN_MOVED_TO;
static const uint32_t vanished = IN_DELETE | IN_MOVED_FROM;

/* The names in a folder that appears are told with it, and a box can let the
 * same large one appear over and over: one read tells so much of it, and then
 * that there was more. */
#define MOST_TOLD_BYTES (4u << 20)
/* A read that told so much, or looked at so many names, leaves further events
 * to the kernel, which keeps them in little room. */
#define ENOUGH_BYTES (64u << 10)
#define ENOUGH_NAMES (64u << 10)
#define MOST_ROUNDS  64

/* A folder with its watch. A path is "" or ends in "/". */
struct folder {
  int watch;
  char* path;
};

struct gbx__watch {
  int root_fd; /* borrowed: the workspace's */
  int fd;
  int first; /* the watch of the folder that the caller named */
  int* way;  /* those of the folders that lead to it */
  uint32_t way_count;
  struct folder* folders;
  uint32_t count, room;
  uint8_t* bytes; /* to be told */
  size_t size, bytes_room;
  size_t last;    /* where the last change begins */
  uint32_t names; /* looked at in this read */
  bool lost;      /* not everything is told */
  bool out_of_memory;
};

/* ---- Telling ------------------------------------------------------------- */

static void put(struct gbx__watch* watch, unsigned change, unsigned type,
                const char* folder, const char* name) {
  size_t folder_size = strlen(folder), name_size = strlen(name) + 1;
  size_t size = 2 + folder_size + name_size;
  if (watch->size + size > watch->bytes_room) {
    size_t room = watch->bytes_room * 2 + size + 4096;
    void* grown = realloc(watch->bytes, room);
    if (grown == NULL) {
      watch->out_of_memory = true;
      return;
    }
    watch->bytes = grown;
    watch->bytes_room = room;
  }
  uint8_t* at = watch->bytes + watch->size;
  at[0] = (uint8_t)change;
  at[1] = (uint8_t)type;
  memcpy(at + 2, folder, folder_size);
  memcpy(at + 2 + folder_size, name, name_size);
  /* A file that is written in pieces is one change until something else is. */
  bool again = watch->size - watch->last == size &&
               memcmp(watch->bytes + watch->last, at, size) == 0;
  if (again) return;
  watch->last = watch->size;
  watch->size += size;
}

/* Once in a read: it stands for all that comes after it. */
static void tell_loss(struct gbx__watch* watch) {
  if (!watch->lost) put(watch, GBX_WATCH_LOST, GBX_FOLDER, "", "");
  watch->lost = true;
}

static void tell(struct gbx__watch* watch, unsigned change, unsigned type,
                 const char* folder, const char* name) {
  if (watch->size >= MOST_TOLD_BYTES)
    tell_loss(watch);
  else
    put(watch, change, type, folder, name);
}

/* ---- Folders ------------------------------------------------------------- */

static struct folder* find_folder(struct gbx__watch* watch, int number) {
  for (uint32_t i = 0; i < watch->count; i++)
    if (watch->folders[i].watch == number) return &watch->folders[i];
  return NULL;
}

static void forget(struct gbx__watch* watch, struct folder* folder) {
  free(folder->path);
  *folder = watch->folders[--watch->count];
}

/* `but`: a watch that goes on in the kernel. */
static void forget_all(struct gbx__watch* watch, int but) {
  while (watch->count > 0) {
    struct folder* folder = &watch->folders[watch->count - 1];
    if (folder->watch != but)
      (void)inotify_rm_watch(watch->fd, folder->watch); /* or it is gone */
    forget(watch, folder);
  }
}

/* The folder at `path`, with all below it, is not there any more. Its watches
 * live on where it was only moved. */
static void forget_tree(struct gbx__watch* watch, const char* path) {
  size_t size = strlen(path);
  for (uint32_t i = watch->count; i-- > 0;) {
    struct folder* folder = &watch->folders[i];
    if (strncmp(folder->path, path, size) != 0) continue;
    (void)inotify_rm_watch(watch->fd, folder->watch); /* gone with it, else */
    forget(watch, folder);
  }
}

/* Takes `path`. */
static int add_folder(struct gbx__watch* watch, int number, char* path) {
  struct folder* known = find_folder(watch, number);
  if (known != NULL) { /* it moved, and nobody has told us yet */
    free(known->path);
    known->path = path;
    return 0;
  }
  if (watch->count == watch->room) {
    uint32_t room = watch->room == 0 ? 16 : watch->room * 2;
    void* grown = realloc(watch->folders, room * sizeof *watch->folders);
    if (grown == NULL) {
      free(path);
      return -ENOMEM;
    }
    watch->folders = grown;
    watch->room = room;
  }
  watch->folders[watch->count++] =
      (struct folder){.watch = number, .path = path};
  return 0;
}

/* Returns the number of the watch or a negative errno. */
static int add_watch(const struct gbx__watch* watch, int fd, uint32_t mask) {
  char link[32];
  (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  int number = inotify_add_watch(watch->fd, link, mask | IN_ONLYDIR);
  return number < 0 ? -errno : number;
}

/* Watches whether the folders move that lead to the one at `path`, which ends
 * in "/". They come before it is opened, so no move goes unseen. */
static int watch_way(struct gbx__watch* watch, const char* path) {
  size_t room = 0;
  for (const char* at = path; *at != '\0'; at++)
    room += *at == '/';
  if (room < 2) return 0;
  watch->way = calloc(room, sizeof *watch->way);
  if (watch->way == NULL) return -ENOMEM;
  const int flags = O_PATH | O_DIRECTORY;
  cleanup_fd int fd = gbx__beneath_open(watch->root_fd, ".", flags, 0);
  for (size_t left = room - 1; fd >= 0 && left > 0; left--) {
    char name[NAME_MAX + 1];
    size_t size = strcspn(path, "/");
    memcpy(name, path, size);
    name[size] = '\0';
    path += size + 1;
    int next_fd = gbx__beneath_open(fd, name, flags, 0);
    fd_close(&fd);
    fd = next_fd;
    int number = fd < 0 ? fd : add_watch(watch, fd, IN_MOVE_SELF);
    if (number >= 0)
      watch->way[watch->way_count++] = number;
    else if (number == -ENOSPC || number == -ENOMEM)
      return number;
  }
  /* One that is closed to us moves unseen. What is not there, the one at the
   * end tells. */
  return 0;
}

/* Watches one folder. `path` is "" or ends in "/". Returns a descriptor to read
 * its entries from, or a negative errno. */
static int watch_folder(struct gbx__watch* watch, const char* path) {
  if (watch->count == GBX__WATCH_MAX_FOLDERS) return -E2BIG;
  char clean[GBX__PATH_SIZE] = ".";
  size_t size = strlen(path);
  if (size > sizeof clean - 1) return -ENAMETOOLONG;
  if (size > 0) {
    memcpy(clean, path, size);
    clean[size - 1] = '\0';
  }
  cleanup_fd int fd =
      gbx__beneath_open(watch->root_fd, clean,
                        O_RDONLY | O_DIRECTORY | O_NONBLOCK, RESOLVE_NO_XDEV);
  if (fd < 0) return fd;
  /* Paths begin in the workspace, wherever that is. */
  bool may_move = watch->count == 0 && size > 0;
  int number = add_watch(watch, fd,
                         changed | appeared | vanished | IN_EXCL_UNLINK |
                             (may_move ? IN_MOVE_SELF : 0));
  if (number < 0) return number;
  char* copy = strdup(path);
  int result = copy == NULL ? -ENOMEM : add_folder(watch, number, copy);
  return result < 0 ? result : fd_steal(&fd);
}

static char* join(const char* folder, const char* name, const char* end) {
  char* path = NULL;
  return asprintf(&path, "%s%s%s", folder, name, end) < 0 ? NULL : path;
}

/* Paths of folders still to be watched. */
struct queue {
  char** paths;
  size_t count, room;
};

static int push(struct queue* queue, char* path) {
  if (path == NULL) return -ENOMEM;
  if (queue->count == queue->room) {
    size_t room = queue->room == 0 ? 16 : queue->room * 2;
    void* grown = realloc(queue->paths, room * sizeof *queue->paths);
    if (grown == NULL) {
      free(path);
      return -ENOMEM;
    }
    queue->paths = grown;
    queue->room = room;
  }
  queue->paths[queue->count++] = path;
  return 0;
}

/* Looks through a folder that is watched already, so nothing slips between.
 * `news`: what is there came with it. */
static int look_through(struct gbx__watch* watch, const char* path, int fd,
                        bool news, struct queue* queue) {
  alignas(8) char buffer[16 * 1024];
  for (;;) {
    ssize_t size = getdents64(fd, buffer, sizeof buffer);
    if (size == 0 || (size < 0 && errno == ENOENT)) return 0;
    if (size < 0) return -errno;
    for (ssize_t at = 0; at < size;) {
      const struct dirent64* entry = (const void*)(buffer + at);
      at += entry->d_reclen;
      const char* name = entry->d_name;
      if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
          gbx__temp_name_is(name))
        continue;
      watch->names++;
      bool is_folder = entry->d_type == DT_DIR;
      if (news)
        tell(watch, GBX_CREATED, is_folder ? GBX_FOLDER : GBX_FILE, path, name);
      if (!is_folder) continue;
      if (queue->count + watch->count >= GBX__WATCH_MAX_FOLDERS) return -E2BIG;
      int result = push(queue, join(path, name, "/"));
      if (result < 0) return result;
    }
  }
}

/* Watches the folder at `path` and all below it. Takes `path`. Returns 0 or a
 * negative errno; what is gone or closed to us is left out. */
static int watch_tree(struct gbx__watch* watch, char* path, bool news) {
  struct queue queue = {0};
  int result = push(&queue, path);
  while (result == 0 && queue.count > 0) {
    char* next = queue.paths[--queue.count];
    cleanup_fd int fd = watch_folder(watch, next);
    if (fd >= 0)
      result = look_through(watch, next, fd, news, &queue);
    else if (fd == -E2BIG || fd == -ENOSPC || fd == -ENOMEM)
      result = fd;
    free(next);
  }
  while (queue.count > 0)
    free(queue.paths[--queue.count]);
  free(queue.paths);
  return result;
}

/* Events are lost, so there may be folders that nobody watches, and the first
 * may have gone without a word. */
static void look_again(struct gbx__watch* watch) {
  struct folder* first = find_folder(watch, watch->first);
  if (first == NULL) return;
  char* path = first->path;
  first->path = NULL;
  forget_all(watch, watch->first);
  (void)watch_tree(watch, path, false); /* the loss is told */
}

/* ---- Events -------------------------------------------------------------- */

/* Whether the first folder has another path from now on, or none. */
static bool has_moved(const struct gbx__watch* watch,
                      const struct inotify_event* event) {
  if ((event->mask & IN_MOVE_SELF) == 0) return false;
  if (event->wd == watch->first) return true;
  for (uint32_t i = 0; i < watch->way_count; i++)
    if (watch->way[i] == event->wd) return true;
  return false;
}

static void see_event(struct gbx__watch* watch,
                      const struct inotify_event* event) {
  if (event->mask & IN_Q_OVERFLOW) {
    tell_loss(watch);
    look_again(watch);
    return;
  }
  if (has_moved(watch, event)) {
    forget_all(watch, -1);
    return;
  }
  struct folder* folder = find_folder(watch, event->wd);
  if (folder == NULL) return;
  if (event->mask & IN_IGNORED) {
    forget(watch, folder);
    return;
  }
  const char* name = event->name;
  if (event->len == 0 || gbx__temp_name_is(name)) return;
  bool is_folder = (event->mask & IN_ISDIR) != 0;
  unsigned type = is_folder ? GBX_FOLDER : GBX_FILE;
  if (event->mask & vanished) {
    tell(watch, GBX_DELETED, type, folder->path, name);
    char* path = is_folder ? join(folder->path, name, "/") : NULL;
    if (path != NULL) forget_tree(watch, path);
    free(path);
  } else if (event->mask & appeared) {
    tell(watch, GBX_CREATED, type, folder->path, name);
    if (is_folder && watch_tree(watch, join(folder->path, name, "/"), true) < 0)
      tell_loss(watch);
  } else if (!is_folder) {
    /* A folder's own time changes with what is in it, and that was told. */
    tell(watch, GBX_MODIFIED, type, folder->path, name);
  }
}

/* Some events. Returns whether there were any, or a negative errno. */
static int see_events(struct gbx__watch* watch) {
  /* Few: each may be of a large folder. */
  alignas(8) char buffer[1024];
  ssize_t size = RETRY(read(watch->fd, buffer, sizeof buffer));
  if (size < 0) return errno == EAGAIN ? 0 : -errno;
  for (ssize_t at = 0; at < size;) {
    const struct inotify_event* event = (const void*)(buffer + at);
    at += (ssize_t)sizeof *event + event->len;
    see_event(watch, event);
  }
  return size > 0;
}

int gbx__watch_read(struct gbx__watch* watch, uint8_t** ret_bytes,
                    size_t* ret_size, bool* ret_ended, struct gbx_err* err) {
  int result, rounds = 0;
  watch->names = 0;
  watch->lost = false;
  do { /* not for ever: of what we do not tell there may be any number */
    result = see_events(watch);
  } while (result > 0 && ++rounds < MOST_ROUNDS && watch->size < ENOUGH_BYTES &&
           watch->names < ENOUGH_NAMES);
  if (result < 0) return gbx_fail(err, GBX_E_IO, -result, "read", "inotify");
  if (watch->out_of_memory)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "watch");
  *ret_bytes = watch->bytes;
  *ret_size = watch->size;
  *ret_ended = find_folder(watch, watch->first) == NULL;
  watch->bytes = NULL;
  watch->size = watch->bytes_room = watch->last = 0;
  return 0;
}

int gbx__watch_fd(const struct gbx__watch* watch) {
  return watch->fd;
}

static int start(struct gbx__watch* watch, const char* path,
                 struct gbx_err* err) {
  char clean[GBX__PATH_SIZE];
  cleanup_fd int fd = -1;
  int result = gbx__beneath_clean(path, true, clean, err);
  if (result < 0) return result;
  watch->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (watch->fd < 0)
    return gbx_fail(err, GBX_E_IO, errno, "inotify", "inotify_init1");
  char* first = join(clean, *clean == '\0' ? "" : "/", "");
  if (first == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "watch");
  result = watch_way(watch, first);
  if (result < 0)
    free(first);
  else
    result = watch_tree(watch, first, false);
  if (result == -E2BIG)
    return gbx_fail(err, GBX_E_TOO_LARGE, E2BIG, "watch",
                    "more than %u folders", GBX__WATCH_MAX_FOLDERS);
  if (result < 0)
    return gbx_fail(err, GBX_E_IO, -result, "inotify", "%s", path);
  if (watch->count > 0) {
    watch->first = watch->folders[0].watch;
    return 0;
  }
  /* It says best why not even the first could be watched. */
  fd = gbx__workspace_open_folder(
      &(struct gbx__workspace){.fd = watch->root_fd}, path, err);
  return fd < 0 ? fd : gbx_fail(err, GBX_E_IO, EACCES, "watch", "%s", path);
}

int gbx__watch_new(const struct gbx__workspace* workspace, const char* path,
                   struct gbx__watch** ret_watch, struct gbx_err* err) {
  struct gbx__watch* watch = calloc(1, sizeof *watch);
  if (watch == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "watch");
  watch->root_fd = workspace->fd;
  watch->fd = -1;
  int result = start(watch, path, err);
  if (result < 0) {
    gbx__watch_free(watch);
    return result;
  }
  *ret_watch = watch;
  return 0;
}

void gbx__watch_free(struct gbx__watch* watch) {
  if (watch == NULL) return;
  for (uint32_t i = 0; i < watch->count; i++)
    free(watch->folders[i].path);
  free(watch->folders);
  free(watch->way);
  free(watch->bytes);
  fd_close(&watch->fd);
  free(watch);
}
