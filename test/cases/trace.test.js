// SPDX-License-Identifier: Apache-2.0
'use strict';

// `trace: "blocked"`: which call was it that the sandbox refused?

const assert = require('node:assert/strict');
const {
  descendants,
  open,
  outside,
  soak,
  test,
  timeScale,
} = require('../helpers/harness.js');
const {
  ask,
  assertBlocked,
  assertFinished,
  compile,
  hasCompiler,
  numbers,
  place,
  prelude,
} = require('../hostile/attack.js');

const needsCompiler = { skip: !hasCompiler() && 'there is no C compiler' };
const traced = { trace: 'blocked' };

/** Runs Python with the prelude; what was refused, but for thread starts. */
async function blockedBy(sandbox, code, options = traced) {
  const result = await sandbox.runCode(`${prelude}\n${code}`, options);
  assertFinished(result);
  return result.blocked.filter(({ syscall }) => syscall !== 'clone3');
}

// ---- What is told ----------------------------------------------------------

test('a program that is not permitted something is told apart by call and errno', async (t) => {
  const sandbox = await open(t);
  const result = await sandbox.runCode(
    `${prelude}
import socket, threading
print(attempt(os.chroot, '/'))
print(attempt(socket.socket, 40, socket.SOCK_STREAM))
for _ in range(3): print(call(998))
print(call('io_uring_setup', 1, 0))
print(call(457))
thread = threading.Thread(target=print, args=['thread'])
thread.start()
thread.join()`,
    traced,
  );
  assertFinished(result);
  assert.deepEqual(result.stdout.split('\n').slice(0, -1), [
    'EPERM',
    'EAFNOSUPPORT',
    ...['ENOSYS', 'ENOSYS', 'ENOSYS'],
    'ENOSYS',
    'ENOSYS',
    'thread',
  ]);
  assert.deepEqual(result.blocked, [
    { syscall: '998', errno: 'ENOSYS', count: 3 },
    { syscall: 'chroot', errno: 'EPERM', count: 1 },
    // A libc that starts a thread tries it first.
    { syscall: 'clone3', errno: 'ENOSYS', count: 1 },
    { syscall: 'io_uring_setup', errno: 'ENOSYS', count: 1 },
    { syscall: 'socket', errno: 'EAFNOSUPPORT', count: 1 },
    { syscall: 'statmount', errno: 'ENOSYS', count: 1 },
  ]);
});

test('one call with two answers is listed twice, by its arguments', async (t) => {
  const blocked = await blockedBy(
    await open(t),
    `import socket
print(attempt(socket.socket, socket.AF_INET, socket.SOCK_RAW))
print(attempt(socket.socket, 38, socket.SOCK_SEQPACKET))`,
  );
  assert.deepEqual(blocked, [
    { syscall: 'socket', errno: 'EAFNOSUPPORT', count: 1 },
    { syscall: 'socket', errno: 'EPERM', count: 1 },
  ]);
});

test('what only the kernel refuses is not in the list', async (t) => {
  const blocked = await blockedBy(
    await open(t),
    `print(attempt(os.mkdir, '/usr/x'), attempt(os.setuid, 0),
      attempt(open, '/nothing'))`,
  );
  assert.deepEqual(blocked, []);
});

test('a program that is refused nothing has an empty list', async (t) => {
  const result = await (await open(t)).run(['true'], traced);
  assert.deepEqual(result.blocked, []);
  assert.equal(result.exitCode, 0);
});

test('a program that cannot be executed has a list too', async (t) => {
  const result = await (await open(t)).run(['/nothing'], traced);
  assert.equal(result.exitCode, 127);
  assert.deepEqual(result.blocked, []);
});

test('every one of many calls is counted, in all processes and threads', async (t) => {
  const blocked = await blockedBy(
    await open(t),
    `import threading
def many():
    for _ in range(1000): call('chroot', b'/')
threads = [threading.Thread(target=many) for _ in range(4)]
for thread in threads: thread.start()
for _ in range(4):
    if os.fork() == 0:
        many()
        os._exit(0)
for thread in threads: thread.join()
for _ in range(4): os.wait()`,
  );
  assert.deepEqual(blocked, [
    { syscall: 'chroot', errno: 'EPERM', count: 8000 },
  ]);
});

