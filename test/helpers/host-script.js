// SPDX-License-Identifier: Apache-2.0
'use strict';

// Programs that use glovebox, in a process of their own: for tests in which
// that process is killed, blocked, ends by itself or has another environment.

const { spawn } = require('node:child_process');
const { once } = require('node:events');
const path = require('node:path');
const readline = require('node:readline');

const fixtures = path.join(__dirname, '..', 'cases', 'fixtures');

/**
 * Starts `name` of test/cases/fixtures, or of `folder`. Variables of `env` are set over this
 * process' own; undefined takes one away. What is left of it when test `t` ends
 * is killed.
 *
 * - `line()` resolves with the next line of its stdout; rejects if it ended.
 * - `ended` resolves with `{exitCode, signal, stderr}`.
 */
function startScript(
  t,
  name,
  { args = [], env = {}, cwd, folder = fixtures } = {},
) {
  const child = spawn(process.execPath, [path.join(folder, name), ...args], {
    cwd,
    env: { ...process.env, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  t.after(() => child.kill('SIGKILL'));

  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr += text;
  });
  const lines = readline.createInterface({ input: child.stdout });
  const iterator = lines[Symbol.asyncIterator]();
  const ended = once(child, 'close').then(([exitCode, signal]) => ({
    exitCode,
    signal,
    stderr,
  }));

  return {
    child,
    ended,
    async line() {
      const { value, done } = await iterator.next();
      if (!done) return value;
      const { exitCode, signal } = await ended;
      throw new Error(`${name} ended (${exitCode ?? signal}): ${stderr}`);
    },
  };
}

/** Runs a script of which one line of JSON is wanted, and resolves with it. */
async function askScript(t, name, options) {
  const script = startScript(t, name, options);
  const answer = JSON.parse(await script.line());
  const { exitCode, stderr } = await script.ended;
  if (exitCode !== 0) throw new Error(`${name} failed: ${stderr}`);
  return answer;
}

module.exports = { askScript, startScript };
