// SPDX-License-Identifier: Apache-2.0
'use strict';

// A short walk through everything, on whatever machine and as whatever user it
// is run, and what that machine is.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const {
  descendants,
  eventually,
  open,
  processes,
  test,
  timeScale,
} = require('../../helpers/harness.js');
const { startScript } = require('../../helpers/host-script.js');

const expectedLimits = JSON.parse(process.env.GLOVEBOX_VM_LIMITS);

function read(file) {
  try {
    return fs.readFileSync(file, 'utf8').trim();
  } catch (error) {
    return error.code;
  }
}

test('the machine has cgroup v2 and no other', (t) => {
  const cgroup = read('/proc/self/cgroup');
  const folder = `/sys/fs/cgroup${cgroup.slice('0::'.length)}`;
  t.diagnostic(`kernel: Linux ${os.release()}`);
  t.diagnostic(`user: ${os.userInfo().username}, uid ${process.getuid()}`);
  t.diagnostic(`XDG_RUNTIME_DIR: ${process.env.XDG_RUNTIME_DIR}`);
  t.diagnostic(`cgroup: ${folder}`);
  t.diagnostic(`cgroup.controllers: ${read(`${folder}/cgroup.controllers`)}`);
  const isWritable = process.getuid() === fs.statSync(folder).uid;
  t.diagnostic(`cgroup is the user's own: ${isWritable}`);
  assert.match(cgroup, /^0::\/[^\n]*$/);
  assert.ok(fs.existsSync('/sys/fs/cgroup/cgroup.controllers'));
});

test('sandbox.limits says what this machine enforces for this user', async (t) => {
  const sandbox = await open(t, { memoryMb: 128, pids: 32, cpus: 0.5 });
  t.diagnostic(`sandbox.limits: ${JSON.stringify(sandbox.limits)}`);
  const { memoryMb, pids, cpus } = sandbox.limits;
  assert.deepEqual({ memoryMb, pids, cpus }, expectedLimits);
});

test('a memory limit that is in force holds', async (t) => {
  const sandbox = await open(t, { memoryMb: 64 });
  const result = await sandbox.runCode(
    'b = b"x" * (200 * 2**20)\nprint("done")',
  );
  if (sandbox.limits.memoryMb === 'none') {
    assert.equal(result.stdout, 'done\n');
    assert.equal(result.fault, null);
  } else {
    assert.equal(result.stdout, '');
    assert.equal(result.fault?.type, 'oom');
  }
});

test('a limit of processes holds', async (t) => {
  const sandbox = await open(t, { pids: 16 });
  const result = await sandbox.runCode(`import os, signal
n = 0
try:
    while n < 64:
        if os.fork() == 0: signal.pause()
        n += 1
except OSError as error:
    print(error.errno, n <= 16)`);
  assert.equal(result.stdout, '11 True\n', result.stderr);
});

const programs = {
  python: { code: '6 * 7', result: '42' },
  node: { code: 'console.log(6 * 7)', stdout: '42\n' },
  bash: { code: 'echo $((6 * 7))', stdout: '42\n' },
};

for (const [language, { code, result, stdout = '' }] of Object.entries(
  programs,
)) {
  test(`${language} runs`, async (t) => {
    const sandbox = await open(t);
    const ran = await sandbox.runCode(code, { language });
    t.diagnostic(`${Math.round(ran.durationMs)} ms`);
    assert.equal(ran.stderr, '');
    assert.equal(ran.stdout, stdout);
    assert.equal(ran.results[0]?.text, result);
    assert.equal(ran.exitCode, 0);
    assert.equal(ran.fault, null);
  });
}

test('a Kernel remembers', async (t) => {
  const kernel = await (await open(t)).kernel();
  await kernel.runCode('x = 41');
  assert.equal((await kernel.runCode('x + 1')).results[0].text, '42');
});

test('a command sees a box, and leaves its files to the workspace', async (t) => {
  const sandbox = await open(t);
  const ran = await sandbox.run([
    'sh',
    '-c',
    'id -u; echo $$; hostname; cat /proc/self/cgroup; ls /workspace; echo 1 > f',
  ]);
  assert.equal(ran.stderr, '');
  const [uid, pid, , cgroup] = ran.stdout.split('\n');
  assert.equal(uid, '1000');
  assert.ok(Number(pid) < 10, pid);
  // In a namespace of its own, or in the one that it shares with its host and
  // of which it may see the name.
  assert.match(cgroup, /^0::\//);
  t.diagnostic(`in the box: ${cgroup}`);
  assert.equal(await sandbox.readFile('f', 'utf8'), '1\n');
  const { uid: owner } = fs.statSync(`${sandbox.workspace}/f`);
  t.diagnostic(`owner of a file in the workspace: ${owner}`);
});

test('a forbidden call is fault "escape_blocked"', async (t) => {
  const sandbox = await open(t);
  const result = await sandbox.run(['unshare', '--user', 'true']);
  assert.equal(result.fault?.type, 'escape_blocked');
});

test('a deadline is fault "timeout"', async (t) => {
  const sandbox = await open(t);
  const result = await sandbox.run(['sleep', '60'], { timeoutS: 0.5 });
  assert.equal(result.fault?.type, 'timeout');
});

test('100 boxes at once', async (t) => {
  const sandbox = await open(t, { timeoutS: 60 * timeScale });
  const started = Date.now();
  const results = await Promise.all(
    Array.from({ length: 100 }, (_, n) => sandbox.run(['echo', `${n}`])),
  );
  t.diagnostic(`${Date.now() - started} ms`);
  results.forEach((result, n) => {
    assert.equal(result.stdout, `${n}\n`);
    assert.equal(result.exitCode, 0);
  });
});

test('SIGKILL of the host leaves no process and no folder', async (t) => {
  const script = startScript(t, 'killed-host.js');
  const { pid } = script.child;
  const { workspace } = JSON.parse(await script.line());
  const listed = descendants(pid);
  assert.ok(listed.length >= 6, JSON.stringify(listed));
  process.kill(pid, 'SIGKILL');
  await script.ended;
  const left = () =>
    processes().filter((found) =>
      listed.some((old) => old.pid === found.pid && old.name === found.name),
    );
  const started = Date.now();
  await eventually(
    () => left().length === 0 && !fs.existsSync(workspace),
    () => `left: ${JSON.stringify(left())}, ${workspace}`,
    20000,
  );
  t.diagnostic(`${Date.now() - started} ms`);
});
