/* SPDX-License-Identifier: Apache-2.0 */
#include "common/host_place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fd.h"

bool gbx_path_is_within(const char* path, const char* folder) {
  size_t size = strlen(folder);
  if (size == 1) return true; /* "/" */
  return strncmp(path, folder, size) == 0 &&
         (path[size] == '\0' || path[size] == '/');
}

/* ---- The mounts ---------------------------------------------------------- */

int gbx_mount_list_open(struct gbx_mount_list* list) {
  list->used = list->at = 0;
  list->is_at_end = false;
  list->fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
  return list->fd < 0 ? -errno : 0;
}

void gbx_mount_list_close(struct gbx_mount_list* list) {
  fd_close(&list->fd);
}

/* A line without its end, or NULL at the end of all. */
static char* next_line(struct gbx_mount_list* list, int* ret_error) {
  for (;;) {
    char* start = list->text + list->at;
    char* end = memchr(start, '\n', list->used - list->at);
    if (end != NULL) {
      *end = '\0';
      list->at = (size_t)(end + 1 - list->text);
      return start;
    }
    if (list->is_at_end) return NULL;
    memmove(list->text, start, list->used - list->at);
    list->used -= list->at;
    list->at = 0;
    if (list->used == sizeof list->text) {
      *ret_error = -E2BIG;
      return NULL;
    }
    ssize_t got = RETRY(read(list->fd, list->text + list->used,
                             sizeof list->text - list->used));
    if (got < 0) {
      *ret_error = -errno;
      return NULL;
    }
    list->used += (size_t)got;
    list->is_at_end = got == 0;
  }
}

/* The kernel writes blanks and backslashes in names as "\040". */
static char take_byte(char** at) {
  const char* from = *at;
  if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' &&
      from[2] <= '7' && from[3] >= '0' && from[3] <= '7') {
    *at += 4;
    return (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
  }
  (*at)++;
  return from[0];
}

static bool take_path(char** at, char* ret_path) {
  size_t used = 0;
  while (**at != ' ' && **at != '\0') {
    if (used == PATH_MAX - 1) return false;
    ret_path[used++] = take_byte(at);
  }
  ret_path[used] = '\0';
  if (**at == ' ') (*at)++;
  return used > 0;
}

int gbx_mount_list_next(struct gbx_mount_list* list,
                        struct gbx_mount_line* ret_line) {
  int error = 0;
  char* line = next_line(list, &error);
  if (line == NULL) return error;
  unsigned long long id;
  int used = 0;
  if (sscanf(line, "%llu %*d %u:%u %n", &id, &ret_line->major, &ret_line->minor,
             &used) != 3 ||
      used == 0)
    return -EBADMSG;
  ret_line->id = id;
  char* at = line + used;
  if (!take_path(&at, ret_line->root) || !take_path(&at, ret_line->target))
    return -EBADMSG;
  /* Behind them " - ", the type and the source; names have no blanks. */
  char* options = strstr(at, " - ");
  for (int i = 0; i < 3 && options != NULL; i++)
    options = strchr(options + 1, ' ');
  if (options == NULL) return -EBADMSG;
  ret_line->options = options + 1;
  return 1;
}

int gbx_mount_list_find(struct gbx_mount_list* list, uint64_t id,
                        struct gbx_mount_line* ret_line) {
  int result;
  do {
    result = gbx_mount_list_next(list, ret_line);
  } while (result == 1 && ret_line->id != id);
  return result == 1 ? 0 : result == 0 ? -ESTALE : result;
}

/* ---- Overlays ------------------------------------------------------------ */

/* One path, of which `lowerdir` may have many: "/a:/b\:c". */
static bool take_layer(char** at, char* ret_path) {
  size_t used = 0;
  while (**at != ':' && **at != ',' && **at != '\0') {
    char byte = take_byte(at);
    if (byte == '\\' && **at != '\0') byte = take_byte(at);
    if (used < PATH_MAX - 1) ret_path[used++] = byte;
  }
  ret_path[used] = '\0';
  return used > 0 && used < PATH_MAX - 1;
}

/* The value that begins the rest of some options, or NULL. */
static char* find_layers(char* options) {
  static const char* const keys[] = {
      "lowerdir=", "lowerdir+=", "datadir+=", "upperdir="};
  for (;;) {
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
      if (strncmp(options, keys[i], strlen(keys[i])) == 0)
        return options + strlen(keys[i]);
    char* comma = strchr(options, ',');
    if (comma == NULL) return NULL;
    options = comma + 1;
  }
}

bool gbx_next_layer(char** options, char ret_path[PATH_MAX]) {
  for (;;) {
    char* at = **options == ':' ? *options + 1 : find_layers(*options);
    if (at == NULL) return false;
    bool is_path = take_layer(&at, ret_path);
    *options = at;
    if (is_path) return true;
  }
}

/* ---- A file's place ------------------------------------------------------ */

#ifndef STATX_MNT_ID
#define STATX_MNT_ID 0x1000u
#endif

/* Where statx() is kept from us, /proc has it: some ten times slower. */
static int read_mount_id(int fd, uint64_t* ret_id) {
  struct statx info;
  if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &info) == 0 &&
      (info.stx_mask & STATX_MNT_ID) != 0) {
    *ret_id = info.stx_mnt_id;
    return 0;
  }
  char path[64], text[1024];
  (void)snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
  ssize_t size = fd_read_file(AT_FDCWD, path, text, sizeof text);
  if (size < 0) return (int)size;
  const char* at = strstr(text, "mnt_id:");
  if (at == NULL) return -EBADMSG;
  *ret_id = strtoull(at + 7, NULL, 10);
  return 0;
}

