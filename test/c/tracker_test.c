/* SPDX-License-Identifier: Apache-2.0 */
/* sources: src/engine/tracker.c src/engine/local.c src/engine/changes.c
 * src/engine/walk.c src/engine/beneath.c src/common/remove_tree.c
 * src/common/error.c src/common/fd.c libs: */

/* What a tracker tells is what two walks tell, whatever is done to the files.
 */

#include "engine/tracker.h"

#include <sys/mman.h>
#include <sys/xattr.h>

#include "engine/workspace.h"
#include "scratch.h"

static struct gbx__workspace ws = {.fd = -1};
static struct gbx__tracker_budget budget;
static struct gbx__tracker* tracker;

static void begin_round(void) {
  static int rounds;
  char name[16];
  (void)snprintf(name, sizeof name, "r%d", rounds++);
  ws.fd = make_dir(scratch_fd, name);
  tracker = gbx__tracker_new(&budget);
  MUST(tracker != NULL);
}

static void end_round(void) {
  gbx__tracker_free(tracker);
  MUST(close(ws.fd) == 0);
  EXPECT(atomic_load(&budget.instances) == 0);
  EXPECT(atomic_load(&budget.watches) == 0);
}

static void begin(void) {
  struct gbx_err err = {0};
  EXPECT(gbx__tracker_begin(tracker, &ws, &err) == 0);
}

static void print_files(const char* who, const struct gbx_changed_file* files,
                        size_t count) {
  for (size_t i = 0; i < count; i++)
    printf("# %s: %d %s (%llu)\n", who, files[i].change, files[i].path,
           (unsigned long long)files[i].size);
}

static bool is_same(const struct gbx_changed_file* a,
                    const struct gbx_changed_file* b, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(a[i].path, b[i].path) != 0 || a[i].change != b[i].change ||
        a[i].size != b[i].size)
      return false;
  return true;
}

/* Ends the call; `before` is the walk before it. Whether both tell the same. */
static bool ends_like(const struct gbx__index* before, bool alone) {
  struct gbx__index* after;
  struct gbx_changed_file *files = NULL, *wanted = NULL;
  size_t count = 0, wanted_count = 0;
  struct gbx_err err = {0};
  MUST(gbx__tracker_end(tracker, &ws, alone, &files, &count, &err) == 0);
  MUST(gbx__index_scan(&ws, &after, &err) == 0);
  MUST(gbx__index_diff(before, after, &wanted, &wanted_count, &err) == 0);
  bool same = count == wanted_count && is_same(files, wanted, count);
  if (!same) {
    print_files("told", files, count);
    print_files("is", wanted, wanted_count);
  }
  free(files);
  free(wanted);
  gbx__index_free(after);
  return same;
}

/* A call that does `body`, and whether it took a walk to find out. */
static bool walks_for(void (*body)(void)) {
  struct gbx__index* before;
  begin();
  MUST(gbx__index_scan(&ws, &before, NULL) == 0);
  unsigned walks = gbx__tracker_walks(tracker);
  body();
  EXPECT(ends_like(before, true));
  gbx__index_free(before);
  return gbx__tracker_walks(tracker) != walks;
}

/* ---- What is done -------------------------------------------------------- */

static void nothing(void) {
}

static void write_files(void) {
  put(ws.fd, "a", "other");
  put(ws.fd, "new", "new");
  put(ws.fd, "d/b", "x");
}

static void remove_files(void) {
  MUST(unlinkat(ws.fd, "a", 0) == 0);
  MUST(renameat(ws.fd, "d/b", ws.fd, "c") == 0);
}

static void replace_file(void) {
  put(ws.fd, "temp", "whole");
  MUST(renameat(ws.fd, "temp", ws.fd, "d/a") == 0);
}

static void map_file(const char* path, char byte) {
  int fd = openat(ws.fd, path, O_RDWR | O_CLOEXEC);
  MUST(fd >= 0);
  char* bytes = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  MUST(bytes != MAP_FAILED);
  MUST(close(fd) == 0);
  bytes[0] = byte;
  MUST(munmap(bytes, 1) == 0);
}

static void write_mapping(void) {
  map_file("d/a", 'm');
}

static void write_by_alias(void) {
  MUST(linkat(ws.fd, "a", ws.fd, "d/alias", 0) == 0);
  put(ws.fd, "d/alias", "alias");
  MUST(unlinkat(ws.fd, "d/alias", 0) == 0);
}

