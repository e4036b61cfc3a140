// SPDX-License-Identifier: Apache-2.0
'use strict';

// interrupt(), restart(), checkpoint() and rollback() of Kernels.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const {
  busyDescendants,
  eventually,
  open,
  skip,
  test,
} = require('../helpers/harness.js');

/** The text of the last result of a cell that ended well. */
async function resultOf(kernel, code) {
  const result = await kernel.runCode(code);
  assert.equal(result.stderr, '', code);
  assert.equal(result.exitCode, 0, code);
  return result.results.at(-1)?.text;
}

/**
 * Interrupts a cell once it has printed something, and runs the program that it
 * waits for: a shell that is about to start one takes SIGINT for a matter of that
 * program, which is not there yet.
 */
async function interruptOf(kernel, code) {
  const interrupt = async () => {
    if (/sleep'?,? '?100/.test(code)) {
      await eventually(
        () => busyDescendants().some(({ name }) => name === 'sleep'),
        'it does not sleep',
      );
    }
    return kernel.interrupt();
  };
  let wasRunning;
  const result = await kernel.runCode(code, {
    onStdout: () => {
      wasRunning ??= interrupt();
    },
  });
  assert.equal(await wasRunning, true, `${code}: ${JSON.stringify(result)}`);
  return result;
}

const swallow = `import time
print('up')
while True:
    try:
        while True: time.sleep(0.01)
    except BaseException: pass`;

// ---- interrupt() -------------------------------------------------------------

const endless = {
  python: [
    "print('up')\nwhile True: pass",
    "import time\nprint('up')\ntime.sleep(100)",
    "import asyncio\nprint('up')\nawait asyncio.sleep(100)",
    "import subprocess\nprint('up')\nsubprocess.run(['sleep', '100'])",
    "import threading\nprint('up')\nthreading.Event().wait()",
    "while True: print('up')",
  ],
  node: [
    "console.log('up'); while (true) {}",
    // Not at once: for some microseconds between both ways of node to meet a
    // SIGINT it has none.
    "setTimeout(() => console.log('up'), 20); await new Promise(() => {})",
    "console.log('up'); (async () => { while (true) await null })()",
    "console.log('up'); process.nextTick(() => { for (;;); })",
    "console.log('up'); queueMicrotask(() => { for (;;); })",
    "new (require('async_hooks').AsyncResource)('x').runInAsyncScope(() => { console.log('up'); for (;;); })",
    "({ [Symbol.for('Jupyter.display')]() { console.log('up'); for (;;); } })",
    "require('child_process').execSync('sleep 100 & echo up; wait', { stdio: 'inherit' })",
    "for (;;) console.log('up')",
  ],
  bash: [
    'echo up; while :; do :; done; echo not',
    'echo up; sleep 100; echo not\necho not',
    'f() { g; echo not; }; g() { while sleep 1; do :; done; }; echo up; f; echo not',
    'echo up; y=$(sleep 100); echo not',
    'echo up; sleep 100 | cat; echo not',
    'while :; do echo up; done',
    'for i in 1 2; do for j in 1 2; do echo up; sleep 100; done; echo not; done',
  ],
};
const setState = { python: 'x = 41', node: 'const x = 41', bash: 'x=41' };
const readState = {
  python: 'print(x + 1)',
  node: 'console.log(x + 1)',
  bash: 'echo $((x + 1))',
};

