// SPDX-License-Identifier: Apache-2.0
'use strict';

// What goes into a box and comes out of it, for inputs that nobody thought of.

const assert = require('node:assert/strict');
const { Readable } = require('node:stream');
const { text } = require('node:stream/consumers');
const fc = require('fast-check');
const { open, test } = require('../helpers/harness.js');

test('argv and env arrive as they are', async (t) => {
  const sandbox = await open(t, { trackFiles: false });
  const word = fc
    .string({ unit: 'binary', maxLength: 40 })
    .filter((value) => !value.includes('\0') && value.isWellFormed());
  const code =
    'import os, sys, json\n' +
    'print(json.dumps([[os.fsencode(a).hex() for a in sys.argv[1:]],' +
    ' os.environb[b"V"].hex()]))';
  const toHex = (value) => Buffer.from(value).toString('hex');
  await fc.assert(
    fc.asyncProperty(
      fc.array(word, { maxLength: 6 }),
      word,
      async (args, V) => {
        const { stdout, stderr } = await sandbox.run(
          ['python3', '-c', code, ...args],
          { env: { V } },
        );
        assert.equal(stderr, '');
        assert.deepEqual(JSON.parse(stdout), [args.map(toHex), toHex(V)]);
      },
    ),
    { numRuns: 15 },
  );
});

test('however stdin is cut into pieces, the program reads the whole', async (t) => {
  const sandbox = await open(t, { trackFiles: false });
  const pieces = fc.array(
    fc.oneof(fc.uint8Array({ maxLength: 70000 }), fc.string()),
    { maxLength: 8 },
  );
  await fc.assert(
    fc.asyncProperty(pieces, async (list) => {
      const whole = Buffer.concat(list.map((piece) => Buffer.from(piece)));
      const { stdoutBuffer } = await sandbox.run(['cat'], {
        stdin: Readable.from(list, { objectMode: true }),
      });
      assert.ok(stdoutBuffer.equals(whole));
    }),
    { numRuns: 25 },
  );
});

test('however output is cut into pieces, the stream has the whole', async (t) => {
  const sandbox = await open(t, { trackFiles: false });
  const sizes = fc.array(fc.integer({ min: 1, max: 150000 }), {
    minLength: 1,
    maxLength: 6,
  });
  await fc.assert(
    fc.asyncProperty(sizes, async (list) => {
      const code = `import os
for i, n in enumerate(${JSON.stringify(list)}):
    data = bytes([97 + i]) * n
    while data:
        data = data[os.write(1 + i % 2, data):]`;
      const child = sandbox.spawn(['python3', '-c', code]);
      const [out, err] = await Promise.all([
        text(child.stdout),
        text(child.stderr),
      ]);
      const expected = ['', ''];
      list.forEach((n, i) => {
        expected[i % 2] += String.fromCharCode(97 + i).repeat(n);
      });
      assert.ok(out === expected[0] && err === expected[1]);
    }),
    { numRuns: 15 },
  );
});
