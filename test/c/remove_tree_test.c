/* SPDX-License-Identifier: Apache-2.0 */
/* sources: src/common/remove_tree.c src/common/error.c libs: -lpthread */

#include "common/remove_tree.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "scratch.h"

/* Outside every tree that is removed; a symlink's and a mount's target. */
static int canary_fd;

static void make_canary(void) {
  canary_fd = make_dir(scratch_fd, "canary");
  MUST(fchmod(canary_fd, 0777) == 0);
  put(canary_fd, "token", "canary");
}

static bool canary_is_well(void) {
  return holds(canary_fd, "token", "canary") &&
         mode_of(scratch_fd, "canary") == 0777;
}

static int remove_it(const char* name) {
  struct gbx_err err = {0};
  int result = gbx_remove_tree(scratch_fd, name, &err);
  EXPECT((result == 0) == (err.code == 0));
  if (result < 0) printf("# %s: %s: %d\n", err.op, err.detail, err.sys_errno);
  return result;
}

static void test_missing(void) {
  EXPECT(remove_it("missing") == 0);
  EXPECT(gbx_remove_tree(AT_FDCWD, "/tmp/glovebox-no/such", NULL) == 0);
}

static void test_not_folders(void) {
  put(scratch_fd, "file", "x");
  EXPECT(remove_it("file") == 0 && !has(scratch_fd, "file"));
  MUST(symlinkat("canary", scratch_fd, "link") == 0);
  EXPECT(remove_it("link") == 0 && !has(scratch_fd, "link"));
  EXPECT(canary_is_well());
}

static void test_bad_names(void) {
  int fd = make_dir(scratch_fd, "kept");
  put(fd, "file", "x");
  const char* names[] = {"", ".", "..", "kept/", "kept/.", "kept/..", "/"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    struct gbx_err err = {0};
    EXPECT(gbx_remove_tree(scratch_fd, names[i], &err) < 0);
    EXPECT(err.code == GBX_E_INVALID);
  }
  EXPECT(holds(fd, "file", "x"));
  MUST(close(fd) == 0);
  EXPECT(remove_it("kept") == 0);
}

static void test_kinds(void) {
  int fd = make_dir(scratch_fd, "tree");
  put(fd, "file", "x");
  MUST(mkfifoat(fd, "fifo", 0600) == 0);
  MUST(symlinkat("../canary", fd, "link") == 0);
  MUST(symlinkat("nowhere", fd, "dangling") == 0);
  MUST(symlinkat("self", fd, "self") == 0);
  MUST(linkat(canary_fd, "token", fd, "hard", 0) == 0);
  int sub_fd = make_dir(fd, "sub");
  MUST(symlinkat("../../canary", sub_fd, "link") == 0);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  (void)snprintf(address.sun_path, sizeof address.sun_path, "%s/tree/socket",
                 scratch_path);
  int socket_fd = socket(AF_UNIX, SOCK_STREAM, 0);
  MUST(bind(socket_fd, (const void*)&address, sizeof address) == 0);
  EXPECT(remove_it("tree") == 0 && !has(scratch_fd, "tree"));
  EXPECT(canary_is_well());
  MUST(close(fd) == 0 && close(sub_fd) == 0 && close(socket_fd) == 0);
}

static void test_names(void) {
  int fd = make_dir(scratch_fd, "tree");
  char longest[256];
  memset(longest, 'n', 255);
  longest[255] = '\0';
  const char* names[] = {"nl\nx", "\xff\xfe",          "-rf",   " ",  "...",
                         "a\tb",  "\xe2\x80\xaegnp.x", longest, "\\", "*"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    int sub_fd = make_dir(fd, names[i]);
    put(sub_fd, names[i], "x");
    MUST(close(sub_fd) == 0);
  }
  MUST(close(fd) == 0);
  EXPECT(remove_it("tree") == 0 && !has(scratch_fd, "tree"));
}

/* Folders in folders, with files and side folders on each level. */
static void make_deep(const char* name, int depth, const char* part,
                      bool furnished) {
  int fd = make_dir(scratch_fd, name);
  for (int i = 0; i < depth; i++) {
    if (furnished) {
      put(fd, "a", "x");
      put(fd, "z", "x");
      int side_fd = make_dir(fd, "side");
      put(side_fd, "file", "x");
      MUST(mkdirat(side_fd, "empty", 0755) == 0 && close(side_fd) == 0);
    }
    int next_fd = make_dir(fd, part);
    MUST(close(fd) == 0);
    fd = next_fd;
  }
  put(fd, "bottom", "x");
  MUST(close(fd) == 0);
}

