/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/seccomp_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/fd.h"
#include "engine/engine.h"

/* ---- What a call gets --------------------------------------------------- */

enum verdict {
  ALLOW,
  KILL,      /* no honest program does this: the box ends, escape_blocked */
  REFUSE,    /* EPERM: programs expect it here and go on */
  NO_FAMILY, /* EAFNOSUPPORT: what a kernel without the address family says */
  NO_TYPE,   /* ESOCKTNOSUPPORT */
  INVALID,   /* EINVAL: what a kernel without the command says */
};

struct call_group {
  enum verdict verdict;
  const char* calls; /* names with one space between them */
};

/* One condition on one argument: (argument & mask) == value. libseccomp looks
 * at all 64 bits where the kernel takes an int, so a plain comparison with 40
 * does not see 40 | 1<<32, which the kernel takes for 40: a mask is never
 * optional. A mask of 0 is no condition. */
struct argument_test {
  unsigned argument;
  uint64_t mask;
  uint64_t value;
};

struct argument_rule {
  enum verdict verdict;
  const char* call;
  struct argument_test test[2]; /* both must hold */
};

#define RULE(verdict, call, ...) \
  {                              \
    verdict, call, {             \
      __VA_ARGS__                \
    }                            \
  }
#define INT(argument, value) \
  { argument, 0xffffffff, (uint32_t)(value) }
#define BITS(argument, mask, value) \
  { argument, mask, value }
#define FLAG(argument, flag) \
  { argument, (uint32_t)(flag), (uint32_t)(flag) }

/* ---- The payload's calls ------------------------------------------------ */

/* What is in no group fails with ENOSYS: a libc, Go or libuv that is newer than
 * the kernel meets that every day and falls back, where EPERM makes `ls` fail
 * and KILL makes a probe fatal. So every call that comes after this table is
 * refused in the way its users are ready for. These are left out on purpose:
 *
 *   clone3                      flags are behind a pointer, where no filter can
 *                               see them; libcs fall back to clone
 *   io_uring_*                  a second way to do everything, past this filter
 *   io_setup .. io_pgetevents   fs.aio-max-nr is one number for the whole host:
 *                               one box could take it all
 *   userfaultfd perf_event_open uretprobe uprobe
 *                               tools of kernel exploits
 *   keyctl add_key request_key  keys are not in any namespace
 *   syslog                      the host's kernel log
 *   open_by_handle_at name_to_handle_at
 *                               opens files by number, past every mount
 *   memfd_secret modify_ldt lookup_dcookie
 *                               large surface, hardly a user
 *   move_pages migrate_pages    pages of other processes; NUMA is optional
 *   landlock_*                  programs that confine themselves do without
 *   statmount listmount listns lsm_* *xattrat file_getattr file_setattr
 *   rseq_slice_yield fchroot
 *                               so new that all users have a fallback
 *   uselib ustat sysfs _sysctl nfsservctl vserver security tuxcall ...
 *                               gone, or kept for programs of the nineties */
