// SPDX-License-Identifier: Apache-2.0
'use strict';

// `npm run bench`: what a box costs, beside what it is measured against, in one
// process tree. Prints a Markdown table, writes bench/results.json.
//   npm run bench -- --quick    a tenth of the runs, to see that it works
//   npm run bench -- --check    ends with status 1 where a goal is missed

const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const { parseArgs } = require('node:util');
const { runCode, withSandbox } = require('..');
const { bwrapArgv, compileTimer, timeCommand } = require('./lib/commands.js');
const { describeMachine } = require('./lib/machine.js');
const { summarize, takeRounds, timeFunction } = require('./lib/measure.js');
const streams = require('./lib/streams.js');
const { formatTrees, measureTrees } = require('./lib/trees.js');

const pauseMs = 50;
const burst = 100;

// Samples of each series in a round. A burst is a hundred calls by itself.
const counts = {
  full: { rounds: 10, paced: 6, backToBack: 20, ofBurst: 1, ofStreams: 5 },
  quick: { rounds: 2, paced: 3, backToBack: 10, ofBurst: 1, ofStreams: 2 },
};

const trees = {
  full: { sizes: [100, 10_000, 100_000], rounds: 5, samples: 2 },
  quick: { sizes: [100, 10_000], rounds: 1, samples: 2 },
};

const names = {
  floor: 'fork + exec of /usr/bin/true',
  bwrap: 'bwrap, all namespaces, true',
  python: "bare python3 -c 'print(1)'",
  run: 'run(["true"])',
  cell: 'runCode("print(1)")',
  oneShot: 'one-shot runCode("print(1)")',
  burst: `${burst} concurrent runCode("print(1)")`,
};

// name → [the name it is divided by, how many of those it stands for]
const denominators = {
  [names.run]: [names.bwrap, 1],
  [names.cell]: [names.python, 1],
  [names.oneShot]: [names.cell, 1],
  [names.burst]: [names.python, burst],
};

// The box knows best which interpreter it runs. The host image has it at the
// same path, and a python3 on PATH may be a shim that costs more than Python.
async function findPython(sandbox) {
  const { stdout } = await sandbox.runCode(
    'import os, platform\n' +
      'print(os.readlink("/proc/self/exe"), platform.python_version())',
  );
  const [executable, version] = stdout.trim().split(' ');
  return { executable, version };
}

function defineSeries(sandbox, python) {
  // A failed run is often a quick one.
  const printOne = async (result) =>
    assert.strictEqual((await result).stdout, '1\n');
  return [
    timeCommand(names.floor, ['/usr/bin/true']),
    timeCommand(names.bwrap, bwrapArgv(['/usr/bin/true'])),
    timeCommand(names.python, [python, '-c', 'print(1)']),
    timeFunction(names.run, async () => {
      const { exitCode, fault } = await sandbox.run(['true']);
      assert.deepStrictEqual({ exitCode, fault }, { exitCode: 0, fault: null });
    }),
    timeFunction(names.cell, () => printOne(sandbox.runCode('print(1)'))),
    timeFunction(names.oneShot, () => printOne(runCode('print(1)'))),
    timeFunction(names.burst, () =>
      Promise.all(
        Array.from({ length: burst }, () =>
          printOne(sandbox.runCode('print(1)')),
        ),
      ),
    ),
  ];
}

async function measure(series, { rounds, paced, backToBack, ofBurst }) {
  const progress = (mode) => (round) =>
    process.stderr.write(`${mode}: round ${round + 1} of ${rounds}\n`);
  const countOf = (count) => (one) =>
    one.name === names.burst ? ofBurst : count;

  // The first calls pay for what later ones find done: page cache, launcher.
  for (const one of series) await one.take(one.name === names.burst ? 1 : 3, 0);
  const samples = {
    paced: await takeRounds(series, {
      rounds,
      countOf: countOf(paced),
      pauseMs,
      onRound: progress('paced'),
    }),
    backToBack: await takeRounds(series, {
      rounds,
      countOf: countOf(backToBack),
      pauseMs: 0,
      onRound: progress('back to back'),
    }),
  };
  return samples;
}

function toRows(samples) {
  return Object.values(names).map((name) => {
    const row = { name };
    const [other, times] = denominators[name] ?? [];
    row.against = other ? `${times > 1 ? `${times} × ` : ''}${other}` : null;
    for (const [mode, byName] of Object.entries(samples)) {
      row[mode] = summarize(byName.get(name));
      row[mode].ratio = other
        ? row[mode].medianMs / summarize(byName.get(other)).medianMs / times
        : null;
    }
    return row;
  });
}

