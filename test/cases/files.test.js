// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rows G of the public cases, and the `workspace` option: which files there
// are, whose they are, and how long they stay.

const assert = require('node:assert/strict');
const { createHook } = require('node:async_hooks');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const {
  glovebox,
  isRoot,
  makeFolder,
  open,
  test,
} = require('../helpers/harness.js');
const { getEngine } = require('../../lib/native.js');
const { askScript } = require('../helpers/host-script.js');

async function paths(sandbox) {
  return (await sandbox.listFiles()).map((file) => file.path);
}

// ---- P22 -------------------------------------------------------------------
// A rename shows as one path deleted and another created; that they are one
// file is carried by the issue of rename tracking.

test('P22 an edit of the same size and time, a removal and a rename are seen', async (t) => {
  const sandbox = await open(t);
  await sandbox.writeFile('a.txt', 'true ');
  await sandbox.writeFile('b.txt', 'b');
  await sandbox.writeFile('c.txt', 'c');
  const result = await sandbox.runCode(`import os
s = os.stat('a.txt')
open('a.txt', 'w').write('false')
os.utime('a.txt', ns=(s.st_atime_ns, s.st_mtime_ns))
os.remove('b.txt'); os.rename('c.txt', 'd.txt')`);
  assert.deepEqual(result.files, [
    { path: 'a.txt', size: 5, change: 'modified' },
    { path: 'd.txt', size: 1, change: 'created' },
  ]);
  assert.deepEqual(result.deletedFiles, ['b.txt', 'c.txt']);
  assert.deepEqual(await paths(sandbox), ['a.txt', 'd.txt']);
});

test('P22 every change is found among 20,000 files, and none that was not made', async (t) => {
  const workspace = makeFolder(t);
  for (let i = 0; i < 20_000; i++) {
    const folder = path.join(workspace, `d${i % 100}`);
    if (i < 100) fs.mkdirSync(folder);
    fs.writeFileSync(path.join(folder, `f${i}`), 'text');
  }
  const sandbox = await open(t, { workspace });
  const quiet = await sandbox.run(['true']);
  assert.deepEqual([quiet.files, quiet.deletedFiles], [[], []]);
  const result = await sandbox.runCode(`import os
for name in ('d0/f0', 'd99/f19999'):
    s = os.stat(name); open(name, 'w').write('TEXT')
    os.utime(name, ns=(s.st_atime_ns, s.st_mtime_ns))
os.rename('d1/f1', 'd2/moved'); os.rename('d3', 'd1/d3')
os.remove('d4/f4'); os.mkdir('empty'); open('d5/new', 'w')
os.truncate('d6/f6', 1); os.chmod('d7/f7', 0o600)
open('d8/f8', 'r').read()`);
  const moved = fs.readdirSync(path.join(workspace, 'd1', 'd3')).sort();
  assert.equal(moved.length, 200);
  const created = [
    ...moved.map((name) => `d1/d3/${name}`),
    'd2/moved',
    'd5/new',
  ];
  const modified = ['d0/f0', 'd6/f6', 'd7/f7', 'd99/f19999'];
  const named = (change) =>
    result.files
      .filter((file) => file.change === change)
      .map((file) => file.path);
  assert.deepEqual(named('created').sort(), created.sort());
  assert.deepEqual(named('modified').sort(), modified);
  assert.deepEqual(
    result.deletedFiles.sort(),
    [...moved.map((name) => `d3/${name}`), 'd1/f1', 'd4/f4'].sort(),
  );
  assert.equal(result.truncated, false);
});

test('P22 a change by a mapping, a hard link or a swap of two files is seen', async (t) => {
  const sandbox = await open(t);
  for (const name of ['mapped', 'linked', 'x', 'y']) {
    await sandbox.writeFile(name, name.padEnd(100, '.'));
  }
  const result = await sandbox.runCode(`import ctypes, mmap, os
with open('mapped', 'r+') as f, mmap.mmap(f.fileno(), 0) as m: m[0:1] = b'M'
os.link('linked', 'other'); open('other', 'r+').write('L'); os.remove('other')
ctypes.CDLL(None).renameat2(-100, b'x', -100, b'y', 2)`);
  assert.deepEqual(
    result.files.map((file) => `${file.path} ${file.change}`),
    ['linked modified', 'mapped modified', 'x modified', 'y modified'],
  );
  assert.deepEqual(result.deletedFiles, []);
});

// ---- P23 -------------------------------------------------------------------

