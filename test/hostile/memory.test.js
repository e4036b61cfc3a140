// SPDX-License-Identifier: Apache-2.0
'use strict';

// Group MEM of the hostile cases: code that takes all the memory it can get. The
// same rows for both rungs: a memory cgroup, and the watchdog without one.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const { monitorEventLoopDelay } = require('node:perf_hooks');
const {
  hasCgroups,
  isRoot,
  leaves,
  open,
  skip,
  skipWithoutCgroups,
  soak,
  test,
  timeScale,
} = require('../helpers/harness.js');
const { startHost } = require('../helpers/host-script.js');
const { askAndHold } = require('./attack.js');

const rung = hasCgroups ? 'kernel' : 'watchdog';

/** A sandbox whose memory limit is held by the rung that this machine has. */
async function openLimited(t, options) {
  const sandbox = await open(t, options);
  assert.equal(sandbox.limits.memoryMb, rung);
  return sandbox;
}

function assertOom(result) {
  assert.equal(result.fault?.type, 'oom', result.stdout + result.stderr);
  assert.equal(result.exitCode, 137);
  assert.equal(result.signal, 'SIGKILL');
  assert.ok(result.durationMs < 10000 * timeScale, `${result.durationMs} ms`);
}

// How far a box may come above its limit: not at all by the kernel; by what is
// taken between two looks of a watchdog, on a machine that is busy.
const overshootMib = hasCgroups ? 64 : 2048;

/** Runs `attack`, and fails if the host's free memory fell by much meanwhile. */
async function watchHostMemory(attack) {
  const before = availableMib();
  let least = before;
  const timer = setInterval(() => {
    least = Math.min(least, availableMib());
  }, 10);
  try {
    return await attack();
  } finally {
    clearInterval(timer);
    const taken = before - least;
    // Other tests run at the same time.
    assert.ok(taken < overshootMib + 1024, `the host missed ${taken} MiB`);
  }
}

function availableMib() {
  const text = fs.readFileSync('/proc/meminfo', 'utf8');
  return Number(/^MemAvailable: +(\d+) kB$/m.exec(text)[1]) / 1024;
}

test('MEM-01 memory without end is oom, and the host keeps its own', async (t) => {
  const sandbox = await openLimited(t, { memoryMb: 128 });
  const result = await watchHostMemory(() =>
    sandbox.runCode('b = []\nwhile 1: b.append(bytearray(4 << 20))'),
  );
  assertOom(result);
});

test('MEM-02 a child that takes the memory takes the whole box with it', async (t) => {
  const sandbox = await openLimited(t, { memoryMb: 128 });
  const hog = "b = b'x' * (400 << 20); import time; time.sleep(5)";
  const result = await sandbox.run([
    'sh',
    '-c',
    `python3 -c "${hog}" & wait; echo survived`,
  ]);
  assertOom(result);
  assert.equal(result.stdout, '');
});

test('MEM-05 address space is not memory, however much and however many', async (t) => {
  const sandbox = await openLimited(t, { memoryMb: 256 });
  const code = `import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
def map(size, protection, flags):
    at = libc.mmap(None, size, protection, flags, -1, 0)
    return 0 if at != 2**64 - 1 else ctypes.get_errno()
PRIVATE, ANONYMOUS, POPULATE, HUGETLB, NORESERVE = 2, 0x20, 0x8000, 0x40000, 0x4000
print('reserve', map(64 << 30, 0, PRIVATE | ANONYMOUS | NORESERVE))
print('huge', map(64 << 30, 3, PRIVATE | ANONYMOUS | POPULATE | HUGETLB))
last = 0
for i in range(${soak ? 10 ** 6 : 10 ** 5}):
    # Neighbours of one protection would be one map.
    last = map(4096, i % 2, PRIVATE | ANONYMOUS)
    if last: break
print('tiny', last, flush=True)
# Without a map to spare an interpreter does not get far.
os._exit(0)`;
  const result = await watchHostMemory(() => sandbox.runCode(code));
  const answers = Object.fromEntries(
    result.stdout.split('\n').map((line) => line.split(' ')),
  );
  assert.equal(result.fault, null);
  const { ENOMEM } = os.constants.errno;
  for (const name of ['reserve', 'huge', 'tiny']) {
    assert.ok([0, ENOMEM].includes(Number(answers[name])), result.stdout);
  }
  // Nothing of 64 GiB of huge pages can be had in a box of 256 MiB.
  assert.equal(Number(answers.huge), ENOMEM);
});

