/* SPDX-License-Identifier: Apache-2.0 */
/* sources: src/engine/usage.c src/engine/beneath.c src/common/remove_tree.c
 * src/common/error.c src/common/fd.c libs: */

#include "engine/usage.h"

#include <linux/falloc.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "scratch.h"

#define NAME GBX__USAGE_NAME_BYTES

static int dir_fd; /* a new folder for each test */
static const atomic_bool go_on;

static struct gbx__usage count_for(uint32_t owner, uint64_t enough) {
  struct gbx__usage usage = {0};
  struct gbx_err err = {0};
  EXPECT(gbx__usage_count(dir_fd, owner, enough, &go_on, &usage, &err) == 0);
  return usage;
}

static struct gbx__usage count(void) {
  return count_for(geteuid(), UINT64_MAX);
}

/* Of one inode, as the filesystem says. */
static uint64_t blocks_of(int fd, const char* path) {
  struct stat st;
  MUST(fstatat(fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0);
  return (uint64_t)st.st_blocks * 512;
}

/* Of the folder itself, which takes blocks too. */
static uint64_t bare(void) {
  return NAME + blocks_of(dir_fd, ".");
}

static void fill(const char* path, off_t at, size_t size) {
  int fd = openat(dir_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  char* bytes = malloc(size);
  MUST(fd >= 0 && bytes != NULL);
  memset(bytes, 'x', size);
  MUST(pwrite(fd, bytes, size, at) == (ssize_t)size);
  MUST(close(fd) == 0);
  free(bytes);
}

static void test_empty(void) {
  struct gbx__usage usage = count();
  EXPECT(usage.complete);
  EXPECT(usage.bytes == bare());
}

static void test_blocks(void) {
  fill("a", 0, 1 << 20);
  struct gbx__usage usage = count();
  EXPECT(usage.bytes >= bare() + NAME + (1 << 20));
  EXPECT(usage.bytes == bare() + NAME + blocks_of(dir_fd, "a"));
}

static void test_sparse(void) {
  int fd = openat(dir_fd, "hole", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  MUST(fd >= 0 && ftruncate(fd, 1ll << 40) == 0);
  EXPECT(count().bytes <= bare() + NAME + blocks_of(dir_fd, "hole"));
  EXPECT(count().bytes < 1 << 20);
  /* What is allocated and never written takes its room. */
  if (fallocate(fd, 0, 0, 4 << 20) == 0) {
    EXPECT(count().bytes >= bare() + NAME + (4 << 20));
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4 << 20) ==
        0)
      EXPECT(count().bytes < 1 << 20);
  }
  MUST(close(fd) == 0);
}

static void test_names(void) {
  for (int i = 0; i < 1000; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "%d", i);
    put(dir_fd, name, "");
  }
  struct gbx__usage usage = count();
  EXPECT(usage.complete);
  EXPECT(usage.bytes == bare() + 1000 * NAME);
}

static void test_links(void) {
  fill("a", 0, 1 << 20);
  uint64_t blocks = blocks_of(dir_fd, "a");
  for (int i = 0; i < 100; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "l%d", i);
    MUST(linkat(dir_fd, "a", dir_fd, name, 0) == 0);
  }
  EXPECT(count().bytes == bare() + 101 * NAME + blocks);
}

static void test_every_kind(void) {
  MUST(symlinkat("/", dir_fd, "symlink") == 0);
  MUST(symlinkat(".", dir_fd, "loop") == 0);
  MUST(mkfifoat(dir_fd, "fifo", 0600) == 0);
  int deps_fd = make_dir(dir_fd, ".deps");
  put(deps_fd, "x", "");
  put(dir_fd, ".glovebox-0123456789abcdef.tmp", "");
  struct gbx__usage usage = count();
  EXPECT(usage.complete);
  EXPECT(usage.bytes == bare() + 6 * NAME + blocks_of(dir_fd, ".deps") +
                            blocks_of(dir_fd, "symlink") +
                            blocks_of(dir_fd, "loop"));
  MUST(close(deps_fd) == 0);
}

static void make_deep(int levels) {
  int fd = dup(dir_fd);
  for (int i = 0; i < levels; i++) {
    int below_fd = make_dir(fd, "d");
    MUST(close(fd) == 0);
    fd = below_fd;
  }
  put(fd, "x", "");
  MUST(close(fd) == 0);
}

static void test_deep(void) {
  make_deep(GBX__USAGE_LEVELS - 1);
  struct gbx__usage usage = count();
  EXPECT(usage.complete);
  EXPECT(usage.bytes >= bare() + GBX__USAGE_LEVELS * NAME);
}

static void test_too_deep(void) {
  make_deep(GBX__USAGE_LEVELS + 5);
  struct gbx__usage usage = count();
  EXPECT(!usage.complete);
  EXPECT(usage.bytes >= bare() + (GBX__USAGE_LEVELS - 1) * NAME);
}

static void look_into_closed(void) {
  /* Its own: it could open it, and a box of the same user can. */
  EXPECT(!count_for(geteuid(), UINT64_MAX).complete);
  /* Another's: a box has not made it. */
  EXPECT(count_for(geteuid() + 1, UINT64_MAX).complete);
}

