/* SPDX-License-Identifier: Apache-2.0 */
// clang-format off
/* sources: src/engine/seccomp_filter.c src/engine/filter_program.c src/common/error.c src/common/fd.c src/common/bpf.c libs: -lseccomp */
// clang-format on

/* The compiled filters against what they are meant to say, in an interpreter:
 * every system call number, and for the calls whose arguments decide every
 * flag, with bits set that the kernel throws away. Nothing is loaded here;
 * filter_live_test.c asks the kernel. */

#include <errno.h>
#include <linux/audit.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "common/bpf.h"
#include "engine/seccomp_filter.h"
#include "expect.h"

#define X32_BIT     0x40000000
#define LAST_NUMBER 600

/* What a filter says, in the words of the verdict files. */
static const char* verdict_name(uint32_t action) {
  switch (action) {
    case SECCOMP_RET_ALLOW:
      return "allow";
    case SECCOMP_RET_KILL_PROCESS:
      return "kill";
    case SECCOMP_RET_USER_NOTIF:
      return "notify";
    case SECCOMP_RET_TRACE:
      return "trace";
    case SECCOMP_RET_ERRNO | EPERM:
      return "eperm";
    case SECCOMP_RET_ERRNO | ENOSYS:
      return "enosys";
    case SECCOMP_RET_ERRNO | EINVAL:
      return "einval";
    case SECCOMP_RET_ERRNO | EAFNOSUPPORT:
      return "eafnosupport";
    case SECCOMP_RET_ERRNO | ESOCKTNOSUPPORT:
      return "esocktnosupport";
    case SECCOMP_RET_ERRNO | EPROTONOSUPPORT:
      return "eprotonosupport";
    default:
      return "something else";
  }
}

struct filter {
  struct sock_filter* program;
  struct sock_filter* asking; /* the same for a traced box */
  struct sock_filter* above;  /* what a zygote's payload loads on top of it */
  size_t length;
  size_t above_length;
  uint32_t arch; /* AUDIT_ARCH_..., which SCMP_ARCH_... equals */
  bool notify;
  bool zygote;
  int longest; /* instructions of the longest path that ran */
};

/* What the running test is about. */
static struct filter filter;

static struct sock_filter* compile_one(struct gbx__filter_options options,
                                       size_t* ret_length) {
  uint8_t* bytes = NULL;
  size_t size = 0;
  struct gbx_err err = {0};
  if (gbx__filter_compile(&options, &bytes, &size, &err) != 0) {
    printf("Bail out! no filter: %s %s %d\n", err.op, err.detail,
           err.sys_errno);
    exit(1);
  }
  *ret_length = size / sizeof(struct sock_filter);
  return (struct sock_filter*)(void*)bytes;
}

static void release(void) {
  free(filter.program);
  free(filter.asking);
  free(filter.above);
}

static void compile(struct gbx__filter_options options) {
  release();
  filter = (struct filter){
      .arch = options.arch != 0 ? options.arch : seccomp_arch_native(),
      .notify = options.notify,
      .zygote = options.zygote,
  };
  filter.program = compile_one(options, &filter.length);
  size_t size = filter.length * sizeof *filter.program;
  filter.asking = malloc(size);
  if (filter.asking == NULL) exit(1);
  memcpy(filter.asking, filter.program, size);
  gbx_bpf_replace(filter.asking, filter.length, SECCOMP_RET_ERRNO,
                  SECCOMP_RET_USER_NOTIF);
  if (!options.zygote) return;
  const struct gbx__filter_options payload = {.notify = true,
                                              .arch = options.arch};
  filter.above = compile_one(payload, &filter.above_length);
}

/* Whatever is asked of the filter is asked of that of a traced box as well: it
 * must refuse nothing by itself, and otherwise say the same. */
