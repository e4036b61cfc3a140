/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_BOX_H_
#define SRC_LAUNCHER_BOX_H_

/* A box as the launcher sees it, from clone3 to its reaping. */

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "common/wire.h"
#include "launcher/init.h"
#include "launcher/trace.h"
#include "launcher/watchdog.h"

enum box_state {
  BOX_MAKING,  /* init sets itself up */
  BOX_READY,   /* its payload waits for GO */
  BOX_BINDING, /* gets its workspace ahead of a run */
  BOX_BOUND,   /* has it */
  BOX_RUNNING, /* has a run */
  BOX_ENDED,   /* END was sent, or there is nobody to send it to */
};

struct box;

/* What of a box an epoll event is about. */
enum box_source { BOX_SOCKET, BOX_LISTENER, BOX_OOM, BOX_PAYLOAD };
#define BOX_SOURCES 4
struct box_watch {
  struct box* box; /* NULL: about a zygote */
  enum box_source source;
};

struct box {
  struct box* next;
  struct box* next_spare; /* of its root */
  enum box_state state;
  pid_t pid;            /* init, in the launcher's pid namespace */
  int pidfd;            /* of init */
  int socket_fd;        /* to init */
  int work_fd;          /* to its payload, which gets GO there if bound */
  uint32_t workspace;   /* that it is bound to; 0: to none */
  int listener_fd;      /* reports the kill set; -1 if none */
  struct trace* trace;  /* and, if not NULL, all that is refused */
  int payload_fd;       /* pidfd of the payload */
  int mounts_fd;        /* keeps its mounts until nobody waits for their end */
  bool has_pty;         /* it was made with a terminal */
  int pty_fd;           /* its master, until the engine has it */
  int32_t payload_pid;  /* as the box numbers it */
  bool by_zygote;       /* so its payload is our child: */
  pid_t payload;        /* not known yet, or reaped: 0 */
  struct gbx_fds procs; /* cgroup.procs, for the zygote */
  uint32_t number;
  int leaf_fd[GBX_LEAF_FDS]; /* -1 for what its leaf does not have */
  uint32_t leaf;             /* its number; 0 without a cgroup */
  uint32_t root;
  enum gbx_runtime runtime;      /* what waits in it */
  struct gbx_wire_limits limits; /* that are in force */

  struct run* run;            /* waiting for this box, or running in it */
  struct watchdog_box memory; /* looked at where there is no cgroup */
  bool is_own;                /* it was made for its run */
  bool is_empty;              /* but for init */
  bool dismissed;             /* nobody wants it any more */
  bool reaped;                /* freed when the events at hand are done */

  struct gbx_msg_end end; /* collected for the engine */
  struct box_watch watch[BOX_SOURCES];
};

/* One RUN of the engine, until its box has it. */
struct run {
  struct gbx_msg_run request;
  struct gbx_fds fds;
  bool cancelled; /* it gets no other box */
};

/* What making a box takes from the launcher. */
struct box_parts {
  uint32_t root;
  enum gbx_runtime runtime;
  uint32_t leaf;                  /* 0: no cgroup */
  uint32_t leaf_has;              /* as LEAF_MAKE's answer says */
  const struct gbx_fds* leaf_fds; /* as it has them */
  int folder_fd;              /* among them: the leaf to be made in, or -1 */
  const struct filter* usual; /* what a traced box is judged by */
  struct box_spec spec;
};

/* Makes a box; its init says BOX_READY or FAILED on the socket. Takes the
 * descriptors in `leaf_fds`, also on failure. Returns NULL with `err` set. */
struct box* box_new(const struct box_parts* parts, struct gbx_err* err);

/* The payload of a box that a zygote forked into was reaped. */
void box_payload_ended(struct box* box, const siginfo_t* info,
                       const struct rusage* usage);

/* Sends GO. `tree_fd` is the workspace's tree, `mounts_fd` that of the mounts
 * or -1; a bound box takes neither. */
int box_go(struct box* box, struct run* run, int tree_fd, int mounts_fd,
           struct gbx_err* err);

/* Gives a ready box the workspace of a run that may come. */
int box_bind(struct box* box, uint32_t workspace, int tree_fd,
             struct gbx_err* err);

/* Kills everything in it; its reaping follows. */
void box_kill(struct box* box);

/* A readable listener: answers a call that is merely refused, of a traced box;
 * records any other and kills the box. One call, so that a box that makes no
 * pause does not hold up the others. Never waits. */
void box_take_notification(struct box* box);

/* Whether the cgroup ran out of memory since it was made. */
bool box_had_oom(struct box* box);

/* Whether its cgroup says that only init is left. */
bool box_is_empty(const struct box* box);

/* Reads what the cgroup counted into `box->end`. */
void box_read_usage(struct box* box);

/* Whether what waits in a ready box has ended. */
bool box_payload_is_gone(const struct box* box);

/* Of a ready box. With the last process that is in it a mount namespace goes,
 * and the kernel waits for that before it says that the process has ended: more
 * than half of the time that the end of a box takes. Not if we have it open. */
void box_hold_mounts(struct box* box);

/* Closes what is open and frees it. */
void box_free(struct box* box);

#endif  // SRC_LAUNCHER_BOX_H_
