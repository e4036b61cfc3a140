// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rows C of the public cases: how processes end, and that they do.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const {
  descendants,
  eventually,
  eventuallyGone,
  hasCgroups,
  leaves,
  open,
  test,
  timeScale,
} = require('../helpers/harness.js');
const { forms } = require('../helpers/forms.js');
const { startScript } = require('../helpers/host-script.js');

function alive(name) {
  return descendants().filter((process) => process.name === name);
}

// ---- P05 -------------------------------------------------------------------

const backgroundChildren = [
  {
    language: 'bash',
    code: 'sleep 30 & echo started',
    stdout: 'started\n',
    exitCode: 0,
  },
  { language: 'bash', code: '(sleep 30 &) ; exit 3', stdout: '', exitCode: 3 },
  {
    language: 'python',
    code: "import subprocess\nsubprocess.Popen(['sleep', '30'])\nprint('spawned')",
    stdout: 'spawned\n',
    exitCode: 0,
  },
];

for (const { language, code, stdout, exitCode } of backgroundChildren) {
  const line = code.split('\n').at(1) ?? code;
  test(`P05 a background child that holds stdout does not hold the call: ${line}`, async (t) => {
    const sandbox = await open(t);
    const result = await sandbox.runCode(code, { language });
    assert.equal(result.stdout, stdout);
    assert.equal(result.exitCode, exitCode);
    assert.equal(result.fault, null);
    assert.ok(result.durationMs < 3000 * timeScale, `${result.durationMs} ms`);
    // Not one second later: it is gone when the call is.
    assert.deepEqual(alive('sleep'), []);
  });
}

test('P05 a background child of a cell does not hold the cell, and ends with the Kernel', async (t) => {
  const kernel = await (await open(t)).kernel();
  const result = await kernel.runCode(
    "import subprocess\nsubprocess.Popen(['sleep', '30'])\nprint('spawned')",
  );
  assert.equal(result.stdout, 'spawned\n');
  assert.equal(result.exitCode, 0);
  assert.equal(result.fault, null);
  assert.ok(result.durationMs < 3000 * timeScale, `${result.durationMs} ms`);
  assert.equal(alive('sleep').length, 1);
  await kernel.close();
  assert.deepEqual(alive('sleep'), []);
});

// ---- P06 -------------------------------------------------------------------

const deaths = [
  // By none of our limits, and by nothing else that we know.
  { signal: 'KILL', exitCode: 137, fault: 'killed' },
  { signal: 'ABRT', exitCode: 134, fault: null },
  { signal: 'SEGV', exitCode: 139, fault: null },
  { signal: 'TERM', exitCode: 143, fault: null },
];

for (const { signal, exitCode, fault } of deaths) {
  test(`P06 death by SIG${signal} is exit code ${exitCode} and no limit's doing`, async (t) => {
    const sandbox = await open(t);
    const result = await sandbox.runCode(`kill -${signal} $$`, {
      language: 'bash',
    });
    assert.equal(result.exitCode, exitCode);
    assert.equal(result.signal, `SIG${signal}`);
    assert.equal(result.success, false);
    assert.equal(result.fault?.type ?? null, fault);
    if (fault) assert.match(result.fault.message, /by no limit of the sandbox/);
  });

  test(`P06 death of python by SIG${signal} is reported as that of bash is`, async (t) => {
    const sandbox = await open(t);
    const result = await sandbox.runCode(
      `import os, signal; os.kill(os.getpid(), signal.SIG${signal})`,
    );
    assert.equal(result.exitCode, exitCode);
    assert.equal(result.signal, `SIG${signal}`);
    assert.equal(result.fault?.type ?? null, fault);
  });
}

// ---- P07 -------------------------------------------------------------------

const exits = [
  {
    code: "import sys; sys.exit('bad input')",
    exitCode: 1,
    stderr: 'bad input\n',
  },
  { code: 'import sys; sys.exit(3)', exitCode: 3, stderr: '' },
  { code: 'import sys; sys.exit(256)', exitCode: 0, stderr: '' },
  { code: 'import sys; sys.exit(-1)', exitCode: 255, stderr: '' },
  { code: 'import sys; sys.exit(True)', exitCode: 1, stderr: '' },
  { code: 'import sys; sys.exit(None)', exitCode: 0, stderr: '' },
  { code: 'import sys; sys.exit(2.5)', exitCode: 1, stderr: '2.5\n' },
  { code: 'exit(3)', exitCode: 3, stderr: '' },
];