test('a program that tries every number has the first 128 and a sum', async (t) => {
  const result = await (await open(t)).runCode(
    `${prelude}
for number in range(1000, 2000): call(number)`,
    traced,
  );
  assertFinished(result);
  assert.equal(result.blocked.length, 129);
  const counts = result.blocked.map(({ count }) => count);
  const sum = counts.reduce((a, b) => a + b);
  assert.ok(sum >= 1000, `${sum}`);
  const others = result.blocked.at(-1);
  assert.equal(others.syscall, 'others');
  assert.equal(others.errno, null);
  assert.ok(others.count >= 872, `${others.count}`);
});

test('without trace there is no list', async (t) => {
  const plain = await open(t);
  assert.ok(!('blocked' in (await plain.run(['true']))));
  const session = await open(t, traced);
  assert.deepEqual((await session.run(['true'])).blocked, []);
  assert.ok(!('blocked' in (await session.run(['true'], { trace: null }))));
  assert.deepEqual((await session.run(['true'])).blocked, []);
});

test('node and bash are traced as well', async (t) => {
  const sandbox = await open(t, traced);
  const node = await sandbox.runCode('console.log(1)', { language: 'node' });
  assertFinished(node);
  const clone3 = node.blocked.find(({ syscall }) => syscall === 'clone3');
  assert.ok(clone3.count > 1, 'node starts threads');
  const bash = await sandbox.runCode('chroot / true; hostname x; true', {
    language: 'bash',
  });
  assert.deepEqual(
    bash.blocked.filter(({ errno }) => errno === 'EPERM'),
    [
      { syscall: 'chroot', errno: 'EPERM', count: 1 },
      { syscall: 'sethostname', errno: 'EPERM', count: 1 },
    ],
  );
});

// ---- The answer is the same ------------------------------------------------

// Each with arguments that do no harm should the call get through.
const attempts = `
import itertools
TRIES = [(name, -1, -1, -1, -1, -1, -1) for name in (
  'add_key adjtimex chroot clock_adjtime clock_settime clone3 fanotify_init '
  'io_setup io_uring_enter io_uring_register io_uring_setup ioprio_set kcmp '
  'keyctl landlock_create_ruleset memfd_secret mlock mq_open name_to_handle_at '
  'open_by_handle_at openat2 perf_event_open personality pidfd_getfd '
  'pidfd_open prlimit64 process_madvise process_mrelease process_vm_readv '
  'process_vm_writev ptrace quotactl request_key seccomp setdomainname '
  'sethostname setpriority setresuid settimeofday shmget statx syslog '
  'unshare_nothing userfaultfd vhangup').split() if name in NUMBERS]
TRIES += [(number, -1, -1, -1, -1, -1, -1) for number in range(448, 466)]
TRIES += [(number, 0, 0, 0) for number in (500, 999, 123456, 0x3fffffff)]
TRIES += [('socket', family | high, kind, 0)
          for family, kind, high in itertools.product(
            range(46), (1, 2, 3, 4, 5, 10), (0, 1 << 32))]
TRIES += [('fcntl', 99, command, 0) for command in (
  *range(0, 50), *range(1020, 1050), 1024 | 1 << 32, -1)]
TRIES += [('ioctl', 99, request, 0) for request in (
  0x5401, 0x5412, 0x541c, 0x5412 | 1 << 32, 0x80045412)]
TRIES += [('personality', value) for value in (8, 0x40000, 0x20000, 0xffffffff)]
TRIES += [('unshare', value) for value in (0, 0x200000, 1 << 40)]
TRIES += [('prlimit64', pid, 0, 0, 0) for pid in (0, 1, 1 << 32 | 1)]
answer = [f'{one}: {result if isinstance(result, str) else "passed"}'
          for one in TRIES for result in [call(*one)]]`;

test('every call gets the same answer with trace as without', async (t) => {
  const sandbox = await open(t);
  const plain = await ask(sandbox, attempts);
  const result = await ask(sandbox, attempts, traced);
  assert.ok(plain.length > 700, `${plain.length}`);
  assert.deepEqual(result, plain);
  for (const errno of ['EPERM', 'ENOSYS', 'EAFNOSUPPORT', 'ESOCKTNOSUPPORT']) {
    assert.ok(
      plain.some((line) => line.endsWith(`: ${errno}`)),
      errno,
    );
  }
});

