// SPDX-License-Identifier: Apache-2.0
'use strict';

// What every test of a box shares: sandboxes that are closed with the test, and
// the oracles that run after each test whether it thought of them or not.
//
//   canary  a folder of the host that no box was given is as it was, and its
//           secret is in no output of a box
//   alive   the next call works
//   leak    after the file: no process but keeper, launcher and ready boxes, no
//           zombie, descriptor, mount, cgroup leaf or folder is left

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const crypto = require('node:crypto');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const nodeTest = require('node:test');

// A folder of its own for each test file, so that files can run at the same
// time and each finds its own leaks only.
const temporaryFolder = fs.mkdtempSync(path.join(os.tmpdir(), 'test-'));
fs.chmodSync(temporaryFolder, 0o755);
process.env.TMPDIR = temporaryFolder;

const glovebox = require('../..');

const isRoot = process.getuid() === 0;
/** Rows of great size or length run in full. */
const soak = process.env.GLOVEBOX_SOAK === '1';
/** Deadlines are this many times as long, for machines that are as slow. */
const timeScale = Number(process.env.GLOVEBOX_TIME_SCALE ?? 1);
/** What CI could have run must not be skipped there. */
const mustRun = process.env.GLOVEBOX_MUST_RUN === '1';
/** The same tests again, each call with an interpreter that is started for it. */
const isColdPass = process.env.GLOVEBOX_TEST_WARM === '0';

// ---- Canary ----------------------------------------------------------------

const canary = {
  dir: fs.mkdtempSync(path.join(os.tmpdir(), 'canary-')),
  secret: crypto.randomBytes(16).toString('hex'),
};
canary.file = path.join(canary.dir, 'secret.txt');
fs.writeFileSync(canary.file, canary.secret);
// Readable to everyone: what keeps a box from it is the box, not its mode.
fs.chmodSync(canary.dir, 0o777);
fs.chmodSync(canary.file, 0o666);
const canaryBefore = describeCanary();

function describeCanary() {
  const entries = fs.readdirSync(canary.dir).map((name) => {
    const file = path.join(canary.dir, name);
    const { mtimeNs, size } = fs.lstatSync(file, { bigint: true });
    return [name, String(mtimeNs), String(size), fs.readFileSync(file, 'utf8')];
  });
  return JSON.stringify(entries);
}

// ---- Sandboxes -------------------------------------------------------------

const outputs = [];

function watchOutput(result) {
  outputs.push(result.stdout, result.stderr, JSON.stringify(result.results));
  return result;
}

/** Whether a python waits in a ready box for a call of this process. */
function hasReadyPython() {
  return descendants()
    .filter(({ name }) => name === 'glovebox-ready')
    .some(({ pid }) => readCommand(pid).includes('driver.py'));
}

function readCommand(pid) {
  try {
    return fs.readFileSync(`/proc/${pid}/cmdline`, 'latin1');
  } catch {
    return ''; // It ended meanwhile.
  }
}

