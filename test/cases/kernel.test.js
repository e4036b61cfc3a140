// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rows D of the public cases: code sees its own names, and a Kernel keeps them.

const assert = require('node:assert/strict');
const {
  descendants,
  eventually,
  hasCgroups,
  open,
  test,
  timeScale,
} = require('../helpers/harness.js');
const { forms } = require('../helpers/forms.js');

const swallow = `import time
while True:
    try:
        while True: time.sleep(0.01)
    except BaseException: pass`;

function texts(result) {
  return result.results.map(({ text }) => text);
}

/** Checks that code ended well and gives the texts of its rich results. */
function textsOf(result) {
  assert.equal(result.stderr, '');
  assert.equal(result.exitCode, 0);
  return texts(result);
}

// ---- P11 -------------------------------------------------------------------

const dataclassCell = `import pickle
from dataclasses import dataclass
@dataclass
class Pt:
    x: int`;
const pickleCell = 'pickle.loads(pickle.dumps(Pt(3)))';

test('P11 a class made in a cell can be pickled, and __main__ is the namespace of cells', async (t) => {
  const kernel = await (await open(t)).kernel();
  assert.deepEqual(textsOf(await kernel.runCode(dataclassCell)), []);
  assert.deepEqual(textsOf(await kernel.runCode(pickleCell)), ['Pt(x=3)']);
  const main = await kernel.runCode(
    'import __main__\n(__main__.Pt is Pt, vars(__main__) is globals())',
  );
  assert.deepEqual(textsOf(main), ['(True, True)']);
});

test('P11 a class made in runCode can be pickled', async (t) => {
  const sandbox = await open(t);
  const result = await sandbox.runCode(`${dataclassCell}\n${pickleCell}`);
  assert.deepEqual(textsOf(result), ['Pt(x=3)']);
});

// ---- P12 -------------------------------------------------------------------

const topLevelNames = `import re
def parts(v): return re.split(r'[,.]', v)
base = 2
print(parts('1,2.3'), [base * i for i in range(3)])
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
fib(10)`;

for (const { name, begin } of forms) {
  test(`P12 functions, recursion and comprehensions see top-level names ${name}`, async (t) => {
    const run = await begin(await open(t));
    const result = await run(topLevelNames);
    assert.equal(result.stdout, "['1', '2', '3'] [0, 2, 4]\n");
    assert.deepEqual(textsOf(result), ['55']);
  });
}

// ---- P13 -------------------------------------------------------------------

test('P13 KeyboardInterrupt and endless recursion end the cell, not the Kernel', async (t) => {
  const kernel = await (await open(t)).kernel();
  await kernel.runCode('x = 41');

  const interrupt = await kernel.runCode("raise KeyboardInterrupt('stop')");
  assert.notEqual(interrupt.exitCode, 0);
  assert.ok(
    interrupt.stderr.endsWith('KeyboardInterrupt: stop\n'),
    interrupt.stderr,
  );
  assert.equal(interrupt.error.name, 'KeyboardInterrupt');

  const recursion = await kernel.runCode('def f(): return f()\nf()');
  assert.equal(recursion.exitCode, 1);
  const lastLine = recursion.stderr.trimEnd().split('\n').at(-1);
  const expected = 'RecursionError: maximum recursion depth exceeded';
  assert.ok(lastLine.startsWith(expected), lastLine);
  assert.ok(recursion.stderr.length < 20000, `${recursion.stderr.length}`);

  assert.deepEqual(textsOf(await kernel.runCode('x + 1')), ['42']);
});

// ---- P14 -------------------------------------------------------------------

test('P14 a cell that times out is interrupted, and the fault says that the state is kept', async (t) => {
  const kernel = await (await open(t)).kernel();
  await kernel.runCode('x = 7');

  const stopped = await kernel.runCode("print('before')\nwhile True: pass", {
    timeoutS: 1,
  });
  assert.equal(stopped.fault.type, 'timeout');
  assert.match(stopped.fault.message, /after 1 s .*its state are kept$/);
  assert.equal(stopped.stdout, 'before\n');
  assert.equal(stopped.exitCode, 130);
  assert.equal(stopped.error.name, 'KeyboardInterrupt');
  assert.ok(stopped.durationMs < 6000 * timeScale, `${stopped.durationMs} ms`);
  assert.deepEqual(textsOf(await kernel.runCode('x')), ['7']);
});

test('P14 a cell that swallows every exception costs the interpreter, and the fault says so', async (t) => {
  const kernel = await (await open(t)).kernel();
  const result = await kernel.runCode(swallow, { timeoutS: 1 });
  assert.equal(result.fault.type, 'timeout');
  assert.match(result.fault.message, /the kernel and its state are gone/);
  assert.equal(result.exitCode, 137);
  assert.equal(result.signal, 'SIGKILL');
  assert.ok(result.durationMs < 8000 * timeScale, `${result.durationMs} ms`);

  const before = performance.now();
  await assert.rejects(kernel.runCode('x'), {
    name: 'SandboxError',
    code: 'ERR_SANDBOX_KERNEL_DEAD',
    message: /its state is gone: stopped after 1 s \(timeoutS\)/,
  });
  assert.ok(performance.now() - before < 5000 * timeScale);
});