for (const [language, cells] of Object.entries(endless)) {
  test(`interrupt() ends a cell of ${language} with 130, and the state stays`, async (t) => {
    const kernel = await (await open(t)).kernel({ language });
    await kernel.runCode(setState[language]);
    for (const code of cells) {
      const result = await interruptOf(kernel, code);
      assert.equal(result.exitCode, 130, code);
      assert.match(result.stdout, /^(?:up\n)+(?:up?)?$/, code);
      assert.equal(result.fault, null, code);
      const after = await kernel.runCode(readState[language]);
      assert.equal(after.stdout, '42\n', code);
      assert.equal(after.exitCode, 0, code);
    }
  });

  test(`a timeout of ${language} interrupts and keeps the state, also one that comes before the cell begins`, async (t) => {
    const kernel = await (await open(t)).kernel({ language });
    await kernel.runCode(setState[language]);
    for (const timeoutS of [0.001, 0.002, 0.01, 0.2]) {
      const result = await kernel.runCode(cells[0], { timeoutS });
      assert.equal(result.fault.type, 'timeout');
      assert.match(result.fault.message, /its state are kept$/);
      assert.equal(result.exitCode, 130);
      const after = await kernel.runCode(readState[language]);
      assert.equal(after.stdout, '42\n');
    }
  });

  test(`an interrupt of ${language} with no cell does nothing, and hits no later cell`, async (t) => {
    const kernel = await (await open(t)).kernel({ language });
    assert.equal(await kernel.interrupt(), false);
    await kernel.runCode(setState[language]);
    // Some come while the cell ends.
    for (let round = 0; round < 30; round++) {
      const cell = kernel.runCode(readState[language]);
      kernel.interrupt();
      const first = await cell;
      const { exitCode } = first;
      assert.ok(exitCode === 0 || exitCode === 130, JSON.stringify(first));
      kernel.interrupt();
      const after = await kernel.runCode(readState[language]);
      assert.equal(after.stdout, '42\n', `${after.exitCode}: ${after.stderr}`);
      assert.equal(after.exitCode, 0, after.stderr);
    }
    await kernel.close();
    assert.equal(await kernel.interrupt(), false);
  });
}

test('SIGINT at any time ends no interpreter of node', async (t) => {
  const kernel = await (await open(t)).kernel({ language: 'node' });
  const started = await kernel.runCode(`${setState.node}
const { spawn } = require('child_process');
const wait = 'while [ ! -e /tmp/go ]; do sleep 0.01; done; ';
const storm = spawn('sh', ['-c', wait + 'while kill -INT $PPID; do :; done']);`);
  assert.equal(started.stderr, '');
  await kernel.runCode("require('fs').writeFileSync('/tmp/go', '')");
  for (let round = 0; round < 200; round++) {
    const { exitCode, signal } = await kernel.runCode('1');
    assert.ok(exitCode === 0 || exitCode === 130, `${exitCode} ${signal}`);
  }
  await eventually(
    async () => (await kernel.runCode("storm.kill('SIGKILL')")).exitCode === 0,
    'it is ended each time',
  );
  await eventually(
    async () => (await kernel.runCode(readState.node)).stdout === '42\n',
    'the state is gone',
  );
});

test('what a cell of node throws in a callback of Node ends the cell, not the kernel', async (t) => {
  const kernel = await (await open(t)).kernel({ language: 'node' });
  await kernel.runCode(setState.node);
  const never = 'await new Promise(() => {})';
  for (const [code, exitCode] of [
    [`process.nextTick(() => { throw new Error('late') }); ${never}`, 1],
    [`queueMicrotask(() => { throw new Error('late') }); ${never}`, 1],
    [`process.nextTick(() => process.exit(3)); ${never}`, 3],
    ["process.nextTick(() => { throw new Error('late') }); 1", 1],
    ["Promise.reject(new Error('late')); 1", 1],
  ]) {
    const result = await kernel.runCode(code);
    assert.equal(result.exitCode, exitCode, code);
    if (exitCode === 1) assert.equal(result.error.message, 'late', code);
    assert.equal((await kernel.runCode(readState.node)).stdout, '42\n', code);
  }
});

const ending = {
  python: [
    "print('up')\nfor i in range(3000): pass",
    "print('up')\nimport asyncio\nawait asyncio.sleep(0.001)",
    "print('up')\nfor i in range(9): display('x' * 100000)",
  ],
  node: [
    "console.log('up'); for (let i = 0; i < 200; i++) await null; 5",
    "console.log('up'); (async () => { for (let i = 0; i < 200; i++) await null })()",
    "console.log('up'); for (let i = 0; i < 9; i++) display('x'.repeat(100000)); 5",
    "console.log('up'); await new Promise((resolve) => setTimeout(resolve, 1))",
  ],
  bash: [
    'echo up; for i in {1..50}; do :; done',
    'f() { g; }; g() { for i in {1..50}; do :; done; }; echo up; f',
  ],
};

