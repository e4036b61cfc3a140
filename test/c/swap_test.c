/* SPDX-License-Identifier: Apache-2.0 */
/* sources: src/engine/swap.c src/engine/beneath.c src/common/remove_tree.c
 * src/common/error.c src/common/fd.c */

/* TAR-19: a host that is killed while it exchanges the content of a workspace,
 * after every single step that it takes. */

#include "engine/swap.h"

#include <signal.h>
#include <sys/file.h>
#include <sys/syscall.h>

#include "scratch.h"

/* ---- Steps --------------------------------------------------------------- */

/* How many more are taken before the process dies; -1: all. */
static int steps_left = -1;

static void step(void) {
  if (steps_left >= 0 && steps_left-- == 0) (void)kill(getpid(), SIGKILL);
}

/* These take the place of libc's in what is tested. */
int mkdirat(int fd, const char* path, mode_t mode) {
  step();
  return (int)syscall(SYS_mkdirat, fd, path, mode);
}

int unlinkat(int fd, const char* path, int flags) {
  step();
  return (int)syscall(SYS_unlinkat, fd, path, flags);
}

int renameat2(int from_fd, const char* from, int to_fd, const char* to,
              unsigned flags) {
  step();
  return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
}

int renameat(int from_fd, const char* from, int to_fd, const char* to) {
  return renameat2(from_fd, from, to_fd, to, 0);
}

/* ---- A workspace --------------------------------------------------------- */

static int ws_fd = -1;

static void make_ws(void) {
  MUST(gbx_remove_tree(scratch_fd, "ws", NULL) == 0);
  ws_fd = make_dir(scratch_fd, "ws");
}

static void end_ws(void) {
  MUST(close(ws_fd) == 0);
}

static void put_old(int fd) {
  put(fd, "both", "old");
  int folder_fd = make_dir(fd, "folder");
  put(folder_fd, "file", "old");
  MUST(close(folder_fd) == 0);
  put(fd, "old-1", "old");
  put(fd, "old-2", "old");
}

static void put_new(int fd) {
  put(fd, "both", "new");
  put(fd, "folder", "new"); /* a folder before */
  put(fd, "new-1", "new");
}

static bool is_old(int fd) {
  return holds(fd, "both", "old") && holds(fd, "folder/file", "old") &&
         holds(fd, "old-1", "old") && holds(fd, "old-2", "old") &&
         count_names(fd) == 4;
}

static bool is_new(int fd) {
  return holds(fd, "both", "new") && holds(fd, "folder", "new") &&
         holds(fd, "new-1", "new") && count_names(fd) == 3;
}

/* ---- Tests --------------------------------------------------------------- */

/* Whether the process came to the end. */
static bool exchange(int steps) {
  (void)fflush(stdout);
  pid_t pid = fork();
  MUST(pid >= 0);
  if (pid == 0) {
    steps_left = steps;
    struct gbx__swap swap;
    MUST(gbx__swap_init(ws_fd, &swap, NULL) == 0);
    put(swap.new_fd, "both", "new");
    put(swap.new_fd, "folder", "new");
    put(swap.new_fd, "new-1", "new");
    MUST(gbx__swap_perform(&swap, NULL) == 0);
    gbx__swap_done(&swap);
    _exit(0);
  }
  int status;
  MUST(waitpid(pid, &status, 0) == pid);
  if (WIFEXITED(status)) EXPECT(WEXITSTATUS(status) == 0);
  return WIFEXITED(status);
}

static void test_killed(void) {
  int old_count = 0, new_count = 0, mixed_count = 0;
  for (int steps = 0;; steps++) {
    make_ws();
    put_old(ws_fd);
    bool ended = exchange(steps);
    if (!is_old(ws_fd) && !is_new(ws_fd)) mixed_count++;
    gbx__swaps_mend(ws_fd);
    if (is_old(ws_fd))
      old_count++;
    else
      new_count++;
    if (!is_old(ws_fd)) EXPECT(is_new(ws_fd));
    end_ws();
    if (ended) break;
  }
  printf("# %d times the old, %d times the new\n", old_count, new_count);
  EXPECT(old_count > 5 && new_count > 5 && mixed_count > 10);
}