test('P23 odd file names and binary content survive', async (t) => {
  const sandbox = await open(t);
  const bytes = Uint8Array.from([0, 255, 254, 10, 13, 128]);
  const names = [
    'a b.txt',
    'nl\nx.txt',
    '日本語 😀.txt',
    '-rf',
    `q'"$(id).txt`,
    'sub dir/é.bin',
  ];
  for (const name of names) await sandbox.writeFile(name, bytes);
  const counted = await sandbox.runCode(
    'find . -type f -exec wc -c {} + | tail -n 1',
    { language: 'bash' },
  );
  assert.match(counted.stdout, /^ *36 total\n$/);
  assert.deepEqual(counted.files, []);
  const listed = await sandbox.listFiles();
  assert.deepEqual(
    listed.map((file) => [file.path, file.size]).sort(),
    names.map((name) => [name, 6]).sort(),
  );
  for (const name of names) {
    assert.deepEqual([...(await sandbox.readFile(name))], [...bytes], name);
  }
  await sandbox.writeFile('text', 'é');
  assert.equal((await sandbox.readFile('text')).toString('hex'), 'c3a9');
});

// ---- P24 -------------------------------------------------------------------

test("P24 a workspace holds the code's files and nothing of ours, after each call and close()", async (t) => {
  const workspace = makeFolder(t);
  fs.writeFileSync(path.join(workspace, 'a.txt'), 'a');
  const sandbox = await open(t, { workspace });
  const listing = () => fs.readdirSync(workspace).sort();

  const inside = await sandbox.runCode('ls -A', { language: 'bash' });
  assert.equal(inside.stdout, 'a.txt\n');
  assert.deepEqual(listing(), ['a.txt']);

  await sandbox.runCode("open('o.txt', 'w').write('x')");
  assert.deepEqual(listing(), ['a.txt', 'o.txt']);

  let during;
  const stopped = await sandbox.runCode("print('up')\nwhile True: pass", {
    timeoutS: 1,
    onStdout: () => {
      during = listing();
    },
  });
  assert.equal(stopped.fault.type, 'timeout');
  assert.deepEqual(during, ['a.txt', 'o.txt']);
  assert.deepEqual(listing(), ['a.txt', 'o.txt']);

  const kernel = await sandbox.kernel();
  assert.equal((await kernel.runCode('1')).success, true);
  assert.deepEqual(listing(), ['a.txt', 'o.txt']);

  await sandbox.close();
  assert.deepEqual(listing(), ['a.txt', 'o.txt']);
  const created = path.join(workspace, 'o.txt');
  const stat = fs.statSync(created);
  assert.equal(stat.uid, process.getuid());
  assert.equal(stat.gid, process.getgid());
  fs.writeFileSync(created, 'of the host');
  assert.equal(fs.readFileSync(created, 'utf8'), 'of the host');
  fs.unlinkSync(created);
});

test('P24 folders that the code made can be deleted by the host', async (t) => {
  const workspace = makeFolder(t);
  const sandbox = await open(t, { workspace });
  await sandbox.runCode('umask 077; mkdir -p d/e; echo x > d/e/f', {
    language: 'bash',
  });
  const { uid } = fs.statSync(path.join(workspace, 'd', 'e', 'f'));
  assert.equal(uid, process.getuid());
  fs.rmSync(path.join(workspace, 'd'), { recursive: true });
  assert.deepEqual(fs.readdirSync(workspace), []);
});

test("files in a workspace of another user are that user's, made by code or by writeFile()", async (t) => {
  if (!isRoot) return t.skip('by design: only root can give a folder away');
  const workspace = makeFolder(t);
  const [uid, gid] = [23456, 34567];
  fs.chownSync(workspace, uid, gid);
  fs.chmodSync(workspace, 0o700);
  const sandbox = await open(t, { workspace });
  const result = await sandbox.runCode('echo x > by-code; stat -c %u:%g .', {
    language: 'bash',
  });
  assert.equal(result.stdout, '1000:1000\n');
  await sandbox.writeFile('by-host', 'x');
  for (const name of ['by-code', 'by-host']) {
    const stat = fs.statSync(path.join(workspace, name));
    assert.deepEqual([stat.uid, stat.gid], [uid, gid], name);
  }
  const read = await sandbox.runCode('cat by-host', { language: 'bash' });
  assert.equal(read.stdout, 'x');
});

// ---- The workspace option --------------------------------------------------

test('a named workspace persists from one session to the next', async (t) => {
  const workspace = makeFolder(t);
  const first = await open(t, { workspace });
  assert.equal(first.workspace, workspace);
  await first.runCode('echo kept > file', { language: 'bash' });
  await first.close();
  // A path stays known after close().
  assert.equal(first.workspace, workspace);
  const second = await open(t, { workspace });
  assert.equal(await second.readFile('file', 'utf8'), 'kept\n');
  assert.equal((await second.run(['cat', 'file'])).stdout, 'kept\n');
});

