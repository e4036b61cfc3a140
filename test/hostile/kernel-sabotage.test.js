// SPDX-License-Identifier: Apache-2.0
'use strict';

// Group KRN in real boxes: what a cell does to its interpreter, to the children
// that it forks, and to the supervisor of its box. Nothing of it reaches the host
// or another kernel.

const assert = require('node:assert/strict');
const { open, test, timeScale } = require('../helpers/harness.js');
const { answerFd, assertUnharmed, check, dead } = require('./kernel-attack.js');

test('KRN-10 a forked child that goes on as the driver answers nothing', async (t) => {
  const kernel = await (await open(t)).kernel();
  await kernel.runCode('import os\nx = 41');
  for (let round = 0; round < 5; round++) {
    const result = await kernel.runCode('pid = os.fork()\npid');
    assert.equal(result.exitCode, 0);
    assert.notEqual(result.results.at(-1).text, '0');
  }
  const after = await kernel.runCode('x + 1');
  assert.equal(after.results[0].text, '42');
});

test('KRN-10 a forked child that comes back ends with the exit code of its cell', async (t) => {
  const sandbox = await open(t);
  const kernel = await sandbox.kernel();
  const endings = {
    'sys.exit(5)': 5,
    'raise ValueError("in the child")': 1,
    pass: 0,
    'exit("a message")': 1,
    'os._exit(6)': 6,
  };
  for (const [ending, exitCode] of Object.entries(endings)) {
    const code = `import os, sys
pid = os.fork()
if pid == 0: ${ending}
code = os.WEXITSTATUS(os.waitpid(pid, 0)[1]) if pid else 'of the child'
code`;
    for (const runner of [sandbox, kernel]) {
      const { results } = await runner.runCode(code);
      assert.equal(results[0].text, String(exitCode), ending);
    }
  }
  await check(kernel, 'the kernel goes on');
});

test('KRN-11 programs of a cell find stdin at its end, and no channel', async (t) => {
  const sandbox = await open(t);
  const kernel = await sandbox.kernel();
  const result = await kernel.runCode(
    "import subprocess\nsubprocess.run(['cat'], capture_output=True).stdout, " +
      "subprocess.run(['ls', '/proc/self/fd'], capture_output=True).stdout",
  );
  assert.equal(result.results[0].text, "(b'', b'0\\n1\\n2\\n3\\n')");
  const input = await kernel.runCode('input()');
  assert.equal(input.error.name, 'EOFError');
  const list = {
    bash: 'cat; ls /proc/self/fd',
    node: "const { execSync: run } = require('child_process'); process.stdout.write(run('cat; ls /proc/self/fd'))",
  };
  for (const [language, code] of Object.entries(list)) {
    // The first is a cold one; then interpreters wait.
    for (let round = 0; round < 6; round++) {
      const other = await sandbox.kernel({ language });
      const seen = [
        await other.runCode(code),
        await sandbox.runCode(code, { language }),
      ];
      for (const { stdout } of seen) {
        assert.equal(stdout, '0\n1\n2\n3\n', `${language} ${round}`);
      }
      await other.close();
    }
  }
  await check(kernel);
});

test('KRN-14 what a cell patches or ignores costs at most its interpreter', async (t) => {
  const sandbox = await open(t);
  for (const code of [
    'import json; json.dumps = lambda *_: "{}"',
    'import builtins; builtins.compile = None',
    'import sys; sys.stdout = None',
    'import io; io.StringIO = None',
    'import builtins; del builtins.__import__',
    'import threading; threading.Thread.start = None',
    'import sys\ndef loop(*_):\n    while True: pass\nsys.settrace(loop)',
    'import gc; gc.set_threshold(1)',
    'import signal\nfor n in signal.valid_signals() - {9, 19}: signal.signal(n, signal.SIG_IGN)',
    'import os; os.read = os.write = os.fork = os.kill = None',
    'import signal; signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())',
  ]) {
    const kernel = await sandbox.kernel({ timeoutS: 2 });
    const before = performance.now();
    await kernel.runCode(code);
    const next = await kernel.runCode('6 * 7').catch((error) => error);
    assert.ok(
      next.results?.[0]?.text === '42' || next.success !== true,
      `${code}: ${JSON.stringify(next)}`,
    );
    const loop = await kernel
      .runCode('while True: pass', { timeoutS: 0.3 })
      .catch((error) => error);
    assert.ok(loop.fault?.type === 'timeout' || loop.code === dead.code, code);
    assert.ok(performance.now() - before < 8000 * timeScale, code);
    await kernel.close();
  }
});