for (const [language, cells] of Object.entries(ending)) {
  test(`an interrupt of ${language} at any moment around the end of a cell ends that cell alone`, async (t) => {
    const kernel = await (await open(t)).kernel({ language });
    await kernel.runCode(setState[language]);
    for (let round = 0; round < 300; round++) {
      const code = cells[round % cells.length];
      let interrupted;
      const result = await kernel.runCode(code, {
        onStdout: () => {
          // The moment differs by what is done before it.
          for (let step = 0; step < round * 100; step++) Math.random();
          interrupted ??= kernel.interrupt();
        },
      });
      await interrupted;
      assert.ok([0, 130].includes(result.exitCode), JSON.stringify(result));
      const after = await kernel.runCode(readState[language]);
      assert.equal(after.stdout, '42\n', `${code}: ${JSON.stringify(after)}`);
    }
  });
}

test('an interrupt that comes as the awaited value is there leaves nothing in the event loop', async (t) => {
  const kernel = await (await open(t)).kernel();
  // Ready before what tells the loop that the cell has ended.
  const result = await kernel.runCode(`import asyncio
def interrupt(): raise KeyboardInterrupt
asyncio.get_running_loop().call_soon(interrupt)
await asyncio.sleep(0)
asyncio.get_running_loop().call_soon(interrupt)`);
  assert.equal(result.exitCode, 130, result.stderr);
  assert.equal(
    await resultOf(kernel, "await asyncio.sleep(0.01, 'ok')"),
    "'ok'",
  );
  const last = await kernel.runCode(`await asyncio.sleep(0)
asyncio.get_running_loop().call_soon(interrupt)`);
  assert.equal(last.exitCode, 130, last.stderr);
  assert.equal(
    await resultOf(kernel, "await asyncio.sleep(0.01, 'ok')"),
    "'ok'",
  );
});

test('an error of python where a cell has not quite begun has no line', async (t) => {
  const kernel = await (await open(t)).kernel();
  const { error, exitCode } = await kernel.runCode(
    `code = compile('raise ValueError(1)', '<cell 1>', 'exec')
exec(code.replace(co_firstlineno=0))`,
  );
  assert.equal(exitCode, 1);
  assert.equal(error.name, 'ValueError');
  assert.equal(error.line, null);
  assert.equal(await resultOf(kernel, '6 * 7'), '42');
});

test('a signal handler of python that raises while a value is shown leaves no signal blocked', async (t) => {
  const kernel = await (await open(t)).kernel();
  const result = await kernel.runCode(`import signal
def handle(*_): raise KeyError
signal.signal(signal.SIGALRM, handle)
for i in range(20000):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.00001 + i % 40 / 1000000)
        display(1)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyError: pass
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    if blocked: break
(i, len(blocked))`);
  assert.equal(result.stderr, '');
  assert.equal(
    await resultOf(kernel, 'len(blocked)'),
    '0',
    `i = ${await resultOf(kernel, 'i')}`,
  );
});

test('a listener of SIGINT of the code hears of those that the code sends to itself', async (t) => {
  const kernel = await (await open(t)).kernel({ language: 'node' });
  const listen =
    "process.once('SIGINT', (name) => { console.log(name); go() });";
  const send = "process.kill(process.pid, 'SIGINT');";
  for (const cell of [
    `await new Promise((go) => { ${listen} ${send} })`,
    `await new Promise((go) => { ${listen} setTimeout(() => { ${send} }) })`,
  ]) {
    const result = await kernel.runCode(cell);
    assert.equal(result.stdout, 'SIGINT\n', result.stderr);
    assert.equal(result.exitCode, 0);
  }
  // It may be there from an earlier cell.
  await kernel.runCode(`let go; const heard = new Promise((resolve) => { go = resolve });
${listen}`);
  const result = await kernel.runCode(`${send} await heard`);
  assert.equal(result.stdout, 'SIGINT\n', result.stderr);
  // Without one it is what it is anywhere: an interrupt.
  assert.equal((await kernel.runCode(`${send} for (;;);`)).exitCode, 130);
});

test('an interrupt in a callback of Node is no error that the code hears of', async (t) => {
  const kernel = await (await open(t)).kernel({ language: 'node' });
  await kernel.runCode(`${setState.node}
const heard = [];
process.on('uncaughtExceptionMonitor', (error) => heard.push(error.message));
process.setUncaughtExceptionCaptureCallback((error) => heard.push(error.message));`);
  for (const code of endless.node.filter((cell) => /nextTick/.test(cell))) {
    assert.equal((await interruptOf(kernel, code)).exitCode, 130);
    const after = await kernel.runCode(readState.node);
    assert.equal(after.stdout, '42\n', code);
  }
  assert.equal(await resultOf(kernel, 'heard.length'), '0');
});

