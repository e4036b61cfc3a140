/* SPDX-License-Identifier: Apache-2.0 */
/* sources: src/common/moments.c src/common/remove_tree.c src/common/fd.c
 * src/common/error.c libs: */

#include "common/moments.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "expect.h"
#include "scratch.h"

/* As bench/lib/moments.js reads it. */
struct head {
  uint32_t magic, capacity;
  uint64_t count;
};

struct slot {
  uint64_t at_ns;
  uint32_t run, moment;
};

static struct head read_head(int fd) {
  struct head head = {0};
  EXPECT(pread(fd, &head, sizeof head, 0) == (ssize_t)sizeof head);
  return head;
}

static struct slot read_slot(int fd, uint64_t index) {
  struct slot slot = {0};
  off_t at = (off_t)(sizeof(struct head) + index * sizeof slot);
  EXPECT(pread(fd, &slot, sizeof slot, at) == (ssize_t)sizeof slot);
  return slot;
}

static void test_order(void) {
  const char* path = "order";
  struct gbx_moments* moments = NULL;
  struct gbx_err err = {0};
  int fd = -1;
  EXPECT(gbx_moments_create(path, &moments, &fd, &err) == 0);
  struct gbx_moments* other = gbx_moments_map(fd);
  EXPECT(other != NULL);
  gbx_moment(moments, GBX_AT_CALLED, 7);
  gbx_moment(other, GBX_AT_RUN_RECEIVED, 7);
  struct slot first = read_slot(fd, 0), second = read_slot(fd, 1);
  EXPECT(read_head(fd).count == 2);
  EXPECT(first.run == 7 && first.moment == GBX_AT_CALLED);
  EXPECT(second.run == 7 && second.moment == GBX_AT_RUN_RECEIVED);
  EXPECT(first.at_ns > 0 && second.at_ns >= first.at_ns);
  gbx_moments_unmap(other);
  gbx_moments_unmap(moments);
  (void)close(fd);
}

static void test_wrap(void) {
  const char* path = "wrap";
  struct gbx_moments* moments = NULL;
  struct gbx_err err = {0};
  int fd = -1;
  EXPECT(gbx_moments_create(path, &moments, &fd, &err) == 0);
  uint32_t capacity = read_head(fd).capacity;
  for (uint32_t run = 0; run < capacity + 2; run++)
    gbx_moment(moments, GBX_AT_CALLED, run);
  EXPECT(read_head(fd).count == capacity + 2);
  EXPECT(read_slot(fd, 0).run == capacity);
  EXPECT(read_slot(fd, 2).run == 2);
  gbx_moments_unmap(moments);
  (void)close(fd);
}

static void test_refusals(void) {
  put(scratch_fd, "taken", "mine");
  struct gbx_moments* moments = NULL;
  struct gbx_err err = {0};
  int fd = -1;
  EXPECT(gbx_moments_create("taken", &moments, &fd, &err) == -EEXIST);
  EXPECT(err.code == GBX_E_START && moments == NULL && fd == -1);
  EXPECT(holds(scratch_fd, "taken", "mine"));
  fd = open("taken", O_RDWR | O_CLOEXEC);
  EXPECT(fd >= 0 && gbx_moments_map(fd) == NULL);
  (void)close(fd);
}

static void test_off(void) {
  gbx_moment(NULL, GBX_AT_CALLED, 1);
  gbx_moments_unmap(NULL);
}

int main(void) {
  scratch_open();
  MUST(fchdir(scratch_fd) == 0);
  run_test("all who map a ring note into one order", test_order);
  run_test("a full ring forgets the oldest", test_wrap);
  run_test("a file that is there is no ring, nor is one of another size",
           test_refusals);
  run_test("without a ring nothing is noted", test_off);
  MUST(chdir("/") == 0);
  scratch_close();
  return done();
}
