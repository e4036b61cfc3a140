// SPDX-License-Identifier: Apache-2.0
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { spawnSync } = require('node:child_process');
const {
  glovebox,
  hasCgroups,
  isRoot,
  makeFolder,
  test,
} = require('../helpers/harness.js');
const {
  askRefused,
  assertRefused,
  withoutRights,
} = require('../helpers/refused.js');

const { doctor } = glovebox;
const main = path.join(__dirname, '..', '..', 'lib', 'cli', 'main.js');

function checkOf(report, name) {
  const check = report.checks.find((one) => one.name === name);
  assert.ok(check, `${name} of ${report.checks.map((one) => one.name)}`);
  return check;
}

test('doctor() makes a box here and says what it found', async () => {
  const before = fs.readdirSync(os.tmpdir());
  const report = await doctor();
  assert.equal(report.ok, true, String(report));
  assert.equal(report.version, glovebox.version);
  for (const name of ['box', 'walls of the box', 'platform', 'kernel']) {
    assert.equal(checkOf(report, name).ok, true, name);
  }
  for (const name of ['system calls', 'compiled part', 'bash', 'node']) {
    assert.equal(checkOf(report, name).ok, true, name);
  }
  const names = report.checks.map(({ name }) => name);
  assert.equal(names.includes('workspace that stays'), isRoot);
  assert.deepEqual(fs.readdirSync(os.tmpdir()), before, 'nothing is left');
});

test('doctor() tells the same of limits as sandbox.limits', async () => {
  const report = await doctor();
  const limits = await glovebox.withSandbox(
    { cpus: 1, enforceLimits: true },
    async (sandbox) => sandbox.limits,
  );
  for (const [name, force] of Object.entries(limits)) {
    if (force === null || name === 'diskMb') continue;
    const check = checkOf(report, `limit ${name}`);
    assert.equal(check.detail, force);
    assert.equal(check.ok, force === 'kernel');
    assert.equal(check.needed, false);
    if (!check.ok) assert.ok(check.cause && check.fix);
  }
  if (hasCgroups) assert.equal(checkOf(report, 'limit cpus').ok, true);
});

test('doctor() emits no warning of its own', () => {
  const { stderr, status } = spawnSync(process.execPath, [main, 'doctor'], {
    encoding: 'utf8',
  });
  assert.deepEqual({ stderr, status }, { stderr: '', status: 0 });
});

test('a report is text for people and plain data for programs', async () => {
  const report = await doctor();
  const text = String(report);
  assert.match(text, /^glovebox \S+, Linux \S+: boxes work here/);
  assert.match(text, /^ok {4}box /m);
  const data = JSON.parse(JSON.stringify(report));
  assert.deepEqual(Object.keys(data), ['ok', 'version', 'checks']);
  for (const check of data.checks) {
    assert.equal(typeof check.ok, 'boolean');
    assert.equal(typeof check.needed, 'boolean');
    assert.notEqual(check.detail, '');
  }
});

test('npx glovebox doctor prints the report, or it as JSON', () => {
  const run = (...args) =>
    spawnSync(process.execPath, [main, ...args], { encoding: 'utf8' });
  assert.match(run('doctor').stdout, /^glovebox .*: boxes work here/);
  assert.equal(JSON.parse(run('doctor', '--json').stdout).ok, true);
  assert.equal(run('--version').stdout, `${glovebox.version}\n`);
  const help = run('--help');
  assert.equal(help.status, 0);
  assert.match(help.stdout, /^usage: glovebox doctor/);
  for (const wrong of [[], ['docter'], ['doctor', '--yaml'], ['constructor']]) {
    const { status, stdout, stderr } = run(...wrong);
    assert.equal(status, 2);
    assert.equal(stdout, '');
    assert.match(stderr, /^usage: glovebox doctor/);
  }
});

test('P35: without user namespaces a call is refused with cause and remedy', () => {
  const script = 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"';
  const prefix = ['unshare', '-Ur', 'sh', '-c', script, 'sh', ...withoutRights];
  const twin = spawnSync(prefix[0], [...prefix.slice(1), 'unshare', '-U'], {
    encoding: 'utf8',
  });
  assert.match(twin.stderr, /No space left on device/);
  const answer = askRefused(prefix);
  assertRefused(answer, [
    /user namespaces/,
    /user\.max_user_namespaces is 0/,
    /sysctl -w user\.max_user_namespaces=/,
  ]);
  assert.equal(answer.error.code, 'ERR_SANDBOX_START');
  assert.equal(answer.error.errno, 'ENOSPC');
});

/** A copy of what is installed; `build` says whether the compiled part is there. */
function copyPackage(t, { build }) {
  const root = path.join(__dirname, '..', '..');
  const copy = makeFolder(t);
  fs.chmodSync(copy, 0o755);
  for (const name of [
    'lib',
    'package.json',
    ...(build ? ['build/Release'] : []),
  ]) {
    const filter = (file) => !file.includes('obj.target');
    fs.cpSync(path.join(root, name), path.join(copy, name), {
      recursive: true,
      filter,
    });
  }
  return copy;
}

function runDoctor(copy, prefix = []) {
  const [command, ...args] = [
    ...[...prefix, process.execPath],
    ...[path.join(copy, 'lib/cli/main.js'), 'doctor'],
  ];
  return spawnSync(command, args, { encoding: 'utf8' });
}

test('doctor() without the compiled part says how to make it', (t) => {
  const { status, stdout } = runDoctor(copyPackage(t, { build: false }));
  assert.equal(status, 1);
  assert.match(stdout, /boxes do not work here/);
  assert.match(stdout, /^FAIL {2}compiled part .*could not be loaded/m);
  assert.match(stdout, /glovebox\.node:\s+there\s+is\s+no\s+such\s+file/);
  assert.match(stdout, /fix Run `npm run build`/);
});

test('doctor() names a file system on which nothing may be executed', (t) => {
  const copy = copyPackage(t, { build: true });
  assert.equal(runDoctor(copy).status, 0);
  const script = `
    mount --bind "$0/build" "$0/build"
    mount -o remount,bind,noexec "$0/build"; exec "$@"`;
  const unshare = isRoot
    ? ['unshare', '--mount']
    : ['unshare', '--user', '--map-root-user', '--mount'];
  const prefix = [...unshare, 'sh', '-ec', script, copy];
  const { status, stdout, stderr } = runDoctor(copy, prefix);
  assert.equal(status, 1, stderr);
  assert.match(stdout, /FAIL {2}compiled part/);
  assert.match(stdout, /noexec/);
});

test('the text keeps a command on one line, so that it can be copied', () => {
  const script = 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"';
  const prefix = ['unshare', '-Ur', 'sh', '-c', script, 'sh', ...withoutRights];
  const { text } = askRefused(prefix);
  assert.match(text, /`sysctl -w user\.max_user_namespaces=15000`/);
});