test('an interrupt in the run() of an AsyncLocalStorage leaves no value of it', async (t) => {
  const kernel = await (await open(t)).kernel({ language: 'node' });
  await kernel.runCode(`const { AsyncLocalStorage } = require('async_hooks');
const storage = new AsyncLocalStorage()`);
  const result = await interruptOf(
    kernel,
    "storage.run('left', () => { console.log('up'); for (;;); })",
  );
  assert.equal(result.exitCode, 130);
  const look = 'storage.getStore() === undefined';
  assert.equal(await resultOf(kernel, look), 'true');
  const later = 'await new Promise((resolve) => setTimeout(resolve, 1));';
  assert.equal(await resultOf(kernel, `${later} ${look}`), 'true');
});

test('a listener of SIGINT of the code hears of an interrupt in the event loop', async (t) => {
  const kernel = await (await open(t)).kernel({ language: 'node' });
  const result = await kernel.runCode(
    `process.on('SIGINT', () => console.log('heard'));
setTimeout(() => console.log('up'), 1);
await new Promise((resolve) => setTimeout(resolve, 60_000));`,
    { onStdout: () => kernel.interrupt() },
  );
  assert.equal(result.exitCode, 130, result.stderr);
  assert.equal(result.stdout, 'up\nheard\n');
});

test('a SIGINT that the code sends between cells does nothing', async (t) => {
  const sandbox = await open(t);
  const kernel = await sandbox.kernel();
  await kernel.runCode(
    `import os, signal, threading, time
def send():
    while not os.path.exists('go'): time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)
    open('sent', 'w').close()
threading.Thread(target=send).start()`,
  );
  await sandbox.writeFile('go', '');
  await eventually(
    () => fs.existsSync(path.join(sandbox.workspace, 'sent')),
    'it sends none',
  );
  assert.equal(await resultOf(kernel, '6 * 7'), '42');
  // In a cell it is what it is anywhere.
  const result = await kernel.runCode('os.kill(os.getpid(), signal.SIGINT)');
  assert.equal(result.error.name, 'KeyboardInterrupt');
  assert.equal(await resultOf(kernel, '6 * 7'), '42');
});

test('a SIGINT of the code that is handled when the next cell has come does nothing to that', async (t) => {
  const sandbox = await open(t);
  const file = path.join(sandbox.workspace, 'sent');
  await sandbox.writeFile('sent', '0');
  const kernel = await sandbox.kernel();
  // From the signal to the end of the sum nothing gives the main thread a turn.
  await kernel.runCode(
    `import mmap, os, signal, threading, time
sent = mmap.mmap(os.open('sent', os.O_RDWR), 1)
def send():
    while not os.path.exists('go'): time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT); sent[0] = 49; sum(range(20_000_000))
threading.Thread(target=send).start()`,
  );
  await sandbox.writeFile('go', '');
  await eventually(
    () => fs.readFileSync(file, 'utf8') === '1',
    'it sends none',
  );
  assert.equal(await resultOf(kernel, '6 * 7'), '42');
});

test('code that handles an interrupt goes on', async (t) => {
  const kernel = await (await open(t)).kernel();
  const result = await interruptOf(
    kernel,
    "import time\ntry:\n    print('up')\n    time.sleep(60)\n" +
      'except KeyboardInterrupt:\n    caught = True\ncaught',
  );
  assert.equal(result.exitCode, 0);
  assert.equal(result.results[0].text, 'True');
});

test('a program that a cell waits for in os.system() is interrupted too', async (t) => {
  const kernel = await (await open(t)).kernel();
  const before = performance.now();
  const result = await interruptOf(
    kernel,
    "import os\nos.system('echo up; sleep 100')",
  );
  // system(3) ignores SIGINT meanwhile, so the cell may go on, as in a terminal.
  assert.ok([0, 130].includes(result.exitCode), `${result.exitCode}`);
  assert.ok(performance.now() - before < 20000);
});

