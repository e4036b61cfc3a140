// SPDX-License-Identifier: Apache-2.0
'use strict';

// Interpreters that wait: nothing of a call is in the memory of the next one
// (leftovers.test.js has the rest), a payload that was forked is as confined as
// one that was executed, and the zygote can neither be reached nor missed.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { spawnSync } = require('node:child_process');
const {
  busyDescendants,
  descendants,
  eventually,
  eventuallyWarm,
  open,
  soak,
  test,
  timeScale,
} = require('../helpers/harness.js');
const { ask, assertBlocked, assertFinished } = require('./attack.js');

const readProgram = (name) =>
  fs.readFileSync(path.join(__dirname, 'programs', name), 'utf8');

const isWarm = `'join.so' in open('/proc/self/cmdline').read()`;

async function openWarm(t, options) {
  const sandbox = await open(t, options);
  await eventuallyWarm(sandbox);
  return sandbox;
}

/** How many pid namespaces deep a process is, from here. */
function depthOf(pid) {
  try {
    const status = fs.readFileSync(`/proc/${pid}/status`, 'utf8');
    return /^NSpid:(.*)$/m.exec(status)[1].trim().split('\t').length;
  } catch {
    return 0; // It ended meanwhile.
  }
}

/**
 * Those that fork, and none of what they forked: that has their name too at
 * first, but may have a call by the time that somebody looks at what we found.
 * It is in the pid namespace of a box, or a child that puts another there.
 */
function zygotes() {
  const named = descendants().filter(({ name }) => name === 'glovebox-zygote');
  const pids = named.map(({ pid }) => pid);
  return named.filter(
    ({ pid, ppid }) => !pids.includes(ppid) && depthOf(pid) === 2,
  );
}

function kill(pid, signal = 'SIGKILL') {
  try {
    process.kill(pid, signal);
  } catch {
    // It ended meanwhile.
  }
}

async function theZygote() {
  let found = [];
  await eventually(() => {
    found = zygotes();
    return found.length === 1;
  }, 'there is not one zygote');
  return found[0];
}

// ---- Nothing is left in memory -------------------------------------------------

// Finds it without having it: the two halves never lie side by side.
const search = `
halves = [bytes.fromhex(half) for half in ('HALF1', 'HALF2')]
found, looked = 0, 0
for line in open('/proc/self/maps').read().splitlines():
    area, rights = line.split()[:2]
    first, last = (int(end, 16) for end in area.split('-'))
    if rights[0] != 'r' or '[v' in line: continue
    with open('/proc/self/mem', 'rb', 0) as memory:
        for start in range(first, last, 1 << 20):
            try:
                memory.seek(start)
                block = memory.read(min((1 << 20) + 64, last - start))
            except (OSError, OverflowError, ValueError): continue
            looked += len(block)
            at = block.find(halves[0])
            while at >= 0:
                found += block[at + len(halves[0]):at + len(halves[0]) + len(halves[1])] == halves[1]
                at = block.find(halves[0], at + 1)
            del block
print(found, looked > 1 << 20, ${isWarm})`;

test('the memory of a warm call has nothing of the code, variables, stdin or output of one before it', async (t) => {
  const sandbox = await openWarm(t);
  for (const secret of ['env', 'code', 'stdin', 'file'].map(
    (name) => `${name}-${'a0b1c2d3e4f5a6b7'.split('').reverse().join('')}-end`,
  )) {
    const halves = [secret.slice(0, 9), secret.slice(9)].map((half) =>
      Buffer.from(half).toString('hex'),
    );
    const code = search.replace('HALF1', halves[0]).replace('HALF2', halves[1]);
    const twin = await sandbox.runCode(
      `import os, sys\nx = "${secret}"; y = sys.stdin.read()\nprint(x, y)\n${code}`,
      { env: { SECRET: secret }, stdin: secret },
    );
    assertFinished(twin);
    const [line] = twin.stdout.trim().split('\n').slice(-1);
    assert.match(line, /^[1-9]\d* True True$/, 'the one before has it');
    for (let i = 0; i < 3; i++) {
      const result = await sandbox.runCode(code);
      assertFinished(result);
      assert.equal(result.stdout, '0 True True\n');
    }
  }
});

// ---- As confined as a cold one ---------------------------------------------------

