/* SPDX-License-Identifier: Apache-2.0 */
#include "common/moments.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "common/fd.h"

#define MAGIC    0x4d584247u /* "GBXM" */
#define CAPACITY 65536u      /* a power of two; the oldest are overwritten */

struct slot {
  uint64_t at_ns;
  uint32_t run;
  uint32_t moment;
};

struct gbx_moments {
  uint32_t magic;
  uint32_t capacity;
  _Atomic uint64_t count; /* of all that were ever noted */
  struct slot slot[CAPACITY];
};

struct gbx_moments* gbx_moments_map(int fd) {
  struct stat info;
  /* Beyond the end of a file even a mapped page is a SIGBUS. */
  if (fstat(fd, &info) < 0 || info.st_size != (off_t)sizeof(struct gbx_moments))
    return NULL;
  void* map = mmap(NULL, sizeof(struct gbx_moments), PROT_READ | PROT_WRITE,
                   MAP_SHARED, fd, 0);
  return map == MAP_FAILED ? NULL : map;
}

int gbx_moments_create(const char* path, struct gbx_moments** ret_moments,
                       int* ret_fd, struct gbx_err* err) {
  /* Never one that is there: it may be a link, or another engine's. */
  cleanup_fd int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0)
    return gbx_fail(err, GBX_E_START, errno, "open", "%s, for moments", path);
  int result = posix_fallocate(fd, 0, (off_t)sizeof(struct gbx_moments));
  if (result != 0)
    return gbx_fail(err, GBX_E_START, result, "posix_fallocate", "%s", path);
  struct gbx_moments* moments = gbx_moments_map(fd);
  if (moments == NULL)
    return gbx_fail(err, GBX_E_START, ENOMEM, "mmap", "%s", path);
  moments->magic = MAGIC;
  moments->capacity = CAPACITY;
  *ret_moments = moments;
  *ret_fd = fd_steal(&fd);
  return 0;
}

void gbx_moments_unmap(struct gbx_moments* moments) {
  if (moments != NULL) (void)munmap(moments, sizeof *moments);
}

void gbx__moment_note(struct gbx_moments* moments, enum gbx_moment moment,
                      uint32_t run) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail */
  uint64_t index =
      atomic_fetch_add_explicit(&moments->count, 1, memory_order_relaxed);
  moments->slot[index % CAPACITY] = (struct slot){
      .at_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
      .run = run,
      .moment = moment};
}
