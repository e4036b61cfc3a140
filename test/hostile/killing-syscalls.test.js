// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rows SYS: the system calls that end a box, whoever makes them and how.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const path = require('node:path');
const {
  open,
  outside,
  skip,
  soak,
  test,
  timeScale,
} = require('../helpers/harness.js');
const { makeArm32Program } = require('./arm32.js');
const {
  assertBlocked,
  assertFinished,
  compile,
  hasCompiler,
  isX64,
  numbers,
  place,
  placeCaller,
  prelude,
} = require('./attack.js');

const needsCompiler = { skip: !hasCompiler() && 'there is no C compiler' };
const needsX64 = {
  skip:
    needsCompiler.skip || (!isX64 && 'these ways into the kernel are x86 only'),
};
const bash = { language: 'bash' };
const mount = numbers.mount;
// As arguments they make every call fail that gets through.
const minusOnes = [-1, -1, -1, -1, -1, -1];

test(
  'SYS-02 calls that change the running kernel end the box',
  needsCompiler,
  async (t) => {
    const caller = await placeCaller(await open(t));
    const names = `kexec_load kexec_file_load init_module finit_module
    delete_module reboot swapon swapoff bpf acct iopl ioperm`.split(/\s+/);
    for (const name of names.filter((name) => name in numbers)) {
      const result = await caller.inside(name, ...minusOnes);
      assertBlocked(result, name);
      assert.equal(result.fault.syscall, name);
      assert.match(caller.outside(name, ...minusOnes), /^-1 \d+$/, name);
    }
  },
);

test('SYS-07 the i386 entry ends the box', needsX64, async (t) => {
  const sandbox = await open(t);
  const program = await place(sandbox, 'int80');
  const calls = { getpid: 20, mount: 21, socketcall: 102 };
  for (const [name, number] of Object.entries(calls)) {
    const result = await sandbox.run([program, String(number)]);
    assertBlocked(result, `int 0x80, ${name}`);
    assert.equal(result.fault.syscall, name);
    assert.equal(result.stdout, '');
  }
  const twin = outside([compile('int80'), String(calls.getpid)]);
  assert.match(twin.stdout, /^[1-9]\d*\n$/, 'this kernel serves it');
});

test('SYS-07 a call of a 32-bit ARM program ends the box', {
  skip: process.arch !== 'arm64' && 'these programs are run by arm64 only',
}, async (t) => {
  const sandbox = await open(t);
  const calls = { getpid: 20, mount: 21, ptrace: 26 };
  for (const [name, number] of Object.entries(calls)) {
    await sandbox.writeFile(name, makeArm32Program(number));
    const program = path.join(sandbox.workspace, name);
    fs.chmodSync(program, 0o755);
    const twin = outside([program]);
    if (twin.exitCode === null) {
      skip(t, 'this processor does not run them');
      return;
    }
    const result = await sandbox.run([`./${name}`]);
    assertBlocked(result, name);
    assert.equal(result.fault.syscall, name);
  }
});

test('SYS-08 x32 calls end the box', needsX64, async (t) => {
  const caller = await placeCaller(await open(t));
  const [x32, getpid, x32Execve] = [0x40000000, 39, 520];
  for (const number of [mount, getpid, x32Execve]) {
    const result = await caller.inside(x32 | number, ...minusOnes);
    assertBlocked(result, `x32 ${number}`);
    assert.equal(result.stdout, '');
  }
  assert.match(caller.outside(x32 | getpid), /^(-1 38|[1-9]\d* 0)$/);
});

test(
  'SYS-10 a forbidden call of a second thread ends the box at once',
  needsCompiler,
  async (t) => {
    const sandbox = await open(t);
    const program = await place(sandbox, 'thread');
    const result = await sandbox.run([program, String(mount)]);
    assertBlocked(result, 'while the main thread sleeps');
    assert.equal(result.stdout, '');
    assert.ok(result.durationMs < 5000 * timeScale, `${result.durationMs} ms`);

    const python = await sandbox.runCode(`${prelude}
import threading
threading.Thread(target=call, args=('mount', 0, 0, 0, 0, 0)).start()
time.sleep(1000)`);
    assertBlocked(python, 'of Python');

    const twin = spawn(compile('thread'), [String(mount)]);
    t.after(() => twin.kill());
    const [said] = await once(twin.stdout, 'data');
    assert.equal(String(said), 'the call returned\n');
    assert.equal(twin.exitCode, null, 'it goes on');
  },
);

test(
  'ATK a thread that makes a forbidden call while another executes gets nowhere',
  needsCompiler,
  async (t) => {
    const sandbox = await open(t);
    const program = await place(sandbox, 'thread');
    for (let i = 0; i < (soak ? 1000 : 30); i++) {
      const result = await sandbox.run([program, String(mount), 'exec']);
      // Who comes first is open; the call never comes back.
      if (result.fault) assertBlocked(result, 'the call first');
      else assertFinished(result, 'exec first');
      assert.equal(result.stdout, '');
    }
  },
);

test(
  'ATK a forbidden call of any descendant ends the box',
  needsCompiler,
  async (t) => {
    const sandbox = await open(t);
    const caller = await place(sandbox, 'call');
    const call = `${caller} ${mount} -1 -1 -1 -1 -1`;
    const scripts = {
      'a grandchild in a session of its own': `(setsid ${call} &); sleep 1000`,
      'sixty at the same time': `for i in $(seq 60); do ${call} & done; wait; echo survived`,
      'behind a pipe': `echo x | (${call}; cat) | cat; echo survived`,
    };
    for (const [title, script] of Object.entries(scripts)) {
      const result = await sandbox.runCode(script, bash);
      assertBlocked(result, title);
      assert.ok(!result.stdout.includes('survived'), title);
    }
  },
);

test(
  'ATK a forbidden call of a grandchild, when the main process ends, gets nowhere',
  needsCompiler,
  async (t) => {
    const sandbox = await open(t);
    const caller = await place(sandbox, 'call');
    for (let i = 0; i < (soak ? 1000 : 30); i++) {
      const result = await sandbox.runCode(
        `for i in 1 2 3; do (setsid ${caller} ${mount} -1 &); done; exit 0`,
        bash,
      );
      if (result.fault) assertBlocked(result, 'the call first');
      else assertFinished(result, 'the end first');
      assert.equal(result.stdout, '');
    }
  },
);

test('ATK SIGSYS can be neither caught, ignored nor blocked', async (t) => {
  const sandbox = await open(t);
  const ways = [
    'signal.signal(signal.SIGSYS, signal.SIG_IGN)',
    'signal.signal(signal.SIGSYS, lambda *_: None)',
    'signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))',
  ];
  for (const way of ways) {
    const result = await sandbox.runCode(`${prelude}
import signal
${way}
call('mount', 0, 0, 0, 0, 0)
print('survived')`);
    assertBlocked(result, way);
    assert.equal(result.stdout, '');
  }
});

test(
  'ATK signals that interrupt a forbidden call make it neither succeed nor pass',
  needsCompiler,
  async (t) => {
    const sandbox = await open(t);
    const program = await place(sandbox, 'signals');
    // A storm may take back some before anybody has looked; it is no way through.
    for (const words of [['10000'], ['1000000000', 'storm']]) {
      for (let i = 0; i < (soak ? 200 : 5); i++) {
        const result = await sandbox.run([program, String(mount), ...words]);
        assertBlocked(result, `${words}`);
        assert.equal(result.stdout, 'begin\n');
      }
    }
    const twin = outside([compile('signals'), String(mount), '1']);
    assert.match(twin.stdout, /^begin\nreturned -1 \d+\n$/);
  },
);
