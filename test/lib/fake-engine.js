// SPDX-License-Identifier: Apache-2.0
'use strict';

// An engine without boxes, for tests of lib/: it records what it is told, and
// the test says what happens. Call install() before anything of lib/ is loaded.

const { setImmediate: nextTick } = require('node:timers');

const defaultImage = {
  entries: [{ kind: 'dir', target: '/usr' }],
  path: ['/opt/python/bin'],
  runtimes: {
    python: { executable: '/opt/python/bin/python3', prefixes: [] },
    node: { executable: '/usr/bin/node', prefixes: [] },
    bash: { executable: '/usr/bin/bash', prefixes: [] },
  },
};

class FakeRun {
  cells = [];
  interrupts = [];
  isAborted = false;
  isAwaited = false;
  hasEnded = false;
  answersStart = true;
  #onEvent;

  constructor(spec, onEvent) {
    this.spec = spec;
    this.wantOutput = spec.wantOutput;
    this.#onEvent = onEvent;
  }

  emit(kind, ...rest) {
    if (kind === 'end') {
      if (this.hasEnded) throw new Error('a run ended twice');
      this.hasEnded = true;
    }
    this.#onEvent(kind, ...rest);
  }

  end(result) {
    this.emit('end', null, runResult(result));
  }

  fail(error) {
    this.emit('end', nativeError(error), null);
  }

  abort() {
    if (this.isAborted || this.hasEnded) return;
    this.isAborted = true;
    nextTick(() => {
      if (!this.hasEnded) this.fail({ code: 'ABORTED' });
    });
  }

  interrupt(insist) {
    this.interrupts.push(insist);
  }

  /** Of a process: nothing is there yet. */
  read() {
    return null;
  }

  setAwaited(awaited) {
    this.isAwaited = awaited;
  }

  setWantOutput(wanted) {
    this.wantOutput = wanted;
  }

  cell(id, body, timeoutMs, maxOutputBytes, trackFiles) {
    const { code } = JSON.parse(body.toString());
    if (code === '' && this.answersStart) {
      nextTick(() => this.emit('cell', id, null, cellResult()));
      return;
    }
    this.cells.push({ id, code, timeoutMs, maxOutputBytes, trackFiles });
    this.onCell?.(this.cells.at(-1));
  }

  answer(cell, result) {
    this.emit('cell', cell.id, null, cellResult(result));
  }
}

class FakeSession {
  runs = [];
  files = [];
  closeCount = 0;
  info = {
    workspace: '/tmp/workspace',
    memory: 'kernel',
    pids: 'kernel',
    cpus: null,
    disk: 'watchdog',
    cgroups: true,
    scoped: false,
  };

  /** A function of each new run, or an object to throw. */
  onRun;
  closeError;

  givenUp() {
    return [];
  }

  prepare(spec) {
    return spec;
  }

  run(spec, argv, code, firstInput, onEvent) {
    if (this.onRun && typeof this.onRun !== 'function') throw this.onRun;
    const cell = spec.control ? code : null;
    const script = spec.control ? null : code;
    const run = new FakeRun(
      { ...spec, argv, cell, script, firstInput },
      onEvent,
    );
    this.runs.push(run);
    if (this.onRun) nextTick(() => this.onRun(run));
    return spec.handle ? run : undefined;
  }

  async writeFile(path, data) {
    this.files.push({ path: path.toString(), data: Buffer.from(data) });
  }

  async readFile(path, maxBytes) {
    this.lastMaxBytes = maxBytes;
    const file = this.files.find((one) => one.path === path.toString());
    if (!file) {
      throw nativeError({ code: 'NOT_FOUND', errno: 2, op: 'openat2' });
    }
    return file.data;
  }

  async listFiles(path) {
    this.lastListed = path.toString();
    return this.files.map((file) => ({
      path: Buffer.from(file.path),
      size: file.data.length,
      mtimeMs: 1500.5,
    }));
  }

  async close() {
    this.closeCount++;
    for (const run of this.runs) {
      if (!run.hasEnded) run.fail({ code: 'CLOSED' });
    }
    if (this.closeError) throw this.closeError;
  }
}

class FakeEngine {
  sessions = [];
  specs = [];
  /** What openSession rejects with, or a promise that it waits for. */
  openError;
  openGate;
  onSession;

  prepareRoot(entries, standbys) {
    return { entries, standbys };
  }

  #note({ root, ...spec }) {
    this.specs.push({ ...spec, ...root });
  }

  async openSession(spec) {
    this.#note(spec);
    await this.openGate;
    if (this.openError) throw this.openError;
    const session = new FakeSession();
    this.sessions.push(session);
    this.onSession?.(session);
    return session;
  }

  /** Of what the engine does by itself here, the session is told. */
  runOnce(spec, runSpec, argv, code, firstInput, onEvent) {
    this.#note(spec);
    if (this.openError) {
      nextTick(() => onEvent('end', this.openError, null, null));
      return undefined;
    }
    const session = new FakeSession();
    this.sessions.push(session);
    this.onSession?.(session);
    onEvent('opened', session.info);
    return session.run(runSpec, argv, code, firstInput, (kind, ...rest) => {
      if (kind !== 'end') {
        onEvent(kind, ...rest);
        return;
      }
      session.closeCount++;
      onEvent(kind, ...rest, session.closeError ?? null);
    });
  }
}

function nativeError(error) {
  return { code: 'INTERNAL', errno: 0, op: '', detail: '', ...error };
}

function commonResult() {
  return {
    stdout: Buffer.alloc(0),
    stderr: Buffer.alloc(0),
    stdoutTruncated: false,
    stderrTruncated: false,
    fault: null,
    faultSyscall: '',
    blocked: null,
    framesTruncated: false,
    filesTruncated: false,
    durationUs: 1500,
    usage: {
      cpuUs: 2000,
      cpuUserUs: 1500,
      cpuSystemUs: 500,
      maxMemoryBytes: 4096,
      maxPids: null,
      readBytes: 512,
      writtenBytes: 0,
    },
    files: [],
  };
}

function runResult(overrides) {
  return {
    ...commonResult(),
    exitCode: 0,
    signal: 0,
    exec: null,
    ...overrides,
  };
}

function cellResult(overrides) {
  return {
    ...commonResult(),
    done: Buffer.from('{"exitCode":0,"error":null}'),
    interrupted: false,
    timedOut: false,
    exitCode: null,
    signal: null,
    ...overrides,
  };
}

/** Puts the fake in the place of lib/backend.js. */
function install() {
  const backend = {
    engine: new FakeEngine(),
    image: defaultImage,
    prepared: [],
    getEngine: () => backend.engine,
    lookAgainFor() {},
    prepareImage: async (runtimes) => {
      backend.prepared.push(runtimes);
      return backend.image;
    },
  };
  const file = require.resolve('../../lib/backend.js');
  require.cache[file] = {
    id: file,
    filename: file,
    loaded: true,
    exports: backend,
  };
  return backend;
}

/** Resolves after what native events have started is done. */
function settle() {
  return new Promise((resolve) => nextTick(() => nextTick(resolve)));
}

module.exports = {
  cellResult,
  defaultImage,
  install,
  nativeError,
  runResult,
  settle,
};
