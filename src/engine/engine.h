/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_ENGINE_ENGINE_H_
#define SRC_ENGINE_ENGINE_H_

/* The engine: runs payloads in boxes, from any one process, without ever
 * forking in it.
 *
 * Life cycle
 * ----------
 *   struct gbx_engine* engine;
 *   gbx_engine_new(&options, &engine, &err);   starts the engine's thread
 *   gbx_session_open(engine, &so, cb, data);   cb: session, or why not
 *   gbx_run_start(session, &ro, &events, data) any number, at the same time
 *   gbx_session_close(session, cb, data);      kills what runs, then cb
 *   gbx_run_once(engine, &so, &ro, ...)        these three in one
 *   gbx_engine_free(engine);                   blocks until all is gone
 *
 * Threads
 * -------
 * Every function here may be called from any thread and returns at once, with
 * the exceptions that say "blocks". Every callback is called on the engine's
 * thread, never from inside the call that takes it, and must not block. It may
 * call functions of this header, gbx_engine_free excepted.
 *
 * Ownership
 * ---------
 * Options and everything they point to are copied before the call returns.
 * What a callback is given belongs to the engine and ends with the callback,
 * where the callback's comment does not say otherwise.
 *
 * Kernel floor: Linux 5.15. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

struct gbx_engine;
struct gbx_session;
struct gbx_run;

/* ---- Engine ------------------------------------------------------------ */

struct gbx_engine_options {
  const char* launcher_path; /* absolute path of the launcher executable */
  const char* profile_path;  /* see common/moments.h; NULL: no profile */
};

/* Starts the engine's thread. The keeper and the launcher start with the first
 * session, and again after they died. GBX_E_NO_MEMORY, GBX_E_START. */
int gbx_engine_new(const struct gbx_engine_options* options,
                   struct gbx_engine** ret_engine, struct gbx_err* err);

/* Ends every run and session (their callbacks come first, with GBX_E_CLOSED),
 * lets the keeper clean up, joins the thread. Blocks; takes NULL. Pointers to
 * sessions and runs are dead afterwards. */
void gbx_engine_free(struct gbx_engine* engine);

/* ---- Session ----------------------------------------------------------- */

/* What a root is made of, in order. Targets are absolute paths in the box. */
enum gbx_entry_kind {
  GBX_ENTRY_DIR = 1,     /* an empty folder at target */
  GBX_ENTRY_BIND = 2,    /* host file or folder `source`, read-only */
  GBX_ENTRY_SYMLINK = 3, /* target is a symlink with the text `source` */
  GBX_ENTRY_FILE = 4,    /* a read-only file with the given data */
};

struct gbx_entry {
  enum gbx_entry_kind kind;
  const char* target;
  const char* source; /* BIND, SYMLINK */
  const void* data;   /* FILE */
  size_t size;
};

/* What may wait in a box of the root for its call, so that the call finds it
 * started. Which of them a run can do with, gbx_run_options says. */
enum gbx_standby_runtime {
  GBX_STANDBY_NONE = 0, /* argv is executed */
  GBX_STANDBY_PYTHON = 1,
  GBX_STANDBY_NODE = 2,
  GBX_STANDBY_ZYGOTE = 3, /* of a session: python that forks what waits */
};

/* How one is started, and that it then waits: src/join/take.h. */
struct gbx_standby {
  enum gbx_standby_runtime runtime;
  bool required; /* of a zygote: the session opens when it waits, or fails */
  const char* const* argv; /* NULL-terminated, an absolute path first */
  const char* const* env;  /* NULL-terminated "NAME=value"; all of it */
};

/* A file or folder of the host that boxes get beside the workspace. Both paths
 * are absolute and without ".." and doubled slashes. */
struct gbx_mount {
  const char* source;
  const char* target; /* in the box */
  bool writable;
};