static bool asks_about_refusals_only(const struct seccomp_data* data,
                                     uint32_t usual, int usual_steps) {
  uint32_t action = 0;
  int steps = gbx_bpf_run(filter.asking, filter.length, data, &action);
  bool refuses = (usual & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO;
  return steps == usual_steps &&
         action == (refuses ? SECCOMP_RET_USER_NOTIF : usual);
}

/* The action of two filters: the kernel takes the lesser one, as a signed
 * number, and of equal ones that of the filter that came last. */
static uint32_t stricter(uint32_t last, uint32_t first) {
  bool is_first = (int32_t)(first & SECCOMP_RET_ACTION_FULL) <
                  (int32_t)(last & SECCOMP_RET_ACTION_FULL);
  return is_first ? first : last;
}

/* A payload of a zygote has both filters, and must not be told another thing
 * than one with its own alone. */
static bool leaves_it_to_the_payload(const struct seccomp_data* data,
                                     uint32_t action) {
  uint32_t wanted = 0;
  return gbx_bpf_run(filter.above, filter.above_length, data, &wanted) > 0 &&
         stricter(wanted, action) == wanted;
}

static const char* ask(const struct seccomp_data* data) {
  uint32_t action = 0;
  int steps = gbx_bpf_run(filter.program, filter.length, data, &action);
  if (steps < 0) return "no valid program";
  if (!asks_about_refusals_only(data, action, steps))
    return "another thing if traced";
  if (filter.zygote && !leaves_it_to_the_payload(data, action))
    return "another thing than the payload's filter";
  if (steps > filter.longest) filter.longest = steps;
  return verdict_name(action);
}

/* The kill set of a filter with `notify` has another name, and that of a zygote
 * a third: a filter that is loaded on top of it still has its say. */
static bool matches(const char* got, const char* wanted) {
  if (filter.zygote && strcmp(wanted, "kill") == 0) wanted = "trace";
  if (filter.notify && strcmp(wanted, "kill") == 0) wanted = "notify";
  return strcmp(got, wanted) == 0;
}

/* ---- Every number ------------------------------------------------------- */

struct row {
  char name[32];
  char verdict[16];
};

/* The verdict file by number; an unassigned number has no name. */
static struct row rows[LAST_NUMBER + 1];

static void read_verdicts(void) {
  char path[512];
  const char* slash = strrchr(__FILE__, '/');
  int folder = slash != NULL ? (int)(slash - __FILE__ + 1) : 0;
  (void)snprintf(path, sizeof path, "%.*ssyscall-verdicts-%s.txt", folder,
                 __FILE__,
                 filter.arch == SCMP_ARCH_X86_64 ? "x86_64" : "aarch64");
  for (int number = 0; number <= LAST_NUMBER; number++)
    rows[number] = (struct row){"", "enosys"};
  FILE* file = fopen(path, "re");
  expect(file != NULL, path, __FILE__, __LINE__);
  if (file == NULL) return;
  char line[128];
  while (fgets(line, sizeof line, file) != NULL) {
    if (line[0] == '#') continue;
    int number = -1;
    struct row row;
    bool good =
        sscanf(line, "%d %31s %15s", &number, row.name, row.verdict) == 3 &&
        number >= 0 && number <= LAST_NUMBER && rows[number].name[0] == '\0';
    expect(good, line, path, number);
    if (good) rows[number] = row;
  }
  (void)fclose(file);
}

/* Neither a misspelt name nor a call that nobody decided about hides. */
static void test_names(void) {
  for (int number = 0; number <= LAST_NUMBER; number++) {
    const char* name = rows[number].name;
    int resolved = name[0] != '\0'
                       ? seccomp_syscall_resolve_name_arch(filter.arch, name)
                       : __NR_SCMP_ERROR;
    char* known = seccomp_syscall_resolve_num_arch(filter.arch, number);
    bool good = (resolved == number || resolved == __NR_SCMP_ERROR) &&
                (known == NULL || strcmp(known, name) == 0);
    if (!good)
      printf("# %d: \"%s\" here, \"%s\" there\n", number, name,
             known != NULL ? known : "");
    EXPECT(good);
    free(known);
  }
}

/* What else entering a box takes. */
static bool is_of_zygotes(const char* name) {
  return strcmp(name, "setns") == 0 || strcmp(name, "seccomp") == 0 ||
         strcmp(name, "landlock_create_ruleset") == 0 ||
         strcmp(name, "landlock_restrict_self") == 0;
}

static void test_numbers(void) {
  for (int number = 0; number <= LAST_NUMBER; number++) {
    struct seccomp_data data = {.nr = number, .arch = filter.arch};
    const char* got = ask(&data);
    const char* wanted = rows[number].verdict;
    if (filter.zygote && is_of_zygotes(rows[number].name)) wanted = "allow";
    bool good = matches(got, wanted);
    if (!good)
      printf("# %d %s: %s, not %s\n", number, rows[number].name, got, wanted);
    EXPECT(good);
  }
  printf("# %zu instructions, at most %d run for one call\n", filter.length,
         filter.longest);
  /* Whoever makes a box waits for the kernel to take them in. */
  EXPECT(filter.length <= 160 && filter.longest <= 32);
}

/* ---- Foreign calls ------------------------------------------------------ */

static void expect_all_killed(uint32_t arch, int bits) {
  for (int number = 0; number <= LAST_NUMBER; number++) {
    struct seccomp_data data = {.nr = number | bits, .arch = arch};
    bool good = matches(ask(&data), "kill");
    if (!good) printf("# call 0x%x of arch 0x%x\n", number | bits, arch);
    EXPECT(good);
  }
}

static void test_foreign(void) {
  static const uint32_t others[] = {
      AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64, 0,
  };
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    if (others[i] != filter.arch) expect_all_killed(others[i], 0);
  if (filter.arch == AUDIT_ARCH_X86_64)
    expect_all_killed(AUDIT_ARCH_X86_64, X32_BIT);
}

static void test_skipped_call(void) {
  struct seccomp_data data = {.nr = -1, .arch = filter.arch};
  EXPECT(matches(ask(&data), "enosys"));
}

/* ---- Arguments ---------------------------------------------------------- */

/* The same policy once more, as a program would write it that sees what the
 * kernel sees. */
static const char* socket_verdict(uint32_t family, uint32_t type) {
  if (family == AF_UNIX || family == AF_NETLINK) return "allow";
  if (family != AF_INET && family != AF_INET6) return "eafnosupport";
  switch (type & 0xf) {
    case SOCK_STREAM:
    case SOCK_DGRAM:
      return "allow"; /* of protocol 0 */
    case SOCK_RAW:
    case SOCK_PACKET:
      return "eperm";
    default:
      return "esocktnosupport";
  }
}

static const char* unshare_verdict(uint64_t flags) {
  if ((flags & (0x7e020000 | 0x80 | 0x00100000)) != 0) return "kill";
  return (flags & ~(uint64_t)0x00050f00) == 0 ? "allow" : "enosys";
}

/* To enter a box a zygote makes the namespace in which processes are counted,
 * and no other beside it. */
static const char* zygote_unshare_verdict(uint64_t flags) {
  return (uint32_t)flags == CLONE_NEWUSER ? "allow" : unshare_verdict(flags);
}

static const char* fcntl_verdict(uint32_t command) {
  if (command == 1024 || command == 1040) return "eperm";
  return command < 64 || (command > 1024 && command < 1040) ? "allow"
                                                            : "einval";
}

static const char* ioctl_verdict(uint32_t request) {
  static const uint32_t refused[] = {0x5412, 0x541c, 0x5423, 0x8940,
                                     0x8941, 0x8980, 0x8981, 0x8982,
                                     0x8983, 0x89a0, 0x89a1};
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
    if (refused[i] == request) return "eperm";
  return "allow";
}

static const char* expected(const char* call, uint64_t a0, uint64_t a1) {
  uint32_t first = (uint32_t)a0;
  uint32_t second = (uint32_t)a1;
  if (strncmp(call, "socket", 6) == 0) return socket_verdict(first, second);
  if (strcmp(call, "clone") == 0)
    return (first & 0x7e020000) != 0   ? "kill"
           : (first & 0x00008000) != 0 ? "einval"
                                       : "allow";
  if (strcmp(call, "unshare") == 0)
    return filter.zygote ? zygote_unshare_verdict(a0) : unshare_verdict(a0);
  if (strcmp(call, "fcntl") == 0) return fcntl_verdict(second);
  if (strcmp(call, "ioctl") == 0) return ioctl_verdict(second & 0xffff);
  if (strcmp(call, "personality") == 0)
    return (first & ~0x20008u) == 0 || first == 0xffffffff ? "allow" : "eperm";
  if (strcmp(call, "prlimit64") == 0) return first == 1 ? "eperm" : "allow";
  if (strcmp(call, "seccomp") == 0 && filter.zygote) return "allow";
  if (strcmp(call, "seccomp") == 0)
    return (second & 8) != 0 ? "eperm" : "allow";
  return "allow";
}

struct call {
  const char* name;
  int number;
  int wrong;
};

static void try_arguments(struct call* call, uint64_t a0, uint64_t a1) {
  struct seccomp_data data = {
      .nr = call->number, .arch = filter.arch, .args = {a0, a1}};
  const char* got = ask(&data);
  const char* wanted = expected(call->name, a0, a1);
  if (matches(got, wanted)) return;
  if (call->wrong++ < 5)
    printf("# %s(%#llx, %#llx): %s, not %s\n", call->name,
           (unsigned long long)a0, (unsigned long long)a1, got, wanted);
}

/* Each pair plain, and with bits in the upper halves that the kernel does not
 * look at and libseccomp's plain comparisons do. */
static void try_with_high_bits(struct call* call, uint64_t a0, uint64_t a1) {
  const uint64_t high[] = {0, 1ull << 32, 1ull << 63, 0xffffffffull << 32};
  for (size_t i = 0; i < 4; i++)
    for (size_t j = 0; j < 4; j++)
      try_arguments(call, a0 | high[i], a1 | high[j]);
}

/* xorshift64: the same sequence in each run. */
static uint64_t next_random(uint64_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static uint64_t next_argument(uint64_t* state) {
  static const uint64_t seeds[] = {
      0,      AF_UNIX, AF_INET,     AF_INET6,   AF_NETLINK, SOCK_RAW,
      0x5412, 0x541c,  0x20008,     0xffffffff, 1024,       1032,
      1040,   0x50f00, 0x7e020000u, 8,          0x01200011, 0x80000000u,
  };
  uint64_t value = seeds[next_random(state) % (sizeof seeds / sizeof seeds[0])];
  uint64_t flips = next_random(state) % 4;
  for (uint64_t i = 0; i < flips; i++)
    value ^= 1ull << (next_random(state) % 64);
  return next_random(state) % 16 == 0 ? next_random(state) : value;
}

static void try_call(const char* name) {
  struct call call = {
      .name = name,
      .number = seccomp_syscall_resolve_name_arch(filter.arch, name),
  };
  for (uint64_t bit = 0; bit < 64; bit++) {
    try_with_high_bits(&call, 1ull << bit, 0);
    try_with_high_bits(&call, 0, 1ull << bit);
    /* As fork does it: SIGCHLD in the low byte. */
    try_with_high_bits(&call, 1ull << bit | 17, 0);
  }
  for (uint64_t family = 0; family < 64; family++)
    for (uint64_t type = 0; type < 16; type++)
      try_with_high_bits(&call, family, type | SOCK_CLOEXEC);
  for (uint64_t value = 0; value < 0x10000; value++) {
    try_arguments(&call, value, 0);
    try_arguments(&call, 0, value);
    try_arguments(&call, 0, value | 0xffffffff80040000);
  }
  uint64_t state = 0x9e3779b97f4a7c15;
  for (int i = 0; i < 20000; i++) {
    uint64_t a0 = next_argument(&state);
    try_arguments(&call, a0, next_argument(&state));
  }
  EXPECT(call.number >= 0 && call.wrong == 0);
}

static void test_arguments(void) {
  static const char* const names[] = {
      "clone", "unshare",     "socket",  "socketpair", "fcntl",
      "ioctl", "personality", "seccomp", "prlimit64",
  };
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    try_call(names[i]);
}

/* Of netlink a box has the routes: what glibc asks for addresses. */
static void test_netlink(void) {
  static const char* const names[] = {"socket", "socketpair"};
  for (size_t i = 0; i < 2; i++) {
    struct seccomp_data data = {
        .nr = seccomp_syscall_resolve_name_arch(filter.arch, names[i]),
        .arch = filter.arch,
        .args = {AF_NETLINK, SOCK_RAW}};
    int wrong = 0;
    for (unsigned bit = 0; bit < 64; bit++) {
      data.args[2] = 1ull << bit; /* the kernel takes an int */
      wrong += !matches(ask(&data), bit < 32 ? "eafnosupport" : "allow");
      data.args[2] |= 1ull << 63;
      wrong += !matches(ask(&data), bit < 32 ? "eafnosupport" : "allow");
    }
    for (uint64_t protocol = 1; protocol < 64; protocol++) {
      data.args[2] = protocol;
      wrong += !matches(ask(&data), "eafnosupport");
      data.args[0] = AF_NETLINK | 1ull << 32;
      wrong += !matches(ask(&data), "eafnosupport");
      data.args[0] = AF_NETLINK;
    }
    data.args[2] = 0;
    wrong += !matches(ask(&data), "allow");
    EXPECT(wrong == 0);
  }
}

static const char* protocol_verdict(uint32_t family, uint32_t type,
                                    uint32_t protocol) {
  const char* of_type = socket_verdict(family, type);
  if (strcmp(of_type, "allow") != 0 || protocol == 0) return of_type;
  bool is_stream = (type & 0xf) == SOCK_STREAM;
  uint32_t ping = family == AF_INET ? 1 : 58;
  bool known = is_stream ? protocol == 6 : protocol == 17 || protocol == ping;
  return known ? "allow" : "eprotonosupport";
}

static const char* ask_for_socket(const char* call, uint64_t family,
                                  uint64_t type, uint64_t protocol) {
  struct seccomp_data data = {
      .nr = seccomp_syscall_resolve_name_arch(filter.arch, call),
      .arch = filter.arch,
      .args = {family, type, protocol}};
  return ask(&data);
}

static int try_protocols(const char* call, uint32_t family, uint64_t type,
                         uint64_t above) {
  int wrong = 0;
  for (uint64_t i = 0; i < 332; i++) {
    uint64_t protocol = i < 300 ? i : 1ull << (i - 300);
    const char* got =
        ask_for_socket(call, family | above, type | above, protocol | above);
    const char* wanted =
        protocol_verdict(family, (uint32_t)type, (uint32_t)protocol);
    if (matches(got, wanted)) continue;
    if (wrong++ < 5)
      printf("# %s(%u, %#llx, %llu): %s, not %s\n", call, family,
             (unsigned long long)type, (unsigned long long)protocol, got,
             wanted);
  }
  return wrong;
}

static void test_protocols(void) {
  static const uint64_t high[] = {0, 1ull << 32, 1ull << 63};
  for (size_t i = 0; i < 3; i++)
    for (uint64_t type = 0; type < 16; type++) {
      EXPECT(try_protocols("socket", AF_INET, type, high[i]) == 0);
      EXPECT(try_protocols("socket", AF_INET6, type, high[i]) == 0);
      EXPECT(try_protocols("socketpair", AF_INET, type, high[i]) == 0);
      EXPECT(try_protocols("socketpair", AF_INET6, type, high[i]) == 0);
    }
}

/* The same by name. */
static void test_known_protocols(void) {
  static const struct {
    const char* title;
    uint64_t family, type, protocol;
    const char* wanted;
  } cases[] = {
      {"tcp", AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP, "allow"},
      {"udp", AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, IPPROTO_UDP, "allow"},
      {"ping", AF_INET, SOCK_DGRAM, IPPROTO_ICMP, "allow"},
      {"ping6", AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6, "allow"},
      {"sctp", AF_INET, SOCK_STREAM, IPPROTO_SCTP, "eprotonosupport"},
      {"sctp", AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP, "esocktnosupport"},
      {"sctp by its type", AF_INET6, SOCK_SEQPACKET, 0, "esocktnosupport"},
      {"dccp", AF_INET, SOCK_DCCP, IPPROTO_DCCP, "esocktnosupport"},
      {"dccp by its type", AF_INET6, SOCK_DCCP, 0, "esocktnosupport"},
      {"l2tp", AF_INET, SOCK_DGRAM, 115, "eprotonosupport"},
      {"udplite", AF_INET6, SOCK_DGRAM, IPPROTO_UDPLITE, "eprotonosupport"},
      {"mptcp", AF_INET, SOCK_STREAM, 262, "eprotonosupport"},
      {"mptcp, bit 32", AF_INET, SOCK_STREAM, 262 | 1ull << 32,
       "eprotonosupport"},
      {"smc", AF_INET, SOCK_STREAM, 256, "eprotonosupport"},
      {"unix", AF_UNIX, SOCK_SEQPACKET, 1, "allow"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const char* got = ask_for_socket("socket", cases[i].family, cases[i].type,
                                     cases[i].protocol);
    bool good = matches(got, cases[i].wanted);
    if (!good)
      printf("# %s: %s, not %s\n", cases[i].title, got, cases[i].wanted);
    EXPECT(good);
  }
}

/* The reference above has the numbers; this has them by name, and says what
 * they are about. */
static void test_known_arguments(void) {
  static const struct {
    const char* title;
    const char* call;
    uint64_t a0, a1;
    const char* wanted;
  } cases[] = {
      {"fork", "clone", 0x01200011, 0, "allow"},
      {"a thread of glibc", "clone", 0x003d0f00, 0, "allow"},
      {"an exit signal of 0x80", "clone", 0x80, 0, "allow"},
      {"CLONE_IO", "clone", 0x80000000, 0, "allow"},
      {"a user namespace", "clone", CLONE_NEWUSER | 17, 0, "kill"},
      {"NS-08 with bit 32", "clone", CLONE_NEWUSER | 1ull << 32, 0, "kill"},
      {"nothing", "unshare", 0, 0, "allow"},
      {"fs and files", "unshare", CLONE_FS | CLONE_FILES, 0, "allow"},
      {"a time namespace", "unshare", 0x80, 0, "kill"},
      {"an empty mount namespace", "unshare", 0x00100000, 0, "kill"},
      {"user and mount", "unshare", CLONE_NEWUSER | CLONE_NEWNS, 0, "kill"},
      {"a flag of the future", "unshare", 0x00200000, 0, "enosys"},
      {"SYS-05 AF_VSOCK", "socket", 40 | 1ull << 32, 1, "eafnosupport"},
      {"SYS-05 AF_ALG", "socket", 38 | 1ull << 32, 1, "eafnosupport"},
      {"SYS-05 bit 63", "socket", 1ull << 63 | 40, 1, "eafnosupport"},
      {"AF_PACKET by its oldest name", "socket", AF_INET, 10, "eperm"},
      {"raw", "socket", AF_INET6, SOCK_RAW | SOCK_CLOEXEC, "eperm"},
      {"tcp", "socket", AF_INET, SOCK_STREAM | SOCK_NONBLOCK, "allow"},
      {"rtnetlink, a raw socket", "socket", AF_NETLINK, SOCK_RAW, "allow"},
      {"a pair", "socketpair", AF_UNIX, SOCK_SEQPACKET, "allow"},
      {"AF_TIPC", "socketpair", 30, SOCK_STREAM, "eafnosupport"},
      {"TIOCSTI", "ioctl", 0, TIOCSTI, "eperm"},
      {"SYS-11 with bit 32", "ioctl", 0, TIOCSTI | 1ull << 32, "eperm"},
      {"TIOCLINUX", "ioctl", 0, TIOCLINUX, "eperm"},
      {"TIOCSETD", "ioctl", 0, TIOCSETD, "eperm"},
      {"bridges", "ioctl", 0, SIOCGIFBR, "eperm"},
      {"a bridge, with bit 32", "ioctl", 0, SIOCBRADDBR | 1ull << 32, "eperm"},
      {"a VLAN", "ioctl", 0, SIOCSIFVLAN, "eperm"},
      {"a list of interfaces", "ioctl", 0, SIOCGIFCONF, "allow"},
      {"TCGETS", "ioctl", 0, TCGETS, "allow"},
      {"a request as musl passes it", "ioctl", 0, 0xffffffff80045430, "allow"},
      {"SYS-20 pid 1", "prlimit64", 1, 0, "eperm"},
      {"SYS-20 with bit 32", "prlimit64", 1 | 1ull << 32, 0, "eperm"},
      {"itself", "prlimit64", 0, 0, "allow"},
      {"itself by number", "prlimit64", 2, 0, "allow"},
      {"F_SETLEASE", "fcntl", 0, 1024, "eperm"},
      {"F_SETLEASE with bit 32", "fcntl", 0, 1024 | 1ull << 32, "eperm"},
      {"F_SETDELEG", "fcntl", 0, 1040, "eperm"},
      {"F_DUPFD_CLOEXEC", "fcntl", 0, 1030, "allow"},
      {"F_OFD_SETLKW", "fcntl", 0, 38, "allow"},
      {"the question", "personality", 0xffffffff, 0, "allow"},
      {"ADDR_NO_RANDOMIZE", "personality", 0x00040000, 0, "eperm"},
      {"a filter", "seccomp", 1, 1, "allow"},
      {"a listener", "seccomp", 1, 8, "eperm"},
      {"a listener, TSYNC", "seccomp", 1, 8 | 1 | 16, "eperm"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct seccomp_data data = {
        .nr = seccomp_syscall_resolve_name_arch(filter.arch, cases[i].call),
        .arch = filter.arch,
        .args = {cases[i].a0, cases[i].a1},
    };
    const char* got = ask(&data);
    const char* wanted = cases[i].wanted;
    if (filter.zygote && is_of_zygotes(cases[i].call)) wanted = "allow";
    bool good = matches(got, wanted);
    if (!good)
      printf("# %s, %s: %s, not %s\n", cases[i].call, cases[i].title, got,
             wanted);
    EXPECT(good);
  }
}

/* ---- Names -------------------------------------------------------------- */

/* libseccomp here may not know all; what it knows must not be said otherwise.
 */
static void test_call_names(void) {
  static const struct {
    uint32_t arch;
    int number;
    const char* name;
  } cases[] = {
      {AUDIT_ARCH_X86_64, 165, "mount"},
      {AUDIT_ARCH_AARCH64, 40, "mount"},
      {AUDIT_ARCH_X86_64, X32_BIT | 165, "mount"},
      {AUDIT_ARCH_X86_64, 457, "statmount"},
      {AUDIT_ARCH_AARCH64, 471, "rseq_slice_yield"},
      {AUDIT_ARCH_X86_64, 998, "998"},
      {AUDIT_ARCH_X86_64, -1, "-1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char name[40];
    gbx__filter_name_syscall(cases[i].arch, cases[i].number, name, sizeof name);
    bool good = strcmp(name, cases[i].name) == 0;
    if (!good)
      printf("# %d: %s, not %s\n", cases[i].number, name, cases[i].name);
    EXPECT(good);
  }
}

/* ---- init and misuse ---------------------------------------------------- */

static void test_init(void) {
  static const char allowed[] =
      " close exit exit_group getrusage recvmsg restart_syscall rt_sigreturn "
      "sendmsg waitid ";
  compile((struct gbx__filter_options){.init = true});
  for (int number = 0; number <= LAST_NUMBER; number++) {
    char* name = seccomp_syscall_resolve_num_arch(filter.arch, number);
    char word[64];
    (void)snprintf(word, sizeof word, " %s ", name != NULL ? name : "?");
    const char* wanted = strstr(allowed, word) != NULL ? "allow" : "kill";
    struct seccomp_data data = {.nr = number, .arch = filter.arch};
    const char* got = ask(&data);
    bool good = matches(got, wanted);
    if (!good) printf("# %d%s: %s, not %s\n", number, word, got, wanted);
    EXPECT(good);
    free(name);
  }
  test_foreign();
  printf("# %zu instructions\n", filter.length);
}

static void expect_refusal(struct gbx__filter_options options, int result,
                           enum gbx_code code) {
  uint8_t* program = NULL;
  size_t size = 7;
  struct gbx_err err = {0};
  EXPECT(gbx__filter_compile(&options, &program, &size, &err) == result);
  EXPECT(err.code == (int32_t)code);
  EXPECT(program == NULL && size == 7);
}

static void test_unsupported(void) {
  expect_refusal((struct gbx__filter_options){.arch = SCMP_ARCH_S390X},
                 -ENOTSUP, GBX_E_UNSUPPORTED);
}

/* What the launcher makes of the filter where nobody can listen. */
static void test_killing(void) {
  compile((struct gbx__filter_options){.notify = true});
  struct sock_filter* killing = filter.program;
  size_t length = filter.length;
  filter.program = NULL;
  gbx_bpf_replace(killing, length, SECCOMP_RET_USER_NOTIF,
                  SECCOMP_RET_KILL_PROCESS);
  compile((struct gbx__filter_options){.notify = false});
  EXPECT(length == filter.length &&
         memcmp(killing, filter.program, length * sizeof *killing) == 0);
  free(killing);
}

static void test_contradiction(void) {
  expect_refusal((struct gbx__filter_options){.init = true, .notify = true},
                 -EINVAL, GBX_E_INVALID);
}

/* ---- Which tests -------------------------------------------------------- */

static void run_for(const char* whose, struct gbx__filter_options options) {
  static const struct {
    const char* title;
    void (*test)(void);
  } tests[] = {
      {"the verdict file can be read", read_verdicts},
      {"the verdict file and libseccomp name the same calls", test_names},
      {"every number from 0 to 600 has its verdict", test_numbers},
      {"calls of another architecture are killed", test_foreign},
      {"number -1, a tracer's way to skip a call, is harmless",
       test_skipped_call},
      {"known good and bad arguments have their verdict", test_known_arguments},
      {"arguments decide as the kernel sees them", test_arguments},
      {"NET-05 of the internet's protocols only TCP, UDP and ping are to be "
       "had",
       test_protocols},
      {"known protocols have their verdict", test_known_protocols},
      {"NET-10 of netlink only routes are to be had", test_netlink},
  };
  compile(options);
  for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
    char title[128];
    (void)snprintf(title, sizeof title, "%s%s: %s",
                   options.arch == SCMP_ARCH_X86_64 ? "x86_64" : "aarch64",
                   whose, tests[i].title);
    run_test(title, tests[i].test);
  }
}

static void run_for_both(const char* whose, bool notify, bool zygote) {
  const uint32_t archs[] = {SCMP_ARCH_X86_64, SCMP_ARCH_AARCH64};
  for (size_t i = 0; i < 2; i++)
    run_for(whose, (struct gbx__filter_options){
                       .notify = notify, .zygote = zygote, .arch = archs[i]});
}

int main(void) {
  run_for_both("", false, false);
  run_for_both(" of a zygote", false, true);
  if (gbx__filter_can_notify()) {
    run_for_both(" with a listener", true, false);
    run_test("with kills for questions it is the filter without a listener",
             test_killing);
  } else {
    skip("filters with a listener: no SECCOMP_RET_USER_NOTIF here");
  }
  run_test("init may do what it needs and dies of all else", test_init);
  run_test("calls have the kernel's names, or their number", test_call_names);
  run_test("an architecture without a table is refused", test_unsupported);
  run_test("a filter for init with a listener is refused", test_contradiction);
  release();
  return done();
}
