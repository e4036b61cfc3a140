// SPDX-License-Identifier: Apache-2.0
'use strict';

// Group KRN in real boxes: in which order calls are served, and how kernels end:
// by deadlines, close() and being forgotten. Every promise settles in time.

const assert = require('node:assert/strict');
const {
  descendants,
  eventually,
  open,
  outside,
  soak,
  test,
  timeScale,
} = require('../helpers/harness.js');
const { dead } = require('./kernel-attack.js');

// ---- Order, ends and deadlines -------------------------------------------------

test('KRN-19 a hundred calls at once are served in order, each with its own reply', async (t) => {
  const kernel = await (await open(t)).kernel();
  const numbers = Array.from({ length: 100 }, (_, number) => number);
  const results = await Promise.all(
    numbers.map((number) =>
      kernel.runCode(
        number === 2
          ? 'while True: pass'
          : `seen = globals().get('seen', 0) + 1\nprint(seen)\n${number}`,
        { timeoutS: number === 2 ? 0.3 : 20 },
      ),
    ),
  );
  assert.equal(results[2].fault.type, 'timeout');
  const rest = results.filter((_, number) => number !== 2);
  assert.deepEqual(
    rest.map(({ results: [first] }) => first.text),
    numbers.filter((number) => number !== 2).map(String),
  );
  assert.deepEqual(
    rest.map(({ stdout }) => stdout),
    rest.map((_, index) => `${index + 1}\n`),
  );
});

test('KRN-19 those behind a cell that costs the interpreter are told so', async (t) => {
  const kernel = await (await open(t)).kernel();
  const swallow = `import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
while True: pass`;
  const cells = [0, 1, 2, 3, 4].map((number) =>
    kernel.runCode(number === 2 ? swallow : '1', { timeoutS: 0.5 }),
  );
  const outcomes = await Promise.allSettled(cells);
  assert.equal(outcomes[2].value.fault.type, 'timeout');
  for (const { reason } of outcomes.slice(3)) {
    assert.equal(reason.code, dead.code);
  }
});

test('KRN-20 a cell that ends with its deadline settles once, and leaves its kernel in order', async (t) => {
  const kernel = await (await open(t)).kernel();
  await kernel.runCode('import time\nx = 0');
  const rounds = soak ? 1000 : 60;
  let timeouts = 0;
  for (let round = 0; round < rounds; round++) {
    const result = await kernel.runCode('time.sleep(0.02)', {
      timeoutS: 0.021,
    });
    if (result.fault) timeouts++;
    assert.ok(result.fault === null || result.fault.type === 'timeout');
    const next = await kernel.runCode('x += 1; x');
    assert.equal(next.exitCode, 0, next.stderr);
    assert.equal(next.results[0].text, String(round + 1));
  }
  t.diagnostic(`${timeouts} of ${rounds} timed out`);
});

test('KRN-20 close() at any time settles everything', async (t) => {
  const sandbox = await open(t);
  for (const language of ['python', 'node', 'bash']) {
    const kernel = await sandbox.kernel({ language });
    const sleep = { python: 'import time; time.sleep(60)', bash: 'sleep 60' };
    const cell = kernel.runCode(sleep[language] ?? 'while (true) {}');
    const outcome = assert.rejects(cell, { code: 'ERR_SANDBOX_CLOSED' });
    const before = performance.now();
    await Promise.all([kernel.close(), kernel.close()]);
    assert.ok(performance.now() - before < 1000 * timeScale);
    await outcome;
    await kernel.close();
  }
  const kernel = await sandbox.kernel();
  await kernel.runCode('import os; os._exit(0)');
  await kernel.close();
});

test('KRN-22 the deadline is of the clock of the host', async (t) => {
  const sandbox = await open(t);
  for (const code of [
    'import signal; signal.setitimer(signal.ITIMER_REAL, 1000)\nwhile True: pass',
    'import time; time.time = time.monotonic = lambda: 0\nwhile True: pass',
    'import os, signal; os.kill(os.getpid(), signal.SIGSTOP)',
    'import os, signal; os.kill(os.getppid(), signal.SIGSTOP)\nwhile True: pass',
  ]) {
    const kernel = await sandbox.kernel();
    const result = await kernel.runCode(code, { timeoutS: 0.5 });
    assert.equal(result.fault.type, 'timeout', code);
    assert.ok(result.durationMs < 3000 * timeScale, code);
    await kernel.close();
  }
});

