/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TEMP_PREFIX ".glovebox-"
#define TEMP_SUFFIX ".tmp"

enum { temp_digits = 16 };

int gbx__beneath_open(int dir_fd, const char* path, int flags,
                      uint64_t resolve) {
  struct open_how how = {
      .flags = (uint64_t)flags | O_CLOEXEC,
      .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS |
                 resolve,
  };
  int fd = (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof how);
  return fd < 0 ? -errno : fd;
}

enum gbx_code gbx__beneath_code(int sys_errno) {
  switch (sys_errno) {
    case ENOENT:
    case ENOTDIR: /* the path goes on below a file */
      return GBX_E_NOT_FOUND;
    case ELOOP: /* a symlink */
    case EXDEV: /* a folder on the way was moved out meanwhile */
    case ENAMETOOLONG:
      return GBX_E_PATH;
    case EEXIST:
      return GBX_E_EXISTS;
    case ENXIO: /* a socket, or a device without a driver */
      return GBX_E_NOT_REGULAR;
    case EAGAIN: /* opening it would wait for the holder of a lease */
      return GBX_E_BUSY;
    default:
      return GBX_E_IO;
  }
}

static int refuse(const char* path, const char* rule, struct gbx_err* err) {
  return gbx_fail(err, GBX_E_PATH, EINVAL, "path", "%s: %s", rule, path);
}

int gbx__beneath_clean(const char* path, bool may_be_empty,
                       char ret_path[GBX__PATH_SIZE], struct gbx_err* err) {
  size_t path_size = strlen(path);
  if (path_size == 0 && !may_be_empty)
    return refuse(path, "the path is empty", err);
  if (path[0] == '/')
    return refuse(path, "absolute, not relative to the workspace", err);
  if (path_size >= GBX__PATH_SIZE)
    return refuse(path, "longer than 4095 bytes", err);
  if (path_size > 0 && path[path_size - 1] == '/')
    return refuse(path, "ends in \"/\"", err);

  char clean[GBX__PATH_SIZE];
  size_t clean_size = 0;
  for (const char* part = path; *part != '\0';) {
    size_t size = strcspn(part, "/");
    if (size == 2 && memcmp(part, "..", 2) == 0)
      return refuse(path, "has \"..\"", err);
    if (size > NAME_MAX)
      return refuse(path, "has a name longer than 255 bytes", err);
    if (size > 0 && !(size == 1 && *part == '.')) {
      if (clean_size > 0) clean[clean_size++] = '/';
      memcpy(clean + clean_size, part, size);
      clean_size += size;
    }
    part += size;
    if (*part == '/') part++;
  }
  if (clean_size == 0 && path_size > 0)
    return refuse(path, "names the workspace itself", err);
  clean[clean_size] = '\0';
  memcpy(ret_path, clean, clean_size + 1);
  return 0;
}

int gbx__temp_name_make(char ret_name[GBX__TEMP_NAME_SIZE]) {
  uint64_t number;
  if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
    return -errno;
  (void)snprintf(ret_name, GBX__TEMP_NAME_SIZE,
                 TEMP_PREFIX "%016llx" TEMP_SUFFIX, (unsigned long long)number);
  return 0;
}

bool gbx__temp_name_is(const char* name) {
  const size_t prefix_size = sizeof TEMP_PREFIX - 1;
  if (strncmp(name, TEMP_PREFIX, prefix_size) != 0) return false;
  const char* digits = name + prefix_size;
  return strspn(digits, "0123456789abcdef") == temp_digits &&
         strcmp(digits + temp_digits, TEMP_SUFFIX) == 0;
}
