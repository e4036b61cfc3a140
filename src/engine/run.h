/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_ENGINE_RUN_H_
#define SRC_ENGINE_RUN_H_

/* What run.c (the life of a run), run_start.c (its start), cell.c (a kernel's
 * cells), trace.c (what was refused), run_handle.c (its stdin, terminal and
 * signals) and run_calls.c (the public calls) share. */

#include "engine/internal.h"

/* ---- Memory ------------------------------------------------------------ */

void gbx__bytes_free(struct gbx_bytes* bytes);
/* A copy on the heap; of no bytes (data NULL) none. */
int gbx__bytes_copy(struct gbx_bytes source, struct gbx_bytes* ret_copy);
void gbx__cell_free(struct gbx__cell* cell);
/* Everything but the run's place in the engine's list. */
void gbx__run_free(struct gbx_run* run);

/* ---- The start --------------------------------------------------------- */

/* A run that the engine's thread does not know yet, with copies of all that it
 * is given. Any thread. GBX_E_NO_MEMORY, GBX_E_INVALID. */
int gbx__run_new(struct gbx_engine* engine,
                 const struct gbx_run_options* options,
                 const struct gbx_run_events* events, void* data,
                 struct gbx_run** ret_run, struct gbx_err* err);
/* From now on it waits in the engine's list to be started. */
void gbx__run_enlist(struct gbx_run* run, struct gbx_session* session);

/* ---- Output and frames ------------------------------------------------- */

/* Reads at most `most` bytes and tells the caller. False: the pipe ended. */
bool gbx__run_read_output(struct gbx_run* run, int stream, size_t most);
/* Reads what is in the pipes at this moment; of a kernel, if it is a cell's. */
void gbx__run_read_waiting(struct gbx_run* run);
void gbx__run_poll_output(struct gbx_run* run, bool on);
void gbx__run_poll_control(struct gbx_run* run);
/* Takes the frames that are there. */
void gbx__run_read_control(struct gbx_run* run);
/* Whether on_output is to tell of output: always, but of a stream's only if it
 * was asked for. */
bool gbx__run_is_awaited(struct gbx_run* run, int stream);
/* Takes the descriptor that output comes from. */
int gbx__run_take_output_fd(struct gbx_run* run, int stream, int fd,
                            struct gbx_err* err);
/* There is output in the pipe of a stream. */
void gbx__run_tell_of_output(struct gbx_run* run, int stream);
void gbx__run_close_output(struct gbx_run* run, enum gbx_stream stream);
struct gbx_output gbx__capture_view(const struct gbx__capture* capture);

/* ---- Input, terminal, signals ------------------------------------------ */

int gbx__run_open_input(struct gbx_run* run, int* ret_read_fd,
                        struct gbx_err* err);
/* Takes the chunk. */
void gbx__run_write(struct gbx_run* run, struct gbx__chunk* chunk, bool ends);
void gbx__run_resize(struct gbx_run* run, uint16_t columns, uint16_t rows);
void gbx__run_signal(struct gbx_run* run, int signal);
/* Takes from STARTED's descriptors what a run with `stream` gets. */
int gbx__run_take_handle(struct gbx_run* run, int32_t pid, struct gbx_fds* fds,
                         struct gbx_err* err);

/* ---- Ending ------------------------------------------------------------ */

enum gbx_fault gbx__run_find_fault(const struct gbx_run* run);
/* How it ended, as results say it; returns the exit code. */
int gbx__run_find_exit(const struct gbx_run* run, int* ret_signal);
/* The call that the kill set stopped; leaves `ret_name` if there is none. */
void gbx__run_name_syscall(const struct gbx_run* run, char* ret_name,
                           size_t size);
void gbx__run_set_deadline(struct gbx_run* run, uint64_t timeout_ms);
void gbx__run_send_kill(struct gbx_run* run);
/* The box is gone, or was never there. Not certain: its launcher is lost, or
 * SIGKILL did not help. */
void gbx__run_end_box(struct gbx_run* run, bool is_certain);
/* The last act: reports, forgets and frees the run. */
void gbx__run_conclude(struct gbx_run* run);

/* ---- What was refused -------------------------------------------------- */

/* What the launcher reported last. */
struct gbx_blocked gbx__trace_view(const struct gbx_run* run);
/* Takes over a report, if the run is traced. */
void gbx__trace_keep(struct gbx_run* run,
                     const struct gbx_msg_blocked* blocked);

/* ---- What changed in the workspace ------------------------------------- */

/* Lists the workspace on a worker, and with `compare` what changed since the
 * last time; `done` goes on, with gbx__run_end_scan. */
void gbx__run_start_scan(struct gbx_run* run, bool compare,
                         void (*done)(struct gbx__work*));
struct gbx_run* gbx__run_end_scan(struct gbx__work* work);
/* Whether there is something to compare with; forgets it. */
bool gbx__run_was_scanned(const struct gbx_run* run);
void gbx__run_drop_scan(struct gbx_run* run);
/* The tracker is for others again, if the run has it. */
void gbx__run_leave_tracker(struct gbx_run* run);
/* A run is about to have a box: others are no longer alone. */
void gbx__run_disturb_changes(struct gbx_run* run);
/* Its box may live on, although the run is over. */
void gbx__run_doubt_changes(struct gbx_run* run);

/* ---- Cells ------------------------------------------------------------- */

/* Starts the first cell that waits, if the kernel can serve one. */
void gbx__cell_start(struct gbx_run* run);
/* DONE came: the cell has what is in the pipes at this moment. */
void gbx__cell_finish(struct gbx_run* run);
/* All of the cell is known: reports it and goes on with the next. */
void gbx__cell_complete(struct gbx_run* run);
/* The socket took all of a frame. */
void gbx__cell_sent(struct gbx_run* run);
/* Interrupts the cell that runs, if one does. `insist`: after a while the
 * interpreter is killed. */
void gbx__cell_interrupt(struct gbx_run* run, bool insist);
/* The box is gone: the active cell and those that wait learn of it. */
void gbx__cells_report(struct gbx_run* run, const struct gbx_err* failure);

#endif  // SRC_ENGINE_RUN_H_
