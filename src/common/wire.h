/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_COMMON_WIRE_H_
#define SRC_COMMON_WIRE_H_

/* The messages between engine, keeper, launcher, init and payload.
 *
 * All sockets are SOCK_SEQPACKET: one message, one send. A message starts with
 * struct gbx_msg_head and is at most GBX_MSG_MAX bytes; descriptors travel
 * with it. What does not fit goes into a sealed memfd.
 *
 *   engine -> keeper     TEMP_ADD, TEMP_DROP, TEMP_FORGET
 *   keeper -> engine     KEEPER_UP or FAILED
 *   engine -> launcher   CONFIG, ROOT, ROOT_DROP, WORKSPACE, WORKSPACE_DROP,
 *                        RUN, CANCEL, TRACE
 *   launcher -> engine   LAUNCHER_UP or FAILED; DONE; STARTED; BLOCKED; END;
 *                        GIVEN_UP
 *   launcher -> keeper   TREE, LEAF_MAKE, LEAF_SET (each answered by DONE),
 *                        LEAF_DROP
 *   init -> launcher     [NAMESPACES]; BOX_READY or FAILED; [BOUND]; BOX_END
 *   launcher -> init     GO; init -> payload: GO
 *   launcher -> init     or BIND; launcher -> payload: GO
 *   payload -> init      PAYLOAD_READY; [WAITING]; EXECUTING, FAILED
 *   launcher -> zygote   FORK
 *   zygote -> launcher   WAITING, FAILED; FORKED
 *
 * Both ends are built from one tree; the version catches a launcher of
 * another build. */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define GBX_WIRE_MAGIC   0x31584247u /* "GBX1" */
#define GBX_WIRE_VERSION 1
#define GBX_MSG_MAX      8192
#define GBX_MSG_FDS      12

/* Descriptors at which a role of the launcher executable finds its sockets.
 * ENGINE: keeper and launcher each to the engine. PEER: in the keeper the
 * launcher's engine socket, to be handed on; in the launcher to the keeper.
 * EPOLL: no socket; see open_epoll() of the launcher. */
#define GBX_FD_ENGINE 3
#define GBX_FD_PEER   4
#define GBX_FD_EPOLL  5

enum gbx_msg_type {
  GBX_M_FAILED = 1,
  GBX_M_KEEPER_UP,
  GBX_M_LAUNCHER_UP,
  GBX_M_TEMP_ADD,
  GBX_M_TEMP_DROP,
  GBX_M_TEMP_FORGET,
  GBX_M_CONFIG,
  GBX_M_ROOT,
  GBX_M_ROOT_DROP,
  GBX_M_WORKSPACE,
  GBX_M_WORKSPACE_DROP,
  GBX_M_RUN,
  GBX_M_CANCEL,
  GBX_M_DONE,
  GBX_M_STARTED,
  GBX_M_END,
  GBX_M_ASK,
  GBX_M_BLOCKED,
  GBX_M_TREE,
  GBX_M_LEAF_MAKE,
  GBX_M_LEAF_SET,
  GBX_M_LEAF_DROP,
  GBX_M_BOX_READY,
  GBX_M_BOX_END,
  GBX_M_GO,
  GBX_M_PAYLOAD_READY,
  GBX_M_EXECUTING,
  GBX_M_PING, /* to the launcher: DONE, if it is there */
  GBX_M_WAITING,
  GBX_M_NAMESPACES,
  GBX_M_FORK,
  GBX_M_FORKED,
  GBX_M_BIND,
  GBX_M_BOUND, /* from init: the workspace is there, our rights are gone */
  GBX_M_GIVEN_UP,
};

struct gbx_msg_head {
  uint32_t magic;
  uint16_t version;
  uint16_t type; /* enum gbx_msg_type */
  uint32_t size; /* of the whole message */
  uint32_t id;   /* whose: a run, root, workspace or leaf; 0 if none */
};

/* FAILED, DONE (code GBX_OK: it worked). */
struct gbx_msg_result {
  struct gbx_msg_head head;
  struct gbx_err err;
};

/* What of a rung of the limits ladder is to be had. */
enum gbx_controllers {
  GBX_CTL_MEMORY = 1,
  GBX_CTL_PIDS = 2,
  GBX_CTL_CPU = 4,
};

struct gbx_msg_keeper_up {
  struct gbx_msg_head head;
  uint32_t controllers; /* enum gbx_controllers, by cgroup */
};

/* TEMP_ADD, TEMP_DROP: no longer than its path with the NUL. */
struct gbx_msg_path {
  struct gbx_msg_head head;
  char path[PATH_MAX];
};

/* CONFIG. Descriptors: the filters of payload, init and zygote (sealed memfds
 * of struct sock_filter); for a profile the ring of common/moments.h. */
