// SPDX-License-Identifier: Apache-2.0
'use strict';

// Row P26 of the public cases; limits, what is in force of them, and faults.
//
// With a cgroup all limits are the kernel's. Without one the count of processes
// is, memory is a watchdog's, and processor time is not limited; the tests say
// so.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const { PassThrough } = require('node:stream');
const {
  descendants,
  eventually,
  hasCgroups,
  isRoot,
  open,
  outside,
  skipWithoutCgroups,
  test,
  timeScale,
} = require('../helpers/harness.js');
const { forms } = require('../helpers/forms.js');
const { askScript } = require('../helpers/host-script.js');

// ---- P26 -------------------------------------------------------------------

const touchMib = (mib) => `b = bytearray(${mib} * 2**20)
for i in range(0, len(b), 4096): b[i] = 1
`;
// A watchdog cannot see what was only there between two of its looks.
const exceed = `${touchMib(400)}
import time; time.sleep(${hasCgroups ? 0 : 20})
print('done')`;

for (const { name, begin } of forms) {
  test(`P26 memory above the limit is fault "oom" and below it none ${name}`, async (t) => {
    const sandbox = await open(t, { memoryMb: 128 });
    const runBelow = await begin(sandbox);
    const below = await runBelow(`${touchMib(40)}print('done')`);
    assert.equal(below.stdout, 'done\n');
    assert.equal(below.exitCode, 0);
    assert.equal(below.fault, null);

    const runAbove = await begin(sandbox);
    const above = await runAbove(exceed);
    assert.equal(above.stdout, '');
    assert.equal(above.success, false);
    assert.equal(above.fault.type, 'oom');
    assert.match(above.fault.message, /memoryMb 128/);
    assert.equal(above.exitCode, 137);
    assert.equal(above.signal, 'SIGKILL');
    assert.ok(above.durationMs < 10000 * timeScale, `${above.durationMs} ms`);
  });
}

test('P26 a Kernel that ran out of memory is dead, and says why', async (t) => {
  const kernel = await (await open(t, { memoryMb: 128 })).kernel();
  await kernel.runCode(exceed);
  await assert.rejects(kernel.runCode('1'), {
    code: 'ERR_SANDBOX_KERNEL_DEAD',
    message: /exceeded memoryMb 128/,
  });
});

test('P26 without a memory limit in force the same code ends well', async (t) => {
  const sandbox = await open(t, { memoryMb: 128, enforceLimits: false });
  assert.equal(sandbox.limits.memoryMb, 'none');
  const result = await sandbox.runCode(`${touchMib(400)}print('done')`);
  assert.equal(result.stdout, 'done\n');
  assert.equal(result.fault, null);
});

test('oom in a child that nobody waits for is fault "oom" of the box', async (t) => {
  const sandbox = await open(t, { memoryMb: 64 });
  // The kernel kills the child only; the box goes with it.
  const result = await sandbox.runCode(`import os, time
if os.fork() == 0:
    b = b'x' * (400 * 2**20)
time.sleep(20)`);
  assert.equal(result.fault.type, 'oom');
  assert.ok(result.durationMs < 10000 * timeScale, `${result.durationMs} ms`);
});

test('a limit that a waiting interpreter is above ends the call, and is no failure of the sandbox', async (t) => {
  if (!hasCgroups) return skipWithoutCgroups(t);
  const sandbox = await open(t);
  const options = { language: 'node', memoryMb: 4 };
  // As many as find boxes that wait, that are being made, and none.
  for (let i = 0; i < 8; i++) {
    await sandbox.runCode('0', { language: 'node' });
    const calls = Array.from({ length: 5 }, () =>
      sandbox.runCode('0', options),
    );
    for (const { fault } of await Promise.all(calls))
      assert.equal(fault?.type, 'oom');
  }
});

test('files in /tmp, home and /dev/shm count as memory', async (t) => {
  const sandbox = await open(t, { memoryMb: 64 });
  for (const folder of ['/tmp', '/home/user', '/dev/shm']) {
    const result = await sandbox.runCode(
      `head -c 100000000 /dev/zero > ${folder}/big; echo "rc=$?"`,
      { language: 'bash' },
    );
    // Either the file system is full or the box is out of memory.
    const isFull = result.stdout === 'rc=1\n' && result.fault === null;
    assert.ok(isFull || result.fault?.type === 'oom', folder);
  }
});

