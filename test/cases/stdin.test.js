// SPDX-License-Identifier: Apache-2.0
'use strict';

// The stdin option: what arrives, how fast, and what happens if nobody reads.

const assert = require('node:assert/strict');
const crypto = require('node:crypto');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { Readable } = require('node:stream');
const { forms } = require('../helpers/forms.js');
const {
  descendants,
  eventually,
  open,
  test,
  timeScale,
} = require('../helpers/harness.js');

const echo = 'import sys\nsys.stdout.buffer.write(sys.stdin.buffer.read())';

for (const [name, make] of Object.entries({
  'a string': () => 'naïve 🍉\n',
  'a Buffer': () => Buffer.from('naïve 🍉\n'),
  'a Uint8Array': () => new Uint8Array(Buffer.from('naïve 🍉\n')),
  'a part of an ArrayBuffer': () =>
    new Uint8Array(Buffer.from('<naïve 🍉\n>')).subarray(1, -1),
  'a Readable': () => Readable.from(['naïve ', Buffer.from('🍉\n')]),
  'an async generator': () =>
    (async function* () {
      yield 'naïve ';
      yield Buffer.from('🍉\n');
    })(),
  'a web stream': () => new Blob(['naïve 🍉\n']).stream(),
})) {
  test(`stdin is ${name}`, async (t) => {
    const sandbox = await open(t);
    const result = await sandbox.run(['cat'], { stdin: make() });
    assert.equal(result.stdout, 'naïve 🍉\n');
    const python = await sandbox.runCode(echo, { stdin: make() });
    assert.equal(python.stdout, 'naïve 🍉\n');
  });
}

test("stdin of each language is the code's to read", async (t) => {
  const sandbox = await open(t);
  const codes = {
    python: 'print(input(), input())',
    node: 'console.log(require("fs").readFileSync(0, "utf8").replace("\\n", " ").trim())',
    bash: 'read a; read b; echo $a $b',
  };
  for (const [language, code] of Object.entries(codes)) {
    const result = await sandbox.runCode(code, { language, stdin: 'one\ntwo' });
    assert.equal(result.stdout, 'one two\n', language);
  }
});

test('an empty stdin is at its end, as none is', async (t) => {
  const sandbox = await open(t);
  for (const stdin of ['', Buffer.alloc(0), Readable.from([]), null]) {
    const result = await sandbox.run(['wc', '-c'], { stdin });
    assert.equal(result.stdout, '0\n');
  }
});

test('stdin can be opened anew by its name', async (t) => {
  const sandbox = await open(t);
  const result = await sandbox.run(['cat', '/dev/stdin'], { stdin: 'again' });
  assert.equal(result.stdout, 'again', result.stderr);
});