/* 0 lifts a limit. */
struct gbx_limits {
  uint64_t memory_bytes;
  uint64_t pids;
  uint64_t cpu_millis; /* thousandths of a core */
};

struct gbx_session_options {
  const struct gbx_entry* entries;
  size_t entry_count;
  const struct gbx_standby* standbys;
  size_t standby_count;
  const char* workspace; /* absolute path, made if missing; NULL: temporary */
  const char* temp_dir;  /* absolute; where a temporary workspace is made */
  /* At most GBX_MOUNTS_MAX of wire.h; one whose target is in another's comes
   * after that. */
  const struct gbx_mount* mounts;
  size_t mount_count;
  struct gbx_limits limits;
  uint64_t disk_bytes; /* that the workspace may grow by; 0 lifts */
  bool enforce_limits; /* false: no cgroup */
  bool shares_network; /* boxes have the host's network; else loopback only */
};

/* How a limit is enforced, if there is one. */
enum gbx_enforcement {
  GBX_ENFORCED_NONE = 0,
  GBX_ENFORCED_KERNEL = 1,
  GBX_ENFORCED_WATCHDOG = 2,
};

struct gbx_session_info {
  const char* workspace; /* absolute host path */
  enum gbx_enforcement memory, pids, cpus, disk;
  bool cgroups; /* boxes that wait have one, and those of calls with limits */
  /* With `shares_network`: the host's abstract unix sockets are out of reach,
   * by Landlock. False where the kernel has no scopes (Linux before 6.12). */
  bool scoped;
};

/* `session` is NULL if it could not be opened: then `err` says why. A session
 * stays valid until gbx_session_close's callback. */
typedef void (*gbx_session_open_cb)(void* data, const struct gbx_err* err,
                                    struct gbx_session* session,
                                    const struct gbx_session_info* info);
typedef void (*gbx_done_cb)(void* data, const struct gbx_err* err);

/* Prepares the root (once per distinct list of entries, network and targets of
 * mounts) and the workspace.
 * Callback: GBX_E_START, GBX_E_SETUP, GBX_E_WORKSPACE, GBX_E_MOUNT,
 * GBX_E_MOUNT_REFUSED (op "mount": the detail is "NUMBER REASON: SOURCE" and
 * "NUMBER RULE REASON: SOURCE"), GBX_E_LIMIT, GBX_E_UNSUPPORTED, GBX_E_DIED,
 * GBX_E_NO_MEMORY, GBX_E_CLOSED. */
int gbx_session_open(struct gbx_engine* engine,
                     const struct gbx_session_options* options,
                     gbx_session_open_cb cb, void* data, struct gbx_err* err);

/* Which interpreters of its root cannot wait, as far as is known now: 1 << enum
 * gbx_standby_runtime. From any thread; not after gbx_session_close(). */
uint32_t gbx_session_given_up(const struct gbx_session* session);

/* Kills what runs (those runs end with GBX_E_CLOSED, before cb), removes a
 * temporary workspace, frees the session after cb. Once per session. */
void gbx_session_close(struct gbx_session* session, gbx_done_cb cb, void* data);

/* ---- Run --------------------------------------------------------------- */

struct gbx_bytes {
  const void* data;
  size_t size;
};

