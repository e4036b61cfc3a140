// SPDX-License-Identifier: Apache-2.0
'use strict';

// AbortSignal: before, during and after a call.

const assert = require('node:assert/strict');
const { getEventListeners } = require('node:events');
const {
  descendants,
  eventually,
  glovebox,
  open,
  test,
  timeScale,
} = require('../helpers/harness.js');

const hasSleep = () => descendants().some(({ name }) => name === 'sleep');
const none = (signal) => getEventListeners(signal, 'abort').length === 0;

/** Resolves when a call that prints has begun. */
function startSignal() {
  let onStdout;
  const started = new Promise((resolve) => {
    onStdout = resolve;
  });
  return { started, onStdout };
}

const sleeper = 'echo started; exec sleep 77';

test('a signal that is aborted already starts nothing', async (t) => {
  const sandbox = await open(t);
  const reason = new Error('too late');
  const signal = AbortSignal.abort(reason);
  const isReason = (error) => error === reason;
  const touch = ['touch', 'ran'];
  await assert.rejects(sandbox.run(touch, { signal }), isReason);
  await assert.rejects(
    sandbox.runCode('open("ran", "w")', { signal }),
    isReason,
  );
  await assert.rejects(sandbox.kernel({ signal }), isReason);
  assert.throws(() => sandbox.spawn(touch, { signal }), isReason);
  await assert.rejects(glovebox.runCode('1', { signal }), isReason);
  assert.deepEqual(await sandbox.listFiles(), []);
  assert.ok(none(signal));
});

test('a call that is aborted rejects with the reason, when its box is gone', async (t) => {
  const sandbox = await open(t);
  for (const reason of [new Error('enough'), 'a string', 0, null]) {
    const controller = new AbortController();
    const { signal } = controller;
    const { started, onStdout } = startSignal();
    const call = sandbox.runCode(sleeper, {
      language: 'bash',
      signal,
      onStdout,
    });
    const outcome = call.then(
      () => assert.fail('it resolved'),
      (error) => ({ error, isGone: !hasSleep() }),
    );
    await started;
    await eventually(hasSleep, 'it sleeps');
    controller.abort(reason);
    const { error, isGone } = await outcome;
    assert.equal(error, reason);
    assert.ok(isGone, 'nothing of the box is left when it rejects');
    assert.ok(none(signal));
  }
});

test('a plain abort is an AbortError', async (t) => {
  const sandbox = await open(t);
  const controller = new AbortController();
  const call = sandbox.run(['sleep', '77'], { signal: controller.signal });
  controller.abort();
  await assert.rejects(call, { name: 'AbortError' });
});

test('AbortSignal.timeout is a TimeoutError, and no fault', async (t) => {
  const sandbox = await open(t);
  const started = Date.now();
  await assert.rejects(
    sandbox.run(['sleep', '77'], { signal: AbortSignal.timeout(200) }),
    { name: 'TimeoutError' },
  );
  assert.ok(Date.now() - started < 10000 * timeScale);
});

test('an abort at any moment of a call ends it one way or the other', async (t) => {
  const sandbox = await open(t, { trackFiles: true });
  for (let delayMs = 0; delayMs <= 40; delayMs += 2) {
    const controller = new AbortController();
    const { signal } = controller;
    const call = sandbox.run(['echo', 'done'], { signal });
    const settled = call.then(
      ({ stdout }) => stdout,
      ({ name }) => name,
    );
    setTimeout(() => controller.abort(), delayMs);
    assert.match(await settled, /^(done\n|AbortError)$/);
    assert.ok(none(signal), `a listener is left after ${delayMs} ms`);
  }
});

test('an abort after the end changes nothing', async (t) => {
  const sandbox = await open(t);
  const controller = new AbortController();
  const { signal } = controller;
  const result = await sandbox.run(['true'], { signal });
  assert.ok(none(signal));
  controller.abort();
  assert.equal(result.exitCode, 0);
});

