// SPDX-License-Identifier: Apache-2.0
'use strict';

// How often the threads of this process wake up, but for the one that counts.

const fs = require('node:fs');
const { eventually } = require('./harness.js');

function count() {
  let sum = 0;
  for (const id of fs.readdirSync('/proc/self/task')) {
    if (Number(id) === process.pid) continue;
    const status = fs.readFileSync(`/proc/self/task/${id}/status`, 'utf8');
    sum += Number(/^voluntary_ctxt_switches:\t(\d+)$/m.exec(status)[1]);
  }
  return sum;
}

async function inOneSecond() {
  const before = count();
  await new Promise((resolve) => setTimeout(resolve, 1000));
  return count() - before;
}

// The interpreter's own threads wake up now and then; ten glances at a disk would
// show.
const few = 5;

/** Waits until there is a second in which nothing of ours wakes up. */
async function awaitQuiet() {
  await eventually(
    async () => (await inOneSecond()) < few,
    'something wakes up',
    20_000,
  );
}

module.exports = { awaitQuiet };