struct gbx_run_options {
  const char* const* argv;   /* NULL-terminated, at least one */
  const char* const* env;    /* NULL-terminated "NAME=value"; all of it */
  const char* cwd;           /* absolute path in the box; NULL: /workspace */
  uint64_t timeout_ms;       /* at least 1; kernel: 0, cells have their own */
  uint64_t max_output_bytes; /* for stdout and stderr each */
  struct gbx_limits limits;
  bool control; /* descriptors 3 and 4 are the driver's: docs/protocol.md */
  bool track_files;
  /* With `control` and no `kernel`: the one cell's frame body, sent at once,
   * after which the engine closes its sending side. */
  struct gbx_bytes cell;
  bool kernel; /* many cells, by gbx_run_cell */
  /* With `control`: an interpreter that stands by may serve this run instead of
   * argv, if one is there. It gets cwd and env when it is running already. */
  enum gbx_standby_runtime standby;
  bool cold;  /* no box that was made ahead of need */
  bool trace; /* results say which calls were refused; GBX_E_UNSUPPORTED */
  /* Bytes for a sealed memfd at descriptor 3, for a script too long for argv.
   * Not together with `control`. */
  struct gbx_bytes script;
  /* stdin is a pipe, to be written with gbx_run_write; else it is at its end
   * from the start. */
  bool input;
  struct gbx_bytes first_input; /* with `input`: what to write first */
  bool input_ends;              /* there is no more after that */
  /* A process to talk to: the caller takes output out of the pipes with
   * gbx_run_read_output, and where he does not the process waits; none of it is
   * in the result, and max_output_bytes does not count. on_start is called. */
  bool stream;
  /* Not 0, with `stream` and `input`: stdin, stdout and stderr are a terminal
   * of that size, and all output comes as stdout. */
  uint16_t pty_columns, pty_rows;
};

enum gbx_stream { GBX_STDOUT = 0, GBX_STDERR = 1 };

enum gbx_fault {
  GBX_FAULT_NONE = 0,
  GBX_FAULT_TIMEOUT = 1,
  GBX_FAULT_OOM = 2,
  GBX_FAULT_ESCAPE = 3,
  GBX_FAULT_KILLED = 4,
  GBX_FAULT_DISK = 5, /* the workspace grew by more than disk_bytes */
};

enum gbx_change { GBX_CREATED = 1, GBX_MODIFIED = 2, GBX_DELETED = 3 };

struct gbx_changed_file {
  const char* path; /* bytes, relative to the workspace, NUL-terminated */
  uint64_t size;
  enum gbx_change change;
};

struct gbx_output {
  const uint8_t* data;
  size_t size;
  bool truncated;
};

/* Which call the filter refused, with which errno, how often. The last one may
 * be of no call, "", and then sums up those that there was no place for. */
struct gbx_blocked_call {
  char syscall[40]; /* "chroot", or "998" without a name */
  int sys_errno;
  uint64_t count;
};

/* `calls` is NULL if the run is not traced, or nobody can say. */
struct gbx_blocked {
  const struct gbx_blocked_call* calls;
  size_t count;
};

/* 0: not known. */
struct gbx_usage {
  uint64_t cpu_us;                     /* of all processes, with `has_cpu` */
  uint64_t cpu_user_us, cpu_system_us; /* with `has_cpu_split` */
  uint64_t read_bytes, written_bytes;  /* of block devices, with `has_io` */
  uint64_t max_memory_bytes;
  uint64_t max_pids;
  /* Known, be they 0. Of the processes that somebody in the box waited for,
   * where no cgroup counts them. */
  bool has_cpu, has_cpu_split, has_io;
};

struct gbx_run_result {
  struct gbx_output output[2]; /* by enum gbx_stream */
  int exit_code;               /* 0-255; 128+n for a signal */
  int signal;                  /* 0, or the number */
  enum gbx_fault fault;
  char fault_syscall[40]; /* "mount", or "467" without a name; "": not known */
  struct gbx_err exec;    /* code GBX_E_EXEC if argv could not be executed */
  bool frames_truncated;  /* a result frame was dropped for want of room */
  uint64_t duration_us;
  struct gbx_usage usage;
  struct gbx_blocked blocked;
  const struct gbx_changed_file* files;
  size_t file_count;
  bool files_truncated; /* there are too many to be compared */
};