static const struct call_group payload_groups[] = {
    /* What a box sees of the host is a matter of mounts; it gets none. */
    {KILL,
     "mount umount2 pivot_root move_mount open_tree open_tree_attr fsopen "
     "fsconfig fsmount fspick mount_setattr"},
    /* Another namespace is another set of rules, and a fresh user namespace
     * gives back every capability. clone and unshare: argument_rules. */
    {KILL, "setns"},
    /* The running kernel and the machine. */
    {KILL,
     "kexec_load kexec_file_load create_module init_module finit_module "
     "delete_module query_module reboot swapon swapoff bpf acct iopl ioperm"},

    /* Into other processes. Debuggers and sanitizers try and report it. */
    {REFUSE,
     "ptrace process_vm_readv process_vm_writev process_madvise "
     "process_mrelease kcmp pidfd_getfd"},
    /* Ask for a capability that no box has; the kernel would say the same, and
     * this keeps it from looking. Setting the clock by adjtimex and making a
     * device by mknod are left to the kernel: what decides is behind a pointer,
     * or the harmless half is in use (tar, overlay whiteouts). */
    {REFUSE,
     "chroot sethostname setdomainname settimeofday clock_settime vhangup "
     "quotactl quotactl_fd fanotify_init fanotify_mark"},

    /* Files. sync and syncfs reach the host's disks, as they do from any
     * unprivileged process there. */
    {ALLOW,
     "access cachestat chdir chmod chown close close_range copy_file_range "
     "creat dup dup2 dup3 faccessat faccessat2 fadvise64 fallocate fchdir "
     "fchmod fchmodat fchmodat2 fchown fchownat fdatasync flock fstat fstatfs "
     "fsync ftruncate futimesat getcwd getdents getdents64 lchown link linkat "
     "lseek lstat mkdir mkdirat mknod mknodat newfstatat open openat openat2 "
     "pipe pipe2 pread64 preadv preadv2 pwrite64 pwritev pwritev2 read "
     "readahead readlink readlinkat readv rename renameat renameat2 rmdir "
     "sendfile splice stat statfs statx symlink symlinkat sync "
     "sync_file_range syncfs tee truncate umask unlink unlinkat utime "
     "utimensat utimes vmsplice write writev"},
    {ALLOW,
     "fgetxattr flistxattr fremovexattr fsetxattr getxattr lgetxattr "
     "listxattr llistxattr lremovexattr lsetxattr removexattr setxattr"},
    /* Memory. The mempolicy calls are the process' own; allocators use them. */
    {ALLOW,
     "brk get_mempolicy madvise map_shadow_stack mbind membarrier memfd_create "
     "mincore mlock mlock2 mlockall mmap mprotect mremap mseal msync munlock "
     "munlockall munmap pkey_alloc pkey_free pkey_mprotect remap_file_pages "
     "set_mempolicy set_mempolicy_home_node"},
    /* Processes and threads. Raising a priority or a limit needs capabilities,
     * and signals reach no further than the pid namespace. prctl has nothing
     * that no_new_privs and an empty bounding set leave dangerous. */
    {ALLOW,
     "arch_prctl execve execveat exit exit_group fork futex futex_requeue "
     "futex_wait futex_waitv futex_wake get_robust_list getcpu getpgid getpgrp "
     "getpid getppid getpriority getrlimit getrusage getsid gettid ioprio_get "
     "ioprio_set kill pidfd_open pidfd_send_signal prctl "
     "restart_syscall rseq sched_get_priority_max sched_get_priority_min "
     "sched_getaffinity sched_getattr sched_getparam sched_getscheduler "
     "sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam "
     "sched_setscheduler sched_yield set_robust_list set_tid_address setpgid "
     "setpriority setrlimit setsid tgkill times tkill vfork wait4 waitid"},
    {ALLOW,
     "alarm getitimer pause rt_sigaction rt_sigpending rt_sigprocmask "
     "rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait "
     "rt_tgsigqueueinfo setitimer sigaltstack signalfd signalfd4"},
    /* Ids and capabilities: the kernel allows what changes nothing. */
    {ALLOW,
     "capget capset getegid geteuid getgid getgroups getresgid getresuid "
     "getuid setfsgid setfsuid setgid setgroups setregid setresgid setresuid "
     "setreuid setuid"},
    {ALLOW,
     "adjtimex clock_adjtime clock_getres clock_gettime clock_nanosleep "
     "getrandom gettimeofday nanosleep sysinfo time timer_create timer_delete "
     "timer_getoverrun timer_gettime timer_settime uname"},
    /* Waiting for events. */
    {ALLOW,
     "epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait "
     "eventfd eventfd2 inotify_add_watch inotify_init inotify_init1 "
     "inotify_rm_watch poll ppoll pselect6 select timerfd_create "
     "timerfd_gettime timerfd_settime"},
    /* Sockets once made: which may be made is in argument_rules. */
    {ALLOW,
     "accept accept4 bind connect getpeername getsockname getsockopt listen "
     "recvfrom recvmmsg recvmsg sendmmsg sendmsg sendto setsockopt shutdown"},
    /* System V and POSIX queues: of the box's own IPC namespace. */
    {ALLOW,
     "mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink "
     "msgctl msgget msgrcv msgsnd semctl semget semop semtimedop shmat shmctl "
     "shmdt shmget"},
};