function formatTable(rows) {
  const cells = ({ n, medianMs, p95Ms, ratio }) => [
    `${medianMs.toFixed(2)} (${p95Ms.toFixed(2)}, ${n})`,
    ratio === null ? '' : ratio.toFixed(2),
  ];
  const head = [
    'work',
    `paced, ${pauseMs} ms apart: median (p95, n) in ms`,
    'ratio',
    'back to back: median (p95, n) in ms',
    'ratio',
    'ratio to',
  ];
  const lines = [head, head.map(() => '---')].concat(
    rows.map((row) => [
      `\`${row.name}\``,
      ...cells(row.paced),
      ...cells(row.backToBack),
      row.against ? `\`${row.against}\`` : '',
    ]),
  );
  return lines.map((line) => `| ${line.join(' | ')} |`).join('\n');
}

async function measureStreams(sandbox, rounds) {
  const samples = await takeRounds(streams.defineStreams(sandbox), {
    rounds,
    countOf: () => 1,
    pauseMs: 0,
    onRound: (round) =>
      process.stderr.write(`streams: round ${round + 1} of ${rounds}\n`),
  });
  return Object.values(streams.names).map((name) => {
    const against = streams.denominators[name] ?? null;
    const row = { name, against, ...summarize(samples.get(name)) };
    row.ratio = against
      ? row.medianMs / summarize(samples.get(against)).medianMs
      : null;
    return row;
  });
}

function formatStreams(rows) {
  const lines = [
    ['1 GiB', 'median (p95, n) in ms', 'MiB/s', 'ratio', 'ratio to'],
    ['---', '---', '---', '---', '---'],
    ...rows.map(({ name, n, medianMs, p95Ms, ratio, against }) => [
      `\`${name}\``,
      `${medianMs.toFixed(0)} (${p95Ms.toFixed(0)}, ${n})`,
      (1024 / (medianMs / 1000)).toFixed(0),
      ratio === null ? '' : ratio.toFixed(2),
      against ? `\`${against}\`` : '',
    ]),
  ];
  return lines.map((line) => `| ${line.join(' | ')} |`).join('\n');
}

// The later ones are added here.
function checkGoals(rows, streamRows) {
  const run = rows.find(({ name }) => name === names.run);
  const spawn = streamRows.find(({ name }) => name === streams.names.spawn);
  return [
    ...['paced', 'backToBack'].map((mode) => ({
      goal: `${names.run} faster than bwrap, ${mode}`,
      held: run[mode].ratio < 1,
    })),
    {
      goal: 'stdout of spawn() at least half as fast as a bare pipe',
      held: spawn.ratio <= 2,
    },
  ];
}

async function main() {
  const { values } = parseArgs({
    options: { quick: { type: 'boolean' }, check: { type: 'boolean' } },
  });
  await compileTimer();
  const report = await withSandbox(async (sandbox) => {
    const python = await findPython(sandbox);
    const series = defineSeries(sandbox, python.executable);
    const wanted = values.quick ? counts.quick : counts.full;
    const rows = toRows(await measure(series, wanted));
    const streamRows = await measureStreams(sandbox, wanted.ofStreams);
    return {
      machine: describeMachine({ python: python.version }),
      limits: sandbox.limits,
      rows,
      streams: streamRows,
      goals: checkGoals(rows, streamRows),
    };
  });

  report.trees = await measureTrees(values.quick ? trees.quick : trees.full);

  console.log(`${formatTable(report.rows)}\n`);
  console.log(formatTrees(report.trees));
  console.log(`\n${formatStreams(report.streams)}`);
  console.log(
    `\nMeasured on ${Object.entries(report.machine)
      .map(([key, value]) => `${key} ${value}`)
      .join(', ')}; limits ${JSON.stringify(report.limits)}.\n`,
  );
  for (const { goal, held } of report.goals) {
    console.log(`${held ? 'held  ' : 'MISSED'}  ${goal}`);
  }
  const file = path.join(__dirname, 'results.json');
  fs.writeFileSync(file, `${JSON.stringify(report, null, 2)}\n`);
  if (values.check && !report.goals.every(({ held }) => held)) {
    process.exitCode = 1;
  }
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
