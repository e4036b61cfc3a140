// SPDX-License-Identifier: Apache-2.0
'use strict';

// Every way to start code takes every option of one call, with the same meaning.

const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const { install, settle } = require('./fake-engine.js');

const backend = install();
const { Sandbox } = require('../../lib/index.js');

// Each starts a call, and says where the engine was told of its timeoutS.
const ofRun = (run) => run.spec.timeoutMs;
const ways = {
  run: (sandbox, options) => [sandbox.run(['x'], options), ofRun],
  'runCode of python': (sandbox, options) => [
    sandbox.runCode('1', options),
    ofRun,
  ],
  'runCode of bash': (sandbox, options) => [
    sandbox.runCode('1', { ...options, language: 'bash' }),
    ofRun,
  ],
  'spawn of a program': (sandbox, options) => [
    sandbox.spawn(['x'], options).wait(),
    ofRun,
  ],
  'spawn of code': (sandbox, options) => [
    sandbox.spawn({ code: '1' }, options).wait(),
    ofRun,
  ],
  'a kernel and its cells': (sandbox, options) => [
    sandbox.kernel(options).then((kernel) => kernel.runCode('1')),
    (run) => run.cells[0].timeoutMs,
  ],
};

/** What a call of `way` gets, and who hears its output. */
async function told(way, options) {
  const heard = [];
  const hear = (who) => () => heard.push(who);
  const sandbox = await new Sandbox({
    env: { A: '1', B: '1' },
    timeoutS: 5,
    memoryMb: 64,
    cpus: 0.5,
    pids: 20,
    onStdout: hear('stdout of the session'),
    onStderr: hear('stderr of the session'),
  }).open();
  const [result, timeoutOf] = way(sandbox, options(hear));
  const run = backend.engine.sessions.at(-1).runs.at(-1);
  await settle();
  await settle();
  run.emit('stdout', Buffer.from('x'));
  run.emit('stderr', Buffer.from('x'));
  const timeoutMs = timeoutOf(run);
  if (run.spec.kernel) run.answer(run.cells[0], {});
  else run.end();
  await result;
  await sandbox.close();
  const { env, cwd, memoryBytes, pids, cpuMillis } = run.spec;
  const own = env.filter((variable) => /^[A-C]=/.test(variable));
  return { own, cwd, timeoutMs, memoryBytes, pids, cpuMillis, heard };
}

const ofSession = {
  own: ['A=1', 'B=1'],
  cwd: '/workspace',
  timeoutMs: 5000,
  memoryBytes: 64 * 2 ** 20,
  pids: 20,
  cpuMillis: 500,
  heard: ['stdout of the session', 'stderr of the session'],
};

for (const [name, way] of Object.entries(ways)) {
  describe(name, () => {
    test("has the session's options where none are given", async () => {
      assert.deepEqual(await told(way, () => undefined), ofSession);
      const left = Object.fromEntries(
        ['env', 'cwd', 'timeoutS', 'memoryMb', 'pids', 'cpus', 'onStdout']
          .concat(['onStderr', 'onResult', 'signal', 'stdin', 'trace'])
          .map((option) => [option, undefined]),
      );
      assert.deepEqual(await told(way, () => left), ofSession);
    });

    test('has those of the call in their place, and env beside it', async () => {
      const options = (hear) => ({
        env: { B: '2', C: '3' },
        cwd: 'sub',
        timeoutS: 9,
        memoryMb: 128,
        pids: 40,
        cpus: 2,
        onStdout: hear('stdout'),
        onStderr: hear('stderr'),
      });
      assert.deepEqual(await told(way, options), {
        own: ['A=1', 'B=2', 'C=3'],
        cwd: '/workspace/sub',
        timeoutMs: 9000,
        memoryBytes: 128 * 2 ** 20,
        pids: 40,
        cpuMillis: 2000,
        heard: ['stdout', 'stderr'],
      });
    });

    test('null lifts a limit, switches callbacks off, and else inherits', async () => {
      const options = () => ({
        cwd: null,
        timeoutS: null,
        memoryMb: null,
        pids: null,
        cpus: null,
        onStdout: null,
        onStderr: null,
        onResult: null,
        signal: null,
        stdin: null,
        trace: null,
      });
      assert.deepEqual(await told(way, options), {
        ...ofSession,
        memoryBytes: 0,
        pids: 0,
        cpuMillis: 0,
        heard: [],
      });
    });
  });
}