// What a box can hold without any of its processes showing it.
const hiddenMemory = {
  'in a memfd': `import os
fd = os.memfd_create('x')
for _ in range(MIB): os.write(fd, bytes(2**20))`,
  'in a memfd of a thread with descriptors of its own': `import ctypes, os, threading
def hold():
    assert ctypes.CDLL(None).unshare(0x400) == 0  # CLONE_FILES
    fd = os.memfd_create('x')
    for _ in range(MIB): os.write(fd, bytes(2**20))
    ready.set()
    time.sleep(60)
import time
ready = threading.Event()
threading.Thread(target=hold, daemon=True).start()
ready.wait()`,
  'in a System V segment that is not attached': `import ctypes
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
key = libc.shmget(0, MIB * 2**20, 0o1600)
at = libc.shmat(key, None, 0)
ctypes.memset(at, 1, MIB * 2**20)
libc.shmdt(ctypes.c_void_p(at))`,
  'in a process whose first thread has ended': `import ctypes, os, threading, time
def hold():
    time.sleep(0.1)
    b = b'x' * (MIB * 2**20)
    time.sleep(HOLD_S)
    print('done', flush=True)
    os._exit(0)
threading.Thread(target=hold).start()
libc = ctypes.CDLL(None)
libc.pthread_exit(None)`,
};
for (const [name, code] of Object.entries(hiddenMemory)) {
  test(`memory ${name} counts`, async (t) => {
    const sandbox = await open(t, { memoryMb: 128 });
    const holdMib = (mib, holdS) =>
      sandbox.runCode(
        `${code.replaceAll('MIB', mib).replaceAll('HOLD_S', holdS)}
import time; time.sleep(${holdS}); print('done')`,
      );
    const [below, above] = await Promise.all([
      holdMib(40, 1),
      holdMib(160, 20),
    ]);
    assert.equal(below.fault, null);
    assert.equal(below.stdout, 'done\n', below.stderr);
    assert.equal(above.fault?.type, 'oom', above.stdout + above.stderr);
  });
}

test('memory that processes share counts once', async (t) => {
  const sandbox = await open(t, {
    memoryMb: 128,
    timeoutS: 30 * timeScale,
  });
  // Six times 60 MiB resident: of one file, which /dev/shm holds, of private
  // pages that were forked, and of one address space.
  const result = await sandbox.runCode(`import mmap, os, time
b = b'x' * (30 * 2**20)
with open('/dev/shm/x', 'wb+') as file:
    file.truncate(30 * 2**20)
    shared = mmap.mmap(file.fileno(), 30 * 2**20)
for at in range(0, len(shared), 4096): shared[at] = 1
for _ in range(5):
    if os.fork() == 0:
        for at in range(0, len(shared), 4096): shared[at]
        time.sleep(0.6)
        os._exit(0)
for _ in range(5): os.wait()
import subprocess
for _ in range(100): subprocess.run(['true'])
print('done')`);
  assert.equal(result.fault, null);
  assert.equal(result.stdout, 'done\n', result.stderr);
});

test('nothing wakes the launcher while no box runs', async (t) => {
  const sandbox = await open(t);
  await sandbox.run(['sleep', '0.2']);
  const launcher = descendants().find(
    ({ pid }) =>
      fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8') ===
      `glovebox-launcher\0launcher\0${isRoot ? 'rooted' : 'plain'}\0`,
  );
  const wakeUps = () =>
    Number(
      /^voluntary_ctxt_switches:\t(\d+)$/m.exec(
        fs.readFileSync(`/proc/${launcher.pid}/status`, 'utf8'),
      )[1],
    );
  // Once its ready boxes are made. What is measured is a time, so it is waited.
  const inOneSecond = async () => {
    const before = wakeUps();
    await new Promise((resolve) => setTimeout(resolve, 1000));
    return wakeUps() - before;
  };
  await eventually(async () => (await inOneSecond()) === 0, 'it wakes up');
});

// ---- Timeouts --------------------------------------------------------------

for (const form of ['call', 'kernel']) {
  test(`HST-07 the deadline of a ${form} fires while the host's JavaScript is in a loop`, async (t) => {
    const answer = await askScript(t, 'busy-host.js', { args: [form] });
    assert.equal(answer.fault, 'timeout');
    // It ran, and had ended before the host's loop did.
    assert.ok(answer.beats > 5, JSON.stringify(answer));
    assert.deepEqual([answer.isOver, answer.later], [true, 0]);
  });
}

test('the shortest and the longest timeoutS work', async (t) => {
  const sandbox = await open(t, { timeoutS: 31536000 });
  assert.equal((await sandbox.run(['true'])).success, true);
  const shortest = await sandbox.run(['sleep', '60'], { timeoutS: 0.001 });
  assert.equal(shortest.fault.type, 'timeout');
  const inherits = await sandbox.run(['true'], { timeoutS: null });
  assert.equal(inherits.success, true);
});

