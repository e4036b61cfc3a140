/* SPDX-License-Identifier: Apache-2.0 */
#include "common/bpf.h"

#include <stdbool.h>
#include <string.h>

/* The jumps that compare: false for one that does not exist. */
static bool compare(uint16_t code, uint32_t left, uint32_t right,
                    bool* ret_truth) {
  switch (BPF_OP(code)) {
    case BPF_JEQ:
      *ret_truth = left == right;
      return true;
    case BPF_JGT:
      *ret_truth = left > right;
      return true;
    case BPF_JGE:
      *ret_truth = left >= right;
      return true;
    case BPF_JSET:
      *ret_truth = (left & right) != 0;
      return true;
    default:
      return false;
  }
}

int gbx_bpf_run(const struct sock_filter* program, size_t length,
                const struct seccomp_data* data, uint32_t* ret_action) {
  uint32_t accumulator = 0;
  int steps = 0;
  if (length > BPF_MAXINSNS) return -1;
  for (size_t at = 0; at < length; at++) {
    const struct sock_filter* step = &program[at];
    steps++;
    switch (step->code) {
      case BPF_LD | BPF_W | BPF_ABS:
        if (step->k % 4 != 0 || step->k > sizeof *data - 4) return -1;
        memcpy(&accumulator, (const uint8_t*)data + step->k, 4);
        break;
      case BPF_ALU | BPF_AND | BPF_K:
        accumulator &= step->k;
        break;
      case BPF_JMP | BPF_JA:
        if (step->k >= length - at - 1) return -1;
        at += step->k;
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
      case BPF_JMP | BPF_JGT | BPF_K:
      case BPF_JMP | BPF_JGE | BPF_K:
      case BPF_JMP | BPF_JSET | BPF_K: {
        bool truth = false;
        if (!compare(step->code, accumulator, step->k, &truth)) return -1;
        at += truth ? step->jt : step->jf;
        break;
      }
      case BPF_RET | BPF_K:
        *ret_action = step->k;
        return steps;
      default:
        return -1;
    }
  }
  return -1;
}

void gbx_bpf_replace(struct sock_filter* program, size_t length, uint32_t from,
                     uint32_t to) {
  for (size_t i = 0; i < length; i++) {
    struct sock_filter* step = &program[i];
    if (step->code == (BPF_RET | BPF_K) &&
        (step->k & SECCOMP_RET_ACTION_FULL) == from)
      step->k = to;
  }
}
