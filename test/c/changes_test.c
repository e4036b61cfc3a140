/* SPDX-License-Identifier: Apache-2.0 */
/* sources: src/engine/changes.c src/engine/walk.c src/engine/beneath.c
 * src/common/remove_tree.c src/common/error.c src/common/fd.c libs: */

#include "engine/changes.h"

#include <time.h>

#include "engine/workspace.h"
#include "scratch.h"

static struct gbx__workspace ws;
static struct gbx__index* before;

static struct gbx__index* scan(void) {
  struct gbx__index* index = NULL;
  struct gbx_err err = {0};
  EXPECT(gbx__index_scan(&ws, &index, &err) == 0);
  if (index == NULL) printf("# %s: %s\n", err.op, err.detail);
  MUST(index != NULL);
  return index;
}

static void start(void) {
  before = scan();
  gbx__index_settle(&ws, before);
}

/* `wanted`: "+path:size ", "~path:size " or "-path " of each change in turn. */
static void expect_changes(const char* wanted) {
  struct gbx__index* after = scan();
  struct gbx_changed_file* files = (void*)1;
  size_t count = 7;
  struct gbx_err err = {0};
  EXPECT(gbx__index_diff(before, after, &files, &count, &err) == 0);
  EXPECT((count == 0) == (files == NULL) && err.code == 0);
  char text[8192] = "";
  size_t used = 0;
  for (size_t i = 0; i < count && used < sizeof text - 300; i++) {
    char kind = files[i].change == GBX_CREATED    ? '+'
                : files[i].change == GBX_MODIFIED ? '~'
                                                  : '-';
    used += (size_t)snprintf(text + used, sizeof text - used, "%c%s", kind,
                             files[i].path);
    if (kind == '-')
      EXPECT(files[i].size == 0);
    else
      used += (size_t)snprintf(text + used, sizeof text - used, ":%llu",
                               (unsigned long long)files[i].size);
    used += (size_t)snprintf(text + used, sizeof text - used, " ");
  }
  EXPECT(strcmp(text, wanted) == 0);
  if (strcmp(text, wanted) != 0) printf("# got %s\n", text);
  free(files);
  gbx__index_free(after);
  gbx__index_free(before);
  before = NULL;
}

static void test_nothing(void) {
  start();
  expect_changes("");
  put(ws.fd, "file", "x");
  MUST(mkdirat(ws.fd, "dir", 0755) == 0);
  put(ws.fd, "dir/file", "x");
  start();
  EXPECT(holds(ws.fd, "file", "x")); /* a read is no change */
  expect_changes("");
  gbx__index_free(NULL);
}

static void test_kinds(void) {
  put(ws.fd, "modified", "x");
  put(ws.fd, "deleted", "x");
  put(ws.fd, "replaced", "x");
  put(ws.fd, "same", "x");
  start();
  put(ws.fd, "modified", "xy");
  MUST(unlinkat(ws.fd, "deleted", 0) == 0);
  put(ws.fd, "new", "xyz");
  put(ws.fd, "temp", "x");
  MUST(renameat(ws.fd, "temp", ws.fd, "replaced") == 0);
  MUST(mkdirat(ws.fd, "empty", 0755) == 0);
  expect_changes("-deleted ~modified:2 +new:3 ~replaced:1 ");
}

static void test_hidden_edit(void) {
  put(ws.fd, "a.txt", "true ");
  put(ws.fd, "b.txt", "b");
  put(ws.fd, "c.txt", "c");
  start();
  struct stat st;
  MUST(fstatat(ws.fd, "a.txt", &st, 0) == 0);
  put(ws.fd, "a.txt", "false");
  struct timespec times[2] = {st.st_atim, st.st_mtim};
  MUST(utimensat(ws.fd, "a.txt", times, 0) == 0);
  MUST(unlinkat(ws.fd, "b.txt", 0) == 0);
  MUST(renameat(ws.fd, "c.txt", ws.fd, "d.txt") == 0);
  expect_changes("~a.txt:5 -b.txt -c.txt +d.txt:1 ");
}