// What of a cell's code runs when the last line of the cell has: drawing the
// figures that it left open can take longer than all else.
const after = {
  'the drawing of a figure': `import sys
class Figure:
    def get_children(self): return 1, 2
    def _repr_png_(self): endless()
class pyplot:
    open = [Figure()]
    def get_fignums(): return list(range(len(pyplot.open)))
    def figure(number): return pyplot.open[number]
    def close(figure): pyplot.open.remove(figure)
sys.modules['matplotlib.pyplot'] = pyplot`,
  'the text of an exception': `class Slow(Exception):
    def __str__(self): endless()
raise Slow`,
  'the text of an exit': `import sys
class Message:
    def __str__(self): endless()
sys.exit(Message())`,
  'the flush of a stream of its own': `import sys
class Stream:
    def write(self, text): return len(text)
    def flush(self): endless()
sys.stdout = Stream()`,
};

for (const [what, code] of Object.entries(after)) {
  test(`an interrupt ends ${what}, and so does a timeout`, async (t) => {
    const kernel = await (await open(t)).kernel();
    await kernel.runCode(`import sys
def endless(stdout=sys.stdout):
    print('up', file=stdout)
    while True: pass
x = 41`);
    const interrupted = await interruptOf(kernel, code);
    assert.equal(interrupted.exitCode, 130);
    assert.equal(interrupted.error.name, 'KeyboardInterrupt');
    const late = await kernel.runCode(code, { timeoutS: 0.3 });
    assert.match(late.fault.message, /its state are kept/);
    await kernel.runCode('sys.stdout = sys.__stdout__');
    assert.equal(await resultOf(kernel, 'x + 1'), '42');
  });
}

test('an interrupt shows the lines that await', async (t) => {
  const kernel = await (await open(t)).kernel();
  const { error } = await interruptOf(
    kernel,
    `import asyncio
async def wait():
    asyncio.get_running_loop().call_soon(print, 'up')
    await asyncio.Event().wait()

await wait()`,
  );
  assert.equal(error.name, 'KeyboardInterrupt');
  const [, first] = error.traceback.split(/\n(?= {2}File)/);
  assert.match(
    first,
    /^ {2}File "<cell 1>", line 6, in <module>\n {4}await wait/,
  );
  assert.match(error.traceback, /line 4, in wait\n {4}await asyncio.Event/);
  assert.ok(!error.traceback.includes('run_until_complete'));
  assert.equal(error.line, 4);
});

test('an interrupt is no matter of cells that wait', async (t) => {
  const kernel = await (await open(t)).kernel();
  const waiting = [];
  const first = await kernel.runCode("print('up')\nwhile True: pass", {
    onStdout: () => {
      waiting.push(kernel.runCode('1 + 1'), kernel.runCode('2 + 2'));
      kernel.interrupt();
    },
  });
  assert.equal(first.exitCode, 130);
  const results = await Promise.all(waiting);
  assert.deepEqual(
    results.map((result) => result.results[0].text),
    ['2', '4'],
  );
});

// ---- restart() -----------------------------------------------------------------

for (const language of ['python', 'node', 'bash']) {
  test(`restart() of ${language} gives a fresh interpreter, also to a dead kernel`, async (t) => {
    const kernel = await (await open(t)).kernel({ language });
    await kernel.runCode(setState[language]);
    await kernel.restart();
    const after = await kernel.runCode(
      language === 'bash' ? 'echo "[$x]"' : readState[language],
    );
    if (language === 'bash') assert.equal(after.stdout, '[]\n');
    else assert.match(after.error.name, /^(?:Name|Reference)Error$/);
    await kernel.runCode(
      {
        python: 'import os; os.abort()',
        node: 'process.abort()',
        bash: 'exit 3',
      }[language],
    );
    assert.equal(kernel.isAlive, false);
    await assert.rejects(kernel.runCode('1'), {
      code: 'ERR_SANDBOX_KERNEL_DEAD',
    });
    await kernel.restart();
    assert.equal(kernel.isAlive, true);
    await kernel.runCode(setState[language]);
    assert.equal((await kernel.runCode(readState[language])).stdout, '42\n');
  });
}

test('restart() rejects the cells from before it, and those after it wait', async (t) => {
  const kernel = await (await open(t)).kernel();
  const before = [kernel.runCode('while True: pass'), kernel.runCode('1')];
  const outcomes = Promise.allSettled(before);
  const restarting = [kernel.restart(), kernel.restart()];
  const after = kernel.runCode('6 * 7');
  await Promise.all(restarting);
  for (const { reason } of await outcomes) {
    assert.equal(reason.code, 'ERR_SANDBOX_KERNEL_DEAD');
    assert.match(reason.message, /it was restarted .* again\.$/);
  }
  assert.equal((await after).results[0].text, '42');
  await kernel.close();
  await assert.rejects(kernel.restart(), { code: 'ERR_SANDBOX_CLOSED' });
});

