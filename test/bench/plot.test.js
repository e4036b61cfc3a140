// SPDX-License-Identifier: Apache-2.0
'use strict';

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { makeAxis, niceStep, plot } = require('../../bench/lib/plot.js');

test('a logarithmic axis has whole powers of ten around its values', () => {
  const axis = makeAxis([3, 100_000], true);
  assert.deepEqual(axis.ticks, [1, 10, 100, 1000, 10_000, 100_000]);
  assert.equal(axis.place(1), 0);
  assert.equal(axis.place(100_000), 1);
  assert.deepEqual(makeAxis([0.25, 0.5], true).ticks, [0.1, 1]);
  assert.deepEqual(makeAxis([10], true).ticks, [10, 100]);
});

test('a linear axis begins at 0 and ends at a round number', () => {
  const axis = makeAxis([3.2, 8.7], false);
  assert.deepEqual(axis.ticks, [0, 2, 4, 6, 8, 10]);
  assert.equal(axis.place(5), 0.5);
  assert.deepEqual(makeAxis([10], false).ticks, [0, 2, 4, 6, 8, 10]);
  assert.ok(makeAxis([0], false).ticks.length > 1);
});

test('steps are 1, 2 or 5 times a power of ten', () => {
  const steps = [0.7, 1, 4, 9, 23, 1000].map((span) => niceStep(span, 5));
  assert.deepEqual(steps, [0.2, 0.2, 1, 2, 5, 200]);
});

test('a plot places its points and escapes its text', () => {
  const svg = plot({
    title: 'a < b & "c"',
    x: { label: 'files', log: true },
    y: { label: 'ms' },
    series: [
      {
        name: 'one',
        points: [
          [1, 0],
          [100, 10],
        ],
      },
      { name: 'two', points: [[10, 5]] },
    ],
  });
  assert.match(svg, /^<svg xmlns=/);
  assert.match(svg, />a &lt; b &amp; &quot;c&quot;</);
  // From the lower left corner to the upper right one, and the middle.
  assert.match(
    svg,
    /<path class="line" stroke="#[0-9a-f]{6}" d="M72 344L696 56"\/>/,
  );
  assert.match(svg, /<circle cx="384" cy="200" r="3.5"/);
  assert.match(svg, />one<.*>two</s);
  assert.doesNotMatch(svg, /NaN|undefined|Infinity/);
  assert.match(svg, /prefers-color-scheme: dark/);
});
