// SPDX-License-Identifier: Apache-2.0
'use strict';

// What one call may have otherwise than its session: folder, limits,
// environment, callbacks; and what a call used.

const assert = require('node:assert/strict');
const {
  canary,
  glovebox,
  hasCgroups,
  open,
  outside,
  skipWithoutCgroups,
  test,
  timeScale,
} = require('../helpers/harness.js');

const { runCode } = glovebox;

const failed = (step, errno) => (error) =>
  error.code === 'ERR_SANDBOX_SETUP' &&
  error.step === step &&
  error.errno === errno &&
  /Let cwd be a folder/.test(error.message);

// ---- cwd -------------------------------------------------------------------

test('ENV-14: a call starts in the folder that cwd names', async (t) => {
  const sandbox = await open(t);
  await sandbox.writeFile('a/b/c.txt', 'x');
  const cases = {
    '/tmp': '/tmp',
    '/home/user': '/home/user',
    'a/b': '/workspace/a/b',
    './a/../a': '/workspace/a',
    '..': '/',
    '/workspace/../..': '/',
  };
  for (const [cwd, expected] of Object.entries(cases)) {
    const { stdout } = await sandbox.run(['pwd', '-P'], { cwd });
    assert.equal(stdout, `${expected}\n`, cwd);
  }
  const { stdout } = await sandbox.run(['pwd'], { cwd: null });
  assert.equal(stdout, '/workspace\n');
});

test('ENV-14: code of each language starts there too', async (t) => {
  const sandbox = await open(t);
  await sandbox.writeFile('sub/data.txt', 'here');
  const codes = {
    python: 'print(open("data.txt").read())',
    node: 'console.log(require("fs").readFileSync("data.txt", "utf8"))',
    bash: 'cat data.txt; echo',
  };
  for (const [language, code] of Object.entries(codes)) {
    const result = await sandbox.runCode(code, { language, cwd: 'sub' });
    assert.equal(result.stdout, 'here\n', language);
  }
  const kernel = await sandbox.kernel({ cwd: '/tmp' });
  const cell = await kernel.runCode('import os; os.getcwd()');
  assert.equal(cell.results[0].text, "'/tmp'");
});

test('ENV-14: a folder that is not there is an error that says so', async (t) => {
  const sandbox = await open(t);
  await sandbox.writeFile('file', 'x');
  await assert.rejects(
    sandbox.run(['pwd'], { cwd: 'missing' }),
    failed('chdir', 'ENOENT'),
  );
  await assert.rejects(
    sandbox.run(['pwd'], { cwd: 'file' }),
    failed('chdir', 'ENOTDIR'),
  );
  for (const start of ['run', 'runCode', 'kernel']) {
    const options = { cwd: 'missing' };
    const started =
      start === 'kernel'
        ? sandbox.kernel(options)
        : sandbox[start](start === 'run' ? ['pwd'] : '1', options);
    await assert.rejects(started, (error) => {
      assert.match(
        error.message,
        /chdir "\/workspace\/missing": ENOENT/,
        start,
      );
      return true;
    });
  }
  // The end of an interpreter that waited may not be noticed before its reason.
  for (let i = 0; i < 20; i++) {
    await assert.rejects(
      sandbox.runCode('1', { cwd: '/srv/nothing' }),
      failed('chdir', 'ENOENT'),
    );
  }
  await sandbox.run(['ln', '-s', 'loop', 'loop']);
  await assert.rejects(
    sandbox.run(['pwd'], { cwd: 'loop' }),
    failed('chdir', 'ELOOP'),
  );
});

test('NS-29: no spelling of cwd leads out of the box', async (t) => {
  const sandbox = await open(t);
  // The bait is there for everybody but the box.
  assert.equal(outside(['cat', canary.file]).stdout, canary.secret);
  await sandbox.run(['ln', '-s', canary.dir, 'out']);
  await sandbox.run(['ln', '-s', '/proc/self/cwd', 'self']);
  const spellings = [
    'out',
    canary.dir,
    `/proc/1/root${canary.dir}`,
    `/proc/self/root${canary.dir}`,
    `../../../../..${canary.dir}`,
    ...Array.from({ length: 20 }, (_, fd) => `/proc/self/fd/${fd}`),
    ...Array.from({ length: 20 }, (_, fd) => `/proc/self/fd/${fd}/../../..`),
  ];
  for (const cwd of spellings) {
    await assert.rejects(
      sandbox.run(['ls'], { cwd }),
      (error) => error.step === 'chdir',
      cwd,
    );
  }
  for (const cwd of ['/proc/self/cwd', 'self', '/proc/self/root']) {
    const script = `pwd -P; stat -c %d:%i . / && cat .${canary.file}`;
    const { stdout, exitCode } = await sandbox.run(['sh', '-c', script], {
      cwd,
    });
    const [folder, own, root] = stdout.trim().split('\n');
    assert.equal(folder, '/', cwd);
    assert.equal(own, root, cwd);
    assert.equal(exitCode, 1, 'the canary is not there');
  }
});

// ---- Limits ----------------------------------------------------------------

test("memoryMb of a call lowers and raises the session's, and null lifts it", async (t) => {
  const sandbox = await open(t, { memoryMb: 128 });
  const code = 'x = bytearray(300 << 20); print(len(x) >> 20)';
  const low = await sandbox.runCode(code);
  assert.equal(low.fault?.type, 'oom');
  assert.match(low.fault.message, /memoryMb 128/);
  const high = await sandbox.runCode(code, { memoryMb: 600 });
  assert.equal(high.stdout, '300\n', high.stderr);
  const lifted = await sandbox.runCode(code, { memoryMb: null });
  assert.equal(lifted.stdout, '300\n', lifted.stderr);
  const lower = await sandbox.runCode('x = bytearray(150 << 20)', {
    memoryMb: 64,
  });
  assert.equal(lower.fault?.type, 'oom');
  assert.match(lower.fault.message, /memoryMb 64/);
});