test('timeoutS of a session is that of its calls, and a call may have another', async (t) => {
  const sandbox = await open(t, { timeoutS: 0.5 });
  const own = await sandbox.run(['sleep', '60']);
  assert.equal(own.fault.type, 'timeout');
  assert.match(own.fault.message, /after 0\.5 s \(timeoutS\)/);
  assert.ok(own.durationMs >= 500 && own.durationMs < 5000 * timeScale);
  const longer = await sandbox.run(['sleep', '1'], {
    timeoutS: 30 * timeScale,
  });
  assert.equal(longer.exitCode, 0);
  assert.equal(longer.fault, null);
});

// ---- Faults are facts ------------------------------------------------------

test('an exit code that the program chose is just an exit code, 124 to 159', async (t) => {
  const sandbox = await open(t);
  const codes = Array.from(
    { length: 159 - 124 + 1 },
    (_, index) => 124 + index,
  );
  for (const code of codes) {
    const result = await sandbox.runCode(`exit ${code}`, { language: 'bash' });
    assert.equal(result.exitCode, code);
    assert.equal(result.fault, null, `exit ${code}`);
    assert.equal(result.signal, null, `exit ${code}`);
    assert.equal(result.error, null, `exit ${code}`);
    assert.equal(result.success, false);
  }
});

for (const { name, begin } of forms) {
  test(`an exit code of python that looks like a fault is none ${name}`, async (t) => {
    const run = await begin(await open(t));
    for (const code of [124, 126, 127, 137, 139, 159]) {
      const result = await run(`import sys; sys.exit(${code})`);
      assert.equal(result.exitCode, code);
      assert.equal(result.fault, null, `exit ${code}`);
      assert.equal(result.signal, null, `exit ${code}`);
    }
  });
}

const unshareUsers =
  'import ctypes; ctypes.CDLL(None).unshare(0x10000000); print("free")';

test('a forbidden call of any process of the box is fault "escape_blocked"', async (t) => {
  const sandbox = await open(t);
  const attempts = {
    itself: unshareUsers,
    'a child': `import subprocess, sys, time
subprocess.Popen([sys.executable, '-c', '''${unshareUsers}'''])
time.sleep(20)`,
    'a thread': `import threading, time
def attempt():
    ${unshareUsers}
threading.Thread(target=attempt).start()
time.sleep(20)`,
    'a child whose parent ignores everything': `import signal, subprocess, sys, time
for s in (signal.SIGTERM, signal.SIGINT, signal.SIGSYS): signal.signal(s, signal.SIG_IGN)
subprocess.run(['setsid', sys.executable, '-c', '''${unshareUsers}'''])
time.sleep(20)`,
  };
  for (const [who, code] of Object.entries(attempts)) {
    const result = await sandbox.runCode(code);
    assert.equal(result.fault?.type, 'escape_blocked', who);
    assert.equal(result.fault.syscall, 'unshare', who);
    assert.equal(result.exitCode, 159, who);
    assert.equal(result.signal, 'SIGSYS', who);
    assert.equal(result.stdout, '', who);
    assert.ok(result.durationMs < 10000 * timeScale, who);
  }
});

test('a forbidden call in a cell ends the Kernel', async (t) => {
  const kernel = await (await open(t)).kernel();
  const result = await kernel.runCode(unshareUsers);
  assert.equal(result.fault.type, 'escape_blocked');
  await assert.rejects(kernel.runCode('1'), {
    code: 'ERR_SANDBOX_KERNEL_DEAD',
    message: /forbids/,
  });
});

test('SIGSYS and SIGKILL that the program sent itself are no fault of a limit', async (t) => {
  const sandbox = await open(t);
  const sigsys = await sandbox.runCode('kill -SYS $$', { language: 'bash' });
  assert.equal(sigsys.exitCode, 159);
  assert.equal(sigsys.signal, 'SIGSYS');
  assert.equal(sigsys.fault, null);
  const sigkill = await sandbox.runCode('kill -KILL $$', { language: 'bash' });
  assert.equal(sigkill.fault.type, 'killed');
  assert.equal(sigkill.exitCode, 137);
  assert.equal(sigkill.signal, 'SIGKILL');
  // kill -KILL of a child is the program's own affair.
  const child = await sandbox.runCode('sleep 60 & kill -KILL $!; wait $!', {
    language: 'bash',
  });
  assert.equal(child.exitCode, 137);
  assert.equal(child.fault, null);
});

