// SPDX-License-Identifier: Apache-2.0
'use strict';

const { constants } = require('node:os');
const { getSystemErrorMap, inspect } = require('node:util');
const { remedyFor } = require('./remedies.js');

// Every code that a SandboxError can have, with the sentence that its message
// starts with. The first part is the table of src/common/error.h under the same
// names: a test compares the two, and both with index.d.ts.
const nativeCodes = {
  INTERNAL: 'glovebox failed where it never should',
  NO_MEMORY: 'The host has no memory for this',
  START: 'The sandbox processes could not be started',
  SETUP: 'The box could not be set up',
  CLOSED: 'The sandbox is closed',
  DIED: 'The sandbox processes ended before the call did',
  WORKSPACE: 'The workspace cannot be used',
  PATH: 'The path does not stay inside the workspace, or is malformed',
  NOT_FOUND: 'There is no such file in the workspace',
  NOT_REGULAR: 'The path is not a regular file',
  TOO_LARGE: 'That is larger than allowed',
  IO: 'Reading or writing in the workspace failed',
  PROTOCOL: 'The code wrote to the control socket of its interpreter',
  EXEC: 'The program could not be executed',
  KERNEL_DEAD: 'The kernel has ended and its state is gone',
  INVALID: 'The engine refused a value',
  UNSUPPORTED: 'This Linux kernel lacks something that glovebox needs',
  LIMIT: 'A limit could not be put in force',
  ABORTED: 'The call was ended by the caller',
  BUSY: 'Code in the box, or another call, is using it',
  DISK_FULL: 'The workspace is full',
  EXISTS: 'Something else is there already',
};

const libraryCodes = {
  INVALID_OPTION: 'An option or argument is wrong',
  NOT_OPEN: 'The sandbox is not open',
  RUNTIME_MISSING: 'The interpreter is not installed',
  UNSUPPORTED_PLATFORM: 'glovebox runs on Linux only',
  LOAD: 'The compiled part of glovebox could not be loaded',
  MOUNT_REFUSED: 'The mount is refused',
  ARCHIVE: 'The archive is refused',
  HOST_FILE: 'A file of the host cannot be used',
};

const summaries = new Map(
  Object.entries({ ...nativeCodes, ...libraryCodes }).map(([name, summary]) => [
    `ERR_SANDBOX_${name}`,
    summary,
  ]),
);

// By number: name and words. Node knows most with words, more without, and not
// the one that deeply nested user namespaces fail with.
const errnos = new Map([
  [87, ['EUSERS', 'too many users']],
  ...Object.entries(constants.errno).map(([name, number]) => [number, [name]]),
  ...Array.from(getSystemErrorMap(), ([number, known]) => [-number, known]),
]);

/** "ENOSPC" for 28; undefined for 0. */
function errnoName(number) {
  if (!number) return undefined;
  return errnos.get(number)?.[0] ?? `errno ${number}`;
}

/** "no space left on device" for 28. */
function describeErrno(number) {
  return errnos.get(number)?.[1] ?? errnoName(number);
}

class SandboxError extends Error {
  /**
   * `details` are further properties, such as `option` or `step`; those that
   * are undefined are left out.
   */
  constructor(
    message,
    { code = 'ERR_SANDBOX_INTERNAL', cause, ...details } = {},
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    for (const [name, value] of Object.entries(details)) {
      if (value !== undefined) this[name] = value;
    }
  }
}

class MountRefused extends SandboxError {
  constructor(message, details) {
    super(message, { code: 'ERR_SANDBOX_MOUNT_REFUSED', ...details });
  }
}

// On the prototypes, as with the errors of the language: not in every object's
// own properties.
for (const errorClass of [SandboxError, MountRefused]) {
  Object.defineProperty(errorClass.prototype, 'name', {
    value: errorClass.name,
    writable: true,
    configurable: true,
  });
}

/** A wrong option or argument: what was expected, and what came instead. */
function invalidOption(option, expected, received) {
  const comma = expected.includes(',') ? ',' : '';
  return new SandboxError(
    `Expected ${expected}${comma} for ${option}, received ${received}`,
    { code: 'ERR_SANDBOX_INVALID_OPTION', option, expected, received },
  );
}

function isNativeError(value) {
  return (
    typeof value === 'object' &&
    value !== null &&
    typeof value.code === 'string' &&
    Object.hasOwn(nativeCodes, value.code)
  );
}

/**
 * The SandboxError for what the binding reported: `{code, errno, op, detail}`.
 * Call it in an async function that the user awaits, not in an event: only
 * there does the stack lead back to the user's line.
 *
 * `during` names the call, for calls that many things can go wrong in. `facts`
 * are those of this host, where a test has no others.
 */
function toSandboxError(error, during, facts) {
  if (error instanceof SandboxError) return error;
  if (!isNativeError(error)) {
    return new SandboxError(
      `${nativeCodes.INTERNAL}: ${error?.message ?? inspect(error)}`,
      { code: 'ERR_SANDBOX_INTERNAL', cause: error },
    );
  }
  const { op: step = '', detail = '' } = error;
  const number = Math.abs(error.errno ?? 0);
  const errno = errnoName(number);
  const remedy = remedyFor({ code: error.code, step, errno }, facts);

  // A detail may hold a file name that code in a box has chosen, so it is
  // quoted: control characters must not reach a terminal.
  const what = [step, detail && JSON.stringify(detail)].filter(Boolean);
  const parts = [
    during,
    nativeCodes[error.code],
    what.join(' '),
    errno && `${errno} (${describeErrno(number)})`,
  ].filter(Boolean);
  const sentence = parts.join(': ');

  return new SandboxError(remedy ? `${sentence}. ${remedy}` : sentence, {
    code: `ERR_SANDBOX_${error.code}`,
    cause: errno && systemError(step, number),
    step: step || undefined,
    errno,
    remedy,
  });
}

/** The message of a SandboxError without what to do about it. */
function withoutRemedy({ message, remedy }) {
  const end = `. ${remedy}`;
  return remedy && message.endsWith(end)
    ? message.slice(0, -end.length)
    : message;
}

// Looks like the errors of node:fs, for code that knows how to read those.
function systemError(step, number) {
  const name = errnoName(number);
  const error = new Error(`${name}: ${describeErrno(number)}, ${step}`);
  return Object.assign(error, { errno: -number, code: name, syscall: step });
}

module.exports = {
  MountRefused,
  SandboxError,
  describeErrno,
  errnoName,
  invalidOption,
  nativeCodes,
  summaries,
  toSandboxError,
  withoutRemedy,
};
