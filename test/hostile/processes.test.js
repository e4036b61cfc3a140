// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rows PRC: code that multiplies, hides, refuses to die, or speaks for us.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { monitorEventLoopDelay } = require('node:perf_hooks');
const {
  descendants,
  eventually,
  eventuallyWarm,
  hasCgroups,
  isRoot,
  leaves,
  open,
  skip,
  soak,
  test,
  timeScale,
} = require('../helpers/harness.js');
const { askScript } = require('../helpers/host-script.js');
const {
  ask,
  askOutside,
  assertFinished,
  compile,
  hasCompiler,
} = require('./attack.js');

const bash = { language: 'bash' };

/** Calls `look` again and again for as long as `call` takes. */
async function whileRunning(call, look) {
  const timer = setInterval(look, 25);
  try {
    return await call;
  } finally {
    clearInterval(timer);
  }
}

/**
 * Boxes of this process, each with its init and what else is in it: what an
 * interpreter outside has forked into a box is no child of its init.
 */
function boxes() {
  const found = new Map();
  for (const one of descendants()) {
    try {
      const space = fs.readlinkSync(`/proc/${one.pid}/ns/pid`);
      const status = fs.readFileSync(`/proc/${one.pid}/status`, 'utf8');
      const inner = /^NSpid:(.*)$/m.exec(status)[1].trim().split('\t');
      const box = found.get(space) ?? { inside: [] };
      found.set(space, box);
      box.depth = inner.length;
      if (inner.at(-1) === '1') box.init = one;
      else box.inside.push(one);
    } catch {
      // It ended meanwhile.
    }
  }
  // The launcher is an init as well, of the pid namespace around all of them.
  const deepest = Math.max(...[...found.values()].map(({ depth }) => depth));
  return [...found.values()].filter(({ depth }) => depth === deepest);
}

// ---- PRC-01, PRC-02, PRC-16 ------------------------------------------------

const bombs = {
  // The first shell stays: of the others each ends when it has made two.
  'of bash': [':(){ :|:& };:; while :; do :; done', bash],
  'that nobody waits for': [
    'import os\nwhile True:\n  try: os.fork()\n  except OSError: pass',
    {},
  ],
  'of threads': [
    `import threading, time
while True:
  try: threading.Thread(target=time.sleep, args=(100,)).start()
  except RuntimeError: pass`,
    {},
  ],
};

for (const [name, [code, options]] of Object.entries(bombs)) {
  test(`PRC-01 a fork bomb ${name} stays within pids, and the host answers`, async (t) => {
    const pids = 64;
    const sandbox = await open(t, { pids, maxOutputBytes: 4096 });
    const timeoutS = soak ? 10 : 1.5;
    const lag = monitorEventLoopDelay({ resolution: 5 });
    lag.enable();
    let most = 0;
    let before = [];
    const result = await whileRunning(
      sandbox.runCode(code, { ...options, timeoutS }),
      () => {
        // One look takes a while, in which tasks come and go: those that the
        // next one finds too have been there at once.
        const now = boxes().map(({ inside }) =>
          inside.flatMap(({ pid }) => tasksOf(pid)),
        );
        const last = new Set(before.flat());
        const counts = now.map(
          (tasks) => tasks.filter((task) => last.has(task)).length,
        );
        most = Math.max(most, ...counts);
        before = now;
      },
    );
    lag.disable();
    assert.ok(
      result.fault?.type === 'timeout' || result.fault === null,
      JSON.stringify(result.fault),
    );
    assert.ok(result.durationMs < (timeoutS + 5) * 1000 * timeScale);
    assert.ok(most <= pids, `${most} tasks at once`);
    // That of bash may be over between two looks: then it was refused a fork.
    const wasRefused = /fork/.test(result.stderr);
    assert.ok(most > 4 || wasRefused, `it was no bomb: ${most} tasks`);
    // The longest are this test's own looks.
    const median = lag.percentile(50) / 1e6;
    assert.ok(
      median < 200 * timeScale,
      `the event loop was late: ${median} ms`,
    );

    const start = performance.now();
    assertFinished(await sandbox.run(['true']));
    assert.ok(performance.now() - start < 2000 * timeScale);
    assert.deepEqual(
      boxes().filter(({ inside }) => inside.length > 1),
      [],
    );
  });
}

function tasksOf(pid) {
  try {
    return fs.readdirSync(`/proc/${pid}/task`);
  } catch {
    return []; // It ended meanwhile.
  }
}

