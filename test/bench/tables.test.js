// SPDX-License-Identifier: Apache-2.0
'use strict';

const assert = require('node:assert/strict');
const { test } = require('node:test');
const {
  formatMemory,
  formatProfile,
  formatSpeed,
  number,
  table,
} = require('../../bench/lib/tables.js');

const cellsOf = (line) => line.split('|').map((cell) => cell.trim());

test('a table has as many cells in each line', () => {
  assert.equal(
    table(['a', 'b'], [[1, 2]]),
    '| a | b |\n| --- | --- |\n| 1 | 2 |',
  );
});

test('numbers have three figures', () => {
  const told = [0, 0.012345, 1.005, 12.345, 123.4, 12345.6].map(number);
  assert.deepEqual(told, ['0', '0.0123', '1', '12.3', '123', '12346']);
});

test('a speed goal is told with both ratios, its limits and the verdict', () => {
  const row = {
    work: 'ours',
    against: 'theirs',
    times: 100,
    verdict: 'missed',
  };
  const mode = { n: 3, medianMs: 1.5, p95Ms: 2, most: 0.125, held: false };
  const lines = formatSpeed([
    {
      ...row,
      paced: { ...mode, ratio: 0.2 },
      backToBack: { ...mode, ratio: 0.1, most: 0.25 },
    },
    {
      ...row,
      paced: { ratio: null, most: 1 / 40 },
      backToBack: { ratio: null, most: 1 / 40 },
      verdict: 'not built',
    },
  ]).split('\n');
  assert.deepEqual(cellsOf(lines[2]).slice(1, -1), [
    ...['`ours`', '1.5 (2, 3)', '0.2', '≤ 0.125 (1/8)'],
    ...['1.5 (2, 3)', '0.1', '≤ 0.25', '100 × `theirs`', '**missed**'],
  ]);
  assert.deepEqual(cellsOf(lines[3]).slice(2, 5), ['', '', '≤ 0.025 (1/40)']);
  assert.equal(cellsOf(lines[3]).at(-2), '**not built**');
});

test('memory that may not be read is skipped by name', () => {
  assert.equal(formatMemory({ skipped: 'skipped: why' }), 'skipped: why');
});

test('a step has its share of all of it, also where not every call has it', () => {
  const step = {
    where: 'engine',
    what: 'one',
    n: 1,
    meanMs: 0.5,
    medianMs: 0.5,
    p95Ms: 0.5,
  };
  const whole = {
    where: '',
    what: 'all of it',
    n: 2,
    meanMs: 1,
    medianMs: 1,
    p95Ms: 1,
  };
  const text = formatProfile([
    { work: 'x', mode: 'paced', steps: [step, whole] },
  ]);
  assert.match(text, /\| engine \| one \| 500 \| 500 \| 500 \| 1 \| 25 % \|/);
  assert.match(text, /\| all of it \| 1000 .* 100 % \|/);
});

test('each spell of idleness is told with its wake-ups and the verdict', () => {
  const idle = {
    what: 'asleep',
    seconds: 5,
    perSecond: { keeper: 0, engine: 2 },
  };
  const text = formatMemory({
    rows: [{ what: 'a box', mb: 0.25, most: 0.5, verdict: 'held' }],
    idle: [{ ...idle, total: 2, most: 0, verdict: 'missed' }],
  });
  assert.match(text, /\| a box \| 0.25 \| ≤ 0.5 \| held \|/);
  assert.match(
    text,
    /\| asleep, for 5 s \| keeper 0, engine 2 \| 2 \| ≤ 0 \| \*\*missed\*\* \|/,
  );
});
