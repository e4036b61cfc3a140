/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_ENGINE_SECCOMP_FILTER_H_
#define SRC_ENGINE_SECCOMP_FILTER_H_

/* What code in a box may ask of the kernel, as a program that the kernel runs
 * before each system call. docs/seccomp.md has the verdicts with their reasons,
 * seccomp_filter.c the table they come from. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct gbx__filter_options {
  /* The kill set, and every call of a foreign architecture, answers with
   * USER_NOTIF instead of KILL_PROCESS: whoever holds the listener learns which
   * call it was, and must kill the box. Only where gbx__filter_can_notify();
   * the program must then be loaded with SECCOMP_FILTER_FLAG_NEW_LISTENER, or
   * the kill set merely fails with ENOSYS. Not together with `init`. */
  bool notify;
  /* For a process that forks payloads into boxes: it may enter namespaces too.
   * Its payloads load the usual filter on top, and what that one reports to a
   * listener or kills must not fail in this one before: of the two verdicts the
   * stricter one counts, and TRACE, which without a tracer is ENOSYS, is the
   * only one that forbids and is less strict than USER_NOTIF. Alone. */
  bool zygote;
  bool init;     /* for a box's pid 1 after its set-up: a few dozen calls */
  uint32_t arch; /* SCMP_ARCH_...; 0 is the native one, others are for tests */
};

/* Compiles the filter that `options` ask for: an array of struct sock_filter
 * for seccomp(2). The caller frees *ret_program with free(); *ret_size is in
 * bytes. Any thread; starts nothing: once a policy, not once a box.
 * GBX_E_UNSUPPORTED: an architecture without a table, or seccomp(2) is not to
 * be had. GBX_E_NO_MEMORY. GBX_E_START: libseccomp refused a rule. */
int gbx__filter_compile(const struct gbx__filter_options* options,
                        uint8_t** ret_program, size_t* ret_size,
                        struct gbx_err* err);

/* The name of a call that a listener reported: `arch` is its AUDIT_ARCH_. The
 * number, as text, where there is no name. */
void gbx__filter_name_syscall(uint32_t arch, int number, char* ret_name,
                              size_t size);

/* Whether this kernel can hand a call to a listener (Linux 5.0). */
bool gbx__filter_can_notify(void);

#endif  // SRC_ENGINE_SECCOMP_FILTER_H_