test('a call of the kill set ends a traced box as any other', async (t) => {
  const sandbox = await open(t, traced);
  for (const name of ['mount', 'setns', 'bpf']) {
    const result = await sandbox.runCode(
      `${prelude}
call('chroot', b'/')
call('${name}', -1, -1, -1, -1, -1)`,
    );
    assertBlocked(result, name);
    assert.equal(result.fault.syscall, name);
    const refused = result.blocked.map(({ syscall }) => syscall);
    assert.deepEqual(refused, ['chroot']);
  }
});

test(
  'signals neither let a call through nor leave it waiting',
  needsCompiler,
  async (t) => {
    const sandbox = await open(t, traced);
    const program = await place(sandbox, 'signals');
    // A forbidden one: it may be interrupted, and never returns otherwise.
    const killed = await sandbox.run([
      ...[program, numbers.mount, 100000].map(String),
      'storm',
    ]);
    assertBlocked(killed, 'mount');
    // A refused one returns with its errno, the first time that it can.
    const refused = await sandbox.run(
      [program, numbers.chroot, 100000].map(String),
    );
    assert.equal(refused.stdout, 'begin\nreturned -1 1\n');
    assert.equal(refused.fault, null);
  },
);

test(
  'a box may not listen to itself, traced or not',
  needsCompiler,
  async (t) => {
    const sandbox = await open(t);
    const program = await place(sandbox, 'filters');
    for (const options of [{}, traced]) {
      const result = await sandbox.run([program, 'listener', '0'], options);
      assert.equal(result.stdout, '-1 1\n');
    }
  },
);

test(
  'a filter of the code itself stays in front of the trace',
  needsCompiler,
  async (t) => {
    const sandbox = await open(t, traced);
    const program = await place(sandbox, 'filters');
    const EXDEV = 18;
    const own = await sandbox.run([program, 'errno', String(numbers.chroot)]);
    assert.match(own.stdout, new RegExp(`^-1 ${EXDEV}\n$`));
    assert.deepEqual(own.blocked, []);
    const other = await sandbox.run([program, 'allow', String(numbers.chroot)]);
    assert.equal(other.stdout, '-1 1\n');
    assert.deepEqual(other.blocked, [
      { syscall: 'chroot', errno: 'EPERM', count: 1 },
    ]);
  },
);

// ---- Kernels ---------------------------------------------------------------

test('each cell of a Kernel has its own list', async (t) => {
  const kernel = await (await open(t)).kernel(traced);
  await kernel.runCode(prelude);
  const chroot = await kernel.runCode(
    "for _ in range(5): call('chroot', b'/')",
  );
  assert.deepEqual(chroot.blocked, [
    { syscall: 'chroot', errno: 'EPERM', count: 5 },
  ]);
  const nothing = await kernel.runCode('1 + 1');
  assert.equal(nothing.results[0].text, '2');
  assert.deepEqual(nothing.blocked, []);
  const raised = await kernel.runCode('call(998)\n1 / 0');
  assert.equal(raised.error.name, 'ZeroDivisionError');
  assert.deepEqual(raised.blocked, [
    { syscall: '998', errno: 'ENOSYS', count: 1 },
  ]);
  const many = await Promise.all(
    [1, 2, 3].map((count) =>
      kernel.runCode(`for _ in range(${count}): call(997)`),
    ),
  );
  const counts = many.map(({ blocked }) => blocked[0].count);
  assert.deepEqual(counts, [1, 2, 3]);

  const killed = await kernel.runCode(
    "call(998)\ncall('mount', 0, 0, 0, 0, 0)",
  );
  assertBlocked(killed, 'mount');
  assert.deepEqual(killed.blocked, [
    { syscall: '998', errno: 'ENOSYS', count: 1 },
  ]);
});

test('a cell that is stopped at its deadline has its list', async (t) => {
  const kernel = await (await open(t)).kernel(traced);
  const cell = await kernel.runCode(
    `${prelude}\ncall(998)\nwhile True: time.sleep(1)`,
    { timeoutS: 1 },
  );
  assert.equal(cell.fault.type, 'timeout');
  assert.deepEqual(cell.blocked, [
    { syscall: '998', errno: 'ENOSYS', count: 1 },
  ]);
});

test('closing a traced Kernel in its cell ends it at once', async (t) => {
  const sandbox = await open(t);
  const kernel = await sandbox.kernel(traced);
  const cell = kernel.runCode(`${prelude}\nwhile True: call(998)`);
  const rejected = assert.rejects(cell, { code: 'ERR_SANDBOX_CLOSED' });
  await kernel.close();
  await rejected;
});

