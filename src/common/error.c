/* SPDX-License-Identifier: Apache-2.0 */
#include "common/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int gbx_fail(struct gbx_err* err, enum gbx_code code, int sys_errno,
             const char* op, const char* format, ...) {
  /* A call that does not exist is the kernel's lack, at whatever step. */
  if (sys_errno == ENOSYS && (code == GBX_E_START || code == GBX_E_SETUP))
    code = GBX_E_UNSUPPORTED;
  if (err != NULL) {
    memset(err, 0, sizeof *err);
    err->code = (int32_t)code;
    err->sys_errno = sys_errno;
    (void)snprintf(err->op, sizeof err->op, "%s", op); /* cut is fine */
    va_list args;
    va_start(args, format);
    (void)vsnprintf(err->detail, sizeof err->detail, format, args);
    va_end(args);
  }
  return sys_errno != 0 ? -sys_errno : -EIO;
}

void gbx_err_sanitize(struct gbx_err* err) {
  err->op[sizeof err->op - 1] = '\0';
  err->detail[sizeof err->detail - 1] = '\0';
  switch (err->code) {
    case GBX_OK:
#define X(number, name) case number:
      GBX_ERROR_CODES(X)
#undef X
      break;
    default:
      err->code = GBX_E_INTERNAL;
  }
}

const char* gbx_code_name(int code) {
  switch (code) {
#define X(number, name) \
  case number:          \
    return #name;
    GBX_ERROR_CODES(X)
#undef X
    default:
      return "INTERNAL";
  }
}
