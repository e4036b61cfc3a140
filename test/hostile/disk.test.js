// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rows MEM-07, MEM-08 and MEM-10: code that fills the disk, in the open and
// where a count of the workspace's files does not see it.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const {
  eventually,
  open,
  outside,
  packagedPython,
  soak,
  test,
  timeScale,
} = require('../helpers/harness.js');
const { awaitQuiet } = require('../helpers/wake-ups.js');

const bash = { language: 'bash' };
const diskMb = soak ? 1024 : 16;

function assertStopped(result, title) {
  const seen = `${title}: ${result.stdout}${result.stderr}`;
  assert.equal(result.fault?.type, 'killed', seen);
  assert.match(result.fault.message, /diskMb/, seen);
  assert.equal(result.exitCode, 137, seen);
}

/** Room that a folder of the host takes, with all that is in it. */
function usedMib(folder) {
  const { stdout } = outside(['du', '-sk', folder]);
  return Number(/^\d+/.exec(stdout)[0]) / 1024;
}

// What is written until the watchdog has looked, and the kill has come.
const overshootMib = soak ? 4096 : 2048;

test('MEM-07 filling the disk with one file ends at diskMb', async (t) => {
  const sandbox = await open(t, { diskMb, timeoutS: 60 });
  await sandbox.run(['dd', 'if=/dev/zero', 'of=/workspace/x', 'bs=1M']);
  const { size } = fs.statSync(path.join(sandbox.workspace, 'x'));
  assert.ok(size > 0 && size <= diskMb * 2 ** 20, `${size} bytes`);
  assert.ok(usedMib(sandbox.workspace) <= diskMb + 1);
  await assert.rejects(sandbox.run(['true']), {
    code: 'ERR_SANDBOX_DISK_FULL',
  });
});

test('MEM-07 filling the disk with many files at once ends soon above diskMb', async (t) => {
  const sandbox = await open(t, { diskMb, timeoutS: 60 });
  const result = await sandbox.runCode(
    `for i in $(seq 200); do
       dd if=/dev/zero of=/workspace/$i bs=1M count=8 2>/dev/null &
     done; wait; sleep 20; echo escaped`,
    bash,
  );
  assertStopped(result, 'files');
  const used = usedMib(sandbox.workspace);
  assert.ok(used < diskMb + overshootMib, `${used} MiB`);
  await sandbox.close();
  assert.ok(!fs.existsSync(sandbox.workspace));
});

for (const enforceLimits of [true, false]) {
  test(`MEM-07 MEM-08 what a box writes to beside the workspace is bounded (enforceLimits ${enforceLimits})`, async (t) => {
    const sandbox = await open(t, { memoryMb: 64, enforceLimits });
    const { stdout, stderr } = await sandbox.runCode(`import json, os
folders = {}
for folder in ('/tmp', '/home/user', '/dev/shm'):
    fs = os.statvfs(folder)
    folders[folder] = [fs.f_blocks * fs.f_frsize, fs.f_files]
denied = {}
for place in ('/', '/usr', '/etc', '/dev', '/proc', '/opt', '/home', '/var'):
    try:
        open(place + '/gbx-x', 'w').close()
        denied[place] = False
    except OSError: denied[place] = True
print(json.dumps([folders, denied]))`);
    assert.equal(stderr, '');
    const [folders, denied] = JSON.parse(stdout);
    let sum = 0;
    for (const [folder, [bytes, inodes]] of Object.entries(folders)) {
      assert.ok(bytes > 0 && inodes > 0, folder);
      assert.ok(inodes <= bytes / 4096 + 16, `${folder}: ${inodes} inodes`);
      sum += bytes;
    }
    assert.ok(sum <= 64 * 2 ** 20, `${sum} bytes`);
    for (const [place, isDenied] of Object.entries(denied)) {
      assert.ok(isDenied, place);
    }
  });

  test(`MEM-08 an inode bomb in /tmp meets ENOSPC (enforceLimits ${enforceLimits})`, async (t) => {
    // Half of the memory, 4 KiB each.
    const sandbox = await open(t, { memoryMb: 64, enforceLimits });
    const { stdout } = await sandbox.runCode(
      `cd /tmp && for ((i = 0; i < 5000000; i++)); do
         : > $i || break
       done 2>/dev/null
       echo "$(ls | wc -l)"; : > one-more`,
      bash,
    );
    const count = Number(stdout);
    assert.ok(count > 4096 && count <= 8 * 1024 + 16, `${count} files`);
  });
}

