// SPDX-License-Identifier: Apache-2.0
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const zlib = require('node:zlib');
const { snapshot } = require('../../lib/archive/snapshot.js');
const { encodeHead } = require('../../lib/archive/tree.js');

const content = Buffer.from('content');

function entry(number) {
  return Buffer.concat([
    encodeHead({
      type: 'file',
      mode: 0o644,
      path: Buffer.from(`f${number}`),
      size: content.length,
      mtimeNs: 0n,
    }),
    content,
  ]);
}

/** A session whose workspace has `count` small files, `atATime` in a piece. */
function sessionOf(workspace, count, atATime) {
  let next = 0;
  const read = async () => {
    const end = Math.min(next + atATime, count);
    const entries = [];
    while (next < end) entries.push(entry(next++));
    return Buffer.concat(entries);
  };
  const openFile = async () => ({ read, close: async () => {} });
  return { info: { workspace }, openFile };
}

test('small files go to gzip by the hundred, each a round trip to a thread', async (t) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'snapshot-'));
  t.after(() => fs.rmSync(folder, { recursive: true }));
  const workspace = path.join(folder, 'workspace');
  const dest = path.join(folder, 'a.tar.gz');
  const session = sessionOf(workspace, 5000, 250);
  const { mock } = t.mock.method(zlib.Gzip.prototype, 'write');
  const info = await snapshot(session, dest, { maxBytes: 2 ** 30 });
  assert.equal(info.files, 5000);
  const writes = mock.callCount();
  assert.ok(writes > 0 && writes <= 25, `${writes} writes`);
  const tar = zlib.gunzipSync(fs.readFileSync(dest));
  assert.equal(tar.length, 5000 * 1024 + 1024);
});
