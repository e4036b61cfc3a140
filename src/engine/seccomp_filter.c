/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/seccomp_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/fd.h"
#include "engine/engine.h"
#include "engine/filter_program.h"

/* ---- What a call gets --------------------------------------------------- */

enum verdict {
  ALLOW,
  KILL,        /* no honest program does this: the box ends, escape_blocked */
  REFUSE,      /* EPERM: programs expect it here and go on */
  NO_FAMILY,   /* EAFNOSUPPORT: what a kernel without the address family says */
  NO_TYPE,     /* ESOCKTNOSUPPORT */
  NO_PROTOCOL, /* EPROTONOSUPPORT */
  INVALID,     /* EINVAL: what a kernel without the command says */
  UNKNOWN,     /* ENOSYS: what a kernel without the call says */
  VERDICTS,
};

struct call_group {
  enum verdict verdict;
  const char* calls; /* names with one space between them */
};

/* The first rule that holds decides. */
struct argument_rules {
  const char* calls;
  const struct gbx__filter_rule* rules;
  size_t count;
};

/* Tests look at the lower half of an argument, which is what the kernel takes
 * as an int, unless they say HIGH. */
#define LOW(argument)  ((uint32_t)offsetof(struct seccomp_data, args[argument]))
#define HIGH(argument) (LOW(argument) + 4)
#define ALL_BITS       0xffffffffu
#define INT(argument, value) \
  { GBX__FILTER_EQUAL, LOW(argument), ALL_BITS, (uint32_t)(value) }
#define BITS(argument, mask, value) \
  { GBX__FILTER_EQUAL, LOW(argument), (uint32_t)(mask), value }
#define HIGH_BITS(argument, value) \
  { GBX__FILTER_EQUAL, HIGH(argument), ALL_BITS, value }
#define ANY(argument, mask) \
  { GBX__FILTER_ANY, LOW(argument), (uint32_t)(mask), 0 }
#define BELOW(argument, value) \
  { GBX__FILTER_BELOW, LOW(argument), ALL_BITS, value }
#define RULE(verdict, ...) \
  {                        \
    verdict, {             \
      __VA_ARGS__          \
    }                      \
  }
#define OTHERWISE(verdict) \
  {                        \
    verdict, {             \
      { 0 }                \
    }                      \
  }
#define RULES(calls, rules) \
  { calls, rules, sizeof(rules) / sizeof((rules)[0]) }

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

/* unshare(2) alone reads the bit of CLONE_PARENT_SETTID so, since Linux 7.1:
 * an empty mount namespace. */
#define UNSHARE_EMPTY_MNTNS 0x00100000u
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