struct gbx_msg_config {
  struct gbx_msg_head head;
  uint32_t notify; /* the payload's kill set answers with USER_NOTIF */
  uint32_t leaves; /* the keeper said that it can make cgroup leaves */
};

/* In answer to CONFIG. */
struct gbx_msg_launcher_up {
  struct gbx_msg_head head;
  uint32_t scopes; /* Landlock shuts a shared network's abstract sockets */
};

/* ROOT: one descriptor, a memfd of struct gbx_wire_entry records. */
struct gbx_msg_root {
  struct gbx_msg_head head;
  uint32_t shares_network; /* its boxes have the host's network */
};

/* Each record is followed by target, source and data; both strings end with a
 * NUL that their length counts. Behind the parts of the root come its
 * interpreters, of kind GBX_ENTRY_STANDBY: the data is an exec blob, the source
 * one digit, enum gbx_runtime, and behind a zygote's a "!" if ROOT is not done
 * before it waits. */
#define GBX_ENTRY_STANDBY 5
/* Behind those, the places of the mounts that sessions of the root have. */
enum gbx_wire_mount_kind {
  GBX_WIRE_MOUNT_DIR = 101,    /* a mount goes on this folder */
  GBX_WIRE_MOUNT_FILE = 102,   /* or on this file */
  GBX_WIRE_MOUNT_NESTED = 103, /* or on what another mount has there */
};
struct gbx_wire_entry {
  uint32_t kind; /* enum gbx_entry_kind or gbx_wire_mount_kind */
  uint32_t target_size;
  uint32_t source_size;
  uint32_t data_size;
};

/* What a session gets of the host beside its workspace. The source is without
 * symlinks, and must turn out to be `dev` and `ino`. */
#define GBX_MOUNTS_MAX 64
struct gbx_wire_mount {
  uint32_t writable;
  uint32_t is_file;
  uint64_t dev, ino;
  char source[PATH_MAX];
};

/* For the rules of host_rules.h; empty: not known. */
struct gbx_wire_user {
  char home[1024];
  char temp_dir[1024];
};

/* With mounts: one descriptor, a memfd of as many struct gbx_wire_mount. They
 * are in the order of the root's MOUNT records, which say where they go. */
struct gbx_msg_workspace {
  struct gbx_msg_head head;
  uint32_t temporary;
  uint32_t mounts;
  struct gbx_wire_user user;
  uint64_t dev, ino; /* what `path` must turn out to be */
  char path[PATH_MAX];
};

/* TREE: the launcher asks the keeper for a detached tree. */
enum gbx_tree_kind {
  GBX_TREE_ROOT_PART = 1,
  GBX_TREE_WORKSPACE = 2,
  GBX_TREE_MOUNT = 3,
};
struct gbx_msg_tree {
  struct gbx_msg_head head;
  uint32_t kind;
  uint32_t temporary;
  uint32_t writable;         /* mount */
  struct gbx_wire_user user; /* mount */
  uint64_t dev, ino;         /* workspace and mount */
  char path[PATH_MAX];
};

/* What may wait in a ready box for its call. */
enum gbx_runtime {
  GBX_RUNTIME_NONE, /* a process that is about to execute something */
  GBX_RUNTIME_PYTHON,
  GBX_RUNTIME_NODE,
  GBX_RUNTIMES,
  /* Among a root's interpreters: python that forks what waits. */
  GBX_RUNTIME_ZYGOTE = GBX_RUNTIMES,
  GBX_STANDBYS,
};

/* GIVEN_UP: which interpreters of a root cannot wait, as far as is known now.
 */
struct gbx_msg_given_up {
  struct gbx_msg_head head;
  uint32_t runtimes; /* 1 << enum gbx_runtime */
};

/* 0 lifts a limit. */
struct gbx_wire_limits {
  uint64_t memory_bytes;
  uint64_t pids;
  uint64_t cpu_millis;
};

/* LEAF_MAKE and LEAF_SET. head.id: the leaf's number. */
struct gbx_msg_leaf {
  struct gbx_msg_head head;
  struct gbx_wire_limits limits;
};

/* DONE of LEAF_MAKE, which begins as any DONE. Descriptors: those that `has`
 * names, in the order of the enum; then the leaf's folder, for a box to be
 * made in, or the cgroup.procs of each hierarchy, for it to join. */