/* The mount that the file is on, and with it the path in the file system. */
static int find_mount(struct gbx_place* place) {
  struct gbx_mount_list list;
  struct gbx_mount_line line;
  int result = gbx_mount_list_open(&list);
  if (result < 0) return result;
  result = gbx_mount_list_find(&list, place->mount, &line);
  gbx_mount_list_close(&list);
  if (result < 0) return result;
  if (!gbx_path_is_within(place->path, line.target)) return -ESTALE;
  const char* rest = place->path;
  if (line.target[1] != '\0') rest += strlen(line.target);
  const char* root = line.root[1] == '\0' ? "" : line.root;
  if (rest[0] == '/' && rest[1] == '\0') rest = "";
  const char* both = root[0] == '\0' && rest[0] == '\0' ? "/" : "";
  if (snprintf(place->inside, sizeof place->inside, "%s%s%s", root, rest,
               both) >= (int)sizeof place->inside)
    return -ENAMETOOLONG;
  place->major = line.major;
  place->minor = line.minor;
  return 0;
}

static int read_path(int fd, char ret_path[PATH_MAX]) {
  char link[64];
  (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, ret_path, PATH_MAX - 1);
  if (size < 0) return -errno;
  if (size == PATH_MAX - 1) return -ENAMETOOLONG;
  ret_path[size] = '\0';
  return ret_path[0] == '/' ? 0 : -ESTALE;
}

/* The folder that `fd` is in, by its path: a file has no "..", and of a folder
 * that is closed to us that is EACCES. Both have to be compared all the same.
 */
static int open_parent_by_path(int fd) {
  char parent[PATH_MAX], path[PATH_MAX];
  int result = read_path(fd, path);
  if (result < 0) return result;
  const char* slash = strrchr(path, '/');
  size_t size = slash == path ? 1 : (size_t)(slash - path);
  memcpy(parent, path, size);
  parent[size] = '\0';
  cleanup_fd int parent_fd =
      open(parent, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat own, there;
  if (parent_fd < 0 || fstat(fd, &own) < 0 ||
      fstatat(parent_fd, slash + 1, &there, AT_SYMLINK_NOFOLLOW) < 0)
    return -errno;
  if (own.st_dev != there.st_dev || own.st_ino != there.st_ino) return -ESTALE;
  return fd_steal(&parent_fd);
}

static int open_parent(int fd) {
  int parent_fd = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (parent_fd >= 0) return parent_fd;
  return errno == ENOTDIR || errno == EACCES ? open_parent_by_path(fd) : -errno;
}

static int add_step(struct gbx_place* place, const struct stat* st,
                    const char* name) {
  if (place->count == GBX_PLACE_DEPTH) return -ELOOP;
  place->steps[place->count++] = (struct gbx_place_step){
      .dev = st->st_dev, .ino = st->st_ino, .name = name};
  return 0;
}

/* The last name of the path's first `*size` bytes, which are then fewer. */
static const char* take_name(const char* path, size_t* size) {
  while (*size > 0 && path[*size - 1] != '/')
    (*size)--;
  const char* name = path + *size;
  while (*size > 0 && path[*size - 1] == '/')
    (*size)--;
  return name;
}

/* Climbs by "..", and not by the names of the path: those may be others'
 * folders by now. */
static int climb(int fd, struct gbx_place* place) {
  struct stat st;
  if (fstat(fd, &st) < 0) return -errno;
  size_t size = strlen(place->path);
  int result = add_step(place, &st, take_name(place->path, &size));
  if (result < 0) return result;
  cleanup_fd int at_fd = open_parent(fd);
  if (at_fd < 0) return at_fd;
  for (;;) {
    struct stat up;
    if (fstat(at_fd, &up) < 0) return -errno;
    if (up.st_dev == st.st_dev && up.st_ino == st.st_ino) return 0;
    st = up;
    result = add_step(place, &st, take_name(place->path, &size));
    if (result < 0) return result;
    int up_fd = openat(at_fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (up_fd < 0) return -errno;
    fd_close(&at_fd);
    at_fd = up_fd;
  }
}

int gbx_place_find(int fd, const struct gbx_place* beside,
                   struct gbx_place* ret_place) {
  ret_place->count = 0;
  ret_place->path[0] = '\0';
  int result = read_mount_id(fd, &ret_place->mount);
  if (result == 0 && (beside == NULL || beside->mount != ret_place->mount)) {
    result = read_path(fd, ret_place->path);
    if (result == 0) result = find_mount(ret_place);
  }
  return result == 0 ? climb(fd, ret_place) : result;
}

bool gbx_place_is_within(const struct gbx_place* inner,
                         const struct gbx_place* outer, size_t* ret_step) {
  for (size_t i = 0; i < inner->count; i++)
    if (inner->steps[i].dev == outer->steps[0].dev &&
        inner->steps[i].ino == outer->steps[0].ino) {
      if (ret_step != NULL) *ret_step = i;
      return true;
    }
  /* Through one mount, the way up has told. Through two of one file system it
   * may have missed what lies between their roots. */
  if (inner->mount == outer->mount || inner->major != outer->major ||
      inner->minor != outer->minor ||
      !gbx_path_is_within(inner->inside, outer->inside))
    return false;
  if (ret_step != NULL) *ret_step = inner->count;
  return true;
}
