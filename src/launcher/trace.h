/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_TRACE_H_
#define SRC_LAUNCHER_TRACE_H_

/* Which calls a box was refused.
 *
 * A filter that answers with an errno tells nobody. So a traced box has one
 * that asks the launcher instead, whose answer is what the usual filter would
 * have said: it is run once more, here, on what the call was made with. It
 * cannot be "go on": there is no way from here to SECCOMP_USER_NOTIF_FLAG_
 * CONTINUE, and what the usual filter allows is never asked about. */

#include <linux/seccomp.h>

#include "common/error.h"
#include "common/wire.h"
#include "launcher/filter.h"

struct trace;

/* Makes the filter of traced boxes from the usual one, once, for as long as the
 * process lives. GBX_E_UNSUPPORTED without `notify`: a run that asks what is
 * refused gets the answer, or fails. */
int trace_make_filter(const struct filter* usual, bool notify,
                      struct filter* asking, struct gbx_err* err);

/* NULL without memory. `usual` must outlive it. */
struct trace* trace_new(const struct filter* usual);
struct trace* trace_free(struct trace* trace);

enum trace_outcome {
  TRACE_ANSWERED,
  TRACE_FORBIDDEN, /* a call of the kill set: it has no answer */
  TRACE_FAILED,    /* `err` says why; the call still waits */
};

/* Answers a call that the listener reported, and counts it. */
enum trace_outcome trace_answer(struct trace* trace, int listener_fd,
                                const struct seccomp_notif* call,
                                struct gbx_err* err);

/* What was counted, as a message for run `id`; counts from 0 again. NULL counts
 * nothing. */
void trace_take(struct trace* trace, uint32_t id,
                struct gbx_msg_blocked* ret_message);

#endif  // SRC_LAUNCHER_TRACE_H_