/* ---- Calls whose arguments decide --------------------------------------- */

/* libseccomp promises no order between two rules that both match. So ALLOW is
 * always exact: it overlaps no stricter rule, and what it lets through does not
 * depend on order. Only OTHERWISE overlaps, with everything: libseccomp tests
 * it last (greater values first, equal ones in the order they were added);
 * should that change, it refuses too much, never too little. */
#define TOP_BIT 0x80000000u
#define OTHERWISE(verdict, call, argument)               \
  RULE(verdict, call, BITS(argument, TOP_BIT, TOP_BIT)), \
      RULE(verdict, call, BITS(argument, TOP_BIT, 0))

/* unshare(2) alone reads the bit of CLONE_PARENT_SETTID so, since Linux 7.1:
 * an empty mount namespace. */
#define UNSHARE_EMPTY_MNTNS 0x00100000u
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

#define NEW_NAMESPACES                                           \
  (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | \
   CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)
#define KILL_NAMESPACES(call)                     \
  RULE(KILL, call, FLAG(0, CLONE_NEWNS)),         \
      RULE(KILL, call, FLAG(0, CLONE_NEWCGROUP)), \
      RULE(KILL, call, FLAG(0, CLONE_NEWUTS)),    \
      RULE(KILL, call, FLAG(0, CLONE_NEWIPC)),    \
      RULE(KILL, call, FLAG(0, CLONE_NEWUSER)),   \
      RULE(KILL, call, FLAG(0, CLONE_NEWPID)),    \
      RULE(KILL, call, FLAG(0, CLONE_NEWNET))

/* All that unshare(2) can take apart without making a namespace. */
#define UNSHARE_HARMLESS                                             \
  (uint64_t)(CLONE_FS | CLONE_FILES | CLONE_SYSVSEM | CLONE_THREAD | \
             CLONE_SIGHAND | CLONE_VM)

/* The kernel's SOCK_TYPE_MASK: above it are SOCK_CLOEXEC and SOCK_NONBLOCK.
 * SOCK_PACKET of AF_INET is AF_PACKET by its oldest name. Raw sockets need a
 * capability as well; but where a box shares the host's network, that check
 * would be the only one. */
#define TYPE(type) BITS(1, 0xf, type)
#define INTERNET(call, family)                                 \
  RULE(ALLOW, call, INT(0, family), TYPE(SOCK_STREAM)),        \
      RULE(ALLOW, call, INT(0, family), TYPE(SOCK_DGRAM)),     \
      RULE(ALLOW, call, INT(0, family), TYPE(SOCK_SEQPACKET)), \
      RULE(REFUSE, call, INT(0, family), TYPE(SOCK_RAW)),      \
      RULE(REFUSE, call, INT(0, family), TYPE(SOCK_PACKET)),   \
      RULE(NO_TYPE, call, INT(0, family), BITS(1, 8, 8)),      \
      RULE(NO_TYPE, call, INT(0, family), BITS(1, 8, 0))
/* Of netlink what getifaddrs(3) and getaddrinfo(3) ask. Where a box shares the
 * host's network, the others tell of the host's devices, sockets and audit, and
 * let processes of any box talk to each other. */
#define SOCKETS(call)                                               \
  RULE(ALLOW, call, INT(0, AF_UNIX)),                               \
      RULE(ALLOW, call, INT(0, AF_NETLINK), INT(2, NETLINK_ROUTE)), \
      INTERNET(call, AF_INET), INTERNET(call, AF_INET6),            \
      OTHERWISE(NO_FAMILY, call, 0)

