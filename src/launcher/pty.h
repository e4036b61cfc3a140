/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_LAUNCHER_PTY_H_
#define SRC_LAUNCHER_PTY_H_

/* A terminal of the box's own: a /dev with its own devpts instance, which no
 * other box and nothing of the host is in. */

#include <stdint.h>

#include "common/error.h"

/* The tree of the host's /dev/tty, which opens each process' own terminal.
 * Before the box's root is entered, where it cannot be found any more. Returns
 * the descriptor or a negative errno. */
int pty_take_tty(struct gbx_err* err);

/* Puts a new /dev over the prepared root's: its devices, those of terminals,
 * and an empty /dev/shm. Takes `tty_fd`. */
int pty_mount_dev(int tty_fd, struct gbx_err* err);

/* Opens a pair of that size. */
int pty_open(uint16_t columns, uint16_t rows, int* ret_master_fd,
             int* ret_slave_fd, struct gbx_err* err);

#endif  // SRC_LAUNCHER_PTY_H_
