/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_JOIN_JOIN_H_
#define SRC_JOIN_JOIN_H_

#include <stdint.h>

/* What an interpreter that was started ahead of need loads to become the
 * payload of a box that exists: it takes the calling process from outside into
 * the box and gives everything up, so that what runs next is as confined as a
 * payload that was executed there.
 *
 * The library needs no libc, so it can be loaded by programs of any (glibc and
 * musl), through /proc/self/fd/N, without lying in the box. One thread, one
 * call, no memory of its own. */

#define GBX_JOIN_VERSION 2

/* In the order in which they are entered; the pid namespace is entered before,
 * by setns(2) and a fork. */
enum gbx_join_namespace {
  GBX_JOIN_NET,
  GBX_JOIN_IPC,
  GBX_JOIN_UTS,
  GBX_JOIN_CGROUP,
  GBX_JOIN_MOUNT, /* last: paths change with it */
  GBX_JOIN_NAMESPACES,
};

/* Fixed width throughout: it is filled in by other languages. */
struct gbx_join {
  uint32_t version;                          /* GBX_JOIN_VERSION */
  int32_t namespace_fd[GBX_JOIN_NAMESPACES]; /* closed by the call */
  /* RLIMIT_NPROC, or what it is if that is less, in a user namespace of its
   * own; 0: neither. */
  uint64_t pids;
  uint64_t filter; /* address of struct sock_filter[] */
  uint32_t filter_count;
  uint32_t listener; /* 1: the filter's kill set reports to a listener */
  /* The box has the network namespace that the caller is in: GBX_JOIN_NET is
   * not entered, for which there would be no right. */
  uint32_t shares_network;
  uint32_t scoped;      /* Landlock shuts what that leaves open */
  int32_t keep_fd[4];   /* stay open, besides 0, 1, 2; -1 for none; ascending */
  int32_t ret_listener; /* out: the listener's descriptor, close-on-exec */
  uint32_t ret_step;    /* out: enum gbx_join_step of a failure */
};

enum gbx_join_step {
  GBX_JOIN_STEP_VERSION = 1,
  GBX_JOIN_STEP_SETNS,
  GBX_JOIN_STEP_CHDIR,
  GBX_JOIN_STEP_CLOSE,
  GBX_JOIN_STEP_NEST,
  GBX_JOIN_STEP_NPROC,
  GBX_JOIN_STEP_CAPS,
  GBX_JOIN_STEP_NO_NEW_PRIVS,
  GBX_JOIN_STEP_FILTER,
  GBX_JOIN_STEP_DUMPABLE,
  GBX_JOIN_STEP_SCOPE,
};

/* Needs CAP_SYS_ADMIN, CAP_SYS_CHROOT and CAP_SETPCAP in the user namespace
 * that owns the box, and a single-threaded caller. Returns 0, or a negative
 * errno with ret_step set: the process is then half in the box and must exit
 * without running anything else. */
long gbx_join(struct gbx_join* join);

#endif  // SRC_JOIN_JOIN_H_