const forks = `import os, time
count = 0
try:
    while count < 300:
        if os.fork() == 0:
            time.sleep(30)
        count += 1
except OSError as error:
    print(error.errno)
print(count)`;

test("pids of a call lowers and raises the session's", async (t) => {
  const sandbox = await open(t, { pids: 20 });
  const count = async (pids) => {
    const { stdout } = await sandbox.runCode(forks, { pids });
    return Number(stdout.trim().split('\n').at(-1));
  };
  assert.equal(await count(undefined), 19);
  assert.equal(await count(5), 4);
  assert.equal(await count(100), 99);
  assert.equal(await count(null), 300);
});

test('cpus of a call holds for that call', async (t) => {
  if (!hasCgroups) return skipWithoutCgroups(t);
  const sandbox = await open(t);
  const code = `import time
end = time.monotonic() + 1
while time.monotonic() < end: pass
print(time.process_time())`;
  const { stdout } = await sandbox.runCode(code, { cpus: 0.1 });
  assert.ok(Number(stdout) < 0.5, stdout);
});

test('a kernel has limits of its own', async (t) => {
  const sandbox = await open(t, { memoryMb: 512 });
  const kernel = await sandbox.kernel({ memoryMb: 96, pids: 10 });
  const { stdout } = await kernel.runCode(forks);
  assert.ok(Number(stdout.trim().split('\n').at(-1)) < 10, stdout);
  const cell = await kernel.runCode('x = bytearray(200 << 20)');
  assert.equal(cell.fault?.type, 'oom');
  assert.match(cell.fault.message, /memoryMb 96/);
});

// ---- Usage -----------------------------------------------------------------

test('a result has the limits of its own call', async (t) => {
  const sandbox = await open(t, { memoryMb: 300, timeoutS: 20, diskMb: null });
  const usual = {
    timeoutS: 20,
    memoryMb: 300,
    cpus: null,
    pids: 256,
    diskMb: null,
  };
  const own = { memoryMb: null, pids: 40, timeoutS: 5 };
  assert.deepEqual((await sandbox.run(['true'])).limits, usual);
  const ran = await sandbox.runCode('1', own);
  assert.deepEqual(ran.limits, { ...usual, ...own });
  const child = sandbox.spawn(['true'], { timeoutS: null, pids: 30 });
  assert.deepEqual((await child.wait()).limits, { ...usual, pids: 30 });
  const kernel = await sandbox.kernel({ memoryMb: 200, timeoutS: 9 });
  const ofKernel = { ...usual, memoryMb: 200, timeoutS: 9 };
  assert.deepEqual((await kernel.runCode('1')).limits, ofKernel);
  const cell = await kernel.runCode('1', { timeoutS: 7 });
  assert.deepEqual(cell.limits, { ...ofKernel, timeoutS: 7 });
  const once = await runCode('1', { pids: 50, timeoutS: null });
  assert.deepEqual(once.limits, {
    timeoutS: 30,
    memoryMb: 512,
    cpus: null,
    pids: 50,
    diskMb: 1024,
  });
});

test('usage tells user and system time apart', async (t) => {
  const sandbox = await open(t);
  const busy = await sandbox.runCode(`import time
end = time.process_time() + 0.5
while time.process_time() < end: sum(range(100000))`);
  const { usage } = busy;
  // Mostly its own code, whatever the kernel's accounting makes of the rest.
  assert.ok(usage.cpuUserMs >= 200, JSON.stringify(usage));
  assert.ok(usage.cpuUserMs + usage.cpuSystemMs < 5000 * timeScale);
  assert.ok(usage.cpuMs >= 300, JSON.stringify(usage));
  assert.ok(usage.wallMs >= 400);
  const calls = await sandbox.run([
    'dd',
    'if=/dev/zero',
    'of=/dev/null',
    'bs=1',
    'count=400000',
    'status=none',
  ]);
  assert.ok(calls.usage.cpuSystemMs > 20, JSON.stringify(calls.usage));
});

test('usage has the peak of memory, and what went to the disk', async (t) => {
  const sandbox = await open(t);
  const { usage, exitCode, stderr } = await sandbox.runCode(`import os
x = bytearray(50 << 20)
with open('file', 'wb') as file:
    file.write(os.urandom(4 << 20))
    file.flush()
    os.fsync(file.fileno())`);
  assert.equal(exitCode, 0, stderr);
  assert.ok(usage.maxMemoryBytes > 50 << 20, JSON.stringify(usage));
  assert.ok(usage.ioReadBytes >= 0);
  assert.equal(typeof usage.ioWriteBytes, 'number');
  if (usage.maxPids !== null) assert.ok(usage.maxPids >= 2);
});

test('usage of a box that was killed has what the host counted', async (t) => {
  const sandbox = await open(t);
  const { usage, fault } = await sandbox.run(['sleep', '30'], {
    timeoutS: 0.3,
  });
  assert.equal(fault.type, 'timeout');
  assert.equal(usage.cpuUserMs, null);
  assert.equal(usage.ioReadBytes, null);
  assert.ok(usage.wallMs >= 250);
});