struct gbx_cell_result {
  struct gbx_output output[2];
  struct gbx_bytes done; /* body of the driver's DONE frame; NULL if none */
  enum gbx_fault fault;  /* not NONE: the kernel is gone */
  bool interrupted;      /* it was sent an interrupt */
  bool timed_out;        /* its time was over before DONE came */
  /* The box has ended; these are then as those of a run. */
  bool has_exit;
  int exit_code, signal;
  char fault_syscall[40];
  struct gbx_usage usage;     /* of its box, while it was active */
  struct gbx_blocked blocked; /* since the last cell */
  bool frames_truncated;
  uint64_t duration_us;
  const struct gbx_changed_file* files;
  size_t file_count;
  bool files_truncated; /* there are too many to be compared */
};

/* Frame types of the driver's control socket (docs/protocol.md). */
enum gbx_frame {
  GBX_FRAME_CELL = 1,      /* engine -> driver */
  GBX_FRAME_RESULT = 2,    /* driver -> engine: one rich result */
  GBX_FRAME_DONE = 3,      /* driver -> engine: the cell ended */
  GBX_FRAME_COMMAND = 4,   /* engine -> driver, answered by DONE */
  GBX_FRAME_INTERRUPT = 5, /* engine -> driver: SIGINT follows */
};

/* What a kernel is to do next. */
struct gbx_cell_options {
  enum gbx_frame type;   /* CELL or COMMAND */
  struct gbx_bytes body; /* of the frame */
  /* When it is over, the interpreter is interrupted; it is killed if that does
   * not help. At least 1. */
  uint64_t timeout_ms;
  uint64_t max_output_bytes; /* for stdout and stderr each */
  bool track_files;
  /* The payload only watches the interpreter: SIGTERM makes it kill that and
   * answer in its place. Else the whole box is killed. */
  bool supervised;
};

/* Called in this order for a run: any mix of on_start (once, with `stream`),
 * on_input, on_output, on_frame and on_cell, then on_end once; the run is freed
 * after it. Every member may be NULL but on_end. `data` is the pointer given to
 * gbx_run_start. */
struct gbx_run_events {
  /* There is output that gbx_run_take_output has not handed over. Not called
   * again before that function was called. */
  void (*on_output)(void* data);
  void (*on_frame)(void* data, enum gbx_frame type, const uint8_t* body,
                   size_t size);
  /* One per gbx_run_cell, in order; none for a cell that came after on_end.
   * err: GBX_E_KERNEL_DEAD, or what on_end will get; result is then NULL. */
  void (*on_cell)(void* data, void* cell_data, const struct gbx_err* err,
                  const struct gbx_cell_result* result);
  /* err: the sandbox failed (GBX_E_SETUP, _DIED, _CLOSED, _ABORTED,
   * _DISK_FULL, ...);
   * result is then NULL. */
  void (*on_end)(void* data, const struct gbx_err* err,
                 const struct gbx_run_result* result);
  /* The payload is about to execute; pid: as its box numbers it. */
  void (*on_start)(void* data, int pid);
  /* Once after each gbx_run_write, when all of its bytes are in the pipe, and
   * once with is_open false when nobody reads any more: from then on bytes are
   * dropped. */
  void (*on_input)(void* data, bool is_open);
  /* Of gbx_run_once alone. Its session is open; may come after on_end, of a run
   * that was aborted before. */
  void (*on_open)(void* data, const struct gbx_session_info* info);
  /* Last of all: its session is gone, and its temporary workspace with it. err:
   * that could not be removed. */
  void (*on_close)(void* data, const struct gbx_err* err);
};

/* Starts one payload in a box of its own. The run is valid until its on_end
 * returned. GBX_E_NO_MEMORY, GBX_E_INVALID. */
int gbx_run_start(struct gbx_session* session,
                  const struct gbx_run_options* options,
                  const struct gbx_run_events* events, void* data,
                  struct gbx_run** ret_run, struct gbx_err* err);

/* The same with a session of its own, which nobody else has and which closes by
 * itself when the run has ended. Every member of `events` may be NULL but
 * on_end and on_close. on_end: what gbx_session_open's callback gets, too. The
 * run is valid until its on_end returned. Errors of both. */
