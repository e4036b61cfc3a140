// SPDX-License-Identifier: Apache-2.0
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { replaceSection } = require('../../bench/lib/documents.js');

const root = path.join(__dirname, '..', '..');

test('a section is replaced between its comments and nowhere else', () => {
  const text =
    'a\n<!-- bench:x -->\nold\n<!-- /bench:x -->\nb <!-- bench:y -->';
  const once = replaceSection(text, 'x', '\nnew\n');
  assert.equal(
    once,
    'a\n<!-- bench:x -->\n\nnew\n\n<!-- /bench:x -->\nb <!-- bench:y -->',
  );
  assert.equal(replaceSection(once, 'x', 'new'), once);
});

test('a document without the comments is an error, not left alone', () => {
  assert.throws(() => replaceSection('a', 'x', 'new'), /no pair of comments/);
  assert.throws(
    () => replaceSection('<!-- /bench:x --><!-- bench:x -->', 'x', 'new'),
    /no pair of comments/,
  );
});

test('the documents have every section that the bench writes', () => {
  const read = (name) => fs.readFileSync(path.join(root, name), 'utf8');
  const names = ['run', 'goals', 'streams', 'memory', 'boxes', 'files', 'heap'];
  let text = read('docs/performance.md');
  for (const name of [...names, 'profile']) {
    text = replaceSection(text, name, '');
  }
  replaceSection(read('README.md'), 'headline', '');
  const plots = fs.readdirSync(path.join(root, 'docs', 'performance')).sort();
  assert.deepEqual(plots, ['boxes.svg', 'files.svg', 'heap.svg']);
  for (const name of plots) {
    assert.ok(text.includes(`(performance/${name})`), name);
  }
});
