/* SPDX-License-Identifier: Apache-2.0 */
/* sources: libs: -ldl */

/* build/Release/join.so, loaded as an interpreter loads it, takes a process
 * into namespaces that another process made. */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/landlock.h"
#include "expect.h"
#include "join/join.h"

static const char* const namespace_names[GBX_JOIN_NAMESPACES] = {
    "net", "ipc", "uts", "cgroup", "mnt"};

/* Kills setns, allows the rest. */
static struct sock_filter no_setns[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setns, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

static int library_fd;

typedef long (*join_function)(struct gbx_join*);

static bool write_text(const char* path, const char* text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
  if (fd >= 0) (void)close(fd);
  return good;
}

/* A user namespace in which we are 1000 and may do everything. */
static bool become_user(void) {
  char map[64];
  unsigned uid = getuid(), gid = getgid();
  if (unshare(CLONE_NEWUSER) < 0) return false;
  (void)write_text("/proc/self/setgroups", "deny");
  (void)snprintf(map, sizeof map, "1000 %u 1", gid);
  if (!write_text("/proc/self/gid_map", map)) return false;
  (void)snprintf(map, sizeof map, "1000 %u 1", uid);
  return write_text("/proc/self/uid_map", map);
}

/* The box: its own namespaces, a root with /workspace and /proc only. */
static bool make_box(void) {
  return unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP |
                 CLONE_NEWNS) == 0 &&
         sethostname("a-box", 5) == 0 &&
         mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
         mount("tmpfs", "/mnt", "tmpfs", 0, NULL) == 0 &&
         mkdir("/mnt/workspace", 0755) == 0 && mkdir("/mnt/proc", 0755) == 0 &&
         mount("/proc", "/mnt/proc", NULL, MS_BIND | MS_REC, NULL) == 0 &&
         chdir("/mnt") == 0 && syscall(SYS_pivot_root, ".", ".") == 0 &&
         umount2(".", MNT_DETACH) == 0;
}

/* Runs `inside` in a process that joined a box; it returns 0 for "as it
 * should be". Returns its wait status. */
static int in_box(struct gbx_join join,
                  int (*inside)(const struct gbx_join*, long)) {
  pid_t user = fork();
  if (user != 0) {
    int status = -1;
    (void)waitpid(user, &status, 0);
    return status;
  }
  int ready[2];
  if (!become_user() || pipe(ready) < 0) _exit(100);
  pid_t box = fork();
  if (box == 0) {
    (void)write(ready[1], make_box() ? "y" : "n", 1);
    for (;;)
      (void)pause();
  }
  char answer = 'n';
  (void)read(ready[0], &answer, 1);
  pid_t joiner = answer == 'y' ? fork() : -1;
  if (joiner == 0) {
    /* As through /proc/self/fd: no path of ours need exist in the box. */
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", library_fd);
    void* handle = dlopen(path, RTLD_NOW);
    join_function function =
        handle == NULL ? NULL : (join_function)dlsym(handle, "gbx_join");
    if (function == NULL) _exit(101);
    for (int i = 0; i < GBX_JOIN_NAMESPACES; i++) {
      (void)snprintf(path, sizeof path, "/proc/%d/ns/%s", box,
                     namespace_names[i]);
      join.namespace_fd[i] = open(path, O_RDONLY);
    }
    join.filter = (uintptr_t)no_setns;
    join.filter_count = sizeof no_setns / sizeof *no_setns;
    long result = function(&join);
    _exit(inside(&join, result));
  }
  int status = -1;
  if (joiner > 0) (void)waitpid(joiner, &status, 0);
  (void)kill(box, SIGKILL);
  (void)waitpid(box, NULL, 0);
  if (joiner < 0) _exit(102);
  if (WIFSIGNALED(status)) (void)kill(getpid(), WTERMSIG(status));
  _exit(WEXITSTATUS(status));
}

static struct gbx_join fresh(void) {
  return (struct gbx_join){.version = GBX_JOIN_VERSION,
                           .keep_fd = {-1, -1, -1, -1}};
}

static bool status_has(const char* line) {
  char text[4096];
  int fd = open("/proc/self/status", O_RDONLY);
  ssize_t size = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
  if (fd >= 0) (void)close(fd);
  text[size > 0 ? size : 0] = '\0';
  return strstr(text, line) != NULL;
}

static int check_inside(const struct gbx_join* join, long result) {
  struct utsname name;
  char cwd[64] = "";
  if (result != 0) return 10 + (int)join->ret_step;
  if (uname(&name) < 0 || strcmp(name.nodename, "a-box") != 0) return 1;
  if (getcwd(cwd, sizeof cwd) == NULL || strcmp(cwd, "/workspace") != 0)
    return 2;
  if (access("/usr", F_OK) == 0) return 3;
  if (!status_has("CapEff:\t0000000000000000") ||
      !status_has("CapPrm:\t0000000000000000") ||
      !status_has("CapBnd:\t0000000000000000") ||
      !status_has("CapAmb:\t0000000000000000"))
    return 4;
  if (!status_has("NoNewPrivs:\t1") || !status_has("Seccomp:\t2")) return 5;
  return 0;
}

