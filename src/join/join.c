/* SPDX-License-Identifier: Apache-2.0 */
#include "join/join.h"

#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/resource.h>
#include <linux/sched.h>
#include <linux/seccomp.h>

#include "common/landlock.h"
#include "join/bare.h"

/* ---- Without a libc ---------------------------------------------------- */

/* The compiler may call it for any initialiser. */
void* memset(void* to, int byte, unsigned long size);
void* memset(void* to, int byte, unsigned long size) {
  char* at = to;
  /* Keeps the loop from being turned into a call of memset. */
  for (; size > 0; size--, at++)
    *(volatile char*)at = (char)byte;
  return to;
}

/* And this one for any copy of a struct. */
void* memcpy(void* to, const void* from, unsigned long size);
void* memcpy(void* to, const void* from, unsigned long size) {
  char* at = to;
  const char* next = from;
  for (; size > 0; size--, at++, next++)
    *(volatile char*)at = *next;
  return to;
}

static long write_file(const char* path, const char* text, long size) {
  long fd = call(__NR_openat, BARE_AT_FDCWD, (long)path,
                 BARE_O_WRONLY | BARE_O_CLOEXEC, 0);
  if (fd < 0) return fd;
  long result = call(__NR_write, fd, (long)text, size, 0);
  (void)call(__NR_close, fd, 0, 0, 0);
  return result < 0 ? result : 0;
}

/* ---- The steps --------------------------------------------------------- */

static long enter_namespaces(const struct gbx_join* join) {
  static const int kinds[GBX_JOIN_NAMESPACES] = {
      CLONE_NEWNET, CLONE_NEWIPC, CLONE_NEWUTS, CLONE_NEWCGROUP, CLONE_NEWNS};
  for (int i = 0; i < GBX_JOIN_NAMESPACES; i++) {
    if (i == GBX_JOIN_NET && join->shares_network != 0) continue;
    /* With its kind: a descriptor of another namespace is an error. */
    long result = call(__NR_setns, join->namespace_fd[i], kinds[i], 0, 0);
    if (result < 0) return result;
  }
  return 0;
}

/* The interpreter's own descriptors, and those of the boxes it joined to
 * before, must not be seen by this one. */
static long close_others(const struct gbx_join* join) {
  unsigned next = 3;
  for (int i = 0; i < 4; i++) {
    if (join->keep_fd[i] < 0) continue;
    unsigned kept = (unsigned)join->keep_fd[i];
    if (kept > next) {
      long result = call(__NR_close_range, next, kept - 1, 0, 0);
      if (result < 0) return result;
    }
    if (kept >= next) next = kept + 1;
  }
  return call(__NR_close_range, next, ~0u, 0, 0);
}

/* A user namespace of its own, in which the kernel counts the processes. Our
 * uid stays what it is. It also brings the capabilities for the next steps. */
static long nest(void) {
  long result = call(__NR_unshare, CLONE_NEWUSER, 0, 0, 0);
  /* The change of credentials made our own /proc files root's. */
  if (result == 0) result = call(__NR_prctl, PR_SET_DUMPABLE, 1, 0, 0);
  /* Denied first, or the kernel refuses the gid_map. */
  if (result == 0) result = write_file("/proc/self/setgroups", "deny", 4);
  if (result == 0) result = write_file("/proc/self/gid_map", "1000 1000 1", 11);
  if (result == 0) result = write_file("/proc/self/uid_map", "1000 1000 1", 11);
  return result;
}

static long bound_processes(unsigned long pids) {
  unsigned long limit[2];
  long result = call(__NR_prlimit64, 0, RLIMIT_NPROC, 0, (long)limit);
  if (result < 0) return result;
  /* Hard too: for good. Only a privileged process may go above what it is. */
  if (pids < limit[1]) limit[1] = pids;
  limit[0] = limit[1];
  return call(__NR_prlimit64, 0, RLIMIT_NPROC, (long)limit, 0);
}

static long drop_capabilities(void) {
  /* The bounding set first, while CAP_SETPCAP is there. */
  for (long cap = 0; cap < 64; cap++) {
    long held = call(__NR_prctl, PR_CAPBSET_READ, cap, 0, 0);
    if (held < 0) break; /* the kernel knows no more */
    long result = held == 1 ? call(__NR_prctl, PR_CAPBSET_DROP, cap, 0, 0) : 0;
    if (result < 0) return result;
  }
  long result =
      call(__NR_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0);
  if (result < 0) return result;
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[2] = {{0}};
  return call(__NR_capset, (long)&header, (long)none, 0, 0);
}

static long scope_self(void) {
  const struct gbx_landlock_ruleset rules = GBX_LANDLOCK_SCOPES;
  long fd =
      call(__NR_landlock_create_ruleset, (long)&rules, sizeof rules, 0, 0);
  if (fd < 0) return fd;
  long result = call(__NR_landlock_restrict_self, fd, 0, 0, 0);
  (void)call(__NR_close, fd, 0, 0, 0);
  return result;
}

static long load_filter(const struct gbx_join* join) {
  struct sock_fprog program = {.len = (unsigned short)join->filter_count,
                               .filter = (struct sock_filter*)join->filter};
  return call(__NR_seccomp, SECCOMP_SET_MODE_FILTER,
              join->listener != 0 ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0,
              (long)&program, 0);
}

#define STEP(step, expression)   \
  do {                           \
    long result_ = (expression); \
    if (result_ < 0) {           \
      join->ret_step = (step);   \
      return result_;            \
    }                            \
  } while (0)

__attribute__((visibility("default"))) long gbx_join(struct gbx_join* join) {
  join->ret_listener = -1;
  join->ret_step = 0;
  STEP(GBX_JOIN_STEP_VERSION,
       join->version == GBX_JOIN_VERSION ? 0 : -22 /* EINVAL */);
  STEP(GBX_JOIN_STEP_SETNS, enter_namespaces(join));
  /* Entering a mount namespace moves the root; this moves the cwd out of the
   * interpreter's. */
  STEP(GBX_JOIN_STEP_CHDIR, call(__NR_chdir, (long)"/workspace", 0, 0, 0));
  STEP(GBX_JOIN_STEP_CLOSE, close_others(join));
  if (join->pids != 0) {
    STEP(GBX_JOIN_STEP_NEST, nest());
    /* After it: before, the whole user would be counted. */
    STEP(GBX_JOIN_STEP_NPROC, bound_processes(join->pids));
  }
  STEP(GBX_JOIN_STEP_CAPS, drop_capabilities());
  /* As a program is that was executed; its capabilities made us another. */
  STEP(GBX_JOIN_STEP_DUMPABLE, call(__NR_prctl, PR_SET_DUMPABLE, 1, 0, 0));
  STEP(GBX_JOIN_STEP_NO_NEW_PRIVS,
       call(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0));
  if (join->scoped != 0) STEP(GBX_JOIN_STEP_SCOPE, scope_self());
  /* Last, since it forbids most of the above. */
  long listener = load_filter(join);
  STEP(GBX_JOIN_STEP_FILTER, listener);
  if (join->listener != 0) join->ret_listener = (int32_t)listener;
  return 0;
}
