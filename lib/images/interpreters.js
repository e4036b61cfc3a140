// SPDX-License-Identifier: Apache-2.0
'use strict';

// Finds the interpreters of the host. What is on PATH may be a shim (a program
// of pyenv, asdf, volta and the like that starts the interpreter that is meant
// today), so an interpreter is asked where it lies, unless that is plain.

const { execFile, execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { promisify } = require('node:util');
const { isMainThread } = require('node:worker_threads');
const { listNames, rethrowShortage } = require('./shortage.js');
const { isWithin } = require('./tree.js');

const execFileAsync = promisify(execFile);
const probeTimeoutMs = 20000;

// In this order: `python` may be Python 2.
const commands = {
  python: ['python3', 'python'],
  node: ['node', 'nodejs'],
  bash: ['bash'],
};

const packages = { python: 'python3', node: 'nodejs', bash: 'bash' };

// What shims need to find their interpreter. Nothing else of the environment
// goes to them: PYTHONHOME or NODE_OPTIONS would change the answer.
const probeEnvironment =
  /^(PATH|HOME|USER|LOGNAME|PYENV_.*|NODENV_.*|NVM_DIR|VOLTA_.*|ASDF_.*|MISE_.*|FNM_.*|UV_.*|XDG_(DATA|CONFIG|CACHE|STATE)_HOME)$/;

// The first with top-level await in its compile().
const oldestPython = [3, 8];

const pythonProbe = `
import json, sys, sysconfig
try:
    import ctypes
except ImportError:
    ctypes = None
print(json.dumps({
    "executable": sys.executable,
    "baseExecutable": getattr(sys, "_base_executable", None),
    "prefixes": [sys.prefix, sys.exec_prefix],
    "basePrefixes": [sys.base_prefix, sys.base_exec_prefix],
    "libraries": [sysconfig.get_path(name) for name in
                  ("stdlib", "platstdlib", "purelib", "platlib")],
    "version": list(sys.version_info[:3]),
    "lacksCtypes": ctypes is None,
}))
`;

/** Absolute paths of the executables called `name` in the folders of PATH. */
function findOnPath(name, searchPath = '') {
  return searchPath
    .split(':')
    .filter((folder) => path.isAbsolute(folder))
    .map((folder) => path.join(folder, name))
    .filter(isExecutable);
}

function isExecutable(file) {
  try {
    fs.accessSync(file, fs.constants.X_OK);
    return fs.statSync(file).isFile();
  } catch {
    // A folder of PATH may not exist or be closed to this user.
    return false;
  }
}

function isBinary(file) {
  let fd;
  try {
    fd = fs.openSync(file, 'r');
    const start = Buffer.alloc(4);
    fs.readSync(fd, start, 0, 4, 0);
    return start.toString('latin1') === '\x7fELF';
  } catch (error) {
    rethrowShortage(error);
    return false;
  } finally {
    if (fd !== undefined) fs.closeSync(fd);
  }
}

// A child of a worker thread that is terminated meanwhile is never reaped: it
// stays a zombie until the process ends. So a worker waits; only its own
// JavaScript stands still.
async function run(file, args, options) {
  if (!isMainThread) {
    const stdio = ['ignore', 'pipe', 'pipe'];
    return execFileSync(file, args, { ...options, stdio, encoding: 'utf8' });
  }
  const answer = execFileAsync(file, args, options);
  answer.child.stdin?.end(); // none, if it could not be started
  return (await answer).stdout;
}

/** What `file` printed on its last line of output. */
async function ask(file, args, env) {
  const stdout = await run(file, args, {
    cwd: '/',
    env: Object.fromEntries(
      Object.entries(env).filter(([name]) => probeEnvironment.test(name)),
    ),
    timeout: probeTimeoutMs,
    killSignal: 'SIGKILL',
    maxBuffer: 2 ** 20,
  });
  return stdout.trim().split('\n').at(-1);
}

const binaryNames = {
  python: /^python[\d.]*$/,
  node: /^node(js)?[\d.-]*$/,
};

// A shim may be a binary too, but not one with the interpreter's name.
function isInterpreter(language, file) {
  return binaryNames[language].test(path.basename(file)) && isBinary(file);
}

// Distributions leave it out of a minimal Python. One that lies elsewhere is not
// seen here, and the interpreter can be asked.
function hasCtypes(executable) {
  const [home] = path.basename(executable).split('-');
  const prefix = path.dirname(path.dirname(executable));
  return ['lib', 'lib64'].some((library) => {
    const folder = path.join(prefix, library, home, 'lib-dynload');
    return listNames(folder).some((name) => name.startsWith('_ctypes.'));
  });
}

function checkPythonVersion([major, minor]) {
  const [oldestMajor, oldestMinor] = oldestPython;
  if (major > oldestMajor) return;
  if (major === oldestMajor && minor >= oldestMinor) return;
  throw new Error(
    `it is Python ${major}.${minor}; ${oldestPython.join('.')} is the oldest ` +
      'that works',
  );
}

// Of "python3.11" and "python3.12-dbg"; none of "python3".
function versionInName(executable) {
  const found = /^python(\d+)\.(\d+)/.exec(path.basename(executable));
  return found?.slice(1).map(Number);
}

/**
 * For each language: `{executable}`, the path to start in a box, and for python
 * what it said of its folders. Rejects if `file` is no working interpreter.
 */
const probes = {
  async python(file, env) {
    const real = fs.realpathSync(file);
    const version = versionInName(real);
    if (version) checkPythonVersion(version);
    // What lies in /usr is in every box with all that it needs. Starting it
    // would tell nothing, and takes as long as a call.
    if (
      isWithin(file, '/usr') &&
      isWithin(real, '/usr') &&
      isInterpreter('python', real) &&
      hasCtypes(real)
    ) {
      return { executable: file };
    }
    const found = JSON.parse(await ask(file, ['-I', '-c', pythonProbe], env));
    checkPythonVersion(found.version);
    return found;
  },
  async node(file, env) {
    const real = fs.realpathSync(file);
    if (isInterpreter('node', real)) return { executable: real };
    const executable = await ask(file, ['-p', 'process.execPath'], env);
    return { executable: fs.realpathSync(executable) };
  },
  async bash(file) {
    return { executable: fs.realpathSync(file) };
  },
};

module.exports = { commands, findOnPath, isExecutable, packages, probes };
