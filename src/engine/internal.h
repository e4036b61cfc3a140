/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_ENGINE_INTERNAL_H_
#define SRC_ENGINE_INTERNAL_H_

/* What the engine's own files share. All of it belongs to the engine's thread,
 * except where a comment says otherwise. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "common/moments.h"
#include "common/wire.h"
#include "engine/changes.h"
#include "engine/engine.h"
#include "engine/meter.h"
#include "engine/mounts.h"
#include "engine/nameless.h"
#include "engine/tracker.h"
#include "engine/usage.h"
#include "engine/workspace.h"

/* ---- Tasks: how other threads reach the engine's ---------------------- */

struct gbx__task {
  struct gbx__task* next;
  void (*perform)(struct gbx_engine* engine, struct gbx__task* task);
};

/* Hands `task` to the engine's thread, which performs and frees it (or lets
 * `perform` take it over). Any thread. */
void gbx__engine_post(struct gbx_engine* engine, struct gbx__task* task);

/* ---- Handles ---------------------------------------------------------- */

/* A uv_poll_t or uv_timer_t on the heap that frees itself once closed. Setting
 * the owner's pointer to NULL is part of closing, so closing twice is safe. */
uv_poll_t* gbx__poll_new(struct gbx_engine* engine, int fd, void* data);
void gbx__poll_close(uv_poll_t** poll);
uv_timer_t* gbx__timer_new(struct gbx_engine* engine, void* data);
void gbx__timer_close(uv_timer_t** timer);

/* ---- Work that may block ------------------------------------------------ */

/* Runs `work` on a worker thread, then `done` on the engine's. */
struct gbx__work {
  struct gbx__task task; /* on the way back */
  struct gbx__work* next;
  void (*work)(struct gbx__work* work);
  void (*done)(struct gbx__work* work);
};
void gbx__work_start(struct gbx_engine* engine, struct gbx__work* work);

/* As many as Node's own for its files. */
#define GBX__POOL_THREADS 4

struct gbx__pool {
  uv_mutex_t mutex; /* protects all: any thread */
  uv_cond_t wake;   /* a job came, or the pool ends */
  struct gbx__work *first, **last;
  int waiting; /* jobs in the list */
  int idle;    /* threads that wait for one */
  uv_thread_t threads[GBX__POOL_THREADS];
  int count;
  bool ending;
};

/* Returns 0 or a negative errno. */
int gbx__pool_init(struct gbx__pool* pool);
/* Ends the threads. No job may be left. */
void gbx__pool_done(struct gbx__pool* pool);

/* ---- Roots ------------------------------------------------------------- */

struct gbx__root {
  struct gbx__root* next;
  uint32_t id;
  void* blob; /* the records; two sessions with the same share a root */
  size_t blob_size;
  bool shares_network; /* if they agree on this too */
  bool ready;
  uint32_t given_up; /* as the launcher said: 1 << enum gbx_runtime */
};

/* The records of a root, on the heap; NULL without memory. */
uint8_t* gbx__root_records_make(const struct gbx_session_options* options,
                                size_t* ret_size);

struct gbx__root* gbx__root_find(const struct gbx_engine* engine, uint32_t id);
/* The one with the session's records, or NULL. It becomes the first of the
 * list, which is in the order of last use. */
struct gbx__root* gbx__root_find_for(const struct gbx_session* session);
/* Makes the session's, and sends it to the launcher, who will answer. Errors:
 * GBX_E_SETUP, GBX_E_NO_MEMORY. */
int gbx__root_send(struct gbx_session* session, struct gbx_err* err);
/* A root that no session uses keeps its ready boxes, for one-shot calls; but
 * not every root for ever, or a host with a virtual environment for each
 * customer would fill up with them. */
void gbx__roots_trim(struct gbx_engine* engine);
/* Takes it out of the list. */
void gbx__root_unlink(struct gbx_engine* engine, const struct gbx__root* root);
void gbx__root_free(struct gbx__root* root);

/* ---- The connection to keeper and launcher ---------------------------- */

