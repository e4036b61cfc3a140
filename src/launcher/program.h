/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_PROGRAM_H_
#define SRC_LAUNCHER_PROGRAM_H_

/* What an exec blob says to execute, and the last steps before it. */

#include "common/error.h"

struct program {
  const char* cwd;
  char** argv;
  char** envp;
};

/* Points argv and env into the mapped exec blob. The engine wrote it; it is
 * read with bounds all the same. */
int program_read(int blob_fd, struct program* ret_program, struct gbx_err* err);

/* Signals as a fresh program expects them; the launcher blocked some. */
void program_reset_signals(void);

int program_enter_cwd(const struct program* program, struct gbx_err* err);

/* Executes argv[0] as execvp would with the box's PATH, except that a file
 * without "#!" is an error and not a shell script. Returns the errno. */
int program_execute(const struct program* program);

/* Executes an interpreter that waits, with what src/join/take.h says. Its
 * socket is at GBX_TAKE_SOCKET already. Returns only if that failed. */
int program_stand_by(const struct program* program, struct gbx_err* err);

#endif  // SRC_LAUNCHER_PROGRAM_H_