test('MEM-08 an inode bomb in the workspace is stopped, and goes with it', async (t) => {
  const sandbox = await open(t, {
    diskMb: soak ? 1024 : 32,
    timeoutS: 120,
    trackFiles: false,
  });
  const result = await sandbox.runCode(
    'for ((i = 0; i < 5000000; i++)); do : > $i; done',
    bash,
  );
  assertStopped(result, 'inodes');
  const start = Date.now();
  await sandbox.close();
  assert.ok(!fs.existsSync(sandbox.workspace));
  const limitMs = (soak ? 120000 : 20000) * timeScale;
  assert.ok(Date.now() - start < limitMs, `${Date.now() - start} ms`);
});

test('MEM-08 hard links to one file are names that count', async (t) => {
  const sandbox = await open(t, { diskMb: 4, trackFiles: false });
  const result = await sandbox.runCode(`import os, time
open('a', 'w').close()
for i in range(1500): os.link('a', f'l{i}')
time.sleep(10)
print('escaped')`);
  assertStopped(result, 'links');
});

test('MEM-10 what is allocated counts, and holes do not', async (t) => {
  const sandbox = await open(t, { diskMb: 16 });
  // Longer than the 2 s after which a count is due whatever was lost.
  const holes = await sandbox.runCode(`import os, time
for i in range(20): # 240 MiB, of which there is nothing
    with open(f'hole{i}', 'w') as file: file.truncate(12 << 20)
time.sleep(2.5)
print('done')`);
  assert.equal(holes.fault, null);
  assert.equal(holes.stdout, 'done\n', holes.stderr);

  const allocated = await sandbox.runCode(`import os, time
for i in range(20):
    fd = os.open(f'full{i}', os.O_CREAT | os.O_WRONLY)
    os.posix_fallocate(fd, 0, 4 << 20)
    os.close(fd)
time.sleep(10)
print('escaped')`);
  assertStopped(allocated, 'fallocate');
});

test('MEM-10 a loop of allocating and punching is counted at what it holds', async (t) => {
  const sandbox = await open(t, { diskMb: 16 });
  const code = (keep) => `import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
KEEP_SIZE, PUNCH_HOLE = 1, 2
fd = os.open('x', os.O_CREAT | os.O_RDWR)
end = time.monotonic() + 1
while time.monotonic() < end:
    assert libc.fallocate(fd, 0, 0, 8 << 20) == 0, os.strerror(ctypes.get_errno())
    assert libc.fallocate(fd, KEEP_SIZE | PUNCH_HOLE, 0, 8 << 20) == 0
for i in range(${keep}):
    other = os.open(f'y{i}', os.O_CREAT | os.O_RDWR)
    assert libc.fallocate(other, KEEP_SIZE, 0, 8 << 20) == 0 # beyond its end
time.sleep(${keep === 0 ? 0 : 10})
print('done')`;
  const loop = await sandbox.runCode(code(0));
  assert.equal(loop.fault, null);
  assert.equal(loop.stdout, 'done\n', loop.stderr);
  assertStopped(await sandbox.runCode(code(4)), 'kept');
});