static void test_furnished_depths(void) {
  /* Around the number of levels that are walked without moving anything. */
  for (int depth = 1; depth < 70; depth += depth < 20 ? 1 : 10) {
    make_deep("tree", depth, "m", true);
    EXPECT(remove_it("tree") == 0 && !has(scratch_fd, "tree"));
  }
}

static void test_deep(void) {
  char part[201];
  memset(part, 'd', 200);
  part[200] = '\0';
  make_deep("tree", 3000, part, false);
  struct rlimit old, few = {.rlim_cur = 24, .rlim_max = 24};
  MUST(getrlimit(RLIMIT_NOFILE, &old) == 0);
  few.rlim_max = old.rlim_max;
  MUST(setrlimit(RLIMIT_NOFILE, &few) == 0);
  EXPECT(remove_it("tree") == 0 && !has(scratch_fd, "tree"));
  MUST(setrlimit(RLIMIT_NOFILE, &old) == 0);
}

static void test_many(void) {
  int fd = make_dir(scratch_fd, "tree");
  for (int i = 0; i < 20000; i++) {
    char name[32];
    (void)snprintf(name, sizeof name, "%d", i);
    if (i % 10 == 0) {
      int sub_fd = make_dir(fd, name);
      put(sub_fd, "file", "x");
      MUST(close(sub_fd) == 0);
    } else {
      MUST(mknodat(fd, name, S_IFREG | 0600, 0) == 0);
    }
  }
  MUST(close(fd) == 0);
  EXPECT(remove_it("tree") == 0 && !has(scratch_fd, "tree"));
}

/* Every mode that can be in the way, on several levels. */
static void make_and_remove_closed(void) {
  for (mode_t mode = 0; mode <= 0700; mode += 0100) {
    make_deep("closed", 20, "m", true);
    char path[3 * 21] = "";
    for (int i = 0; i < 20; i++) {
      char outer[sizeof path + 16];
      /* From the bottom up, or the way down would be closed. */
      (void)snprintf(outer, sizeof outer, "closed");
      for (int j = 0; j < 20 - i; j++)
        strcat(outer, "/m");
      MUST(fchmodat(scratch_fd, outer, mode, 0) == 0);
    }
    MUST(fchmodat(scratch_fd, "closed", mode, 0) == 0);
    EXPECT(remove_it("closed") == 0);
    EXPECT(!has(scratch_fd, "closed"));
  }
}

static void test_closed(void) {
  run_as_plain_user(make_and_remove_closed);
  if (geteuid() == 0) make_and_remove_closed();
}

static void test_foreign(void) {
  if (geteuid() != 0) {
    test_skipped = "takes root";
    return;
  }
  make_deep("tree", 20, "m", true);
  MUST(fchownat(scratch_fd, "tree", PLAIN_ID, PLAIN_ID, 0) == 0);
  MUST(fchownat(scratch_fd, "tree/m", PLAIN_ID, PLAIN_ID, 0) == 0);
  MUST(fchownat(scratch_fd, "tree/m/m", PLAIN_ID, PLAIN_ID, 0) == 0);
  MUST(fchmodat(scratch_fd, "tree/m/m", 0, 0) == 0);
  MUST(fchmodat(scratch_fd, "tree", 0, 0) == 0);
  EXPECT(remove_it("tree") == 0 && !has(scratch_fd, "tree"));
}

static void remove_around_foreign(void) {
  struct gbx_err err = {0};
  EXPECT(gbx_remove_tree(scratch_fd, "partly", &err) == -EACCES);
  EXPECT(err.code == GBX_E_IO && strcmp(err.detail, "file") == 0);
  EXPECT(!has(scratch_fd, "partly/a") && !has(scratch_fd, "partly/z"));
  EXPECT(has(scratch_fd, "partly/foreign/file"));
}

static void test_rest(void) {
  if (geteuid() != 0) {
    test_skipped = "takes root";
    return;
  }
  int fd = make_dir(scratch_fd, "partly");
  put(fd, "a", "x");
  put(fd, "z", "x");
  int foreign_fd = make_dir(fd, "foreign");
  put(foreign_fd, "file", "x");
  MUST(fchown(fd, PLAIN_ID, PLAIN_ID) == 0);
  MUST(close(fd) == 0 && close(foreign_fd) == 0);
  run_as_plain_user(remove_around_foreign);
  EXPECT(remove_it("partly") == 0);
}