static void test_closed(void) {
  int fd = make_dir(dir_fd, "closed");
  put(fd, "x", "");
  if (geteuid() == 0) MUST(fchown(fd, PLAIN_ID, PLAIN_ID) == 0);
  MUST(fchmod(fd, 0) == 0);
  run_as_plain_user(look_into_closed);
  /* Listing takes the read bit, looking at what is listed the other. */
  MUST(fchmod(fd, S_IRUSR) == 0);
  run_as_plain_user(look_into_closed);
  MUST(fchmod(fd, S_IRWXU) == 0 && close(fd) == 0);
}

static void test_enough(void) {
  for (int i = 0; i < 20; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "%d", i);
    fill(name, 0, 1 << 20);
  }
  struct gbx__usage usage = count_for(geteuid(), 5 << 20);
  EXPECT(usage.bytes > 5 << 20);
  EXPECT(usage.bytes < 8 << 20);
}

static void test_cancelled(void) {
  const atomic_bool cancelled = true;
  struct gbx__usage usage = {0};
  make_deep(3);
  EXPECT(gbx__usage_count(dir_fd, 0, UINT64_MAX, &cancelled, &usage, NULL) ==
         0);
  EXPECT(usage.bytes == bare());
}

static void look_at_mount(void) {
  if (!enter_mount_namespace()) _exit(77);
  /* By its path: the descriptor leads to the namespace that was left. */
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", dir_fd);
  char real[PATH_MAX];
  MUST(realpath(path, real) != NULL && chdir(real) == 0);
  if (mount("tmpfs", "mnt", "tmpfs", 0, "size=8m") < 0) _exit(77);
  int mnt_fd = openat(AT_FDCWD, "mnt", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  MUST(mnt_fd >= 0);
  dir_fd = openat(AT_FDCWD, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  MUST(dir_fd >= 0);
  fill("mnt/x", 0, 1 << 20);
  EXPECT(count().bytes >= bare() + 2 * NAME + (1 << 20));
}

static void test_mount(void) {
  MUST(close(make_dir(dir_fd, "mnt")) == 0);
  run_in_child(look_at_mount, "mounting is not allowed here");
}

static void churn(void) {
  for (unsigned i = 0;; i++) {
    char name[32], other[32];
    (void)snprintf(name, sizeof name, "t%u", i % 50);
    (void)snprintf(other, sizeof other, "t%u", (i * 7 + 3) % 50);
    (void)mkdirat(dir_fd, name, 0755);
    (void)renameat(dir_fd, name, dir_fd, other);
    (void)strcat(name, "/in");
    (void)mkdirat(dir_fd, name, 0755);
    int fd = openat(dir_fd, other, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd >= 0) (void)close(fd);
    (void)unlinkat(dir_fd, other, 0);
    (void)unlinkat(dir_fd, name, AT_REMOVEDIR);
  }
}

static void test_changing(void) {
  fill("kept", 0, 1 << 20);
  (void)fflush(stdout);
  pid_t pid = fork();
  MUST(pid >= 0);
  if (pid == 0) churn();
  for (int i = 0; i < 2000; i++) {
    struct gbx__usage usage = count();
    EXPECT(usage.bytes >= NAME * 2 + (1 << 20));
    EXPECT(usage.bytes < 4 << 20);
  }
  MUST(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
}

static void test_fall(void) {
  const struct gbx__space full = {.bytes = 100, .inodes = 10};
  const struct gbx__space more = {.bytes = 130, .inodes = 9};
  EXPECT(gbx__space_fall(&full, &full) == 0);
  /* That one rose does not make up for the other. */
  EXPECT(gbx__space_fall(&full, &more) == NAME);
  EXPECT(gbx__space_fall(&more, &full) == 30);
  struct gbx__space space = {0};
  EXPECT(gbx__space_read(dir_fd, &space) == 0 && space.bytes > 0);
  EXPECT(gbx__space_read(-1, &space) == -EBADF);
}

static void run(const char* title, void (*test)(void)) {
  char name[] = "XXXXXX";
  static int number;
  (void)snprintf(name, sizeof name, "%d", number++);
  dir_fd = make_dir(scratch_fd, name);
  run_test(title, test);
  MUST(close(dir_fd) == 0);
}

int main(void) {
  scratch_open();
  MUST(fchmod(scratch_fd, 0777) == 0);
  run("an empty folder takes what it takes itself", test_empty);
  run("a file counts by its blocks", test_blocks);
  run("MEM-10 holes do not count, what is allocated does", test_sparse);
  run("MEM-08 each name counts 4 KiB", test_names);
  run("the blocks of many names of one inode count once", test_links);
  run("what no list of files shows counts", test_every_kind);
  run("folders count down to the last level", test_deep);
  run("a tree that is too deep is not complete", test_too_deep);
  run("a folder closed to us is not complete if it is the owner's",
      test_closed);
  run("counting ends when there is enough", test_enough);
  run("counting ends when it is cancelled", test_cancelled);
  run("mounts in the workspace count", test_mount);
  run("a tree that changes meanwhile is counted all the same", test_changing);
  run("what a filesystem lost is blocks and inodes", test_fall);
  scratch_close();
  return done();
}