// Room that is in no folder that can be counted: each writes 2 MiB 40 times.
const hidden = {
  'files without a name': `import os, time
held = []
for i in range(40):
    fd = os.open('/workspace', os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(fd, bytes(2 << 20)); held.append(fd)
    time.sleep(0.02)`,
  'deleted files, of a process that may not be looked into': `import ctypes, os, time
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) # PR_SET_DUMPABLE
held = []
for i in range(40):
    file = open('x', 'wb'); os.unlink('x')
    file.write(bytes(2 << 20)); file.flush(); held.append(file)
    time.sleep(0.02)`,
  'deleted files, of a thread with descriptors of its own': `import ctypes, os, threading, time
def hold():
    assert ctypes.CDLL(None).unshare(0x400) == 0 # CLONE_FILES
    held = []
    for i in range(40):
        file = open('x', 'wb'); os.unlink('x')
        file.write(bytes(2 << 20)); file.flush(); held.append(file)
        time.sleep(0.02)
    time.sleep(60)
threading.Thread(target=hold).start()`,
  'deleted files on their way through a socket': `import os, socket, time
a, b = socket.socketpair()
for i in range(40):
    fd = os.open('x', os.O_CREAT | os.O_RDWR); os.unlink('x')
    os.write(fd, bytes(2 << 20)); socket.send_fds(a, [b'x'], [fd]); os.close(fd)
    time.sleep(0.02)`,
  'deleted files that are only mapped': `import ctypes, os, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
for i in range(40):
    fd = os.open('x', os.O_CREAT | os.O_RDWR); os.unlink('x')
    os.ftruncate(fd, 2 << 20)
    at = libc.mmap(None, 2 << 20, 3, 1, fd, 0); os.close(fd)
    ctypes.memset(at, 1, 2 << 20)
    time.sleep(0.02)`,
  ...(process.arch === 'x64' && {
    'ATK-EXE deleted programs that run on without their mapping': `import ctypes, os, struct, time
copy = bytes.fromhex('31ff be00100000 ba07000000 41ba22000000 49c7c0ffffffff'
                     '4531c9 b809000000 0f05 4889c7 488d3509000000 b940000000'
                     'f3a4 ffe0') # mmap; copies and runs what follows there:
hide = bytes.fromhex('bf00004000 be00100000 b80b000000 0f05' # munmap itself
                     'b822000000 0f05 ebf7') # pause, for ever
text = copy + hide + bytes(64)
size = 120 + len(text)
elf = struct.pack('<4s5B7x2HI3QI6H', b'\\x7fELF', 2, 1, 1, 0, 0, 2, 62, 1,
                  0x400078, 64, 0, 0, 64, 56, 1, 0, 0, 0)
elf += struct.pack('<2I6Q', 1, 7, 0, 0x400000, 0x400000, size, size, 4096) + text
for i in range(40):
    with open('x', 'wb') as file: file.write(elf.ljust(2 << 20, b'x'))
    os.chmod('x', 0o700)
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(1, 9, 0, 0, 0) # PR_SET_PDEATHSIG
        os.execv('./x', ['x'])
    time.sleep(0.05)
    os.unlink('x')`,
  }),
  'ATK-MAPS deleted files behind mappings without end': `import ctypes, os, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
top = os.getcwd()
for i in range(12):
    os.mkdir('d' * 250); os.chdir('d' * 250)
fd = os.open('f', os.O_CREAT | os.O_RDWR)
for i in range(20000): libc.mmap(None, 4096, 1 + i % 2 * 2, 2, fd, 0)
os.chdir(top)
held = []
for i in range(40):
    file = open('x', 'wb'); os.unlink('x')
    file.write(bytes(2 << 20)); file.flush(); held.append(file)
    time.sleep(0.02)`,
  'a folder that its owner may not enter': `import os, time
os.mkdir('closed')
for i in range(40):
    os.chmod('closed', 0o700)
    open(f'closed/{i}', 'wb').write(bytes(2 << 20))
    os.chmod('closed', 0)
    time.sleep(0.02)`,
  'a folder very deep in others': `import os, time
for i in range(200):
    os.mkdir('d'); os.chdir('d')
for i in range(40):
    open(f'{i}', 'wb').write(bytes(2 << 20))
    time.sleep(0.02)`,
  'folders that change places': `import os, threading, time
os.mkdir('a'); os.mkdir('b')
def swap():
    while True:
        os.rename('a', 'c'); os.rename('b', 'a'); os.rename('c', 'b')
threading.Thread(target=swap, daemon=True).start()
for i in range(40):
    while True:
        try:
            open(f'a/{i}', 'wb').write(bytes(2 << 20)); break
        except FileNotFoundError: pass
    time.sleep(0.02)`,
};
for (const [where, code] of Object.entries(hidden)) {
  test(`MEM-07 ${where} do not get around diskMb`, async (t) => {
    const sandbox = await open(t, { diskMb: 16, trackFiles: false });
    const result = await sandbox.runCode(
      `${code}\nprint('written', flush=True)\ntime.sleep(15)\nprint('escaped')`,
    );
    assertStopped(result, where);
    // Once, outside: nothing is in its way there.
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'twin-'));
    const once = code.replaceAll('range(40)', 'range(1)');
    const twin = outside(
      [
        packagedPython ?? 'python3',
        '-c',
        `${once.replaceAll('/workspace', '.')}\nprint('written', flush=True)
os._exit(0)`,
      ],
      { cwd: folder },
    );
    assert.equal(twin.stdout, 'written\n', twin.stderr);
    outside(['chmod', '-R', 'u+rwx', folder]);
  });
}