// What drivers of node and bash might call after a cell had its hands on it.
const patched = {
  node: [
    "JSON.stringify = () => '{}'",
    'JSON.parse = () => { throw 1; }',
    'Buffer.from = Buffer.concat = Buffer.alloc = null',
    'Promise.prototype.then = () => {}',
    'Array.prototype.push = Array.prototype.map = null',
    'globalThis.setTimeout = globalThis.setImmediate = null',
    "const fs = require('fs'); fs.writeSync = fs.readSync = null",
    "const net = require('net'); net.Socket.prototype.write = net.Socket.prototype.emit = null",
    "Object.defineProperty(Object.prototype, 'exitCode', { set() {}, get: () => 7 })",
    "process.removeAllListeners(); process.on('uncaughtException', () => {})",
    'process.exit = process.reallyExit = process.nextTick = null',
    "for (const name of ['SIGINT', 'SIGTERM']) process.on(name, () => {})",
  ],
  bash: [
    'printf() { :; }; read() { :; }; eval() { :; }; builtin() { :; }',
    'enable -n printf read eval builtin',
    "trap '' INT TERM HUP",
    'set -eu -o pipefail; shopt -s failglob',
    'exec > /dev/null 2> /dev/null < /dev/null',
    'unset PATH IFS BASH_ENV; IFS=0123456789',
    'readonly IFS REPLY',
    "trap 'while :; do :; done' DEBUG",
    'unset -v ${!__glovebox_*}',
  ],
};

const endless = { node: 'for (;;) {}', bash: 'while :; do :; done' };
const answers = { node: '6 * 7', bash: 'echo 42' };

for (const [language, codes] of Object.entries(patched)) {
  test(`KRN-14 what a cell of ${language} patches or ignores costs at most its interpreter`, async (t) => {
    const sandbox = await open(t);
    for (const code of codes) {
      const kernel = await sandbox.kernel({ language, timeoutS: 2 });
      const before = performance.now();
      await kernel.runCode(code).catch((error) => error);
      const next = await kernel
        .runCode(answers[language])
        .catch((error) => error);
      assert.ok(
        next instanceof Error || next.exitCode === 0 || next.success === false,
        `${code}: ${JSON.stringify(next)}`,
      );
      const loop = await kernel
        .runCode(endless[language], { timeoutS: 0.3 })
        .catch((error) => error);
      const isOver = /timeout|killed/.test(loop.fault?.type);
      assert.ok(isOver || /^ERR_SANDBOX_/.test(loop.code), `${code}: ${loop}`);
      assert.ok(performance.now() - before < 8000 * timeScale, code);
      await kernel.close();
      assertUnharmed(code);
    }
    const kernel = await sandbox.kernel({ language });
    const twin = await kernel.runCode(answers[language]);
    assert.match(`${twin.stdout}${twin.results[0]?.text}`, /42/);
  });
}

test('KRN-14 an exception whose class lies about itself ends its cell alone', async (t) => {
  const sandbox = await open(t);
  const kernel = await sandbox.kernel();
  const code = `class Liar(type):
    __name__ = property(lambda self: 1 / 0)
    def __instancecheck__(self, other): 1 / 0
class Lie(Exception, metaclass=Liar):
    __traceback__ = __cause__ = __context__ = property(lambda self: 1 / 0)
    def __str__(self): 1 / 0
raise Lie`;
  for (const runner of [sandbox, kernel]) {
    const { exitCode, error, fault, stderr } = await runner.runCode(code);
    assert.equal(exitCode, 1);
    assert.equal(fault, null);
    assert.equal(error.name, 'Lie');
    assert.ok(!stderr.includes('glovebox'), stderr);
  }
  await check(kernel, 'the kernel goes on');
});

