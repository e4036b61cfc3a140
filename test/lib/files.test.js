// SPDX-License-Identifier: Apache-2.0
'use strict';

// What files.js makes of what the engine reads. The calls themselves are in
// test/cases/file-calls.test.js.

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { timeScale } = require('../helpers/harness.js');
const { watch } = require('../../lib/files.js');

/** A session with one watch, which reads these pieces and then its end. */
function sessionWith(...pieces) {
  return {
    openFile: async () => ({
      read: async () => pieces.shift() ?? Buffer.alloc(0),
      close: async () => {},
    }),
  };
}

const created = 1;
const file = 1;

function changesOf(paths) {
  return Buffer.concat(
    paths.map((path) => Buffer.from([created, file, ...Buffer.from(path), 0])),
  );
}

test('a watch gives the changes of each read, in their order, to its end', async () => {
  const session = sessionWith(changesOf(['a', 'b/c']), changesOf(['d']));
  const told = [];
  for await (const change of await watch(session)) told.push(change);
  assert.deepEqual(
    told,
    ['a', 'b/c', 'd'].map((path) => ({
      path,
      change: 'created',
      type: 'file',
    })),
  );
});

test('what was told already ends with close()', async () => {
  const watcher = await watch(sessionWith(changesOf(['a', 'b'])));
  await watcher.next();
  await watcher.close();
  assert.deepEqual(await watcher.next(), { value: undefined, done: true });
});

test('as many changes as one read may tell hold up nobody', async () => {
  // 4 MiB, as of a folder with so many names that code moves to where one looks.
  const count = 400_000;
  const names = Array.from({ length: count }, (_, i) => `d/${i}`);
  const watcher = await watch(sessionWith(changesOf(names)));
  const before = process.cpuUsage();
  let told = 0;
  for await (const { path } of watcher) {
    if (path !== names[told]) break;
    told++;
  }
  assert.equal(told, count);
  // Where each change moves all that come after it, it takes a minute.
  const { user, system } = process.cpuUsage(before);
  assert.ok(user + system < 10e6 * timeScale, `${user + system} us`);
});