/* A lease makes the host's open() of a workspace file wait for 45 s; a
 * delegation (F_SETDELEG, Linux 6.19) is one by another name. */
#define F_SETDELEG_ 1040

static const struct argument_rule argument_rules[] = {
    /* 0x80, CLONE_NEWTIME elsewhere, is part of the exit signal here, and the
     * kernel ignores the upper half. CLONE_PARENT: the parent of a payload may
     * be the launcher, which would have to reap as many as a box can make, at
     * the cost of other boxes. The kernel gives pid 1 the same answer. */
    KILL_NAMESPACES("clone"),
    RULE(ALLOW, "clone", BITS(0, (uint32_t)(NEW_NAMESPACES | CLONE_PARENT), 0)),
    RULE(INVALID, "clone",
         BITS(0, (uint32_t)(NEW_NAMESPACES | CLONE_PARENT), CLONE_PARENT)),

    /* Here 0x80 counts. ALLOW names what is harmless, not what is not: of a
     * bit that gets a meaning later, ENOSYS. */
    KILL_NAMESPACES("unshare"),
    RULE(KILL, "unshare", FLAG(0, CLONE_NEWTIME)),
    RULE(KILL, "unshare", FLAG(0, UNSHARE_EMPTY_MNTNS)),
    RULE(ALLOW, "unshare", BITS(0, ~UNSHARE_HARMLESS, 0)),

    /* AF_ALG, AF_VSOCK, AF_PACKET and forty more are kernel code that no box
     * needs; vsock even ignores network namespaces. */
    SOCKETS("socket"),
    SOCKETS("socketpair"),

    RULE(REFUSE, "fcntl", INT(1, F_SETLEASE)),
    RULE(REFUSE, "fcntl", INT(1, F_SETDELEG_)),
    RULE(ALLOW, "fcntl", BITS(1, 0xffffffc0, 0)),    /* 0 .. 63 */
    RULE(ALLOW, "fcntl", INT(1, F_GETLEASE)),        /* 1025 */
    RULE(ALLOW, "fcntl", BITS(1, 0xfffffffe, 1026)), /* F_NOTIFY, 1027 */
    RULE(ALLOW, "fcntl", BITS(1, 0xfffffffc, 1028)), /* F_DUPFD_CLOEXEC .. */
    RULE(ALLOW, "fcntl", BITS(1, 0xfffffff8, 1032)), /* pipes, seals, hints */
    OTHERWISE(INVALID, "fcntl", 1),

    /* Linux, 32-bit Linux, either with an old version number, and the question
     * which it is. The rest emulates other systems or weakens ASLR. */
    RULE(ALLOW, "personality",
         BITS(0, ~(uint32_t)(PER_LINUX32 | UNAME26), PER_LINUX)),
    RULE(ALLOW, "personality", INT(0, 0xffffffff)),
    OTHERWISE(REFUSE, "personality", 0),

    /* A filter on top of this one can only forbid more, so a box may have it.
     * A listener could answer "continue"; the kernel allows no second one
     * either. */
    RULE(REFUSE, "seccomp", FLAG(1, SECCOMP_FILTER_FLAG_NEW_LISTENER)),
    RULE(ALLOW, "seccomp", BITS(1, SECCOMP_FILTER_FLAG_NEW_LISTENER, 0)),
};

/* What entering a box takes, instead of the rules above about the same. */
static const struct argument_rule zygote_rules[] = {
    RULE(ALLOW, "setns", {0}),
    RULE(ALLOW, "unshare", INT(0, CLONE_NEWUSER)),
    RULE(ALLOW, "seccomp", {0}),
    /* For the scopes of a box that shares the host's network. */
    RULE(ALLOW, "landlock_create_ruleset", {0}),
    RULE(ALLOW, "landlock_restrict_self", {0}),
};

