// SPDX-License-Identifier: Apache-2.0
'use strict';

// Each promise of docs/threat-model.md names what checks it, and that is there.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');

const root = path.join(__dirname, '..', '..');
const text = fs.readFileSync(path.join(root, 'docs/threat-model.md'), 'utf8');

/** The rows below the table's head that has `columns`, as lists of cells. */
function readTable(columns) {
  const lines = text.split('\n');
  const head = lines.indexOf(`| ${columns.join(' | ')} |`);
  assert.notEqual(head, -1, `no table has the columns ${columns}`);
  const end = lines.findIndex((line, i) => i > head && !line.startsWith('|'));
  // Bars in code do not part cells, and there are none.
  return lines
    .slice(head + 2, end)
    .map((line) => line.split('|').slice(1, -1))
    .map((cells) => cells.map((cell) => cell.trim()));
}

const idPattern = /\b(?:P\d\d|[A-Z]{2,3}-\d\d)\b/g;

/** The ids that titles of tests start with. */
function readIds() {
  const titles = /['"`]((?:(?:P\d\d|[A-Z]{2,3}-\d\d):? )+)/g;
  const ids = new Set();
  for (const name of fs.readdirSync(path.join(root, 'test'), {
    recursive: true,
  })) {
    if (!/(\.test\.js|_test\.c)$/.test(name)) continue;
    const source = fs.readFileSync(path.join(root, 'test', name), 'utf8');
    for (const [, found] of source.matchAll(titles)) {
      for (const [id] of found.matchAll(idPattern)) ids.add(id);
    }
  }
  return ids;
}

const promises = readTable(['promise', 'kept by', 'checked by', 'not covered']);

test('each promise says what keeps it, what checks it and what it leaves out', () => {
  assert.ok(promises.length >= 20);
  for (const cells of promises) {
    assert.equal(cells.length, 4, cells[0]);
    for (const cell of cells) assert.notEqual(cell, '', cells[0]);
  }
});

test('each test that a promise names is there', () => {
  const ids = readIds();
  for (const [promise, , checks] of promises) {
    const named = checks.match(idPattern) ?? [];
    const files = checks.match(/test\/[\w/.-]+\w/g) ?? [];
    assert.ok(named.length + files.length > 0, promise);
    for (const id of named) assert.ok(ids.has(id), `${promise}: ${id}`);
    for (const file of files) {
      assert.ok(fs.existsSync(path.join(root, file)), `${promise}: ${file}`);
    }
  }
});

test('each id that the page names is that of a test', () => {
  const ids = readIds();
  for (const [id] of text.matchAll(idPattern)) assert.ok(ids.has(id), id);
});
