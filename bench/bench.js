// SPDX-License-Identifier: Apache-2.0
'use strict';

// `npm run bench`: what a box costs, beside what it is measured against, in one
// process tree. Prints Markdown and every goal, writes bench/results.json.
//   npm run bench -- --quick        few runs, to see that it works
//   npm run bench -- --check        ends with status 1 where a goal is missed
//   npm run bench -- --write        puts it all into README.md and docs as well
//   npm run bench -- --rewrite      the same with the last results.json
//   npm run bench -- --python PATH  another interpreter than /usr/bin/python3

const { execFile } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { parseArgs, promisify } = require('node:util');
const { withSandbox } = require('..');
const {
  choosePython,
  defineCalls,
  findExecutables,
} = require('./lib/calls.js');
const { compileTimer } = require('./lib/commands.js');
const {
  isHeld,
  judgeSpeed,
  speedGoals,
  streamGoal,
} = require('./lib/goals.js');
const { measureBoxes, measureHeaps } = require('./lib/growth.js');
const { describeMachine } = require('./lib/machine.js');
const { summarize, takeRounds } = require('./lib/measure.js');
const { measureMemory } = require('./lib/memory.js');
const { formatReport, listGoals, writeReport } = require('./lib/report.js');
const streams = require('./lib/streams.js');
const { measureTrees } = require('./lib/trees.js');

const execFileAsync = promisify(execFile);
const resultsFile = path.join(__dirname, 'results.json');
const pauseMs = 50;

// Samples of each series in a round, by its weight and mode; sizes to grow to.
const plans = {
  full: {
    rounds: 10,
    paced: { light: 6, heavy: 2, burst: 1 },
    backToBack: { light: 20, heavy: 3, burst: 1 },
    streams: 11,
    trees: {
      sizes: [1, 10, 100, 1000, 10_000, 100_000],
      rounds: 3,
      samples: 3,
    },
    boxes: { sizes: [1, 10, 100, 300, 1000], samples: 30 },
    heaps: { sizes: [10, 30, 100, 300, 1000], samples: 30 },
    idleMs: 5000,
    profile: 200,
  },
  quick: {
    rounds: 2,
    paced: { light: 2, heavy: 1, burst: 1 },
    backToBack: { light: 5, heavy: 1, burst: 1 },
    streams: 1,
    trees: { sizes: [1, 100, 10_000], rounds: 1, samples: 2 },
    boxes: { sizes: [1, 10, 50], samples: 5 },
    heaps: { sizes: [10, 100], samples: 5 },
    idleMs: 2000,
    profile: 20,
  },
};

function say(text) {
  process.stderr.write(`${text}\n`);
}

async function measureCalls(session, plan) {
  return withSandbox(session, async (sandbox) => {
    const executables = await findExecutables(sandbox);
    const { series, missing, close } = await defineCalls(
      sandbox,
      session,
      executables,
    );
    // The first calls pay for what later ones find done: page cache, launcher.
    for (const one of series) await one.take(one.weight === 'light' ? 3 : 1, 0);
    const summaries = {};
    for (const [mode, pause] of [
      ['paced', pauseMs],
      ['backToBack', 0],
    ]) {
      const samples = await takeRounds(series, {
        rounds: plan.rounds,
        countOf: ({ weight }) => plan[mode][weight],
        pauseMs: pause,
        onRound: (round) => say(`${mode}: round ${round + 1}`),
      });
      summaries[mode] = new Map(
        [...samples].map(([name, list]) => [name, summarize(list)]),
      );
    }
    await close();
    const goalWorks = speedGoals.map(({ work }) => work);
    return {
      machine: describeMachine(executables),
      limits: sandbox.limits,
      floors: series
        .filter(({ name }) => !goalWorks.includes(name))
        .map(({ name }) => ({
          work: name,
          paced: summaries.paced.get(name),
          backToBack: summaries.backToBack.get(name),
        })),
      speed: speedGoals.map((goal) => judgeSpeed(goal, summaries, missing)),
      streams: await measureStreams(sandbox, plan.streams),
    };
  });
}

async function measureStreams(sandbox, rounds) {
  const samples = await takeRounds(streams.defineStreams(sandbox), {
    rounds,
    countOf: () => 1,
    pauseMs: 0,
    onRound: (round) => say(`streams: round ${round + 1}`),
  });
  return Object.values(streams.names).map((name) => {
    const against = streams.denominators[name] ?? null;
    const row = { name, against, ...summarize(samples.get(name)) };
    row.ratio = against
      ? row.medianMs / summarize(samples.get(against)).medianMs
      : null;
    if (name === streams.names.spawn) {
      row.most = streamGoal;
      row.verdict = row.ratio <= streamGoal ? 'held' : 'missed';
    }
    return row;
  });
}

// In a process of its own, where every moment is noted.
async function measureProfile(count, python) {
  say('profile');
  const { stdout } = await execFileAsync(process.execPath, [
    path.join(__dirname, 'profile.js'),
    '--json',
    `--count=${count}`,
    ...(python ? [`--python=${python}`] : []),
  ]);
  return JSON.parse(stdout);
}

async function measureAll({ quick, python: wanted }) {
  const plan = quick ? plans.quick : plans.full;
  const python = choosePython(wanted);
  const session = python ? { runtimes: { python } } : {};
  await compileTimer();
  const report = { quick: Boolean(quick) };
  Object.assign(report, await measureCalls(session, plan));
  say('memory and wake-ups');
  report.memory = await measureMemory({ session, idleMs: plan.idleMs });
  report.profile = await measureProfile(plan.profile, python);
  report.trees = await measureTrees(plan.trees);
  report.boxes = await measureBoxes({ session, ...plan.boxes });
  report.heaps = await measureHeaps({ session, ...plan.heaps });
  fs.writeFileSync(resultsFile, `${JSON.stringify(report, null, 2)}\n`);
  return report;
}

async function main() {
  const { values } = parseArgs({
    options: {
      quick: { type: 'boolean' },
      check: { type: 'boolean' },
      write: { type: 'boolean' },
      rewrite: { type: 'boolean' },
      python: { type: 'string' },
    },
  });
  const report = values.rewrite
    ? JSON.parse(fs.readFileSync(resultsFile, 'utf8'))
    : await measureAll(values);
  console.log(formatReport(report));
  if (values.write || values.rewrite) {
    writeReport(path.join(__dirname, '..'), report);
  }
  const missed = listGoals(report).filter(({ verdict }) => !isHeld(verdict));
  if (values.check && missed.length > 0) process.exitCode = 1;
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