test('MEM-16 many children that write to what they share are oom together', async (t) => {
  const mib = soak ? 100 : 20;
  const sandbox = await openLimited(t, { memoryMb: 256 });
  // Each is far below the limit, and what they have in common as well.
  const result = await watchHostMemory(() =>
    sandbox.runCode(`import os, time
b = bytearray(${mib} << 20)
for i in range(0, len(b), 4096): b[i] = 1
print('shared', flush=True)
for _ in range(64):
    if os.fork() == 0:
        for i in range(0, len(b), 4096): b[i] = 2
        time.sleep(10)
        os._exit(0)
time.sleep(10)`),
  );
  assertOom(result);
  assert.equal(result.stdout, 'shared\n');
});

test('MEM-17 reading a file again and again is no oom: the cache gives way', async (t) => {
  // No room on the disk, but the size that one file may have.
  const sandbox = await openLimited(t, { memoryMb: 64, diskMb: null });
  const size = soak ? 10 * 2 ** 30 : 256 * 2 ** 20;
  const result = await sandbox.runCode(`import mmap, os
with open('/workspace/sparse', 'wb+') as file:
    file.truncate(${size})
    for _ in range(2):
        file.seek(0)
        while file.read(1 << 20): pass
    # Mapped, its pages are resident in this process.
    with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        for at in range(0, len(mapped), 4096): mapped[at]
        import time; time.sleep(0.3)
os.unlink('/workspace/sparse')
print('read')`);
  assert.equal(result.fault, null);
  assert.equal(result.stdout, 'read\n', result.stderr);
});

test('ATK-TABLES memory that is mapped over and over does not keep the watchdog busy', async (t) => {
  if (hasCgroups) {
    return t.skip('by design: nobody weighs what a cgroup counts');
  }
  // 64 MiB that appear as 40 GiB, in page tables of 80 MiB.
  const sandbox = await openLimited(t, { memoryMb: 256, timeoutS: 60 });
  const result = await sandbox.runCode(`import ctypes, os, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
fd = os.memfd_create('x')
os.ftruncate(fd, 64 << 20)
MAP_SHARED, MAP_POPULATE = 1, 0x8000
for i in range(640):
    libc.mmap(None, 64 << 20, 3, MAP_SHARED | MAP_POPULATE, fd, 0)
time.sleep(5)
print('escaped')`);
  assert.equal(result.fault?.type, 'oom', result.stdout + result.stderr);
});

// ---- Swap ------------------------------------------------------------------

test('MEM-04 swap adds nothing to the limit', async (t) => {
  // Swapped pages are not seen by the watchdog.
  if (!hasCgroups) return skipWithoutCgroups(t);
  const memoryMb = 96;
  const sandbox = await openLimited(t, { memoryMb });
  const inForce = [];
  // Without this file the kernel does not account for swap at all.
  const sum = 'memory.memsw.limit_in_bytes';
  const held = askAndHold(sandbox, "hold()\nanswer = 'up'");
  await held.ready;
  for (const leaf of leaves()) {
    const read = (name) => Number(fs.readFileSync(`${leaf}/${name}`));
    try {
      inForce.push([read('memory.limit_in_bytes'), read(sum)]);
    } catch (error) {
      // Without the file, or one that waited and is gone.
      assert.match(error.code, /^(ENOENT|ENODEV)$/);
    }
  }
  await held.release();
  assert.equal(await held.answer, 'up');
  if (inForce.length === 0) return skip(t, 'swap is not accounted for here');
  const bytes = memoryMb * 2 ** 20;
  assert.ok(
    inForce.some(([memory, both]) => memory === bytes && both === bytes),
    JSON.stringify(inForce),
  );
  // And those that wait for a call have no more than they may.
  for (const [memory, both] of inForce) assert.equal(memory, both);
});

// ---- Processor -------------------------------------------------------------

test('MEM-11 sixty-four busy processes have the one core that they may, and hold up neither deadline nor host', async (t) => {
  const sandbox = await open(t, { cpus: 1 });
  const delay = monitorEventLoopDelay({ resolution: 10 });
  delay.enable();
  const result = await sandbox.runCode(
    `import os
for _ in range(63):
    if os.fork() == 0: break
while True: pass`,
    { timeoutS: 2 },
  );
  delay.disable();
  assert.equal(result.fault?.type, 'timeout');
  const { durationMs, usage } = result;
  assert.ok(durationMs >= 2000, `${durationMs} ms`);
  assert.ok(durationMs < 2000 + 3000 * timeScale, `${durationMs} ms`);
  const lagMs = delay.percentile(95) / 1e6;
  assert.ok(lagMs < 200 * timeScale, `the host was held up for ${lagMs} ms`);
  if (!hasCgroups) return t.diagnostic('by design: cpus is not limited here');
  const cores = usage.cpuMs / durationMs;
  // No lower bound: other tests want the processors too.
  assert.ok(cores < 1.2, `${cores} cores`);
});