struct gbx__outgoing {
  struct gbx__outgoing* next;
  struct gbx_fds fds; /* duplicates */
  struct gbx_msg_head* message;
};

enum gbx__client_state { CLIENT_DOWN, CLIENT_STARTING, CLIENT_UP };

struct gbx__client {
  enum gbx__client_state state;
  pid_t keeper_pid;
  int keeper_pidfd, keeper_fd, launcher_fd;
  uv_poll_t *keeper_end, *keeper_poll, *launcher_poll;
  uv_timer_t* start_timer;
  uv_timer_t* silence_timer; /* runs while an answer may be owed; lives on */
  bool heard;                /* from the launcher since it was started */
  bool pinged;               /* and nothing heard since */
  bool keeper_up, launcher_up;
  bool was_up;                         /* the pair that ended had come up */
  uint32_t controllers;                /* enum gbx_controllers */
  bool scopes;                         /* the kernel has Landlock's */
  struct gbx__root* roots;             /* the one used last is the first */
  struct gbx__outgoing *first, **last; /* the launcher's socket was full */
};

void gbx__client_init(struct gbx__client* client);
/* Starts both processes if they do not run. Ends in gbx__sessions_client_up
 * or gbx__sessions_client_lost. */
void gbx__client_start(struct gbx_engine* engine);
/* Ends both; what depends on them fails with `err`. */
void gbx__client_stop(struct gbx_engine* engine, const struct gbx_err* err);
/* Sends to the launcher, or keeps the message with copies of the descriptors
 * until its socket has room. Returns 0, or a negative errno if they cannot be
 * sent; a message without any does not fail. */
int gbx__client_send(struct gbx_engine* engine,
                     const struct gbx_msg_head* message, const int* fds,
                     int count);
/* The launcher was to end something and did not say so: if it says nothing else
 * either, it is given up. */
void gbx__client_ping(struct gbx_engine* engine);
/* Tells the keeper of a temporary workspace, or that it is gone. Returns false
 * if it does not run or its socket is full. */
bool gbx__client_temp(struct gbx_engine* engine, enum gbx_msg_type type,
                      const char* path);

/* ---- Engine ------------------------------------------------------------ */

struct gbx_engine {
  uv_thread_t thread;
  uv_loop_t loop;
  uv_async_t wake;
  uv_mutex_t mutex; /* protects the task list: any thread */
  struct gbx__task *first_task, **last_task;
  struct gbx__pool pool;
  uint32_t working; /* jobs that the pool has */
  bool closing;
  char launcher_path[PATH_MAX];

  bool filters_made;
  bool notify;
  struct gbx_bytes payload_filter, init_filter, zygote_filter;

  struct gbx_moments* moments; /* NULL: nobody asked */
  int moments_fd;

  struct gbx__client client;
  char* local_temp_dir; /* where the last temporary workspace was made, if that
                           is a local filesystem; or NULL */
  struct gbx_session* sessions;
  struct gbx_file* files;           /* open ones, of all sessions */
  struct gbx_run *runs, **last_run; /* in the order in which they start */
  uint32_t starting; /* runs that the launcher has not started yet */
  uint32_t held;     /* no run starts: see gbx__runs_hold */
  uint32_t counts;   /* of workspaces that grow, by workers */
  struct gbx__tracker_budget tracker_budget; /* workers */
  uint32_t next_id;                          /* protected by `mutex` */
};

/* A number for a session, root or run: unique in the engine. Any thread. */
uint32_t gbx__engine_next_id(struct gbx_engine* engine);

/* A job is done: lets the loop end, if it was the last of an engine that
 * closes. */
void gbx__engine_settle(struct gbx_engine* engine);

/* Compiles both filters, once. */
int gbx__engine_make_filters(struct gbx_engine* engine, struct gbx_err* err);

/* ---- Growth of a workspace --------------------------------------------- */

enum gbx__fullness {
  DISK_OK,
  DISK_FULL,   /* it grew by more than it may */
  DISK_HIDDEN, /* not all was seen, and the filesystem lost more than that */
};

