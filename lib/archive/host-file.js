// SPDX-License-Identifier: Apache-2.0
'use strict';

// The archive's own file, which lies on the host and which node:fs reads and
// writes.

const path = require('node:path');
const { SandboxError } = require('../errors.js');

/** Whether `file` is `folder` or lies in it. Both absolute, without links. */
function isInside(folder, file) {
  const way = path.relative(folder, file);
  return way !== '..' && !way.startsWith('../') && !path.isAbsolute(way);
}

/** The error for what node:fs threw; any other error as it is. */
function hostFileError(error, file) {
  if (error instanceof SandboxError || typeof error?.syscall !== 'string') {
    return error;
  }
  return new SandboxError(
    `The file ${JSON.stringify(file)} cannot be used: ${error.message}`,
    {
      code: 'ERR_SANDBOX_HOST_FILE',
      cause: error,
      errno: error.code,
      step: error.syscall,
    },
  );
}

module.exports = { hostFileError, isInside };
