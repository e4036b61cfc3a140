// SPDX-License-Identifier: Apache-2.0
'use strict';

// Runs tests in the machine that most users have and CI is not: systemd, cgroup
// v2, a plain user, an older kernel. qemu emulates it, so it needs no rights and
// no hardware, and takes minutes.
//   npm run test:vm -- [SCENARIO...] [FILE.js...]
//
// Words are parts of names of scenarios (see scenarios.js); files are run in
// these in place of their own. Making the machine's disk takes root, once.
//
//   npm run test:vm:arm64 -- [SCENARIO...] [FILE.js...]
//
// does the same in a machine of arm64, with scenarios of its own. No CI runs it:
// where nothing helps the emulator it is some hundred times as slow as a processor,
// so all of it takes hours. The disk takes five minutes of the host's processor,
// booting one and a half. Choose scenarios and files.
//
// The tests that are printed ran in the machine: each one here waits for a
// report from there. Times are an emulated processor's.

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { architectures } = require('./architectures.js');
const { crossBuild } = require('./cross-build.js');
const { makeCheckoutDisk, prepareRootDisk } = require('./image.js');
const { Machine } = require('./machine.js');
const { chooseScenarios } = require('./scenarios.js');

// It must fail by itself, not run into the time limit of a CI.
const timeoutsS = { x64: 2400, arm64: 6 * 3600 };

const root = path.join(__dirname, '..', '..');
const [architecture, ...words] = process.argv.slice(2);
if (!Object.hasOwn(architectures, architecture)) {
  console.error(`usage: run.js ${Object.keys(architectures).join('|')} ...`);
  process.exit(2);
}
const machineTimeoutS = Number(
  process.env.GLOVEBOX_VM_TIMEOUT_S ?? timeoutsS[architecture],
);
const choice = {
  architecture,
  names: words.filter((word) => !word.endsWith('.js')),
  files: words
    .filter((word) => word.endsWith('.js'))
    .map((file) => path.relative(root, path.resolve(file))),
};

const scenarios = chooseScenarios(choice);
if (scenarios.length === 0) {
  console.error(`no scenario has a name with ${choice.names.join(' or ')}`);
  process.exit(2);
}

let machine;
let folder;

process.once('SIGINT', () => process.exit(130));
process.once('SIGTERM', () => process.exit(143));
process.once('exit', () => {
  machine?.kill();
  if (folder) fs.rmSync(folder, { recursive: true, force: true });
});

function nextEvent() {
  if (!machine) throw new Error('the machine does not run');
  return machine.next();
}

/** Throws what a test in the machine threw, with its own stack. */
function rethrow(text) {
  const error = new Error(text.split('\n', 1)[0]);
  error.stack = text;
  throw error;
}

// ---- Reports ---------------------------------------------------------------

/** A test that ran in the machine. */
function report(t, { name, durationMs, ok, skip, error, notes = [] }) {
  return t.test(name, { skip }, (t) => {
    for (const note of notes) t.diagnostic(note);
    if (durationMs > 1000) t.diagnostic(`${(durationMs / 1000).toFixed(1)} s`);
    if (!ok) rethrow(error);
  });
}

/** Reports the tests of a file, whose end the machine must report too. */
async function followFile(t, file) {
  let count = 0;
  let event = await nextEvent();
  for (; event.type === 'test'; event = await nextEvent()) {
    await report(t, event);
    count++;
  }
  if (event.type !== 'file-end' || event.file !== file) {
    throw new Error(`instead of its end came ${JSON.stringify(event)}`);
  }
  const { exitCode, signal, isLate, output } = event;
  t.diagnostic(`${count} tests, ${Math.round(event.durationMs / 1000)} s`);
  if (isLate) throw new Error(`it did not end in time:\n${output}`);
  // The last of them is the search for what is left.
  if (count < 2) throw new Error(`it ran no test:\n${output}`);
  if (exitCode !== 0) {
    throw new Error(`it ended with ${exitCode ?? signal}:\n${output}`);
  }
}

async function followScenario(t, scenario) {
  const { type, name } = await nextEvent();
  if (type !== 'scenario' || name !== scenario.name) {
    throw new Error(`instead of its start came ${type} ${name}`);
  }
  if (scenario.twin) await report(t, await nextEvent());
  for (const file of scenario.files) {
    await t.test(file, (t) => followFile(t, file));
  }
}

// ---- The run ---------------------------------------------------------------

test('the disks are made', async (t) => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'glovebox-vm-'));
  const { folder: image, made, ...parts } = prepareRootDisk(architecture);
  if (made) t.diagnostic('the root disk was not in the cache');
  const compiled = path.join(folder, 'compiled');
  const isForeign = architecture !== process.arch;
  if (isForeign) await crossBuild(architecture, compiled, image);
  const checkout = path.join(folder, 'checkout.img');
  makeCheckoutDisk(checkout, choice, isForeign ? compiled : undefined);
  const consoleFile = path.join(folder, 'console.log');
  const timeoutS = machineTimeoutS;
  machine = new Machine({
    ...parts,
    architecture,
    checkout,
    consoleFile,
    timeoutS,
  });
});

test('the machine boots', async () => {
  const { type } = await nextEvent();
  if (type !== 'up') throw new Error(`it said "${type}" first`);
});

for (const scenario of scenarios) {
  test(scenario.name, (t) => followScenario(t, scenario));
}

test('the machine powers itself off', async () => {
  const { type } = await nextEvent();
  if (type !== 'end') throw new Error(`it said "${type}" last`);
  await machine.powerOff();
});
