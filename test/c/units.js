// SPDX-License-Identifier: Apache-2.0
'use strict';

// How test/c/*_test.c are compiled: with what the `sources:` comment of each
// names.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

const root = path.join(__dirname, '..', '..');
const baseFlags = [
  '-std=gnu17',
  '-D_GNU_SOURCE',
  '-Wall',
  '-Wextra',
  '-Wshadow',
  '-Werror',
  '-g',
  // The interpreter of the filter runs millions of instructions.
  '-O1',
  '-Isrc',
];
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

function readHeader(file) {
  const text = fs.readFileSync(path.join(root, file), 'utf8');
  const match = /\/\*\s*sources:(.*?)(?:\blibs:(.*?))?\*\//s.exec(text);
  assert.ok(match, `${file} has no comment "sources: ... libs: ..."`);
  const words = (list = '') =>
    list.split(/\s+/).filter((word) => word !== '' && word !== '*');
  return { sources: words(match[1]), libs: words(match[2]) };
}

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
  const { sources, libs } = readHeader(file);
  const binary = path.join(folder, path.basename(file, '.c'));
  const all = [...flags, ...baseFlags, file, ...sources, ...libs];
  const { status, stderr } = await execute(compiler, [...all, '-o', binary]);
  assert.equal(status, 0, `${compiler} ${all.join(' ')}\n${stderr}`);
  return binary;
}

module.exports = { compileUnit, execute, sanitizerFlags, unitFiles };
