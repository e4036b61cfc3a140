// SPDX-License-Identifier: Apache-2.0
'use strict';

// What waits for calls, in memory and in wake-ups.

const { setTimeout: sleep } = require('node:timers/promises');
const { withSandbox } = require('../..');
const { launcherPath } = require('../../lib/paths.js');
const { idleGoal, judgeAtMost, memoryGoals } = require('./goals.js');
const { quantile } = require('./measure.js');
const {
  countSwitches,
  identify,
  listBelow,
  proportionalBytes,
  tellApart,
} = require('./processes.js');

// What is made when nothing runs has been made when the processes have stayed
// the same for this long.
const quietMs = 500;
const mostWaitMs = 10_000;

const ours = identify(launcherPath());

async function waitForQuiet() {
  const listPids = () =>
    listBelow()
      .map(({ pid }) => pid)
      .sort()
      .join();
  const deadline = performance.now() + mostWaitMs;
  let before = listPids();
  let since = performance.now();
  while (performance.now() - since < quietMs && performance.now() < deadline) {
    await sleep(quietMs / 10);
    const now = listPids();
    if (now !== before) since = performance.now();
    before = now;
  }
}

function sumOf(processes) {
  const sizes = processes.map(proportionalBytes);
  return sizes.includes(undefined)
    ? undefined
    : sizes.reduce((sum, size) => sum + size, 0);
}

function medianOf(values) {
  const known = values.filter((value) => value !== undefined);
  return known.length === 0 ? undefined : quantile(known, 0.5);
}

// id of goals.js → bytes
function weigh({ keeper, launcher, zygotes, boxes }) {
  const ofKind = (kind) =>
    medianOf(
      boxes
        .filter((box) => box.kind === kind && box.init)
        .map(({ init, payloads }) => sumOf([init, ...payloads])),
    );
  return {
    helpers: sumOf([keeper, launcher]),
    zygote: medianOf(
      zygotes
        .filter(({ kind }) => kind === 'python')
        .map(({ process: one }) => proportionalBytes(one)),
    ),
    argv: ofKind('argv'),
    python: ofKind('python'),
    node: ofKind('node'),
  };
}

// A timer that runs out once - 30 s after a question to the launcher - is no
// poll: of two spells of idleness the quieter counts.
async function countIdle(state, idleMs) {
  const spells = [
    await countSpell(state, idleMs),
    await countSpell(state, idleMs),
  ];
  const totals = spells.map(total);
  return spells[totals[0] <= totals[1] ? 0 : 1];
}

function total(perSecond) {
  return Object.values(perSecond).reduce((sum, one) => sum + one, 0);
}

async function countSpell({ keeper, launcher, zygotes, boxes }, idleMs) {
  const as = (role) => (one) => ({ role, pid: one.pid });
  const processes = [
    ...[keeper].map(as('keeper')),
    ...[launcher].map(as('launcher')),
    ...zygotes.map(({ process: one }) => one).map(as('zygote')),
    ...boxes.flatMap(({ init }) => init ?? []).map(as('init')),
    ...boxes.flatMap(({ payloads }) => payloads).map(as('payload')),
  ];
  const before = countSwitches(processes);
  const start = performance.now();
  await sleep(idleMs);
  const seconds = (performance.now() - start) / 1000;
  const perSecond = {};
  for (const [role, count] of countSwitches(processes)) {
    perSecond[role] = (count - before.get(role)) / seconds;
  }
  return perSecond;
}

async function judgeIdle(what, state, idleMs) {
  const perSecond = await countIdle(state, idleMs);
  return {
    what,
    seconds: idleMs / 1000,
    perSecond,
    total: total(perSecond),
    most: idleGoal,
    verdict: judgeAtMost(total(perSecond), idleGoal),
  };
}

/** `{rows, idle}`, or `{skipped}` where /proc does not show it to this user. */
async function measureMemory({ session, idleMs }) {
  if (process.getuid() !== 0) {
    return { skipped: 'skipped: only root may look into the processes' };
  }
  // What waited for an earlier session of the same kind waits on for 30 s.
  const nodeWaited = tellApart(listBelow(), ours).boxes.some(
    ({ kind }) => kind === 'node',
  );
  return withSandbox(session, async (sandbox) => {
    await sandbox.run(['true']);
    await sandbox.runCode('print(1)');
    await waitForQuiet();
    const state = tellApart(listBelow(), ours);
    const before = weigh(state);
    // A first node call may leave something that waits, and wakes up.
    await sandbox.runCode('1', { language: 'node' });
    await waitForQuiet();
    const after = tellApart(listBelow(), ours);
    const idle = [await judgeIdle('a Sandbox open', after, idleMs)];
    const kernel = await sandbox.kernel();
    await kernel.runCode('1');
    await waitForQuiet();
    const withKernel = tellApart(listBelow(), ours);
    idle.push(await judgeIdle('a kernel between cells', withKernel, idleMs));
    await kernel.close();

    const bytes = { ...before, node: weigh(after).node };
    const rows = memoryGoals.map(({ id, what, most }) => {
      const mb = bytes[id] === undefined ? undefined : bytes[id] / 2 ** 20;
      return { what, mb: mb ?? null, most, verdict: judgeAtMost(mb, most) };
    });
    if (before.node !== undefined && !nodeWaited) {
      rows.at(-1).verdict = 'missed: it waits before a first node call';
    }
    return { rows, idle };
  });
}

module.exports = { measureMemory };