test('what a warm call is and may do is what a cold one is and may do', async (t) => {
  const seen = {};
  for (const warm of [false, true]) {
    const sandbox = warm ? await openWarm(t) : await open(t, { warm });
    seen[warm] = await sandbox
      .runCode(readProgram('itself.py'))
      .then((result) => {
        assertFinished(result);
        return JSON.parse(result.stdout);
      });
  }
  assert.equal(seen.false['status Seccomp_filters'], '1');
  // The zygote's own, below that of all payloads.
  assert.equal(seen.true['status Seccomp_filters'], '2');
  delete seen.false['status Seccomp_filters'];
  delete seen.true['status Seccomp_filters'];
  assert.deepEqual(seen.true, seen.false);
});

// Calls that never come back, or take what runs the others with them.
const untried = `pause exit exit_group fork vfork clone clone3 rt_sigreturn poll
select pselect6 ppoll epoll_wait epoll_pwait epoll_pwait2 nanosleep
clock_nanosleep futex futex_waitv restart_syscall execve execveat kill tkill tgkill
rt_sigqueueinfo rt_tgsigqueueinfo rt_sigsuspend rt_sigtimedwait pidfd_send_signal
unshare close_range wait4 waitid`.split(/\s+/);

test('SYS-01 each system call gets the same answer, warm and cold', {
  timeout: 240000 * timeScale,
}, async (t) => {
  const machine = process.arch === 'x64' ? 'x86_64' : 'aarch64';
  const rows = fs
    .readFileSync(
      path.join(__dirname, '..', 'c', `syscall-verdicts-${machine}.txt`),
      'utf8',
    )
    .split('\n')
    .filter((row) => /^\d/.test(row))
    .map((row) => row.split(' '));
  const tried = rows
    .filter(
      ([, name, verdict]) => verdict !== 'kill' && !untried.includes(name),
    )
    .map(([number]) => Number(number));
  const code = `
import signal
answer = {}
for number in ${JSON.stringify(tried)}:
    for argument in 0, -1:
        ours, its = os.pipe()
        pid = os.fork()
        if pid == 0:
            signal.alarm(2)
            result = call(number, *[argument] * 6)
            os.write(its, (result if isinstance(result, str) else '').encode())
            os._exit(0)
        os.close(its)
        said = os.read(ours, 100).decode()
        os.close(ours)
        answer['%d %d' % (number, argument)] = said, os.waitpid(pid, 0)[1]
`;
  const [cold, warm] = [await open(t, { warm: false }), await openWarm(t)];
  const [expected, actual] = await Promise.all(
    [cold, warm].map((one) => ask(one, code, { timeoutS: 120 * timeScale })),
  );
  assert.ok(tried.length > 200);
  assert.equal(Object.keys(actual).length, tried.length * 2);
  assert.deepEqual(actual, expected);
});

test('SYS-03 a forbidden call is named, of a warm payload and of its children', async (t) => {
  const sandbox = await openWarm(t);
  for (const [name, code] of [
    ['unshare', 'libc.unshare(0x10000000)'],
    // Of this one the zygote, whose filter it has too, could make none.
    ['unshare', 'libc.unshare(0x10000000 | 0x200)'],
    ['setns', 'libc.setns(0, 0)'],
    ['mount', "libc.mount(b'a', b'/tmp', b'tmpfs', 0, None)"],
  ]) {
    for (const [who, before] of Object.entries({
      itself: '',
      'a child': 'if os.fork(): os.wait(); os._exit(7)',
      'a grandchild in a session of its own':
        'if os.fork(): time.sleep(10)\nos.setsid()\nif os.fork(): os._exit(0)',
    })) {
      const result = await sandbox.runCode(
        `import ctypes, os, time\nlibc = ctypes.CDLL(None)\n${before}\n${code}\ntime.sleep(10)`,
      );
      assertBlocked(result, `${name} by ${who}`);
      assert.equal(result.fault.syscall, name, who);
    }
  }
});

// ---- The zygote is out of reach -----------------------------------------------