// ---- P15 -------------------------------------------------------------------

const defineGo = "import asyncio\nasync def go(): return 'ok'\n";

test('P15 asyncio.run() and top-level await work in any order of cells', async (t) => {
  const kernel = await (await open(t)).kernel();
  for (const code of [
    `${defineGo}asyncio.run(go())`,
    'asyncio.run(go())',
    'await go()',
    'asyncio.run(go())',
  ]) {
    assert.deepEqual(textsOf(await kernel.runCode(code)), ["'ok'"], code);
  }
});

test('P15 asyncio.run() and top-level await work by runCode', async (t) => {
  const sandbox = await open(t);
  for (const code of ['asyncio.run(go())', 'await go()']) {
    const result = await sandbox.runCode(defineGo + code);
    assert.deepEqual(textsOf(result), ["'ok'"], code);
  }
});

// ---- The rest of a Kernel -------------------------------------------

test('cells run in the order of the calls, also when nobody waits between them', async (t) => {
  const kernel = await (await open(t)).kernel();
  const cells = [
    kernel.runCode('import time; time.sleep(0.2); seen = [1]'),
    kernel.runCode('seen.append(2)'),
    kernel.runCode('1 / 0'),
    kernel.runCode('seen.append(3); seen'),
  ];
  const results = await Promise.all(cells);
  assert.deepEqual(
    results.map(({ exitCode }) => exitCode),
    [0, 0, 1, 0],
  );
  assert.deepEqual(texts(results[3]), ['[1, 2, 3]']);
});

test('two Kernels and a call of one session share files and nothing else', async (t) => {
  const sandbox = await open(t);
  const [one, two] = await Promise.all([sandbox.kernel(), sandbox.kernel()]);
  const made = await one.runCode(
    "x = 1; open('f', 'w').write('from one'); open('/tmp/g', 'w').write('x')",
  );
  assert.deepEqual(made.files, [{ path: 'f', size: 8, change: 'created' }]);
  const look =
    "import os\n('x' in globals(), open('f').read(), os.path.exists('/tmp/g'))";
  const expected = ["(False, 'from one', False)"];
  assert.deepEqual(textsOf(await two.runCode(look)), expected);
  assert.deepEqual(textsOf(await sandbox.runCode(look)), expected);
  assert.deepEqual(
    textsOf(
      await one.runCode("os = __import__('os'); os.path.exists('/tmp/g')"),
    ),
    ['True'],
  );
});

test('the environment of a Kernel is that of the session and its own over it', async (t) => {
  const sandbox = await open(t, { env: { A: 'session', B: 'session' } });
  const kernel = await sandbox.kernel({ env: { B: 'kernel', C: 'kernel' } });
  const result = await kernel.runCode(
    "import os; [os.environ.get(name) for name in 'ABC']",
  );
  assert.deepEqual(textsOf(result), ["['session', 'kernel', 'kernel']"]);
});

test('timeoutS of a Kernel counts for each cell, and a cell may have its own', async (t) => {
  const kernel = await (await open(t)).kernel({ timeoutS: 1 });
  const sleep = 'import time; time.sleep(0.4)';
  // Together they take longer than any of them may.
  for (let cell = 0; cell < 3; cell++) {
    assert.equal((await kernel.runCode(sleep)).success, true);
  }
  const long = await kernel.runCode('time.sleep(1.2)', { timeoutS: 30 });
  assert.equal(long.success, true);
  const stopped = await kernel.runCode('time.sleep(60)');
  assert.equal(stopped.fault.type, 'timeout');
  assert.match(stopped.fault.message, /after 1 s/);
});

test('cells that wait for one that kills the Kernel are rejected with the reason', async (t) => {
  const kernel = await (await open(t)).kernel();
  const first = kernel.runCode(swallow, { timeoutS: 0.5 });
  const waiting = [kernel.runCode('1'), kernel.runCode('2')];
  const outcomes = await Promise.allSettled(waiting);
  assert.equal((await first).fault.type, 'timeout');
  for (const { reason } of outcomes) {
    assert.equal(reason.code, 'ERR_SANDBOX_KERNEL_DEAD');
    assert.match(reason.message, /stopped after 0\.5 s/);
  }
});

test('an interpreter that ends without a word is fault "killed" and exit code -1', async (t) => {
  const kernel = await (await open(t)).kernel();
  const result = await kernel.runCode(
    "import os; os.write(1, b'last words'); os._exit(0)",
  );
  assert.equal(result.exitCode, -1);
  assert.equal(result.fault.type, 'killed');
  assert.equal(result.stdout, 'last words');
  assert.equal(result.success, false);
  await assert.rejects(kernel.runCode('1'), {
    code: 'ERR_SANDBOX_KERNEL_DEAD',
  });
});