// Calls of python are warm from about then on: most tests share a root.
let wasPythonReady = false;
async function awaitReadyPython() {
  if (wasPythonReady) return;
  wasPythonReady = true; // or never will be
  const end = Date.now() + 5000 * timeScale;
  while (!hasReadyPython() && Date.now() < end) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/**
 * Waits until python code in `sandbox` runs in an interpreter that was there
 * before its call: its command says so.
 */
async function eventuallyWarm(sandbox) {
  const code = 'print(open("/proc/self/cmdline").read())';
  await eventually(
    async () => (await sandbox.runCode(code)).stdout.includes('join.so'),
    'calls do not become warm',
    15000,
  );
}

// The default time limit is a deadline too.
function patient(options) {
  if (timeScale === 1 || options?.spec) return options;
  return { timeoutS: 30 * timeScale, ...options };
}

/**
 * An open Sandbox that is closed when test `t` ends. Every result that comes
 * from it is searched for the canary's secret.
 */
async function open(t, options) {
  const sandbox = new glovebox.Sandbox(patient(options));
  for (const method of ['run', 'runCode']) {
    const original = sandbox[method].bind(sandbox);
    sandbox[method] = async (...args) => watchOutput(await original(...args));
  }
  const startProcess = sandbox.spawn.bind(sandbox);
  sandbox.spawn = (...args) => {
    const child = startProcess(...args);
    const wait = child.wait.bind(child);
    child.wait = async () => watchOutput(await wait());
    return child;
  };
  const startKernel = sandbox.kernel.bind(sandbox);
  sandbox.kernel = async (...args) => {
    const kernel = await startKernel(...args);
    const runCell = kernel.runCode.bind(kernel);
    kernel.runCode = async (...cell) => watchOutput(await runCell(...cell));
    return kernel;
  };
  await sandbox.open();
  t.after(() => sandbox.close());
  if (options?.warm ?? !isColdPass) await awaitReadyPython();
  return sandbox;
}

/** What open() rejects with. Whatever opens is closed, and a failure. */
async function refusal(options) {
  const sandbox = new glovebox.Sandbox(options);
  try {
    await sandbox.open();
  } catch (error) {
    return error;
  } finally {
    await sandbox.close();
  }
  return assert.fail(`it opened with ${JSON.stringify(options)}`);
}

// ---- Leaks -----------------------------------------------------------------

/** `{pid, ppid, state, name}` of every process that this one may see. */
function processes() {
  const found = [];
  for (const pid of fs
    .readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))) {
    try {
      const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8');
      const end = stat.lastIndexOf(')');
      const [state, ppid] = stat.slice(end + 2).split(' ');
      const name = stat.slice(stat.indexOf('(') + 1, end);
      found.push({ pid: Number(pid), ppid: Number(ppid), state, name });
    } catch {
      // It ended meanwhile.
    }
  }
  return found;
}

/** All descendants of process `pid`, in no order. */
function descendants(pid = process.pid) {
  const all = processes();
  const result = [];
  const search = [pid];
  while (search.length > 0) {
    const parent = search.pop();
    for (const child of all.filter(({ ppid }) => ppid === parent)) {
      result.push(child);
      search.push(child.pid);
    }
  }
  return result;
}

/** Those of them that a call has started. */
function busyDescendants() {
  const ours = /^(?:launcher|glovebox-(?:ready|zygote))$/;
  return descendants().filter(({ name }) => !ours.test(name));
}

function mounts(pid = 'self') {
  return fs.readFileSync(`/proc/${pid}/mountinfo`, 'utf8').split('\n');
}

/**
 * The folder of a v1 cgroup controller in which a keeper of this process makes
 * its leaves; undefined where there is none that it may write to.
 */
function cgroupFolder(controller) {
  const has = (list) => list.split(',').includes(controller);
  const [, own] =
    fs
      .readFileSync('/proc/self/cgroup', 'utf8')
      .split('\n')
      .map((line) => /^\d+:([^:]+):(.*)$/.exec(line)?.slice(1))
      .find((entry) => entry && has(entry[0])) ?? [];
  // In a container the root of the mount is the container's own cgroup.
  const [root, mountPoint] =
    mounts()
      .map((line) =>
        /^\S+ \S+ \S+ (\S+) (\S+) .* - cgroup \S+ (\S+)$/.exec(line)?.slice(1),
      )
      .find((entry) => entry && has(entry[2])) ?? [];
  if (own === undefined || root === undefined) return undefined;
  const folder = path.join(
    mountPoint,
    root === '/' ? own : own.replace(root, ''),
  );
  try {
    fs.accessSync(folder, fs.constants.W_OK);
    return folder;
  } catch {
    return undefined;
  }
}

/** Where the controllers are cgroup v2's: its folder; else undefined. */
const cgroupV2 = (() => {
  const folder = '/sys/fs/cgroup';
  try {
    const file = path.join(folder, 'cgroup.controllers');
    const controllers = fs.readFileSync(file, 'utf8').trim().split(' ');
    return controllers.includes('memory') && controllers.includes('pids')
      ? folder
      : undefined;
  } catch {
    return undefined;
  }
})();

/** Whether with cgroup v2 a keeper of this process has a place for leaves. */
function hasPlaceInV2() {
  // The test machine knows what it gives to whom.
  const expected = process.env.GLOVEBOX_VM_LIMITS;
  if (expected) return JSON.parse(expected).memoryMb === 'kernel';
  const manager = isRoot
    ? '/run/systemd/private'
    : `/run/user/${process.getuid()}/systemd/private`;
  if (fs.existsSync('/run/systemd/system')) return fs.existsSync(manager);
  try {
    fs.accessSync(cgroupV2, fs.constants.W_OK); // a container's own
    return true;
  } catch {
    return false;
  }
}