test('one signal ends many calls, and warns of no listeners', async (t) => {
  const sandbox = await open(t);
  const warnings = [];
  const warn = (warning) => warnings.push(warning.name);
  process.on('warning', warn);
  const controller = new AbortController();
  const { signal } = controller;
  const calls = Array.from({ length: 20 }, () =>
    sandbox.run(['sleep', '77'], { signal }),
  );
  controller.abort();
  const outcomes = await Promise.allSettled(calls);
  assert.ok(outcomes.every(({ reason }) => reason?.name === 'AbortError'));
  assert.ok(none(signal));
  await eventually(() => !hasSleep(), 'no sleep is left');
  process.off('warning', warn);
  assert.deepEqual(warnings, []);
});

test('a one-shot call that is aborted leaves nothing', async () => {
  const controller = new AbortController();
  const call = glovebox.runCode('import time; time.sleep(77)', {
    signal: controller.signal,
  });
  setTimeout(() => controller.abort(), 100);
  await assert.rejects(call, { name: 'AbortError' });
  assert.ok(none(controller.signal));
});

test('close() of the sandbox leaves no listener', async (t) => {
  const sandbox = await open(t);
  const { signal } = new AbortController();
  const { started, onStdout } = startSignal();
  const call = sandbox.runCode(sleeper, { language: 'bash', signal, onStdout });
  const refused = assert.rejects(call, { code: 'ERR_SANDBOX_CLOSED' });
  await started;
  await sandbox.close();
  await refused;
  assert.ok(none(signal));
});

// ---- spawn and kernels -----------------------------------------------------

test('a spawned process that is aborted: wait() rejects with the reason', async (t) => {
  const sandbox = await open(t);
  const controller = new AbortController();
  const { signal } = controller;
  const child = sandbox.spawn(['sleep', '77'], { signal });
  const exits = [];
  child.on('exit', (...ending) => exits.push(ending));
  const reason = new Error('enough');
  child.on('spawn', () => controller.abort(reason));
  await assert.rejects(child.wait(), (error) => error === reason);
  assert.ok(!hasSleep());
  assert.deepEqual(exits, [[null, 'SIGKILL']]);
  assert.ok(none(signal));
});

test('a kernel that is aborted rejects its cells with the reason', async (t) => {
  const sandbox = await open(t);
  const controller = new AbortController();
  const { signal } = controller;
  const kernel = await sandbox.kernel({ signal });
  const running = kernel.runCode('import time; time.sleep(77)');
  const waiting = kernel.runCode('1');
  const reason = new Error('enough');
  setTimeout(() => controller.abort(reason), 50);
  const isReason = (error) => error === reason;
  await Promise.all([
    assert.rejects(running, isReason),
    assert.rejects(waiting, isReason),
  ]);
  await assert.rejects(kernel.runCode('1'), isReason);
  assert.ok(none(signal));
});

test('a cell that is aborted while it waits leaves the kernel alone', async (t) => {
  const sandbox = await open(t);
  const kernel = await sandbox.kernel();
  const controller = new AbortController();
  const { signal } = controller;
  const running = kernel.runCode('import time; time.sleep(0.3); x = 1; x');
  const waiting = kernel.runCode('x = 2', { signal });
  controller.abort();
  await assert.rejects(waiting, { name: 'AbortError' });
  assert.equal((await running).results[0].text, '1');
  assert.equal((await kernel.runCode('x')).results[0].text, '1');
  assert.ok(none(signal));
});

test('a cell that is aborted while it runs is interrupted, and the state stays', async (t) => {
  const sandbox = await open(t);
  const kernel = await sandbox.kernel();
  const controller = new AbortController();
  const { signal } = controller;
  await kernel.runCode('x = 1');
  const running = kernel.runCode('import time; time.sleep(77)', { signal });
  setTimeout(() => controller.abort(), 50);
  await assert.rejects(running, { name: 'AbortError' });
  assert.equal((await kernel.runCode('x')).results[0].text, '1');
  assert.ok(none(signal));
});

test('a cell that is aborted and goes on all the same costs the interpreter', async (t) => {
  const kernel = await (await open(t)).kernel();
  const controller = new AbortController();
  const running = kernel.runCode(
    `import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
print('up')
while True: pass`,
    { signal: controller.signal, onStdout: () => controller.abort() },
  );
  await assert.rejects(running, { name: 'AbortError' });
  await assert.rejects(kernel.runCode('1'), {
    code: 'ERR_SANDBOX_KERNEL_DEAD',
    message: /a cell whose signal was aborted did not heed the interrupt/,
  });
});
