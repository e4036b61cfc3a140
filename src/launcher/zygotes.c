/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/zygotes.h"

#include <errno.h>

#include "launcher/boxes.h"
#include "launcher/roots.h"

void start_zygote(struct root* root) {
  static struct box_watch zygote_watch;
  struct gbx_err err = {0};
  const struct zygote_filters filters = {&launcher.zygote_filter,
                                         &launcher.payload_filter};
  if (zygote_start(&root->zygote, &root->image, &filters, root->shares_network,
                   &err) < 0) {
    zygote_end(&root->zygote);
    answer_root(root, &err);
  } else if (watch(root->zygote.socket_fd, &zygote_watch, &err) < 0) {
    (void)kill(root->zygote.pid, SIGKILL); /* its reaping does the rest */
  }
}

void serve_zygotes(void) {
  struct gbx_msg_forked forked;
  for (struct root* root = launcher.roots; root != NULL; root = root->next) {
    while (zygote_receive(&root->zygote, &forked)) {
      struct box* box = launcher.boxes;
      while (box != NULL &&
             (!box->by_zygote || box->reaped || box->number != forked.head.id))
        box = box->next;
      if (forked.head.type == 0 || box == NULL) continue;
      if (forked.pid > 0) {
        box->payload = forked.pid;
        continue;
      }
      struct gbx_err err = {0};
      (void)gbx_fail(&err, GBX_E_SETUP, -forked.pid, "fork", "payload");
      give_up_box(box, &err);
    }
    if (root->zygote.state == ZYGOTE_WAITING)
      answer_root(root, &(struct gbx_err){0});
  }
}

/* It was to fork the payload of the box, and nobody can tell which one that is:
 * it told of all that it could. So nobody would see it end. */
static bool is_waiting_for_fork(const struct box* box) {
  return box->by_zygote && !box->reaped &&
         (box->state == BOX_MAKING ||
          (box->payload == 0 && box->run == NULL && box->state != BOX_ENDED));
}

/* The boxes that wait for it are made in another way, or by another. */
bool end_zygote(const siginfo_t* info) {
  struct root* root = launcher.roots;
  while (root != NULL && root->zygote.pid != info->si_pid)
    root = root->next;
  if (root == NULL) return false;
  zygote_explain(&root->zygote, info);
  unwatch(root->zygote.socket_fd);
  zygote_end(&root->zygote);
  for (struct box* box = launcher.boxes; box != NULL; box = box->next)
    if (box->root == root->id && is_waiting_for_fork(box)) {
      box->dismissed = true; /* or one end would count as many */
      box_kill(box);
    }
  struct gbx_err err = root->zygote.err; /* the root may go with the answer */
  answer_root(root, &err);
  return true;
}
