/* SPDX-License-Identifier: Apache-2.0 */
// clang-format off
/* sources: src/engine/seccomp_filter.c src/engine/filter_program.c src/common/error.c src/common/fd.c libs: -lseccomp -pthread */
// clang-format on

/* The compiled filters in the kernel: each check forks a process, loads a
 * filter and makes a call. What a check refuses is also tried without a filter,
 * so that it cannot pass because this machine refuses it anyway. */

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/fd.h"
#include "engine/seccomp_filter.h"
#include "tap.h"

#define DEADLINE_S 10

static struct sock_fprog payload_filter;
static struct sock_fprog init_filter;

static struct sock_fprog compile(struct gbx__filter_options options) {
  uint8_t* bytes = NULL;
  size_t size = 0;
  struct gbx_err err = {0};
  if (gbx__filter_compile(&options, &bytes, &size, &err) != 0) {
    ok(false, "a filter compiles: %s %s", err.op, err.detail);
    exit(done());
  }
  return (struct sock_fprog){
      .len = (unsigned short)(size / sizeof(struct sock_filter)),
      .filter = (struct sock_filter*)(void*)bytes,
  };
}

/* Returns the listener, or 0; -1 with errno. */
static int load(const struct sock_fprog* program, unsigned flags) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, program);
}

/* ---- One call in a process of its own ----------------------------------- */

/* A trial returns 0 or an errno. */
typedef int (*trial)(long argument);

#define NOT_LOADED 250

/* The signal that ended the process, negative, or what the trial returned. */
static int run(const struct sock_fprog* program, trial attempt, long argument) {
  pid_t child = fork();
  if (child == 0) {
    (void)alarm(DEADLINE_S);
    if (program != NULL && load(program, 0) != 0) _exit(NOT_LOADED);
    /* By number: under the sanitizers _exit has other work first. */
    (void)syscall(SYS_exit_group, attempt(argument));
  }
  int status = 0;
  if (RETRY(waitpid(child, &status, 0)) != child) return NOT_LOADED;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void killed(const char* title, trial attempt, long argument) {
  int inside = run(&payload_filter, attempt, argument);
  ok(inside == -SIGSYS, "%s is killed: %d", title, inside);
}

/* `wanted` with the filter and something else without it. */
static void refused(const char* title, trial attempt, long argument,
                    int wanted) {
  int outside = run(NULL, attempt, argument);
  int inside = run(&payload_filter, attempt, argument);
  if (outside == wanted && inside == wanted)
    skip("%s fails here without a filter as well: %s", title, strerror(wanted));
  else
    ok(inside == wanted, "%s: %s (without filter: %d)", title,
       strerror(inside < 0 ? 0 : inside), outside);
}

static int number_alone(long number) {
  return syscall(number, 0, 0, 0, 0, 0, 0) < 0 ? errno : 0;
}

static void check_killed_calls(void) {
  static const char* const names[] = {
      "mount",        "umount2",
      "pivot_root",   "move_mount",
      "open_tree",    "fsopen",
      "fsconfig",     "fsmount",
      "fspick",       "mount_setattr",
      "setns",        "kexec_load",
      "init_module",  "kexec_file_load",
      "reboot",       "delete_module",
      "finit_module", "swapon",
      "swapoff",      "bpf",
      "acct",         "iopl",
      "ioperm",
  };
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    int number = seccomp_syscall_resolve_name(names[i]);
    if (number >= 0) killed(names[i], number_alone, number);
  }
  killed("open_tree_attr, by number", number_alone, 467);
#ifdef __x86_64__
  killed("SYS-08: mount of x32", number_alone, 0x40000000 | SYS_mount);
#endif
  int outside = run(NULL, number_alone, SYS_mount);
  ok(outside == EFAULT || outside == EPERM,
     "twin: mount without a filter only fails: %s",
     strerror(outside < 0 ? 0 : outside));
}

