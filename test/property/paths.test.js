// SPDX-License-Identifier: Apache-2.0
'use strict';

// Properties of paths and names: of any that fast-check comes up with, not of
// the few that somebody thought of.

const assert = require('node:assert/strict');
const path = require('node:path');
const { test } = require('node:test');
const fc = require('fast-check');
const { SandboxError } = require('../../lib/errors.js');
const { named, workspacePath } = require('../../lib/workspace-path.js');

// Parts that paths are made of, the dangerous ones often.
const part = fc.oneof(
  fc.constantFrom('', '.', '..', 'a', '...', '\\', '-rf', ' '),
  fc.string({ unit: 'grapheme', maxLength: 8 }),
  fc.string({ unit: 'binary', maxLength: 8 }),
);
const anyPath = fc
  .array(part, { maxLength: 8 })
  .map((parts) => parts.join('/'));

function tryPath(value) {
  try {
    return workspacePath(value);
  } catch (error) {
    assert.ok(error instanceof SandboxError, String(error));
    assert.match(error.code, /PATH|INVALID_OPTION/);
    return undefined;
  }
}

test('WS-01 a path that is taken stays inside and says the same as it did', () => {
  fc.assert(
    fc.property(anyPath, (value) => {
      const bytes = tryPath(value);
      if (!bytes) return;
      const text = bytes.toString();
      assert.ok(!path.isAbsolute(text));
      assert.ok(!bytes.includes(0));
      assert.ok(bytes.length > 0 && bytes.length < 4096);
      const parts = text.split('/');
      assert.ok(!parts.some((one) => ['', '.', '..'].includes(one)), text);
      assert.equal(path.posix.normalize(value), text);
      assert.deepEqual(
        workspacePath(text),
        bytes,
        'taken again, it is the same',
      );
    }),
    { numRuns: 2000 },
  );
});

test('WS-01 a path that is refused is refused for a reason', () => {
  fc.assert(
    fc.property(anyPath, (value) => {
      if (tryPath(value)) return;
      const parts = value.split('/');
      assert.ok(
        value === '' ||
          value.startsWith('/') ||
          value.endsWith('/') ||
          value.includes('\0') ||
          parts.includes('..') ||
          parts.every((one) => one === '' || one === '.') ||
          !value.isWellFormed(),
        value,
      );
    }),
    { numRuns: 2000 },
  );
});

test('P23 bytes and text of one name are one path', () => {
  fc.assert(
    fc.property(anyPath, (value) => {
      if (!value.isWellFormed()) return;
      assert.deepEqual(tryPath(Buffer.from(value)), tryPath(value));
    }),
    { numRuns: 2000 },
  );
});

test('WS-13 a name comes back as its bytes, whatever they are', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1, maxLength: 255 }), (value) => {
      const bytes = Buffer.from(value);
      const entry = named(bytes, { size: 1 });
      const given = entry.pathBuffer ?? Buffer.from(entry.path);
      assert.deepEqual(given, bytes);
      assert.deepEqual(Object.keys(entry), ['path', 'size']);
    }),
    { numRuns: 2000 },
  );
});
