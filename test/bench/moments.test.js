// SPDX-License-Identifier: Apache-2.0
'use strict';

const assert = require('node:assert/strict');
const { test } = require('node:test');
const {
  readKinds,
  readRing,
  splitCall,
  summarizeSteps,
} = require('../../bench/lib/moments.js');

const kinds = ['CALLED', 'TAKEN', 'STARTED'].map((name) => ({
  name,
  where: 'engine',
  what: name.toLowerCase(),
}));

function ringOf(capacity, moments) {
  const bytes = Buffer.alloc(16 + 16 * capacity);
  bytes.write('GBXM', 'latin1');
  bytes.writeUInt32LE(capacity, 4);
  bytes.writeBigUInt64LE(BigInt(moments.length), 8);
  for (const [index, { at, run, kind }] of moments.entries()) {
    const start = 16 + 16 * (index % capacity);
    bytes.writeBigUInt64LE(BigInt(at), start);
    bytes.writeUInt32LE(run, start + 8);
    bytes.writeUInt32LE(kind, start + 12);
  }
  return bytes;
}

const moments = [5, 6, 7].map((at) => ({ at, run: 1, kind: at - 5 }));

test('a ring gives its moments, of a full one the latest', () => {
  assert.deepEqual(readRing(ringOf(8, moments)), moments);
  assert.deepEqual(readRing(ringOf(2, moments)), moments.slice(1));
  assert.throws(() => readRing(Buffer.alloc(64)), /no ring of moments/);
});

test('the kinds of moments are read from the header, each with its words', () => {
  const all = readKinds();
  const names = all.map(({ name }) => name);
  assert.deepEqual(names.slice(0, 2), ['CALLED', 'TAKEN']);
  assert.equal(names.at(-1), 'CELL_CONCLUDED');
  assert.equal(new Set(names).size, names.length);
  assert.ok(all.every(({ where, what }) => where && what));
});

test('a call is split at its own moments, in the order of time', () => {
  const noted = [
    { at: 1_000_000, run: 1, kind: 0 }, // before it
    { at: 5_000_000, run: 2, kind: 1 },
    { at: 4_500_000, run: 2, kind: 2 }, // beside the others
    { at: 3_000_000, run: 2, kind: 0 },
    { at: 9_000_000, run: 3, kind: 0 }, // after it
  ];
  const call = { start: 2_000_000, end: 8_000_000 };
  assert.deepEqual(splitCall(call, noted, kinds), [
    { kind: 0, ms: 1 },
    { kind: 1, ms: 2 },
    { kind: null, ms: 3 },
  ]);
});

test('the means of the steps that all calls have add up to the whole', () => {
  const noted = [
    { at: 1_000_000, run: 1, kind: 0 },
    { at: 4_000_000, run: 1, kind: 1 },
    { at: 12_000_000, run: 2, kind: 0 },
    { at: 13_000_000, run: 2, kind: 1 },
  ];
  const calls = [
    { start: 0, end: 10_000_000 },
    { start: 10_000_000, end: 20_000_000 },
  ];
  const rows = summarizeSteps(calls, noted, kinds);
  const means = rows.map(({ meanMs }) => meanMs);
  assert.deepEqual(means, [1.5, 2, 6.5, 10]);
  assert.equal(rows.at(-1).what, 'all of it');
});