static int unshare_flags(long flags) {
  return unshare((int)flags) < 0 ? errno : 0;
}

static int clone_flags(long flags) {
  long child = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
  if (child < 0) return errno;
  if (child == 0) _exit(0);
  return waitpid((pid_t)child, NULL, 0) == child ? 0 : errno;
}

static void check_namespaces(void) {
  static const long flags[] = {
      CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
      CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET,
  };
  for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
    int by_unshare = run(&payload_filter, unshare_flags, flags[i]);
    int by_clone = run(&payload_filter, clone_flags, flags[i]);
    int above = run(&payload_filter, clone_flags, flags[i] | 1l << 32);
    ok(by_unshare == -SIGSYS && by_clone == -SIGSYS && above == -SIGSYS,
       "NS-07, NS-08: flag %#lx is killed: %d %d %d", (unsigned long)flags[i],
       by_unshare, by_clone, above);
  }
  killed("unshare(CLONE_NEWTIME)", unshare_flags, 0x80);
  killed("unshare(UNSHARE_EMPTY_MNTNS)", unshare_flags, 0x00100000);
  ok(run(&payload_filter, clone_flags, CLONE_PARENT) == EINVAL &&
         run(&payload_filter, clone_flags, CLONE_PARENT | CLONE_NEWNET) ==
             -SIGSYS,
     "ATK-01: clone(CLONE_PARENT) is refused, and excuses no namespace");
  ok(run(&payload_filter, clone_flags, 0) == 0, "twin: clone(SIGCHLD) works");
  ok(run(&payload_filter, unshare_flags, CLONE_FILES | CLONE_FS) == 0,
     "twin: unshare(CLONE_FILES | CLONE_FS) works");
}

/* ---- Calls that fail ---------------------------------------------------- */

static int socket_family(long family) {
  return syscall(SYS_socket, family, SOCK_STREAM, 0) < 0 ? errno : 0;
}

static int packet_socket(long family) {
  return syscall(SYS_socket, family, SOCK_RAW, 0) < 0 ? errno : 0;
}

static int internet_socket(long type) {
  int protocol = type == SOCK_RAW ? 1 : 0;
  return socket(AF_INET, (int)type, protocol) < 0 ? errno : 0;
}

/* Each on no descriptor: EBADF unless the filter is quicker. */
static int ioctl_request(long request) {
  return syscall(SYS_ioctl, -1, request, 0) < 0 ? errno : 0;
}

static int fcntl_command(long command) {
  return syscall(SYS_fcntl, -1, command, 0) < 0 ? errno : 0;
}

static int add_filter(long flags) {
  struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {1, &allow};
  return load(&program, (unsigned)flags) < 0 ? errno : 0;
}

