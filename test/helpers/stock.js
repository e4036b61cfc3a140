// SPDX-License-Identifier: Apache-2.0
'use strict';

// What this process, its keeper and its launcher have, so that tests can tell
// what calls leave behind.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const {
  descendants,
  eventually,
  leaves,
  placesOfMounts,
} = require('./harness.js');

/** This process' keeper, launcher and inits of boxes, by pid. */
function helpers() {
  const all = descendants();
  const childrenOf = (parents) =>
    all.filter(({ ppid }) => parents.includes(ppid)).map(({ pid }) => pid);
  const keepers = childrenOf([process.pid]);
  const launchers = childrenOf(keepers);
  const inits = childrenOf(launchers);
  return { node: [process.pid], keepers, launchers, inits };
}

function countDescriptors(pid) {
  try {
    return fs.readdirSync(`/proc/${pid}/fd`).length;
  } catch (error) {
    // init of a box does not show them: its children cannot see them either.
    if (error.code === 'EACCES' || error.code === 'ENOENT') return 0;
    throw error;
  }
}

function residentMib(pid) {
  const status = fs.readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)[1]) / 1024;
}

/** Whatever could grow from call to call, here and in the helpers. */
function takeStock() {
  const { keepers, launchers, inits } = helpers();
  assert.equal(keepers.length, 1);
  assert.equal(launchers.length, 1);
  const count = (folder) => fs.readdirSync(folder).length;
  const all = descendants();
  const namespaces = new Set();
  for (const { pid } of all) {
    for (const kind of ['net', 'mnt', 'pid', 'user']) {
      try {
        namespaces.add(fs.readlinkSync(`/proc/${pid}/ns/${kind}`));
      } catch {
        // It ended meanwhile, or is an init that nobody looks into.
      }
    }
  }
  const ofHelper = (name, [pid]) => ({
    [`descriptors of the ${name}`]: countDescriptors(pid),
    [`mounts of the ${name}`]: placesOfMounts(pid).length,
    [`MiB of the ${name}`]: residentMib(pid),
  });
  return {
    descriptors: countDescriptors(process.pid),
    threads: count('/proc/self/task'),
    mounts: placesOfMounts().length,
    processes: all.length,
    zombies: all.filter(({ state }) => state === 'Z').length,
    boxes: inits.length,
    leaves: leaves().length,
    namespaces: namespaces.size,
    folders: count(os.tmpdir()),
    MiB: residentMib(process.pid),
    ...ofHelper('keeper', keepers),
    ...ofHelper('launcher', launchers),
  };
}

// What comes and goes by itself: ready boxes, of which there are six more where
// calls have outrun them, and threads of Node.
const slack = {
  processes: 20,
  boxes: 8,
  leaves: 8,
  namespaces: 40,
  threads: 4,
};
slack['descriptors of the launcher'] = 70;
// The keeper has a leaf open for the next box.
const descriptorsOfLeaf = 10;
slack['descriptors of the keeper'] = slack.leaves * descriptorsOfLeaf;
slack.descriptors = 2;
// A sanitizer keeps what was freed.
slack.MiB = /asan/.test(process.env.LD_PRELOAD) ? 1024 : 10;
slack['MiB of the keeper'] = slack['MiB of the launcher'] = 1;

/**
 * Waits until nothing of takeStock() is above `before` by more than `allowed`:
 * boxes are freed after their calls, off their path.
 */
async function eventuallyAsBefore(t, before, allowed = slack) {
  let after;
  const grown = () =>
    Object.keys(before).filter(
      (name) => after[name] > before[name] + (allowed[name] ?? 0),
    );
  await eventually(
    () => {
      after = takeStock();
      return grown().length === 0;
    },
    () => `${grown()} grew: ${JSON.stringify(before)} ${JSON.stringify(after)}`,
    10000,
  );
  t.diagnostic(`${JSON.stringify(before)} -> ${JSON.stringify(after)}`);
}

module.exports = {
  countDescriptors,
  descriptorsOfLeaf,
  eventuallyAsBefore,
  helpers,
  residentMib,
  slack,
  takeStock,
};