#define NEW_NAMESPACES                                           \
  (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | \
   CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

/* All that unshare(2) can take apart without making a namespace. */
#define UNSHARE_HARMLESS                                                   \
  (CLONE_FS | CLONE_FILES | CLONE_SYSVSEM | CLONE_THREAD | CLONE_SIGHAND | \
   CLONE_VM)

static const struct gbx__filter_rule clone_rules[] = {
    /* 0x80, CLONE_NEWTIME elsewhere, is part of the exit signal here, and the
     * kernel ignores the upper half. CLONE_PARENT: the parent of a payload may
     * be the launcher, which would have to reap as many as a box can make, at
     * the cost of other boxes. The kernel gives pid 1 the same answer. */
    RULE(KILL, ANY(0, NEW_NAMESPACES)),
    RULE(INVALID, ANY(0, CLONE_PARENT)),
    OTHERWISE(ALLOW),
};

/* Here 0x80 counts, and so does the upper half. ALLOW names what is harmless,
 * not what is not: of a bit that gets a meaning later, ENOSYS. */
#define UNSHARE_RULES                                                       \
  RULE(KILL, ANY(0, NEW_NAMESPACES | CLONE_NEWTIME | UNSHARE_EMPTY_MNTNS)), \
      RULE(ALLOW, HIGH_BITS(0, 0), BITS(0, ~UNSHARE_HARMLESS, 0))
static const struct gbx__filter_rule unshare_rules[] = {UNSHARE_RULES};

/* AF_ALG, AF_VSOCK, AF_PACKET and forty more are kernel code that no box needs;
 * vsock even ignores network namespaces.
 *
 * Of netlink what getifaddrs(3) and getaddrinfo(3) ask. Where a box shares the
 * host's network, the others tell of the host's devices, sockets and audit, and
 * let processes of any box talk to each other.
 *
 * Of the internet's TCP, UDP and ping: for a protocol that it does not have,
 * the kernel asks the host to load a module, and SCTP, L2TP, DCCP and the like
 * are as large as they are rarely used. SOCK_SEQPACKET is SCTP by another name.
 * The answers are those of a kernel without, so that a Go that tries MPTCP
 * first goes on with TCP.
 *
 * The mask is the kernel's SOCK_TYPE_MASK: above it are SOCK_CLOEXEC and
 * SOCK_NONBLOCK. SOCK_PACKET of AF_INET is AF_PACKET by its oldest name. Raw
 * sockets need a capability as well; but where a box shares the host's network,
 * that check would be the only one. */
#define TYPE(type) BITS(1, 0xf, type)
#define INTERNET(family, ping)                                             \
  RULE(REFUSE, INT(0, family), TYPE(SOCK_RAW)),                            \
      RULE(REFUSE, INT(0, family), TYPE(SOCK_PACKET)),                     \
      RULE(ALLOW, INT(0, family), TYPE(SOCK_STREAM), INT(2, 0)),           \
      RULE(ALLOW, INT(0, family), TYPE(SOCK_STREAM), INT(2, IPPROTO_TCP)), \
      RULE(NO_PROTOCOL, INT(0, family), TYPE(SOCK_STREAM)),                \
      RULE(ALLOW, INT(0, family), TYPE(SOCK_DGRAM), INT(2, 0)),            \
      RULE(ALLOW, INT(0, family), TYPE(SOCK_DGRAM), INT(2, IPPROTO_UDP)),  \
      RULE(ALLOW, INT(0, family), TYPE(SOCK_DGRAM), INT(2, ping)),         \
      RULE(NO_PROTOCOL, INT(0, family), TYPE(SOCK_DGRAM)),                 \
      RULE(NO_TYPE, INT(0, family))
static const struct gbx__filter_rule socket_rules[] = {
    RULE(ALLOW, INT(0, AF_UNIX)),
    RULE(ALLOW, INT(0, AF_NETLINK), INT(2, NETLINK_ROUTE)),
    INTERNET(AF_INET, IPPROTO_ICMP),
    INTERNET(AF_INET6, IPPROTO_ICMPV6),
    OTHERWISE(NO_FAMILY),
};

/* A lease makes the host's open() of a workspace file wait for 45 s; a
 * delegation (F_SETDELEG, Linux 6.19) is one by another name. */
#define F_SETDELEG_ 1040

static const struct gbx__filter_rule fcntl_rules[] = {
    RULE(REFUSE, INT(1, F_SETLEASE)),
    RULE(REFUSE, INT(1, F_SETDELEG_)),
    RULE(ALLOW, BELOW(1, 64)),
    RULE(INVALID, BELOW(1, 1024)),
    /* F_GETLEASE, F_NOTIFY, F_DUPFD_CLOEXEC, pipes, seals, hints. */
    RULE(ALLOW, BELOW(1, 1040)),
    OTHERWISE(INVALID),
};

/* Allowed but for a few requests. The first two put input into a terminal,
 * which a shell on the host may read. The third loads line disciplines, of
 * modems and radios: kernel code with a history, which a box with a terminal
 * could else reach. Those of sockets load the modules of bridges, VLANs and
 * frame relay before anybody asks for a capability. By the lower 16 bits, type
 * and number: the upper ones say size and direction, and no request of these
 * numbers has any. */
#define SIOCADDDLCI_     0x8980 /* no longer in headers */
#define SIOCDELDLCI_     0x8981
#define REQUEST(request) RULE(REFUSE, BITS(1, 0xffff, request))
static const struct gbx__filter_rule ioctl_rules[] = {
    REQUEST(TIOCSTI),      REQUEST(TIOCLINUX),    REQUEST(TIOCSETD),
    REQUEST(SIOCGIFBR),    REQUEST(SIOCSIFBR),    REQUEST(SIOCBRADDBR),
    REQUEST(SIOCBRDELBR),  REQUEST(SIOCGIFVLAN),  REQUEST(SIOCSIFVLAN),
    REQUEST(SIOCADDDLCI_), REQUEST(SIOCDELDLCI_), OTHERWISE(ALLOW),
};

/* The limits of pid 1. For this the kernel asks only whether it is the same
 * user, which init is. */
static const struct gbx__filter_rule prlimit_rules[] = {
    RULE(REFUSE, INT(0, 1)),
    OTHERWISE(ALLOW),
};

/* Linux, 32-bit Linux, either with an old version number, and the question
 * which it is. The rest emulates other systems or weakens ASLR. */
static const struct gbx__filter_rule personality_rules[] = {
    RULE(ALLOW, BITS(0, ~(uint32_t)(PER_LINUX32 | UNAME26), PER_LINUX)),
    RULE(ALLOW, INT(0, 0xffffffff)),
    OTHERWISE(REFUSE),
};

/* A filter on top of this one can only forbid more, so a box may have it. A
 * listener could answer "continue"; the kernel allows no second one either. */
static const struct gbx__filter_rule seccomp_rules[] = {
    RULE(REFUSE, ANY(1, SECCOMP_FILTER_FLAG_NEW_LISTENER)),
    OTHERWISE(ALLOW),
};

static const struct argument_rules argument_rules[] = {
    RULES("clone", clone_rules),
    RULES("fcntl", fcntl_rules),
    RULES("ioctl", ioctl_rules),
    RULES("personality", personality_rules),
    RULES("prlimit64", prlimit_rules),
    RULES("seccomp", seccomp_rules),
    RULES("socket socketpair", socket_rules),
    RULES("unshare", unshare_rules),
};

/* ---- What entering a box takes ------------------------------------------ */

/* Instead of what is said above about the same calls. */

static const struct call_group zygote_groups[] = {
    {ALLOW, "setns seccomp"},
    /* For the scopes of a box that shares the host's network. */
    {ALLOW, "landlock_create_ruleset landlock_restrict_self"},
};

static const struct gbx__filter_rule zygote_unshare_rules[] = {
    RULE(ALLOW, INT(0, CLONE_NEWUSER)),
    UNSHARE_RULES,
};

static const struct argument_rules zygote_argument_rules[] = {
    RULES("unshare", zygote_unshare_rules),
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

/* ---- Compiling ---------------------------------------------------------- */

struct compiler {
  struct gbx__filter_policy policy;
  bool decided[GBX__FILTER_CALLS];
  bool zygote;
  struct gbx_err* err;
};

static uint32_t action_of(const struct gbx__filter_options* options,
                          enum verdict verdict) {
  switch (verdict) {
    case ALLOW:
      return SECCOMP_RET_ALLOW;
    case REFUSE:
      return SECCOMP_RET_ERRNO | EPERM;
    case NO_FAMILY:
      return SECCOMP_RET_ERRNO | EAFNOSUPPORT;
    case NO_TYPE:
      return SECCOMP_RET_ERRNO | ESOCKTNOSUPPORT;
    case NO_PROTOCOL:
      return SECCOMP_RET_ERRNO | EPROTONOSUPPORT;
    case INVALID:
      return SECCOMP_RET_ERRNO | EINVAL;
    case UNKNOWN:
      return SECCOMP_RET_ERRNO | ENOSYS;
    case KILL:
    case VERDICTS:
      break;
  }
  return options->zygote   ? SECCOMP_RET_TRACE
         : options->notify ? SECCOMP_RET_USER_NOTIF
                           : SECCOMP_RET_KILL_PROCESS;
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

/* False: the architecture has no such call. */
static bool find_call(uint32_t arch, const char* name, size_t* ret_number) {
  int number = seccomp_syscall_resolve_name_arch(arch, name);
  for (size_t i = 0; i < NEWER_CALLS && number == __NR_SCMP_ERROR; i++)
    if (strcmp(newer_calls[i].name, name) == 0) number = newer_calls[i].number;
  /* Below 0: one that only other architectures have. */
  if (number < 0) return false;
  *ret_number = (size_t)number;
  return true;
}

/* `names` with one space between them. */
static int decide(struct compiler* compiler, const char* names,
                  struct gbx__filter_call call) {
  while (*names != '\0') {
    char name[32];
    size_t number;
    size_t length = strcspn(names, " ");
    if (length >= sizeof name)
      return gbx_fail(compiler->err, GBX_E_START, ENAMETOOLONG,
                      "seccomp filter", "%s", names);
    memcpy(name, names, length);
    name[length] = '\0';
    names += length;
    names += strspn(names, " ");
    if (!find_call(compiler->policy.arch, name, &number)) continue;
    if (number >= GBX__FILTER_CALLS)
      return gbx_fail(compiler->err, GBX_E_START, ERANGE, "seccomp filter",
                      "%s is number %zu", name, number);
    if (compiler->decided[number]) {
      if (compiler->zygote) continue; /* its own tables come first */
      return gbx_fail(compiler->err, GBX_E_START, EEXIST, "seccomp filter",
                      "two verdicts on %s", name);
    }
    compiler->decided[number] = true;
    compiler->policy.calls[number] = call;
  }
  return 0;
}

static int add_groups(struct compiler* compiler,
                      const struct call_group* groups, size_t count) {
  int result = 0;
  for (size_t i = 0; i < count && result == 0; i++)
    result = decide(compiler, groups[i].calls,
                    (struct gbx__filter_call){.verdict = groups[i].verdict});
  return result;
}

static int add_rules(struct compiler* compiler,
                     const struct argument_rules* rules, size_t count) {
  int result = 0;
  for (size_t i = 0; i < count && result == 0; i++)
    result = decide(compiler, rules[i].calls,
                    (struct gbx__filter_call){.rules = rules[i].rules,
                                              .rule_count = rules[i].count});
  return result;
}

#define ADD(what, compiler, table) \
  add_##what(compiler, table, sizeof(table) / sizeof((table)[0]))

static int add_tables(struct compiler* compiler,
                      const struct gbx__filter_options* options) {
  if (options->init) return ADD(groups, compiler, init_groups);
  int result = 0;
  if (options->zygote) result = ADD(groups, compiler, zygote_groups);
  if (options->zygote && result == 0)
    result = ADD(rules, compiler, zygote_argument_rules);
  if (result == 0) result = ADD(groups, compiler, payload_groups);
  if (result == 0) result = ADD(rules, compiler, argument_rules);
  return result;
}

static bool action_available(uint32_t action) {
  return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

int gbx__filter_compile(const struct gbx__filter_options* options,
                        uint8_t** ret_program, size_t* ret_size,
                        struct gbx_err* err) {
  if (options->init + options->notify + options->zygote > 1)
    return gbx_fail(err, GBX_E_INVALID, EINVAL, "seccomp filter",
                    "two of init, notify and zygote");
  uint32_t arch = options->arch != 0 ? options->arch : seccomp_arch_native();
  /* The table speaks of these two. On others numbers, argument orders and
   * multiplexers such as socketcall differ, and a filter would not hold. */
  if (arch != SCMP_ARCH_X86_64 && arch != SCMP_ARCH_AARCH64)
    return gbx_fail(err, GBX_E_UNSUPPORTED, ENOTSUP, "seccomp_arch_native",
                    "0x%x", arch);
  /* Also where a container around us forbids seccomp(2). */
  if (!action_available(SECCOMP_RET_KILL_PROCESS))
    return gbx_fail(err, GBX_E_UNSUPPORTED, errno, "seccomp",
                    "SECCOMP_RET_KILL_PROCESS");

  uint32_t actions[VERDICTS];
  for (unsigned i = 0; i < VERDICTS; i++)
    actions[i] = action_of(options, (enum verdict)i);
  cleanup_free struct compiler* compiler = malloc(sizeof *compiler);
  if (compiler == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "filter");
  *compiler = (struct compiler){
      .zygote = options->zygote,
      .err = err,
      /* int 0x80 and x32 reach the same kernel by other numbers. */
      .policy = {.actions = actions,
                 .arch = arch,
                 .has_x32 = arch == SCMP_ARCH_X86_64,
                 .foreign = KILL,
                 .otherwise = options->init ? KILL : UNKNOWN}};
  for (size_t i = 0; i < GBX__FILTER_CALLS; i++)
    compiler->policy.calls[i].verdict = compiler->policy.otherwise;
  int result = add_tables(compiler, options);
  if (result < 0) return result;
  return gbx__filter_write(&compiler->policy, ret_program, ret_size, err);
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
    case NO_PROTOCOL:
      return "EPROTONOSUPPORT";
    case INVALID:
      return "EINVAL";
    case UNKNOWN:
      return "ENOSYS";
    case VERDICTS:
      break;
  }
  return "kill";
}

void gbx_filter_list(gbx_verdict_cb cb, void* data) {
  for (size_t i = 0; i < sizeof payload_groups / sizeof payload_groups[0]; i++)
    cb(data, verdict_name(payload_groups[i].verdict), payload_groups[i].calls);
  for (size_t i = 0; i < sizeof argument_rules / sizeof argument_rules[0]; i++)
    cb(data, "arguments", argument_rules[i].calls);
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
  const int x32_bit = 0x40000000;
  if (arch == SCMP_ARCH_X86_64 && number >= x32_bit) arch = SCMP_ARCH_X32;
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
