/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_FUZZ_EXACT_MAP_H_
#define TEST_FUZZ_EXACT_MAP_H_

/* For a target that includes the file under test: its mmap() gives heap memory
 * of the very size. A real mapping ends in a page of zeroes, in which the
 * sanitizer sees no read beyond the end, and one that is never unmapped (a
 * payload's, which becomes another program) would fill the address space. */

#include <sys/mman.h>

#include "fuzz.h"

#define MAPS_MAX 4

static void* maps[MAPS_MAX];

static void* exact_mmap(void* where, size_t size, int protection, int flags,
                        int fd, off_t offset) {
  (void)where;
  (void)protection;
  void* map = calloc(1, size);
  CHECK(map != NULL);
  if ((flags & MAP_ANONYMOUS) == 0)
    CHECK(pread(fd, map, size, offset) == (ssize_t)size);
  for (int i = 0; i < MAPS_MAX; i++)
    if (maps[i] == NULL) {
      maps[i] = map;
      return map;
    }
  abort();
}

static inline int exact_munmap(void* map, size_t size) {
  (void)size;
  for (int i = 0; i < MAPS_MAX; i++)
    if (maps[i] == map) {
      free(map);
      maps[i] = NULL;
      return 0;
    }
  abort();
}

static inline void exact_unmap_all(void) {
  for (int i = 0; i < MAPS_MAX; i++) {
    free(maps[i]);
    maps[i] = NULL;
  }
}

/* A memfd with the input in it, the same one each time. */
static inline int input_fd(const uint8_t* data, size_t size) {
  static int fd = -1;
  if (fd < 0) fd = memfd_create("input", MFD_CLOEXEC);
  CHECK(fd >= 0 && ftruncate(fd, 0) == 0);
  CHECK(pwrite(fd, data, size, 0) == (ssize_t)size);
  return fd;
}

#define mmap   exact_mmap
#define munmap exact_munmap

#endif  // TEST_FUZZ_EXACT_MAP_H_