test('KRN-23 nothing that runs at an end holds close()', async (t) => {
  const sandbox = await open(t);
  for (const code of [
    'import atexit\n@atexit.register\ndef loop():\n    while True: pass',
    'class Loop:\n    def __del__(self):\n        while True: pass\nx = Loop()',
    'import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()',
  ]) {
    const kernel = await sandbox.kernel();
    await kernel.runCode(code);
    const before = performance.now();
    await kernel.close();
    const took = performance.now() - before;
    assert.ok(took < 1000 * timeScale, `${took} ms`);
  }
});

// ---- Many, and forgotten ones ----------------------------------------------------

test('CON-04 kernels, runs and snapshots of one session settle, whatever is closed when', async (t) => {
  const sandbox = await open(t);
  const [kernels, runs, snapshots] = soak ? [50, 50, 10] : [10, 10, 3];
  const file = `${process.env.TMPDIR}/con-04-`;
  const work = [
    ...Array.from({ length: kernels }, async (_, number) => {
      const language = ['python', 'bash', 'python', 'node'][number % 4];
      const kernel = await sandbox.kernel({ language });
      const cells = [kernel.runCode('1'), kernel.runCode('2')];
      if (number % 3 === 0) kernel.close();
      if (number % 5 === 1) kernel.interrupt();
      await Promise.allSettled(cells);
      await kernel.close();
    }),
    ...Array.from({ length: runs }, () => sandbox.run(['true'])),
    ...Array.from({ length: snapshots }, (_, number) =>
      sandbox.snapshot(`${file}${number}.tar.gz`),
    ),
  ];
  const outcomes = await Promise.allSettled(work);
  assert.deepEqual(
    outcomes.filter(({ status }) => status === 'rejected'),
    [],
  );
  const late = Array.from({ length: 5 }, () => sandbox.kernel());
  const closing = sandbox.close();
  for (const { reason, value } of await Promise.allSettled(late)) {
    assert.ok(value || /^ERR_SANDBOX_/.test(reason.code), `${reason}`);
  }
  await closing;
});

test('HST-08 a Kernel that is forgotten is closed when it is collected, with one warning', () => {
  const script = `
    const { Sandbox } = require(${JSON.stringify(require.resolve('../..'))});
    const { setTimeout: sleep } = require('node:timers/promises');
    const warnings = [];
    process.on('warning', ({ code }) => warnings.push(code));
    (async () => {
      const sandbox = await new Sandbox({ enforceLimits: false }).open();
      let closed = await sandbox.kernel({ language: 'bash' });
      await closed.close();
      closed = undefined;
      // One that somebody waits for is none that was forgotten.
      const held = await (async () => (await sandbox.kernel({ language: 'bash' })).runCode('sleep 0.5; echo held'))();
      console.log(held.stdout.trim());
      for (let i = 0; i < 100 && warnings.length === 0; i++) {
        await sleep(20);
        global.gc();
      }
      console.log(warnings.join());
      await sandbox.close();
      console.log('end');
    })();`;
  const { stdout, stderr } = outside([
    process.execPath,
    '--expose-gc',
    '-e',
    script,
  ]);
  assert.equal(stdout, 'held\nGLOVEBOX_UNCLOSED\nend\n', stderr);
});

test('HST-08 a Kernel whose call is on its way is not collected', () => {
  const script = `
    const { Sandbox } = require(${JSON.stringify(require.resolve('../..'))});
    (async () => {
      const sandbox = await new Sandbox({ enforceLimits: false }).open();
      const cell = (await sandbox.kernel({ language: 'bash' })).runCode('sleep 1; echo whole');
      const timer = setInterval(() => global.gc(), 20);
      console.log((await cell).stdout.trim());
      clearInterval(timer);
      await sandbox.close();
    })();`;
  const argv = [process.execPath, '--expose-gc', '-e', script];
  const { stdout, stderr } = outside(argv);
  assert.equal(stdout, 'whole\n', stderr);
});

test('close() ends a kernel, its supervisor and its copies', async (t) => {
  const kernel = await (await open(t)).kernel();
  await kernel.checkpoint();
  const isPython = ({ name }) => /^python/.test(name);
  const pythons = () => descendants().filter(isPython);
  await eventually(() => pythons().length === 3, 'there are others');
  await kernel.close();
  assert.deepEqual(pythons(), []);
});
