// SPDX-License-Identifier: Apache-2.0
'use strict';

// diskMb: by how much the workspace of a session may grow.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const {
  eventually,
  makeFolder,
  open,
  soak,
  test,
  timeScale,
} = require('../helpers/harness.js');
const { forms } = require('../helpers/forms.js');
const { awaitQuiet } = require('../helpers/wake-ups.js');

/** Python that writes `count` files of `mib` MiB each, `pauseS` apart. */
function grow(count, mib, pauseS = 0.05) {
  return `import time
for i in range(${count}):
    with open(f'grown{i}', 'wb') as file: file.write(bytes(${mib} * 2**20))
    time.sleep(${pauseS})
time.sleep(${count < 20 ? 3 : 20})
print('escaped')`;
}

function assertStopped(result, diskMb) {
  assert.equal(result.fault?.type, 'killed', result.stdout + result.stderr);
  assert.match(result.fault.message, new RegExp(`diskMb ${diskMb}\\b`));
  assert.equal(result.exitCode, 137);
  assert.equal(result.signal, 'SIGKILL');
  assert.equal(result.stdout, '');
}

const full = { code: 'ERR_SANDBOX_DISK_FULL' };

function empty(sandbox) {
  for (const name of fs.readdirSync(sandbox.workspace)) {
    fs.rmSync(path.join(sandbox.workspace, name), { recursive: true });
  }
}

test('a workspace that outgrows diskMb ends the call; then calls are refused until files go', async (t) => {
  const sandbox = await open(t, { diskMb: 8 });
  assert.equal(sandbox.limits.diskMb, 'watchdog');
  await sandbox.writeFile('kept.txt', 'kept');
  assertStopped(await sandbox.runCode(grow(40, 1)), 8);

  const refused = {
    ...full,
    message: /grew by more than diskMb 8.*Delete files.*sandbox\.workspace/,
  };
  await assert.rejects(sandbox.run(['true']), refused);
  await assert.rejects(sandbox.runCode('1'), refused);
  await assert.rejects(sandbox.kernel(), refused);
  // What it takes to clean up works.
  assert.equal(await sandbox.readFile('kept.txt', 'utf8'), 'kept');
  assert.ok((await sandbox.listFiles()).length > 5);
  await sandbox.writeFile('more.txt', 'more');
  await assert.rejects(sandbox.run(['true']), refused);

  empty(sandbox);
  assert.equal((await sandbox.run(['true'])).exitCode, 0);
  // There is as much room as at first, and no more.
  assert.equal((await sandbox.runCode(grow(6, 1, 0))).stdout, 'escaped\n');
  empty(sandbox);
  assertStopped(await sandbox.runCode(grow(40, 1)), 8);
});

/**
 * At once, where the disk is nobody else's. Where others free as much as was
 * taken, nothing is noticed but by the count that comes every 2 s.
 */
async function eventuallyFull(call) {
  await eventually(async () => {
    try {
      await call();
      return false;
    } catch (error) {
      assert.equal(error.code, full.code);
      return true;
    }
  }, 'calls go on');
}

test('writeFile with nothing in it makes room too', async (t) => {
  const sandbox = await open(t, { diskMb: 8 });
  const result = await sandbox.run(['head', '-c', '12M', '/dev/zero']);
  assert.equal(result.stdoutBuffer.length, 12 * 2 ** 20);
  await sandbox.writeFile('big', result.stdoutBuffer);
  await eventuallyFull(() => sandbox.run(['true']));
  await sandbox.writeFile('big', '');
  assert.equal((await sandbox.run(['true'])).exitCode, 0);
});

test('the growth of calls adds up, however short they are', async (t) => {
  const sandbox = await open(t, { diskMb: 8, trackFiles: false });
  const write = (name) =>
    sandbox.run(['dd', 'if=/dev/zero', `of=${name}`, 'bs=1M', 'count=3']);
  for (const name of ['a', 'b']) {
    assert.equal((await write(name)).exitCode, 0);
  }
  // It may be stopped, or be through before anybody looks.
  await eventuallyFull(() => write('c'));
});

