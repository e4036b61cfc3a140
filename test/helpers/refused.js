// SPDX-License-Identifier: Apache-2.0
'use strict';

// Hosts that allow no box: a command makes one, and in it a program of ours
// says how it was refused.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { timeScale } = require('./harness.js');

const script = path.join(__dirname, '..', 'cases', 'fixtures', 'refused.js');
const mostMs = 2000;

/** What gives up all rights, as a service would before it starts Node. */
const withoutRights = [
  ...['setpriv', '--bounding-set=-all', '--inh-caps=-all'],
  '--ambient-caps=-all',
];

/** Starts the program with `prefix` before it, and gives what it printed. */
function askRefused(prefix, { env } = {}) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'refused-'));
  fs.chmodSync(folder, 0o777);
  const [command, ...args] = [...prefix, process.execPath, script];
  const { stdout, stderr, status, signal } = spawnSync(command, args, {
    encoding: 'utf8',
    env: { ...process.env, TMPDIR: folder, ...env },
    timeout: 60000,
  });
  fs.rmSync(folder, { recursive: true });
  assert.equal(status, 0, `${signal ?? ''} ${stderr}`);
  return { ...JSON.parse(stdout), stderr };
}

/**
 * Nothing ran, soon, with all of `patterns` in the message; doctor() says the
 * same; and nothing is left.
 */
function assertRefused(answer, patterns) {
  const { error, tookMs, report, text, left } = answer;
  assert.equal(answer.result, undefined, JSON.stringify(answer.result));
  assert.ok(tookMs < mostMs * timeScale, `${tookMs} ms`);
  assert.deepEqual(left, [], 'no folder is left');
  for (const { error: other } of answer.answers) {
    assert.equal(other?.message, error.message, 'the same each time');
  }

  assert.equal(report.ok, false);
  const box = report.checks.find(({ name }) => name === 'box');
  assert.equal(box.ok, false);
  const said = [box.cause, box.fix].filter(Boolean).join(' ');
  assert.equal(error.remedy, said, `${error.message}\n${box.detail}`);
  assert.equal(error.message, `${box.detail}. ${said}`);
  for (const pattern of patterns) {
    assert.match(error.message, pattern);
    // Its lines are broken.
    assert.match(text.replaceAll(/\s+/g, ' '), pattern);
  }
  assert.match(text, /boxes do not work here/);
}

module.exports = { askRefused, assertRefused, withoutRights };
