// SPDX-License-Identifier: Apache-2.0
'use strict';

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { install } = require('./fake-engine.js');

const backend = install();
const { Sandbox, runCode } = require('../../lib/index.js');

const warnings = [];
process.on('warning', (warning) => warnings.push(warning));

async function openWith(info, options) {
  backend.engine.onSession = (session) => Object.assign(session.info, info);
  const sandbox = await new Sandbox(options).open();
  await sandbox.close();
  await new Promise(setImmediate);
  return sandbox.limits;
}

test('limits say how each is enforced, null where lifted', async () => {
  const limits = await openWith({
    memory: 'kernel',
    pids: 'kernel',
    cpus: 'kernel',
    disk: 'watchdog',
  });
  assert.deepEqual(limits, {
    memoryMb: 'kernel',
    pids: 'kernel',
    cpus: null,
    diskMb: 'watchdog',
  });
  assert.ok(Object.isFrozen(limits));
  assert.deepEqual(warnings, []);
});

test('without enforceLimits nothing is warned of', async () => {
  const weak = { memory: 'none', pids: 'none', cpus: 'none' };
  await openWith(weak, { enforceLimits: false });
  assert.deepEqual(warnings, []);
});

test('a limit that is not the kernel’s is warned of, once', async () => {
  const weak = { memory: 'none', pids: 'kernel', cpus: 'watchdog' };
  await openWith(weak, { cpus: 1 });
  await openWith(weak, { cpus: 1 });
  assert.equal(warnings.length, 1);
  const [warning] = warnings;
  assert.equal(warning.code, 'GLOVEBOX_LIMITS');
  assert.match(warning.message, /memoryMb \(none\), cpus \(watchdog\)/);
  // That would take the watchdog away as well.
  assert.doesNotMatch(warning.message, /enforceLimits/);
});

test('requireLimits refuses a one-shot call before it runs', async () => {
  const weak = { memory: 'none', pids: 'kernel', cpus: 'none' };
  const sessions = [];
  backend.engine.onSession = (session) => {
    Object.assign(session.info, weak);
    session.onRun = (run) => run.end();
    sessions.push(session);
  };
  await assert.rejects(runCode('1', { requireLimits: true }), {
    code: 'ERR_SANDBOX_LIMIT',
    message: /memoryMb \(none\)/,
  });
  assert.deepEqual(
    sessions.map(({ runs, closeCount }) => [runs.length, closeCount]),
    [[0, 1]],
  );
});

test('requireLimits refuses what is not the kernel’s, and closes the session', async () => {
  const weak = { memory: 'watchdog', pids: 'kernel', cpus: 'none' };
  const sessions = [];
  backend.engine.onSession = (session) => {
    Object.assign(session.info, weak);
    sessions.push(session);
  };
  const refused = { code: 'ERR_SANDBOX_LIMIT' };
  const sandbox = new Sandbox({ requireLimits: true, cpus: 1 });
  await assert.rejects(sandbox.open(), {
    ...refused,
    message:
      /memoryMb \(watchdog\), cpus \(none\).*enable-linger.*Delegate=yes.*root.*null.*requireLimits/,
  });
  assert.throws(() => sandbox.limits, { code: 'ERR_SANDBOX_NOT_OPEN' });
  await assert.rejects(
    new Sandbox({ requireLimits: true, enforceLimits: false }).open(),
    { ...refused, message: /Leave enforceLimits: false out/ },
  );
  assert.deepEqual(
    sessions.map(({ closeCount }) => closeCount),
    [1, 1],
  );

  // A cgroup without a controller.
  Object.assign(weak, { memory: 'kernel' });
  await assert.rejects(new Sandbox({ requireLimits: true, cpus: 1 }).open(), {
    ...refused,
    message: /enforce cpus \(none\).*cpu controller.*Delegate=cpu cpuset io/,
  });

  // What was wrong may be put right.
  Object.assign(weak, { memory: 'kernel', cpus: 'kernel' });
  await sandbox.open();
  assert.equal(sandbox.limits.memoryMb, 'kernel');
  await sandbox.close();
});

test('requireLimits holds for a limit that only a call asks for', async () => {
  const weak = { memory: 'kernel', pids: 'kernel', cpus: 'none' };
  const sessions = [];
  backend.engine.onSession = (session) => {
    Object.assign(session.info, weak);
    session.onRun = (run) => run.end();
    sessions.push(session);
  };
  const sandbox = await new Sandbox({ requireLimits: true }).open();
  assert.equal(sandbox.limits.cpus, null);
  const refused = { code: 'ERR_SANDBOX_LIMIT', message: /cpus \(none\)/ };
  await assert.rejects(sandbox.run(['true'], { cpus: 1 }), refused);
  await assert.rejects(sandbox.kernel({ cpus: 1 }), refused);
  assert.throws(() => sandbox.spawn(['true'], { cpus: 1 }), refused);
  assert.equal(sessions[0].runs.length, 0);
  await sandbox.run(['true']);
  await sandbox.close();
});