test('close() of a Kernel ends its box and its cells, twice and at once', async (t) => {
  const sandbox = await open(t);
  const kernel = await sandbox.kernel();
  let started;
  const isRunning = new Promise((resolve) => {
    started = resolve;
  });
  const cells = [
    kernel.runCode("print('up'); import time; time.sleep(60)", {
      onStdout: started,
    }),
    kernel.runCode('1'),
  ];
  const outcomes = Promise.allSettled(cells);
  await isRunning;
  let python;
  // The interpreter, and the one that watches it; no other is being started.
  await eventually(() => {
    python = descendants().filter(({ name }) => /^python/.test(name));
    return python.length === 2;
  }, 'there are others');

  await Promise.all([kernel.close(), kernel.close()]);
  await kernel.close();
  assert.deepEqual(
    descendants().filter(({ pid }) => python.some((one) => one.pid === pid)),
    [],
  );
  for (const { reason } of await outcomes) {
    assert.equal(reason.code, 'ERR_SANDBOX_CLOSED');
  }
  await assert.rejects(kernel.runCode('1'), { code: 'ERR_SANDBOX_CLOSED' });
  // The session goes on.
  assert.equal((await sandbox.run(['true'])).exitCode, 0);
});

test('close() of the session ends its Kernels and their cells', async (t) => {
  const sandbox = await open(t);
  const kernel = await sandbox.kernel();
  const cell = kernel.runCode('import time; time.sleep(60)');
  const outcome = assert.rejects(cell, { code: 'ERR_SANDBOX_CLOSED' });
  await sandbox.close();
  await outcome;
  await assert.rejects(kernel.runCode('1'), { code: 'ERR_SANDBOX_CLOSED' });
  await kernel.close();
});

// ---- Usage -----------------------------------------------------------------

test('usage of a cell is what its box used while it ran', async (t) => {
  const kernel = await (await open(t)).kernel();
  const spend = `import time
start = time.process_time()
block = bytearray(b'x') * (60 * 2**20)
while time.process_time() - start < 0.3: pass
del block
time.process_time() - start`;
  const heavy = await kernel.runCode(spend);
  const [spentS] = textsOf(heavy).map(Number);
  const light = await kernel.runCode('1');
  for (const { usage, durationMs } of [heavy, light]) {
    assert.equal(usage.wallMs, durationMs);
    for (const name of ['maxPids', 'ioReadBytes', 'ioWriteBytes']) {
      assert.equal(usage[name], null, name);
    }
  }
  if (!hasCgroups) {
    for (const { usage } of [heavy, light]) {
      assert.equal(usage.cpuMs, null);
      assert.equal(usage.maxMemoryBytes, null);
    }
    return;
  }
  // The kernel may count the last moments a little later.
  const { cpuMs } = heavy.usage;
  const shown = `${JSON.stringify(heavy.usage)} of ${spentS} s`;
  assert.ok(cpuMs >= spentS * 1000 - 20, shown);
  assert.ok(cpuMs <= heavy.durationMs * 2 + 20, shown);
  assert.ok(light.usage.cpuMs < cpuMs / 2, JSON.stringify(light.usage));
  if (heavy.usage.maxMemoryBytes !== null) {
    assert.ok(heavy.usage.maxMemoryBytes > 60 * 2 ** 20, shown);
    assert.ok(light.usage.maxMemoryBytes < 60 * 2 ** 20);
  }
  // What it started counts as well, whoever waited for it.
  const started = await kernel.runCode(`import subprocess, sys
child = subprocess.Popen([sys.executable, '-c', """import time
while time.process_time() < 0.3: pass
print('done', flush=True)
time.sleep(300)"""], stdout=subprocess.PIPE)
child.stdout.readline()`);
  assert.deepEqual(textsOf(started), ["b'done\\n'"]);
  assert.ok(started.usage.cpuMs >= 280, JSON.stringify(started.usage));
});

test('usage of a cell that costs the kernel is its own', async (t) => {
  const sandbox = await open(t);
  for (const [end, fault] of [
    ['import os; os._exit(3)', 'killed'],
    // In small pieces: a machine may have less than one large one.
    ['all = []\nwhile True: all.append(bytearray(b"x") * 2**20)', 'oom'],
    ['import ctypes; ctypes.CDLL(None).mount()', 'escape_blocked'],
  ]) {
    const kernel = await sandbox.kernel({ memoryMb: 200 });
    const before = await kernel.runCode(`import time
end = time.process_time() + ${0.5 * timeScale}
while time.process_time() < end: pass`);
    const cell = await kernel.runCode(end);
    assert.equal(cell.fault?.type, fault, end);
    const { cpuMs, maxMemoryBytes } = cell.usage;
    if (!hasCgroups) {
      assert.equal(cpuMs, null);
      continue;
    }
    // Linux before 6.12 tells no peak of a part with cgroup v2.
    if (fault === 'oom' && maxMemoryBytes !== null) {
      assert.ok(maxMemoryBytes > 150 * 2 ** 20);
    }
    assert.ok(cpuMs !== null && cpuMs < before.usage.cpuMs, `${end}: ${cpuMs}`);
  }
});