int gbx_run_once(struct gbx_engine* engine,
                 const struct gbx_session_options* session,
                 const struct gbx_run_options* options,
                 const struct gbx_run_events* events, void* data,
                 struct gbx_run** ret_run, struct gbx_err* err);

/* Queues a cell for a run with `kernel`. GBX_E_NO_MEMORY, GBX_E_INVALID. */
int gbx_run_cell(struct gbx_run* run, const struct gbx_cell_options* options,
                 void* cell_data, struct gbx_err* err);

/* Interrupts the cell that runs; nothing happens if none does. With `insist` as
 * its timeout would: an interpreter that goes on all the same is killed.
 * GBX_E_NO_MEMORY. */
int gbx_run_interrupt(struct gbx_run* run, bool insist, struct gbx_err* err);

/* Ends the run: on_end comes with GBX_E_ABORTED, unless it had ended. */
void gbx_run_abort(struct gbx_run* run);

/* Queues bytes for stdin of a run with `input`; with `ends` that was all, and
 * stdin ends behind them (a terminal gets Ctrl-D instead). on_input comes when
 * they are written: write no more before, or memory grows with what nobody
 * reads. Not after a write with `ends`. GBX_E_NO_MEMORY. */
int gbx_run_write(struct gbx_run* run, const void* data, size_t size, bool ends,
                  struct gbx_err* err);

/* Sends a signal to the payload of a run with `stream`: now, or as soon as
 * there is one; none if it has ended. GBX_E_NO_MEMORY, GBX_E_INVALID. */
int gbx_run_signal(struct gbx_run* run, int signal, struct gbx_err* err);

/* Gives the terminal another size, which the programs on it are told by
 * SIGWINCH. GBX_E_NO_MEMORY. */
int gbx_run_resize(struct gbx_run* run, uint16_t columns, uint16_t rows,
                   struct gbx_err* err);

/* Of a run with `stream`: nobody reads `stream` any more, so whoever writes to
 * it gets SIGPIPE. GBX_E_NO_MEMORY. */
int gbx_run_close_output(struct gbx_run* run, enum gbx_stream stream,
                         struct gbx_err* err);

/* Of a run with the option `stream`: reads at most `size` bytes. 0: there are
 * none now, and on_output will be called, once, when there are; negative: its
 * end. At the end of the run, in on_end, gbx_run_take_output has the rest. */
long gbx_run_read_output(struct gbx_run* run, enum gbx_stream stream,
                         void* data, size_t size);

/* Copies what `stream` captured since the last call. The caller frees
 * *ret_data with free(); with NULL for ret_data nothing is copied, and the
 * bytes are dropped. Returns the number of bytes, 0 if there are none
 * (*ret_data is then NULL), or a negative errno. Works in on_cell and on_end
 * too. With `kernel`: what a cell wrote and was not taken is gone once its
 * on_cell has returned. Taking one stream, even of nothing, is enough for
 * on_output to be called again. No lock is held in any callback that this
 * function, gbx_run_abort, gbx_run_cell or gbx_run_start would wait for. */
long gbx_run_take_output(struct gbx_run* run, enum gbx_stream stream,
                         uint8_t** ret_data);

/* ---- Workspace files ---------------------------------------------------- */

/* All paths are bytes relative to the workspace. They never leave it: no
 * symlink is followed. The work is done on a worker thread; the callback comes
 * on the engine's thread. Errors: GBX_E_PATH, GBX_E_NOT_FOUND,
 * GBX_E_NOT_REGULAR, GBX_E_TOO_LARGE, GBX_E_BUSY, GBX_E_IO, GBX_E_CLOSED. */

enum gbx_file_type {
  GBX_FILE = 1,
  GBX_FOLDER = 2,
  GBX_SYMLINK = 3,
  GBX_OTHER = 4, /* fifo, socket, device, mount */
  GBX_LINK = 5,  /* in a tree that comes in: a hard link */
};

