// SPDX-License-Identifier: Apache-2.0
'use strict';

// Properties of archives: what goes in comes out, however it is cut into pieces;
// and what is not an archive never does harm.

const assert = require('node:assert/strict');
const { test } = require('node:test');
const fc = require('fast-check');
const { SandboxError } = require('../../lib/errors.js');
const { nameProblem, targetProblem } = require('../../lib/archive/rules.js');
const { TarReader } = require('../../lib/archive/tar-reader.js');
const { padding, tarEnd, tarHeader } =
  require('../../lib/archive/tar-writer.js');
const { TreeReader, types } = require('../../lib/archive/tree.js');
const { member, pax, record } = require('../helpers/tar.js');

const nameByte = fc
  .integer({ min: 1, max: 255 })
  .filter((byte) => byte !== 0x2f && byte !== 0x5c);
const namePart = fc
  .array(nameByte, { minLength: 1, maxLength: 120 })
  .map((bytes) => Buffer.from(bytes));
const nameBytes = fc
  .array(namePart, { minLength: 1, maxLength: 4 })
  .map((parts) =>
    Buffer.from(parts.map((one) => one.toString('latin1')).join('/'), 'latin1'),
  )
  .filter((name) => nameProblem(name.toString('latin1')) === undefined);

const file = fc.record({
  path: nameBytes,
  mode: fc.integer({ min: 0, max: 0o777 }),
  content: fc
    .uint8Array({ maxLength: 1500 })
    .map((bytes) => Buffer.from(bytes)),
  seconds: fc.integer({ min: 0, max: 8 ** 11 - 1 }),
});

// No file in the way of another.
const files = fc.array(file, { maxLength: 6 }).filter((list) => {
  const names = list.map((one) => one.path.toString('latin1'));
  return (
    new Set(names).size === names.length &&
    !names.some((one) => names.some((other) => other.startsWith(`${one}/`)))
  );
});

function write(list) {
  const parts = list.flatMap(({ path, mode, content, seconds }) => [
    tarHeader({
      type: 'file',
      path,
      mode,
      size: content.length,
      target: Buffer.alloc(0),
      mtimeNs: BigInt(seconds) * 1_000_000_000n,
    }),
    content,
    padding(content.length),
  ]);
  return Buffer.concat([...parts, tarEnd]);
}

function cut(bytes, sizes) {
  const pieces = [];
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const size = sizes.length > 0 ? sizes[i % sizes.length] : bytes.length;
    pieces.push(bytes.subarray(at, at + size));
    at += size;
  }
  return pieces;
}

/** The files that come of pieces of an archive. */
async function read(pieces, maxBytes = 2 ** 30) {
  const reader = new TarReader({ maxBytes });
  const out = pieces.flatMap((piece) => reader.read(piece));
  reader.end();
  const found = [];
  const tree = new TreeReader();
  for (const { head, data } of out.flatMap((part) => [...tree.read(part)])) {
    if (head) found.push({ head, parts: [] });
    else found.at(-1).parts.push(data);
  }
  return found.map(({ head, parts }) => ({
    path: Buffer.from(head.path),
    mode: head.mode,
    content: Buffer.concat(parts),
    seconds: Number(head.mtimeNs / 1_000_000_000n),
    type: head.type,
  }));
}

test('TAR-14 what is written is read, in pieces of any size', async () => {
  await fc.assert(
    fc.asyncProperty(
      files,
      fc.array(fc.integer({ min: 1, max: 3000 }), { maxLength: 5 }),
      async (list, sizes) => {
        const found = await read(cut(write(list), sizes));
        assert.deepEqual(
          found,
          list.map((one) => ({ ...one, type: types.file })),
        );
      },
    ),
    { numRuns: 150 },
  );
});

async function assertHarmless(bytes, sizes) {
  try {
    for (const { path } of await read(cut(bytes, sizes), 2 ** 20)) {
      assert.equal(nameProblem(path.toString('latin1')), undefined);
    }
  } catch (error) {
    assert.ok(error instanceof SandboxError, error.stack);
    assert.equal(error.code, 'ERR_SANDBOX_ARCHIVE');
  }
}