struct gbx__disk {
  uint64_t limit_bytes;    /* of growth; 0: lifted */
  uint64_t base_bytes;     /* counted when the session was opened */
  uint64_t grown_bytes;    /* as last counted */
  uint64_t nameless_bytes; /* in files without a name, when last looked for */
  uint32_t boxes;          /* that run */
  enum gbx__fullness full;
  uv_timer_t* timer; /* exists while boxes run */
  /* Instead of the timer, while nothing happens: of the tracker's descriptor.
   */
  uv_poll_t* rest;
  /* What the tracker had been told when a count began that saw all, and when
   * the one at work did; NO_STIRS: nothing that says so. */
  uint64_t seen_stirs, counting_stirs;

  struct gbx__work work;
  bool looking;           /* a worker has `work` */
  bool last_look_due;     /* the last box has ended and was not looked after */
  bool holding;           /* that look is on its way: no run may start */
  atomic_bool cancelled;  /* by close: the look's result is of no use */
  struct gbx__space mark; /* most free since the disk was found in order */
  uint64_t mark_grown_bytes; /* `grown_bytes` then */
  struct gbx__space now;
  bool suspicious;              /* more went from `mark` to `now` than may */
  struct gbx__box* found_boxes; /* for the count at work; or NULL */
  size_t found_box_count;
  struct gbx__usage usage, nameless;
  uint64_t counted_ns, count_took_ns;
};

/* When the session is opened: what is there does not count as growth. Blocks:
 * for a worker. Errors: GBX_E_WORKSPACE, GBX_E_NO_MEMORY, GBX_E_IO. */
int gbx__disk_open(struct gbx_session* session, struct gbx_err* err);
/* Around the life of each box. GBX_E_NO_MEMORY. */
int gbx__disk_box_starts(struct gbx_session* session, struct gbx_err* err);
void gbx__disk_box_ended(struct gbx_session* session);
/* A run was reported: nobody waits for what is left to look at. */
void gbx__disk_run_ended(struct gbx_session* session);
/* Something has happened in the workspace, or its tracker goes to a worker. */
void gbx__disk_stirs(struct gbx_session* session);
/* Whether the next run may start. If not, the workspace is being counted: the
 * runs that wait then fail, or gbx__runs_advance is called. */
bool gbx__disk_admits(struct gbx_session* session);

/* ---- Sessions ---------------------------------------------------------- */

enum gbx__attach { DETACHED, ATTACHING_ROOT, ATTACHING_WORKSPACE, ATTACHED };

struct gbx_session {
  struct gbx_session* next;
  struct gbx_engine* engine;
  uint32_t id; /* also its workspace's */
  struct gbx__root* root;
  atomic_uint given_up; /* the root's; callers ask for it */
  void* blob;           /* the root's records */
  size_t blob_size;
  bool shares_network;
  bool has_workspace;
  struct gbx__workspace workspace;
  char* wanted_workspace; /* NULL: temporary */
  char* temp_dir;
  struct gbx__mounts mounts;
  struct gbx_limits limits;
  bool enforce_limits;
  uint32_t controllers; /* that its open() found: enum gbx_controllers */
  struct gbx__disk disk;
  enum gbx__attach attach; /* to the launcher that runs now */
  bool keeper_knows;       /* of the temporary workspace: the one that runs */

  gbx_session_open_cb open_cb; /* NULL once called */
  void* open_data;
  struct gbx_err open_err; /* code != 0: why it could not be opened */
  bool once;               /* it closes when its run has ended: see once.c */
  bool closing;
  struct gbx__task* close_task; /* NULL once gbx_session_close was called */
  gbx_done_cb close_cb;
  void* close_data;
  uint32_t pending_work;        /* worker jobs that use the workspace */
  struct gbx__tracker* tracker; /* NULL: not needed yet */
  struct gbx_run* tracking;     /* has the tracker; or NULL */
  bool tracking_alone;          /* no other box has lived since that took it */
  bool doubtful;                /* one may live that we know nothing of */
  atomic_uint file_count;       /* as last walked, by a worker */
  bool unpacking;               /* a restore is on its way */
  bool swapping; /* it changes places with what is there: no run starts */
};

