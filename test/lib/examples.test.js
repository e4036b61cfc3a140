// SPDX-License-Identifier: Apache-2.0
'use strict';

// Every example of index.d.ts, e2b.d.ts and the README runs as it is written
// there.

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const path = require('node:path');
const { test } = require('node:test');
const { format, promisify } = require('node:util');
const {
  readExamples,
  readReadmeExamples,
} = require('./documented-examples.js');
const { isSupported } = require('../../lib/index.js');

const run = promisify(execFile);
const root = path.join(__dirname, '..', '..');

const isMissing = !isSupported();
const skip =
  isMissing && process.env.GLOVEBOX_MUST_RUN !== '1'
    ? 'the compiled part does not load'
    : false;

for (const { name, code } of readExamples()) {
  test(`the example of \`${name}\` runs`, { skip }, async () => {
    const { stdout, stderr } = await run(
      process.execPath,
      ['--no-warnings', '--input-type=module', '-e', code],
      { cwd: root, timeout: 60000 },
    );
    assert.equal(stderr, '');
    assert.equal(stdout, expectedOutput(code));
  });
}

for (const [index, code] of readReadmeExamples().entries()) {
  test(`example ${index + 1} of the README runs`, { skip }, async () => {
    await run(
      process.execPath,
      ['--no-warnings', '--input-type=module', '-e', withAssertions(code)],
      { cwd: root, timeout: 60000 },
    );
  });
}

// Where a line is a value with a comment, the comment is what it is.
function withAssertions(code) {
  const checked = code.replaceAll(
    /^ *([\w.[\]]+); +\/\/ (.*)$/gm,
    'assert.deepEqual($1, $2);',
  );
  return `import assert from 'node:assert/strict';\n${checked}`;
}

// The comment behind a console.log is what it prints, as JSON.
function expectedOutput(code) {
  const comments = code.matchAll(/console\.log\(.*\); \/\/ (.*)$/gm);
  return Array.from(
    comments,
    ([, comment]) => `${format(JSON.parse(comment))}\n`,
  ).join('');
}