static void write_by_replaced_alias(void) {
  MUST(linkat(ws.fd, "a", ws.fd, "alias", 0) == 0);
  put(ws.fd, "alias", "alias");
  put(ws.fd, "x", "x");
  MUST(renameat(ws.fd, "x", ws.fd, "alias") == 0);
}

static void write_by_exchanged_alias(void) {
  MUST(linkat(ws.fd, "a", ws.fd, "x", 0) == 0);
  MUST(renameat2(ws.fd, "x", ws.fd, "d/b", RENAME_EXCHANGE) == 0);
  put(ws.fd, "d/b", "alias");
  MUST(unlinkat(ws.fd, "d/b", 0) == 0);
}

static void write_in_new_folder(void) {
  MUST(mkdirat(ws.fd, "n", 0755) == 0);
  MUST(linkat(ws.fd, "a", ws.fd, "n/alias", 0) == 0);
  put(ws.fd, "n/alias", "again");
  MUST(unlinkat(ws.fd, "n/alias", 0) == 0);
  MUST(unlinkat(ws.fd, "n", AT_REMOVEDIR) == 0);
}

static void write_by_our_name(void) {
  MUST(linkat(ws.fd, "a", ws.fd, ".glovebox-0123456789abcdef.tmp", 0) == 0);
  put(ws.fd, ".glovebox-0123456789abcdef.tmp", "ours");
  MUST(unlinkat(ws.fd, ".glovebox-0123456789abcdef.tmp", 0) == 0);
}

static void exchange(void) {
  MUST(renameat2(ws.fd, "a", ws.fd, "d/a", RENAME_EXCHANGE) == 0);
}

static void set_times(void) {
  const struct timespec atime[] = {{.tv_sec = 5}, {.tv_nsec = UTIME_OMIT}};
  const struct timespec mtime[] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 5}};
  MUST(utimensat(ws.fd, "a", atime, 0) == 0);
  MUST(utimensat(ws.fd, "d/a", mtime, 0) == 0);
}

static void lose_events(void) {
  char name[16];
  for (int i = 0; i < 20000; i++) { /* the kernel keeps 16,384 */
    (void)snprintf(name, sizeof name, "%s", i % 2 == 0 ? "a" : "d/a");
    int fd = openat(ws.fd, name, O_RDONLY | O_CLOEXEC);
    MUST(fd >= 0 && close(fd) == 0);
  }
  put(ws.fd, "d/b", "lost");
}

static void fill(void) {
  begin_round();
  MUST(mkdirat(ws.fd, "d", 0755) == 0);
  put(ws.fd, "a", "a");
  put(ws.fd, "d/a", "a");
  put(ws.fd, "d/b", "b");
  EXPECT(!walks_for(nothing)); /* the begin did */
}

static void test_quick(void) {
  fill();
  EXPECT(!walks_for(nothing));
  EXPECT(!walks_for(write_files));
  EXPECT(!walks_for(replace_file));
  EXPECT(!walks_for(write_mapping));
  EXPECT(!walks_for(exchange));
  EXPECT(!walks_for(set_times));
  EXPECT(!walks_for(remove_files));
  EXPECT(gbx__tracker_walks(tracker) == 1);
  end_round();
}

static void test_doubt(void) {
  void (*const bodies[])(void) = {
      write_by_alias,      write_by_replaced_alias, write_by_exchanged_alias,
      write_in_new_folder, write_by_our_name,       lose_events};
  for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
    fill();
    EXPECT(walks_for(bodies[i]));
    EXPECT(!walks_for(nothing)); /* and then it is quick again */
    end_round();
  }
}

/* What the host does between two calls is not the call's. */
static void test_between(void) {
  fill();
  write_files();
  EXPECT(!walks_for(nothing));
  MUST(mkdirat(ws.fd, "e", 0755) == 0);
  put(ws.fd, "e/f", "f");
  EXPECT(!walks_for(nothing)); /* its begin did */
  EXPECT(gbx__tracker_walks(tracker) == 2);
  end_round();
}

