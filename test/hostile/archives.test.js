// SPDX-License-Identifier: Apache-2.0
'use strict';

// Group TAR of the hostile cases: archives that were made to do harm. After every
// refusal the workspace is as it was.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const zlib = require('node:zlib');
const { canary, soak, test, timeScale } = require('../helpers/harness.js');
const {
  archive,
  end,
  header,
  member,
  pax,
  record,
} = require('../helpers/tar.js');
const { contents, hostFile, openWithFile } = require('./archive-files.js');

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
    // To one reader a file, to another a folder, and its content is a member.
    [
      [
        pax(record('path', 'a')),
        member({ name: 'a/', type: '\0', body: inner }),
      ],
      /in the form of a folder/,
    ],
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
    [[pax(record('charset', 'BINARY')), member()], /unknown key/],
    [[pax(record('hdrcharset', 'ISO-IR 8859 1 1998')), member()], /hdrcharset/],
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
  const itself = member({ name: './', type: '5' });
  await assertRefused(t, sandbox, archive(itself, file('a'), itself), /twice/);
  const names = ['A', 'a', 'e\u0301', 'é', 'ss', 'ß'];
  await sandbox.restore(hostFile(t, archive(...names.map(file))));
  const listed = await sandbox.listFiles();
  assert.deepEqual(listed.map((one) => one.path).sort(), names.sort());
});

test('TAR-07 a time that is no time of this world is one all the same', async (t) => {
  const sandbox = await openWithFile(t);
  const timed = (name, mtime) => [
    pax(record('mtime', mtime)),
    member({ name, body: 'x' }),
  ];
  const bytes = archive(
    header({ name: 'octal', mtime: '777777777777' }),
    header({ name: 'base256', mtime: Buffer.alloc(12, 0xff) }),
    header({ name: 'words', mtime: 'yesterday\0\0\0' }),
    ...timed('late', '999999999999.999999999999'),
    ...timed('early', '-999999999999.5'),
    ...timed('exponent', '1e99'),
    ...timed('before', '-1.25'),
  );
  const info = await sandbox.restore(hostFile(t, bytes));
  assert.equal(info.files, 7);
  const { mtimeMs } = await sandbox.stat('before');
  assert.equal(mtimeMs, -1250);
});

test("TAR-02 setuid bits, and owners, are nobody else's to give", async (t) => {
  const sandbox = await openWithFile(t);
  const { uid, gid } = fs.statSync(sandbox.workspace);
  const bytes = archive(
    header({ name: 'f', mode: '0006755\0' }),
    header({ name: 'd/', mode: '0007755\0', type: '5' }),
    header({ name: 'all', mode: '77777777' }),
  );
  await sandbox.restore(hostFile(t, bytes));
  const modes = { f: 0o755, d: 0o755, all: 0o777 };
  for (const [name, mode] of Object.entries(modes)) {
    const stat = fs.statSync(path.join(sandbox.workspace, name));
    assert.equal(stat.mode & 0o7777, mode, name);
    assert.deepEqual([stat.uid, stat.gid], [uid, gid], name);
  }
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
