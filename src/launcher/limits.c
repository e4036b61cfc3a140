/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/limits.h"

#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "common/fd.h"

/* RLIMIT_AS is never used: node reserves address space by the gigabyte and
 * dies under it, and it bounds neither memfd nor tmpfs. */
static const struct {
  int resource;
  const char* name;
  rlim_t soft, hard;
} fixed[] = {
    /* 1, not 0: it also keeps a core_pattern pipe from being started. */
    {RLIMIT_CORE, "CORE", 1, 1},
    {RLIMIT_STACK, "STACK", 8 << 20, 64 << 20},
    /* Kernel memory that is counted per user of the host: small. */
    {RLIMIT_MEMLOCK, "MEMLOCK", 8 << 20, 8 << 20},
    {RLIMIT_MSGQUEUE, "MSGQUEUE", 819200, 819200},
    {RLIMIT_SIGPENDING, "SIGPENDING", 4096, 4096},
    {RLIMIT_NICE, "NICE", 0, 0},
    {RLIMIT_RTPRIO, "RTPRIO", 0, 0},
};

/* Sets a limit without going above the hard limit that is in force, which only
 * a privileged process may raise. */
static int set_limit(int resource, const char* name, rlim_t soft, rlim_t hard,
                     struct gbx_err* err) {
  struct rlimit limit;
  if (getrlimit(resource, &limit) < 0)
    return gbx_fail(err, GBX_E_LIMIT, errno, "getrlimit", "%s", name);
  if (hard < limit.rlim_max) limit.rlim_max = hard;
  limit.rlim_cur = soft < limit.rlim_max ? soft : limit.rlim_max;
  if (setrlimit(resource, &limit) < 0)
    return gbx_fail(err, GBX_E_LIMIT, errno, "setrlimit", "%s", name);
  return 0;
}

int limits_set_fixed(struct gbx_err* err) {
  for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
    int result = set_limit(fixed[i].resource, fixed[i].name, fixed[i].soft,
                           fixed[i].hard, err);
    if (result < 0) return result;
  }
  return 0;
}

int limits_of_files(uint64_t* ret_soft, uint64_t* ret_hard,
                    struct gbx_err* err) {
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) < 0)
    return gbx_fail(err, GBX_E_LIMIT, errno, "getrlimit", "NOFILE");
  /* The kernel refuses to send descriptors over a socket while the user, in all
   * boxes together, has more of them on the way than the sender may have open.
   * With half of what launcher and init have, a box that keeps as many on the
   * way as it can does not keep others from starting. */
  *ret_hard = files.rlim_max / 2 < 4096 ? files.rlim_max / 2 : 4096;
  /* Node raised its own soft limit to the hard one; a payload that dups without
   * end must meet EMFILE before it bothers anybody. */
  *ret_soft = *ret_hard < 1024 ? *ret_hard : 1024;
  return 0;
}

int limits_set_files(struct gbx_err* err) {
  uint64_t soft = 0, hard = 0;
  int result = limits_of_files(&soft, &hard, err);
  if (result < 0) return result;
  return set_limit(RLIMIT_NOFILE, "NOFILE", soft, hard, err);
}

int limits_nest_for_pids(uint64_t pids, struct gbx_err* err) {
  if (unshare(CLONE_NEWUSER) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "unshare",
                    "nested user namespace");
  /* A process whose dumpable is 0 cannot open its own uid_map. */
  if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "PR_SET_DUMPABLE", "1");
  static const char* const writes[][2] = {
      /* Denied first: a gid_map of an unprivileged process is EPERM else. */
      {"/proc/self/setgroups", "deny"},
      {"/proc/self/gid_map", "1000 1000 1"},
      {"/proc/self/uid_map", "1000 1000 1"},
  };
  for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
    int result = fd_write_file(AT_FDCWD, writes[i][0], writes[i][1]);
    if (result < 0)
      return gbx_fail(err, GBX_E_SETUP, -result, "id map", "%s", writes[i][0]);
  }
  return pids == 0 ? 0 : limits_lower_pids(pids, err);
}

int limits_lower_pids(uint64_t pids, struct gbx_err* err) {
  return set_limit(RLIMIT_NPROC, "NPROC", pids, pids, err);
}

int limits_set_file_size(uint64_t bytes, struct gbx_err* err) {
  return set_limit(RLIMIT_FSIZE, "FSIZE", bytes, bytes, err);
}
