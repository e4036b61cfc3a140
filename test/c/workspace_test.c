/* SPDX-License-Identifier: Apache-2.0 */
/* sources: src/engine/workspace.c src/engine/workspace_files.c
 * src/engine/workspace_list.c src/engine/workspace_paths.c
 * src/engine/tree_out.c src/engine/tree_in.c src/engine/swap.c
 * src/engine/walk.c src/engine/beneath.c src/common/remove_tree.c
 * src/common/error.c src/common/fd.c src/common/host_rules.c
 * src/common/host_place.c */

/* The folder of a workspace: which may be one, how one is made and removed. */

#include "engine/workspace.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "in_workspace.h"
#include "scratch.h"

static int prepare(const char* path, struct gbx__workspace* ret,
                   struct gbx_err* err) {
  int result = gbx__workspace_prepare(path, NULL, ret, err);
  if (result == 0) EXPECT(fcntl(ret->fd, F_GETFD) == FD_CLOEXEC);
  return result;
}

static void expect_refused(const char* path, const char* rule) {
  struct gbx__workspace got = {.fd = -7};
  struct gbx_err err = {0};
  EXPECT(prepare(path, &got, &err) < 0);
  EXPECT(err.code == GBX_E_WORKSPACE && got.fd == -7);
  bool told = strstr(err.detail, rule) != NULL;
  EXPECT(told);
  if (!told) printf("# %s: %s %s, not %s\n", path, err.op, err.detail, rule);
}

static void expect_prepared(const char* path, const char* real) {
  struct gbx__workspace got;
  struct gbx_err err = {0};
  int result = prepare(path, &got, &err);
  EXPECT(result == 0);
  if (result < 0) {
    printf("# %s: %s: %s: %d\n", path, err.op, err.detail, err.sys_errno);
    return;
  }
  struct stat st;
  EXPECT(strcmp(got.path, real) == 0 && !got.temporary);
  EXPECT(stat(real, &st) == 0 && st.st_dev == got.dev && st.st_ino == got.ino);
  EXPECT(st.st_uid == got.uid && st.st_gid == got.gid);
  gbx__workspace_done(&got);
  EXPECT(got.fd == -1);
  EXPECT(gbx__workspace_remove(&got, NULL) < 0 && stat(real, &st) == 0);
}

static void test_temporary(void) {
  struct gbx__workspace a, b;
  const char* temp_dir = in_scratch("t:e,m p\n");
  MUST(mkdir(temp_dir, 0755) == 0);
  MUST(symlinkat("t:e,m p\n", scratch_fd, "temp-link") == 0);
  mode_t mask = umask(0);
  EXPECT(gbx__workspace_prepare(NULL, temp_dir, &a, NULL) == 0);
  (void)umask(mask);
  EXPECT(gbx__workspace_prepare(NULL, in_scratch("temp-link"), &b, NULL) == 0);
  size_t size = strlen(temp_dir);
  EXPECT(strncmp(a.path, temp_dir, size) == 0 && a.temporary);
  EXPECT(strncmp(b.path, temp_dir, size) == 0 && b.temporary);
  EXPECT(strncmp(a.path + size, "/glovebox-", 10) == 0);
  EXPECT(strlen(a.path + size) == 16 && strcmp(a.path, b.path) != 0);
  EXPECT(mode_of(AT_FDCWD, a.path) == 0700 && a.uid == geteuid());
  put(a.fd, "file", "x");
  gbx__workspace_done(&a);
  gbx__workspace_done(&b);
  EXPECT(gbx__workspace_remove(&a, NULL) == 0 && !has(AT_FDCWD, a.path));
  EXPECT(gbx__workspace_remove(&a, NULL) == 0); /* gone already */

  /* Another folder in its place stays. Made first: the file system may give a
   * new folder the inode of one that is gone. */
  MUST(mkdir(in_scratch("other"), 0755) == 0 && rmdir(b.path) == 0);
  MUST(rename(in_scratch("other"), b.path) == 0);
  struct gbx_err err = {0};
  EXPECT(gbx__workspace_remove(&b, &err) < 0 && err.code == GBX_E_IO);
  EXPECT(has(AT_FDCWD, b.path));
}

static void open_temporary(struct gbx__workspace* ret) {
  MUST(gbx__workspace_prepare(NULL, scratch_path, ret, NULL) == 0);
}

/* Whether it was removed at once; if not, the other way removes it. */
static bool is_little(struct gbx__workspace* temporary) {
  bool removed = gbx__workspace_remove_little(temporary);
  EXPECT(has(AT_FDCWD, temporary->path) == !removed);
  EXPECT(gbx__workspace_remove(temporary, NULL) == 0);
  EXPECT(!has(AT_FDCWD, temporary->path));
  gbx__workspace_done(temporary);
  return removed;
}