for (const { name, begin } of forms) {
  test(`P07 the values and messages of sys.exit() are kept ${name}`, async (t) => {
    const run = await begin(await open(t));
    for (const { code, exitCode, stderr } of exits) {
      const result = await run(code);
      assert.equal(result.exitCode, exitCode, code);
      assert.equal(result.stderr, stderr, code);
      assert.equal(result.stdout, '', code);
      assert.equal(result.error, null, code);
      assert.equal(result.fault, null, code);
      assert.equal(result.success, exitCode === 0, code);
    }
  });
}

test('P07 a Kernel outlives sys.exit() and exit() with its state', async (t) => {
  const kernel = await (await open(t)).kernel();
  const first = await kernel.runCode(
    "a = 1; import sys; sys.exit('bad input')",
  );
  assert.equal(first.exitCode, 1);
  assert.equal(first.stderr, 'bad input\n');
  assert.equal((await kernel.runCode('exit(3)')).exitCode, 3);
  assert.equal((await kernel.runCode('sys.exit(True)')).exitCode, 1);
  const last = await kernel.runCode('a');
  assert.equal(last.exitCode, 0);
  assert.equal(last.results[0].text, '1');
});

// ---- P08 -------------------------------------------------------------------

const ignoresSignals = `import signal, time
for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(s, signal.SIG_IGN)
print('before')
while True: time.sleep(1)`;

for (const { name, begin } of forms) {
  test(`P08 code that ignores signals ends at its time limit with its output ${name}`, async (t) => {
    const run = await begin(await open(t));
    let during;
    const result = await run(ignoresSignals, {
      timeoutS: timeScale,
      onStdout: () => {
        during = descendants();
      },
    });
    assert.ok(
      result.durationMs >= 1000 * timeScale &&
        result.durationMs < 6000 * timeScale,
      `${result.durationMs} ms`,
    );
    assert.equal(result.fault.type, 'timeout');
    assert.equal(result.stdout, 'before\n');
    assert.equal(result.success, false);
    assert.equal(result.exitCode, 137);
    assert.equal(result.signal, 'SIGKILL');

    const python = during.filter((process) => /^python/.test(process.name));
    // A kernel has one that runs the code, and one that watches it.
    assert.ok(python.length === 1 || python.length === 2, `${python.length}`);
    for (const { pid } of python) {
      assert.ok(!fs.existsSync(`/proc/${pid}`), 'python is gone');
    }
  });
}

// ---- P09 -------------------------------------------------------------------

test('P09 HST-01 SIGKILL of the host leaves no process, cgroup or folder', async (t) => {
  const script = startScript(t, 'killed-host.js');
  const { pid } = script.child;
  const { workspace } = JSON.parse(await script.line());
  assert.ok(fs.existsSync(workspace));
  let listed = [];
  await eventually(() => {
    listed = descendants(pid);
    const has = (pattern) => listed.some(({ name }) => pattern.test(name));
    return has(/^sleep$/) && has(/^python/);
  }, 'not both of its boxes run');
  // Two boxes, each of an init and what runs in it, keeper and launcher.
  assert.ok(listed.length >= 6, JSON.stringify(listed));
  const controllers = ['memory', 'pids', 'cpu', 'cpuacct'];
  const leavesOfHost = () =>
    controllers.flatMap((controller) => leaves(pid, controller));
  if (hasCgroups) assert.ok(leavesOfHost().length >= 2 * controllers.length);

  process.kill(pid, 'SIGKILL');
  assert.equal((await script.ended).signal, 'SIGKILL');
  await eventuallyGone(listed, 3000);
  await eventually(
    () => leavesOfHost().length === 0,
    () => `cgroups: ${leavesOfHost()}`,
    3000,
  );
  await eventually(
    () => !fs.existsSync(workspace),
    `${workspace} is still there`,
    3000,
  );
  // Mounts live in namespaces of the boxes: the check after this file finds
  // those that do not.
});

// ---- P10 -------------------------------------------------------------------

const multiprocessing = `from concurrent.futures import ProcessPoolExecutor
import multiprocessing as mp
def inc(n): return n + 1
if __name__ == '__main__':
    with mp.Lock(), ProcessPoolExecutor(2, mp.get_context('METHOD')) as ex: print(list(ex.map(inc, [1, 2, 3])))`;

for (const { name, begin } of forms) {
  for (const method of ['fork', 'spawn']) {
    test(`P10 multiprocessing works by ${method}, with its locks, ${name}`, async (t) => {
      const run = await begin(await open(t));
      const result = await run(multiprocessing.replace('METHOD', method));
      assert.equal(result.stderr, '');
      assert.equal(result.stdout, '[2, 3, 4]\n');
      assert.equal(result.exitCode, 0);
      assert.ok(
        result.durationMs < 10000 * timeScale,
        `${result.durationMs} ms`,
      );
      assert.equal((await run('__name__')).results[0].text, "'__main__'");
    });
  }
}