// Code that goes on in a thread when it is told to, between two cells.
const inThread = (code) => `import os, threading, time
attack = ${JSON.stringify(code)}
def wait():
    while not os.path.exists('/tmp/go'): time.sleep(0.02)
    exec(attack, globals())
threading.Thread(target=wait, daemon=True).start()`;

async function assertDies(kernel, title) {
  await kernel.runCode("open('/tmp/go', 'w').close()");
  await eventually(
    async () => {
      try {
        await kernel.runCode('');
        return false;
      } catch (error) {
        assert.match(error.message, /diskMb 16/, title);
        return true;
      }
    },
    `${title}: the kernel lives on`,
    15_000,
  );
}

for (const [where, code] of Object.entries({
  'files that are written': `for i in range(40):
    with open(f'x{i}', 'wb') as file: file.write(bytes(2 << 20))
    time.sleep(0.02)`,
  ...hidden,
})) {
  test(`MEM-07 ${where} between the cells of a kernel that has rested do not get around diskMb`, async (t) => {
    const sandbox = await open(t, { diskMb: 16 });
    const kernel = await sandbox.kernel();
    const { stderr } = await kernel.runCode(inThread(code));
    assert.equal(stderr, '');
    await awaitQuiet();
    await assertDies(kernel, where);
  });
}

test('MEM-10 holes that a kernel has mapped count when they are filled between its cells', async (t) => {
  const sandbox = await open(t, { diskMb: 16 });
  const kernel = await sandbox.kernel();
  const { stderr } = await kernel.runCode(`import mmap
held = []
for i in range(40):
    with open(f'x{i}', 'w+b') as file:
        file.truncate(2 << 20)
        held.append(mmap.mmap(file.fileno(), 2 << 20))
${inThread('for one in held:\n    one[:] = bytes(2 << 20)\n    time.sleep(0.02)')}`);
  assert.equal(stderr, '');
  await assertDies(kernel, 'holes');
});

test('MEM-07 names that look like nothing do not hide what is behind them', async (t) => {
  const sandbox = await open(t, { diskMb: 16, trackFiles: false });
  for (const folder of ['.deps', '.glovebox-0123456789abcdef.tmp', '...']) {
    const result = await sandbox.runCode(`import os, time
os.mkdir('${folder}')
for i in range(20): open(f'${folder}/{i}', 'wb').write(bytes(2 << 20))
time.sleep(15)
print('escaped')`);
    assertStopped(result, folder);
    fs.rmSync(path.join(sandbox.workspace, folder), { recursive: true });
  }
});
