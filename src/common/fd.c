/* SPDX-License-Identifier: Apache-2.0 */
#include "common/fd.h"

#include <poll.h>
#include <string.h>
#include <sys/mman.h>

#include "common/sys.h"

int fd_write_all(int fd, const void* bytes, size_t size) {
  const char* next = bytes;
  while (size > 0) {
    ssize_t count = RETRY(write(fd, next, size));
    if (count < 0) return -errno;
    next += count;
    size -= (size_t)count;
  }
  return 0;
}

ssize_t fd_read_full(int fd, void* bytes, size_t size) {
  char* next = bytes;
  size_t left = size;
  while (left > 0) {
    ssize_t count = RETRY(read(fd, next, left));
    if (count < 0) return -errno;
    if (count == 0) break;
    next += count;
    left -= (size_t)count;
  }
  return (ssize_t)(size - left);
}

bool fd_is_readable(int fd) {
  struct pollfd polled = {.fd = fd, .events = POLLIN};
  return RETRY(poll(&polled, 1, 0)) > 0;
}

int fd_write_file(int dir_fd, const char* path, const char* text) {
  cleanup_fd int fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -errno;
  ssize_t count = RETRY(write(fd, text, strlen(text)));
  if (count < 0) return -errno;
  return (size_t)count == strlen(text) ? 0 : -EIO;
}

ssize_t fd_read_file(int dir_fd, const char* path, char* text, size_t size) {
  cleanup_fd int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -errno;
  ssize_t count = fd_read_full(fd, text, size - 1);
  if (count < 0) return count;
  while (count > 0 && text[count - 1] == '\n')
    count--;
  text[count] = '\0';
  return count;
}

static int compare_fds(const void* a, const void* b) {
  return *(const int*)a - *(const int*)b;
}

int fd_close_except(int* keep, int count) {
  qsort(keep, (size_t)count, sizeof *keep, compare_fds);
  unsigned next = 3;
  for (int i = 0; i < count; i++) {
    unsigned kept = (unsigned)keep[i];
    if (kept > next && sys_close_range(next, kept - 1, 0) < 0) return -errno;
    if (kept >= next) next = kept + 1;
  }
  return sys_close_range(next, ~0u, 0) < 0 ? -errno : 0;
}

int fd_sealed_memory(const char* name, const void* bytes, size_t size) {
  cleanup_fd int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return -errno;
  int result = fd_write_all(fd, bytes, size);
  if (result < 0) return result;
  if (lseek(fd, 0, SEEK_SET) < 0) return -errno;
  if (fcntl(fd, F_ADD_SEALS,
            F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
    return -errno;
  return fd_steal(&fd);
}
