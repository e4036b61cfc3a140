/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_COMMON_FD_H_
#define SRC_COMMON_FD_H_

/* Descriptors that close themselves, and the only place that handles EINTR. */

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

/* close() is never repeated: Linux has freed the number even on EINTR. */
static inline void fd_close(int* fd) {
  if (*fd >= 0) (void)close(*fd);
  *fd = -1;
}

static inline int fd_steal(int* fd) {
  int taken = *fd;
  *fd = -1;
  return taken;
}

static inline void free_pointer(void* pointer) {
  free(*(void**)pointer);
}

#define cleanup_fd   __attribute__((cleanup(fd_close)))
#define cleanup_free __attribute__((cleanup(free_pointer)))

#define RETRY(call)                          \
  ({                                         \
    long result_;                            \
    do {                                     \
      result_ = (long)(call);                \
    } while (result_ < 0 && errno == EINTR); \
    result_;                                 \
  })

/* Writes all of it or fails. Returns 0 or a negative errno. */
int fd_write_all(int fd, const void* bytes, size_t size);

/* Reads until `size` bytes or the end. Returns the count or a negative errno.
 */
ssize_t fd_read_full(int fd, void* bytes, size_t size);

/* Whether a read would not wait. A pidfd is readable once all threads of its
 * process have ended. False of -1. */
bool fd_is_readable(int fd);

/* Writes `text` to a file in one write(), as the kernel's control files want
 * it. Returns 0 or a negative errno. */
int fd_write_file(int dir_fd, const char* path, const char* text);

/* Reads a small file into `text`, NUL-terminated, without trailing newline.
 * Returns its length or a negative errno. */
ssize_t fd_read_file(int dir_fd, const char* path, char* text, size_t size);

/* Closes every descriptor from 3 on but those in `keep`, which it sorts.
 * Returns 0 or a negative errno. */
int fd_close_except(int* keep, int count);

/* A memfd with the given bytes that nobody can change any more. Returns the
 * descriptor (close-on-exec) or a negative errno. */
int fd_sealed_memory(const char* name, const void* bytes, size_t size);

#endif  // SRC_COMMON_FD_H_