static void check_refused_calls(void) {
  refused("SYS-05: AF_VSOCK", socket_family, AF_VSOCK, EAFNOSUPPORT);
  refused("SYS-05: AF_VSOCK with bit 32", socket_family, AF_VSOCK | 1l << 32,
          EAFNOSUPPORT);
  refused("SYS-05: AF_VSOCK with bit 63", socket_family,
          AF_VSOCK | (long)(1ul << 63), EAFNOSUPPORT);
  refused("AF_PACKET", packet_socket, AF_PACKET, EAFNOSUPPORT);
  refused("AF_PACKET with bit 32", packet_socket, AF_PACKET | 1l << 32,
          EAFNOSUPPORT);
  ok(run(&payload_filter, socket_family, AF_ALG | 1l << 32) == EAFNOSUPPORT,
     "AF_ALG with bit 32 fails");
  if (geteuid() == 0) {
    refused("AF_INET, SOCK_PACKET", internet_socket, SOCK_PACKET, EPERM);
    refused("AF_INET, SOCK_RAW", internet_socket, SOCK_RAW, EPERM);
  } else {
    skip("raw sockets need root even without a filter");
  }
  ok(run(&payload_filter, internet_socket, SOCK_STREAM) == 0 &&
         run(&payload_filter, internet_socket, SOCK_DGRAM) == 0 &&
         run(&payload_filter, socket_family, AF_UNIX) == 0,
     "twin: tcp, udp and unix sockets can be made");

  refused("SYS-11: TIOCSTI", ioctl_request, TIOCSTI, EPERM);
  refused("SYS-11: TIOCSTI, bit 32", ioctl_request, TIOCSTI | 1l << 32, EPERM);
  refused("SYS-11: TIOCLINUX", ioctl_request, TIOCLINUX, EPERM);
  refused("NET-05: SIOCGIFBR", ioctl_request, SIOCGIFBR, EPERM);
  refused("NET-05: SIOCSIFVLAN", ioctl_request, SIOCSIFVLAN, EPERM);
  ok(run(&payload_filter, ioctl_request, TIOCGWINSZ) == EBADF,
     "twin: TIOCGWINSZ reaches the kernel");
  refused("F_SETLEASE", fcntl_command, F_SETLEASE, EPERM);
  refused("F_SETLEASE with bit 32", fcntl_command, F_SETLEASE | 1l << 32,
          EPERM);
  ok(run(&payload_filter, fcntl_command, F_GETPIPE_SZ) == EBADF,
     "twin: F_GETPIPE_SZ reaches the kernel");

  ok(run(&payload_filter, number_alone, 998) == ENOSYS,
     "SYS-04: call 998 is unknown");
  refused("clone3", number_alone, SYS_clone3, ENOSYS);
  refused("io_uring_setup", number_alone, SYS_io_uring_setup, ENOSYS);
  refused("chroot", number_alone, SYS_chroot, EPERM);
  refused("SYS-01: ptrace", number_alone, SYS_ptrace, EPERM);
  refused("SYS-17: clock_settime", number_alone, SYS_clock_settime, EPERM);
  refused("a second listener", add_filter, SECCOMP_FILTER_FLAG_NEW_LISTENER,
          EPERM);
}

/* ---- What must go on working, and what must not be lifted ---------------- */

static void* mount_in_thread(void* unused) {
  (void)unused;
  (void)mount(NULL, NULL, NULL, 0, NULL);
  return NULL;
}

static void* do_nothing(void* unused) {
  return unused;
}

static int mount_from_thread(long unused) {
  (void)unused;
  pthread_t thread;
  if (pthread_create(&thread, NULL, mount_in_thread, NULL) != 0) return 1;
  for (;;)
    (void)pause(); /* a thread kill would leave this one here */
}

static int ordinary_work(long unused) {
  (void)unused;
  pthread_t thread;
  if (pthread_create(&thread, NULL, do_nothing, NULL) != 0) return 1;
  if (pthread_join(thread, NULL) != 0) return 2;
  struct timex query = {.modes = 0};
  if (adjtimex(&query) < 0) return 3;
  int status = system("exec 3>&1; echo | cat | (read -r _) && test -r /");
  return status == 0 ? 0 : 4;
}

static int mount_below_another_filter(long unused) {
  (void)unused;
  if (add_filter(0) != 0) return 1;
  (void)mount(NULL, NULL, NULL, 0, NULL);
  return 2;
}

static int mount_with_sigsys_ignored(long unused) {
  (void)unused;
  (void)signal(SIGSYS, SIG_IGN);
  (void)mount(NULL, NULL, NULL, 0, NULL);
  return 2;
}

static int mount_after_exec(long unused) {
  (void)unused;
  (void)execl("/proc/self/exe", "filter", "mount", NULL);
  return 1;
}

static void check_process(void) {
  killed("SYS-10: a process whose second thread mounts", mount_from_thread, 0);
  ok(run(&payload_filter, ordinary_work, 0) == 0,
     "twin: threads, a shell and a pipeline work");
  killed("SYS-13: mount below a filter that allows all",
         mount_below_another_filter, 0);
  killed("mount with SIGSYS ignored", mount_with_sigsys_ignored, 0);
  killed("mount after exec", mount_after_exec, 0);
}

