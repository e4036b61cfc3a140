// SPDX-License-Identifier: Apache-2.0
'use strict';

// What a user starts first: `glovebox doctor` and the demo.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const path = require('node:path');
const { test } = require('node:test');

const root = path.join(__dirname, '..', '..', '..');

function run(t, ...args) {
  const { stdout, stderr, status, signal } = spawnSync(process.execPath, args, {
    cwd: root,
    encoding: 'utf8',
  });
  for (const line of stdout.split('\n')) t.diagnostic(line);
  assert.deepEqual(
    { stderr, status, signal },
    { stderr: '', status: 0, signal: null },
  );
  return stdout;
}

test('glovebox doctor finds what it needs', (t) => {
  const report = run(t, 'lib/cli/main.js', 'doctor');
  assert.match(report, /: boxes work here/);
  for (const name of ['python', 'bash', 'node', 'system calls']) {
    assert.match(report, new RegExp(`^ok +${name} `, 'm'));
  }
});

test('the demo shows five pieces of code, and each box holds', (t) => {
  run(t, 'examples/demo.js');
});
