// SPDX-License-Identifier: Apache-2.0
'use strict';

const assert = require('node:assert/strict');
const { AsyncLocalStorage } = require('node:async_hooks');
const { after, before, test } = require('node:test');
const { install, settle } = require('./fake-engine.js');

const backend = install();
const { Sandbox } = require('../../lib/index.js');

let sandbox;
let session;
const uncaught = [];
const remember = (error) => uncaught.push(error);

before(async () => {
  process.on('uncaughtException', remember);
  process.on('unhandledRejection', remember);
});

after(() => {
  process.off('uncaughtException', remember);
  process.off('unhandledRejection', remember);
  assert.deepEqual(uncaught, []);
});

async function open(options) {
  sandbox = await new Sandbox(options).open();
  session = backend.engine.sessions.at(-1);
}

// Starts a run and gives its fake once it is there.
function start(options) {
  const result = sandbox.run(['x'], options);
  result.catch(() => {});
  return { result, run: session.runs.at(-1) };
}

test('chunks reach the callbacks as they come, and the result has all', async () => {
  await open();
  const seen = [];
  const { result, run } = start({
    onStdout: (chunk) => seen.push(['out', chunk.toString()]),
    onStderr: (chunk) => seen.push(['err', chunk.toString()]),
  });
  assert.deepEqual(run.spec.wantOutput, [true, true]);
  run.emit('stdout', Buffer.from('one'));
  assert.deepEqual(seen, [['out', 'one']]);
  run.emit('stderr', Buffer.from('two'));
  run.end({ stdout: Buffer.from('one'), stderr: Buffer.from('two') });
  assert.deepEqual(seen, [
    ['out', 'one'],
    ['err', 'two'],
  ]);
  assert.equal((await result).stdout, 'one');
  await sandbox.close();
});

test("the session's callbacks are inherited, replaced, or switched off", async () => {
  const seen = [];
  await open({
    onStdout: () => seen.push('session'),
    onStderr: () => seen.push('session err'),
  });
  const wanted = async (options) => {
    const { result, run } = start(options);
    run.emit('stdout', Buffer.from('x'));
    run.end();
    await result;
    return [run.spec.wantOutput, seen.splice(0)];
  };
  assert.deepEqual(await wanted({}), [[true, true], ['session']]);
  assert.deepEqual(await wanted({ onStdout: () => seen.push('call') }), [
    [true, true],
    ['call'],
  ]);
  assert.deepEqual(await wanted({ onStdout: null }), [[false, true], []]);
  await sandbox.close();
});

test('P04 what a callback throws ends the run and rejects the call', async () => {
  await open();
  let calls = 0;
  const thrown = new Error('cb');
  const { result, run } = start({
    onStdout() {
      calls++;
      throw thrown;
    },
  });
  run.emit('stdout', Buffer.from('x'));
  run.emit('stdout', Buffer.from('y'));
  run.emit('stderr', Buffer.from('z'));
  assert.equal(calls, 1);
  assert.equal(run.isAborted, true);
  await assert.rejects(result, (error) => error === thrown);
  assert.equal(run.hasEnded, true);
  await sandbox.close();
});

test('P04 the call rejects even if the run had ended by itself', async () => {
  await open();
  const { result, run } = start({
    onStdout() {
      throw undefined;
    },
  });
  run.emit('stdout', Buffer.from('x'));
  run.end({ stdout: Buffer.from('x') });
  await assert.rejects(result, (error) => error === undefined);
  await sandbox.close();
});

test('P04 the rejection of an async callback counts the same', async () => {
  await open();
  const { result, run } = start({
    async onStdout() {
      throw new Error('async cb');
    },
  });
  run.emit('stdout', Buffer.from('x'));
  await settle();
  assert.equal(run.isAborted, true);
  await assert.rejects(result, /async cb/);
  await sandbox.close();
});

test('P04 a rejection after the end is nobody’s', async () => {
  await open();
  let reject;
  const { result, run } = start({
    onStdout: () =>
      new Promise((_, fail) => {
        reject = fail;
      }),
  });
  run.emit('stdout', Buffer.from('x'));
  run.end();
  assert.equal((await result).success, true);
  reject(new Error('late'));
  await settle();
  await sandbox.close();
});

test('OUT-07 a callback may keep its chunks', async () => {
  await open();
  const kept = [];
  const { result, run } = start({ onStdout: (chunk) => kept.push(chunk) });
  for (const text of ['a', 'b', 'c']) run.emit('stdout', Buffer.from(text));
  run.end();
  await result;
  assert.equal(Buffer.concat(kept).toString(), 'abc');
  await sandbox.close();
});

test('a callback sees the async context of the call', async () => {
  await open();
  const storage = new AsyncLocalStorage();
  let seen;
  const { result, run } = storage.run('mine', () =>
    start({
      onStdout() {
        seen = storage.getStore();
      },
    }),
  );
  run.emit('stdout', Buffer.from('x'));
  run.end();
  await result;
  assert.equal(seen, 'mine');
  await sandbox.close();
});

test('frames become results and the exception of the run', async () => {
  await open();
  const result = sandbox.runCode('1/0');
  const run = session.runs.at(-1);
  run.emit('frame', 2, Buffer.from('{"text/plain":"5"}'));
  run.emit('frame', 2, Buffer.from('rubbish'));
  const error = { name: 'E', message: 'm', traceback: 't', line: 1 };
  run.emit('frame', 3, Buffer.from(JSON.stringify({ exitCode: 1, error })));
  run.end({ exitCode: 1 });
  const { results, error: exception } = await result;
  assert.deepEqual(
    results.map((one) => one.text),
    ['5'],
  );
  assert.deepEqual(exception, error);
  await sandbox.close();
});

const resultFrame = [
  2,
  Buffer.from('{"text/plain":"5","isMainResult":"true"}'),
];

test('results reach onResult as they come, and are those of the call', async () => {
  const seen = [];
  await open({ onResult: (result) => seen.push(result) });
  const { result, run } = start({});
  run.emit('frame', 2, Buffer.from('{"text/plain":"4"}'));
  assert.equal(seen.length, 1);
  run.emit('frame', 2, Buffer.from('rubbish'));
  run.emit('frame', ...resultFrame);
  run.end();
  const { results, text } = await result;
  assert.equal(text, '5');
  assert.deepEqual(
    results.map(({ isMainResult }) => isMainResult),
    [false, true],
  );
  assert.equal(seen.length, 2);
  assert.equal(seen[0], results[0]);
  assert.equal(seen[1], results[1]);

  const quiet = start({ onResult: null });
  quiet.run.emit('frame', ...resultFrame);
  quiet.run.end();
  assert.equal((await quiet.result).results.length, 1);
  assert.equal(seen.length, 2);
  await sandbox.close();
});

test('results beyond the limit reach no callback', async () => {
  await open();
  let count = 0;
  const { result, run } = start({
    onResult() {
      count++;
    },
  });
  for (let i = 0; i < 1002; i++) run.emit('frame', ...resultFrame);
  run.end();
  assert.equal((await result).truncated, true);
  assert.equal(count, 1000);
  await sandbox.close();
});

test('P04 what onResult throws ends the run and rejects the call', async () => {
  await open();
  const thrown = new Error('cb');
  for (const onResult of [
    () => {
      throw thrown;
    },
    async () => {
      throw thrown;
    },
  ]) {
    const { result, run } = start({ onResult });
    run.emit('frame', ...resultFrame);
    run.emit('frame', ...resultFrame);
    await settle();
    assert.equal(run.isAborted, true);
    await assert.rejects(result, (error) => error === thrown);
  }
  await sandbox.close();
});
