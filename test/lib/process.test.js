// SPDX-License-Identifier: Apache-2.0
'use strict';

// What a process tells in which order, where the engine's order is another.

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { install, settle } = require('./fake-engine.js');

const backend = install();
const { Sandbox } = require('../../lib/index.js');

/** A process that has written something before its start is known. */
async function startQuickly() {
  const sandbox = await new Sandbox().open();
  const child = sandbox.spawn(['x']);
  const run = backend.engine.sessions.at(-1).runs.at(-1);
  const written = [[Buffer.from('out')], [Buffer.from('err')]];
  run.read = (index) => written[index].shift() ?? null;
  const events = [];
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => events.push(String(chunk)));
  }
  await settle();
  assert.deepEqual(events, []);
  return { child, run, events, sandbox };
}

test("'spawn' comes before all output", async () => {
  const { child, run, events, sandbox } = await startQuickly();
  run.emit('output');
  child.on('spawn', () => events.push(`spawn ${child.pid}`));
  run.emit('start', 2);
  await settle();
  assert.deepEqual(events, ['spawn 2', 'out', 'err']);
  run.end();
  await sandbox.close();
});

for (const [what, emitterOf, event] of [
  ["a listener of 'spawn'", (child) => child, 'spawn'],
  ['a reader of stdout', (child) => child.stdout, 'data'],
]) {
  test(`what ${what} throws holds no output`, async () => {
    const { child, run, events, sandbox } = await startQuickly();
    const thrown = new Error('mine');
    emitterOf(child).on(event, () => {
      throw thrown;
    });
    // The engine gives it to the program as an uncaught exception.
    assert.throws(() => run.emit('start', 2), thrown);
    await settle();
    assert.deepEqual(events, ['out', 'err']);
    run.end();
    await sandbox.close();
  });
}

test('output of a process whose start was never told is not lost', async () => {
  const { child, run, events, sandbox } = await startQuickly();
  run.emit('stdout', Buffer.from('rest'));
  run.end();
  assert.equal((await child.wait()).exitCode, 0);
  assert.deepEqual(events, ['rest']);
  await sandbox.close();
});
