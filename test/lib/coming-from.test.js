// SPDX-License-Identifier: Apache-2.0
'use strict';

// The pages for those who come from elsewhere name all that there is.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const glovebox = require('../../lib/index.js');
const e2b = require('../../lib/e2b.js');
const { Commands } = require('../../lib/e2b/commands.js');
const { Filesystem } = require('../../lib/e2b/filesystem.js');
const { describeOptions } = require('../../lib/options.js');

/** Every word that a page has in code. */
function wordsInCode(page) {
  const file = path.join(__dirname, '..', '..', 'docs', page);
  const code = fs.readFileSync(file, 'utf8').match(/```.*?```|`[^`]+`/gs);
  return new Set(code.join(' ').match(/\w+/g));
}

function membersOf({ prototype }) {
  return Object.getOwnPropertyNames(prototype).filter(
    (name) => name !== 'constructor',
  );
}

function assertAllNamed(page, names) {
  const words = wordsInCode(page);
  assert.deepEqual(
    names.filter((name) => !words.has(name)),
    [],
    `not named in docs/${page}`,
  );
}

test('from-kern-sandbox.md names every option', () => {
  const places = [
    'new Sandbox()',
    'sandbox.runCode()',
    'sandbox.run()',
    'sandbox.spawn()',
    'pty of sandbox.spawn()',
    'sandbox.kernel()',
    'kernel.runCode()',
    'sandbox.readFile()',
    'sandbox.createReadStream()',
    'sandbox.createWriteStream()',
    'sandbox.listFiles()',
    'sandbox.rm()',
    'sandbox.snapshot()',
    'sandbox.restore()',
    'runCode()',
  ];
  assertAllNamed(
    'from-kern-sandbox.md',
    places.flatMap((place) =>
      describeOptions(place)
        .filter(({ unbuilt }) => !unbuilt)
        .map(({ name }) => name),
    ),
  );
});

test('from-kern-sandbox.md names every method', () => {
  const { Kernel, Sandbox, SandboxProcess } = glovebox;
  const members = [Kernel, Sandbox, SandboxProcess].flatMap(membersOf);
  const functions = Object.keys(glovebox).filter((name) => /^[a-z]/.test(name));
  assertAllNamed('from-kern-sandbox.md', [...members, ...functions]);
});

test('from-e2b.md names every method and error', () => {
  const classes = [e2b.Sandbox, e2b.CommandHandle, Commands, Filesystem];
  const errors = Object.keys(e2b).filter((name) => name.endsWith('Error'));
  const own = ['started']; // Between our own classes.
  const members = classes
    .flatMap(membersOf)
    .filter((name) => !own.includes(name));
  const documented = errors.filter((name) => name !== 'ExecutionError');
  assertAllNamed('from-e2b.md', [...members, ...documented]);
});
