// SPDX-License-Identifier: Apache-2.0
'use strict';

// Group TAR of the hostile cases: archives that were made to do harm, and
// workspaces that were made to spoil archives. After every refusal the workspace
// is as it was.

const assert = require('node:assert/strict');
const { execFileSync, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const zlib = require('node:zlib');
const {
  canary,
  isRoot,
  open,
  packagedPython,
  soak,
  test,
  timeScale,
} = require('../helpers/harness.js');
const { archive, end, header, member, pax, record } =
  require('../helpers/tar.js');

let made = 0;

/** A path for a file of the host that is gone after test `t`. */
function hostFile(t, bytes) {
  const file = path.join(os.tmpdir(), `archive-${process.pid}-${made++}`);
  t.after(() => fs.rmSync(file, { recursive: true, force: true }));
  if (bytes) fs.writeFileSync(file, bytes);
  return file;
}

async function openWithFile(t) {
  const sandbox = await open(t);
  await sandbox.writeFile('old/kept.txt', 'kept');
  return sandbox;
}

/** Everything in the workspace: hidden names, modes and contents too. */
function contents({ workspace }) {
  const found = [];
  const look = (folder, prefix) => {
    for (const name of fs.readdirSync(folder, { encoding: 'buffer' })) {
      const file = Buffer.concat([folder, Buffer.from('/'), name]);
      const shown = prefix + name.toString('latin1');
      const stat = fs.lstatSync(file);
      const text = stat.isFile() ? fs.readFileSync(file, 'latin1') : '';
      found.push([shown, stat.mode, text]);
      if (stat.isDirectory()) look(file, `${shown}/`);
    }
  };
  look(Buffer.from(workspace), '');
  return found.sort(([a], [b]) => (a < b ? -1 : 1));
}

/** That `sandbox` refuses the archive, by this rule, and stays as it was. */
async function assertRefused(t, sandbox, bytes, rule, name) {
  const before = contents(sandbox);
  const file = hostFile(t, bytes);
  await assert.rejects(
    sandbox.restore(file),
    (error) => {
      assert.equal(error.code, 'ERR_SANDBOX_ARCHIVE', error.stack);
      assert.match(error.message, rule);
      if (name !== undefined) {
        assert.equal(error.member, name);
        const shown = JSON.stringify(name.slice(0, 200));
        assert.ok(error.message.includes(shown), error.message);
      }
      return true;
    },
    String(name ?? rule),
  );
  assert.deepEqual(contents(sandbox), before, String(rule));
}

// ---- Names -----------------------------------------------------------------

test('TAR-01 names that lead elsewhere are refused, and the name and the rule are told', async (t) => {
  const sandbox = await openWithFile(t);
  const wrong = [
    ['/etc/evil', /absolute/],
    ['../x', /has a "\.\."/],
    ['a/../../x', /has a "\.\."/],
    ['./../x', /has a "\.\."/],
    ['//x', /absolute/],
    ['C:\\x', /drive letter/],
    ['a\\..\\..\\x', /has a "\.\."/],
    ['', /empty/],
    ['.', /has a "\."/],
    ['./', /empty|"\."/],
    ['a//b', /empty part/],
    ['a/./b', /has a "\."/],
    ['.glovebox-0123456789abcdef.tmp', /keeps such names/],
    ['a/.glovebox-0123456789abcdef.tmp/b', /keeps such names/],
  ];
  for (const [name, rule] of wrong) {
    const bad = member({ name, body: 'x' });
    // After a good member, which must not stay either.
    const good = member({ name: 'good', body: 'x' });
    await assertRefused(t, sandbox, archive(good, bad), rule, name);
  }
  const long = `${'x/'.repeat(2500)}y`;
  const body = record('path', long);
  await assertRefused(
    t,
    sandbox,
    archive(pax(body), member({ name: 'short' })),
    /longer than 4095/,
    long,
  );
  const part = 'x'.repeat(256);
  await assertRefused(
    t,
    sandbox,
    archive(pax(record('path', part)), member({ name: 'short' })),
    /longer than 255/,
    part,
  );
});

test('TAR-01 twin: the same archives with harmless names are restored', async (t) => {
  const sandbox = await openWithFile(t);
  const names = ['etc/evil', './x', 'C', 'back\\slash', '...', '..x', ' '];
  const file = hostFile(
    t,
    archive(...names.map((name) => member({ name, body: 'x' }))),
  );
  const info = await sandbox.restore(file);
  assert.deepEqual(info, { files: 7, folders: 0, links: 0, bytes: 7 });
  assert.deepEqual((await sandbox.listFiles()).map((one) => one.path).sort(), [
    ' ',
    '...',
    '..x',
    'C',
    'back\\slash',
    'etc/evil',
    'x',
  ]);
  assert.equal(await sandbox.exists('old'), false, 'the old content is gone');
});

test('TAR-02 members that are no files, folders or links are refused by their kind', async (t) => {
  const sandbox = await openWithFile(t);
  const kinds = {
    3: /character device/,
    4: /block device/,
    6: /fifo/,
    7: /contiguous/,
    L: /long name of GNU tar/,
    K: /long target of GNU tar/,
    S: /sparse/,
    M: /another volume/,
    N: /names of GNU tar/,
    V: /volume label/,
    g: /global pax/,
    Z: /unknown type "Z"/,
    D: /unknown type "D"/,
  };
  for (const [type, rule] of Object.entries(kinds)) {
    await assertRefused(t, sandbox, archive(member({ type })), rule, 'f');
  }
  const sparse = pax(
    Buffer.concat([record('GNU.sparse.major', '1'), record('path', 'x')]),
  );
  await assertRefused(t, sandbox, archive(sparse, member()), /GNU\.sparse/);
});

test('TAR-04 a name is of one kind', async (t) => {
  const sandbox = await openWithFile(t);
  const file = (name) => member({ name, body: 'x' });
  const folder = (name, fields) => member({ name, type: '5', ...fields });
  const link = member({ name: 'd', type: '2', target: 'old' });
  const rows = [
    [[link, folder('d/')], /there twice/],
    [[file('d'), folder('d/')], /there twice/],
    [[file('d'), file('d/x')], /below a file, "d"/],
    [[folder('d/'), file('d')], /there twice/],
    [[file('d/x'), file('d')], /other members lie below/],
    [[folder('d/', { size: 1 })], /folder with a size/],
    [[member({ name: 'd/', body: 'x' })], /empty part/],
  ];
  for (const [members, rule] of rows) {
    await assertRefused(t, sandbox, archive(...members), rule);
  }
});

test('TAR-05 a link is refused where it leads out, and nothing goes through one', async (t) => {
  const sandbox = await openWithFile(t);
  const symlink = (name, target) => member({ name, type: '2', target });
  const link = (name, target) => member({ name, type: '1', target });
  const x = member({ name: 'a/x', body: 'x' });
  const rows = [
    [[symlink('a', '..'), x], /leads out/],
    [[symlink('a', canary.dir), x], /absolute path/],
    [[symlink('d/a', '../..')], /leads out/],
    [[symlink('d/a', 'b/../../..')], /"\.\." after a name/],
    // Harmless each, but together they lead out.
    [
      [symlink('deep/er/s', '../..'), symlink('deep/er/t', 's/..')],
      /"\.\." after a name/,
    ],
    [[symlink('a', '')], /target is empty/],
    [[symlink('a', 'old'), x], /below a symlink, "a"/],
    [[link('b', '../../f'), member({ name: 'b' })], /no file before it/],
    [[link('b', canary.file)], /no file before it/],
    [[link('b', 'b')], /no file before it/],
    [[link('b', 'later'), member({ name: 'later' })], /no file before it/],
    [[symlink('s', 'x'), link('b', 's')], /no file before it/],
    [[member({ name: 'd/', type: '5' }), link('b', 'd')], /no file before it/],
  ];
  for (const [members, rule] of rows) {
    await assertRefused(t, sandbox, archive(...members), rule);
  }
});

// ---- Headers ---------------------------------------------------------------

test('TAR-07 a size that is not plain octal, or not true, is refused at once', async (t) => {
  const sandbox = await openWithFile(t);
  const base256 = (...bytes) => Buffer.from(bytes);
  const sizes = [
    '-0000000001\0',
    '12x\0\0\0\0\0\0\0\0\0',
    '            ',
    '\0'.repeat(12),
    '0x10\0\0\0\0\0\0\0\0',
    base256(0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1),
    base256(0xff, ...new Array(11).fill(0xff)),
    base256(0x80, 0x7f, ...new Array(10).fill(0xff)),
    '777777777777',
    ' 0000000001\0',
  ];
  for (const size of sizes) {
    const begin = performance.now();
    await assertRefused(
      t,
      sandbox,
      archive(header({ size })),
      /size is not octal|cut off/,
    );
    const took = performance.now() - begin;
    assert.ok(took < 1000 * timeScale, `${took} ms`);
  }
  // Larger than the archive.
  await assertRefused(
    t,
    sandbox,
    archive(member({ body: 'x', size: 2 ** 32 })),
    /cut off|maxBytes/,
  );
  const odd = Buffer.concat([header({ size: 3 }), Buffer.from('abcX')]);
  const wrong = Buffer.concat([odd, Buffer.alloc(-odd.length & 511)]);
  await assertRefused(t, sandbox, archive(wrong), /padding is not zero/);
});

test('TAR-08 a header with a wrong sum, magic or version is refused', async (t) => {
  const sandbox = await openWithFile(t);
  const signed = (() => {
    // The sum of signed characters, as some old programs made it.
    const block = header({ name: 'é' });
    block.fill(' ', 148, 156);
    const sum = new Int8Array(block).reduce((all, byte) => all + byte, 0);
    return header({
      name: 'é',
      sum: `${sum.toString(8).padStart(6, '0')}\0 `,
    });
  })();
  const rows = [
    [header({ sum: '0000000\0' }), /checksum/],
    [header({ sum: 'zzzzzz\0 ' }), /checksum/],
    [signed, /checksum/],
    [header({ magic: '\0\0\0\0\0\0\0\0' }), /ustar form/],
    [header({ magic: 'ustar\x0099' }), /ustar form/],
    [header({ magic: 'USTAR\x0000' }), /ustar form/],
    [Buffer.alloc(512, 0xff), /ustar form/],
    [header({ magic: 'ustar  \0', prefix: 'x' }), /GNU tar alone/],
    [header({ mode: 'rw-r--r-' }), /mode is not octal/],
  ];
  for (const [block, rule] of rows) {
    await assertRefused(t, sandbox, archive(block), rule);
  }
});

test('TAR-10 what two readers would read in two ways is refused', async (t) => {
  const sandbox = await openWithFile(t);
  const inner = member({ name: 'inner', body: 'evil' });
  const rows = [
    // To one reader a file of 1024 bytes, to another an empty one and "inner".
    [[pax(record('size', '1024')), member({ size: 0 }), inner], /another size/],
    [[pax(record('size', '0')), member({ body: inner })], /another size/],
    [
      [
        pax(record('path', 'a')),
        member({ name: 'L', type: 'L', body: 'b\0' }),
        member(),
      ],
      /long name of GNU tar/,
    ],
    [[pax(record('path', 'a')), pax(record('path', 'b')), member()], /two pax/],
    [
      [
        pax(Buffer.concat([record('path', 'a'), record('path', 'b')])),
        member(),
      ],
      /two of path/,
    ],
    [[pax('8 path=a\n'), member()], /wrong length/],
    [[pax('11 path=a\n'), member()], /wrong length/],
    [[pax('99999999999 path=a\n'), member()], /wrong length/],
    [[pax('-10 path=a\n'), member()], /wrong length/],
    [[pax('010 path=a\n'), member()], /wrong length/],
    [[pax('path=a\n'), member()], /wrong length/],
    // It ends within "é".
    [[pax('10 path=é\n'), member()], /wrong length/],
    [[pax(record('path', 'a\0b')), member()], /has a NUL/],
    [[pax(record('hdrcharset', 'BINARY')), member()], /unknown key/],
    [[pax('')], /has 0 bytes/],
    [[pax(record('comment', 'x'.repeat(40000))), member()], /a pax header has/],
    [[pax(record('path', 'a'))], /ends after a pax header/],
    [[member(), Buffer.alloc(512), member()], /single block/],
    [[member(), end, member()], /follows its end/],
  ];
  for (const [members, rule] of rows) {
    await assertRefused(t, sandbox, archive(...members), rule);
  }
});

test('TAR-11 a name that is there twice is refused; letters of another case are another name', async (t) => {
  const sandbox = await openWithFile(t);
  const file = (name) => member({ name, body: 'x' });
  await assertRefused(t, sandbox, archive(file('a'), file('a')), /twice/, 'a');
  await assertRefused(t, sandbox, archive(file('a'), file('./a')), /twice/);
  const names = ['A', 'a', 'e\u0301', 'é', 'ss', 'ß'];
  await sandbox.restore(hostFile(t, archive(...names.map(file))));
  const listed = await sandbox.listFiles();
  assert.deepEqual(listed.map((one) => one.path).sort(), names.sort());
});

// ---- Amounts ---------------------------------------------------------------

test('TAR-13 too much is refused, and which bound it broke is told', async (t) => {
  const sandbox = await openWithFile(t);
  const before = contents(sandbox);
  const big = hostFile(t, archive(member({ body: Buffer.alloc(5000) })));
  await assert.rejects(sandbox.restore(big, { maxBytes: 4999 }), {
    code: 'ERR_SANDBOX_ARCHIVE',
    message: /maxBytes, 4999/,
  });
  assert.deepEqual(contents(sandbox), before);
  await sandbox.restore(big, { maxBytes: 5000 });

  // A header for a gigabyte in every kilobyte of the archive.
  const bomb = hostFile(
    t,
    zlib.gzipSync(
      Buffer.concat(
        Array.from({ length: 4 }, (_, i) =>
          header({ name: `f${i}`, size: 8 ** 11 - 1 }),
        ),
      ),
    ),
  );
  await assert.rejects(sandbox.restore(bomb), { code: 'ERR_SANDBOX_ARCHIVE' });

  const deep = pax(record('path', `${'d/'.repeat(300)}f`));
  await assertRefused(
    t,
    sandbox,
    archive(deep, member()),
    /more than 256 parts/,
  );
  const deeper = pax(record('path', 'd/'.repeat(10_000)));
  await assertRefused(
    t,
    sandbox,
    archive(deeper, member({ type: '5' })),
    /longer than 4095/,
  );
});

test('TAR-13 a million empty members are refused by their count', async (t) => {
  if (!soak) return t.skip('only with GLOVEBOX_SOAK=1');
  const sandbox = await openWithFile(t);
  const members = [];
  for (let i = 0; i < 1_000_000; i++) members.push(header({ name: `f${i}` }));
  const file = hostFile(t, archive(Buffer.concat(members)));
  await assert.rejects(sandbox.restore(file), {
    code: 'ERR_SANDBOX_ARCHIVE',
    message: /more than 500000/,
  });
});

test('an archive that is cut off, or no gzip, is refused', async (t) => {
  const sandbox = await openWithFile(t);
  const whole = archive(member({ body: 'x'.repeat(9000) }));
  const rows = [
    [Buffer.from('hello, this is no archive'), /no whole gzip/],
    [Buffer.alloc(0), /no whole gzip|cut off/],
    [whole.subarray(0, whole.length - 20), /no whole gzip/],
    [zlib.gzipSync(member({ body: 'x' })), /cut off/],
    [zlib.gzipSync(Buffer.alloc(0)), /cut off/],
    [zlib.gzipSync(Buffer.alloc(512)), /cut off/],
    [zlib.gzipSync(Buffer.alloc(100)), /cut off/],
    [Buffer.concat([whole, Buffer.from('garbage')]), /no whole gzip/],
    [Buffer.concat([whole, whole]), /follows its end/],
    [zlib.gzipSync(Buffer.alloc(4 * 2 ** 20)), /follows its end/],
  ];
  for (const [bytes, rule] of rows) {
    await assertRefused(t, sandbox, bytes, rule);
  }
});

// ---- Snapshots -------------------------------------------------------------

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
  const file = hostFile(t);
  const info = await sandbox.snapshot(file);
  assert.deepEqual(info.skipped.map((one) => [one.path, one.reason]).sort(), [
    ['C:\\x', 'its name has a drive letter'],
    ['d2', 'a symlink that leads out of the workspace'],
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
  // Python's, by tarfile: folders, pax headers for names and fractions of times.
  const file = hostFile(t);
  const made = spawnSync(
    packagedPython ?? 'python3',
    [
      '-c',
      'import sys, tarfile\n' +
        "with tarfile.open(sys.argv[1], 'w:gz') as t: t.add(sys.argv[2], arcname='.')",
      file,
      sandbox.workspace,
    ],
    { encoding: 'utf8' },
  );
  assert.equal(made.status, 0, made.stderr);
  const before = contents(sandbox);
  await sandbox.rm('sub', { recursive: true });
  await sandbox.restore(file);
  assert.deepEqual(contents(sandbox), before);
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
  if (!isRoot) {
    fs.chmodSync(folder, 0o555);
    await assert.rejects(sandbox.snapshot(path.join(folder, 'b.tgz')), {
      code: 'ERR_SANDBOX_HOST_FILE',
      errno: 'EACCES',
    });
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

// ---- Restores --------------------------------------------------------------

test('TAR-17 an archive in the workspace is read beneath it, once', async (t) => {
  const sandbox = await open(t);
  const inside = (name) => path.join(sandbox.workspace, name);
  const bytes = archive(member({ name: 'good', body: 'x' }));
  await sandbox.writeFile('a.tgz', bytes);
  await sandbox.run(['ln', '-s', canary.file, 'link.tgz']);
  await sandbox.run(['mkfifo', 'fifo.tgz']);
  await assert.rejects(sandbox.restore(inside('link.tgz')), {
    code: 'ERR_SANDBOX_NOT_REGULAR',
  });
  // Whether that is known before or after the engine is ready to unpack.
  for (let i = 0; i < 50; i++) {
    await assert.rejects(sandbox.restore(inside('fifo.tgz')), {
      code: 'ERR_SANDBOX_NOT_REGULAR',
    });
  }
  // Nor does a link on the way lead out, whoever laid the one that leads in.
  const elsewhere = hostFile(t);
  fs.mkdirSync(elsewhere);
  fs.writeFileSync(path.join(elsewhere, 'a.tgz'), bytes);
  await sandbox.run(['ln', '-s', elsewhere, 'd']);
  const way = hostFile(t);
  fs.symlinkSync(inside('d/a.tgz'), way);
  for (const src of [inside('d/a.tgz'), way]) {
    await assert.rejects(sandbox.restore(src), { code: 'ERR_SANDBOX_PATH' });
  }
  fs.rmSync(way);
  fs.symlinkSync(inside('a.tgz'), way);
  await sandbox.restore(way);
  assert.deepEqual(
    (await sandbox.listFiles()).map((one) => one.path),
    ['good'],
  );
  const links = hostFile(t);
  fs.symlinkSync(links, links);
  await assert.rejects(sandbox.restore(links), {
    code: 'ERR_SANDBOX_HOST_FILE',
    errno: 'ELOOP',
  });
  const fifo = hostFile(t);
  execFileSync('mkfifo', [fifo]);
  await assert.rejects(sandbox.restore(fifo), {
    code: 'ERR_SANDBOX_NOT_REGULAR',
  });
  await assert.rejects(sandbox.restore('/nowhere/a.tgz'), {
    code: 'ERR_SANDBOX_HOST_FILE',
    errno: 'ENOENT',
  });
});

test('TAR-17 an archive that code rewrites while it is read is refused or restored whole', async (t) => {
  const sandbox = await open(t);
  const names = Array.from({ length: 40 }, (_, i) => `d/${i}`);
  const filled = (letter) =>
    zlib.gzipSync(
      Buffer.concat([
        ...names.map((name) => member({ name, body: letter.repeat(20_000) })),
        end,
      ]),
      { level: 0 },
    );
  // The first half of it is as that of the others.
  const evil = zlib.gzipSync(
    Buffer.concat([
      ...names
        .slice(20)
        .map((name) => member({ name, body: 'A'.repeat(20_000) })),
      member({ name: 'out', type: '2', target: canary.dir }),
      member({ name: 'out/evil', body: 'x' }),
      end,
    ]),
    { level: 0 },
  );
  const bytes = { A: filled('A'), B: filled('B'), evil };
  for (const [name, content] of Object.entries(bytes)) {
    await sandbox.writeFile(name, content);
  }
  // Its box lives on between cells, so that a restore does not wait for it.
  const kernel = await sandbox.kernel();
  const started = await kernel.runCode(`import os, threading
contents = [open(name, 'rb').read() for name in ('A', 'B', 'evil')]
def rewrite():
    while True:
        for content in contents:
            try:
                fd = os.open('a.tgz', os.O_RDWR | os.O_CREAT)
                for at in range(0, len(content), 1 << 16):
                    os.pwrite(fd, content[at:at + (1 << 16)], at)
                os.ftruncate(fd, len(content))
                os.close(fd)
                open('b.tgz', 'wb').write(content)
                os.replace('b.tgz', 'a.tgz')
            except OSError: pass
threading.Thread(target=rewrite, daemon=True).start()`);
  assert.equal(started.exitCode, 0, started.stderr);
  const seen = { whole: 0, refused: 0 };
  const rounds = soak ? 2000 : 150;
  const src = path.join(sandbox.workspace, 'a.tgz');
  for (let i = 0; i < rounds; i++) {
    try {
      await sandbox.restore(src);
    } catch (error) {
      assert.match(
        error.code,
        /^ERR_SANDBOX_(ARCHIVE|NOT_FOUND)$/,
        error.stack,
      );
      seen.refused++;
      continue;
    }
    const folder = path.join(sandbox.workspace, 'd');
    const letters = new Set(
      names.map((name) => {
        const text = fs.readFileSync(path.join(folder, '..', name), 'utf8');
        assert.equal(text.length, 20_000);
        return text.replace(/(.)\1*/g, '$1');
      }),
    );
    assert.equal(letters.size, 1, `${[...letters]}`);
    assert.match([...letters][0], /^[AB]$/);
    seen.whole++;
  }
  t.diagnostic(`${seen.whole} whole, ${seen.refused} refused`);
  assert.ok(seen.whole > 0 && seen.refused > 0, JSON.stringify(seen));
});

test('TAR-19 a restore replaces all, what the code closed and hid too', async (t) => {
  const sandbox = await open(t);
  await sandbox.writeFile('a/b', 'first');
  const file = hostFile(t);
  await sandbox.snapshot(file);
  const messy = await sandbox.runCode(
    'mkdir -p c/d .deps; echo x > c/d/e; chmod 0 c/d; chmod 500 c; ' +
      'echo x > .deps/p; ln -s / l; rm -r a; mkfifo f; ' +
      // As what the engine hides from lists.
      'mkdir .glovebox-0123456789abcdef.tmp; ' +
      'echo x > .glovebox-0123456789abcdef.tmp/f; ' +
      'echo x > .glovebox-fedcba9876543210.tmp',
    { language: 'bash' },
  );
  assert.equal(messy.exitCode, 0, messy.stderr);
  await sandbox.restore(file);
  assert.deepEqual(
    contents(sandbox).map(([name]) => name),
    ['a', 'a/b'],
  );
  const read = await sandbox.run(['cat', 'a/b']);
  assert.equal(read.stdout, 'first');
});

test('TAR-19 what cannot be moved leaves the old content as it was', async (t) => {
  if (!isRoot) return t.skip('by design: only root can mount in the way');
  const sandbox = await openWithFile(t);
  // In whatever order they come, some come before the one that stays.
  for (let i = 0; i < 40; i++) await sandbox.writeFile(`f${i}`, 'x');
  await sandbox.mkdir('mounted');
  const file = hostFile(t, archive(member({ name: 'new', body: 'new' })));
  const mounted = path.join(sandbox.workspace, 'mounted');
  execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', mounted]);
  try {
    const before = contents(sandbox);
    await assert.rejects(sandbox.restore(file), { code: 'ERR_SANDBOX_IO' });
    assert.deepEqual(contents(sandbox), before);
  } finally {
    execFileSync('umount', [mounted]);
  }
  await sandbox.restore(file);
  assert.deepEqual(
    contents(sandbox).map(([name]) => name),
    ['new'],
  );
});

test('TAR-20 a restore is refused while a call runs and after close(), and one at a time goes on', async (t) => {
  const sandbox = await openWithFile(t);
  const file = hostFile(
    t,
    archive(member({ name: 'new', body: 'x'.repeat(100000) })),
  );
  const ended = sandbox.runCode(
    'import time; print(1, flush=True); time.sleep(60)',
    {
      timeoutS: 3 * timeScale,
      onStdout: async () => {
        seen(await sandbox.restore(file).catch((error) => error));
      },
    },
  );
  let seen;
  const error = await new Promise((resolve) => {
    seen = resolve;
  });
  assert.equal(error.code, 'ERR_SANDBOX_BUSY');
  assert.match(error.message, /a call runs/);
  await ended;
  assert.equal(await sandbox.readFile('old/kept.txt', 'utf8'), 'kept');

  const both = await Promise.allSettled([
    sandbox.restore(file),
    sandbox.restore(file),
    sandbox.run(['ls']),
  ]);
  assert.equal(
    both.filter(({ status }) => status === 'fulfilled').length >= 1,
    true,
  );
  for (const { reason } of both) {
    if (reason) assert.equal(reason.code, 'ERR_SANDBOX_BUSY');
  }

  // An idle kernel does not stand in the way, and goes on with the new files.
  const kernel = await sandbox.kernel();
  await sandbox.restore(file);
  const cell = await kernel.runCode('import os; sorted(os.listdir("."))');
  assert.equal(cell.results[0]?.text, "['new']");
  await sandbox.close();
  await assert.rejects(sandbox.restore(file), { code: 'ERR_SANDBOX_CLOSED' });
  await assert.rejects(sandbox.snapshot(file), { code: 'ERR_SANDBOX_CLOSED' });
});

test('TAR-20 close() during a restore and a snapshot ends both', async (t) => {
  const folder = hostFile(t);
  fs.mkdirSync(folder);
  const workspace = path.join(folder, 'ws');
  const sandbox = await open(t, { workspace });
  await sandbox.writeFile('kept', Buffer.alloc(30 * 2 ** 20, 'x'));
  const file = hostFile(t);
  await sandbox.snapshot(file);
  const restoring = sandbox.restore(file);
  const saving = sandbox.snapshot(path.join(folder, 'b.tgz'));
  const settled = Promise.allSettled([restoring, saving]);
  await sandbox.close();
  for (const { reason } of await settled) {
    if (reason) assert.equal(reason.code, 'ERR_SANDBOX_CLOSED', reason.stack);
  }
  assert.deepEqual(fs.readdirSync(workspace), ['kept']);
  const left = fs.readdirSync(folder).filter((name) => /tmp/.test(name));
  assert.deepEqual(left, []);
});