static void test_joins(void) {
  int status = in_box(fresh(), check_inside);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int check_descriptors(const struct gbx_join* join, long result) {
  if (result != 0) return 10 + (int)join->ret_step;
  for (int fd = 3; fd < 1024; fd++) {
    bool open_now = fcntl(fd, F_GETFD) >= 0;
    if (open_now != (fd == 200 || fd == 300)) return 1;
  }
  return 0;
}

static void test_descriptors(void) {
  struct gbx_join join = fresh();
  EXPECT(dup2(0, 200) == 200 && dup2(0, 300) == 300 && dup2(0, 301) == 301);
  join.keep_fd[0] = 200;
  join.keep_fd[1] = 300;
  int status = in_box(join, check_descriptors);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  (void)close(200);
  (void)close(300);
  (void)close(301);
}

static int check_processes(const struct gbx_join* join, long result) {
  if (result != 0) return 10 + (int)join->ret_step;
  pid_t children[30];
  int made = 0;
  pid_t pid = 0;
  while (made < 30 && (pid = fork()) > 0)
    children[made++] = pid;
  if (pid == 0) {
    for (;;)
      (void)pause();
  }
  int error = errno;
  for (int i = 0; i < made; i++)
    (void)kill(children[i], SIGKILL);
  return made == 7 && error == EAGAIN ? 0 : 1;
}

static void test_processes(void) {
  struct gbx_join join = fresh();
  join.pids = 8; /* itself and seven */
  int status = in_box(join, check_processes);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The inode of the network namespace that the joiner is in. */
static ino_t own_network(void) {
  struct stat info;
  return stat("/proc/self/ns/net", &info) < 0 ? 0 : info.st_ino;
}

static ino_t shared_network;
static pid_t own_pid;

static struct sockaddr_un abstract_address(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  (void)snprintf(address.sun_path + 1, sizeof address.sun_path - 1,
                 "gbx-join-%d", own_pid);
  return address;
}

/* The errno of a connection to it; 0 if there is one. */
static int connect_abstract(void) {
  struct sockaddr_un address = abstract_address();
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int result =
      connect(fd, (struct sockaddr*)&address, sizeof address) < 0 ? errno : 0;
  (void)close(fd);
  return result;
}

static int check_shared(const struct gbx_join* join, long result) {
  if (result != 0) return 10 + (int)join->ret_step;
  if (own_network() != shared_network) return 1;
  if (connect_abstract() != (join->scoped != 0 ? EPERM : 0)) return 2;
  struct utsname name;
  return uname(&name) < 0 || strcmp(name.nodename, "a-box") != 0 ? 3 : 0;
}

static void test_shared_network(void) {
  own_pid = getpid();
  struct sockaddr_un address = abstract_address();
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  shared_network = own_network();
  EXPECT(fd >= 0 && shared_network != 0 &&
         bind(fd, (struct sockaddr*)&address, sizeof address) == 0 &&
         listen(fd, 9) == 0 && connect_abstract() == 0);
  long version =
      syscall(__NR_landlock_create_ruleset, NULL, 0, GBX_LANDLOCK_ASK_VERSION);
  struct gbx_join join = fresh();
  join.shares_network = 1;
  for (uint32_t scoped = 0; scoped < 2; scoped++) {
    join.scoped = scoped;
    if (scoped == 1 && version < GBX_LANDLOCK_VERSION_WITH_SCOPES) break;
    int status = in_box(join, check_shared);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  (void)close(fd);
}

static int try_setns(const struct gbx_join* join, long result) {
  if (result != 0) return 10 + (int)join->ret_step;
  (void)setns(-1, 0);
  return 0; /* still alive: wrong */
}

static void test_filter(void) {
  int status = in_box(fresh(), try_setns);
  EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
}

static int check_version(const struct gbx_join* join, long result) {
  return result == -EINVAL && join->ret_step == GBX_JOIN_STEP_VERSION ? 0 : 1;
}

static void test_version(void) {
  struct gbx_join join = fresh();
  join.version = 99;
  int status = in_box(join, check_version);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
  library_fd = open("build/Release/join.so", O_RDONLY | O_CLOEXEC);
  /* The kernel bounds no processes of the host's root (PRC-02), and boxes are
   * never root's: nor is this. The change of uid clears dumpable, without
   * which nobody may write our id maps. */
  if (getuid() == 0 && (setgroups(0, NULL) < 0 || setgid(65000) < 0 ||
                        setuid(65000) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0))
    return 1;
  run_test(
      "a process that joins a box is in its namespaces, root and folder, "
      "without capabilities, behind the filter",
      test_joins);
  run_test(
      "FD-01 a process that joins a box keeps the descriptors it names "
      "and no other",
      test_descriptors);
  run_test(
      "PRC-02 a process that joins a box may have as many processes as "
      "its limit says",
      test_processes);
  run_test(
      "NET-04 a process that joins a box with the host's network stays in it, "
      "and reaches no abstract socket outside where it is scoped",
      test_shared_network);
  run_test("NS-10 a process that joined a box is killed for setns",
           test_filter);
  run_test("a join of another version is refused before anything is entered",
           test_version);
  return done();
}
