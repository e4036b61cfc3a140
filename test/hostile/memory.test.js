// SPDX-License-Identifier: Apache-2.0
'use strict';

// Group MEM of the hostile cases: code that takes all the memory it can get. The
// same rows for both rungs: a memory cgroup, and the watchdog without one.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const { hasCgroups, open, soak, test } = require('../helpers/harness.js');

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
  assert.ok(result.durationMs < 10000, `${result.durationMs} ms`);
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
  const sandbox = await openLimited(t, { memoryMb: 64 });
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