/* In a container whose own filter hides seccomp(2). */
static int compile_without_seccomp(long unused) {
  (void)unused;
  struct sock_filter hide[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof hide / sizeof hide[0], hide};
  if (load(&program, 0) != 0 || gbx__filter_can_notify()) return 1;
  struct gbx__filter_options options = {0};
  struct gbx_err err = {0};
  uint8_t* bytes = NULL;
  size_t size = 0;
  if (gbx__filter_compile(&options, &bytes, &size, &err) != -ENOSYS) return 2;
  return err.code == GBX_E_UNSUPPORTED && bytes == NULL ? 0 : 3;
}

static void check_hidden_seccomp(void) {
  ok(run(NULL, compile_without_seccomp, 0) == 0,
     "SYS-25: no filter is an error where seccomp(2) is hidden");
}

#ifdef __x86_64__
/* A call by the door of 32-bit programs. */
static int interrupt_80(long number) {
  long result;
  __asm__ volatile("int $0x80"
                   : "=a"(result)
                   : "a"(number), "b"(0), "c"(0), "d"(0), "S"(0), "D"(0)
                   : "memory", "cc", "r8", "r9", "r10", "r11");
  return result < 0 && result > -200 ? (int)-result : 0;
}

static void check_interrupt(void) {
  if (run(NULL, interrupt_80, 20) != 0) {
    skip("SYS-07: this kernel has no int 0x80");
    return;
  }
  killed("SYS-07: int 0x80, mount", interrupt_80, 21);
  killed("SYS-07: int 0x80, socketcall", interrupt_80, 102);
  killed("SYS-07: int 0x80, even getpid", interrupt_80, 20);
}
#endif

/* What init.c does after it loaded the filter, as far as the calls go. */
/* By number: the sanitizers' wrappers make calls of their own. */
static int init_works(long unused) {
  (void)unused;
  struct msghdr message = {0};
  siginfo_t info;
  struct rusage usage;
  if (syscall(SYS_recvmsg, -1, &message, 0) >= 0 || errno != EBADF) return 1;
  if (syscall(SYS_sendmsg, -1, &message, 0) >= 0 || errno != EBADF) return 2;
  if (syscall(SYS_waitid, P_ALL, 0, &info, WEXITED, NULL) >= 0 ||
      errno != ECHILD)
    return 3;
  if (syscall(SYS_getrusage, RUSAGE_CHILDREN, &usage) < 0) return 4;
  return syscall(SYS_close, -1) < 0 && errno == EBADF ? 0 : 5;
}

static void check_init(void) {
  ok(run(&init_filter, init_works, 0) == 0, "init does its work");
  ok(run(&init_filter, number_alone, SYS_getuid) == -SIGSYS,
     "init dies of a call it does not need");
  ok(run(&init_filter, number_alone, 998) == -SIGSYS,
     "init dies of an unknown call");
}

/* ---- The cost ----------------------------------------------------------- */

/* Of seccomp(2) alone, in nanoseconds; 0 where it failed. init's filter leaves
 * nothing to tell it by but memory. */
static int64_t time_load(const struct sock_fprog* program, int64_t* shared) {
  *shared = 0;
  pid_t child = fork();
  if (child == 0) {
    struct timespec begin, end;
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, program);
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    if (result == 0)
      *shared = (end.tv_sec - begin.tv_sec) * 1000000000ll + end.tv_nsec -
                begin.tv_nsec;
    (void)syscall(SYS_exit_group, 0);
  }
  (void)RETRY(waitpid(child, NULL, 0));
  return *shared;
}