test('a workspace that is missing is made, with its parents, and stays', async (t) => {
  const workspace = path.join(makeFolder(t), 'not', 'yet', 'there');
  const sandbox = await open(t, { workspace });
  await sandbox.runCode('pwd; echo x > f', { language: 'bash' });
  await sandbox.close();
  assert.equal(fs.readFileSync(path.join(workspace, 'f'), 'utf8'), 'x\n');
});

test("a relative workspace starts at the process' folder when the Sandbox is made", async (t) => {
  const folder = makeFolder(t);
  const answer = await askScript(t, 'relative-workspace.js', { cwd: folder });
  assert.equal(answer.workspace, path.join(folder, 'here'));
  assert.equal(fs.readFileSync(path.join(folder, 'here', 'f'), 'utf8'), 'x\n');
});

test('a workspace that is a file or below one is refused with its path', async (t) => {
  const file = path.join(makeFolder(t), 'file');
  fs.writeFileSync(file, 'x');
  for (const workspace of [file, path.join(file, 'below')]) {
    await assert.rejects(
      new glovebox.Sandbox({ workspace }).open(),
      (error) => {
        assert.equal(error.code, 'ERR_SANDBOX_WORKSPACE');
        assert.equal(error.errno, 'ENOTDIR');
        assert.ok(error.message.includes(file), error.message);
        return true;
      },
    );
  }
  assert.equal(fs.readFileSync(file, 'utf8'), 'x');
});

test('a workspace that the user may not write to is refused', async (t) => {
  if (isRoot) return t.skip('by design: root may write everywhere');
  const folder = makeFolder(t);
  fs.chmodSync(folder, 0o555);
  await assert.rejects(
    new glovebox.Sandbox({ workspace: path.join(folder, 'new') }).open(),
    { code: 'ERR_SANDBOX_WORKSPACE', errno: 'EACCES' },
  );
});

test('without a workspace there is a private, empty one that close() deletes', async (t) => {
  const one = await open(t);
  const two = await open(t);
  assert.notEqual(one.workspace, two.workspace);
  assert.ok(one.workspace.startsWith(`${fs.realpathSync(os.tmpdir())}/`));
  assert.equal(fs.statSync(one.workspace).mode & 0o777, 0o700);
  assert.deepEqual(await one.listFiles(), []);

  // What code leaves there, and as it leaves it, is no obstacle.
  const result = await one.runCode(
    'mkdir -p d/e; ln -s / d/link; touch d/e/f; chmod 0 d/e; chmod 500 d',
    { language: 'bash' },
  );
  assert.equal(result.exitCode, 0);
  await one.close();
  assert.ok(!fs.existsSync(one.workspace));
  assert.ok(fs.existsSync(two.workspace));
});

test('files persist from call to call, everything else of a box does not', async (t) => {
  const sandbox = await open(t);
  const first = await sandbox.runCode(
    'echo 1 | tee f /tmp/f /home/user/f /dev/shm/f; export X=1; cd /tmp; sleep 60 &',
    { language: 'bash' },
  );
  assert.deepEqual(first.files, [{ path: 'f', size: 2, change: 'created' }]);
  const second = await sandbox.runCode(
    'pwd; ls /workspace /tmp /home/user /dev/shm; echo "X=$X"; cat /proc/[0-9]*/comm | grep -c sleep',
    { language: 'bash' },
  );
  assert.equal(
    second.stdout,
    '/workspace\n/dev/shm:\n\n/home/user:\n\n/tmp:\n\n/workspace:\nf\nX=\n0\n',
  );
  assert.deepEqual(second.files, []);
});

test('without trackFiles no change is listed', async (t) => {
  const sandbox = await open(t, { trackFiles: false });
  const result = await sandbox.run(['touch', 'f']);
  assert.deepEqual(result.files, []);
  assert.deepEqual(await paths(sandbox), ['f']);
});

test('a session that is closed while a promise is made takes no call of it', async () => {
  const engine = getEngine();
  const openSession = engine.openSession.bind(engine);
  let session;
  Object.defineProperty(engine, 'openSession', {
    configurable: true,
    value: async (...args) => {
      session = await openSession(...args);
      return session;
    },
  });
  const file = Buffer.from('file');
  const toRead = 1;
  const calls = [
    () => session.openFile(toRead, file),
    () => session.readFile(file, 10),
    () => session.stat(file),
  ];
  try {
    for (const call of calls) {
      const sandbox = await new glovebox.Sandbox().open();
      let closing;
      const hook = createHook({
        init: (_id, type) => {
          if (type === 'PROMISE' && !closing) {
            closing = true;
            closing = session.close();
          }
        },
      });
      hook.enable();
      const answer = call();
      hook.disable();
      await assert.rejects(answer, { code: 'CLOSED' }, String(call));
      await closing;
      await sandbox.close();
    }
  } finally {
    delete engine.openSession;
  }
});
