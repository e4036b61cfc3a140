// SPDX-License-Identifier: Apache-2.0
'use strict';

// Group TAR of the hostile cases: archives and workspaces that were made to fill
// the memory of the host's process, which ends it without an error to catch.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const { snapshot } = require('../../lib/archive/snapshot.js');
const { TarReader } = require('../../lib/archive/tar-reader.js');
const { encodeHead } = require('../../lib/archive/tree.js');
const { test } = require('../helpers/harness.js');
const { member, pax, record } = require('../helpers/tar.js');
const { hostFile } = require('./archive-files.js');

const limit = 128 * 2 ** 20;
// As long as a path may be.
const folder = `${'d'.repeat(250)}/`.repeat(16);
const longName = (number) => folder + String(number).padStart(79, '0');
const enough = Math.floor(limit / longName(0).length);

const reading = `
const { TarReader } = require(${JSON.stringify(require.resolve('../../lib/archive/tar-reader.js'))});
const { member, pax, record } = require(${JSON.stringify(require.resolve('../helpers/tar.js'))});
const reader = new TarReader({ maxBytes: 2 ** 30 });
const junk = record('comment', 'x'.repeat(32_000));
for (let i = 0; i < 4000; i++) {
  const path = record('path', 'a name of some length ' + i);
  reader.read(Buffer.concat([pax(Buffer.concat([junk, path])), member()]));
}
console.log(reader.counts.files);
`;

test('TAR-13 of a pax header nothing stays in memory but the name', () => {
  // A quarter of what the headers have.
  const child = spawnSync(
    process.execPath,
    ['--max-old-space-size=32', '-e', reading],
    { encoding: 'utf8' },
  );
  assert.equal(child.status, 0, child.stderr);
  assert.equal(child.stdout, '4000\n');
});

test('TAR-13 names that are too much for memory together are refused', () => {
  const reader = new TarReader({ maxBytes: 2 ** 30 });
  let count = 0;
  assert.throws(
    () => {
      for (; count <= enough; count++) {
        const path = pax(record('path', longName(count)));
        reader.read(Buffer.concat([path, member({ name: 'short' })]));
      }
    },
    { code: 'ERR_SANDBOX_ARCHIVE', message: /more than 134217728 bytes/ },
  );
  assert.equal(count, enough, 'and no sooner');
});

/** A session whose workspace has as many entries as `make(number)` makes. */
function sessionOf(make) {
  let next = 0;
  const read = async () => {
    const heads = [];
    for (let i = 0; i < 15 && next < 2 * enough; i++) heads.push(make(next++));
    return Buffer.concat(heads);
  };
  const openFile = async () => ({ read, close: async () => {} });
  return { info: { workspace: '/nowhere' }, openFile };
}

test('TAR-14 a workspace with more names than memory holds is refused, whatever they name', async (t) => {
  const entry = (type, mode) => (number) =>
    encodeHead({
      type,
      mode,
      path: Buffer.from(longName(number)),
      size: 0,
      mtimeNs: 0n,
    });
  const file = entry('file', 0o644);
  const kinds = {
    'pipes, which are told of as left out': entry('other', 0o010644),
    'files with other names, which may come': (number) => {
      const head = file(number);
      head.writeBigUInt64LE(BigInt(number + 1), 32);
      return head;
    },
    'files, as no restore takes them': file,
  };
  for (const [kind, make] of Object.entries(kinds)) {
    const dest = hostFile(t);
    await assert.rejects(
      snapshot(sessionOf(make), dest, { maxBytes: 2 ** 30 }),
      {
        code: 'ERR_SANDBOX_TOO_LARGE',
        message: /more than 134217728 bytes of names/,
      },
      kind,
    );
    assert.equal(fs.existsSync(dest), false, kind);
  }
});
