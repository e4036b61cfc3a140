/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_C_BPF_INTERPRETER_H_
#define TEST_C_BPF_INTERPRETER_H_

/* Runs a seccomp filter on a system call that nobody makes. */

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>

/* Stores the SECCOMP_RET_... value in *ret_action and returns the number of
 * instructions that ran. -1 for a program that the kernel would not take, as
 * far as this path shows: an unknown instruction, a jump or a load that leaves
 * its bounds, an end without a return. */
int bpf_run(const struct sock_filter* program, size_t length,
            const struct seccomp_data* data, uint32_t* ret_action);

#endif  // TEST_C_BPF_INTERPRETER_H_
