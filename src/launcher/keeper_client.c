/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/keeper_client.h"

#include <errno.h>

#include "common/fd.h"

int keeper_ask(const struct gbx_msg_head* request, union gbx_msg* ret_answer,
               struct gbx_fds* ret_fds, struct gbx_err* err) {
  ret_fds->count = 0;
  int result = gbx_msg_send(GBX_FD_PEER, request, NULL, 0);
  if (result < 0)
    return gbx_fail(err, GBX_E_DIED, -result, "keeper", "is gone");
  result = gbx_msg_recv(GBX_FD_PEER, ret_answer, ret_fds);
  if (result <= 0 || ret_answer->head.type != GBX_M_DONE) {
    gbx_fds_close(ret_fds);
    return gbx_fail(err, GBX_E_DIED, EPIPE, "keeper", "did not answer");
  }
  if (ret_answer->result.err.code == GBX_OK) return 0;
  gbx_fds_close(ret_fds);
  *err = ret_answer->result.err;
  return err->sys_errno != 0 ? -err->sys_errno : -EIO;
}

int keeper_ask_for_tree(const struct gbx_msg_head* request,
                        struct gbx_err* err) {
  union gbx_msg answered;
  struct gbx_fds fds;
  int result = keeper_ask(request, &answered, &fds, err);
  if (result < 0) return result;
  if (fds.count < 1)
    return gbx_fail(err, GBX_E_SETUP, EMFILE, "recvmsg", "a tree");
  return gbx_fds_steal(&fds, 0);
}

void keeper_drop_leaf(uint32_t leaf) {
  struct gbx_msg_head head;
  gbx_msg_head_init(&head, GBX_M_LEAF_DROP, sizeof head, leaf);
  (void)gbx_msg_send(GBX_FD_PEER, &head, NULL, 0); /* gone: it cleans up */
}