/* So is one that is killed while it mends. */
static void test_killed_again(void) {
  for (int steps = 0, ended = false; !ended; steps++) {
    make_ws();
    put_old(ws_fd);
    (void)exchange(10);
    EXPECT(!is_old(ws_fd) && !is_new(ws_fd));
    (void)fflush(stdout);
    pid_t pid = fork();
    MUST(pid >= 0);
    if (pid == 0) {
      steps_left = steps;
      gbx__swaps_mend(ws_fd);
      _exit(0);
    }
    int status;
    MUST(waitpid(pid, &status, 0) == pid);
    ended = WIFEXITED(status);
    gbx__swaps_mend(ws_fd);
    EXPECT(is_old(ws_fd) || is_new(ws_fd));
    end_ws();
  }
}

static void test_at_work(void) {
  make_ws();
  put_old(ws_fd);
  struct gbx__swap swap;
  MUST(gbx__swap_init(ws_fd, &swap, NULL) == 0);
  put_new(swap.new_fd);
  gbx__swaps_mend(ws_fd); /* as another session does that opens now */
  EXPECT(count_names(swap.new_fd) == 3);
  EXPECT(gbx__swap_perform(&swap, NULL) == 0);
  gbx__swaps_mend(ws_fd);
  gbx__swap_done(&swap);
  EXPECT(is_new(ws_fd));
  end_ws();
}

#define HIDDEN ".glovebox-0123456789abcdef.tmp"

/* What a box may leave in the way. */
static void test_hostile(void) {
  make_ws();
  int hidden_fd = make_dir(ws_fd, HIDDEN);
  int canary_fd = make_dir(scratch_fd, "canary");
  put(canary_fd, "file", "canary");
  MUST(symlinkat("../../canary", hidden_fd, "new") == 0);
  MUST(symlinkat("../../canary", hidden_fd, "old") == 0);
  EXPECT(holds(hidden_fd, "old/file", "canary")); /* it leads there */
  gbx__swaps_mend(ws_fd);
  EXPECT(holds(canary_fd, "file", "canary") && !has(ws_fd, "file"));

  /* Nothing takes the place of what is there, and what has none stays. */
  MUST(gbx_remove_tree(hidden_fd, "new", NULL) == 0);
  MUST(gbx_remove_tree(hidden_fd, "old", NULL) == 0);
  int old_fd = make_dir(hidden_fd, "old");
  put(old_fd, "file", "old");
  put(old_fd, "other", "old");
  put(ws_fd, "file", "there");
  gbx__swaps_mend(ws_fd);
  EXPECT(holds(ws_fd, "file", "there") && holds(ws_fd, "other", "old"));
  EXPECT(holds(old_fd, "file", "old"));
  MUST(unlinkat(ws_fd, "file", 0) == 0);
  gbx__swaps_mend(ws_fd);
  EXPECT(holds(ws_fd, "file", "old") && !has(ws_fd, HIDDEN));

  /* Of the same name, but nothing of ours. */
  MUST(close(old_fd) == 0 && close(hidden_fd) == 0);
  hidden_fd = make_dir(ws_fd, HIDDEN);
  put(hidden_fd, "file", "box");
  MUST(symlinkat("../canary", ws_fd, ".glovebox-fedcba9876543210.tmp") == 0);
  gbx__swaps_mend(ws_fd);
  EXPECT(holds(hidden_fd, "file", "box"));
  EXPECT(holds(canary_fd, "file", "canary"));
  MUST(close(hidden_fd) == 0 && close(canary_fd) == 0);
  end_ws();
}

static void test_others(void) {
  if (geteuid() != 0) {
    test_skipped = "by design: only root can give a folder away";
    return;
  }
  make_ws();
  int hidden_fd = make_dir(ws_fd, HIDDEN);
  MUST(close(make_dir(hidden_fd, "new")) == 0);
  put(hidden_fd, "new/file", "box");
  MUST(fchown(hidden_fd, PLAIN_ID, PLAIN_ID) == 0);
  gbx__swaps_mend(ws_fd);
  EXPECT(holds(hidden_fd, "new/file", "box"));
  MUST(fchown(hidden_fd, 0, 0) == 0);
  gbx__swaps_mend(ws_fd);
  EXPECT(!has(ws_fd, HIDDEN));
  MUST(close(hidden_fd) == 0);
  end_ws();
}

int main(void) {
  scratch_open();
  run_test(
      "TAR-19 whatever step a host is killed before, all of the old or all of "
      "the new content is there",
      test_killed);
  run_test("TAR-19 the same where it is killed again, as it brings that about",
           test_killed_again);
  run_test("TAR-19 what a session is at work with, no other session touches",
           test_at_work);
  run_test(
      "TAR-19 a box that imitates a hidden folder leads nothing out and has "
      "nothing replaced",
      test_hostile);
  run_test("TAR-19 what another user imitates is left to them", test_others);
  scratch_close();
  return done();
}
