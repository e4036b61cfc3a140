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

/* Makes `to` of each verdict of the action `from` (SECCOMP_RET_... without
 * data). Nothing else changes: which call gets which verdict stays the same. */
void gbx_bpf_replace(struct sock_filter* program, size_t length, uint32_t from,
                     uint32_t to);

#endif  // SRC_COMMON_BPF_H_
