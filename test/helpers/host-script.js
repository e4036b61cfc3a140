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
 * Starts `name` of test/cases/fixtures, or of `folder`. Variables of `env` are
 * set over this process' own; undefined takes one away. `wrapper` is an argv that
 * executes the one that is added to it, `flags` are for node. What is left of it
 * when test `t` ends is killed.
 *
 * - `line()` resolves with the next line of its stdout; rejects if it ended.
 * - `ended` resolves with `{exitCode, signal, stderr}`.
 */
function startScript(
  t,
  name,
  {
    args = [],
    env = {},
    cwd,
    folder = fixtures,
    wrapper = [],
    flags = [],
  } = {},
) {
  const file = path.join(folder, name);
  const argv = [...wrapper, process.execPath, ...flags, file, ...args];
  const child = spawn(argv[0], argv.slice(1), {
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

/**
 * Starts test/hostile/fixtures/host.js: a host process that does what it is
 * told. `ask(fn, ...args)` runs the text of a function there, with an object
 * that stays the same from one to the next, and resolves with what it returns;
 * it rejects with the code and message of what it throws. Options as for
 * startScript.
 */
function startHost(t, options) {
  const folder = path.join(__dirname, '..', 'hostile', 'fixtures');
  const script = startScript(t, 'host.js', { folder, ...options });
  return {
    ...script,
    async ask(fn, ...args) {
      script.child.stdin.write(`${JSON.stringify([String(fn), args])}\n`);
      const { value, error } = JSON.parse(await script.line());
      if (error) throw Object.assign(new Error(error.message), error);
      return value;
    },
    /** Ends it in the way of a program that has nothing more to do. */
    async end() {
      script.child.stdin.end();
      return script.ended;
    },
  };
}

module.exports = { askScript, startHost, startScript };