struct gbx_msg_leaf_made {
  struct gbx_msg_head head;
  struct gbx_err err;
  uint32_t has; /* 1 << enum gbx_leaf_fd */
  uint32_t is_folder;
};
enum gbx_leaf_fd {
  GBX_LEAF_OOM_COUNT, /* v1 memory.oom_control, v2 memory.events */
  GBX_LEAF_OOM_EVENT, /* v1: an eventfd; v2 kills all of the box by itself */
  GBX_LEAF_MAX_USAGE, /* not with v2 before Linux 5.19 */
  GBX_LEAF_CPU_USAGE, /* v1 cpuacct.usage, v2 cpu.stat */
  GBX_LEAF_MAX_PIDS,  /* v2 pids.peak, since Linux 6.1 */
  GBX_LEAF_PIDS,      /* pids.current */
  GBX_LEAF_FDS,       /* at most that many stay open in the launcher */
};
/* Of what the kernel counts, that which can be told for a part of a box's life:
 * a time, and a peak that can be set back. */
#define GBX_LEAF_METERS (1u << GBX_LEAF_MAX_USAGE | 1u << GBX_LEAF_CPU_USAGE)

/* RUN. Descriptors, in this order: the exec blob; without PTY stdout and
 * stderr; with FD3 what becomes descriptor 3; with FD4 what becomes 4; with
 * STDIN stdin. */
enum gbx_run_flags {
  GBX_RUN_FD3 = 1,
  GBX_RUN_NO_CGROUP = 2,
  GBX_RUN_TRACE = 4,   /* BLOCKED comes before END, and in answer to TRACE */
  GBX_RUN_STDIN = 8,   /* else /dev/null, or the terminal */
  GBX_RUN_PTY = 16,    /* 0, 1 and 2 are a terminal of the box's own */
  GBX_RUN_HANDLE = 32, /* STARTED brings the payload's pidfd */
  GBX_RUN_FD4 = 64,
  GBX_RUN_COLD = 128,  /* no ready box */
  GBX_RUN_METER = 256, /* STARTED brings what its leaf counts in */
};
struct gbx_msg_run {
  struct gbx_msg_head head;
  uint32_t root;
  uint32_t workspace;
  uint32_t flags;
  uint32_t runtime;       /* enum gbx_runtime; what argv starts is the same */
  uint16_t columns, rows; /* with PTY */
  struct gbx_wire_limits limits;
  uint64_t file_bytes; /* RLIMIT_FSIZE; 0: leave */
};

static inline int gbx_run_fd_count(uint32_t flags) {
  return 1 + ((flags & GBX_RUN_PTY) != 0 ? 0 : 2) +
         ((flags & GBX_RUN_FD3) != 0) + ((flags & GBX_RUN_FD4) != 0) +
         ((flags & GBX_RUN_STDIN) != 0);
}

/* The exec blob: this, then cwd, argv and env, each string NUL-terminated. */
struct gbx_exec_head {
  uint32_t magic;
  uint32_t argc;
  uint32_t envc;
};

/* STARTED. Descriptors: init's pidfd; with HANDLE the payload's; with PTY the
 * terminal's master; with METER those that `has` names, in the order of enum
 * gbx_leaf_fd. None at all if they could not be sent. */
struct gbx_msg_started {
  struct gbx_msg_head head;
  int32_t pid;  /* of the payload, in its box */
  uint32_t has; /* 1 << enum gbx_leaf_fd: GBX_LEAF_METERS or some of them */
};

/* PAYLOAD_READY is a head alone. Its descriptor, if CONFIG said `notify`: the
 * listener of the payload's filter. */

/* WAITING is a head alone: the interpreter of a box that was made for one is
 * there, and executes nothing any more; head.id is its pid in its box. What it
 * does with GO: src/join/take.h. A zygote says the same of itself. */

/* NAMESPACES is a head alone: a zygote is to fork this box's payload.
 * Descriptors: the namespaces pid, net, ipc, uts, cgroup and mnt, and the
 * payload's socket. FORK has these and the cgroup.procs to join by. */
#define GBX_NAMESPACES 6
struct gbx_msg_fork {
  struct gbx_msg_head head; /* id: the box's number, and in FORKED */
  uint64_t pids; /* RLIMIT_NPROC, in a user namespace of its own; 0: neither */
  uint64_t files_soft, files_hard; /* RLIMIT_NOFILE */
  uint32_t notify;                 /* the filter has a listener */
  uint32_t shares_network, scoped; /* as struct box_spec has them */
};

struct gbx_msg_forked {
  struct gbx_msg_head head;
  int32_t pid; /* as the launcher numbers it, or a negative errno */
};

/* BOX_READY. Descriptors: the listener as above; the payload's pidfd; the
 * terminal's master, if the box was made with one; then the box's
 * /proc/sysvipc/shm, if it has no cgroup. */
struct gbx_msg_box_ready {
  struct gbx_msg_head head;
  int32_t pid; /* of the payload, in its box */
};

/* 0: not known. */
struct gbx_wire_usage {
  uint64_t cpu_us; /* of all processes */
  uint64_t cpu_user_us, cpu_system_us;
  uint64_t read_bytes, written_bytes; /* of block devices */
  uint64_t max_memory_bytes;
  uint64_t max_pids;
  /* Whether the two above are known, be they 0. init counts them of the
   * processes that somebody in the box waited for. */
  bool has_cpu_split, has_io;
};

