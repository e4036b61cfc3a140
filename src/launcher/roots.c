/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/roots.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/fd.h"
#include "launcher/keeper_client.h"
#include "launcher/mounts.h"
#include "launcher/shelf.h"
#include "launcher/spares.h"
#include "launcher/tree.h"
#include "launcher/zygotes.h"

static int open_root_part(const char* path, struct gbx_err* err) {
  if (!launcher.rooted) return tree_open_root_part(path, err);
  struct gbx_msg_tree request = {.kind = GBX_TREE_ROOT_PART};
  (void)snprintf(request.path, sizeof request.path, "%s", path);
  GBX_MSG_INIT(&request, GBX_M_TREE, 0);
  return keeper_ask_for_tree(&request.head, err);
}

struct root* find_root(uint32_t id) {
  struct root* root = launcher.roots;
  while (root != NULL && root->id != id)
    root = root->next;
  return root;
}

void answer_root(struct root* root, const struct gbx_err* err) {
  if (root->answered) return;
  root->answered = true;
  answer(root->id, err);
  if (err->code != GBX_OK) drop_root(root->id); /* the engine has */
}

void add_root(const struct gbx_msg_root* request, int entries_fd) {
  uint32_t id = request->head.id;
  struct gbx_err err = {0};
  struct root* root = calloc(1, sizeof *root);
  if (root == NULL) {
    (void)gbx_fail(&err, GBX_E_NO_MEMORY, ENOMEM, "calloc", "root");
    answer(id, &err);
    return;
  }
  root->id = id;
  root->shares_network = request->shares_network != 0;
  if (root_prepare(entries_fd, open_root_part, &root->image, &err) < 0) {
    free(root);
    answer(id, &err);
    return;
  }
  stock_init(root->stock);
  zygote_init(&root->zygote);
  root->next = launcher.roots;
  launcher.roots = root;
  if (root->image.needs_zygote)
    start_zygote(root);
  else
    answer_root(root, &err);
}

void drop_root(uint32_t id) {
  for (struct root** at = &launcher.roots; *at != NULL; at = &(*at)->next) {
    struct root* root = *at;
    if (root->id != id) continue;
    *at = root->next;
    unwatch(root->zygote.socket_fd);
    if (root->zygote.state != ZYGOTE_NONE)
      (void)kill(root->zygote.pid, SIGKILL);
    fd_close(&root->zygote.socket_fd);
    root_image_done(&root->image);
    free(root);
    break;
  }
  for (struct box* box = launcher.boxes; box != NULL; box = box->next)
    if (box->root == id && box->run == NULL) box_kill(box);
}

void drop_workspace(uint32_t id) {
  for (struct root* root = launcher.roots; root != NULL; root = root->next)
    for (int i = 0; i < GBX_RUNTIMES; i++)
      if (root->recent[i].workspace == id) root->recent[i] = (struct recent){0};
  dismiss_bound_boxes(id);
  shelf_drop(id);
  mounts_drop(id);
}

void add_workspace(struct gbx_msg_workspace* request, int mounts_fd) {
  struct gbx_err err = {0};
  int result = shelf_add(request, launcher.rooted, &err);
  if (result == 0 && request->mounts > 0) {
    result = mounts_shelve(request, mounts_fd, launcher.rooted, &err);
    if (result < 0) drop_workspace(request->head.id);
  }
  answer(request->head.id, &err); /* it carries the error */
}
