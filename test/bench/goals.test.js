// SPDX-License-Identifier: Apache-2.0
'use strict';

const assert = require('node:assert/strict');
const { test } = require('node:test');
const {
  isHeld,
  judgeAtMost,
  judgeSpeed,
  memoryGoals,
  speedGoals,
  works,
} = require('../../bench/lib/goals.js');

const goal = {
  work: 'ours',
  against: 'theirs',
  paced: 1 / 4,
  backToBack: 1 / 2,
};

function judge(medians, { missing = [], times } = {}) {
  const summaryOf = (mode) =>
    new Map(
      Object.entries(medians).map(([work, values]) => [
        work,
        { n: 1, medianMs: values[mode], p95Ms: values[mode] },
      ]),
    );
  const summaries = {
    paced: summaryOf('paced'),
    backToBack: summaryOf('backToBack'),
  };
  return judgeSpeed({ ...goal, times }, summaries, new Map(missing));
}

const theirs = { paced: 8, backToBack: 4 };

test('a goal is held where both ratios are at most what it says', () => {
  const row = judge({ ours: { paced: 2, backToBack: 2 }, theirs });
  assert.equal(row.verdict, 'held');
  assert.equal(row.paced.ratio, 0.25);
  assert.equal(row.backToBack.ratio, 0.5);
});

test('a goal is missed where one of both ratios is above it', () => {
  const paced = judge({ ours: { paced: 2.01, backToBack: 1 }, theirs });
  const backToBack = judge({ ours: { paced: 1, backToBack: 2.01 }, theirs });
  assert.deepEqual([paced.verdict, backToBack.verdict], ['missed', 'missed']);
});

test('a goal against many of something divides by as many', () => {
  const row = judge(
    { ours: { paced: 40, backToBack: 40 }, theirs },
    { times: 20 },
  );
  assert.equal(row.paced.ratio, 0.25);
  assert.equal(row.verdict, 'held');
});

test('what is not built is no goal held, what is skipped no goal missed', () => {
  const unbuilt = judge({ theirs }, { missing: [['ours', 'not built']] });
  assert.equal(unbuilt.verdict, 'not built');
  assert.equal(isHeld(unbuilt.verdict), false);
  const skipped = judge(
    { ours: { paced: 2, backToBack: 2 } },
    { missing: [['theirs', 'skipped: not installed']] },
  );
  assert.equal(skipped.paced.ratio, null);
  assert.equal(isHeld(skipped.verdict), true);
});

test('what was forgotten to measure is missed', () => {
  assert.equal(judge({ theirs }).verdict, 'missed');
});

test('a size is held up to its limit, and missing is not small', () => {
  assert.equal(judgeAtMost(2, 2), 'held');
  assert.equal(judgeAtMost(2.1, 2), 'missed');
  assert.equal(judgeAtMost(0, 0), 'held');
  assert.equal(judgeAtMost(undefined, 2), 'not built');
});

test('the goals are those that were promised', () => {
  const told = speedGoals.map(({ work, against, times, paced, backToBack }) => [
    work,
    against,
    times ?? 1,
    paced,
    backToBack,
  ]);
  assert.deepEqual(told, [
    [works.run, works.bwrap, 1, 1 / 4, 1 / 2.5],
    [works.code, works.python, 1, 1 / 8, 1 / 4],
    [works.oneShot, works.code, 1, 1.5, 1.5],
    [works.burst, works.python, 100, 0.15, 0.15],
    [works.nodeCode, works.node, 1, 1 / 8, 1 / 8],
    [works.cell, works.python, 1, 1 / 70, 1 / 70],
    [works.preload, works.pandas, 1, 1 / 40, 1 / 40],
  ]);
  assert.deepEqual(
    memoryGoals.map(({ id, most }) => [id, most]),
    [
      ['helpers', 2],
      ['zygote', 20],
      ['argv', 0.5],
      ['python', 3],
      ['node', undefined],
    ],
  );
});
