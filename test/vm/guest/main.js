// SPDX-License-Identifier: Apache-2.0
'use strict';

// Runs in the test machine, as root, once it is up. Puts the machine into the
// state of each scenario, runs its test files as its user, searches for what
// they left, and sends lines of JSON to the host over a port of its own, which
// nothing else in the machine writes to.

const { spawn, spawnSync } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const path = require('node:path');
const {
  chooseScenarios,
  launcher,
  plainUsers,
  timeScale,
  ways,
} = require('../scenarios.js');
const choice = require('../choice.json');

const root = path.join(__dirname, '..', '..', '..');
const port = fs.openSync('/dev/virtio-ports/glovebox', 'w');
const reportFile = '/run/glovebox-vm/report';

function send(event) {
  fs.writeSync(port, `${JSON.stringify(event)}\n`);
}

function run(command, args, input) {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    encoding: 'utf8',
    input,
  });
  if (error) throw error;
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${stderr}`);
  return stdout;
}

function kill(pid) {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It ended meanwhile.
  }
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// ---- The state of the machine ----------------------------------------------

/** Makes the machine what the scenario wants; the result undoes it. */
function arrange({ sysctls = {}, appArmor, tmpfs }) {
  const undo = [];
  for (const [name, value] of Object.entries(sysctls)) {
    const before = run('sysctl', ['--values', name]).trim();
    run('sysctl', ['--quiet', '--write', `${name}=${value}`]);
    undo.push(() => run('sysctl', ['-q', '-w', `${name}=${before}`]));
  }
  if (appArmor) {
    const load = (how) => run('apparmor_parser', [how, '-K'], appArmor);
    load('--replace');
    undo.push(() => load('--remove'));
  }
  if (tmpfs) {
    run('mount', ['-t', 'tmpfs', '-o', 'mode=1777', 'tmpfs', '/tmp']);
    undo.push(() => run('umount', ['/tmp']));
  }
  return () => {
    for (const step of undo.reverse()) step();
  };
}

// ---- What is left ----------------------------------------------------------

// A user's service manager and what it keeps running.
const managerPrograms = ['systemd', '(sd-pam)', 'dbus-daemon'];

function readProcess(pid) {
  try {
    const status = fs.readFileSync(`/proc/${pid}/status`, 'utf8');
    const name = /^Name:\t(.*)$/m.exec(status)[1];
    const uid = Number(/^Uid:\t(\d+)/m.exec(status)[1]);
    let executable = '';
    try {
      executable = fs.readlinkSync(`/proc/${pid}/exe`);
    } catch {
      // A thread of the kernel, or a zombie.
    }
    return { pid: Number(pid), name, uid, executable };
  } catch {
    return undefined; // it ended meanwhile
  }
}

function findProcesses() {
  return fs
    .readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(readProcess)
    .filter(Boolean);
}

// Of any user that is not the system's: the machine's plain users, and the ids
// that boxes get as root.
function findLeftProcesses() {
  return findProcesses().filter(
    ({ name, uid, executable }) =>
      executable === launcher ||
      (uid >= plainUsers[0].uid &&
        uid !== 65534 &&
        !managerPrograms.includes(name)),
  );
}

// Scopes and folders in them: slices, services, sockets and sessions come and go
// with the machine's own work, and so does the scope of a user's manager.
function findCgroups() {
  // It fails when one goes away while it looks, and prints the others.
  const { stdout } = spawnSync('find', ['/sys/fs/cgroup', '-type', 'd'], {
    encoding: 'utf8',
  });
  const isPassing = /(\.slice|\.service|\.socket|\/(init|session-\w+)\.scope)$/;
  return stdout
    .split('\n')
    .filter((folder) => folder && !isPassing.test(folder));
}

function findFolders() {
  return ['/tmp', '/var/tmp', '/dev/shm'].flatMap((folder) =>
    fs.readdirSync(folder).map((name) => path.join(folder, name)),
  );
}

// Users' managers mount and unmount folders of theirs as sessions come and go.
function findMounts() {
  return fs
    .readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .filter((line) => !line.includes(' /run/'));
}

async function checkNothingIsLeft(before) {
  const find = () => ({
    processes: findLeftProcesses(),
    cgroups: findCgroups().filter((name) => !before.cgroups.includes(name)),
    folders: findFolders().filter((file) => !before.folders.includes(file)),
    mounts: findMounts().filter((line) => !before.mounts.includes(line)),
  });
  const started = Date.now();
  let left = find();
  const isClean = () => Object.values(left).every((list) => list.length === 0);
  while (!isClean() && Date.now() - started < 10000) {
    await sleep(100);
    left = find();
  }
  send({
    type: 'test',
    name: 'nothing is left on the machine',
    nesting: 0,
    durationMs: Date.now() - started,
    ok: isClean(),
    error: isClean() ? undefined : JSON.stringify(left, null, 1),
  });
  // So that the next file does not fail for this one's sins.
  for (const { pid } of left.processes) kill(pid);
  for (const file of left.folders) {
    fs.rmSync(file, { recursive: true, force: true });
  }
}

// ---- Test files ------------------------------------------------------------

function killWithDescendants(pid) {
  let children = '';
  try {
    const file = `/proc/${pid}/task/${pid}/children`;
    children = fs.readFileSync(file, 'utf8');
  } catch {
    // It ended meanwhile.
  }
  kill(pid);
  for (const child of children.split(' ').filter(Boolean)) {
    killWithDescendants(Number(child));
  }
}

// Sends on the lines that are complete, from `offset` on; returns the next one.
function forward(offset) {
  const text = fs.readFileSync(reportFile).subarray(offset);
  const end = text.lastIndexOf('\n') + 1;
  if (end > 0) fs.writeSync(port, text.subarray(0, end));
  return offset + end;
}

function testEnvironment(scenario) {
  const isRoot = ways[scenario.way].user === 'root';
  return {
    GLOVEBOX_MUST_RUN: '1',
    GLOVEBOX_TIME_SCALE: String(timeScale),
    GLOVEBOX_TEST_PASS: isRoot ? 'root' : 'user',
    GLOVEBOX_VM_LIMITS: JSON.stringify(ways[scenario.way].limits),
    ...(ways[scenario.way].place && {
      GLOVEBOX_VM_PLACE: ways[scenario.way].place,
    }),
    ...(scenario.refusal && {
      GLOVEBOX_VM_REFUSAL: JSON.stringify(scenario.refusal),
    }),
    ...scenario.env,
  };
}

async function runFile(scenario, file) {
  const { start, user } = ways[scenario.way];
  fs.writeFileSync(reportFile, '');
  run('chown', [user, reportFile]);
  const [command, ...args] = start([
    'env',
    ...Object.entries(testEnvironment(scenario)).map((pair) => pair.join('=')),
    'node',
    `--test-reporter=${path.join(__dirname, 'reporter.js')}`,
    `--test-reporter-destination=${reportFile}`,
    path.join(root, file),
  ]);
  const child = spawn(command, args, {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output = (output + text).slice(-20000);
    });
  }
  let isLate = false;
  const deadline = setTimeout(() => {
    isLate = true;
    killWithDescendants(child.pid);
  }, scenario.timeoutS * 1000);
  let offset = 0;
  const forwarding = setInterval(() => {
    offset = forward(offset);
  }, 500);
  // Not "close": what a test leaves behind may hold its output.
  const [exitCode, signal] = await once(child, 'exit');
  clearTimeout(deadline);
  clearInterval(forwarding);
  forward(offset);
  return { exitCode, signal, isLate, output };
}

async function runScenario(scenario) {
  const restore = arrange(scenario);
  try {
    if (scenario.twin) {
      const [command, ...args] = ways[scenario.way].start(
        scenario.twin.command.split(' '),
      );
      const { status } = spawnSync(command, args);
      send({
        type: 'test',
        name: `outside of boxes \`${scenario.twin.command}\` ${
          scenario.twin.succeeds ? 'succeeds' : 'fails'
        }`,
        nesting: 0,
        ok: (status === 0) === scenario.twin.succeeds,
        error: `its status is ${status}`,
      });
    }
    for (const file of scenario.files) {
      const before = {
        cgroups: findCgroups(),
        folders: findFolders(),
        mounts: findMounts(),
      };
      const started = Date.now();
      const end = await runFile(scenario, file);
      const durationMs = Date.now() - started;
      await checkNothingIsLeft(before);
      send({ type: 'file-end', file, durationMs, ...end });
    }
  } finally {
    restore();
  }
}

async function main() {
  fs.mkdirSync(path.dirname(reportFile), { recursive: true });
  send({ type: 'up' });
  for (const scenario of chooseScenarios(choice)) {
    send({ type: 'scenario', name: scenario.name });
    await runScenario(scenario);
  }
  send({ type: 'end' });
}

main().catch((error) => {
  send({ type: 'broken', error: error.stack });
  process.exitCode = 1;
});