/* An edit as soon after the index as can be, in place and of the same size.
 * Returns how many of 200 were seen. */
static int count_seen_edits(bool settle) {
  int seen = 0;
  int fd = openat(ws.fd, "file", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  MUST(fd >= 0);
  for (int i = 0; i < 200; i++) {
    MUST(pwrite(fd, "a", 1, 0) == 1);
    struct gbx__index* first = scan();
    if (settle) gbx__index_settle(&ws, first);
    MUST(pwrite(fd, "b", 1, 0) == 1);
    struct gbx__index* second = scan();
    struct gbx_changed_file* files;
    size_t count;
    EXPECT(gbx__index_diff(first, second, &files, &count, NULL) == 0);
    if (count == 1 && files[0].change == GBX_MODIFIED) seen++;
    free(files);
    gbx__index_free(first);
    gbx__index_free(second);
  }
  MUST(close(fd) == 0);
  return seen;
}

static void test_quick_edits(void) {
  EXPECT(count_seen_edits(true) == 200);
}

/* A filesystem that stamps files once a tick, as all did before Linux 6.13. */
static void edit_on_ramfs(void) {
  if (!enter_mount_namespace() || chdir(scratch_path) < 0 ||
      mount("r", "ws", "ramfs", 0, NULL) < 0)
    _exit(77);
  ws.fd = open("ws", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  printf("# without settling, %d of 200 edits are seen\n",
         count_seen_edits(false));
  EXPECT(count_seen_edits(true) == 200);
}

static void test_ticks(void) {
  run_in_child(edit_on_ramfs, "no mount namespaces here");
}

static void test_folders(void) {
  const char* files[] = {"gone/a", "gone/b/c", "kept/a", "kept/b/c", "to/x"};
  MUST(mkdirat(ws.fd, "gone", 0755) == 0 && mkdirat(ws.fd, "kept", 0755) == 0);
  MUST(mkdirat(ws.fd, "gone/b", 0755) == 0);
  MUST(mkdirat(ws.fd, "kept/b", 0755) == 0 && mkdirat(ws.fd, "to", 0755) == 0);
  for (size_t i = 0; i < 5; i++)
    put(ws.fd, files[i], "x");
  start();
  MUST(gbx_remove_tree(ws.fd, "gone", NULL) == 0);
  put(ws.fd, "kept/b/c", "xy");
  put(ws.fd, "kept/b/d", "x");
  MUST(renameat(ws.fd, "to", ws.fd, "moved") == 0);
  MUST(mkdirat(ws.fd, "new", 0755) == 0 && mkdirat(ws.fd, "new/n", 0755) == 0);
  put(ws.fd, "new/n/x", "x");
  expect_changes(
      "-gone/a -gone/b/c ~kept/b/c:2 +kept/b/d:1 +moved/x:1 +new/n/x:1 -to/x ");
}

static void test_order(void) {
  const char* files[] = {"a.b", "a0", "a/b", "a-b", "b", "B", "\xff", "a/b0"};
  MUST(mkdirat(ws.fd, "a", 0755) == 0);
  start();
  for (size_t i = 0; i < 8; i++)
    put(ws.fd, files[i], "x");
  expect_changes("+B:1 +a-b:1 +a.b:1 +a/b:1 +a/b0:1 +a0:1 +b:1 +\xff:1 ");
}

static void test_types(void) {
  put(ws.fd, "to-dir", "x");
  MUST(mkdirat(ws.fd, "to-file", 0755) == 0);
  put(ws.fd, "to-file/x", "x");
  put(ws.fd, "to-link", "x");
  put(ws.fd, "to-fifo", "x");
  MUST(symlinkat("to-link", ws.fd, "from-link") == 0);
  MUST(mkfifoat(ws.fd, "from-fifo", 0644) == 0);
  start();
  const char* files[] = {"to-dir", "to-link", "to-fifo", "from-link",
                         "from-fifo"};
  for (size_t i = 0; i < 5; i++)
    MUST(unlinkat(ws.fd, files[i], 0) == 0);
  MUST(gbx_remove_tree(ws.fd, "to-file", NULL) == 0);
  MUST(mkdirat(ws.fd, "to-dir", 0755) == 0);
  put(ws.fd, "to-dir/x", "x");
  put(ws.fd, "to-file", "x");
  MUST(symlinkat("../canary", ws.fd, "to-link") == 0);
  MUST(mkfifoat(ws.fd, "to-fifo", 0644) == 0);
  put(ws.fd, "from-link", "x");
  put(ws.fd, "from-fifo", "x");
  expect_changes(
      "+from-fifo:1 +from-link:1 -to-dir +to-dir/x:1 -to-fifo +to-file:1 "
      "-to-file/x -to-link ");
}

static void test_hidden(void) {
  MUST(mkdirat(ws.fd, ".deps", 0755) == 0 && mkdirat(ws.fd, "a", 0755) == 0);
  MUST(mkdirat(ws.fd, "a/.deps", 0755) == 0);
  start();
  put(ws.fd, ".deps/x", "x");
  put(ws.fd, "a/.deps/x", "x");
  put(ws.fd, ".glovebox-0123456789abcdef.tmp", "x");
  put(ws.fd, "a/.glovebox-0123456789abcdef.tmp", "x");
  put(ws.fd, ".glovebox-", "x");
  put(ws.fd, "new\n\xff", "x");
  expect_changes("+.glovebox-:1 +a/.deps/x:1 +new\n\xff:1 ");
}

static void test_metadata(void) {
  put(ws.fd, "mode", "x");
  put(ws.fd, "time", "x");
  put(ws.fd, "link", "x");
  start();
  MUST(fchmodat(ws.fd, "mode", 0755, 0) == 0);
  struct timespec times[2] = {{0}, {.tv_sec = -2208988800}}; /* 1900 */
  MUST(utimensat(ws.fd, "time", times, 0) == 0);
  MUST(linkat(ws.fd, "link", ws.fd, "second", 0) == 0);
  expect_changes("~link:1 ~mode:1 +second:1 ~time:1 ");
  times[1].tv_sec = 15000000000; /* 2445: more nanoseconds than an int64 has */
  MUST(utimensat(ws.fd, "time", times, 0) == 0);
  start();
  put(ws.fd, "time", "y");
  MUST(utimensat(ws.fd, "time", times, 0) == 0);
  put(ws.fd, "new", "x");
  expect_changes("+new:1 ~time:1 ");
}

static void change_closed(void) {
  MUST(mkdirat(scratch_fd, "closed-ws", 0755) == 0);
  ws.fd = openat(scratch_fd, "closed-ws", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int opened_fd = make_dir(ws.fd, "opened");
  int closed_fd = make_dir(ws.fd, "closed");
  put(opened_fd, "file", "x");
  put(closed_fd, "file", "x");
  MUST(mkdirat(closed_fd, "sub", 0755) == 0);
  MUST(mkdirat(opened_fd, "sub", 0755) == 0);
  put(closed_fd, "sub/file", "x");
  put(opened_fd, "sub/file", "x");
  MUST(fchmod(opened_fd, 0) == 0);
  start();
  MUST(fchmod(opened_fd, 0755) == 0 && fchmod(closed_fd, 0) == 0);
  put(ws.fd, "new", "x");
  expect_changes("+new:1 ");
  /* Its names can be read, but nothing about them. */
  start();
  MUST(fchmod(closed_fd, 0444) == 0);
  expect_changes("");
  /* The workspace itself. */
  start();
  MUST(fchmod(ws.fd, 0) == 0);
  expect_changes("");
  MUST(gbx_remove_tree(scratch_fd, "closed-ws", NULL) == 0);
}

static void test_closed(void) {
  run_as_plain_user(change_closed);
}

static void change_mounts(void) {
  if (!enter_mount_namespace()) _exit(77);
  MUST(chdir(scratch_path) == 0);
  ws.fd = open("ws", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  MUST(mkdir("ws/mount", 0755) == 0 && mkdir("ws/bind", 0755) == 0);
  put(ws.fd, "bound", "x");
  MUST(mount("t", "ws/mount", "tmpfs", 0, NULL) == 0);
  MUST(mount("ws", "ws/bind", NULL, MS_BIND, NULL) == 0);
  MUST(mount("ws/bound", "ws/bound", NULL, MS_BIND, NULL) == 0);
  start();
  put(ws.fd, "mount/file", "x");
  put(ws.fd, "bound", "xy");
  put(ws.fd, "file", "x");
  expect_changes("+file:1 ");
}

static void test_mounts(void) {
  run_in_child(change_mounts, "no mount namespaces here");
}

static void test_deep(void) {
  char part[201] = "";
  memset(part, 'd', 200);
  int fd = make_dir(ws.fd, "deep");
  for (int i = 0; i < 300; i++) {
    int next_fd = make_dir(fd, part);
    MUST(close(fd) == 0);
    fd = next_fd;
  }
  start();
  put(fd, "unnamable", "x");
  put(ws.fd, "deep/file", "x");
  MUST(close(fd) == 0);
  expect_changes("+deep/file:1 ");
}

static void test_many(void) {
  for (int i = 0; i < 5000; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "%04d", i);
    MUST(mknodat(ws.fd, name, S_IFREG | 0644, 0) == 0);
  }
  start();
  put(ws.fd, "2500", "x");
  MUST(unlinkat(ws.fd, "0000", 0) == 0 && unlinkat(ws.fd, "4999", 0) == 0);
  put(ws.fd, "5000", "x");
  expect_changes("-0000 ~2500:1 -4999 +5000:1 ");
}

/* Names that are never told are cheap to make, and are read all the same. */
static void test_bound(void) {
  struct gbx__index* index = NULL;
  struct gbx_err err = {0};
  MUST(mkdirat(ws.fd, "dir", 0755) == 0);
  for (int i = 0; i < 31; i++) {
    char name[48];
    (void)snprintf(name, sizeof name, "dir/.glovebox-%016x.tmp", (unsigned)i);
    put(ws.fd, name, "x");
  }
  EXPECT(gbx__index_scan_with(&ws, NULL, 32, &index, &err) == 0);
  gbx__index_free(index);
  index = NULL;
  put(ws.fd, "dir/.glovebox-00000000000000ff.tmp", "x");
  EXPECT(gbx__index_scan_with(&ws, NULL, 32, &index, &err) < 0 &&
         err.code == GBX_E_TOO_LARGE);
  gbx__index_free(index);
  start();
  expect_changes("");
}

static void run_in_ws(const char* title, void (*test)(void)) {
  ws = (struct gbx__workspace){.fd = make_dir(scratch_fd, "ws")};
  run_test(title, test);
  MUST(close(ws.fd) == 0);
  MUST(gbx_remove_tree(scratch_fd, "ws", NULL) == 0);
}

int main(void) {
  scratch_open();
  run_in_ws("P23 nothing changed is no files", test_nothing);
  run_in_ws("files are created, modified and deleted", test_kinds);
  run_in_ws("P22 an edit that hides its size and time is seen",
            test_hidden_edit);
  run_in_ws("P22 an edit right after the index is seen", test_quick_edits);
  run_in_ws("P22 it is seen where files are stamped once a tick, too",
            test_ticks);
  run_in_ws("folders come and go with all their files", test_folders);
  run_in_ws("changes are sorted by path", test_order);
  run_in_ws("a file that becomes something else is deleted", test_types);
  run_in_ws("P31 .deps and temporary files are no changes", test_hidden);
  run_in_ws("WS-23 times far away, modes and links are changes", test_metadata);
  run_in_ws("WS-16 nothing is said of folders that cannot be read",
            test_closed);
  run_in_ws("mounts are not entered", test_mounts);
  run_in_ws("WS-14 a tree too deep to name is passed over", test_deep);
  run_in_ws("changes among 5000 files are found", test_many);
  run_in_ws("ATK-02 what is passed over counts against the bound of a walk",
            test_bound);
  scratch_close();
  return done();
}