// ---- What is in force ------------------------------------------------------

// As on every host; disk.test.js has the rest.
const disk = { diskMb: 'watchdog' };

test('sandbox.limits says what this host enforces for this user', async (t) => {
  const sandbox = await open(t, { cpus: 1 });
  assert.deepEqual(
    { ...sandbox.limits },
    hasCgroups
      ? { memoryMb: 'kernel', pids: 'kernel', cpus: 'kernel', ...disk }
      : { memoryMb: 'watchdog', pids: 'kernel', cpus: 'none', ...disk },
  );
  assert.ok(Object.isFrozen(sandbox.limits));
});

test('a limit that is lifted is null, and lifted', async (t) => {
  const lifted = { memoryMb: null, pids: null, cpus: null, diskMb: null };
  const sandbox = await open(t, lifted);
  assert.deepEqual({ ...sandbox.limits }, lifted);
  // Above what the defaults allow.
  const result = await sandbox.runCode(`import threading
bytearray(b'x') * (600 * 2**20)
stop = threading.Event()
threads = [threading.Thread(target=stop.wait) for _ in range(300)]
for thread in threads: thread.start()
stop.set()
len(threads);
print('done')`);
  assert.equal(result.stderr, '');
  assert.equal(result.stdout, 'done\n');
});

const isPython = ({ name }) => /^python/.test(name);

test('enforceLimits: false makes no cgroup for the box and still counts processes', async (t) => {
  const options = { enforceLimits: false, memoryMb: 64, pids: 20, cpus: 0.5 };
  const sandbox = await open(t, options);
  assert.deepEqual(
    { ...sandbox.limits },
    { memoryMb: 'none', pids: 'kernel', cpus: 'none', ...disk },
  );
  // The host's view of the box's python, while it runs, and of one that may be
  // on its way to become a zygote.
  const cgroupsOf = async (box) => {
    let seen = '';
    const code = `b = bytearray(200 * 2**20)
for i in range(0, len(b), 4096): b[i] = 1
print('here', flush=True)
input()`;
    const stdin = new PassThrough();
    const onStdout = () => {
      for (const { pid } of descendants().filter(isPython)) {
        seen += fs.readFileSync(`/proc/${pid}/cgroup`, 'utf8');
      }
      stdin.end('seen\n');
    };
    const result = await box.runCode(code, { onStdout, stdin });
    assert.equal(result.exitCode, 0);
    assert.notEqual(seen, '');
    return seen;
  };
  assert.doesNotMatch(await cgroupsOf(sandbox), /gbx-\d/);
  if (hasCgroups) assert.match(await cgroupsOf(await open(t)), /gbx-\d/);
});

test('requireLimits refuses where a limit is not the kernel’s, by name', async (t) => {
  const pids = await open(t, {
    requireLimits: true,
    memoryMb: null,
    pids: 20,
  });
  assert.equal((await pids.run(['true'])).success, true);
  const all = { requireLimits: true, memoryMb: 64, pids: 20, cpus: 1 };
  if (hasCgroups) {
    const sandbox = await open(t, all);
    assert.equal((await sandbox.run(['true'])).success, true);
  } else {
    await assert.rejects(open(t, all), {
      code: 'ERR_SANDBOX_LIMIT',
      message: /memoryMb \(watchdog\), cpus \(none\)/,
    });
  }
  await assert.rejects(open(t, { ...all, enforceLimits: false }), {
    code: 'ERR_SANDBOX_LIMIT',
    message: /memoryMb \(none\), cpus \(none\).*enforceLimits/,
  });
});

test('a session whose limits are no longer the kernel’s runs nothing', async (t) => {
  if (!isRoot) {
    t.skip('by design: only root can hide cgroups from a process');
    return;
  }
  if (!hasCgroups) return skipWithoutCgroups(t);
  const answer = await askScript(t, 'lost-cgroup.js', {
    wrapper: ['unshare', '--mount', '--propagation', 'private'],
  });
  assert.equal(answer.limits.memoryMb, 'kernel');
  assert.ok(
    answer.errors.every(({ code }) =>
      ['ERR_SANDBOX_DIED', 'ERR_SANDBOX_LIMIT'].includes(code),
    ),
    JSON.stringify(answer.errors),
  );
  const { code, message } = answer.errors.at(-1);
  assert.equal(code, 'ERR_SANDBOX_LIMIT');
  assert.match(message, /opened with limits of memory by the kernel/);
  assert.match(message, /Another Sandbox, opened now/);
  // What was never promised goes on, and a new session says what it has.
  assert.equal(answer.free, 'free\n');
  assert.equal(answer.fresh, 'fresh\n');
  assert.equal(answer.limitsNow.memoryMb, 'watchdog');
});