/** Whether this host and user give limits of memory and cpus by cgroups. */
const hasCgroups = cgroupV2
  ? hasPlaceInV2()
  : ['memory', 'pids', 'cpu', 'cpuacct'].every(cgroupFolder);

function findFolders(folder, accept) {
  let entries = [];
  try {
    entries = fs.readdirSync(folder, { withFileTypes: true });
  } catch {
    // It went away meanwhile.
  }
  return entries
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => path.join(folder, name))
    .flatMap((found) => [
      ...(accept(path.basename(found)) ? [found] : []),
      ...findFolders(found, accept),
    ]);
}

/** Paths of the cgroup leaves that the keepers of process `pid` made. */
function leaves(pid = process.pid, controller = 'memory') {
  const isLeaf = (name) => name.startsWith(`gbx-${pid}-`);
  if (cgroupV2) return findFolders(cgroupV2, isLeaf);
  const folder = cgroupFolder(controller);
  if (!folder) return [];
  return fs
    .readdirSync(folder)
    .filter(isLeaf)
    .map((name) => path.join(folder, name));
}

/** Paths of the scopes that the keepers of process `pid` asked for. */
function scopes(pid = process.pid) {
  if (!cgroupV2) return [];
  const isScope = (name) => name.startsWith(`glovebox-${pid}-`);
  return findFolders(cgroupV2, isScope);
}

function descriptors() {
  return fs
    .readdirSync('/proc/self/fd')
    .map((fd) => {
      try {
        return `${fd} -> ${fs.readlinkSync(`/proc/self/fd/${fd}`)}`;
      } catch {
        return undefined; // the folder's own
      }
    })
    .filter(Boolean);
}

function temporaryWorkspaces() {
  return fs
    .readdirSync(os.tmpdir())
    .filter((name) => name.startsWith('glovebox-'));
}

/**
 * Waits until `condition()` is true. The deadline is for what never comes: a
 * test that passes does not wait longer than the thing takes.
 */