static void put_many(int fd, int count) {
  for (int i = 0; i < count; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "f%d", i);
    put(fd, name, "x");
  }
}

static void test_little(void) {
  struct gbx__workspace temporary;
  open_temporary(&temporary);
  EXPECT(is_little(&temporary));

  open_temporary(&temporary);
  put_many(temporary.fd, 10);
  MUST(mkdirat(temporary.fd, "folder", 0) == 0);
  MUST(symlinkat("/etc/passwd", temporary.fd, "link") == 0);
  MUST(mkfifoat(temporary.fd, "pipe", 0600) == 0);
  EXPECT(is_little(&temporary));
  EXPECT(has(AT_FDCWD, "/etc/passwd"));

  open_temporary(&temporary);
  put_many(temporary.fd, 1000);
  EXPECT(!is_little(&temporary));

  open_temporary(&temporary);
  MUST(mkdirat(temporary.fd, "folder", 0700) == 0);
  put(temporary.fd, "folder/file", "x");
  EXPECT(!is_little(&temporary));

  open_temporary(&temporary);
  int fd = openat(temporary.fd, "large", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  MUST(fd >= 0 && posix_fallocate(fd, 0, 2 << 20) == 0);
  (void)close(fd);
  EXPECT(!is_little(&temporary));
}

static void test_not_little_in_place(void) {
  struct gbx__workspace temporary;
  open_temporary(&temporary);
  MUST(mkdir(in_scratch("another"), 0755) == 0 && rmdir(temporary.path) == 0);
  MUST(rename(in_scratch("another"), temporary.path) == 0);
  EXPECT(!gbx__workspace_remove_little(&temporary));
  EXPECT(has(AT_FDCWD, temporary.path));
  MUST(rmdir(temporary.path) == 0);
  EXPECT(!gbx__workspace_remove_little(&temporary)); /* the other one says so */
  gbx__workspace_done(&temporary);

  open_ws();
  EXPECT(!gbx__workspace_remove_little(&ws)); /* not a temporary one */
  EXPECT(has(scratch_fd, "ws"));
  close_ws();
}

static void test_bad_temp_dir(void) {
  const char* paths[] = {"tmp", "", in_scratch("missing"), "/etc/passwd",
                         "/proc"};
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
    struct gbx__workspace got = {.fd = -7};
    struct gbx_err err = {0};
    EXPECT(gbx__workspace_prepare(NULL, paths[i], &got, &err) < 0);
    EXPECT(err.code == GBX_E_WORKSPACE && got.fd == -7);
  }
}

static void test_given(void) {
  expect_prepared(in_scratch("new"), in_scratch("new"));
  EXPECT(mode_of(scratch_fd, "new") == 0755);
  expect_prepared(in_scratch("new"), in_scratch("new"));
  expect_prepared(in_scratch("p/q/./r//s/"), in_scratch("p/q/r/s"));
  expect_prepared(in_scratch("p/q/../q/r"), in_scratch("p/q/r"));
  MUST(symlinkat("p/q", scratch_fd, "ws-link") == 0);
  expect_prepared(in_scratch("ws-link"), in_scratch("p/q"));
  expect_prepared(in_scratch("ws-link/r/new"), in_scratch("p/q/r/new"));
  expect_prepared(in_scratch("a:b,c d\ne\\f"), in_scratch("a:b,c d\ne\\f"));
  expect_prepared(in_scratch("\xff\xfe"), in_scratch("\xff\xfe"));
  mode_t mask = umask(077);
  expect_prepared(in_scratch("private"), in_scratch("private"));
  EXPECT(mode_of(scratch_fd, "private") == 0700);
  (void)umask(mask);
}

static void test_not_usable(void) {
  put(scratch_fd, "file", "x");
  MUST(symlinkat("nowhere/at/all", scratch_fd, "dangling") == 0);
  MUST(symlinkat("loop", scratch_fd, "loop") == 0);
  expect_refused("", "not an absolute path");
  expect_refused("ws", "not an absolute path");
  expect_refused(in_scratch("file"), "not a folder");
  expect_refused(in_scratch("file/below"), "not a folder");
  expect_refused(in_scratch("dangling"), scratch_path);
  expect_refused(in_scratch("loop"), scratch_path);
  expect_refused(in_scratch("no/../such"), "\"..\" after a missing folder");
  char path[5000];
  memset(path, 'n', sizeof path);
  path[0] = '/';
  path[4999] = '\0';
  expect_refused(path, "longer than 4095");
  path[300] = '\0';
  expect_refused(path, "over 255");
}

