/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_C_SCRATCH_H_
#define TEST_C_SCRATCH_H_

/* A folder to test in, and short ways to put things into it. They abort where
 * they fail: then it is not the code under test that is wrong. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/remove_tree.h"
#include "expect.h"

#define UNUSED __attribute__((unused))

#define MUST(condition)                                                   \
  do {                                                                    \
    if (!(condition)) {                                                   \
      printf("Bail out! %s:%d: %s: %s\n", __FILE__, __LINE__, #condition, \
             strerror(errno));                                            \
      (void)fflush(stdout);                                               \
      _exit(2);                                                           \
    }                                                                     \
  } while (0)

/* An id that nobody has. */
#define PLAIN_ID 65000

static char scratch_path[] = "/tmp/glovebox-c-XXXXXX";
static int scratch_fd = -1;

static UNUSED void scratch_open(void) {
  MUST(mkdtemp(scratch_path) != NULL);
  MUST(chmod(scratch_path, 0777) == 0); /* for tests as PLAIN_ID */
  scratch_fd = open(scratch_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  MUST(scratch_fd >= 0);
}

static UNUSED void scratch_close(void) {
  MUST(gbx_remove_tree(AT_FDCWD, scratch_path, NULL) == 0);
  MUST(close(scratch_fd) == 0);
}

/* Good until the eighth call after this one. */
static UNUSED const char* in_scratch(const char* name) {
  static char paths[8][PATH_MAX];
  static int next;
  char* path = paths[next++ % 8];
  (void)snprintf(path, PATH_MAX, "%s/%s", scratch_path, name);
  return path;
}

static UNUSED int make_dir(int fd, const char* path) {
  MUST(mkdirat(fd, path, 0755) == 0);
  int dir_fd = openat(fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  MUST(dir_fd >= 0);
  return dir_fd;
}

/* Without "." and "..". */
static UNUSED int count_names(int fd) {
  int count = -2;
  DIR* dir = fdopendir(openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  MUST(dir != NULL);
  while (readdir(dir) != NULL)
    count++;
  MUST(closedir(dir) == 0);
  return count;
}

static UNUSED void put(int fd, const char* path, const char* text) {
  int file = openat(fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  MUST(file >= 0);
  MUST(write(file, text, strlen(text)) == (ssize_t)strlen(text));
  MUST(close(file) == 0);
}

static UNUSED bool has(int fd, const char* path) {
  struct stat st;
  return fstatat(fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static UNUSED bool holds(int fd, const char* path, const char* text) {
  char bytes[4096];
  int file = openat(fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return false;
  ssize_t size = read(file, bytes, sizeof bytes);
  MUST(close(file) == 0);
  return size == (ssize_t)strlen(text) && memcmp(bytes, text, size) == 0;
}

static UNUSED mode_t mode_of(int fd, const char* path) {
  struct stat st;
  MUST(fstatat(fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0);
  return st.st_mode & 07777;
}

static UNUSED uid_t owner_of(int fd, const char* path) {
  struct stat st;
  MUST(fstatat(fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0);
  return st.st_uid;
}

/* Runs `body` in a child process; its failed expectations are the caller's. If
 * it exits with 77, the test is skipped for that reason. */
static UNUSED void run_in_child(void (*body)(void), const char* skip_reason) {
  (void)fflush(stdout);
  pid_t pid = fork();
  MUST(pid >= 0);
  if (pid == 0) {
    body();
    (void)fflush(stdout);
    _exit(test_failed ? 1 : 0);
  }
  int status;
  MUST(waitpid(pid, &status, 0) == pid);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
    test_skipped = skip_reason;
  else
    EXPECT(status == 0);
}

static UNUSED void (*plain_user_body)(void);

static UNUSED void drop_root_and_run(void) {
  if (geteuid() == 0) {
    MUST(setresgid(PLAIN_ID, PLAIN_ID, PLAIN_ID) == 0);
    MUST(setresuid(PLAIN_ID, PLAIN_ID, PLAIN_ID) == 0);
  }
  plain_user_body();
}

/* The same as PLAIN_ID if we are root, whom no mode stops. */
static UNUSED void run_as_plain_user(void (*body)(void)) {
  plain_user_body = body;
  run_in_child(drop_root_and_run, NULL);
}

/* A mount namespace in which this process may mount; for a child process.
 * Returns false where that is not allowed. */
static UNUSED bool enter_mount_namespace(void) {
  uid_t uid = geteuid();
  gid_t gid = getegid();
  if (unshare(CLONE_NEWNS | (uid == 0 ? 0 : CLONE_NEWUSER)) < 0) return false;
  if (uid != 0) {
    char map[64];
    put(AT_FDCWD, "/proc/self/setgroups", "deny");
    (void)snprintf(map, sizeof map, "%u %u 1", gid, gid);
    put(AT_FDCWD, "/proc/self/gid_map", map);
    (void)snprintf(map, sizeof map, "%u %u 1", uid, uid);
    put(AT_FDCWD, "/proc/self/uid_map", map);
  }
  return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

#endif  // TEST_C_SCRATCH_H_