/* Why a call on a session that is closed fails. */
extern const struct gbx_err gbx__session_closed;

/* One that the engine's thread does not know yet, with copies of all that it is
 * given. Any thread. GBX_E_INVALID, GBX_E_NO_MEMORY. */
int gbx__session_new(struct gbx_engine* engine,
                     const struct gbx_session_options* options,
                     gbx_session_open_cb cb, void* data,
                     struct gbx_session** ret_session, struct gbx_err* err);
/* Frees such a one; takes NULL. */
void gbx__session_discard(struct gbx_session* session);
/* Opens it. */
void gbx__session_begin(struct gbx_session* session);

/* Whether a session waits for the launcher, or with `all` is open at all. */
bool gbx__sessions_wait(const struct gbx_engine* engine, bool all);
/* Whether the launcher owes an answer. */
bool gbx__sessions_await(const struct gbx_engine* engine);
/* A keeper runs: it is told of all temporary workspaces. */
void gbx__sessions_client_starts(struct gbx_engine* engine);
/* The launcher can be asked: all sessions attach themselves. */
void gbx__sessions_client_up(struct gbx_engine* engine);
/* It is gone: every session is detached, those that wait fail. */
void gbx__sessions_client_lost(struct gbx_engine* engine,
                               const struct gbx_err* err);
/* The launcher answered for a root or workspace. */
void gbx__sessions_done(struct gbx_engine* engine, uint32_t id,
                        const struct gbx_err* err);
/* The launcher said which interpreters of a root cannot wait. */
void gbx__sessions_given_up(struct gbx_engine* engine, uint32_t id,
                            uint32_t runtimes);
/* Attaches the session if it is not; its runs start when it is. */
void gbx__session_attach(struct gbx_session* session);
/* Whether a run of the session may be sent to the launcher. */
bool gbx__session_takes_runs(const struct gbx_session* session);
/* A run is over: so is a session that was for it alone. */
void gbx__session_run_ended(struct gbx_session* session);
/* A run or job of the session ended: goes on with closing, if it closes. */
void gbx__session_settle(struct gbx_session* session);
struct gbx_session* gbx__session_find(struct gbx_engine* engine, uint32_t id);
/* The session closes: its open files are closed, by workers. */
void gbx__session_close_files(struct gbx_session* session);
/* The session is freed: what is left of that is done now. */
void gbx__session_drop_files(struct gbx_session* session);
/* After all sessions: frees what the caller did not close. */
void gbx__files_free(struct gbx_engine* engine);
/* Fails whatever waits, frees all: the engine ends. */
void gbx__sessions_abandon(struct gbx_engine* engine,
                           const struct gbx_err* err);

/* ---- Captured output --------------------------------------------------- */

struct gbx__capture {
  int fd;
  uv_poll_t* poll;
  uint8_t* data;
  size_t size, room;
  size_t limit;
  size_t taken; /* handed over by gbx_run_take_output */
  bool truncated;
  /* The caller reads the pipe itself, and the capture has only what is left at
   * the end of the box. */
  bool is_stream;
  bool is_awaited; /* on_output is to tell when there is something */
  bool is_drained; /* the rest is in the capture */
};

/* Reads what is there, at most `most` bytes: into the capture as far as its
 * limit lets it, beyond that away. Returns false at the end of the pipe. The
 * caller holds the run's mutex. */
bool gbx__capture_read(struct gbx__capture* capture, size_t most);
void gbx__capture_reset(struct gbx__capture* capture, size_t limit);
void gbx__capture_close(struct gbx__capture* capture);

/* ---- Input -------------------------------------------------------------- */

/* What the payload reads from stdin: the writing end of a pipe, or a second
 * descriptor of its terminal. */
struct gbx__input {
  int fd; /* -1: none, or given up */
  uv_poll_t* poll;
  struct gbx__chunk *first, **last;
  bool is_terminal;
  bool ends; /* behind the last chunk */
};

struct gbx__chunk {
  struct gbx__chunk* next;
  size_t size, sent;
  bool is_asked; /* by gbx_run_write: on_input tells that it is written */
  uint8_t bytes[];
};