/* BOX_END, as init saw it. */
struct gbx_msg_box_end {
  struct gbx_msg_head head;
  int32_t wait_code;           /* CLD_EXITED, CLD_KILLED or CLD_DUMPED */
  int32_t wait_status;         /* exit code or signal */
  uint32_t alone;              /* no other process is left in the box */
  struct gbx_wire_usage usage; /* of what was waited for in the box */
  struct gbx_err err; /* not GBX_OK: the payload did not come to execute */
};

/* END, as the launcher knows it. */
struct gbx_msg_end {
  struct gbx_msg_head head;
  uint32_t reported; /* init reported; otherwise the box was killed */
  int32_t wait_code;
  int32_t wait_status;
  uint32_t oom;
  uint32_t escape;
  int32_t escape_syscall; /* -1: not known */
  uint32_t escape_arch;
  struct gbx_wire_usage usage;
  struct gbx_err err; /* GBX_E_EXEC: of the payload; others: of the box */
};

/* BLOCKED: what the filter refused with an errno since the run began, or since
 * the last BLOCKED. No longer than `count` calls make it. */
#define GBX_BLOCKED_MAX 128
struct gbx_wire_blocked {
  uint32_t arch;
  int32_t syscall;
  int32_t sys_errno;
  uint32_t unused;
  uint64_t count;
};
struct gbx_msg_blocked {
  struct gbx_msg_head head; /* also without a trace, where ASK came */
  uint64_t others; /* how often calls were refused that had no place here */
  uint64_t count;
  struct gbx_wire_blocked calls[GBX_BLOCKED_MAX];
};

/* GO, to init. Descriptors: the workspace's tree, with `mounts` a tree that has
 * them all, then those of RUN. init hands it on to the payload without the
 * trees.
 * BIND: the workspace's tree alone, before there is a run, and where there are
 * no mounts; GO then goes to the payload, without it. */
struct gbx_msg_go {
  struct gbx_msg_head head;
  uint32_t flags;        /* enum gbx_run_flags */
  uint32_t mounts;       /* 1: the session has some */
  uint64_t pids;         /* RLIMIT_NPROC to lower to; 0: leave */
  uint64_t memory_bytes; /* for the sizes of the box's tmpfs */
  uint64_t file_bytes;   /* RLIMIT_FSIZE; 0: leave */
};

/* Any message, for receiving. */
union gbx_msg {
  struct gbx_msg_head head;
  struct gbx_msg_result result;
  struct gbx_msg_keeper_up keeper_up;
  struct gbx_msg_path path;
  struct gbx_msg_config config;
  struct gbx_msg_launcher_up launcher_up;
  struct gbx_msg_root root;
  struct gbx_msg_workspace workspace;
  struct gbx_msg_tree tree;
  struct gbx_msg_leaf leaf;
  struct gbx_msg_leaf_made leaf_made;
  struct gbx_msg_run run;
  struct gbx_msg_started started;
  struct gbx_msg_given_up given_up;
  struct gbx_msg_box_ready box_ready;
  struct gbx_msg_box_end box_end;
  struct gbx_msg_end end;
  struct gbx_msg_blocked blocked;
  struct gbx_msg_go go;
  struct gbx_msg_fork fork;
  struct gbx_msg_forked forked;
  char bytes[GBX_MSG_MAX];
};

struct gbx_fds {
  int count;
  int fd[GBX_MSG_FDS];
};

void gbx_fds_close(struct gbx_fds* fds);

/* Takes descriptor `index` out of the set; -1 if there is none. */
int gbx_fds_steal(struct gbx_fds* fds, int index);

/* Fills magic, version, type, size and id of a message. */
#define GBX_MSG_INIT(message, kind, number) \
  gbx_msg_head_init(&(message)->head, kind, sizeof *(message), number)
void gbx_msg_head_init(struct gbx_msg_head* head, enum gbx_msg_type type,
                       size_t size, uint32_t id);

/* Sends one message with copies of `count` descriptors. Returns 0 or a
 * negative errno (-EAGAIN on a full non-blocking socket). */
int gbx_msg_send(int socket_fd, const struct gbx_msg_head* head, const int* fds,
                 int count);

/* Receives one message and its descriptors (close-on-exec). Returns 1, 0 at
 * the end of the stream, or a negative errno: -EBADMSG if it is none of ours
 * (its descriptors are closed). A short message is padded with zeroes. If this
 * process has no room for all the descriptors it gets none: a receiver that
 * needs some counts them. */
int gbx_msg_recv(int socket_fd, union gbx_msg* ret_message,
                 struct gbx_fds* ret_fds);

#endif  // SRC_COMMON_WIRE_H_