test('KRN-14 a cell of bash that unsets all functions leaves the kernel its own', async (t) => {
  const kernel = await (await open(t)).kernel({ language: 'bash' });
  await kernel.runCode('mine() { echo mine; }');
  await kernel.runCode('unset -f $(compgen -A function)');
  const { exitCode, stdout } = await kernel.runCode('mine; echo still');
  assert.deepEqual([exitCode, stdout], [0, 'still\n']);
});

// ---- The supervisor --------------------------------------------------------------

test('KRN what a cell does to its supervisor ends its own kernel', async (t) => {
  const sandbox = await open(t);
  for (const [title, code] of Object.entries({
    killed: 'import os; os.kill(os.getppid(), 9)\nwhile True: pass',
    'killed with all': 'import os; os.kill(-1, 9)\nwhile True: pass',
    'told to end it': 'import os; os.kill(os.getppid(), 15)\nwhile True: pass',
  })) {
    const kernel = await sandbox.kernel();
    const result = await kernel.runCode(code, { timeoutS: 5 });
    assert.equal(result.fault.type, 'killed', title);
    assert.ok(result.durationMs < 4000 * timeScale, title);
    await assert.rejects(kernel.runCode('1'), dead, title);
    await kernel.close();
  }
});

test('KRN rubbish and forged requests to the supervisor change nothing that counts', async (t) => {
  const kernel = await (await open(t)).kernel();
  await kernel.runCode(`import os, signal
pipes = [fd for fd in map(int, os.listdir('/proc/self/fd')) if fd > ${answerFd}]
for fd in pipes:
    for junk in (b'x' * 5000, b'\\nmade 1 1\\nmade 7 %d\\n' % os.getppid(), b'drop\\nsync 1 2 3\\n\\xff\\n'):
        try: os.write(fd, junk)
        except OSError: pass
    os.kill(os.getppid(), signal.SIGUSR1)`);
  await check(kernel);
  const result = await kernel.runCode('while True: pass', { timeoutS: 0.3 });
  assert.match(result.fault.message, /its state are kept$/);
  await check(kernel);
  await assert.rejects(kernel.rollback(7), { code: 'ERR_SANDBOX_CHECKPOINT' });
  await check(kernel);
});

test('KRN sleeping copies that are killed are missed only by who goes back to them', async (t) => {
  const kernel = await (await open(t)).kernel();
  await kernel.runCode('import os\nx = 41');
  const id = await kernel.checkpoint();
  await kernel.runCode(`import time
others = set(filter(str.isdigit, os.listdir('/proc'))) - {'1', str(os.getpid()), str(os.getppid())}
for pid in others: os.kill(int(pid), 9)
while others & set(os.listdir('/proc')): time.sleep(0.01)`);
  await assert.rejects(kernel.rollback(id), { code: 'ERR_SANDBOX_CHECKPOINT' });
  const after = await kernel.runCode('x + 1');
  assert.equal(after.results[0].text, '42');
  // With none left, a crash is the end.
  await kernel.runCode('os._exit(1)');
  await assert.rejects(kernel.rollback(id));
});

test('KRN a sleeping copy that dies while it is gone back to costs no state', async (t) => {
  const kernel = await (await open(t)).kernel();
  // It takes a while to let go of so much.
  await kernel.runCode("import os\nx = 41\nheld = b'x' * (200 << 20)");
  for (let round = 0; round < 5; round++) {
    const id = await kernel.checkpoint();
    await kernel.runCode(`
others = set(filter(str.isdigit, os.listdir('/proc'))) - {'1', str(os.getpid()), str(os.getppid())}
for pid in others: os.kill(int(pid), 9)`);
    await assert.rejects(kernel.rollback(id), {
      code: 'ERR_SANDBOX_CHECKPOINT',
    });
    const after = await kernel.runCode('x + 1');
    assert.equal(after.results[0]?.text, '42', after.fault?.message);
  }
});