test('close() while it restarts ends both', async (t) => {
  const kernel = await (await open(t)).kernel();
  const outcome = assert.rejects(kernel.restart(), {
    code: 'ERR_SANDBOX_CLOSED',
  });
  await kernel.close();
  await outcome;
  await assert.rejects(kernel.runCode('1'), { code: 'ERR_SANDBOX_CLOSED' });
});

// ---- checkpoint() and rollback() --------------------------------------------------

const hasCtypes = (t) => {
  const python = spawnSync('python3', ['-c', 'import ctypes']);
  if (python.status !== 0) skip(t, 'the python of this host has no ctypes');
  return python.status === 0;
};

test('rollback() brings back what was in memory, as often as it is asked', async (t) => {
  if (!hasCtypes(t)) return;
  const kernel = await (await open(t)).kernel();
  await kernel.runCode('import random, asyncio\nrandom.seed(1)\nx = [1]');
  await kernel.runCode('await asyncio.sleep(0)');
  const first = await kernel.checkpoint();
  const drawn = await resultOf(kernel, 'x.append(2); random.random()');
  const second = await kernel.checkpoint();
  await kernel.runCode("x = 'other'");
  for (let round = 0; round < 3; round++) {
    await kernel.rollback(first);
    assert.equal(await resultOf(kernel, 'x'), '[1]');
    assert.equal(await resultOf(kernel, 'random.random()'), drawn);
    assert.equal(
      await resultOf(kernel, "await asyncio.sleep(0, 'ok')"),
      "'ok'",
    );
    await kernel.rollback(second);
    assert.equal(await resultOf(kernel, 'x'), '[1, 2]');
    await kernel.runCode('del x');
  }
});

test('rollback() works after every death of the interpreter that leaves the box', async (t) => {
  if (!hasCtypes(t)) return;
  const kernel = await (await open(t)).kernel();
  await kernel.runCode('import os, signal, ctypes\nx = 41');
  const id = await kernel.checkpoint();
  const deaths = [
    ['ctypes.string_at(0)', 'SIGSEGV'],
    ['os._exit(3)', null],
    ['os.abort()', 'SIGABRT'],
    ['os.kill(os.getpid(), signal.SIGKILL)', 'SIGKILL'],
    ['os.closerange(3, 1000)', null],
  ];
  for (const [code, signal] of deaths) {
    const result = await kernel.runCode(code);
    assert.equal(result.exitCode, -1, code);
    assert.equal(result.signal, signal, code);
    assert.equal(result.fault.type, 'killed', code);
    assert.match(result.fault.message, /rollback\(\)/, code);
    assert.equal(kernel.isAlive, false);
    await assert.rejects(kernel.runCode('1'), {
      code: 'ERR_SANDBOX_KERNEL_DEAD',
      message: /rollback\(\)/,
    });
    const before = performance.now();
    await kernel.rollback(id);
    t.diagnostic(
      `${code}: back in ${(performance.now() - before).toFixed(1)} ms`,
    );
    assert.equal(kernel.isAlive, true);
    assert.equal(await resultOf(kernel, 'x + 1'), '42', code);
  }
  const stuck = await kernel.runCode(swallow, { timeoutS: 0.3 });
  assert.equal(stuck.fault.type, 'timeout');
  assert.equal(stuck.exitCode, 137);
  await kernel.rollback(id);
  assert.equal(await resultOf(kernel, 'x + 1'), '42');
});

test('a crash in the middle of a result leaves nothing behind in the channel', async (t) => {
  if (!hasCtypes(t)) return;
  const kernel = await (await open(t)).kernel();
  const id = await kernel.checkpoint();
  // More than the pipe holds: the thread kills while it is written.
  const result = await kernel.runCode(
    'import os, threading\n' +
      'threading.Timer(0.05, os.kill, (os.getpid(), 9)).start()\n' +
      "while True: display('x' * 5000000)",
  );
  assert.equal(result.exitCode, -1);
  assert.equal(result.signal, 'SIGKILL');
  await kernel.rollback(id);
  assert.equal(await resultOf(kernel, '6 * 7'), '42');
});

