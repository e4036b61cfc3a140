// SPDX-License-Identifier: Apache-2.0
'use strict';

// Taking samples, and what to say about them. A series is
//   { name, take(count, pauseMs) → Promise<number[]> }   in milliseconds
// where pauseMs is the rest before each call.

const { setTimeout: sleep } = require('node:timers/promises');

// A series that times an async function of ours, as its caller sees it. It has
// the function as `call` too.
function timeFunction(name, call) {
  async function take(count, pauseMs) {
    const samples = [];
    for (let i = 0; i < count; i += 1) {
      if (pauseMs > 0) await sleep(pauseMs);
      const start = performance.now();
      await call();
      samples.push(performance.now() - start);
    }
    return samples;
  }
  return { name, take, call };
}

// Goes through all series in each round, so that a machine that slows down or
// warms up meanwhile does so for all of them alike.
async function takeRounds(series, { rounds, countOf, pauseMs, onRound }) {
  const samples = new Map(series.map(({ name }) => [name, []]));
  for (let round = 0; round < rounds; round += 1) {
    onRound(round);
    for (const one of series) {
      samples.get(one.name).push(...(await one.take(countOf(one), pauseMs)));
    }
  }
  return samples;
}

// The smallest sample that at least this share of all samples do not exceed.
function quantile(samples, share) {
  const sorted = samples.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)];
}

function summarize(samples) {
  return {
    n: samples.length,
    medianMs: quantile(samples, 0.5),
    p95Ms: quantile(samples, 0.95),
  };
}

module.exports = { quantile, summarize, takeRounds, timeFunction };
