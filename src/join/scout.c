/* SPDX-License-Identifier: Apache-2.0 */
#include "join/scout.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "join/bare.h"

#undef errno /* it is libc's; its numbers are not */

/* From <linux/mman.h>, which collides with <sys/mman.h>. Linux 5.14. */
#define BARE_MADV_POPULATE_WRITE 23

/* There is no /proc here that would list what is mapped, so it is searched for,
 * by halves, down to pieces of this size. */
#define PIECE_BYTES (1ul << 20)

/* Nothing is mapped below: vm.mmap_min_addr is 64 KiB. */
#define LOWEST PIECE_BYTES

/* Of the stack, above the frames of here. */
#define STACK_BYTES (1ul << 20)

/* Bounds what a preloaded heap of gigabytes would cost. */
#define COPIES_MAX_BYTES (128ul << 20)

struct search {
  int fd;
  unsigned long page_bytes;
  unsigned long copied; /* bytes */
  struct gbx_span span; /* that grows */
  long result;
};

/* The kernel looks for that before it looks at limits of ours. */
static bool is_taken(unsigned long start, unsigned long size) {
  long at = call6(
      __NR_mmap, (long)start, (long)size, PROT_NONE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (at == (long)start) (void)call(__NR_munmap, at, (long)size, 0, 0);
  return at == -EEXIST;
}

static unsigned long count_faults(void) {
  struct rusage usage;
  if (call(__NR_getrusage, RUSAGE_SELF, (long)&usage, 0, 0) < 0) return 0;
  return (unsigned long)usage.ru_minflt;
}

static void tell(struct search* search) {
  const struct gbx_span* span = &search->span;
  if (span->size == 0 || search->result < 0) return;
  long result = call(__NR_write, search->fd, (long)span, (long)sizeof *span, 0);
  if (result != (long)sizeof *span) search->result = result < 0 ? result : -EIO;
  search->span.size = 0;
}

/* A page that is ours alone can be had for writing without a fault. */
static void look_at(struct search* search, unsigned long page) {
  unsigned long before = count_faults();
  if (call(__NR_madvise, (long)page, (long)search->page_bytes,
           BARE_MADV_POPULATE_WRITE, 0) < 0)
    return; /* nothing is there, or nothing to write to */
  if (count_faults() != before) {
    search->copied += search->page_bytes;
    return;
  }
  if (search->span.start + search->span.size != page) tell(search);
  if (search->span.size == 0) search->span.start = page;
  search->span.size += search->page_bytes;
}

static void look_through(struct search* search, unsigned long start,
                         unsigned long end) {
  if (search->copied >= COPIES_MAX_BYTES || !is_taken(start, end - start))
    return;
  unsigned long half = (end - start) / 2 / PIECE_BYTES * PIECE_BYTES;
  if (half > 0) {
    look_through(search, start, start + half);
    look_through(search, start + half, end);
    return;
  }
  for (unsigned long page = start; page < end; page += search->page_bytes)
    look_at(search, page);
}

__attribute__((visibility("default"))) long gbx_scout_tell(
    int fd, unsigned long page_bytes) {
  struct search search = {.fd = fd, .page_bytes = page_bytes};
  unsigned long here = (unsigned long)&search / page_bytes * page_bytes;
  unsigned long more = STACK_BYTES;
  /* Beyond the end of all addresses nothing is taken. */
  while (more > page_bytes && !is_taken(here, more))
    more /= 2;
  look_through(&search, LOWEST, here + more);
  tell(&search);
  return search.result;
}

void scout_follow(const struct gbx_span* spans, unsigned long count) {
  for (unsigned long i = 0; i < count; i++)
    (void)call(__NR_madvise, (long)spans[i].start, (long)spans[i].size,
               BARE_MADV_POPULATE_WRITE, 0);
}
