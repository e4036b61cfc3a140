// SPDX-License-Identifier: Apache-2.0
'use strict';

// The moments of calls, as src/common/moments.h has them, and the steps between
// them.

const fs = require('node:fs');
const path = require('node:path');
const { quantile } = require('./measure.js');

const header = path.join(__dirname, '../../src/common/moments.h');
const headSize = 16;
const slotSize = 16;
const magic = 'GBXM';

// Noted while other steps go on.
const beside = new Set(['STARTED']);

/** `{name, where, what}` of each kind of moment, by its number. */
function readKinds(text = fs.readFileSync(header, 'utf8')) {
  const pattern = /^ {2}X\((\w+),\s*"([^"]*)",[\s\\]*"([^"]*)"\)/gm;
  return [...text.matchAll(pattern)].map(([, name, where, what]) => ({
    name,
    where,
    what,
  }));
}

/** `{at, run, kind}` of each moment in a ring's bytes, oldest first. */
function readRing(bytes) {
  if (bytes.toString('latin1', 0, 4) !== magic) {
    throw new Error('this is no ring of moments');
  }
  const capacity = bytes.readUInt32LE(4);
  const count = Number(bytes.readBigUInt64LE(8));
  const moments = [];
  for (let i = Math.max(0, count - capacity); i < count; i += 1) {
    const start = headSize + (i % capacity) * slotSize;
    moments.push({
      at: Number(bytes.readBigUInt64LE(start)),
      run: bytes.readUInt32LE(start + 8),
      kind: bytes.readUInt32LE(start + 12),
    });
  }
  return moments;
}

/**
 * The steps of one call, `{kind, ms}` in the order of time: what each took since
 * the one before it, the first since the call began. The last, `kind` null, is
 * from the last moment to where JavaScript had the result.
 */
function splitCall({ start, end }, moments, kinds) {
  const own = moments
    .filter(({ at, kind }) => at >= start && at <= end && kinds[kind])
    .filter(({ kind }) => !beside.has(kinds[kind].name))
    .sort((a, b) => a.at - b.at);
  const steps = [];
  let last = start;
  for (const { at, kind } of own) {
    steps.push({ kind, ms: (at - last) / 1e6 });
    last = at;
  }
  steps.push({ kind: null, ms: (end - last) / 1e6 });
  return steps;
}

/** One row a step: `{where, what, n, meanMs, medianMs, p95Ms}`. */
function summarizeSteps(calls, moments, kinds) {
  const samples = new Map();
  for (const call of calls) {
    for (const { kind, ms } of splitCall(call, moments, kinds)) {
      if (!samples.has(kind)) samples.set(kind, []);
      samples.get(kind).push(ms);
    }
  }
  const order = [...samples.keys()].sort(
    (a, b) => (a ?? kinds.length) - (b ?? kinds.length),
  );
  const rows = order.map((kind) => ({
    ...(kind === null
      ? { where: 'JavaScript', what: 'woken, result read' }
      : { where: kinds[kind].where, what: kinds[kind].what }),
    ...describe(samples.get(kind)),
  }));
  const whole = calls.map(({ start, end }) => (end - start) / 1e6);
  rows.push({ where: '', what: 'all of it', ...describe(whole) });
  return rows;
}

function describe(samples) {
  return {
    n: samples.length,
    meanMs: samples.reduce((sum, one) => sum + one, 0) / samples.length,
    medianMs: quantile(samples, 0.5),
    p95Ms: quantile(samples, 0.95),
  };
}

module.exports = { readKinds, readRing, splitCall, summarizeSteps };