static void remove_with_mounts(void) {
  if (!enter_mount_namespace()) _exit(77);
  /* Descriptors from before are in the old namespace. */
  MUST(chdir(scratch_path) == 0);
  scratch_fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  canary_fd = open("canary", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  MUST(scratch_fd >= 0 && canary_fd >= 0);
  make_deep("mounts", 3, "m", true);
  MUST(mkdir("mounts/bind", 0755) == 0 && mkdir("mounts/m/tmpfs", 0755) == 0);
  /* The same filesystem, which its device number would not tell. */
  MUST(mount("canary", "mounts/bind", NULL, MS_BIND, NULL) == 0);
  MUST(mount("t", "mounts/m/tmpfs", "tmpfs", 0, NULL) == 0);
  put(scratch_fd, "mounts/m/tmpfs/file", "x");
  put(scratch_fd, "mounts/bound-file", "x");
  MUST(mount("canary/token", "mounts/bound-file", NULL, MS_BIND, NULL) == 0);
  struct gbx_err err = {0};
  EXPECT(gbx_remove_tree(scratch_fd, "mounts", &err) == -EBUSY);
  EXPECT(err.code == GBX_E_IO);
  EXPECT(holds(scratch_fd, "mounts/m/tmpfs/file", "x"));
  EXPECT(canary_is_well());
  EXPECT(!has(scratch_fd, "mounts/a") && !has(scratch_fd, "mounts/m/m"));
  /* A mount that is named itself. */
  EXPECT(gbx_remove_tree(AT_FDCWD, "mounts/bind", NULL) == -EBUSY);
  EXPECT(canary_is_well());
}

static void test_mounts(void) {
  run_in_child(remove_with_mounts, "no mount namespaces here");
  EXPECT(remove_it("mounts") == 0);
}

static void* remove_too(void* unused) {
  (void)unused;
  (void)gbx_remove_tree(scratch_fd, "tree", NULL);
  return NULL;
}

static void test_two_removers(void) {
  for (int i = 0; i < 20; i++) {
    make_deep("tree", 14, "m", true);
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, remove_too, NULL) == 0);
    (void)gbx_remove_tree(scratch_fd, "tree", NULL);
    MUST(pthread_join(thread, NULL) == 0);
    EXPECT(remove_it("tree") == 0 && !has(scratch_fd, "tree"));
  }
}

static atomic_bool race_over;
static atomic_uint swap_count;

/* Swaps a folder of the tree for a symlink to the canary, as fast as it can. */
static void* swap(void* unused) {
  (void)unused;
  while (!race_over)
    if (renameat2(scratch_fd, "tree/dir", scratch_fd, "tree/link",
                  RENAME_EXCHANGE) == 0)
      swap_count++;
  return NULL;
}

static void test_race(void) {
  race_over = false;
  pthread_t thread;
  MUST(pthread_create(&thread, NULL, swap, NULL) == 0);
  for (int i = 0; i < 2000; i++) {
    if (!has(scratch_fd, "tree")) MUST(mkdirat(scratch_fd, "tree", 0755) == 0);
    (void)symlinkat("../canary", scratch_fd, "tree/link");
    if (mkdirat(scratch_fd, "tree/dir", 0755) == 0) {
      int fd = openat(scratch_fd, "tree/dir",
                      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      if (fd >= 0) {
        put(fd, "token", "bait");
        MUST(close(fd) == 0);
      }
    }
    (void)gbx_remove_tree(scratch_fd, "tree", NULL);
  }
  race_over = true;
  MUST(pthread_join(thread, NULL) == 0);
  EXPECT(remove_it("tree") == 0 && !has(scratch_fd, "tree"));
  EXPECT(canary_is_well());
  EXPECT(swap_count > 0);
  printf("# %u swaps\n", swap_count);
}

int main(void) {
  scratch_open();
  make_canary();
  run_test("removes nothing where nothing is", test_missing);
  run_test("removes a file or a symlink, not its target", test_not_folders);
  run_test("refuses names that end in \"/\" or a dot entry", test_bad_names);
  run_test("removes entries of every kind, not what they lead to", test_kinds);
  run_test("WS-13 removes names of any bytes", test_names);
  run_test("removes trees of any depth with files on each level",
           test_furnished_depths);
  run_test(
      "WS-14 removes 3000 nested folders of 200-byte names with 24 "
      "descriptors",
      test_deep);
  run_test("removes 20,000 entries of one folder", test_many);
  run_test("WS-16 removes folders that are closed to their owner", test_closed);
  run_test("removes as root a tree of somebody else", test_foreign);
  run_test("removes all but what it may not, and says what", test_rest);
  run_test("enters no mount, not even of the same filesystem", test_mounts);
  run_test("two may remove one tree at a time", test_two_removers);
  run_test("WS-17 a folder that turns into a symlink leads nowhere", test_race);
  scratch_close();
  return done();
}