test('a payload sees, signals and traces nothing of what forked it', async (t) => {
  const sandbox = await openWarm(t);
  const zygote = await theZygote();
  const answer = await ask(
    sandbox,
    `
import signal
answer = {'parent': os.getppid(), 'processes': sorted(n for n in os.listdir('/proc') if n.isdigit())}
answer['descriptors'] = {n: os.readlink('/proc/self/fd/' + n) for n in os.listdir('/proc/self/fd')
                         if os.path.lexists('/proc/self/fd/' + n)}
def seize(pid): return call('ptrace', 16, pid, 0, 0)
signals = {}
for pid in [*range(3, 300), ${zygote.pid}]:
    for name, result in {
        'kill': attempt(os.kill, pid, 0), 'pidfd': call('pidfd_open', pid, 0),
        'session': attempt(os.getsid, pid), 'group': attempt(os.killpg, pid, 0),
        'priority': attempt(os.getpriority, os.PRIO_PROCESS, pid),
    }.items():
        if result != 'ESRCH': signals[name + str(pid)] = result
answer['signals'] = signals
# All that it may signal is itself.
signal.signal(signal.SIGTERM, signal.SIG_IGN)
answer['all'] = attempt(os.kill, -1, signal.SIGTERM)
answer['group'] = attempt(os.kill, 0, signal.SIGTERM)
answer['maps'] = [line for line in open('/proc/self/maps') if 'w' in line.split()[1] and 's' in line.split()[1]]
answer['map_files'] = attempt(os.listdir, '/proc/1/map_files')
answer['of init'] = [read('/proc/1/' + name) for name in ('environ', 'maps', 'auxv')]
answer['fds of init'] = attempt(os.listdir, '/proc/1/fd')`,
  );
  assert.equal(answer.parent, 0);
  assert.deepEqual(answer.processes, ['1', '2']);
  const own = Object.entries(answer.descriptors).map(([fd, link]) => [
    fd,
    link.replace(/\d+/, 'N'),
  ]);
  for (const [fd, link] of own) {
    assert.match(link, /^(\/dev\/null|pipe:|socket:|\/proc\/N\/fd)/, fd);
  }
  assert.ok(own.length <= 6, JSON.stringify(own));
  assert.deepEqual(answer.signals, {});
  assert.deepEqual(answer.maps, []);
  assert.match(String(answer['fds of init']), /^E(ACCES|PERM)$/);
  assert.deepEqual(
    answer['of init'].map((text) => text.slice(0, 2)),
    ['EA', 'EA', 'EA'],
  );
  assert.equal((await theZygote()).pid, zygote.pid, 'it is as it was');
});

// ---- The zygote is missed by nobody ---------------------------------------------

test('a zygote that dies is replaced, and no call is lost', async (t) => {
  const sandbox = await openWarm(t);
  for (const when of ['idle', 'busy']) {
    const { pid } = await theZygote();
    const calls = () =>
      Array.from({ length: 8 }, (_, i) => sandbox.runCode(`print(${i})`));
    const running = when === 'busy' ? calls() : [];
    process.kill(pid, 'SIGKILL');
    const results = await Promise.all([...running, ...calls()]);
    results.forEach((result, i) => {
      assertFinished(result);
      assert.equal(result.stdout, `${i % 8}\n`);
    });
    await eventually(
      () => zygotes().some((one) => one.pid !== pid),
      'there is no other',
    );
    await eventuallyWarm(sandbox);
  }
});

test('a zygote that is stopped holds up no call beyond its timeoutS', async (t) => {
  const sandbox = await openWarm(t);
  const { pid } = await theZygote();
  process.kill(pid, 'SIGSTOP');
  t.after(() => kill(pid));
  const outcomes = await Promise.allSettled(
    Array.from({ length: 6 }, () =>
      sandbox.runCode('print(1)', { timeoutS: 2 * timeScale }),
    ),
  );
  for (const { value, reason } of outcomes) {
    assert.equal(reason, undefined);
    assert.ok(
      value.stdout === '1\n' || value.fault?.type === 'timeout',
      JSON.stringify(value),
    );
  }
  // Others do not wait for it.
  assertFinished(await sandbox.run(['true']));
  process.kill(pid, 'SIGCONT');
  await eventuallyWarm(sandbox);
});

test('a box that is killed before its warm call has begun is a timeout, and no exit code', async (t) => {
  await openWarm(t);
  const [keeper] = descendants().filter(({ ppid }) => ppid === process.pid);
  const launcher = descendants().find(({ ppid }) => ppid === keeper.pid);
  const isInit = ({ name, ppid }) =>
    name === 'launcher' && ppid === launcher.pid;
  const isReady = ({ name }) => name === 'glovebox-ready';
  const seen = new Set();
  for (let round = 0; round < 8; round++) {
    // Its first call gets a box whose init has to attach the workspace.
    const sandbox = await open(t);
    await eventually(
      () => descendants().filter(isReady).length >= 2,
      'nothing waits',
    );
    const inits = descendants().filter(isInit);
    for (const { pid } of inits) kill(pid, 'SIGSTOP');
    const call = sandbox.runCode('print(1)', { timeoutS: 0.2 });
    const { stdout, exitCode, fault } = await call;
    for (const { pid } of inits) kill(pid, 'SIGCONT');
    seen.add(`${stdout}${exitCode} ${fault?.type}`);
    await sandbox.close();
  }
  seen.delete('1\n0 undefined'); // One may have come meanwhile.
  assert.deepEqual([...seen], ['137 timeout']);
});