static bool is_zygote_matter(const char* call,
                             const struct argument_test* tests) {
  return strcmp(call, "setns") == 0 || strcmp(call, "seccomp") == 0 ||
         (strcmp(call, "unshare") == 0 && tests[0].mask == CLONE_NEWUSER);
}

/* Calls that are allowed but for a few values of one argument, EPERM. */
struct exception {
  const char* call;
  unsigned argument;
  uint32_t top_bit;    /* those above it do not matter */
  uint32_t refused[3]; /* fewer are repeated */
};

static const struct exception exceptions[] = {
    /* The first two put input into a terminal, which a shell on the host may
     * read. The third loads line disciplines, of modems and radios: kernel code
     * with a history, which a box with a terminal could else reach. By the
     * lower 16 bits, type and number: the upper ones say size and direction,
     * and no terminal request of these numbers has any. */
    {"ioctl", 1, 0x8000, {TIOCSTI, TIOCLINUX, TIOCSETD}},
    /* The limits of pid 1. For this the kernel asks only whether it is the same
     * user, which init is. */
    {"prlimit64", 0, TOP_BIT, {1, 1, 1}},
};

/* ---- init's calls ------------------------------------------------------- */

/* What pid 1 of a box does once the box is made: wait, reap, kill, report. It
 * is our code, so anything else means that somebody else runs in it: KILL by
 * default, and ENOSYS has no place. Nothing here makes executable memory, a
 * file, a process or a socket. */
static const struct call_group init_groups[] = {
    {ALLOW,
     "close exit exit_group getrusage recvmsg restart_syscall rt_sigreturn "
     "sendmsg waitid"},
};

/* A number with this bit is a call of the x32 interface. */
#define X32_SYSCALL_BIT 0x40000000

/* ---- Compiling ---------------------------------------------------------- */

struct compiler {
  scmp_filter_ctx context;
  uint32_t arch;
  uint32_t kill_action;
  bool zygote;
  struct gbx_err* err;
};

static void release_compiler(struct compiler* compiler) {
  if (compiler->context != NULL) seccomp_release(compiler->context);
}

#define cleanup_compiler __attribute__((cleanup(release_compiler)))

/* libseccomp returns negative errnos. */
static int fail(const struct compiler* compiler, int result, const char* op,
                const char* detail) {
  enum gbx_code code = result == -ENOMEM ? GBX_E_NO_MEMORY : GBX_E_START;
  return gbx_fail(compiler->err, code, -result, op, "%s", detail);
}

static uint32_t action_of(const struct compiler* compiler,
                          enum verdict verdict) {
  switch (verdict) {
    case ALLOW:
      return SCMP_ACT_ALLOW;
    case KILL:
      return compiler->kill_action;
    case REFUSE:
      return SCMP_ACT_ERRNO(EPERM);
    case NO_FAMILY:
      return SCMP_ACT_ERRNO(EAFNOSUPPORT);
    case NO_TYPE:
      return SCMP_ACT_ERRNO(ESOCKTNOSUPPORT);
    case INVALID:
      return SCMP_ACT_ERRNO(EINVAL);
  }
  return compiler->kill_action;
}

/* Calls of which a libseccomp that is in use has not heard. From 424 on all
 * architectures number alike. Remove each once the floor knows it. */
static const struct {
  const char* name;
  int number;
} newer_calls[] = {
    {"set_mempolicy_home_node", 450},
    {"cachestat", 451},
    {"fchmodat2", 452},
    {"map_shadow_stack", 453},
    {"futex_wake", 454},
    {"futex_wait", 455},
    {"futex_requeue", 456},
    {"statmount", 457},
    {"listmount", 458},
    {"lsm_get_self_attr", 459},
    {"lsm_set_self_attr", 460},
    {"lsm_list_modules", 461},
    {"mseal", 462},
    {"setxattrat", 463},
    {"getxattrat", 464},
    {"listxattrat", 465},
    {"removexattrat", 466},
    {"open_tree_attr", 467},
    {"file_getattr", 468},
    {"file_setattr", 469},
    {"listns", 470},
    {"rseq_slice_yield", 471},
};
#define NEWER_CALLS (sizeof newer_calls / sizeof newer_calls[0])