for (const enforceLimits of [true, false]) {
  test(`PRC-02 the limit holds without a cgroup too, and as root (enforceLimits ${enforceLimits})`, async (t) => {
    const sandbox = await open(t, { pids: 20, enforceLimits });
    assert.equal(sandbox.limits.pids, 'kernel');
    const count = `
import signal
made = []
while True:
    pid = attempt(os.fork)
    if pid == 0: signal.pause()
    made.append(pid)
    if isinstance(pid, str) or len(made) > 60: break
for pid in made:
    if isinstance(pid, int): os.kill(pid, 9)
answer = [made[-1], len(made) - 1]`;
    const [error, children] = await ask(sandbox, count);
    assert.equal(error, 'EAGAIN');
    assert.ok(children >= 18 && children < 20, `${children} children`);
    // Outside nothing stops them.
    assert.equal(askOutside(count)[1], 60);
  });
}

test('PRC-16 the dead that nobody waits for count, and are gone with the box', async (t) => {
  const sandbox = await open(t, { pids: 64 });
  const [zombies, error] = await ask(
    sandbox,
    `
made = []
while len(made) < 200:
    pid = attempt(os.fork)
    if pid == 0: os._exit(0)
    made.append(pid)
    if isinstance(pid, str): break
def is_dead(pid):
    return isinstance(pid, int) and read('/proc/%d/stat' % pid).split()[2] == 'Z'
while sum(map(is_dead, made)) < len(made) - 1: time.sleep(0.001)
answer = [sum(map(is_dead, made)), made[-1]]`,
  );
  assert.equal(error, 'EAGAIN');
  assert.ok(zombies >= 62 && zombies < 64, `${zombies} zombies`);
  const dead = () => descendants().filter(({ state }) => state === 'Z');
  await eventually(
    () => dead().length === 0,
    () => `not reaped: ${JSON.stringify(dead())}`,
  );
});

// ---- PRC-04, PRC-05, PRC-07, PRC-08 ----------------------------------------

test('PRC-04 a daemon that left its session writes nothing any more when the call is over', async (t) => {
  const sandbox = await open(t);
  const result = await sandbox.runCode(`import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() != 0: os._exit(0)
    os.closerange(0, 100)
    os.chdir('/')
    n = 0
    while True:
        n += 1
        with open('/workspace/beat', 'w') as file: file.write(str(n))
        time.sleep(0.02)
os.wait()
def beat():
    try: return int(open('/workspace/beat').read() or 0)
    except OSError: return 0
while beat() < 3: time.sleep(0.005)
print('beats')`);
  const file = path.join(sandbox.workspace, 'beat');
  const look = () => [
    fs.readFileSync(file, 'utf8'),
    fs.statSync(file, { bigint: true }).mtimeNs,
  ];
  const atEnd = look();
  assertFinished(result);
  assert.equal(result.stdout, 'beats\n');
  // As long as ten beats took.
  assertFinished(await sandbox.run(['sleep', '0.2']));
  assert.deepEqual(look(), atEnd);
});

test('PRC-05 init of a box cannot be killed from inside, and kill(-1) stays inside', async (t) => {
  const [sandbox, other] = [await open(t), await open(t)];
  const neighbour = other.runCode('echo up; sleep 1; echo over', bash);
  const result = await sandbox.runCode(`import os, signal, subprocess, sys
children = [subprocess.Popen(['sleep', '100']) for _ in range(3)]
for number in set(signal.Signals):
    try: os.kill(1, number)
    except OSError as error: print(number, error)
os.kill(-1, signal.SIGKILL)
print([child.wait() for child in children], open('/proc/1/stat').read().split()[2])
sys.exit(7)`);
  assert.equal(result.stdout, '[-9, -9, -9] S\n', result.stderr);
  assert.deepEqual(
    [result.exitCode, result.signal, result.fault],
    [7, null, null],
  );
  const survivor = await neighbour;
  assertFinished(survivor);
  assert.equal(survivor.stdout, 'up\nover\n');
});

const stops = {
  itself: 'kill -STOP $$; echo went on',
  'everything it can':
    'sleep 100 & kill -STOP -1; kill -STOP $$ 1; echo went on',
  'its parent from a child':
    '(sleep 0.1; kill -STOP $PPID $$) & wait; sleep 100',
};

