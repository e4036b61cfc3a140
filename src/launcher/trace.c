/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "common/bpf.h"

struct trace {
  const struct filter* usual;
  struct gbx_msg_blocked found;
};

int trace_make_filter(const struct filter* usual, bool notify,
                      struct filter* asking, struct gbx_err* err) {
  if (!notify)
    return gbx_fail(err, GBX_E_UNSUPPORTED, ENOSYS, "trace",
                    "SECCOMP_RET_USER_NOTIF");
  if (asking->program != NULL) return 0;
  return filter_derive(usual, SECCOMP_RET_ERRNO, SECCOMP_RET_USER_NOTIF, asking,
                       err);
}

struct trace* trace_new(const struct filter* usual) {
  struct trace* trace = calloc(1, sizeof *trace);
  if (trace != NULL) trace->usual = usual;
  return trace;
}

struct trace* trace_free(struct trace* trace) {
  free(trace);
  return NULL;
}

static void count(struct gbx_msg_blocked* found,
                  const struct seccomp_data* data, int error) {
  for (uint64_t i = 0; i < found->count; i++) {
    struct gbx_wire_blocked* known = &found->calls[i];
    if (known->syscall != data->nr || known->sys_errno != error ||
        known->arch != data->arch)
      continue;
    known->count++;
    return;
  }
  /* A box that tries every number takes no more memory for it. */
  if (found->count == GBX_BLOCKED_MAX) {
    found->others++;
    return;
  }
  found->calls[found->count++] = (struct gbx_wire_blocked){
      .arch = data->arch, .syscall = data->nr, .sys_errno = error, .count = 1};
}

enum trace_outcome trace_answer(struct trace* trace, int listener_fd,
                                const struct seccomp_notif* call,
                                struct gbx_err* err) {
  uint32_t action = SECCOMP_RET_KILL_PROCESS;
  const struct filter* usual = trace->usual;
  int steps =
      gbx_bpf_run(usual->program, usual->size / sizeof(struct sock_filter),
                  &call->data, &action);
  if (steps < 0 || (action & SECCOMP_RET_ACTION_FULL) != SECCOMP_RET_ERRNO)
    return TRACE_FORBIDDEN;
  int error = (int)(action & SECCOMP_RET_DATA);
  struct seccomp_notif_resp answer = {.id = call->id, .error = -error};
  if (ioctl(listener_fd, SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0) {
    count(&trace->found, &call->data, error);
    return TRACE_ANSWERED;
  }
  /* A signal took the call back, or who made it: nobody was refused. */
  if (errno == ENOENT) return TRACE_ANSWERED;
  (void)gbx_fail(err, GBX_E_INTERNAL, errno, "seccomp", "answer to call %d",
                 call->data.nr);
  return TRACE_FAILED;
}

void trace_take(struct trace* trace, uint32_t id,
                struct gbx_msg_blocked* ret_message) {
  ret_message->others = ret_message->count = 0;
  if (trace != NULL) {
    *ret_message = trace->found;
    trace->found.count = trace->found.others = 0;
  }
  size_t size = offsetof(struct gbx_msg_blocked, calls) +
                ret_message->count * sizeof ret_message->calls[0];
  gbx_msg_head_init(&ret_message->head, GBX_M_BLOCKED, size, id);
}