async function eventually(condition, message, deadlineMs = 5000) {
  const end = Date.now() + deadlineMs * timeScale;
  while (!(await condition())) {
    if (Date.now() > end) {
      assert.fail(typeof message === 'function' ? message() : message);
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/**
 * Waits until none of `listed`, of `descendants()`, is left. The dead that only
 * wait to be reaped count where this process is their parent: orphans are init's,
 * which takes its time.
 */
async function eventuallyGone(listed, deadlineMs = 3000) {
  // A number may have been given to somebody else since.
  const isListed = (found) =>
    listed.some(({ pid, name }) => pid === found.pid && name === found.name);
  const isLeft = ({ state, ppid }) => state !== 'Z' || ppid === process.pid;
  const left = () =>
    processes().filter((found) => isListed(found) && isLeft(found));
  await eventually(
    () => left().length === 0,
    () => `alive: ${JSON.stringify(left())}`,
    deadlineMs,
  );
}

// Per environment: keeper, launcher, and for each root a zygote and ready boxes of
// three kinds, each an init and what waits. There are two of a kind, but up to
// eight after many calls. Tests open a few roots.
const MOST_IDLE_PROCESSES = 2 + (3 * 8 * 2 + 1) * 4;
const MOST_IDLE_LEAVES = 3 * 8 * 4;

/**
 * Which mounts process `pid` has and where; their options are the host's to
 * change, and tracers mount file systems of their own below /sys/kernel. Those
 * of another file's tests are in the folder of that file.
 */
function placesOfMounts(pid) {
  const folders = path.join(path.dirname(temporaryFolder), 'test-');
  const isOfAnother = (place) =>
    place.startsWith(folders) && !place.startsWith(temporaryFolder);
  return mounts(pid)
    .map((line) => line.split(' ').slice(0, 5))
    .filter(([, , , , place = '']) => !place.startsWith('/sys/kernel/'))
    .filter(([, , , , place = '']) => !isOfAnother(place))
    .map((fields) => fields.join(' '));
}

const before = { mounts: placesOfMounts(), descriptors: 0 };

nodeTest.before(async () => {
  // The first session starts the engine, which keeps some descriptors.
  await glovebox.withSandbox(async (sandbox) => {
    await sandbox.run(['true']);
    const { warm } = (await sandbox.plan()).spec;
    assert.equal(warm, !isColdPass, 'see test/helpers/cold.js');
  });
  before.descriptors = descriptors().length;
});

nodeTest.after(async () => {
  await eventually(
    () => busyDescendants().length === 0,
    () => `processes are left: ${JSON.stringify(busyDescendants())}`,
  );
  await eventually(
    () => descendants().length <= MOST_IDLE_PROCESSES,
    () => `processes are left: ${JSON.stringify(descendants())}`,
  );
  const zombies = () => descendants().filter(({ state }) => state === 'Z');
  await eventually(
    () => zombies().length === 0,
    () => `zombies are left: ${JSON.stringify(zombies())}`,
  );
  await eventually(
    () => descriptors().length <= before.descriptors + 2,
    () =>
      `descriptors are left (${before.descriptors} before): ${descriptors().join(', ')}`,
  );
  await eventually(
    () => leaves().length <= MOST_IDLE_LEAVES,
    () => `cgroup leaves are left: ${leaves()}`,
  );
  const mounted = () =>
    placesOfMounts().filter((place) => !before.mounts.includes(place));
  await eventually(
    () => mounted().length === 0,
    () => `mounts are left: ${mounted().join(', ')}`,
  );
  // The keeper of a host process that a test has killed takes its time.
  await eventually(
    () => temporaryWorkspaces().length === 0,
    () => `temporary workspaces are left: ${temporaryWorkspaces()}`,
  );
  fs.rmSync(temporaryFolder, { recursive: true, force: true });
});

nodeTest.afterEach(async () => {
  assert.equal(
    describeCanary(),
    canaryBefore,
    'the canary folder is as it was',
  );
  for (const output of outputs.splice(0)) {
    assert.ok(
      !output.includes(canary.secret),
      'the canary secret is in no output',
    );
  }
  const result = await glovebox.withSandbox(async (sandbox) =>
    sandbox.run(['true']),
  );
  assert.equal(result.exitCode, 0, 'the next call works');
});

// ---- For the tests ---------------------------------------------------------

/** Skips with a reason; where skips are forbidden, fails with it. */
function skip(t, reason) {
  if (mustRun) assert.fail(`this may not be skipped here: ${reason}`);
  t.skip(reason);
}

/**
 * Skips what only cgroups do. A plain user has none on many hosts, and so has
 * root where a test took them away; the root of a machine for tests has them.
 */
function skipWithoutCgroups(t) {
  const mayLack = !isRoot || process.env.GLOVEBOX_VM_LIMITS;
  const reason = 'no cgroups that this user may write to';
  if (mayLack) t.skip(`by design: ${reason}`);
  else skip(t, reason);
}

/** A folder of the host that is gone when test `t` ends. */
function makeFolder(t) {
  const folder = fs.realpathSync(
    fs.mkdtempSync(path.join(os.tmpdir(), 'folder-')),
  );
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Runs a program outside of any box: the twin of what a box refuses. */
function outside(argv, options) {
  const { status, signal, stdout, stderr } = spawnSync(argv[0], argv.slice(1), {
    encoding: 'utf8',
    ...options,
  });
  return { exitCode: status, signal, stdout, stderr };
}

/** The python that Debian's packages (matplotlib, pandas) belong to. */
const packagedPython = fs.existsSync('/usr/bin/python3')
  ? '/usr/bin/python3'
  : undefined;

module.exports = {
  canary,
  busyDescendants,
  descendants,
  eventually,
  eventuallyGone,
  eventuallyWarm,
  glovebox,
  hasCgroups,
  isColdPass,
  isRoot,
  leaves,
  makeFolder,
  mustRun,
  open,
  outside,
  packagedPython,
  placesOfMounts,
  processes,
  refusal,
  scopes,
  skip,
  skipWithoutCgroups,
  soak,
  temporaryWorkspaces,
  timeScale,
  test: nodeTest.test,
};
