/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_STATE_H_
#define SRC_LAUNCHER_STATE_H_

/* What the parts of the launcher share: one thread has it all. */

#include <stdbool.h>
#include <stdint.h>

#include "launcher/box.h"
#include "launcher/filter.h"
#include "launcher/ready.h"
#include "launcher/root.h"
#include "launcher/zygote.h"

/* Of the runs that ask for a runtime. */
struct recent {
  uint32_t workspace; /* of the last */
  int runs;           /* in a row that were in it */
};

struct root {
  struct root* next;
  uint32_t id;
  struct root_image image;
  bool shares_network; /* as all of its boxes do, those that wait too */
  struct stock stock[GBX_RUNTIMES]; /* how many boxes are to wait */
  struct box* spares;               /* those that do */
  struct recent recent[GBX_RUNTIMES];
  struct zygote zygote;
  bool answered; /* ROOT, whose answer waits for a zygote that is needed */
  uint32_t told_given_up; /* as GIVEN_UP had it */
};

struct launcher {
  int epoll_fd;
  int signal_fd;
  bool rooted;
  bool notify;
  bool engine_gone;
  bool leaves; /* the keeper can make them */
  bool scopes; /* Landlock has them */
  struct filter payload_filter, init_filter;
  struct filter trace_filter; /* made for the first traced run */
  struct filter zygote_filter;
  uint64_t files_soft, files_hard; /* of payloads */
  uint64_t box_count;              /* of `boxes` */
  uint64_t boxes_to_spare; /* with so many or more none is made to wait */
  int runs;                /* that have begun and not ended */
  int64_t ended_ms;        /* when the last one did */
  bool hurried; /* the last one that began followed one that had just ended */
  uint32_t next_box;
  struct root* roots;
  struct box* boxes;
  uint32_t next_leaf;
  int64_t next_look_ms; /* of the watchdog; 0: nothing to look at */
};
extern struct launcher launcher;

/* `count` descriptors go with it, none are taken. */
void tell_engine(const struct gbx_msg_head* head, const int* fds, int count);
/* DONE; `err` with code GBX_OK: it worked. */
void answer(uint32_t id, const struct gbx_err* err);

/* Events of the descriptor come with `what`. */
int watch(int fd, void* what, struct gbx_err* err);
/* Before a close: epoll keeps an entry for as long as anybody has a copy of
 * the descriptor, and a box that is being made has copies of all of ours. */
void unwatch(int fd);

#endif  // SRC_LAUNCHER_STATE_H_
