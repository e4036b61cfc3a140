/* SPDX-License-Identifier: Apache-2.0 */
/* sources: src/launcher/mount.c src/common/layout.c src/common/error.c libs: */

/* Hiding parts of /proc, in mount namespaces of children of ours. */

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"
#include "launcher/mount.h"

#define NO_NAMESPACE 100

static int wait_for(pid_t pid) {
  int status;
  if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
    return -1;
  return WEXITSTATUS(status);
}

/* With a /proc that nobody has mounted anything below: the host's may have
 * binfmt_misc there, which could not be left out of a bind of /proc/sys. */
static int run_with_proc(int (*child)(const char*), const char* argument) {
  pid_t pid = fork(); /* the first in a pid namespace */
  if (pid == 0)
    _exit(mount("proc", "/proc", "proc", 0, NULL) < 0 ? NO_NAMESPACE
                                                      : child(argument));
  return wait_for(pid);
}

/* Runs `child` in namespaces of its own and gives its result. */
static int run_in_namespace(int (*child)(const char*), const char* argument) {
  pid_t pid = fork();
  if (pid == 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID) < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
      _exit(NO_NAMESPACE);
    _exit(run_with_proc(child, argument));
  }
  int result = wait_for(pid);
  if (result == NO_NAMESPACE) test_skipped = "no user namespace here";
  return result;
}

static int mask_with(const char* empty_dir) {
  struct gbx_err err = {0};
  if (mount_mask_proc(empty_dir, &err) < 0) return err.sys_errno;
  struct stat before, after;
  bool hidden = stat("/dev/null", &before) == 0 &&
                stat("/proc/keys", &after) == 0 &&
                before.st_rdev == after.st_rdev;
  return hidden ? 0 : 1;
}

static void test_all_hidden(void) {
  char empty[] = "/tmp/glovebox-mask-XXXXXX";
  EXPECT(mkdtemp(empty) != NULL);
  int result = run_in_namespace(mask_with, empty);
  EXPECT(result == 0 || test_skipped != NULL);
  EXPECT(rmdir(empty) == 0);
}

/* Each of these folders is somewhere missing, and one is everywhere there. */
static void test_nothing_to_hide_with(void) {
  int result = run_in_namespace(mask_with, "/proc/no such folder");
  EXPECT(result == ENOENT || test_skipped != NULL);
}

int main(void) {
  run_test("what tells of the host is hidden", test_all_hidden);
  run_test("without something to hide it under it does not stay visible",
           test_nothing_to_hide_with);
  return done();
}
