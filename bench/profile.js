// SPDX-License-Identifier: Apache-2.0
'use strict';

// Where the time of a call goes, step by step: `node bench/profile.js` prints
// it as Markdown, with --json as that. In a process of its own, as noting the
// moments costs the calls a little.
//   --count N     calls of each kind (200; of those that take long a fifth)
//   --python PATH the interpreter

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');
const { parseArgs } = require('node:util');
const { withSandbox } = require('..');
const {
  choosePython,
  defineCalls,
  findExecutables,
} = require('./lib/calls.js');
const { readKinds, readRing, summarizeSteps } = require('./lib/moments.js');
const { formatProfile } = require('./lib/tables.js');

const pauseMs = 50;
const warmUps = 20;
// Of the calls of those that take long.
const heavyShare = 0.2;

async function takeCalls(count, pause, call) {
  const calls = [];
  for (let i = 0; i < count; i += 1) {
    if (pause > 0) await sleep(pause);
    const start = Number(process.hrtime.bigint());
    await call();
    calls.push({ start, end: Number(process.hrtime.bigint()) });
  }
  return calls;
}

async function measure(count, python, ring) {
  const kinds = readKinds();
  const session = python ? { runtimes: { python } } : {};
  return withSandbox(session, async (sandbox) => {
    const executables = await findExecutables(sandbox);
    const { series, close } = await defineCalls(sandbox, session, executables);
    const profiles = [];
    for (const { name, weight, call } of series) {
      // Of what is measured against there are no moments, and a burst's calls
      // cannot be told apart.
      if (!call || weight === 'burst') continue;
      const share = weight === 'heavy' ? heavyShare : 1;
      await takeCalls(Math.ceil(warmUps * share), 0, call);
      for (const [mode, pause] of [
        ['paced', pauseMs],
        ['backToBack', 0],
      ]) {
        const calls = await takeCalls(Math.ceil(count * share), pause, call);
        const moments = readRing(fs.readFileSync(ring));
        const steps = summarizeSteps(calls, moments, kinds);
        profiles.push({ work: name, mode, steps });
      }
    }
    await close();
    return profiles;
  });
}

async function main() {
  const { values } = parseArgs({
    options: {
      count: { type: 'string', default: '200' },
      json: { type: 'boolean' },
      python: { type: 'string' },
    },
  });
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'bench-profile-'));
  const ring = path.join(folder, 'moments');
  process.env.GLOVEBOX_PROFILE = ring;
  try {
    const python = choosePython(values.python);
    const profiles = await measure(Number(values.count), python, ring);
    console.log(
      values.json ? JSON.stringify(profiles) : formatProfile(profiles),
    );
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