/* The number by which libseccomp knows `name`: the native architecture's,
 * whichever one it compiles for, and a pseudo number below -1 where only the
 * other one has it. False: the architecture has no such call, or libseccomp
 * cannot say it. The default verdict then stands. */
static bool find_call(const struct compiler* compiler, const char* name,
                      int* ret_number) {
  int number = seccomp_syscall_resolve_name_arch(compiler->arch, name);
  if (number >= 0) {
    *ret_number = seccomp_syscall_resolve_name(name);
    return true;
  }
  if (number != __NR_SCMP_ERROR || compiler->arch != seccomp_arch_native())
    return false;
  for (size_t i = 0; i < NEWER_CALLS; i++) {
    if (strcmp(newer_calls[i].name, name) != 0) continue;
    *ret_number = newer_calls[i].number;
    return true;
  }
  return false;
}

static int add_rule(const struct compiler* compiler, enum verdict verdict,
                    const char* name, const struct argument_test* tests,
                    size_t test_count) {
  int number;
  if (!find_call(compiler, name, &number)) return 0;
  struct scmp_arg_cmp compare[2];
  unsigned count = 0;
  for (size_t i = 0; i < test_count; i++) {
    if (tests[i].mask == 0) continue;
    compare[count++] = (struct scmp_arg_cmp){
        .arg = tests[i].argument,
        .op = SCMP_CMP_MASKED_EQ,
        .datum_a = tests[i].mask,
        .datum_b = tests[i].value,
    };
  }
  int result = seccomp_rule_add_exact_array(
      compiler->context, action_of(compiler, verdict), number, count, compare);
  if (result < 0) return fail(compiler, result, "seccomp_rule_add", name);
  return 0;
}

static int add_groups(const struct compiler* compiler,
                      const struct call_group* groups, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const char* next = groups[i].calls;
    while (*next != '\0') {
      char name[32];
      size_t length = strcspn(next, " ");
      if (length >= sizeof name)
        return fail(compiler, -ENAMETOOLONG, "seccomp_rule_add", next);
      memcpy(name, next, length);
      name[length] = '\0';
      next += length;
      next += strspn(next, " ");
      if (compiler->zygote && is_zygote_matter(name, NULL)) continue;
      int result = add_rule(compiler, groups[i].verdict, name, NULL, 0);
      if (result < 0) return result;
    }
  }
  return 0;
}

/* A rule for each part of an argument's values, the parts disjoint and
 * complete: halves the space, from `bit` down, until a part has nothing refused
 * in it or is one refused value. libseccomp has no "masked unequal", and its
 * plain "unequal" is true of a refused value with a bit set above the 32nd. */
static int add_exception(const struct compiler* compiler,
                         const struct exception* exception, uint32_t mask,
                         uint32_t value, uint32_t bit) {
  bool refused = false;
  for (int i = 0; i < 3; i++)
    if ((exception->refused[i] & mask) == value) refused = true;
  if (!refused || bit == 0) {
    const struct argument_test part = BITS(exception->argument, mask, value);
    return add_rule(compiler, refused ? REFUSE : ALLOW, exception->call, &part,
                    1);
  }
  int result =
      add_exception(compiler, exception, mask | bit, value | bit, bit >> 1);
  if (result < 0) return result;
  return add_exception(compiler, exception, mask | bit, value, bit >> 1);
}

