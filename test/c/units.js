// SPDX-License-Identifier: Apache-2.0
'use strict';

// How test/c/*_test.c are compiled: with what the `sources:` comment of each
// names.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { compilerFlags, readSources, root } = require('../helpers/c-sources.js');

const sanitizerFlags = [
  '-fsanitize=address,undefined',
  '-fno-sanitize-recover=undefined',
];
const timeScale = Number(process.env.GLOVEBOX_TIME_SCALE ?? 1);
const programTimeoutMs = 120_000 * timeScale;

const unitFiles = fs
  .readdirSync(__dirname)
  .filter((name) => name.endsWith('_test.c'))
  .sort()
  .map((name) => `test/c/${name}`);

function execute(command, args) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd: root,
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: programTimeoutMs,
      killSignal: 'SIGKILL',
    });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text) => {
      stdout += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text) => {
      stderr += text;
    });
    child.on('error', reject);
    child.on('close', (status, signal) =>
      resolve({ status, signal, stdout, stderr }),
    );
  });
}

/** Compiles `file` by `command`, a compiler and more `flags`, into `folder`. */
async function compileUnit(file, folder, [compiler, ...flags]) {
  const binary = path.join(folder, path.basename(file, '.c'));
  const all = [...flags, ...compilerFlags, ...readSources(file)];
  const { status, stderr } = await execute(compiler, [...all, '-o', binary]);
  assert.equal(status, 0, `${compiler} ${all.join(' ')}\n${stderr}`);
  return binary;
}

module.exports = { compileUnit, execute, sanitizerFlags, unitFiles };
