// SPDX-License-Identifier: Apache-2.0
'use strict';

// The python driver alone: `python3 driver.py` with a socket at descriptor 3,
// without box or engine. GLOVEBOX_TEST_PYTHON names the interpreter.

const assert = require('node:assert/strict');
const { spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, before } = require('node:test');

const DRIVER = path.join(__dirname, '../../lib/runtimes/python/driver.py');
const DEBIAN_PYTHON = '/usr/bin/python3';
const PYTHON =
  process.env.GLOVEBOX_TEST_PYTHON ||
  (fs.existsSync(DEBIAN_PYTHON) ? DEBIAN_PYTHON : 'python3');

const CELL = 1;
const RESULT = 2;
const DONE = 3;
const DEADLINE_MS = 60_000;

const bare = (code, env = {}) =>
  spawnSync(PYTHON, ['-c', code], {
    encoding: 'utf8',
    env: { PATH: process.env.PATH, LANG: 'C.UTF-8', ...env },
  });
const [MAJOR, MINOR] = bare('import sys; print(*sys.version_info[:2])')
  .stdout.split(' ')
  .map(Number);
const since = (minor) => MAJOR > 3 || MINOR >= minor;
const skipWithout = (module) => {
  // matplotlib fails where it finds no home for its settings.
  const home = { HOME: os.tmpdir() };
  if (bare(`import ${module}`, home).status === 0) return false;
  assert.ok(!process.env.GLOVEBOX_MUST_RUN, `${PYTHON} has no ${module}`);
  return `${PYTHON} has no ${module}`;
};

const live = new Set();
let folder;

before(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'gbx-driver-'));
});
after(() => {
  for (const child of live) child.kill('SIGKILL');
  fs.rmSync(folder, { recursive: true });
});

const workspace = (files = {}) => {
  const made = fs.mkdtempSync(path.join(folder, 'w-'));
  for (const [name, text] of Object.entries(files)) {
    fs.writeFileSync(path.join(made, name), text);
  }
  return made;
};

/** One driver process; cells are sent in order, as a Kernel does. */
class Driver {
  constructor({ cwd = workspace(), env = {} } = {}) {
    this.cwd = cwd;
    this.child = spawn(PYTHON, [DRIVER], {
      cwd,
      env: { PATH: process.env.PATH, HOME: cwd, LANG: 'C.UTF-8', ...env },
      stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'],
      timeout: DEADLINE_MS,
      killSignal: 'SIGKILL',
    });
    live.add(this.child);
    this.control = this.child.stdio[3];
    this.control.on('error', () => {});
    this.control.resume();
    this.frames = [];
    this.waiting = [];
    this.input = Buffer.alloc(0);
    this.child.stdio[4].on('data', (data) => this.#receive(data));
    this.output = { stdout: [], stderr: [] };
    for (const name of ['stdout', 'stderr']) {
      this.child[name].on('data', (data) => this.output[name].push(data));
    }
    this.closed = new Promise((resolve) => {
      this.child.on('close', (exitCode, signal) => {
        live.delete(this.child);
        for (const { reject } of this.waiting) {
          reject(
            new Error(
              `driver ended: ${exitCode} ${signal} ${this.text('stderr')}`,
            ),
          );
        }
        resolve({ exitCode, signal });
      });
    });
  }

  #receive(data) {
    this.input = Buffer.concat([this.input, data]);
    while (this.input.length >= 8) {
      const size = this.input.readUInt32LE(0);
      if (this.input.length < 8 + size) break;
      const type = this.input.readUInt32LE(4);
      const body = JSON.parse(this.input.toString('utf8', 8, 8 + size));
      this.input = this.input.subarray(8 + size);
      this.frames.push({ type, body });
      if (type === DONE && this.waiting.length > 0) {
        this.waiting.shift().resolve();
      }
    }
  }

  text(name) {
    return Buffer.concat(this.output[name]).toString('utf8');
  }

  send(code, name) {
    const body = Buffer.from(JSON.stringify({ code, name }));
    const header = Buffer.alloc(8);
    header.writeUInt32LE(body.length, 0);
    header.writeUInt32LE(CELL, 4);
    this.control.write(Buffer.concat([header, body]));
  }

  /** Runs one cell: {results, exitCode, error}. */
  async cell(code, name) {
    const from = this.frames.length;
    const done = new Promise((resolve, reject) => {
      this.waiting.push({ resolve, reject });
    });
    this.send(code, name);
    await done;
    const frames = this.frames.slice(from);
    return {
      results: frames
        .filter(({ type }) => type === RESULT)
        .map(({ body }) => body),
      ...frames.find(({ type }) => type === DONE).body,
    };
  }

  async prints(name, text) {
    while (!this.text(name).includes(text)) {
      const more = new Promise((resolve) =>
        this.child[name].once('data', resolve),
      );
      const ended = await Promise.race([more.then(() => null), this.closed]);
      assert.equal(
        ended,
        null,
        `ended without "${text}": ${this.text('stderr')}`,
      );
    }
  }

  async end() {
    this.control.end();
    const { exitCode, signal } = await this.closed;
    return {
      stdout: this.text('stdout'),
      stderr: this.text('stderr'),
      exitCode,
      signal,
      cells: this.frames
        .filter(({ type }) => type === DONE)
        .map(({ body }) => body),
      results: this.frames
        .filter(({ type }) => type === RESULT)
        .map(({ body }) => body),
    };
  }
}

const lines = (...each) => each.join('\n');
const texts = (results) => results.map((result) => result['text/plain']);

/** Like runCode: one cell, then the end of the input. */
const run = async (code, options) => {
  const driver = new Driver(options);
  driver.send(code);
  return driver.end();
};

/** Like a Kernel: cells after one another; answers and the end's output. */
const runCells = async (codes, options) => {
  const driver = new Driver(options);
  const answers = [];
  for (const code of codes) answers.push(await driver.cell(code));
  return { answers, ...(await driver.end()) };
};

const assertClean = (stderr) => {
  assert.doesNotMatch(stderr, /glovebox|driver\.py|runtimes/);
};

module.exports = {
  DEADLINE_MS,
  Driver,
  PYTHON,
  assertClean,
  bare,
  lines,
  run,
  runCells,
  since,
  skipWithout,
  texts,
  workspace,
};
