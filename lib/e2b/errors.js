// SPDX-License-Identifier: Apache-2.0
'use strict';

// The error classes of E2B, and which of them an error of glovebox is.

const glovebox = require('../errors.js');

class SandboxError extends Error {
  /** `cause`: the error of glovebox. Its code is the code of this one. */
  constructor(message, { cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    if (cause?.code !== undefined) this.code = cause.code;
  }
}

class TimeoutError extends SandboxError {}

class InvalidArgumentError extends SandboxError {}

class NotEnoughSpaceError extends SandboxError {}

class NotFoundError extends SandboxError {}

class FileNotFoundError extends NotFoundError {}

class SandboxNotFoundError extends NotFoundError {}

class CommandExitError extends SandboxError {
  constructor({ exitCode, stdout, stderr, error }) {
    super(`The command failed: ${error}`);
    this.exitCode = exitCode;
    this.stdout = stdout;
    this.stderr = stderr;
    this.error = error;
  }
}

const classes = {
  SandboxError,
  TimeoutError,
  InvalidArgumentError,
  NotEnoughSpaceError,
  NotFoundError,
  FileNotFoundError,
  SandboxNotFoundError,
  CommandExitError,
};

for (const [name, errorClass] of Object.entries(classes)) {
  Object.defineProperty(errorClass.prototype, 'name', {
    value: name,
    writable: true,
    configurable: true,
  });
}

const endedMessage =
  'The sandbox has ended, by kill() or because its timeoutMs was over: ' +
  'Sandbox.create() makes another';

const classOfCode = new Map([
  ['ERR_SANDBOX_INVALID_OPTION', InvalidArgumentError],
  ['ERR_SANDBOX_PATH', InvalidArgumentError],
  ['ERR_SANDBOX_NOT_FOUND', FileNotFoundError],
  ['ERR_SANDBOX_DISK_FULL', NotEnoughSpaceError],
  ['ERR_SANDBOX_CLOSED', SandboxNotFoundError],
]);

/** The error for callers; what is not glovebox's (a callback's) stays itself. */
function toE2bError(error) {
  if (!(error instanceof glovebox.SandboxError)) return error;
  const errorClass = classOfCode.get(error.code) ?? SandboxError;
  // Nobody has called the close() that the message speaks of.
  const message =
    error.code === 'ERR_SANDBOX_CLOSED' ? endedMessage : error.message;
  return new errorClass(message, { cause: error });
}

/** What `work` resolves with. */
async function translated(work) {
  try {
    return await work();
  } catch (error) {
    throw toE2bError(error);
  }
}

/** For what E2B has and a sandbox of this machine has not. */
function notThere(name, why) {
  return new SandboxError(`glovebox/e2b has no ${name}: ${why}`);
}

/** For a call of a sandbox that was killed, or whose time is over. */
function hasEnded() {
  const cause = new glovebox.SandboxError(endedMessage, {
    code: 'ERR_SANDBOX_CLOSED',
  });
  return toE2bError(cause);
}

module.exports = { ...classes, hasEnded, notThere, toE2bError, translated };