static void test_system_folders(void) {
  const char* below[] = {"/bin",  "/boot", "/dev", "/etc",  "/lib", "/lib64",
                         "/proc", "/run",  "/sys", "/sbin", "/usr", "/var/run"};
  const char* alone[] = {"/",  "/home", "/root", "/tmp", "/var",
                         "//", "/.",    "/tmp/", "/..",  "/usr/../tmp/."};
  char path[PATH_MAX];
  for (size_t i = 0; i < sizeof below / sizeof below[0]; i++) {
    if (access(below[i], F_OK) < 0) continue;
    expect_refused(below[i], "or lies in it: ");
    (void)snprintf(path, sizeof path, "/tmp/..//.%s/", below[i]);
    expect_refused(path, "or lies in it: ");
    (void)snprintf(path, sizeof path, "%s/glovebox-test/ws", below[i]);
    expect_refused(path, "or lies in it: ");
    (void)snprintf(path, sizeof path, "%s/glovebox-test", below[i]);
    EXPECT(!has(AT_FDCWD, path));
    MUST(unlinkat(scratch_fd, "link", 0) == 0 || errno == ENOENT);
    MUST(symlinkat(below[i], scratch_fd, "link") == 0);
    expect_refused(in_scratch("link"), "or lies in it: ");
    expect_refused(in_scratch("link/glovebox-test"), "or lies in it: ");
    EXPECT(!has(AT_FDCWD, path));
  }
  for (size_t i = 0; i < sizeof alone / sizeof alone[0]; i++)
    if (access(alone[i], F_OK) == 0) expect_refused(alone[i], "or holds it: ");
  expect_refused("/usr/local/lib", "/usr");
  expect_refused("/proc/self", "/proc");
  expect_refused("/proc/self/fd", "/proc");
  expect_refused("/dev/shm", "/dev");
}

static void test_home(void) {
  char old[PATH_MAX] = "";
  const char* home = getenv("HOME");
  if (home != NULL) (void)snprintf(old, sizeof old, "%s", home);
  MUST(mkdir(in_scratch("users"), 0755) == 0);
  MUST(mkdir(in_scratch("users/me"), 0755) == 0);
  MUST(symlinkat("users/me", scratch_fd, "my-home") == 0);
  MUST(setenv("HOME", in_scratch("my-home"), 1) == 0);
  expect_refused(in_scratch("users/me"), "is $HOME");
  expect_refused(in_scratch("users"), "or holds it");
  expect_refused(in_scratch("my-home"), "is $HOME");
  expect_refused(scratch_path, "is $HOME");
  expect_prepared(in_scratch("users/me/ws"), in_scratch("users/me/ws"));
  expect_refused(in_scratch("users/me/.ssh"), "is .ssh of $HOME, or lies in");
  EXPECT(!has(scratch_fd, "users/me/.ssh")); /* it would have been made */
  MUST(mkdir(in_scratch("users/me/.local"), 0755) == 0);
  expect_refused(in_scratch("users/me/.local"), "is .local of $HOME, or lies");
  expect_refused(in_scratch("my-home/.local/x/y"), "is .local of $HOME, or");
  /* A home's secrets may lie elsewhere. */
  MUST(mkdir(in_scratch("dotfiles"), 0755) == 0);
  MUST(mkdir(in_scratch("dotfiles/aws"), 0755) == 0);
  MUST(symlinkat("../../dotfiles/aws", scratch_fd, "users/me/.aws") == 0);
  expect_refused(in_scratch("dotfiles/aws"), "is .aws of $HOME, or lies in");
  expect_refused(in_scratch("dotfiles"), "is .aws of $HOME, or holds it");
  MUST(unlinkat(scratch_fd, "users/me/.aws", 0) == 0);
  expect_prepared(in_scratch("dotfiles"), in_scratch("dotfiles"));
  expect_prepared(in_scratch("users/you"), in_scratch("users/you"));
  const char* odd[] = {"", "home", "/tmp/glovebox-no/such", "/etc/passwd"};
  for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
    MUST(setenv("HOME", odd[i], 1) == 0);
    expect_prepared(in_scratch("users/me"), in_scratch("users/me"));
  }
  MUST(old[0] == '\0' ? unsetenv("HOME") == 0 : setenv("HOME", old, 1) == 0);
}

static void prepare_closed_folders(void) {
  const char* rule = "cannot be read, written and searched";
  for (mode_t mode = 0; mode < 0700; mode += 0100) {
    MUST(mkdir(in_scratch("closed"), 0700) == 0);
    MUST(chmod(in_scratch("closed"), mode) == 0);
    expect_refused(in_scratch("closed"), rule);
    MUST(rmdir(in_scratch("closed")) == 0);
  }
  if (owner_of(scratch_fd, "root-only") != geteuid())
    expect_refused(in_scratch("root-only/ws"), scratch_path);
}