static int add_payload_rules(const struct compiler* compiler) {
  int result = add_groups(compiler, payload_groups,
                          sizeof payload_groups / sizeof payload_groups[0]);
  if (result < 0) return result;
  for (size_t i = 0; i < sizeof argument_rules / sizeof argument_rules[0];
       i++) {
    const struct argument_rule* rule = &argument_rules[i];
    if (compiler->zygote && is_zygote_matter(rule->call, rule->test)) continue;
    result = add_rule(compiler, rule->verdict, rule->call, rule->test, 2);
    if (result < 0) return result;
  }
  for (size_t i = 0;
       compiler->zygote && i < sizeof zygote_rules / sizeof zygote_rules[0];
       i++) {
    const struct argument_rule* rule = &zygote_rules[i];
    result = add_rule(compiler, rule->verdict, rule->call, rule->test, 2);
    if (result < 0) return result;
  }
  for (size_t i = 0; i < sizeof exceptions / sizeof exceptions[0]; i++) {
    result =
        add_exception(compiler, &exceptions[i], 0, 0, exceptions[i].top_bit);
    if (result < 0) return result;
  }
  return 0;
}

static bool action_available(uint32_t action) {
  return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

/* An empty context for the wanted architecture alone. */
static int start(struct compiler* compiler,
                 const struct gbx__filter_options* options) {
  uint32_t native = seccomp_arch_native();
  compiler->arch = options->arch != 0 ? options->arch : native;
  /* The table speaks of these two. On others numbers, argument orders and
   * multiplexers such as socketcall differ, and a filter would not hold. */
  if (compiler->arch != SCMP_ARCH_X86_64 && compiler->arch != SCMP_ARCH_AARCH64)
    return gbx_fail(compiler->err, GBX_E_UNSUPPORTED, ENOTSUP,
                    "seccomp_arch_native", "0x%x", compiler->arch);
  /* Also where a container around us forbids seccomp(2). */
  if (!action_available(SECCOMP_RET_KILL_PROCESS))
    return gbx_fail(compiler->err, GBX_E_UNSUPPORTED, errno, "seccomp",
                    "SECCOMP_RET_KILL_PROCESS");

  uint32_t otherwise =
      options->init ? SCMP_ACT_KILL_PROCESS : SCMP_ACT_ERRNO(ENOSYS);
  compiler->kill_action = options->zygote   ? SCMP_ACT_TRACE(0)
                          : options->notify ? SCMP_ACT_NOTIFY
                                            : SCMP_ACT_KILL_PROCESS;
  compiler->context = seccomp_init(otherwise);
  if (compiler->context == NULL)
    return fail(compiler, -ENOMEM, "seccomp_init", "");

  if (compiler->arch != native) {
    int result = seccomp_arch_add(compiler->context, compiler->arch);
    if (result < 0) return fail(compiler, result, "seccomp_arch_add", "");
    result = seccomp_arch_remove(compiler->context, native);
    if (result < 0) return fail(compiler, result, "seccomp_arch_remove", "");
  }

  /* BADARCH: int 0x80 and x32 reach the same kernel by other numbers;
   * libseccomp's default would end only the thread that tried. OPTIMIZE 2 is a
   * binary tree in place of 300 comparisons in a row. */
  const struct {
    enum scmp_filter_attr attribute;
    uint32_t value;
    const char* name;
  } settings[] = {
      {SCMP_FLTATR_API_SYSRAWRC, 1, "API_SYSRAWRC"},
      {SCMP_FLTATR_ACT_BADARCH, compiler->kill_action, "ACT_BADARCH"},
      {SCMP_FLTATR_CTL_OPTIMIZE, 2, "CTL_OPTIMIZE"},
  };
  for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
    int result = seccomp_attr_set(compiler->context, settings[i].attribute,
                                  settings[i].value);
    if (result < 0)
      return fail(compiler, result, "seccomp_attr_set", settings[i].name);
  }
  return 0;
}

