// SPDX-License-Identifier: Apache-2.0
'use strict';

const { constants } = require('node:os');
const { getSystemErrorMap, inspect } = require('node:util');
const { nativeCodes } = require('./error-codes.js');
const { readMountError } = require('./mount-errors.js');
const { escaped, quoted } = require('./quoted.js');
const { remedyFor } = require('./remedies.js');

// By number: name and words. Node knows most with words, more without, and not
// the one that deeply nested user namespaces fail with. Where it has none, those
// that a box meets.
const errnos = new Map([
  [87, ['EUSERS', 'too many users']],
  ...Object.entries(constants.errno).map(([name, number]) => [number, [name]]),
  ...Array.from(getSystemErrorMap(), ([number, known]) => [-number, known]),
  [109, ['ETOOMANYREFS', 'too many descriptors on their way']],
  [117, ['EUCLEAN', 'the file system is damaged']],
  [8, ['ENOEXEC', 'no format of a program that this machine executes']],
  [116, ['ESTALE', 'no longer the same file']],
  [122, ['EDQUOT', 'disk quota exceeded']],
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

/** "ENOSPC (no space left on device)"; undefined for 0. */
function explainErrno(number) {
  const name = errnoName(number);
  const words = describeErrno(number);
  return words === name ? name : `${name} (${words})`;
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

// Which words of a detail are glovebox's own and need no quotes, by the step.
// What follows them is a name, and so is a detail that does not begin with them.
const ownWords = new Map([
  // The words end before the path, and a detail that is about a path alone
  // begins with it.
  ['workspace', /^(?!\/).*?(?:: |$)/s],
  ['mount target', /^(?!\/).*?(?:: |$)/s],
  ['path', /^.*?: /s],
  ['rename', /^lies below what is to be moved: /],
  ['folder', /^(?:not a folder|leads through a symlink): /],
  [
    'read',
    /^(?:more than \d+ bytes: |a file (?:shrank while it was read, )?below )/,
  ],
  [
    'walk',
    /^(?:(?:more than \d+ (?:files and folders|bytes of file names)|too many folders in too deep a tree)$|a path longer than \d+ bytes, in )/,
  ],
  ['list', /^(?:\d+ files with|more than) \d+ bytes of paths$/],
  ['watch', /^more than \d+ folders$/],
  ['cgroup', /^this session was opened with limits .*$/],
  ['kernel', /^its interpreter is gone$/],
]);

// These are who did it: the words go on from there.
const subjects = new Set([
  ...['box', 'call', 'driver', 'engine', 'keeper', 'launcher', 'payload'],
  ...['import', 'interpreter', 'run'],
]);

/**
 * A step and its detail for a message. A detail may hold a file name that code
 * in a box has chosen: it is quoted, and no control character gets out.
 */
function describeStep(step, detail) {
  if (detail === '') return escaped(step);
  if (subjects.has(step)) return `${step} ${escaped(detail)}`;
  const [own] = ownWords.get(step)?.exec(detail) ?? [''];
  const name = detail.slice(own.length);
  if (own === '') return `${escaped(step)} ${quoted(name)}`.trim();
  // What was asked for comes first: "/bin/x" leads through a symlink.
  if (step === 'mount target') {
    return `${quoted(name)} ${escaped(own).slice(0, -2)}`;
  }
  const words = escaped(own) + (name && quoted(name));
  return /^(?:is|has|cannot) /.test(own) ? `${step} ${words}` : words;
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
      `${nativeCodes.INTERNAL.meaning}: ${error?.message ?? inspect(error)}`,
      { code: 'ERR_SANDBOX_INTERNAL', cause: error },
    );
  }
  const { op: step = '', detail = '' } = error;
  const mount = readMountError(error);
  // A refusal is a rule of ours: the kernel had no part in it.
  const number = mount?.details.rule ? 0 : Math.abs(error.errno ?? 0);
  const errno = errnoName(number);
  const remedy =
    mount?.remedy ?? remedyFor({ code: error.code, step, errno }, facts);

  const parts = [
    during,
    nativeCodes[error.code].meaning,
    mount
      ? `${quoted(mount.details.source)} ${escaped(mount.reason)}`
      : describeStep(step, detail),
    explainErrno(number),
  ].filter(Boolean);
  const sentence = parts.join(': ');

  const ErrorClass =
    error.code === 'MOUNT_REFUSED' ? MountRefused : SandboxError;
  return new ErrorClass(remedy ? `${sentence}. ${remedy}` : sentence, {
    ...mount?.details,
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

/** What a write gets that comes too late, as with node:child_process. */
function brokenPipe() {
  return systemError('write', constants.errno.EPIPE);
}

module.exports = {
  MountRefused,
  SandboxError,
  brokenPipe,
  describeErrno,
  errnoName,
  invalidOption,
  toSandboxError,
  withoutRemedy,
};