static void show_cost(const char* whose, const struct sock_fprog* program) {
  const int loads = 50;
  int64_t least_ns = INT64_MAX;
  int64_t* shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) exit(1);
  for (int i = 0; i < loads; i++) {
    int64_t spent_ns = time_load(program, shared);
    if (spent_ns < least_ns) least_ns = spent_ns;
  }
  (void)munmap(shared, sizeof *shared);
  printf("# %s: %u instructions, the quickest of %d loads took %.1f us\n",
         whose, program->len, loads, (double)least_ns / 1000);
  ok(least_ns > 0, "%s loads each time", whose);
}

/* ---- The listener ------------------------------------------------------- */

/* Takes the listener that a child has under the number it writes to `fd`. */
static int take_listener(pid_t child, int fd) {
  int number = -1;
  if (fd_read_full(fd, &number, sizeof number) != sizeof number) return -1;
  cleanup_fd int pidfd = (int)syscall(SYS_pidfd_open, child, 0);
  if (pidfd < 0 || number < 0) return -1;
  return (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);
}

static void check_notified(const char* title, trial attempt, long argument,
                           int number, uint32_t arch) {
  struct sock_fprog program =
      compile((struct gbx__filter_options){.notify = true});
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) exit(1);
  cleanup_fd int reader = ends[0];
  cleanup_fd int writer = ends[1];
  pid_t child = fork();
  if (child == 0) {
    (void)alarm(DEADLINE_S);
    int listener = load(&program, SECCOMP_FILTER_FLAG_NEW_LISTENER);
    (void)fd_write_all(writer, &listener, sizeof listener);
    _exit(attempt(argument));
  }
  fd_close(&writer);
  cleanup_fd int listener = take_listener(child, reader);
  struct pollfd ready = {listener, POLLIN, 0};
  /* Larger than ours where the kernel knows more of it. */
  union {
    struct seccomp_notif notif;
    uint8_t space[512];
  } message = {.space = {0}};
  bool got =
      listener >= 0 && RETRY(poll(&ready, 1, DEADLINE_S * 1000)) == 1 &&
      RETRY(ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &message.notif)) == 0;
  (void)kill(child, SIGKILL);
  int status = 0;
  (void)RETRY(waitpid(child, &status, 0));
  ok(got && message.notif.data.nr == number &&
         message.notif.data.arch == arch &&
         message.notif.pid == (uint32_t)child && WIFSIGNALED(status) &&
         WTERMSIG(status) == SIGKILL,
     "the listener learns of %s: call %d of arch 0x%x", title,
     message.notif.data.nr, message.notif.data.arch);
  free(program.filter);
}

static void check_listener(void) {
  if (!gbx__filter_can_notify()) {
    skip("this kernel has no SECCOMP_RET_USER_NOTIF");
    return;
  }
  uint32_t native = seccomp_arch_native();
  check_notified("mount", number_alone, SYS_mount, SYS_mount, native);
  check_notified("unshare", unshare_flags, CLONE_NEWUSER, SYS_unshare, native);
  check_notified("clone", clone_flags, CLONE_NEWNET, SYS_clone, native);
#ifdef __x86_64__
  check_notified("mount of x32", number_alone, 0x40000000 | SYS_mount,
                 0x40000000 | SYS_mount, native);
  if (run(NULL, interrupt_80, 20) == 0)
    check_notified("int 0x80", interrupt_80, 21, 21, AUDIT_ARCH_I386);
#endif
}

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "mount") == 0)
    return number_alone(SYS_mount);
  payload_filter = compile((struct gbx__filter_options){0});
  init_filter = compile((struct gbx__filter_options){.init = true});
  check_killed_calls();
  check_namespaces();
  check_refused_calls();
  check_process();
  check_hidden_seccomp();
#ifdef __x86_64__
  check_interrupt();
#endif
  check_init();
  check_listener();
  show_cost("the payload's filter", &payload_filter);
  show_cost("init's filter", &init_filter);
  free(payload_filter.filter);
  free(init_filter.filter);
  return done();
}