test('FD-04: stdin is a pipe that only leads in', async (t) => {
  const sandbox = await open(t);
  const { stdout } = await sandbox.runCode(
    `import os, stat
print(stat.S_ISFIFO(os.fstat(0).st_mode), os.isatty(0))
try:
    os.write(0, b'x')
except OSError as error:
    print(error.errno)
print(sorted(os.listdir('/proc/self/fd'), key=int)[:4])`,
    { stdin: 'x' },
  );
  assert.match(stdout, /^True False\n9\n\['0', '1', '2', /);
});

test('every byte of a long stdin arrives in order', async (t) => {
  const sandbox = await open(t);
  const bytes = crypto.randomBytes(20 * 2 ** 20);
  const expected = crypto.createHash('sha256').update(bytes).digest('hex');
  const inPieces = async function* () {
    for (let at = 0; at < bytes.length; at += 100003) {
      yield bytes.subarray(at, at + 100003);
    }
  };
  const file = path.join(os.tmpdir(), 'long');
  fs.writeFileSync(file, bytes);
  t.after(() => fs.rmSync(file));
  for (const stdin of [bytes, inPieces(), fs.createReadStream(file)]) {
    const { stdout } = await sandbox.run(['sha256sum'], { stdin });
    assert.equal(stdout, `${expected}  -\n`);
  }
});

// ---- Nobody reads ----------------------------------------------------------

test('OUT-10: 100 MiB for a program that never reads is no deadlock and fills no memory', async (t) => {
  const sandbox = await open(t);
  const before = process.memoryUsage().rss;
  const stdin = Buffer.alloc(100 * 2 ** 20);
  const withInput = process.memoryUsage().rss;
  const result = await sandbox.run(['sleep', '1'], { stdin });
  assert.equal(result.exitCode, 0);
  assert.ok(result.durationMs < 20000 * timeScale);
  const grown = process.memoryUsage().rss - Math.max(before, withInput);
  // The Buffer itself may be touched only now.
  assert.ok(grown < 120 * 2 ** 20, `${grown} bytes`);
});

test('OUT-10: a program that reads half and exits has ended well', async (t) => {
  const sandbox = await open(t);
  const stdin = Buffer.alloc(100 * 2 ** 20, 'x');
  const half = await sandbox.run(['sh', '-c', 'head -c 52428800 | wc -c'], {
    stdin,
  });
  assert.equal(half.stdout, '52428800\n');
  assert.equal(half.exitCode, 0);
  assert.equal(half.fault, null);
});

test('OUT-10: a program that closes its stdin and goes on is not waited for', async (t) => {
  const sandbox = await open(t);
  const source = Readable.from(
    (async function* () {
      for (;;) yield Buffer.alloc(65536);
    })(),
  );
  const result = await sandbox.run(
    ['sh', '-c', 'exec <&-; sleep 0.5; echo done'],
    { stdin: source },
  );
  assert.equal(result.stdout, 'done\n');
  await eventually(() => source.destroyed, 'the source is destroyed');
});

test('a stream is read no faster than the program reads', async (t) => {
  const sandbox = await open(t);
  let taken = 0;
  const source = async function* () {
    for (let i = 0; i < 1000; i++) {
      taken += 65536;
      yield Buffer.alloc(65536);
    }
  };
  await sandbox.run(['sleep', '0.5'], { stdin: source() });
  // What a pipe holds, and a piece on its way.
  assert.ok(taken <= 4 * 65536, `${taken} bytes were taken`);
});

test('a stream that has no more for now does not hold a call that has ended', async (t) => {
  const sandbox = await open(t);
  const source = new Readable({ read() {} });
  source.push('first\n');
  const result = await sandbox.run(['head', '-n', '1'], { stdin: source });
  assert.equal(result.stdout, 'first\n');
  await eventually(() => source.destroyed, 'the source is destroyed');
});

test('a web stream that has no more for now is cancelled at the end', async (t) => {
  const sandbox = await open(t);
  let isCancelled = false;
  const source = new ReadableStream({
    start: (controller) => controller.enqueue('first\n'),
    cancel: () => {
      isCancelled = true;
    },
  });
  const result = await sandbox.run(['head', '-n', '1'], { stdin: source });
  assert.equal(result.stdout, 'first\n');
  await eventually(() => isCancelled, 'the source is cancelled');
});

test('a stream that fails ends the call, which rejects with its error', async (t) => {
  const sandbox = await open(t);
  const broken = new Error('the source broke');
  const source = async function* () {
    yield 'a';
    throw broken;
  };
  const started = Date.now();
  await assert.rejects(
    sandbox.run(['sleep', '30'], { stdin: source() }),
    (error) => error === broken,
  );
  assert.ok(Date.now() - started < 10000 * timeScale);
  await assert.rejects(
    sandbox.run(['sleep', '30'], { stdin: Readable.from([5]) }),
    /Expected chunks that are strings or bytes for stdin, received 5/,
  );
});

for (const { name, begin } of forms) {
  test(`P03 stdin does not reach what runs ${name} without it`, async (t) => {
    const run = await begin(await open(t));
    const result = await run('import sys\nprint(repr(sys.stdin.read()))');
    assert.equal(result.stdout, "''\n");
  });
}

test('a program that a deadline ends leaves no source and no process behind', async (t) => {
  const sandbox = await open(t);
  const source = new Readable({ read() {} });
  const result = await sandbox.run(['cat'], { stdin: source, timeoutS: 0.3 });
  assert.equal(result.fault.type, 'timeout');
  await eventually(() => source.destroyed, 'the source is destroyed');
  await eventually(
    () => !descendants().some(({ name }) => name === 'cat'),
    'no cat is left',
  );
});