// ---- Interpreters that cannot wait --------------------------------------------

const python = spawnSync(
  'python3',
  ['-c', 'import sys; print(sys.executable)'],
  {
    encoding: 'utf8',
  },
).stdout.trim();

const unfit = {
  'that has no ctypes': "import sys; sys.modules['ctypes'] = None",
  'that ends when it loads a library':
    "import os, sys, types\nm = types.ModuleType('ctypes'); m.CDLL = lambda *ignored: os._exit(1)\nm.pythonapi = types.SimpleNamespace(exit=None); sys.modules['ctypes'] = m",
  'that ends where it is not called':
    "import os\nif os.path.exists('/proc/self') and 'join.so' not in open('/proc/self/cmdline').read(): pass\nelse: os._exit(1)",
  'that hangs where there is no /proc':
    "import os, time\nif not os.path.exists('/proc/self'): time.sleep(1000)",
};

for (const [name, code] of Object.entries(unfit)) {
  test(`calls of an interpreter ${name} are cold ones`, async (t) => {
    const folder = fs.mkdtempSync('/tmp/gbx-venv-');
    t.after(() => fs.rmSync(folder, { recursive: true }));
    fs.chmodSync(folder, 0o755);
    const made = spawnSync(python, ['-m', 'venv', '--without-pip', folder], {
      encoding: 'utf8',
    });
    assert.equal(made.status, 0, made.stderr);
    // Not by sitecustomize: a distribution may have one of its own.
    const library = fs.readdirSync(path.join(folder, 'lib'))[0];
    const site = path.join(folder, 'lib', library, 'site-packages');
    fs.writeFileSync(path.join(site, 'unfit.py'), code);
    fs.writeFileSync(path.join(site, 'unfit.pth'), 'import unfit\n');
    const runtimes = { python: path.join(folder, 'bin', 'python3') };
    const sandbox = await open(t, { runtimes });
    const startOf = async () => (await sandbox.plan()).box.start.python;
    const saysCold = () =>
      eventually(
        async () => (await startOf()).from === 'cold',
        'plan() says that it waits',
        15000,
      );
    // Before any call.
    await saysCold();
    for (let round = 0; round < 6; round++) {
      const results = await Promise.all(
        [1, 2, 3].map(() => sandbox.runCode(`print(${isWarm})`)),
      );
      for (const result of results) {
        assertFinished(result);
        assert.equal(result.stdout, 'False\n');
      }
    }
    await saysCold();
    // It was given up: nothing is started again and again. One that hangs is
    // given up for as long as it hangs.
    let quiet = 0;
    await eventually(
      async () => {
        const left = busyDescendants();
        for (const { pid } of left) kill(pid);
        quiet = left.length === 0 ? quiet + 1 : 0;
        await new Promise((resolve) => setTimeout(resolve, 50));
        return quiet === 20;
      },
      'it is started again for ever',
      20000,
    );
  });
}

// Last, since it is given up then.
test('zygotes that die again and again while calls come cost no call', {
  timeout: 120000 * timeScale,
}, async (t) => {
  const sandbox = await openWarm(t);
  let isOver = false;
  const killing = (async () => {
    while (!isOver) {
      for (const { pid } of zygotes()) kill(pid);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  })();
  try {
    for (let round = 0; round < (soak ? 50 : 5); round++) {
      const results = await Promise.all(
        [1, 2, 3, 4].map((n) => sandbox.runCode(`print(${n})`)),
      );
      results.forEach((result, i) => {
        assertFinished(result);
        assert.equal(result.stdout, `${i + 1}\n`);
      });
    }
  } finally {
    isOver = true;
    await killing;
  }
});

test('what waits in a box and is killed there costs no call, and leaves no zombie', async (t) => {
  const sandbox = await open(t);
  const language = 'node';
  await sandbox.runCode('1', { language });
  const waiting = () =>
    descendants().filter(({ name }) => name === 'glovebox-ready');
  for (let round = 0; round < 3; round++) {
    // Two of each kind.
    await eventually(() => waiting().length >= 4, 'nothing waits', 20000);
    const killed = waiting();
    for (const { pid } of killed) kill(pid);
    // A call that has one already when it dies is lost with it.
    await eventually(
      () => killed.every(({ pid }) => !fs.existsSync(`/proc/${pid}`)),
      'it lives, or is a zombie',
    );
    const results = await Promise.all([
      sandbox.runCode('40 + 2', { language }),
      sandbox.runCode('40 + 2'),
    ]);
    for (const result of results) assert.equal(result.results[0].text, '42');
  }
});