// ---- pids ------------------------------------------------------------------

const forkBomb = `import errno, os, signal
children = []
try:
    while len(children) < 200:
        pid = os.fork()
        if pid == 0:
            signal.pause()
        children.append(pid)
except OSError as error:
    print(errno.errorcode[error.errno], len(children))`;

for (const enforceLimits of [true, false]) {
  test(`pids bounds a fork bomb, which sees EAGAIN (enforceLimits ${enforceLimits})`, async (t) => {
    const sandbox = await open(t, { pids: 24, enforceLimits });
    const result = await sandbox.runCode(forkBomb);
    const [, error, count] = /^(\w+) (\d+)\n$/.exec(result.stdout) ?? [];
    assert.equal(error, 'EAGAIN', result.stdout + result.stderr);
    // python is one, and init may be.
    assert.ok(count >= 22 && count <= 23, `${count} children`);
    assert.equal(result.exitCode, 0);
    assert.equal(result.fault, null);
    // The bomb took nothing from others.
    assert.equal((await sandbox.run(['true'])).success, true);
  });
}

test('threads count as processes do', async (t) => {
  const sandbox = await open(t, { pids: 24 });
  const result = await sandbox.runCode(`import threading
stop = threading.Event()
count = 0
try:
    while count < 200:
        threading.Thread(target=stop.wait, daemon=True).start()
        count += 1
except RuntimeError as error:
    print(error, count)`);
  const count = /^can't start new thread (\d+)\n$/.exec(result.stdout)?.[1];
  assert.ok(count >= 22 && count <= 23, result.stdout + result.stderr);
});

test('the processes of one box leave room in another', async (t) => {
  const sandbox = await open(t, { pids: 24 });
  let started;
  const isFull = new Promise((resolve) => {
    started = resolve;
  });
  const bomb = sandbox.runCode(`${forkBomb}\nsignal.pause()`, {
    onStdout: started,
    timeoutS: 20,
  });
  const closed = assert.rejects(bomb, { code: 'ERR_SANDBOX_CLOSED' });
  await isFull;
  const other = await sandbox.runCode(
    'for i in 1 2 3 4 5 6 7 8; do sleep 0.1 & done; wait; echo ok',
    { language: 'bash' },
  );
  assert.equal(other.stdout, 'ok\n');
  await sandbox.close();
  await closed;
});

// ---- cpus ------------------------------------------------------------------

test('cpus bounds the processor time of all processes together', async (t) => {
  if (!hasCgroups) return skipWithoutCgroups(t);
  const sandbox = await open(t, { cpus: 0.2 });
  assert.equal(sandbox.limits.cpus, 'kernel');
  // 0.4 s of work by two processes at once: at 0.2 of a core it takes 2 s,
  // however busy the machine is.
  const work = `import os, time
children = []
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        while time.process_time() < 0.2: pass
        os._exit(0)
    children.append(pid)
start = time.monotonic()
for pid in children: os.waitpid(pid, 0)
print(time.monotonic() - start)`;
  const take = async (box) => Number((await box.runCode(work)).stdout);
  const bounded = await take(sandbox);
  assert.ok(bounded > 1.5, `${bounded} s at 0.2 cores`);
  const free = await open(t, { cpus: null });
  assert.equal(free.limits.cpus, null);
  // As soon as others leave it as much; where they leave no program as much, it
  // is at least no slower than one outside.
  await eventually(
    async () => {
      const outsideS = Number(outside(['python3', '-c', work]).stdout);
      return (await take(free)) < Math.max(1.5, outsideS * 2);
    },
    'it takes as long without a limit',
    30000,
  );
});

test('usage says what a call used, where the host knows', async (t) => {
  const sandbox = await open(t);
  const { usage, durationMs } = await sandbox.runCode(`import time
b = bytearray(100 * 2**20)
for i in range(0, len(b), 4096): b[i] = 1
end = time.process_time() + 0.3
while time.process_time() < end: pass`);
  assert.equal(usage.wallMs, durationMs);
  if (hasCgroups) {
    assert.ok(usage.cpuMs >= 300 && usage.cpuMs < durationMs * 2 + 100);
    const mib = usage.maxMemoryBytes / 2 ** 20;
    assert.ok(mib >= 100 && mib < 200, `${mib} MiB`);
  } else {
    assert.ok(usage.cpuMs === null || usage.cpuMs >= 300, `${usage.cpuMs}`);
  }
});