test("a kernel with checkpoint: 'each' loses a cell that crashes, and nothing else", async (t) => {
  if (!hasCtypes(t)) return;
  const kernel = await (await open(t)).kernel({ checkpoint: 'each' });
  await kernel.runCode('x = 1');
  await kernel.runCode('x += 1');
  for (const code of [
    "x = 'lost'; import os; os._exit(1)",
    `x = 3\n${swallow}`,
  ]) {
    const cells = [
      kernel.runCode(code, { timeoutS: 1 }),
      kernel.runCode('x += 1; x'),
      kernel.runCode('x -= 1; x'),
    ];
    const [crashed, next, last] = await Promise.all(cells);
    assert.match(crashed.fault.message, /that of before this cell again$/);
    assert.equal(next.results[0].text, '3');
    assert.equal(last.results[0].text, '2');
  }
  const interrupted = await kernel.runCode('x = 5\nwhile True: pass', {
    timeoutS: 1,
  });
  assert.match(interrupted.fault.message, /its state are kept$/);
  assert.equal(await resultOf(kernel, 'x'), '5');
});

test('there are 16 checkpoints, and what is none is refused', async (t) => {
  if (!hasCtypes(t)) return;
  const kernel = await (await open(t)).kernel();
  const ids = [];
  for (let number = 0; number < 18; number++) {
    await kernel.runCode(`x = ${number}`);
    ids.push(await kernel.checkpoint());
  }
  const gone = {
    code: 'ERR_SANDBOX_CHECKPOINT',
    message: /no such checkpoint/,
  };
  await assert.rejects(kernel.rollback(ids[0]), gone);
  await assert.rejects(kernel.rollback(ids[1]), gone);
  await assert.rejects(kernel.rollback(12345), gone);
  for (const wrong of [undefined, null, '1', 0, -1, 1.5, {}]) {
    await assert.rejects(kernel.rollback(wrong), {
      code: 'ERR_SANDBOX_INVALID_OPTION',
      option: 'id',
    });
  }
  // None of that cost the state.
  assert.equal(await resultOf(kernel, 'x'), '17');
  await kernel.rollback(ids[2]);
  assert.equal(await resultOf(kernel, 'x'), '2');
  // Those that were dropped are on their way out.
  const count = `import os
def pythons():
    count = 0
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try: count += open('/proc/%s/comm' % pid).read().startswith('python')
        except OSError: pass
    return count
while pythons() > 18: pass
pythons()`;
  assert.equal(await resultOf(kernel, count), '18');
  await kernel.restart();
  await assert.rejects(kernel.rollback(ids[2]), gone);
});

test('a checkpoint that finds no room is refused, and the state stays', async (t) => {
  if (!hasCtypes(t)) return;
  const kernel = await (await open(t)).kernel({ pids: 6 });
  await kernel.runCode('x = 41');
  await assert.rejects(
    async () => {
      for (;;) await kernel.checkpoint();
    },
    { code: 'ERR_SANDBOX_CHECKPOINT', message: /no room/ },
  );
  assert.equal(await resultOf(kernel, 'x + 1'), '42');
});

test('after rollback() asyncio has threads', async (t) => {
  const kernel = await (await open(t)).kernel();
  const code = `import asyncio
await asyncio.get_running_loop().run_in_executor(None, lambda: 42)`;
  assert.equal(await resultOf(kernel, code), '42');
  await kernel.rollback(await kernel.checkpoint());
  assert.equal(await resultOf(kernel, code), '42');
});

test('a process that waits for its children does not meet a copy', async (t) => {
  if (!hasCtypes(t)) return;
  const kernel = await (await open(t)).kernel();
  await kernel.checkpoint();
  const result = await kernel.runCode('import os\nos.wait()', { timeoutS: 5 });
  assert.equal(result.error.name, 'ChildProcessError');
});

test('checkpoints of node and bash are refused by name', async (t) => {
  const sandbox = await open(t);
  for (const language of ['node', 'bash']) {
    const kernel = await sandbox.kernel({ language });
    const refused = {
      code: 'ERR_SANDBOX_CHECKPOINT',
      message: new RegExp(`kernel of ${language} has no checkpoints`),
    };
    await assert.rejects(kernel.checkpoint(), refused);
    await assert.rejects(kernel.rollback(1), refused);
    await assert.rejects(sandbox.kernel({ language, checkpoint: 'each' }), {
      code: 'ERR_SANDBOX_INVALID_OPTION',
      option: 'checkpoint',
    });
  }
});