test('a cell whose calls nobody can tell of has no list, not an empty one', async (t) => {
  if (!soak) {
    t.skip('the patience is 15 s: GLOVEBOX_SOAK=1');
    return;
  }
  const kernel = await (await open(t)).kernel(traced);
  const [keeper] = descendants().filter(({ ppid }) => ppid === process.pid);
  const [launcher] = descendants(keeper.pid);
  const cell = kernel.runCode('import time\ntime.sleep(0.5)');
  process.kill(launcher.pid, 'SIGSTOP');
  const result = await cell.finally(() =>
    process.kill(launcher.pid, 'SIGCONT'),
  );
  assert.equal(result.fault.type, 'killed');
  assert.ok(!('blocked' in result));
});

// ---- Others ----------------------------------------------------------------

test('a box that makes refused calls without a pause holds up no other', async (t) => {
  const sandbox = await open(t);
  let began;
  const flooding = new Promise((resolve) => {
    began = resolve;
  });
  const flood = sandbox.runCode(
    `${prelude}
for _ in range(60):
    if os.fork() == 0: break
print('READY', flush=True)
while True: libc.syscall(998)`,
    { ...traced, timeoutS: 2, onStdout: began },
  );
  await flooding;
  const limits = { timeoutS: 2 };
  const kernel = await sandbox.kernel();
  for (let i = 0; i < 5; i++) {
    const result = await sandbox.run(['true'], limits);
    assertFinished(result, `call ${i}`);
    assert.ok(result.durationMs < 1000 * timeScale, `${result.durationMs} ms`);
    assertFinished(await kernel.runCode('1', limits), `cell ${i}`);
  }
  const { fault, blocked, durationMs } = await flood;
  assert.equal(fault.type, 'timeout');
  assert.ok(durationMs < 4000 * timeScale, `${durationMs} ms`);
  assert.equal(blocked[0].syscall, '998');
  assert.ok(blocked[0].count > 1000, `${blocked[0].count}`);
});

test('many traced boxes at a time have each its own list', async (t) => {
  const sandbox = await open(t, traced);
  const counts = Array.from({ length: 8 }, (_, index) => index + 1);
  const lists = await Promise.all(
    counts.map((count) =>
      blockedBy(sandbox, `for _ in range(${count}): call(${1000 + count})`),
    ),
  );
  assert.deepEqual(
    lists,
    counts.map((count) => [
      { syscall: String(1000 + count), errno: 'ENOSYS', count },
    ]),
  );
});

// ---- Kernels of Linux that cannot ------------------------------------------

function runUnder(...words) {
  const script = `
    const { runCode } = require('./lib/index.js');
    runCode('import os\\ntry: os.chroot("/")\\nexcept OSError as e: print(e.errno)',
      { trace: 'blocked', enforceLimits: false })
      .then(({ stdout, blocked }) => JSON.stringify({ stdout, blocked }),
        ({ code, message }) => JSON.stringify({ code, message }))
      .then(console.log);`;
  const { stdout, stderr } = outside([
    ...words.map(String),
    ...[process.execPath, '--no-warnings', '-e', script],
  ]);
  assert.equal(stderr, '');
  return JSON.parse(stdout);
}

test(
  'where nobody may listen trace is refused, not answered with an empty list',
  needsCompiler,
  () => {
    const [getSizes, EINVAL] = [3, 22];
    for (const words of [
      [compile('without-seccomp'), getSizes, 0, EINVAL],
      [compile('listened')],
    ]) {
      const { code, message } = runUnder(...words);
      assert.equal(code, 'ERR_SANDBOX_UNSUPPORTED', words[0]);
      assert.match(message, /Leave `trace` out/);
    }
  },
);

test(
  'a kernel that cannot wait for an answer through signals traces all the same',
  needsCompiler,
  () => {
    const [setFilter, waitKillable, EINVAL] = [1, 32, 22];
    const { stdout, blocked } = runUnder(
      ...[compile('without-seccomp'), setFilter, waitKillable, EINVAL],
    );
    assert.equal(stdout, '1\n');
    assert.deepEqual(blocked, [
      { syscall: 'chroot', errno: 'EPERM', count: 1 },
    ]);
  },
);