for (const [name, code] of Object.entries(stops)) {
  test(`PRC-07 code that stops ${name} ends at its time limit`, async (t) => {
    const sandbox = await open(t);
    const result = await sandbox.runCode(code, { ...bash, timeoutS: 0.5 });
    assert.equal(result.fault?.type, 'timeout');
    assert.equal(result.stdout, '');
    assert.ok(result.durationMs < 3000 * timeScale, `${result.durationMs} ms`);
  });
}

test('PRC-07 the same by kernel: the cell ends at its time limit, and its Kernel', async (t) => {
  const kernel = await (await open(t)).kernel();
  const stopped = await kernel.runCode(
    'import os, signal; os.kill(os.getpid(), signal.SIGSTOP)',
    { timeoutS: 0.5 },
  );
  assert.equal(stopped.fault?.type, 'timeout');
  await assert.rejects(kernel.runCode('1'), {
    code: 'ERR_SANDBOX_KERNEL_DEAD',
  });
});

test('PRC-03 ATK-01 code gives its parent no children, warm or cold', async (t) => {
  // The parent of a warm payload is the launcher, which serves all boxes.
  const code = `
CLONE_PARENT = 0x8000
def sibling(flags):
    result = call('clone', flags, 0, 0, 0, 0)
    if result == 0:
        os._exit(0)
    return result if isinstance(result, str) else 'made'
answer = [sibling(CLONE_PARENT | 17), sibling(CLONE_PARENT),
          sibling(1 << 32 | CLONE_PARENT | 17), sibling(17)]`;
  const refused = ['EINVAL', 'EINVAL', 'EINVAL', 'made'];
  const sandbox = await open(t, { warm: true });
  await eventuallyWarm(sandbox);
  assert.deepEqual(await ask(sandbox, code), refused);
  const cold = await open(t, { warm: false });
  assert.deepEqual(await ask(cold, code), refused);
  // Of a child of the code the parent is the code.
  const byChild = `
read_fd, write_fd = os.pipe()
if os.fork() == 0:
    ${code.trim().replaceAll('\n', '\n    ')}
    os.write(write_fd, json.dumps(answer).encode())
    os._exit(0)
answer = json.loads(os.read(read_fd, 4096))`;
  assert.deepEqual(await ask(sandbox, byChild), refused);
  assert.deepEqual(askOutside(byChild), ['made', 'made', 'made', 'made']);
});

test('PRC-08 a child in an endless vfork holds neither the call nor its box', async (t) => {
  // Between vfork and exec its parent sleeps so that signals do not wake it.
  const sandbox = await open(t);
  const result = await sandbox.runCode(`import ctypes, os, time
if os.fork() == 0:
    libc = ctypes.CDLL(None)
    if libc.vfork() == 0:
        libc.sleep(1000)
time.sleep(0.1)
print([open('/proc/%s/wchan' % p).read() for p in os.listdir('/proc') if p.isdigit()] and 'held')`);
  assertFinished(result);
  assert.equal(result.stdout, 'held\n');
  assert.deepEqual(
    boxes().filter(({ inside }) => inside.length > 1),
    [],
  );
});

function membersOf(leaf) {
  try {
    return fs.readFileSync(`${leaf}/cgroup.procs`, 'utf8').split('\n');
  } catch {
    return []; // It was that of a box that waited, and is gone.
  }
}

const freezer = '/sys/fs/cgroup/freezer';

test('PRC-08 a box that SIGKILL does not end lets its call go, and goes when it can', async (t) => {
  if (!isRoot || !hasCgroups || !fs.existsSync(freezer)) {
    t.skip('only a frozen cgroup v1 holds SIGKILL up, which takes root');
    return;
  }
  const frozen = path.join(freezer, `hostile-${process.pid}`);
  fs.mkdirSync(frozen);
  const thaw = () => fs.writeFileSync(`${frozen}/freezer.state`, 'THAWED');
  const emptied = () =>
    fs.readFileSync(`${frozen}/cgroup.procs`, 'utf8') === '';
  t.after(async () => {
    thaw();
    await eventually(emptied, 'the box is still there');
    fs.rmdirSync(frozen);
  });
  const sandbox = await open(t);
  const call = sandbox.runCode('echo up; sleep 100; echo no', {
    ...bash,
    timeoutS: 3 * timeScale,
  });
  let box;
  await eventually(() => {
    box = boxes().find(({ inside }) =>
      inside.some(({ name }) => name === 'sleep'),
    );
    return box !== undefined;
  }, 'it does not sleep');
  const leaf = leaves().find((folder) =>
    membersOf(folder).includes(String(box.init.pid)),
  );
  assert.ok(leaf, 'it has a cgroup');
  const frozenPids = [box.init, ...box.inside].map(({ pid }) => pid);
  for (const pid of frozenPids) {
    fs.writeFileSync(`${frozen}/cgroup.procs`, String(pid));
  }
  fs.writeFileSync(`${frozen}/freezer.state`, 'FROZEN');

  const result = await call;
  assert.equal(result.fault?.type, 'timeout');
  assert.equal(result.stdout, 'up\n');
  assert.ok(result.durationMs < 11000 * timeScale, `${result.durationMs} ms`);
  assert.ok(!emptied(), 'it was held up indeed');
  // Others do not notice, and nothing of it is left once it can die.
  assertFinished(await sandbox.run(['true']));
  thaw();
  await eventually(emptied, 'the box is still there');
  // The next box may have it.
  const isLeft = () => {
    try {
      const inLeaf = fs
        .readFileSync(`${leaf}/cgroup.procs`, 'utf8')
        .split('\n');
      return frozenPids.some((pid) => inLeaf.includes(String(pid)));
    } catch {
      return false;
    }
  };
  await eventually(() => !isLeft(), `something of it is in ${leaf}`);
});