test('what a host writes counts as what code writes', async (t) => {
  const sandbox = await open(t, { diskMb: 8 });
  await sandbox.writeFile('big', Buffer.alloc(9 * 2 ** 20));
  const result = await sandbox.run(['sleep', '20']);
  assertStopped(result, 8);
  await assert.rejects(sandbox.run(['true']), full);
});

test('diskMb: null lifts the limit', async (t) => {
  const sandbox = await open(t, { diskMb: null });
  assert.equal(sandbox.limits.diskMb, null);
  const code = `${grow(12, 1, 0)}
import resource; print(resource.getrlimit(resource.RLIMIT_FSIZE)[0])`;
  assert.equal((await sandbox.runCode(code)).stdout, 'escaped\n-1\n');
});

test('one file ends at diskMb: EFBIG, or SIGXFSZ', async (t) => {
  const sandbox = await open(t, { diskMb: 8 });
  const dd = await sandbox.run([
    ...['dd', 'if=/dev/zero', 'of=x', 'bs=1M', 'count=100'],
  ]);
  // Some filesystems set more aside for a file than is in it, so it may also
  // have been stopped as one that outgrew the limit.
  if (dd.fault) assertStopped(dd, 8);
  else assert.equal(dd.signal, 'SIGXFSZ');
  const { size } = fs.statSync(path.join(sandbox.workspace, 'x'));
  assert.ok(dd.fault ? size <= 8 * 2 ** 20 : size === 8 * 2 ** 20, `${size}`);
  empty(sandbox);
  const inMemory = await sandbox.runCode(`import errno
try:
    with open('/dev/shm/x', 'wb') as file: file.write(bytes(9 * 2**20))
except OSError as error: print(errno.errorcode[error.errno])`);
  assert.equal(inMemory.stdout, 'EFBIG\n');
});

test('files without content count by their number', async (t) => {
  const sandbox = await open(t, { diskMb: 1 });
  const touch = (count) => `import time
for i in range(${count}): open(f'f{i}', 'w').close()
time.sleep(3)
print('escaped')`;
  assert.equal((await sandbox.runCode(touch(100))).stdout, 'escaped\n');
  assertStopped(await sandbox.runCode(touch(400)), 1);
});

test('what was in a persistent workspace does not count, what it leaves does', async (t) => {
  const workspace = makeFolder(t);
  fs.writeFileSync(path.join(workspace, 'old'), Buffer.alloc(20 * 2 ** 20));
  const options = { workspace, diskMb: 8 };
  const first = await open(t, options);
  assert.equal((await first.runCode(grow(5, 1, 0))).stdout, 'escaped\n');
  // Other content in the same room is no growth.
  const overwrite = await first.runCode(`import os
with open('/workspace/old', 'r+b') as file: file.write(b'x' * (20 * 2**20))
import time; time.sleep(3)`);
  // A file of that size is above what one file may have.
  assert.equal(overwrite.error?.name, 'OSError');
  const inPlace = await first.runCode(`
with open('/workspace/old', 'r+b') as file: file.write(b'x' * (8 * 2**20))
import time; time.sleep(3); print('done')`);
  assert.equal(inPlace.stdout, 'done\n', inPlace.stderr);
  await first.close();

  // A new session begins with what is there.
  const second = await open(t, options);
  assertStopped(
    await second.runCode(grow(40, 1).replaceAll('grown', 'new')),
    8,
  );
  await assert.rejects(second.run(['true']), full);
  // What goes makes room, also if it was there before.
  fs.rmSync(path.join(workspace, 'old'));
  assert.equal((await second.run(['true'])).exitCode, 0);
});

test('all calls of the session are stopped, and no others', async (t) => {
  const sandbox = await open(t, { diskMb: 8 });
  const other = await open(t, { diskMb: 8 });
  const calls = await Promise.all([
    sandbox.runCode(grow(40, 1)),
    sandbox.run(['sleep', '20']),
    sandbox.runCode('sleep 20', { language: 'bash' }),
  ]);
  for (const result of calls) assertStopped(result, 8);
  assert.equal((await other.run(['true'])).exitCode, 0);
  await assert.rejects(
    Promise.all([sandbox.run(['true']), sandbox.run(['true'])]),
    full,
  );
});

