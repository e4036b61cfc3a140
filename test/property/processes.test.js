// SPDX-License-Identifier: Apache-2.0
'use strict';

// What goes into a box and comes out of it, for inputs that nobody thought of.

const assert = require('node:assert/strict');
const { Readable } = require('node:stream');
const { buffer, text } = require('node:stream/consumers');
const { pipeline } = require('node:stream/promises');
const fc = require('fast-check');
const { open, test } = require('../helpers/harness.js');

// What a shell, a normaliser or a trimmer would not leave alone.
const oddWords = [
  '',
  ' ',
  '\n',
  '-rf',
  '--',
  '$HOME',
  "'",
  '"',
  '\\',
  '*',
  '=',
];
const word = fc.oneof(
  fc.constantFrom(...oddWords, 'e\u0301', '\u212b', '\ufeffa', ' a '),
  fc
    .string({ unit: 'binary', maxLength: 40 })
    .filter((value) => !value.includes('\0') && value.isWellFormed()),
);

function toHex(value) {
  return Buffer.from(value).toString('hex');
}

test('argv arrives as it is', async (t) => {
  const sandbox = await open(t, { trackFiles: false });
  const code =
    'import os, sys, json\n' +
    'print(json.dumps([os.fsencode(a).hex() for a in sys.argv[1:]]))';
  await fc.assert(
    fc.asyncProperty(fc.array(word, { maxLength: 12 }), async (args) => {
      const { stdout, stderr } = await sandbox.run([
        ...['python3', '-c', code],
        ...args,
      ]);
      assert.equal(stderr, '');
      assert.deepEqual(JSON.parse(stdout), args.map(toHex));
    }),
    { numRuns: 15 },
  );
});

test('env arrives as it is, that of the call over that of the session', async (t) => {
  // Of its own, so that no variable means anything to the program.
  const name = word
    .map((value) => `V_${value.replaceAll('=', '')}`)
    .filter((value) => value !== 'V_');
  const env = fc.dictionary(
    fc.oneof(fc.constantFrom('V_a', 'V_b'), name),
    word,
    {
      maxKeys: 6,
    },
  );
  const code =
    'import os, json\n' +
    'print(json.dumps({k.hex(): v.hex() for k, v in os.environb.items()' +
    ' if k.startswith(b"V_")}))';
  await fc.assert(
    fc.asyncProperty(env, env, async (ofSession, ofCall) => {
      const sandbox = await open(t, { env: ofSession, trackFiles: false });
      const { stdout, stderr } = await sandbox.run(['python3', '-c', code], {
        env: ofCall,
      });
      await sandbox.close();
      assert.equal(stderr, '');
      const merged = Object.entries({ ...ofSession, ...ofCall });
      assert.deepEqual(
        JSON.parse(stdout),
        Object.fromEntries(merged.map((pair) => pair.map(toHex))),
      );
    }),
    { numRuns: 15 },
  );
});

test('WS-13 a file of any name is listed, read, moved and removed by it', async (t) => {
  const sandbox = await open(t, { trackFiles: false });
  const anyByte = fc.integer({ min: 1, max: 255 });
  const someName = fc.oneof(
    fc.constantFrom(...oddWords, '...', '.a', 'a\n', 'x'.repeat(255)),
    fc.string({ unit: 'binary', minLength: 1, maxLength: 60 }),
    fc.uint8Array({ minLength: 1, maxLength: 255 }),
    fc
      .array(anyByte, { minLength: 1, maxLength: 255 })
      .map((list) => Buffer.from(list)),
  );
  const isName = (bytes) =>
    bytes.length > 0 &&
    bytes.length <= 255 &&
    !bytes.includes(0) &&
    !bytes.includes(47) &&
    !['.', '..', '.deps'].includes(bytes.toString('latin1'));
  const make =
    'import os, sys\nopen(bytes.fromhex(sys.argv[1]), "wb").write(b"by code")';
  await fc.assert(
    fc.asyncProperty(
      someName.map((value) => Buffer.from(value)).filter(isName),
      async (name) => {
        const made = await sandbox.run(['python3', '-c', make, toHex(name)]);
        assert.equal(made.stderr, '');
        const [entry, ...others] = await sandbox.listFiles();
        assert.deepEqual(others, []);
        const given = entry.pathBuffer ?? entry.path;
        assert.equal(toHex(given), toHex(name));
        assert.equal(await sandbox.readFile(given, 'utf8'), 'by code');
        await sandbox.writeFile(given, 'by host');
        await sandbox.rename(given, 'moved');
        assert.equal(await sandbox.exists(given), false);
        assert.equal(await sandbox.readFile('moved', 'utf8'), 'by host');
        await sandbox.rename('moved', name);
        await sandbox.rm(given);
        assert.deepEqual(await sandbox.listFiles(), []);
      },
    ),
    { numRuns: 20 },
  );
});

test('however stdin is cut into pieces, the program reads the whole', async (t) => {
  const sandbox = await open(t, { trackFiles: false });
  // Also longer than a pipe and than what is handed over at once.
  const longPiece = fc
    .tuple(
      fc.constantFrom(65536, 2 ** 20, 2 ** 21),
      fc.integer({ max: 2, min: -2 }),
    )
    .map(([size, more]) => Buffer.alloc(size + more, 'of no power of two'));
  const pieces = fc.array(
    fc.oneof(
      { weight: 4, arbitrary: fc.uint8Array({ maxLength: 70000 }) },
      { weight: 4, arbitrary: fc.string() },
      { weight: 1, arbitrary: longPiece },
    ),
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

test('however a file is written and read in pieces, it has the whole', async (t) => {
  const sandbox = await open(t, { trackFiles: false });
  const piece = fc.oneof(fc.uint8Array({ maxLength: 90000 }), fc.string());
  const range = fc.record(
    {
      start: fc.nat(200000),
      end: fc.nat(200000),
      highWaterMark: fc.integer({ min: 1, max: 100000 }),
    },
    { requiredKeys: [] },
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(piece, { maxLength: 6 }),
      range.filter(({ start = 0, end = start }) => start <= end),
      async (list, options) => {
        const whole = Buffer.concat(list.map((one) => Buffer.from(one)));
        await sandbox.writeFile('by-call', Readable.from(list));
        const sink = sandbox.createWriteStream('by-stream');
        await pipeline(Readable.from(list, { objectMode: false }), sink);
        for (const name of ['by-call', 'by-stream']) {
          const source = sandbox.createReadStream(name, options);
          const { start = 0, end = whole.length } = options;
          const wanted = whole.subarray(start, end + 1);
          assert.ok((await buffer(source)).equals(wanted), name);
        }
      },
    ),
    { numRuns: 25 },
  );
});