// ---- PRC-10, PRC-11 --------------------------------------------------------

const ownSignals = [
  ['SIGSYS', 159, null],
  ['SIGKILL', 137, 'killed'],
  ['SIGSEGV', 139, null],
  ['SIGABRT', 134, null],
  ['SIGXCPU', 152, null],
];

test('PRC-10 a signal that code sends itself is reported and is the doing of no limit', async (t) => {
  const sandbox = await open(t, { memoryMb: 64 });
  for (const [signal, exitCode, fault] of ownSignals) {
    for (const [code, options] of [
      [`import os, signal; os.kill(os.getpid(), signal.${signal})`, {}],
      [`kill -${signal.slice(3)} $$`, bash],
    ]) {
      const result = await sandbox.runCode(code, options);
      assert.deepEqual(
        [result.exitCode, result.signal, result.fault?.type ?? null],
        [exitCode, signal, fault],
      );
    }
  }
});

test('PRC-11 output and exit codes that pretend to be ours are just that', async (t) => {
  const sandbox = await open(t);
  const claims = [
    'glovebox: The box could not be set up: clone3: EPERM',
    'ERR_SANDBOX_SETUP',
    '{"code":"SETUP","errno":1,"op":"clone3","detail":"x"}',
  ];
  for (const exitCode of [1, 2, 124, 125, 126, 127, 255]) {
    for (const claim of claims) {
      const result = await sandbox.run([
        'sh',
        '-c',
        'echo "$1"; echo "$1" >&2; exit $2',
        'sh',
        claim,
        String(exitCode),
      ]);
      assert.equal(result.stdout, `${claim}\n`);
      assert.equal(result.stderr, `${claim}\n`);
      assert.deepEqual(
        [result.exitCode, result.fault, result.error, result.signal],
        [exitCode, null, null, null],
      );
    }
  }
});

// ---- PRC-13 ----------------------------------------------------------------

test('PRC-13 signals that the host blocks or ignores are neither in a box', async (t) => {
  if (!hasCompiler()) return skip(t, 'there is no compiler');
  // Node itself starts with none blocked: a library of the host may block them
  // later, in the thread that starts what boxes come from.
  const answer = await askScript(t, 'signals-of-box.js', {
    folder: path.join(__dirname, 'fixtures'),
    env: {
      LD_PRELOAD: compile('blocked-signals', ['-shared', '-fPIC']),
    },
  });
  // Bit n-1 is signal n; 32 and 33 belong to the C library.
  const all = 0xfffffffe7ffbfeffn & ~(1n << 31n) & ~(1n << 32n);
  const isBlocked = (mask) => (BigInt(`0x${mask}`) & all) === all;
  assert.ok(answer.threads.some(isBlocked), `${answer.threads}`);
  for (const [name, { SigBlk, SigIgn }] of Object.entries(answer.boxes)) {
    assert.equal(BigInt(`0x${SigBlk}`), 0n, name);
    assert.equal(BigInt(`0x${SigIgn}`), 0n, name);
  }
  // What a signal does to code is what it should, and a time limit too.
  assert.equal(answer.terminated, 'SIGTERM');
  assert.equal(answer.late, 'timeout');
});

// ---- PRC-14 ----------------------------------------------------------------