static void test_not_alone(void) {
  struct gbx__index* before;
  fill();
  begin();
  MUST(gbx__index_scan(&ws, &before, NULL) == 0);
  unsigned walks = gbx__tracker_walks(tracker);
  /* Still mapped at the end: no event tells of it. */
  int fd = openat(ws.fd, "a", O_RDWR | O_CLOEXEC);
  MUST(fd >= 0);
  char* bytes = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  MUST(bytes != MAP_FAILED);
  bytes[0] = 'm';
  EXPECT(ends_like(before, false));
  EXPECT(gbx__tracker_walks(tracker) == walks + 1);
  MUST(munmap(bytes, 1) == 0);
  MUST(close(fd) == 0);
  gbx__index_free(before);
  end_round();
}

static void link_for_good(void) {
  if (!has(ws.fd, "second")) MUST(linkat(ws.fd, "a", ws.fd, "second", 0) == 0);
}

static void test_useless(void) {
  fill();
  EXPECT(gbx__tracker_is_useful(tracker));
  for (int i = 0; i < 3; i++)
    EXPECT(walks_for(link_for_good));
  EXPECT(!gbx__tracker_is_useful(tracker));
  EXPECT(atomic_load(&budget.instances) == 0);
  EXPECT(walks_for(write_files)); /* right all the same */
  end_round();
}

static void test_budget(void) {
  fill();
  struct gbx__tracker* first = tracker;
  int first_fd = ws.fd;
  atomic_fetch_add(&budget.watches, 1u << 30);
  tracker = gbx__tracker_new(&budget);
  MUST(tracker != NULL);
  EXPECT(walks_for(write_files));
  gbx__tracker_free(tracker);
  atomic_fetch_sub(&budget.watches, 1u << 30);
  atomic_fetch_add(&budget.instances, 1u << 30);
  tracker = gbx__tracker_new(&budget);
  MUST(tracker != NULL);
  EXPECT(walks_for(remove_files));
  EXPECT(!gbx__tracker_is_useful(tracker));
  gbx__tracker_free(tracker);
  atomic_fetch_sub(&budget.instances, 1u << 30);
  tracker = first;
  ws.fd = first_fd;
  end_round();
}

/* ---- Anything ------------------------------------------------------------ */

static uint64_t random_state;

static unsigned below(unsigned end) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(random_state >> 33) % end;
}

static const char* const places[] = {"a",   "b",   "c",   "d/a", "d/b",
                                     "e/a", "e/b", "n/a", "n/e", ".deps/a"};
static const char* const folders[] = {"d", "e", "n", "n/e", ".deps"};

static const char* place(void) {
  return places[below(below(4) == 0 ? 10 : 7)];
}

static const char* folder(void) {
  return folders[below(below(8) == 0 ? 5 : 4)];
}