struct gbx_file_entry {
  const char* path; /* relative to the workspace */
  uint64_t size;    /* 0 for a folder */
  int64_t mtime_ns;
  enum gbx_file_type type;
  uint32_t mode; /* permission bits; only of stat, and of a list with flags */
};

typedef void (*gbx_read_cb)(void* data, const struct gbx_err* err,
                            const uint8_t* bytes, size_t size);
typedef void (*gbx_list_cb)(void* data, const struct gbx_err* err,
                            const struct gbx_file_entry* files, size_t count);

/* Makes missing parents; replaces the file in one step (temporary + rename). */
int gbx_session_write_file(struct gbx_session* session, const char* path,
                           const void* bytes, size_t size, gbx_done_cb cb,
                           void* data, struct gbx_err* err);
int gbx_session_read_file(struct gbx_session* session, const char* path,
                          uint64_t max_bytes, gbx_read_cb cb, void* data,
                          struct gbx_err* err);

enum gbx_list_flags {
  GBX_LIST_ALL = 1,  /* folders, symlinks and others too */
  GBX_LIST_FLAT = 2, /* not what is below the folders in it */
};

/* Regular files below `path` ("" for all), without `.deps`, sorted by path. */
int gbx_session_list_files(struct gbx_session* session, const char* path,
                           unsigned flags, gbx_list_cb cb, void* data,
                           struct gbx_err* err);

/* A list of one: what `path` is, itself. */
int gbx_session_stat(struct gbx_session* session, const char* path,
                     gbx_list_cb cb, void* data, struct gbx_err* err);

enum gbx_path_change {
  GBX_PATH_MKDIR = 1,       /* with parents; one that is there is no error */
  GBX_PATH_RENAME = 2,      /* makes parents; replaces files, no folders */
  GBX_PATH_REMOVE = 3,      /* no folder */
  GBX_PATH_REMOVE_TREE = 4, /* a folder with all that is in it, too */
};

/* `to` is for GBX_PATH_RENAME. GBX_E_EXISTS besides. */
int gbx_session_change_path(struct gbx_session* session,
                            enum gbx_path_change change, const char* path,
                            const char* to, gbx_done_cb cb, void* data,
                            struct gbx_err* err);

/* ---- Open files ---------------------------------------------------------- */

/* What is too large for one call, or never ends. An open file is valid until
 * gbx_file_close's callback or gbx_engine_free; when its session closes, it is
 * closed as well, and calls fail with GBX_E_CLOSED. One call at a time is
 * served, in any order of more. */
struct gbx_file;

enum gbx_file_use {
  GBX_FILE_READ = 1,   /* the bytes of a file */
  GBX_FILE_WRITE = 2,  /* a new file, there when it is closed */
  GBX_FILE_PACK = 3,   /* read: the workspace as a tree; no path */
  GBX_FILE_UNPACK = 4, /* write: a tree that replaces all there; no path */
  GBX_FILE_WATCH = 5,  /* read: changes below a folder, when there are some */
};

/* A tree is a row of these, each with `path_size` bytes of a path from the
 * workspace, `target_size` bytes of a target and, for a GBX_FILE, `size` bytes
 * of content. No head with its paths is split between two calls. */
struct gbx_tree_head {
  uint32_t type; /* enum gbx_file_type */
  uint32_t mode; /* st_mode; permission bits count on the way in */
  uint32_t path_size, target_size;
  uint64_t size;
  int64_t mtime_ns;
  uint64_t link; /* out: equal and not 0 for names of one file */
};

/* Changes are a row of: one byte enum gbx_change or GBX_WATCH_LOST, one byte
 * enum gbx_file_type (GBX_FOLDER or GBX_FILE for all others), the path, a NUL.
 */
enum { GBX_WATCH_LOST = 4 }; /* some were missed: look for yourself */

