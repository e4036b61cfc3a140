/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_C_IN_WORKSPACE_H_
#define TEST_C_IN_WORKSPACE_H_

/* A workspace to test in: the folder "ws" in the scratch folder. */

#include "engine/workspace.h"
#include "scratch.h"

static struct gbx__workspace ws;

static void open_ws(void) {
  char path[PATH_MAX];
  (void)snprintf(path, sizeof path, "%s/ws", scratch_path);
  struct gbx_err err = {0};
  int result = gbx__workspace_prepare(path, NULL, &ws, &err);
  if (result < 0) printf("# %s: %s\n", err.op, err.detail);
  MUST(result == 0);
}

static void close_ws(void) {
  gbx__workspace_done(&ws);
  MUST(gbx_remove_tree(scratch_fd, "ws", NULL) == 0);
}

#endif  // TEST_C_IN_WORKSPACE_H_