/* Each may fail: then it has changed nothing. */
static void do_to_names(unsigned kind) {
  const char *from = place(), *to = place();
  switch (kind) {
    case 0:
      (void)!unlinkat(ws.fd, from, 0);
      break;
    case 1:
      (void)!renameat(ws.fd, from, ws.fd, to);
      break;
    case 2:
      (void)!renameat2(ws.fd, from, ws.fd, to, RENAME_EXCHANGE);
      break;
    case 3:
      (void)!linkat(ws.fd, from, ws.fd, to, 0);
      break;
    case 4:
      (void)!symlinkat(from, ws.fd, to);
      break;
    case 5:
      (void)!mkfifoat(ws.fd, from, 0600);
      break;
    case 6: {
      int fd = openat(ws.fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
      char link[32];
      (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
      (void)!linkat(AT_FDCWD, link, ws.fd, to, AT_SYMLINK_FOLLOW);
      if (fd >= 0) (void)!write(fd, "t", 1);
      if (fd >= 0) (void)close(fd);
      break;
    }
    default: /* a second name that goes again */
      if (linkat(ws.fd, from, ws.fd, to, 0) < 0) break;
      int fd = openat(ws.fd, to, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
      if (fd >= 0) (void)!write(fd, "l", 1);
      if (fd >= 0) (void)close(fd);
      (void)!unlinkat(ws.fd, to, 0);
      break;
  }
}

static void do_to_folders(unsigned kind) {
  if (kind == 0) (void)!unlinkat(ws.fd, folder(), AT_REMOVEDIR);
  if (kind == 1) (void)!renameat(ws.fd, folder(), ws.fd, folder());
  if (kind == 2) (void)!fchmodat(ws.fd, folder(), 0700 + below(2), 0);
  if (kind > 2) (void)!mkdirat(ws.fd, folder(), 0755);
}

static void do_to_content(unsigned kind) {
  const char* path = place();
  const int flags = O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC;
  const struct timespec times[] = {
      {.tv_sec = below(3), .tv_nsec = below(2) ? 0 : UTIME_OMIT},
      {.tv_sec = below(3), .tv_nsec = below(2) ? 0 : UTIME_OMIT}};
  if (kind == 0) (void)!fchmodat(ws.fd, path, 0600 + below(2), 0);
  if (kind == 1) (void)!utimensat(ws.fd, path, times, AT_SYMLINK_NOFOLLOW);
  int fd = openat(ws.fd, path, kind > 7 ? flags | O_CREAT : flags, 0600);
  if (fd < 0) return;
  struct stat st;
  MUST(fstat(fd, &st) == 0);
  char byte = (char)('0' + below(10));
  if (kind == 2) (void)!ftruncate(fd, below(3));
  if (kind == 3) (void)!read(fd, &byte, 1);
  if (kind == 4) (void)!fsetxattr(fd, "user.x", &byte, 1, 0);
  if (kind == 5 && S_ISREG(st.st_mode) && st.st_size > 0) map_file(path, byte);
  if (kind == 6) { /* the same size, and its old time */
    const struct timespec old[] = {st.st_atim, st.st_mtim};
    (void)!pwrite(fd, &byte, 1, 0);
    (void)!futimens(fd, old);
  }
  if (kind > 6) (void)!pwrite(fd, &byte, 1, below(3));
  (void)close(fd);
}

static void do_something(void) {
  unsigned kind = below(20);
  if (kind < 6)
    do_to_names(below(8));
  else if (kind < 7)
    do_to_folders(below(5));
  else
    do_to_content(below(12));
}

static unsigned quick_ends;

static bool is_right_round(uint64_t seed) {
  random_state = seed;
  begin_round();
  bool right = true;
  for (int call = 0; call < 25 && right; call++) {
    for (unsigned i = below(3); i > 0; i--)
      do_something();
    begin();
    struct gbx__index* before;
    MUST(gbx__index_scan(&ws, &before, NULL) == 0);
    unsigned walks = gbx__tracker_walks(tracker);
    for (unsigned i = below(5); i > 0; i--)
      do_something();
    right = ends_like(before, true);
    if (!right)
      printf("# seed %llu, call %d\n", (unsigned long long)seed, call);
    if (gbx__tracker_walks(tracker) == walks) quick_ends++;
    gbx__index_free(before);
  }
  end_round();
  return right;
}

static void test_anything(void) {
  const char* rounds = getenv("GLOVEBOX_TRACKER_ROUNDS");
  int count = rounds == NULL ? 150 : atoi(rounds);
  bool right = true;
  quick_ends = 0;
  for (int seed = 1; seed <= count && right; seed++)
    right = is_right_round((uint64_t)seed);
  EXPECT(right);
  printf("# %u of %d quickly\n", quick_ends, count * 25);
  EXPECT(quick_ends > (unsigned)count * 25 / 5);
}

/* ---- A box that lives on between calls ----------------------------------- */

/* What it has mapped; NULL: nothing. */
static char* kept_bytes;
static int kept_fd;

static void keep_mapping(const char* path) {
  int fd = openat(ws.fd, path, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  char* bytes = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (bytes == MAP_FAILED || kept_bytes != NULL) {
    if (bytes != MAP_FAILED) MUST(munmap(bytes, 1) == 0);
    MUST(close(fd) == 0);
    return;
  }
  kept_bytes = bytes;
  kept_fd = fd;
}

static void write_kept(void) {
  struct stat st;
  if (kept_bytes == NULL) return;
  MUST(fstat(kept_fd, &st) == 0);
  if (st.st_size > 0) *kept_bytes = (char)('0' + below(10));
}

static void drop_mapping(void) {
  if (kept_bytes == NULL) return;
  MUST(munmap(kept_bytes, 1) == 0 && close(kept_fd) == 0);
  kept_bytes = NULL;
}

/* Nothing is opened by most of it. */
static void do_by_name(void) {
  const struct timespec times[] = {{.tv_sec = below(3)}, {.tv_sec = below(3)}};
  char path[PATH_MAX];
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d/%s", ws.fd, place());
  switch (below(7)) {
    case 0:
      do_to_names(below(6));
      break;
    case 1:
      do_to_folders(below(5));
      break;
    case 2:
      (void)!truncate(path, below(3));
      break;
    case 3:
      (void)!utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW);
      break;
    case 4:
      (void)!chmod(path, 0600 + below(2));
      break;
    case 5:
      (void)!setxattr(path, "user.y", "y", 1, 0);
      break;
    default:
      break;
  }
}

static unsigned still_ends;

/* Whether a call of it is told what two walks tell. */
static bool is_right_call(bool opens) {
  struct gbx__index* before;
  if (!gbx__tracker_can_begin(tracker)) begin();
  MUST(gbx__index_scan(&ws, &before, NULL) == 0);
  for (unsigned i = below(3); i > 0; i--)
    do_by_name();
  if (opens && below(3) == 0) do_something();
  if (opens && below(3) == 0) keep_mapping(place());
  if (below(4) == 0) write_kept(); /* the first one is what is seen of it */
  bool right = true;
  if (gbx__tracker_is_still(tracker)) {
    struct gbx__index* after;
    struct gbx_changed_file* files;
    size_t count = 0;
    MUST(gbx__index_scan(&ws, &after, NULL) == 0);
    MUST(gbx__index_diff(before, after, &files, &count, NULL) == 0);
    if (count > 0) print_files("still, but", files, count);
    right = count == 0;
    free(files);
    gbx__index_free(after);
    still_ends++;
  } else {
    right = ends_like(before, false);
  }
  gbx__index_free(before);
  return right;
}

static bool is_right_life(uint64_t seed) {
  random_state = seed;
  begin_round();
  put(ws.fd, "a", "a");
  MUST(mkdirat(ws.fd, "d", 0755) == 0);
  put(ws.fd, "d/a", "a");
  keep_mapping("a"); /* by a box before: gone with it */
  drop_mapping();
  gbx__tracker_attend(tracker, true);
  begin();
  bool opens = below(2) == 0;
  bool right = true;
  for (int call = 0; call < 15 && right; call++) {
    right = is_right_call(opens);
    if (!right)
      printf("# seed %llu, call %d\n", (unsigned long long)seed, call);
    /* Its threads go on. */
    if (below(3) == 0) do_by_name();
    if (below(4) == 0) write_kept();
  }
  drop_mapping();
  gbx__tracker_attend(tracker, false);
  end_round();
  return right;
}

static void test_living(void) {
  const char* rounds = getenv("GLOVEBOX_TRACKER_ROUNDS");
  int count = rounds == NULL ? 150 : atoi(rounds);
  bool right = true;
  still_ends = 0;
  for (int seed = 1; seed <= count && right; seed++)
    right = is_right_life((uint64_t)seed);
  EXPECT(right);
  printf("# %u of %d without a look\n", still_ends, count * 15);
  EXPECT(still_ends > (unsigned)count * 15 / 10);
}

static void test_opened(void) {
  fill();
  gbx__tracker_attend(tracker, true);
  begin();
  uint64_t stirs = gbx__tracker_stirs(tracker);
  EXPECT(gbx__tracker_is_still(tracker));
  int fd = openat(ws.fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  MUST(fd >= 0 && close(fd) == 0);
  EXPECT(gbx__tracker_is_still(tracker));
  EXPECT(gbx__tracker_stirs(tracker) == stirs);
  fd = openat(ws.fd, "d/a", O_RDONLY | O_CLOEXEC);
  MUST(fd >= 0 && close(fd) == 0);
  EXPECT(!gbx__tracker_is_still(tracker));
  EXPECT(gbx__tracker_stirs(tracker) > stirs);
  begin(); /* a look mends nothing: it may be mapped */
  EXPECT(!gbx__tracker_is_still(tracker));
  gbx__tracker_attend(tracker, false);
  EXPECT(!walks_for(nothing));
  end_round();
}

int main(void) {
  scratch_open();
  run_test("P22 what is done to files in known folders takes no walk",
           test_quick);
  run_test("P22 what events cannot tell takes one", test_doubt);
  run_test("P22 what the host does between calls is not theirs", test_between);
  run_test("P22 a mapping of another box is seen", test_not_alone);
  run_test("a tree that cannot be watched is given up", test_useless);
  run_test("a tracker takes no more than its share", test_budget);
  run_test("P22 whatever is done, a tracker tells what two walks tell",
           test_anything);
  run_test("P22 a box that has opened a file is looked after by walks",
           test_opened);
  run_test("P22 a box that lives on: still is, where two walks tell nothing",
           test_living);
  scratch_close();
  return done();
}