// ---- Limits that are too small, or not to be had ----------------------------

test('MEM-13 a memoryMb that nothing can start with is an oom or an error that names it', async (t) => {
  // A watchdog looks only now and then.
  const waits = 'import time; time.sleep(20)';
  for (const memoryMb of [1, 2, 4]) {
    // A fork of an interpreter that waits takes no more than it changes.
    const sandbox = await openLimited(t, { memoryMb, warm: false });
    // More at once than boxes are ready: others are made within the limit.
    const outcomes = await Promise.allSettled([
      ...[1, 2, 3, 4].map(() => sandbox.runCode(waits)),
      sandbox.kernel().then((kernel) => kernel.runCode(waits)),
    ]);
    for (const { value, reason } of outcomes) {
      const message = value ? value.fault?.message : reason.message;
      assert.match(String(message), new RegExp(`memoryMb ${memoryMb}`));
      if (value) assertOom(value);
    }
  }
});

test('MEM-14 where a limit can be put in force no longer, no call runs without it', async (t) => {
  if (!hasCgroups) return skipWithoutCgroups(t);
  // The cgroups become read-only for a host that has them.
  const host = startHost(t, { wrapper: ['unshare', '--mount'] });
  // By mounts on top: those below are in use, for the next box. They come there
  // read-only, or something might be open for writing in them already.
  const cover = (h) => {
    const stage = h.fs.mkdtempSync('/tmp/gbx-cover-');
    const lines = h.fs.readFileSync('/proc/self/mountinfo', 'utf8').split('\n');
    h.covered = lines
      .map((line) => /^(?:\S+ ){4}(\S+) .* - cgroup /.exec(line)?.[1])
      .filter(Boolean);
    const mount = (...words) => h.childProcess.execFileSync('mount', words);
    for (const mountPoint of h.covered) {
      mount('--bind', mountPoint, stage);
      mount('-o', 'remount,bind,ro', stage);
      mount('--move', stage, mountPoint);
    }
    h.fs.rmdirSync(stage);
  };
  const uncover = (h) => h.childProcess.execFileSync('umount', h.covered);
  await host.ask(async (h) => {
    h.sandbox = await new h.glovebox.Sandbox({ memoryMb: 64 }).open();
    await h.sandbox.run(['true']);
  });
  await host.ask(cover);
  // Limits that no cgroup has yet: those of another call still hold.
  const outcomes = await host.ask((h) =>
    Promise.all(
      [65, 66, 67, 68].map((memoryMb) =>
        h.outcome(h.sandbox.run(['echo', 'hi'], { memoryMb })),
      ),
    ),
  );
  for (const { code, message } of outcomes) {
    assert.equal(code, 'ERR_SANDBOX_LIMIT', message);
    assert.match(message, /EROFS.*enforceLimits: false/);
  }
  await host.ask(uncover);
  const { value } = await host.ask((h) =>
    h.outcome(h.sandbox.run(['echo', 'hi'])),
  );
  assert.equal(value.stdout, 'hi\n');
  await host.ask((h) => h.sandbox.close());
  assert.equal((await host.end()).exitCode, 0);
});

test('MEM-14 without cgroups a limit is never said to be the kernel’s, and one warning tells', async (t) => {
  const host = startHost(t, {
    // As root cgroups have to be taken away first.
    wrapper: isRoot
      ? [
          'unshare',
          '--mount',
          'sh',
          '-ec',
          'mount -t tmpfs -o ro none /sys/fs/cgroup; exec "$@"',
          'sh',
        ]
      : [],
    env: { NODE_NO_WARNINGS: undefined },
  });
  const answer = await host.ask(async (h) => {
    const warnings = [];
    process.on('warning', ({ code }) => warnings.push(code));
    const forces = [];
    for (let i = 0; i < 2; i++) {
      await h.glovebox.withSandbox({ cpus: 1 }, (sandbox) => {
        forces.push({ ...sandbox.limits });
      });
    }
    const refused = await h.callOnce({ cpus: 1, requireLimits: true });
    return { warnings, forces, refused };
  });
  for (const force of answer.forces) {
    assert.equal(force.memoryMb, 'watchdog');
    assert.equal(force.cpus, 'none');
  }
  assert.deepEqual(answer.warnings, ['GLOVEBOX_LIMITS']);
  assert.equal(answer.refused.code, 'ERR_SANDBOX_LIMIT');
  assert.match(answer.refused.message, /memoryMb \(watchdog\), cpus \(none\)/);
  assert.equal((await host.end()).exitCode, 0);
});