test('TAR-08 a byte that is changed is noticed or changes nothing but content', async () => {
  await fc.assert(
    fc.asyncProperty(
      files.filter((list) => list.length > 0),
      fc.nat(),
      fc.integer({ min: 1, max: 255 }),
      async (list, at, bits) => {
        const bytes = write(list);
        bytes[at % bytes.length] ^= bits;
        await assertHarmless(bytes, []);
      },
    ),
    { numRuns: 300 },
  );
});

test('TAR-07 TAR-10 headers and records of any content are refused or harmless', async () => {
  const octal = fc.oneof(
    fc.uint8Array({ minLength: 12, maxLength: 12 }).map((b) => Buffer.from(b)),
    fc.constantFrom('00000000000\0', '77777777777\0', '-1', '           \0'),
  );
  const key = fc.constantFrom(
    'path',
    'linkpath',
    'size',
    'mtime',
    'GNU.sparse.map',
    '',
  );
  const value = fc.oneof(
    fc.constantFrom('../x', '/x', 'a', '', '0', '1024', 'a/../b', '\0'),
    fc.uint8Array({ maxLength: 20 }).map((bytes) => Buffer.from(bytes)),
  );
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        size: octal,
        mode: octal,
        mtime: octal,
        type: fc.constantFrom('0', '\0', '1', '2', '5', 'x', 'g', 'L', 'Z'),
        name: fc.oneof(value, fc.constant('f')),
        target: value,
        prefix: fc.constantFrom('', 'p', '..', '/'),
      }),
      fc.array(fc.tuple(key, value), { maxLength: 3 }),
      fc.uint8Array({ maxLength: 40 }),
      async (fields, records, rubbish) => {
        const wrong = pax(Buffer.from(rubbish));
        const header = pax(Buffer.concat(records.map((one) => record(...one))));
        const last = member({ ...fields, body: 'body' });
        for (const first of [Buffer.alloc(0), header, wrong]) {
          await assertHarmless(Buffer.concat([first, last, tarEnd]), [700]);
        }
      },
    ),
    { numRuns: 300 },
  );
});

test('TAR-13 folders that only names imply count as members', () => {
  const reader = new TarReader({ maxBytes: 2 ** 30 });
  assert.throws(
    () => {
      for (let i = 0; i < 2200; i++) {
        reader.read(pax(record('path', `${i}/${'d/'.repeat(250)}f`)));
        reader.read(member());
      }
    },
    { code: 'ERR_SANDBOX_ARCHIVE', message: /more than 500000/ },
  );
});

// Folders "a" and "a/b" and so on, and links in them: by the rule, none leads
// out, however links and folders follow on one another.
test('TAR-05 no chain of symlinks that are taken leads out of the workspace', () => {
  const step = fc.constantFrom('..', '.', 'a', 'b', 'l', 'm');
  const target = fc
    .array(step, { minLength: 1, maxLength: 5 })
    .map((parts) => parts.join('/'));
  const place = fc.constantFrom('l', 'm', 'a/l', 'a/m', 'a/b/l', 'a/b/m');
  fc.assert(
    fc.property(
      fc.array(fc.tuple(place, target), { maxLength: 6 }),
      fc.array(step, { maxLength: 8 }),
      (list, walk) => {
        const links = new Map(
          list.filter(([name, to]) => targetProblem(name, to) === undefined),
        );
        assert.ok(!follow(links, walk), JSON.stringify([...links, walk]));
      },
    ),
    { numRuns: 1000 },
  );
});

/** Whether a walk that never says ".." itself leaves by way of the links. */
function follow(links, walk) {
  let steps = walk.filter((one) => one !== '..');
  const at = [];
  for (let count = 0; steps.length > 0 && count < 1000; count++) {
    const [step, ...rest] = steps;
    steps = rest;
    if (step === '.') continue;
    if (step === '..') {
      if (at.length === 0) return true;
      at.pop();
      continue;
    }
    const name = [...at, step].join('/');
    const to = links.get(name);
    if (to !== undefined) steps = [...to.split('/'), ...rest];
    else at.push(step);
  }
  return false;
}
