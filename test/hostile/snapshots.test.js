// SPDX-License-Identifier: Apache-2.0
'use strict';

// Group TAR of the hostile cases: workspaces that were made to spoil archives, and
// what a snapshot makes of them.

const assert = require('node:assert/strict');
const { execFileSync, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const {
  canary,
  isRoot,
  open,
  packagedPython,
  soak,
  test,
  timeScale,
} = require('../helpers/harness.js');
const { archive, member } = require('../helpers/tar.js');
const { contents, hostFile, openWithFile } = require('./archive-files.js');

const oddities = `
import os, socket
os.truncate(os.open('sparse', os.O_CREAT | os.O_RDWR), 3 << 20)
os.mkfifo('fifo')
socket.socket(socket.AF_UNIX).bind('socket')
os.symlink('/etc/passwd', 'out'); os.symlink('d/f', 'in'); os.symlink('..', 'd2')
os.makedirs('d/empty'); open('d/f', 'w').write('f'); os.link('d/f', 'd/g')
os.chmod('d/f', 0o6750)
open(b'\\xff\\xfe', 'w').write('bytes'); open('new\\nline', 'w').write('nl')
os.makedirs('l' * 200); open('l' * 200 + '/' + 'm' * 200, 'w').write('long')
os.symlink('l' * 200 + '/' + 'm' * 200, 'longlink')
open('C:\\\\x', 'w').write('drive')
`;

test('TAR-14 a snapshot holds what can be held, reports the rest, and comes back as it was', async (t) => {
  const sandbox = await open(t);
  const made = await sandbox.runCode(oddities);
  assert.equal(made.exitCode, 0, made.stderr);
  // What a union file system puts in the place of what is gone; no box may.
  const whiteout = path.join(sandbox.workspace, 'device');
  if (isRoot) execFileSync('mknod', [whiteout, 'c', '0', '0']);
  const file = hostFile(t);
  const info = await sandbox.snapshot(file);
  assert.deepEqual(info.skipped.map((one) => [one.path, one.reason]).sort(), [
    ['C:\\x', 'its name has a drive letter'],
    ['d2', 'a symlink that leads out of the workspace'],
    ...(isRoot ? [['device', 'a device']] : []),
    ['fifo', 'a fifo'],
    ['out', 'a symlink to an absolute path'],
    ['socket', 'a socket'],
  ]);
  assert.deepEqual(
    [info.files, info.folders, info.links, info.bytes],
    [5, 3, 3, (3 << 20) + 1 + 5 + 2 + 4],
  );

  const other = await open(t);
  assert.deepEqual(await other.restore(file), {
    files: info.files,
    folders: info.folders,
    links: info.links,
    bytes: info.bytes,
  });
  const kept = contents(sandbox).filter(
    ([name]) => !info.skipped.some((one) => one.path === name),
  );
  // Without setuid and setgid.
  const expected = kept.map(([name, mode, text]) => [
    name,
    mode & ~0o6000,
    text,
  ]);
  assert.deepEqual(contents(other), expected);
  const inode = (name) => fs.statSync(path.join(other.workspace, name)).ino;
  assert.equal(inode('d/f'), inode('d/g'));
  assert.equal((await other.stat('in')).type, 'symlink');
  assert.equal((await other.run(['cat', 'in'])).stdout, 'f');
});

test('TAR-14 GNU tar reads a snapshot, and what it makes of one is restored', async (t) => {
  const sandbox = await open(t);
  await sandbox.runCode(oddities);
  const file = hostFile(t);
  await sandbox.snapshot(file);
  const folder = hostFile(t);
  fs.mkdirSync(folder);
  const unpacked = spawnSync(
    'tar',
    ['--no-same-owner', '-xzpf', file, '-C', folder],
    { encoding: 'utf8' },
  );
  assert.equal(unpacked.status, 0, unpacked.stderr);
  assert.equal(unpacked.stderr, '');
  const long = `${'l'.repeat(200)}/${'m'.repeat(200)}`;
  assert.equal(fs.readFileSync(path.join(folder, long), 'utf8'), 'long');
  assert.equal(fs.readlinkSync(path.join(folder, 'longlink')), long);

  const again = hostFile(t);
  execFileSync('tar', ['--format=pax', '-czf', again, '-C', folder, '.']);
  const other = await open(t);
  await other.restore(again);
  assert.deepEqual(contents(other), contents({ workspace: folder }));
});

const packing = `
import os, sys, tarfile
file, folder, form = sys.argv[1:]
form = getattr(tarfile, form + '_FORMAT')
with tarfile.open(file, 'w:gz', compresslevel=1, format=form) as archive:
    for name in sorted(os.listdir(folder)):
        archive.add(os.path.join(folder, name), arcname=name)
`;

test("the archives of kern-sandbox's two bindings are restored", async (t) => {
  const sandbox = await openWithFile(t);
  // Node's: files only, in plain ustar headers of no time and owner.
  const plain = archive(
    member({ name: 'a.txt', body: 'a' }),
    member({ name: 'sub/é.txt', body: 'b'.repeat(600) }),
    member({ name: 'sub/empty' }),
  );
  await sandbox.restore(hostFile(t, plain));
  assert.deepEqual(
    (await sandbox.listFiles()).map((file) => `${file.path} ${file.size}`),
    ['a.txt 1', 'sub/empty 0', 'sub/é.txt 600'],
  );
  // Python's, by tarfile, each name of the workspace's on its own. With pax
  // headers, for long names and fractions of times, before it was ustar.
  const name = Buffer.from('sub/\xff\xfe', 'latin1');
  for (const [format, names] of [
    ['USTAR', []],
    ['PAX', [name, `${'l'.repeat(200)}/${'m'.repeat(200)}`]],
  ]) {
    for (const name of names) await sandbox.writeFile(name, 'x');
    const file = hostFile(t);
    const made = spawnSync(
      packagedPython ?? 'python3',
      ['-c', packing, file, sandbox.workspace, format],
      { encoding: 'utf8' },
    );
    assert.equal(made.status, 0, made.stderr);
    const before = contents(sandbox);
    await sandbox.rm('sub', { recursive: true });
    await sandbox.restore(file);
    assert.deepEqual(contents(sandbox), before, format);
  }
});

test('TAR-14 a growing file is cut at the size that it had, a file that nobody may read is an error', async (t) => {
  const sandbox = await open(t);
  const file = hostFile(t);
  let started;
  const running = new Promise((resolve) => {
    started = resolve;
  });
  const run = sandbox.runCode(
    `import sys
f = open('log', 'wb', buffering=0)
print('up', flush=True)
while True: f.write(b'x' * 1000)`,
    { timeoutS: 3 * timeScale, onStdout: () => started() },
  );
  await running;
  const info = await sandbox.snapshot(file);
  assert.equal(info.files, 1);
  await run;
  execFileSync('tar', ['-tzf', file]);

  const closed = await open(t);
  await closed.runCode(
    "open('f', 'w').write('x'); import os; os.chmod('f', 0)",
  );
  if (isRoot) {
    assert.equal((await closed.snapshot(file)).files, 1, 'root may read it');
  } else {
    await assert.rejects(closed.snapshot(file), {
      code: 'ERR_SANDBOX_IO',
      errno: 'EACCES',
    });
  }
});

test('TAR-14 files that go while they are walked harm no snapshot', async (t) => {
  const sandbox = await open(t);
  await sandbox.writeFile('there', 'x');
  let begin;
  const begun = new Promise((resolve) => {
    begin = resolve;
  });
  const coming = sandbox.runCode(
    `import os, shutil
print('up', flush=True)
while True:
    for i in range(20):
        os.makedirs(f'd/{i}')
        open(f'd/{i}/f', 'w').write('x' * 1000)
        os.rename(f'd/{i}/f', f'd/{i}/g')
    shutil.rmtree('d')`,
    { timeoutS: 60 * timeScale, onStdout: () => begin() },
  );
  coming.catch(() => {}); // It ends with close().
  await begun;
  const counts = new Set();
  for (let i = 0; i < (soak ? 300 : 30); i++) {
    const file = hostFile(t);
    const { files } = await sandbox.snapshot(file);
    counts.add(files);
    const list = execFileSync('tar', ['-tzf', file], { encoding: 'utf8' });
    assert.match(list, /^there$/m);
  }
  assert.ok(counts.size > 1, 'the walks met different trees');
  await sandbox.close();
  await assert.rejects(coming, { code: 'ERR_SANDBOX_CLOSED' });
});

test('TAR-14 a sparse file of a tebibyte is refused by its size, before a byte is read', async (t) => {
  const sandbox = await open(t, { diskMb: null });
  const made = await sandbox.runCode(
    "import os; os.truncate(os.open('s', os.O_CREAT | os.O_RDWR), 1 << 40)",
  );
  assert.equal(made.exitCode, 0, made.stderr);
  const file = hostFile(t);
  await assert.rejects(sandbox.snapshot(file), {
    code: 'ERR_SANDBOX_TOO_LARGE',
    message: /more than 8589934591 bytes/,
    member: 's',
  });
  assert.equal(fs.existsSync(file), false);
  await sandbox.writeFile('s', Buffer.alloc(1000));
  await assert.rejects(sandbox.snapshot(file, { maxBytes: 999 }), {
    code: 'ERR_SANDBOX_TOO_LARGE',
    message: /maxBytes, 999/,
  });
});

test('TAR-16 a snapshot never goes into the workspace, over a folder or device, or through a link', async (t) => {
  const sandbox = await open(t);
  await sandbox.writeFile('f', 'x');
  const inside = (name) => path.join(sandbox.workspace, name);
  await sandbox.run(['ln', '-s', canary.dir, 'd']);
  for (const dest of [inside('a.tgz'), inside('d/../a.tgz')]) {
    await assert.rejects(sandbox.snapshot(dest), { code: 'ERR_SANDBOX_PATH' });
  }
  const way = hostFile(t);
  fs.symlinkSync(inside('d'), way);
  // A link that the box laid is followed from no side.
  for (const dest of [inside('d'), way]) {
    await assert.rejects(sandbox.snapshot(path.join(dest, 'a.tgz')), {
      code: 'ERR_SANDBOX_PATH',
      option: 'dest',
    });
  }
  const folder = hostFile(t);
  fs.mkdirSync(folder);
  const listing = () => fs.readdirSync(folder).sort();
  const dest = path.join(folder, 'a.tgz');

  for (const taken of [folder, '/dev/full', '/dev/null']) {
    await assert.rejects(sandbox.snapshot(taken), {
      code: 'ERR_SANDBOX_EXISTS',
    });
  }
  assert.ok(fs.statSync('/dev/full').isCharacterDevice());

  // A file is replaced; of a link, the link.
  fs.writeFileSync(dest, 'old');
  await sandbox.snapshot(dest);
  assert.deepEqual([...fs.readFileSync(dest).subarray(0, 2)], [0x1f, 0x8b]);
  fs.rmSync(dest);
  fs.symlinkSync(canary.file, dest);
  await sandbox.snapshot(dest);
  assert.ok(fs.lstatSync(dest).isFile());
  assert.deepEqual(listing(), ['a.tgz']);

  await assert.rejects(
    sandbox.snapshot(path.join(folder, 'missing', 'a.tgz')),
    { code: 'ERR_SANDBOX_HOST_FILE', errno: 'ENOENT' },
  );
  const long = path.join(folder, 'n'.repeat(255));
  await sandbox.snapshot(long);
  fs.rmSync(long);
  for (const [where, errno] of [
    [`${long}n`, 'ENAMETOOLONG'],
    [path.join(dest, 'a.tgz'), 'ENOTDIR'], // below a file
  ]) {
    await assert.rejects(sandbox.snapshot(where), {
      code: 'ERR_SANDBOX_HOST_FILE',
      errno,
    });
  }
  if (!isRoot) {
    // Into one that may be read, and one that may not even be searched.
    for (const mode of [0o555, 0o444]) {
      fs.chmodSync(folder, mode);
      await assert.rejects(sandbox.snapshot(path.join(folder, 'b.tgz')), {
        code: 'ERR_SANDBOX_HOST_FILE',
        errno: 'EACCES',
      });
    }
    fs.chmodSync(folder, 0o755);
  }
  for (const wrong of [undefined, 5, '', 'a\0b', 'a/']) {
    await assert.rejects(sandbox.snapshot(wrong), {
      code: 'ERR_SANDBOX_INVALID_OPTION',
      option: 'dest',
    });
  }
});

test('TAR-16 a full disk leaves the archive that was there, and nothing of the new one', async (t) => {
  if (!isRoot) return t.skip('by design: only root can mount a small disk');
  const folder = hostFile(t);
  fs.mkdirSync(folder);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', folder]);
  try {
    const sandbox = await open(t);
    const dest = path.join(folder, 'a.tgz');
    fs.writeFileSync(dest, 'old');
    await sandbox.run(['dd', 'if=/dev/urandom', 'of=f', 'bs=1M', 'count=2']);
    await assert.rejects(sandbox.snapshot(dest), {
      code: 'ERR_SANDBOX_HOST_FILE',
      errno: 'ENOSPC',
    });
    assert.deepEqual(fs.readdirSync(folder), ['a.tgz']);
    assert.equal(fs.readFileSync(dest, 'utf8'), 'old');
  } finally {
    execFileSync('umount', [folder]);
  }
});