test('PRC-14 children in any number leave no zombie in the box and do not slow it down', async (t) => {
  const sandbox = await open(t);
  const count = soak ? 100000 : 300;
  const answer = await ask(
    sandbox,
    `
def spans(make, count):
    started = time.monotonic()
    taken = []
    for part in range(10):
        for _ in range(count // 10): make()
        taken.append(time.monotonic() - started - sum(taken))
    return taken
def child():
    pid = os.fork()
    if pid == 0: os._exit(0)
    os.waitpid(pid, 0)
def orphan():
    pid = os.fork()
    if pid == 0:
        if os.fork() == 0: os._exit(0)
        os._exit(0)
    os.waitpid(pid, 0)
def zombies():
    states = [read('/proc/%s/stat' % name) for name in os.listdir('/proc') if name.isdigit()]
    return sum(') Z ' in state for state in states)
answer = {'children': spans(child, ${count}), 'orphans': spans(orphan, ${count / 2})}
# Those of the last moment are reaped by init, which takes its turn.
end = time.monotonic() + 10
while zombies() > 0 and time.monotonic() < end: time.sleep(0.005)
answer['zombies'] = zombies()`,
    { timeoutS: 3600 },
  );
  assert.equal(answer.zombies, 0);
  for (const spans of [answer.children, answer.orphans]) {
    const half = spans.slice(5).reduce((sum, span) => sum + span, 0);
    const first = spans.slice(0, 5).reduce((sum, span) => sum + span, 0);
    // Other tests run at the same time.
    assert.ok(half < first * 4 + 1, `${spans}`);
  }
});

// ---- PRC-17 ----------------------------------------------------------------

test('PRC-17 what cannot be executed is exit code 127 or 126 and says why', async (t) => {
  const sandbox = await open(t);
  const file = (name) => path.join(sandbox.workspace, name);
  const put = async (name, content, mode = 0o755) => {
    await sandbox.writeFile(name, content);
    fs.chmodSync(file(name), mode);
  };
  await put('no-interpreter', '#!/no/such/interpreter\n');
  await put('folder-interpreter', '#!/workspace\n');
  await put('loop-a', '#!/workspace/loop-b\n');
  await put('loop-b', '#!/workspace/loop-a\n');
  await put('plain', 'echo no program\n', 0o644);
  await put('text', 'echo no program\n');
  await put('empty', '');
  // Of a processor that is none of ours, and of ours cut off in the middle.
  const program = fs.readFileSync('/bin/true');
  const foreign = Buffer.from(program);
  foreign.writeUInt16LE(0x1234, 18);
  await put('foreign', foreign);
  await put('cut', program.subarray(0, 70));
  fs.symlinkSync('circle', file('circle'));
  fs.symlinkSync('nowhere', file('dangling'));
  fs.mkdirSync(file('folder'));
  assert.equal(spawnSync('mkfifo', ['-m', '777', file('fifo')]).status, 0);

  const expected = [
    ['no-such-program', 127, 'ENOENT'],
    ['./missing', 127, 'ENOENT'],
    ['./dangling', 127, 'ENOENT'],
    ['./no-interpreter', 127, 'ENOENT'],
    ['./folder-interpreter', 126, 'EACCES'],
    ['./loop-a', 126, 'ELOOP'],
    ['./circle', 126, 'ELOOP'],
    ['./plain', 126, 'EACCES'],
    ['./plain/below', 126, 'ENOTDIR'],
    ['./folder', 126, 'EACCES'],
    ['./fifo', 126, 'EACCES'],
    ['/dev/null', 126, 'EACCES'],
    ['./text', 126, 'ENOEXEC', /no format of a program/],
    ['./empty', 126, 'ENOEXEC'],
    ['./foreign', 126, 'ENOEXEC'],
    ['./cut', 126, ['ENOEXEC', 'EIO']],
    [`./${'x'.repeat(300)}`, 126, 'ENAMETOOLONG'],
  ];
  for (const [argv0, exitCode, names, words] of expected) {
    const result = await sandbox.run([argv0]);
    assert.deepEqual(
      [result.exitCode, result.success, result.fault, result.signal],
      [exitCode, false, null, null],
      argv0,
    );
    assert.ok([names].flat().includes(result.error.name), result.error.name);
    assert.match(result.error.message, /^cannot execute "/);
    if (words) assert.match(result.error.message, words);
    assert.ok(result.error.message.includes(argv0.slice(0, 20)));
    assert.equal(result.stdout + result.stderr, '');
  }
});