/* A chunk with a copy of the bytes, or with room for them where data is NULL;
 * NULL without memory. */
struct gbx__chunk* gbx__chunk_new(const void* data, size_t size);

void gbx__input_init(struct gbx__input* input);
/* Takes the chunk. */
void gbx__input_add(struct gbx__input* input, struct gbx__chunk* chunk,
                    bool ends);
enum gbx__input_state {
  INPUT_IDLE,    /* all is written */
  INPUT_WAITING, /* the pipe is full */
  INPUT_BROKEN,  /* nobody reads any more */
};
/* Writes what the pipe takes; counts in *written the chunks that were asked for
 * and are done. Closes it behind the end, or if it is broken. */
enum gbx__input_state gbx__input_flush(struct gbx__input* input, int* written);
void gbx__input_close(struct gbx__input* input);

/* ---- What driver and engine say ---------------------------------------- */

/* Frames of the driver come by a pipe, cells go by a socket on which it cannot
 * answer. A socket that we read would let the code send descriptors along,
 * which the kernel closes in our read: for as long as the code likes, if one is
 * of a connection that lingers (ATK-LINGER). */
struct gbx__control {
  int fd; /* the pipe; -1: none, or given up */
  uv_poll_t* poll;
  int cell_fd;
  uv_poll_t* cell_poll;
  uint8_t* out; /* unsent */
  size_t out_size, out_sent;
  bool shut_when_sent;
  uint8_t head[8];
  size_t head_size;
  uint8_t* body;
  size_t body_size, body_have;
  uint32_t type;
  unsigned marks; /* of the body's structure, outside of its strings */
  bool in_string, escaped;
  size_t budget;         /* for the bodies of this cell's results */
  unsigned results_left; /* that it may still send */
  bool dropped;          /* one went over them, or there was no memory */
  bool done_came;
  bool resetting; /* a frame was given up: its bytes end with a NUL */
  bool was_reset; /* since the cell began */
  uint8_t* again; /* read already, and not of the frame at hand */
  size_t again_size, again_taken, again_room;
};

enum gbx__control_event {
  CONTROL_NOTHING, /* no whole frame is there, or the share is used up */
  CONTROL_FRAME,
  CONTROL_END,
  CONTROL_FAULT, /* no driver sends this */
  CONTROL_NO_MEMORY,
};

/* Before the first frame of a run or of a cell. */
void gbx__control_begin(struct gbx__control* control);
/* Reads up to the end of one frame, and no more than about `share` bytes, which
 * it counts down. After CONTROL_FRAME `type`, `body` and `body_size` are valid
 * until gbx__control_next. */
enum gbx__control_event gbx__control_read(struct gbx__control* control,
                                          size_t* share);
void gbx__control_next(struct gbx__control* control);
/* Queues a frame and writes what the socket takes. Nothing may be unsent. */
int gbx__control_send(struct gbx__control* control, enum gbx_frame type,
                      struct gbx_bytes body, struct gbx_err* err);
/* Writes on. Returns whether there is more. */
bool gbx__control_flush(struct gbx__control* control);
void gbx__control_close(struct gbx__control* control);

/* ---- Programs ---------------------------------------------------------- */

/* cwd, argv and env one after the other, as wire.h says, on the heap. Returns 0
 * or -ENOMEM. */
int gbx__exec_blob_make(const char* cwd, const char* const* argv,
                        const char* const* env, struct gbx_bytes* ret_blob);

/* ---- Runs -------------------------------------------------------------- */

struct gbx__cell {
  struct gbx__cell* next;
  void* data;                      /* the caller's */
  struct gbx_cell_options options; /* the body is its own */
};

/* Of a run that is traced. */
struct gbx__trace {
  struct gbx_blocked_call calls[GBX_BLOCKED_MAX + 1];
  size_t count;
  bool known; /* the launcher said it; else it is too ill to, not: none */
};

enum gbx__run_state {
  RUN_WAITING,  /* for its session or for a place in the launcher */
  RUN_SCANNING, /* the workspace is looked at before the start */
  RUN_STARTING, /* sent to the launcher */
  RUN_RUNNING,
  RUN_ENDED, /* its box is gone */
};