/* `size`: of a file to read. */
typedef void (*gbx_file_cb)(void* data, const struct gbx_err* err,
                            struct gbx_file* file, uint64_t size);

/* GBX_FILE_UNPACK: GBX_E_BUSY while a call runs or another is open. */
int gbx_session_open_file(struct gbx_session* session, enum gbx_file_use use,
                          const char* path, gbx_file_cb cb, void* data,
                          struct gbx_err* err);

/* At most `max` bytes (at least 64 KiB, but for a file), from `offset` of a
 * file; none at the end. GBX_FILE_WATCH waits until there are some. */
int gbx_file_read(struct gbx_file* file, uint64_t offset, size_t max,
                  gbx_read_cb cb, void* data, struct gbx_err* err);
int gbx_file_write(struct gbx_file* file, const void* bytes, size_t size,
                   gbx_done_cb cb, void* data, struct gbx_err* err);

/* `keep`: what was written takes its place; if that fails, or without it, it is
 * as if nothing had been. Once per file; ends a read that waits. */
void gbx_file_close(struct gbx_file* file, bool keep, gbx_done_cb cb,
                    void* data);

/* ---- What a box is made of ---------------------------------------------- */

/* Beside its root: the tables of common/layout.h, and the filter. */

/* Calls `cb` for each verdict ("allow", "kill", "EPERM", ...) with names of
 * system calls, a space between two of them; "arguments" where the arguments
 * decide. A verdict may come many times. A call that is not named gets ENOSYS.
 * Any thread. */
typedef void (*gbx_verdict_cb)(void* data, const char* verdict,
                               const char* calls);
void gbx_filter_list(gbx_verdict_cb cb, void* data);

/* The program that a payload's filter is here: struct sock_filter, which the
 * caller frees with free(). Any thread; takes a few milliseconds.
 * GBX_E_UNSUPPORTED, GBX_E_NO_MEMORY, GBX_E_START. */
int gbx_filter_program(uint8_t** ret_program, size_t* ret_size,
                       struct gbx_err* err);

/* ---- Spec files ---------------------------------------------------------- */

/* What makes a box, as JSON: lib/plan.js writes it as a part of plan(). Its
 * content is trusted as the options of a program are, its form is not: whatever
 * the bytes are, they are a spec or an error that names the place in them. */

#define GBX_SPEC_VERSION  2
#define GBX_SPEC_MAX_SIZE (1u << 20)

struct gbx_spec_variable {
  const char* name;
  const char* value;
};

/* Strings are UTF-8 without NUL. A limit of 0 is lifted. */
struct gbx_spec {
  struct gbx_entry* entries;
  size_t entry_count;
  struct gbx_spec_variable* env; /* all of it */
  size_t env_count;
  const char *python, *node, *bash; /* their paths in the box; NULL: none */
  const char* workspace;            /* NULL: temporary */
  struct gbx_mount* mounts;
  size_t mount_count;
  const char* cwd;
  double memory_mb, pids, cpus, disk_mb;
  double timeout_s;
  double max_output_bytes;
  bool enforce_limits, require_limits, track_files, warm, network;
  const char** preload; /* names that lib/ checks */
  size_t preload_count;

  void* document; /* owns the strings */
};

/* Reads `size` bytes of JSON. Any thread; blocks for the reading of libcjson
 * from disk the first time. GBX_E_INVALID: it is not a spec; the detail is
 * "PLACE: expected ..., received ...". GBX_E_UNSUPPORTED: this machine has no
 * libcjson. GBX_E_NO_MEMORY. */
int gbx_spec_read(const void* json, size_t size, struct gbx_spec** ret_spec,
                  struct gbx_err* err);

/* Takes NULL. */
void gbx_spec_free(struct gbx_spec* spec);

#ifdef __cplusplus
}
#endif

#endif  // SRC_ENGINE_ENGINE_H_
