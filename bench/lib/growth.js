// SPDX-License-Identifier: Apache-2.0
'use strict';

// How calls grow slower with boxes alive, and with memory that a zygote or a
// kernel holds. With files in the workspace: trees.js.

const assert = require('node:assert');
const { once } = require('node:events');
const os = require('node:os');
const { withSandbox } = require('../..');
const { summarize, timeFunction } = require('./measure.js');

const pauseMs = 50;
// Boxes that start at a time.
const startBatch = 20;

async function take(samples, call) {
  const { take: takeSamples } = timeFunction('', call);
  await call(); // a first one pays for what later ones find done
  return {
    paced: summarize(await takeSamples(samples, pauseMs)),
    backToBack: summarize(await takeSamples(samples, 0)),
  };
}

async function expectSuccess(result) {
  const { exitCode, fault } = await result;
  assert.deepStrictEqual({ exitCode, fault }, { exitCode: 0, fault: null });
}

/**
 * One row a number of boxes that are alive while `run(["true"])` and
 * `runCode("print(1)")` are measured: `{count, run, code}`.
 */
async function measureBoxes({ session, sizes, samples }) {
  const rows = [];
  await withSandbox(session, (sandbox) =>
    withSandbox(session, async (crowded) => {
      const alive = [];
      for (const count of sizes) {
        process.stderr.write(`${count} boxes alive\n`);
        while (alive.length < count) {
          const batch = Array.from(
            { length: Math.min(startBatch, count - alive.length) },
            () => crowded.spawn(['sleep', '1000000'], { timeoutS: 3600 }),
          );
          await Promise.all(batch.map((child) => once(child, 'spawn')));
          alive.push(...batch);
        }
        rows.push({
          count,
          run: await take(samples, () => expectSuccess(sandbox.run(['true']))),
          code: await take(samples, () =>
            expectSuccess(sandbox.runCode('print(1)')),
          ),
        });
      }
      assert.ok(alive.every(({ exitCode }) => exitCode === null));
    }),
  );
  return rows;
}

// So many megabytes in objects of a size that Python often has.
function fillCode(megabytes) {
  return `heap = [bytes(1000) for _ in range(${Math.round((megabytes * 2 ** 20) / 1033)})]`;
}

// A module that makes the heap when it is imported, in a box of a spec's: modules
// of the workspace are not preloaded.
async function measurePreloaded(session, megabytes, samples) {
  const plan = await withSandbox(session, (sandbox) => sandbox.plan());
  const folder = '/opt/bench';
  plan.spec.env.PYTHONPATH = folder;
  plan.spec.preload = ['bench_heap'];
  plan.spec.entries.push(
    { kind: 'dir', target: folder },
    {
      kind: 'file',
      target: `${folder}/bench_heap.py`,
      data: `${fillCode(megabytes)}\n`,
    },
  );
  return withSandbox({ spec: plan }, (sandbox) =>
    take(samples, () => expectSuccess(sandbox.runCode('import bench_heap'))),
  );
}

/**
 * One row a heap: `{megabytes, cell, preloaded}`, without those that would take
 * more than half of the memory that this machine has free.
 */
async function measureHeaps({ session, sizes, samples }) {
  const rows = [];
  const lifted = { ...session, memoryMb: null };
  for (const megabytes of sizes) {
    if (megabytes * 2 ** 20 > os.freemem() / 2) break;
    process.stderr.write(`${megabytes} MB of heap\n`);
    const row = { megabytes };
    await withSandbox(lifted, async (sandbox) => {
      const kernel = await sandbox.kernel();
      const { error } = await kernel.runCode(fillCode(megabytes));
      assert.strictEqual(error, null);
      row.cell = await take(samples, async () => {
        const { results } = await kernel.runCode('1+1');
        assert.strictEqual(results[0]?.text, '2');
      });
    });
    row.preloaded = await measurePreloaded(lifted, megabytes, samples);
    rows.push(row);
  }
  return rows;
}

module.exports = { measureBoxes, measureHeaps };