for (const { name, begin } of forms) {
  test(`the fault names diskMb ${name}`, async (t) => {
    const run = await begin(await open(t, { diskMb: 4 }));
    assertStopped(await run(grow(40, 1)), 4);
  });
}

test('a Kernel that outgrew diskMb is dead, and says why', async (t) => {
  const kernel = await (await open(t, { diskMb: 4 })).kernel();
  const result = await kernel.runCode(grow(40, 1));
  assertStopped(result, 4);
  assert.match(result.fault.message, /kernel and its state are gone/);
  await assert.rejects(kernel.runCode('1'), {
    code: 'ERR_SANDBOX_KERNEL_DEAD',
    message: /diskMb 4/,
  });
});

test('a Kernel is watched between its cells', async (t) => {
  const sandbox = await open(t, { diskMb: 4 });
  const kernel = await sandbox.kernel();
  const ready = await kernel.runCode(`import threading
def grow():
    ${grow(40, 1).replaceAll('\n', '\n    ')}
threading.Thread(target=grow, daemon=True).start()`);
  assert.equal(ready.success, true);
  await eventually(async () => {
    try {
      return !(await kernel.runCode('')).success;
    } catch (error) {
      assert.match(error.message, /diskMb 4/);
      return true;
    }
  }, 'the kernel lives on');
  await assert.rejects(sandbox.run(['true']), full);
});

test('requireLimits and the warning do not speak of diskMb', async (t) => {
  const warnings = [];
  const onWarning = (warning) => warnings.push(warning.message);
  process.on('warning', onWarning);
  t.after(() => process.off('warning', onWarning));
  const sandbox = await open(t, {
    requireLimits: true,
    memoryMb: null,
    pids: null,
    diskMb: 4,
  });
  assert.equal(sandbox.limits.diskMb, 'watchdog');
  await new Promise(setImmediate);
  assert.deepEqual(
    warnings.filter((message) => message.includes('diskMb')),
    [],
  );
});

test('enforceLimits: false leaves diskMb in force', async (t) => {
  const sandbox = await open(t, { diskMb: 4, enforceLimits: false });
  assert.equal(sandbox.limits.diskMb, 'watchdog');
  assertStopped(await sandbox.runCode(grow(40, 1)), 4);
});

test('close() does not wait for a look at the disk, and works when it is full', async (t) => {
  const sandbox = await open(t, { diskMb: 4 });
  assertStopped(await sandbox.runCode(grow(40, 1)), 4);
  const refused = assert.rejects(sandbox.run(['true']), {
    code: /^ERR_SANDBOX_(DISK_FULL|CLOSED)$/,
  });
  await sandbox.close();
  await refused;
  assert.ok(!fs.existsSync(sandbox.workspace));
});

test('close() removes a workspace of very many files in a bounded time', async (t) => {
  const count = soak ? 100000 : 20000;
  const sandbox = await open(t, { trackFiles: false });
  const result = await sandbox.runCode(
    `for i in range(${count}): open(f'{i}', 'w').close()`,
  );
  assert.equal(result.exitCode, 0, result.stderr);
  const start = Date.now();
  await sandbox.close();
  assert.ok(!fs.existsSync(sandbox.workspace));
  const tookMs = Date.now() - start;
  assert.ok(tookMs < (count / 2) * timeScale, `${tookMs} ms`);
});

test('nobody looks at the disk while no box runs', async (t) => {
  const sandbox = await open(t, { diskMb: 8 });
  await sandbox.run(['sleep', '0.3']);
  await awaitQuiet();
});

for (const language of ['python', 'node', 'bash']) {
  test(`nobody looks at the disk while a kernel of ${language} has opened no file of it`, async (t) => {
    const sandbox = await open(t, { diskMb: 8 });
    await sandbox.writeFile('there.txt', 'before');
    const kernel = await sandbox.kernel({ language });
    await kernel.runCode('1');
    await awaitQuiet();
    await kernel.runCode('1');
    await awaitQuiet();
    await kernel.close();
  });
}
