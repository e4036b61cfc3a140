/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_COMMON_ERROR_H_
#define SRC_COMMON_ERROR_H_

#include <stdarg.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One table for C and JavaScript: lib/error-codes.js holds the same names with
 * their ERR_SANDBOX_ strings and the remedy, and a test compares the two. */
#define GBX_ERROR_CODES(X)                                                  \
  X(1, INTERNAL)       /* a bug of ours, or a message that made no sense */ \
  X(2, NO_MEMORY)      /* malloc, mmap or the kernel had no memory */       \
  X(3, START)          /* keeper or launcher did not come up */             \
  X(4, SETUP)          /* a set-up step of a box or a root failed */        \
  X(5, CLOSED)         /* the session or the engine is closed */            \
  X(6, DIED)           /* keeper, launcher or box ended mid-call */         \
  X(7, WORKSPACE)      /* the workspace cannot be used */                   \
  X(8, PATH)           /* a path leaves the workspace or is malformed */    \
  X(9, NOT_FOUND)      /* no such file in the workspace */                  \
  X(10, NOT_REGULAR)   /* the path is no regular file */                    \
  X(11, TOO_LARGE)     /* larger than maxBytes, or than a message may be */ \
  X(12, IO)            /* another read or write error in the workspace */   \
  X(13, PROTOCOL)      /* the driver sent what no driver sends */           \
  X(14, EXEC)          /* the program could not be executed: a result */    \
  X(15, KERNEL_DEAD)   /* the kernel's interpreter is gone */               \
  X(16, INVALID)       /* a value that lib/ should have refused */          \
  X(17, UNSUPPORTED)   /* this kernel lacks something that we need */       \
  X(18, LIMIT)         /* a limit could not be set or read back */          \
  X(19, ABORTED)       /* the caller ended the run */                       \
  X(20, BUSY)          /* a box or another call has it: try again */        \
  X(21, DISK_FULL)     /* the workspace grew by more than it may */         \
  X(22, EXISTS)        /* something else is there already */                \
  X(23, MOUNT_REFUSED) /* no box may have this of the host */               \
  X(24, MOUNT)         /* a mount could not be made */                      \
  X(25, PRELOAD)       /* a module of `preload` could not be imported */

enum gbx_code {
  GBX_OK = 0,
#define X(number, name) GBX_E_##name = number,
  GBX_ERROR_CODES(X)
#undef X
};

/* What failed, in a fixed size without heap, so that the same bytes serve in
 * memory and on the wire. `op` is the step ("pivot_root"), `detail` the object
 * ("/work"). */
struct gbx_err {
  int32_t code;      /* GBX_E_... */
  int32_t sys_errno; /* 0 where no errno belongs to it */
  char op[24];
  char detail[200];
};

/* Fills `err` and returns -sys_errno (or -EIO where it is 0): the only way to
 * fail. A NULL `err` is allowed. START and SETUP become UNSUPPORTED where the
 * errno is ENOSYS. */
int gbx_fail(struct gbx_err* err, enum gbx_code code, int sys_errno,
             const char* op, const char* format, ...)
    __attribute__((format(printf, 5, 6)));

/* Makes a struct that came over a socket safe to read: terminates both strings
 * and replaces an unknown code by GBX_E_INTERNAL. */
void gbx_err_sanitize(struct gbx_err* err);

/* "WORKSPACE" for GBX_E_WORKSPACE, "INTERNAL" for an unknown number. */
const char* gbx_code_name(int code);

#ifdef __cplusplus
}
#endif

#endif  // SRC_COMMON_ERROR_H_