static void test_closed_folders(void) {
  MUST(mkdir(in_scratch("root-only"), 0700) == 0);
  run_as_plain_user(prepare_closed_folders);
  if (geteuid() != 0) return;
  MUST(chmod(in_scratch("root-only"), 0) == 0);
  expect_prepared(in_scratch("root-only"), in_scratch("root-only"));
}

/* Filesystems by type, and bind mounts of refused folders by identity. */
static void prepare_mounts(void) {
  if (!enter_mount_namespace()) _exit(77);
  MUST(mkdir(in_scratch("mount"), 0755) == 0);
  /* Of what lies in a refused folder the way up leads elsewhere. */
  MUST(mount("/etc/ssl", in_scratch("mount"), NULL, MS_BIND | MS_REC, NULL) ==
       0);
  expect_refused(in_scratch("mount"), "is /etc, or lies in it");
  expect_refused(in_scratch("mount/new"), "is /etc, or lies in it");
  MUST(umount2(in_scratch("mount"), MNT_DETACH) == 0);
  MUST(mkdir(in_scratch("holds"), 0755) == 0);
  MUST(mkdir(in_scratch("holds/a b"), 0755) == 0);
  expect_prepared(in_scratch("holds"), in_scratch("holds"));
  MUST(mount("/etc", in_scratch("holds/a b"), NULL, MS_BIND | MS_REC, NULL) ==
       0);
  expect_refused(in_scratch("holds"), "holds a mount that is /etc");
  MUST(umount2(in_scratch("holds/a b"), MNT_DETACH) == 0);
  MUST(mount("t", in_scratch("holds/a b"), "tmpfs", 0, NULL) == 0);
  expect_prepared(in_scratch("holds"), in_scratch("holds"));
  MUST(mount("/etc", in_scratch("mount"), NULL, MS_BIND | MS_REC, NULL) == 0);
  expect_refused(in_scratch("mount"), "is /etc, or lies in it");
  expect_refused(in_scratch("mount/ssl"), "is /etc, or lies in it");
  MUST(umount2(in_scratch("mount"), MNT_DETACH) == 0);
  MUST(mount("/proc/self", in_scratch("mount"), NULL, MS_BIND | MS_REC, NULL) ==
       0);
  expect_refused(in_scratch("mount"), "is /proc, or lies in it");
  expect_refused(in_scratch("mount/new"), "is /proc, or lies in it");
  MUST(umount2(in_scratch("mount"), MNT_DETACH) == 0);
  MUST(mount("t", in_scratch("mount"), "tmpfs", MS_RDONLY, NULL) == 0);
  expect_refused(in_scratch("mount"), "cannot be read, written and searched");
  expect_refused(in_scratch("mount/new"), scratch_path);
}

static void test_mounts(void) {
  run_in_child(prepare_mounts, "no mount namespaces here");
}

/* What a kernel before 5.6 and some containers' filters do. */
static void prepare_without_openat2(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {.len = 4, .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
    _exit(77);
  const char* temp_dir = in_scratch("no-openat2");
  MUST(mkdir(temp_dir, 0755) == 0);
  struct gbx__workspace got = {.fd = -7};
  struct gbx_err err = {0};
  EXPECT(gbx__workspace_prepare(NULL, temp_dir, &got, &err) == -ENOSYS);
  EXPECT(err.code == GBX_E_UNSUPPORTED && strcmp(err.op, "openat2") == 0);
  EXPECT(rmdir(temp_dir) == 0); /* nothing is left in it */
  err.code = 0;
  EXPECT(prepare(in_scratch("new"), &got, &err) == -ENOSYS);
  EXPECT(err.code == GBX_E_UNSUPPORTED && got.fd == -7);
}

static void test_without_openat2(void) {
  run_in_child(prepare_without_openat2, "no seccomp here");
}

int main(void) {
  scratch_open();
  run_test("a temporary workspace is new, private, and removed by identity",
           test_temporary);
  run_test("next to nothing is removed at once, and what is more is not",
           test_little);
  run_test("what is not removed at once is what remove would not touch either",
           test_not_little_in_place);
  run_test("a temp_dir that cannot be used is refused", test_bad_temp_dir);
  run_test("WS-20 a given workspace is made with its parents, or resolved",
           test_given);
  run_test("WS-20 what cannot be a folder is refused", test_not_usable);
  run_test(
      "WS-20 system folders are refused by identity, and nothing is made "
      "in them",
      test_system_folders);
  run_test("WS-20 $HOME, what holds it and its hidden folders are refused",
           test_home);
  run_test("WS-20 a folder that its user cannot use is refused",
           test_closed_folders);
  run_test("WS-20 mounts of refused folders and filesystems are refused",
           test_mounts);
  run_test("HST-16 a kernel without openat2 is refused by name",
           test_without_openat2);
  scratch_close();
  return done();
}