/* libseccomp 2.5 exports to a descriptor only. */
static int export_program(const struct compiler* compiler,
                          uint8_t** ret_program, size_t* ret_size) {
  cleanup_fd int fd = memfd_create("gbx-filter", MFD_CLOEXEC);
  if (fd < 0) return fail(compiler, -errno, "memfd_create", "filter");
  int result = seccomp_export_bpf(compiler->context, fd);
  if (result < 0) return fail(compiler, result, "seccomp_export_bpf", "");
  struct stat status;
  if (fstat(fd, &status) < 0 || lseek(fd, 0, SEEK_SET) < 0)
    return fail(compiler, -errno, "fstat", "filter");

  size_t size = (size_t)status.st_size;
  cleanup_free uint8_t* program = malloc(size);
  if (program == NULL) return fail(compiler, -ENOMEM, "malloc", "filter");
  ssize_t count = fd_read_full(fd, program, size);
  if (count < 0) return fail(compiler, (int)count, "read", "filter");
  if ((size_t)count != size) return fail(compiler, -EIO, "read", "filter");
  *ret_program = program;
  *ret_size = size;
  program = NULL;
  return 0;
}

int gbx__filter_compile(const struct gbx__filter_options* options,
                        uint8_t** ret_program, size_t* ret_size,
                        struct gbx_err* err) {
  cleanup_compiler struct compiler compiler = {.zygote = options->zygote,
                                               .err = err};
  if (options->init + options->notify + options->zygote > 1)
    return gbx_fail(err, GBX_E_INVALID, EINVAL, "seccomp filter",
                    "two of init, notify and zygote");
  int result = start(&compiler, options);
  if (result < 0) return result;
  result = options->init
               ? add_groups(&compiler, init_groups,
                            sizeof init_groups / sizeof init_groups[0])
               : add_payload_rules(&compiler);
  if (result < 0) return result;
  return export_program(&compiler, ret_program, ret_size);
}

static const char* verdict_name(enum verdict verdict) {
  switch (verdict) {
    case ALLOW:
      return "allow";
    case KILL:
      return "kill";
    case REFUSE:
      return "EPERM";
    case NO_FAMILY:
      return "EAFNOSUPPORT";
    case NO_TYPE:
      return "ESOCKTNOSUPPORT";
    case INVALID:
      return "EINVAL";
  }
  return "kill";
}

void gbx_filter_list(gbx_verdict_cb cb, void* data) {
  for (size_t i = 0; i < sizeof payload_groups / sizeof payload_groups[0]; i++)
    cb(data, verdict_name(payload_groups[i].verdict), payload_groups[i].calls);
  for (size_t i = 0; i < sizeof argument_rules / sizeof argument_rules[0]; i++)
    cb(data, "arguments", argument_rules[i].call);
  for (size_t i = 0; i < sizeof exceptions / sizeof exceptions[0]; i++)
    cb(data, "arguments", exceptions[i].call);
}

int gbx_filter_program(uint8_t** ret_program, size_t* ret_size,
                       struct gbx_err* err) {
  struct gbx__filter_options options = {.notify = gbx__filter_can_notify()};
  return gbx__filter_compile(&options, ret_program, ret_size, err);
}

bool gbx__filter_can_notify(void) {
  struct seccomp_notif_sizes sizes;
  return syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) == 0 &&
         action_available(SECCOMP_RET_USER_NOTIF);
}

void gbx__filter_name_syscall(uint32_t arch, int number, char* ret_name,
                              size_t size) {
  /* x32 calls carry a bit of their own; libseccomp's other tokens are the
   * kernel's. */
  if (arch == SCMP_ARCH_X86_64 && number >= X32_SYSCALL_BIT)
    arch = SCMP_ARCH_X32;
  char* name = seccomp_syscall_resolve_num_arch(arch, number);
  if (name != NULL)
    (void)snprintf(ret_name, size, "%s", name);
  else
    (void)snprintf(ret_name, size, "%d", number);
  for (size_t i = 0; i < NEWER_CALLS && name == NULL; i++)
    if (newer_calls[i].number == number)
      (void)snprintf(ret_name, size, "%s", newer_calls[i].name);
  free(name);
}
