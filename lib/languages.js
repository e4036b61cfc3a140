// SPDX-License-Identifier: Apache-2.0
'use strict';

// How code of each language is started: the command, and the way the code
// takes into the box. None of them is a file that the code could see.

const { readFileSync } = require('node:fs');
const path = require('node:path');
const backend = require('./backend.js');
const { standbyVariables } = require('./environment.js');
const { invalidOption, SandboxError } = require('./errors.js');
const {
  describe,
  isPlainString,
  maxStringBytes,
} = require('./option-kinds.js');
const { nodeArgv, standbyArgv } = require('./runtimes/node/argv.js');

const pythonDriver = '/run/glovebox/runtimes/python/driver.py';
const joinInBox = '/run/glovebox/join.so';

const bashDriverFile = path.join(__dirname, 'runtimes/bash/driver.bash');
let bashDriver;

// A frame of the control socket is at most this long (docs/protocol.md).
const maxFrameBytes = 64 * 2 ** 20;

function checkCode(code, language) {
  if (typeof code !== 'string') {
    throw invalidOption('code', 'a string', describe(code));
  }
  // bash gets its code as C string or file: a NUL would end or leave it, and
  // half a surrogate pair has no bytes. The others get JSON, which has both.
  if (language === 'bash' && !isPlainString(code)) {
    const has = code.includes('\0') ? 'a NUL' : 'an unpaired surrogate';
    throw invalidOption(
      'code',
      'bash code without NUL or unpaired surrogate',
      `code with ${has}`,
    );
  }
}

/**
 * The body of a CELL frame: a string, or bytes. `name` is what tracebacks call
 * the code. bash, which has no JSON, gets the code as it is.
 */
function cellBody(code, name, language) {
  // No code is shorter as JSON, and to make that of a huge one takes seconds.
  if (code.length > maxFrameBytes) throw tooLong(code.length, language);
  const body = language === 'bash' ? code : JSON.stringify({ code, name });
  // No character takes more than three bytes for each unit of its length.
  if (body.length * 3 <= maxFrameBytes) return body;
  const bytes = Buffer.byteLength(body);
  if (bytes > maxFrameBytes) throw tooLong(bytes, language);
  return body;
}

/** The first cell of a kernel, which has no code but says what it is of. */
function startBody(language) {
  if (language === 'bash') return '';
  return JSON.stringify({ code: '', name: '<start>', kernel: true });
}

/** The body of a COMMAND frame. */
function commandBody(command) {
  return JSON.stringify(command);
}

function tooLong(bytes, language) {
  const form = language === 'bash' ? '' : ' as JSON';
  return invalidOption(
    'code',
    `at most ${maxFrameBytes} bytes of code${form}`,
    `${bytes} bytes`,
  );
}

function driverCommand(runtime, argv, code) {
  return {
    argv,
    standby: runtime,
    control: true,
    code: code === undefined ? null : cellBody(code),
  };
}

// `$0` is "bash" as in a shell that was started by name, so messages read
// "bash: line 1: ..." wherever its executable lies. Without "--" code that
// begins with "-" or "+" would be options of bash, or of eval.
function bashCommand(executable, code) {
  if (code === undefined) return bashKernelCommand(executable);
  const bytes = Buffer.byteLength(code);
  if (bytes > maxFrameBytes) throw tooLong(bytes, 'bash');
  const fits = bytes <= maxStringBytes;
  // Longer code cannot be an argument. It comes as descriptor 3, which is
  // closed before the first line of it runs.
  const command = fits ? code : 'eval -- "$(</dev/fd/3)" 3<&-';
  return {
    argv: [executable, '-c', '--', command, 'bash'],
    standby: null,
    control: false,
    code: fits ? null : code,
  };
}

// The driver is an argument, as the code of a single call is, and for the same
// reason: a file's name would be in every message.
function bashKernelCommand(executable) {
  bashDriver ??= readFileSync(bashDriverFile, 'utf8');
  const command = 'builtin eval "$1"; builtin eval "$__glovebox_loop"';
  const argv = [executable, '-c', '--', command, 'bash', bashDriver];
  return driverCommand(null, argv, undefined);
}

const commands = {
  python: (executable, code) =>
    driverCommand('python', [executable, pythonDriver], code),
  node: (executable, code) => driverCommand('node', nodeArgv(executable), code),
  bash: bashCommand,
};

// A process that runs for weeks must not have to be started anew because python
// was installed late.
/** The executable of a language in a prepared root. */
function executableOf(image, language) {
  const runtime = image.runtimes[language];
  if (runtime.error) {
    backend.lookAgainFor(image.runtimes);
    const { message, ...details } = runtime.error;
    throw new SandboxError(message, details);
  }
  return runtime.executable;
}

/**
 * The command that starts `code`: `argv`, whether it talks over a control socket,
 * the runtime that may serve it from a ready box, and the `code` that goes beside
 * argv, if any. Without code: an interpreter that waits for cells.
 */
function commandFor(image, language, code) {
  return commands[language](executableOf(image, language), code);
}

// How an interpreter is started that waits for its call, or that forks others
// which do.
const standbys = [
  ['python', 'python', (file) => [file, pythonDriver, 'standby', joinInBox]],
  ['node', 'node', (file) => standbyArgv(file, joinInBox)],
  [
    'zygote',
    'python',
    (file, preload) => [file, pythonDriver, 'zygote', joinInBox, ...preload],
  ],
];

/**
 * What an interpreter that waits was started with. With modules to preload it is
 * what the session has: a module may read it while it is imported.
 */
function standbyEnvironment(runtime, { preload, variables }) {
  const preloads = preload.length > 0 && runtime !== 'node';
  return preloads ? variables : standbyVariables;
}

/** What may wait in a ready box of this root. */
function standbysOf(image, ahead) {
  const preloads = ahead.preload.length > 0;
  if (preloads) checkCanPreload(image);
  return standbys
    .filter(([, language]) => {
      const { executable, lacksCtypes } = image.runtimes[language];
      return executable && !lacksCtypes;
    })
    .map(([runtime, language, argv]) => ({
      runtime,
      required: runtime === 'zygote' && preloads,
      argv: argv(image.runtimes[language].executable, ahead.preload),
      env: standbyEnvironment(runtime, ahead),
    }));
}

/**
 * `error` of open(), with what to do where a module of `preload` is missing: most
 * often it is there for another interpreter.
 */
function adviseOnPreload(error, image) {
  const { code, step, message } = error;
  if (
    code !== 'ERR_SANDBOX_PRELOAD' ||
    !/: ModuleNotFoundError: /.test(message)
  )
    return error;
  const { executable } = image.runtimes.python;
  const remedy =
    `Install it for ${executable}, or name an interpreter that has it: ` +
    "`runtimes: { python: '/path/to/python3' }`.";
  return new SandboxError(`${message}. ${remedy}`, { code, step, remedy });
}

function checkCanPreload(image) {
  const executable = executableOf(image, 'python');
  if (!image.runtimes.python.lacksCtypes) return;
  throw new SandboxError(
    `The modules of \`preload\` could not be imported: ${executable} has no ` +
      'module ctypes, without which it cannot be started ahead of calls. ' +
      'Install it, or name another interpreter with `runtimes`.',
    { code: 'ERR_SANDBOX_PRELOAD' },
  );
}

module.exports = {
  adviseOnPreload,
  cellBody,
  checkCode,
  commandBody,
  commandFor,
  standbyEnvironment,
  standbysOf,
  startBody,
};
