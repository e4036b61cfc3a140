// SPDX-License-Identifier: Apache-2.0
'use strict';

// Every goal, and what it means to hold it. Nothing here is ever loosened: a
// goal that is not met is printed as missed.

const burst = 100;

// What is measured, by the name that tables give it.
const works = {
  true: 'fork + exec of /usr/bin/true',
  bwrap: 'bwrap, all namespaces, true',
  python: "bare python3 -c 'print(1)'",
  node: 'bare node -e 1',
  pandas: "bare python3 -c 'import numpy, pandas'",
  run: 'run(["true"])',
  code: 'runCode("print(1)")',
  oneShot: 'one-shot runCode("print(1)")',
  burst: `${burst} concurrent runCode("print(1)")`,
  nodeCode: 'runCode("1+1", {language: "node"})',
  cell: 'kernel cell 1+1',
  preload: 'runCode("import numpy, pandas"), preloaded',
};

// `work` takes at most this share of `times` × `against`, with 50 ms between
// the calls and back to back; both must hold.
const speedGoals = [
  { work: works.run, against: works.bwrap, paced: 1 / 4, backToBack: 1 / 2.5 },
  { work: works.code, against: works.python, paced: 1 / 8, backToBack: 1 / 4 },
  { work: works.oneShot, against: works.code, paced: 1.5, backToBack: 1.5 },
  {
    work: works.burst,
    against: works.python,
    times: burst,
    paced: 0.15,
    backToBack: 0.15,
  },
  {
    work: works.nodeCode,
    against: works.node,
    paced: 1 / 8,
    backToBack: 1 / 8,
  },
  {
    work: works.cell,
    against: works.python,
    paced: 1 / 70,
    backToBack: 1 / 70,
  },
  {
    work: works.preload,
    against: works.pandas,
    paced: 1 / 40,
    backToBack: 1 / 40,
  },
];

// 1 GiB of stdout through spawn(): at most this many times a bare pipe's time.
const streamGoal = 2;

// Proportional set size, in MB. Without `most` it is only told.
const memoryGoals = [
  { id: 'helpers', what: 'keeper and launcher', most: 2 },
  { id: 'zygote', what: 'python zygote', most: 20 },
  { id: 'argv', what: 'a ready argv box', most: 0.5 },
  { id: 'python', what: 'a ready python box', most: 3 },
  { id: 'node', what: 'a ready node box, after a first node call' },
];

// Context switches a second of all that is ours, while nothing runs.
const idleGoal = 0;

const modes = ['paced', 'backToBack'];

/** What a verdict means for the whole: only these two are no failure. */
function isHeld(verdict) {
  return verdict === 'held' || verdict.startsWith('skipped');
}

/**
 * One row of the table of speed goals. `summaries` maps a mode to a Map of work
 * → `{n, medianMs, p95Ms}`; `missing` maps a work to why it was not measured:
 * "not built" is a goal that is missed, "skipped: ..." says nothing of it.
 */
function judgeSpeed(goal, summaries, missing) {
  const { work, against, times = 1 } = goal;
  const reason = missing.get(work) ?? missing.get(against);
  const row = { work, against, times, verdict: reason ?? 'held' };
  for (const mode of modes) {
    const most = goal[mode];
    const own = summaries[mode].get(work);
    const other = summaries[mode].get(against);
    const ratio = own && other ? own.medianMs / other.medianMs / times : null;
    row[mode] = { ...own, ratio, most, held: ratio !== null && ratio <= most };
    if (!reason && !row[mode].held) row.verdict = 'missed';
  }
  return row;
}

/** `value` of undefined: there is no such thing yet. */
function judgeAtMost(value, most) {
  if (value === undefined) return 'not built';
  if (most === undefined) return 'held';
  return value <= most ? 'held' : 'missed';
}

module.exports = {
  burst,
  idleGoal,
  isHeld,
  judgeAtMost,
  judgeSpeed,
  memoryGoals,
  speedGoals,
  streamGoal,
  works,
};
