// SPDX-License-Identifier: Apache-2.0
'use strict';

// The denominators: other programs, timed by a small C program, because what
// Node adds to a spawn would make them look slow.

const { execFile } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { promisify } = require('node:util');

const execFileAsync = promisify(execFile);

const source = path.join(__dirname, '..', 'time-exec.c');
const timer = path.join(__dirname, '../../build/bench/time-exec');

async function compileTimer() {
  fs.mkdirSync(path.dirname(timer), { recursive: true });
  const flags = ['-std=gnu17', '-D_GNU_SOURCE', '-O2', '-o', timer];
  await execFileAsync('cc', [...flags, source]);
}

// A series that times a command; argv[0] is an absolute path.
function timeCommand(name, argv) {
  async function take(count, pauseMs) {
    const { stdout } = await execFileAsync(timer, [
      String(count),
      String(pauseMs),
      ...argv,
    ]);
    return stdout
      .trim()
      .split('\n')
      .map((microseconds) => Number(microseconds) / 1000);
  }
  return { name, take };
}

// The nearest to our box: every namespace, the host's programs read-only, own
// /proc, /dev and /tmp. For a machine whose /bin and /lib lie in /usr.
function bwrapArgv(command) {
  const options = [
    '--unshare-all --die-with-parent --ro-bind /usr /usr',
    '--symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64',
    '--proc /proc --dev /dev --tmpfs /tmp',
  ];
  return ['/usr/bin/bwrap', ...options.join(' ').split(' '), ...command];
}

module.exports = { bwrapArgv, compileTimer, timeCommand };
