// SPDX-License-Identifier: Apache-2.0
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const { version } = require('../package.json');
const {
  addonPath,
  buildFolder,
  joinPath,
  launcherPath,
} = require('./paths.js');
const { SandboxError, toSandboxError } = require('./errors.js');
const { makeCellResult, makeRunResult } = require('./native-result.js');

// Asked before anything is loaded: on other systems the addon does not exist,
// and in Bun and Deno loading it would end the process, since it calls the
// libuv of Node.
function checkPlatform({ platform, versions } = process) {
  const runtime = versions.bun ? 'Bun' : versions.deno ? 'Deno' : undefined;
  if (platform === 'linux' && !runtime) return;
  const reason = runtime
    ? `glovebox does not run on ${runtime} yet: use Node.js 20 or later`
    : `glovebox runs on Linux only, and this is ${platform}: what holds the ` +
      'code are features of the Linux kernel. Use a Linux machine, a Linux ' +
      'virtual machine or, on Windows, WSL 2';
  throw new SandboxError(reason, {
    code: 'ERR_SANDBOX_UNSUPPORTED_PLATFORM',
  });
}

/**
 * Loads the addon from `folder`. A failure names each path that was tried and
 * says what to do.
 */
function load(folder = buildFolder) {
  checkPlatform();
  const addon = addonPath(folder);
  const launcher = launcherPath(folder);

  const problems = [];
  let cause;
  let native;
  try {
    native = require(addon);
    // An old build would misread what this version tells it.
    if (native.version !== version) {
      problems.push(
        `${addon}: this is of version ${native.version}, not ${version}`,
      );
    }
  } catch (error) {
    cause = error;
    problems.push(
      fs.existsSync(addon)
        ? `${addon}: ${describeForeign(addon) ?? error.message}`
        : `${addon}: there is no such file`,
    );
  }
  // Never made executable here: who took the permission away may have meant it.
  const launcherProblem = findLauncherProblem(launcher);
  if (launcherProblem) problems.push(`${launcher}: ${launcherProblem}`);
  const library = joinPath(folder);
  if (!fs.existsSync(library)) {
    problems.push(`${library}: there is no such file`);
  }

  if (problems.length > 0) {
    const lines = problems.map((problem) => `\n  ${problem}`).join('');
    throw new SandboxError(
      `The compiled part of glovebox could not be loaded. Tried:${lines}\n` +
        adviseToBuild(),
      { code: 'ERR_SANDBOX_LOAD', cause },
    );
  }
  return { native, launcher };
}

// By the number that ELF has for each.
const machines = { 62: 'x64', 183: 'arm64' };

/**
 * Of a library that is for another processor. The C library passes over one, and
 * says that there is no such file.
 */
function describeForeign(addon) {
  const head = Buffer.alloc(20);
  try {
    const fd = fs.openSync(addon);
    try {
      fs.readSync(fd, head);
    } finally {
      fs.closeSync(fd);
    }
  } catch {
    return undefined; // the error that is at hand says more
  }
  if (head.toString('latin1', 0, 4) !== '\x7fELF') return undefined;
  const machine = machines[head.readUInt16LE(18)] ?? 'another processor';
  if (machine === process.arch) return undefined;
  return `this was built for ${machine}, and this Node is of ${process.arch}`;
}

/** What is installed from a package has no recipe to compile it by. */
function adviseToBuild(root = path.join(__dirname, '..')) {
  return fs.existsSync(path.join(root, 'binding.gyp'))
    ? `Run \`npm run build\` in ${root} to compile it.`
    : 'Run `npm run build` in a checkout of glovebox, on a machine like this ' +
        'one, and install it from there.';
}

function findLauncherProblem(launcher) {
  try {
    const stat = fs.statSync(launcher);
    if (!stat.isFile()) return 'this is not a file';
    if ((stat.mode & 0o111) === 0)
      return 'this file is not executable (`chmod 755` it)';
    fs.accessSync(launcher, fs.constants.X_OK);
    return undefined;
  } catch (error) {
    if (error.code === 'ENOENT') return 'there is no such file';
    return error.code === 'EACCES'
      ? 'this file may not be executed: by this user (`chmod 755` it), or by ' +
          'anybody, on a file system that is mounted noexec'
      : error.message;
  }
}

// One engine for each copy of this module in each JavaScript environment: a
// worker thread loads its own copy and gets its own engine.
let engine;

/** The engine, made at the first call. A failure is not remembered. */
function getEngine() {
  if (engine) return engine;
  const { native, launcher } = load();
  try {
    engine = native.createEngine({
      launcherPath: launcher,
      // A file to be made, for bench/profile.js: see src/common/moments.h.
      profilePath: process.env.GLOVEBOX_PROFILE || null,
      makeRunResult,
      makeCellResult,
    });
  } catch (error) {
    throw toSandboxError(error);
  }
  return engine;
}

/** What is compiled beside the engine. It starts nothing. */
function getNative() {
  return load().native;
}

/** Whether the compiled part loads here. Starts nothing. */
function isSupported() {
  try {
    load();
    return true;
  } catch {
    return false;
  }
}

module.exports = {
  adviseToBuild,
  checkPlatform,
  getEngine,
  getNative,
  isSupported,
  load,
};
