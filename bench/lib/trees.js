// SPDX-License-Identifier: Apache-2.0
'use strict';

// What files in the workspace cost: calls with and without a look at what they
// changed, and lists, by the number of files there.

const assert = require('node:assert');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { withSandbox } = require('../..');
const { summarize, takeRounds, timeFunction } = require('./measure.js');
const { table } = require('./tables.js');

const filesInFolder = 100;

const names = {
  untracked: 'run(["true"]), trackFiles: false',
  tracked: 'run(["true"])',
  touched: 'run(["touch", FILE])',
  list: 'listFiles()',
  snapshot: 'snapshot()',
};

function makeTree(workspace, count) {
  for (let i = 0; i < count; i += 1) {
    const folder = path.join(workspace, `d${Math.floor(i / filesInFolder)}`);
    if (i % filesInFolder === 0) fs.mkdirSync(folder);
    fs.writeFileSync(path.join(folder, `f${i}`), 'x');
  }
}

function defineSeries(tracked, untracked, archive) {
  const run = async (sandbox, argv, changed) => {
    const { exitCode, files } = await sandbox.run(argv);
    assert.deepStrictEqual([exitCode, files.length], [0, changed]);
  };
  return [
    timeFunction(names.untracked, () => run(untracked, ['true'], 0)),
    timeFunction(names.tracked, () => run(tracked, ['true'], 0)),
    timeFunction(names.touched, () => run(tracked, ['touch', 'd0/f0'], 1)),
    timeFunction(names.list, () => tracked.listFiles()),
    timeFunction(names.snapshot, () => tracked.snapshot(archive)),
  ];
}

/** One row a tree size, `{count, [name]: {n, medianMs, p95Ms}}`. */
async function measureTrees({ sizes, rounds, samples }) {
  const rows = [];
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'bench-trees-'));
  try {
    for (const count of sizes) {
      process.stderr.write(`${count} files\n`);
      const workspace = path.join(folder, String(count));
      fs.mkdirSync(workspace);
      makeTree(workspace, count);
      const row = { count };
      await withSandbox({ workspace }, (tracked) =>
        withSandbox({ workspace, trackFiles: false }, async (untracked) => {
          const archive = path.join(folder, 'archive.tar.gz');
          const series = defineSeries(tracked, untracked, archive);
          for (const one of series) await one.take(1, 0);
          const taken = await takeRounds(series, {
            rounds,
            countOf: ({ name }) => (name === names.snapshot ? 1 : samples),
            pauseMs: 0,
            onRound: () => {},
          });
          for (const [name, list] of taken) row[name] = summarize(list);
        }),
      );
      rows.push(row);
    }
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
  return rows;
}

function formatTrees(rows) {
  const columns = Object.values(names);
  const head = [
    'files: median (p95, n) in ms',
    ...columns.map((name) => `\`${name}\``),
  ];
  return table(
    head,
    rows.map((row) => [
      String(row.count),
      ...columns.map((name) => {
        const { n, medianMs, p95Ms } = row[name];
        return `${medianMs.toFixed(1)} (${p95Ms.toFixed(1)}, ${n})`;
      }),
    ]),
  );
}

module.exports = { formatTrees, measureTrees, names };
