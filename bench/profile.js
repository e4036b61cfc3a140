// SPDX-License-Identifier: Apache-2.0
'use strict';

// Where the time of a call goes, step by step: `node bench/profile.js` prints
// it as Markdown, with --json as that. In a process of its own, as noting the
// moments costs the calls a little.
//   --count N     calls of each kind (200)
//   --python PATH the interpreter

const assert = require('node:assert');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');
const { parseArgs } = require('node:util');
const { choosePython } = require('./lib/calls.js');
const { readKinds, readRing, summarizeSteps } = require('./lib/moments.js');
const { formatProfile } = require('./lib/tables.js');

const pauseMs = 50;
const warmUps = 20;

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
  const { withSandbox } = require('..');
  const kinds = readKinds();
  const session = python ? { runtimes: { python } } : {};
  return withSandbox(session, async (sandbox) => {
    const kernel = await sandbox.kernel();
    const works = {
      'run(["true"])': async () => {
        const { exitCode } = await sandbox.run(['true']);
        assert.strictEqual(exitCode, 0);
      },
      'kernel cell 1+1': async () => {
        const { results } = await kernel.runCode('1+1');
        assert.strictEqual(results[0]?.text, '2');
      },
    };
    const profiles = [];
    for (const [work, call] of Object.entries(works)) {
      await takeCalls(warmUps, 0, call);
      for (const [mode, pause] of [
        ['paced', pauseMs],
        ['backToBack', 0],
      ]) {
        const calls = await takeCalls(count, pause, call);
        const moments = readRing(fs.readFileSync(ring));
        const steps = summarizeSteps(calls, moments, kinds);
        profiles.push({ work, mode, steps });
      }
    }
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