struct gbx_run {
  struct gbx_run* next;
  struct gbx_session* session;
  struct gbx_engine* engine;
  uint32_t id;
  enum gbx__run_state state;
  struct gbx_run_events events;
  void* data;

  struct gbx_bytes blob;   /* cwd, argv and env, as in wire.h */
  struct gbx_bytes script; /* for a memfd at descriptor 3; data NULL: none */
  uint64_t timeout_ms;
  struct gbx_limits limits;
  bool has_control, kernel, track_files, has_input, stream, cold;
  uint32_t runtime;               /* enum gbx_runtime */
  uint16_t pty_columns, pty_rows; /* 0: no terminal */
  struct gbx__input input;
  int payload_fd;           /* with `stream` or `kernel`: the payload's pidfd */
  uint64_t waiting_signals; /* bit n - 1: to be sent to it */
  bool was_signalled;
  struct gbx_bytes cell; /* without `kernel`: the one cell */

  uv_mutex_t mutex; /* protects what follows up to `control`: any thread */
  struct gbx__task* abort_task; /* so that it cannot fail; NULL once posted */
  struct gbx__capture output[2];
  bool announced; /* on_output was called and nothing taken since */
  /* Also the descriptors of streams: one that is set may be read from by any
   * thread. */

  struct gbx__control control;
  uv_timer_t* timer; /* the deadline; after a kill, the patience; there from
                        STARTING until ENDED */
  int pidfd;         /* of the box's init; -1 before STARTED */
  uint64_t start_ns;

  /* Why we ended it, if we did. */
  bool timed_out, aborted, closed, over_disk;
  bool killed; /* the kill was sent, or will be with STARTED */
  struct gbx_msg_end end;
  struct gbx_err failure; /* code != 0: on_end gets it instead of a result */

  struct gbx__index* before; /* without the tracker */
  bool scanned;              /* there is something to compare with */
  bool tracks;               /* it has the session's tracker */
  bool is_new_kernel;        /* the scan is the one before its box begins */
  bool compares_alone;
  struct gbx_changed_file* files;
  size_t file_count;
  bool files_truncated;
  struct gbx__work scan;
  bool scanning;  /* a worker has this run: it must not be freed */
  bool comparing; /* the scan is the one after, not the one before */

  struct gbx__trace* trace; /* NULL: not traced */

  struct gbx__cell *cells, **last_cell; /* the first is the active one */
  bool cell_active;                     /* its CELL frame was sent */
  bool cell_interrupted, cell_timed_out;
  bool interrupt_due; /* the interrupt goes as soon as all of the frame went */
  bool term_sent;     /* to the interpreter that goes on all the same */
  bool cell_asked;    /* its report waits for the launcher's answer */
  struct gbx__meter meter;
  struct gbx_bytes done; /* body of its DONE frame */
  uint64_t cell_start_ns, cell_end_ns;
};

struct gbx_run* gbx__run_find(struct gbx_engine* engine, uint32_t id);
/* Starts runs that wait and can. */
void gbx__runs_advance(struct gbx_engine* engine);
/* Around a walk through the list of runs that may end the one at hand. No run
 * starts meanwhile, since one that cannot start ends and is freed, and it may
 * be the next of the walk. Nests. */
void gbx__runs_hold(struct gbx_engine* engine);
void gbx__runs_release(struct gbx_engine* engine);
void gbx__run_started(struct gbx_run* run,
                      const struct gbx_msg_started* started,
                      struct gbx_fds* fds);
void gbx__run_blocked(struct gbx_run* run,
                      const struct gbx_msg_blocked* blocked);
void gbx__run_end(struct gbx_run* run, const struct gbx_msg_end* end);
/* Ends a run without a result. */
void gbx__run_fail(struct gbx_run* run, const struct gbx_err* err);
enum gbx__why { WHY_ABORTED, WHY_CLOSED };
void gbx__run_kill(struct gbx_run* run, enum gbx__why why);

#endif  // SRC_ENGINE_INTERNAL_H_
