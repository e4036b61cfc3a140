/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_COMMON_BPF_H_
#define SRC_COMMON_BPF_H_

/* The programs of seccomp(2), outside of the kernel. */

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>

/* Runs a filter on a system call. Stores the SECCOMP_RET_... value in
 * *ret_action and returns the number of instructions that ran: at most
 * `length`, since jumps lead forward only. -1 for a program that the kernel
 * would not take, as far as this path shows: an unknown instruction, a jump or
 * a load that leaves its bounds, an end without a return. */
int gbx_bpf_run(const struct sock_filter* program, size_t length,
                const struct seccomp_data* data, uint32_t* ret_action);

/* Has a filter ask its listener about every call that it would refuse with an
 * errno. Nothing else changes: what it allows stays exactly what it was. */
void gbx_bpf_ask_about_errnos(struct sock_filter* program, size_t length);

#endif  // SRC_COMMON_BPF_H_
