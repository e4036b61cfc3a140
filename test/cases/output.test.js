// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rows A and B of the public cases, callbacks and caps: what the code writes
// and reads on its standard streams.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const {
  busyDescendants,
  open,
  test,
  timeScale,
} = require('../helpers/harness.js');
const { forms } = require('../helpers/forms.js');

/** `callbacks` for a call, and what they got: `stdout` and `stderr`. */
function collector() {
  const chunks = { stdout: [], stderr: [] };
  return {
    callbacks: {
      onStdout: (chunk) => chunks.stdout.push(chunk),
      onStderr: (chunk) => chunks.stderr.push(chunk),
    },
    get stdout() {
      return Buffer.concat(chunks.stdout);
    },
    get stderr() {
      return Buffer.concat(chunks.stderr);
    },
  };
}

// ---- A: bytes --------------------------------------------------------------

const splitCharacters = `import os, time
for part in (b'na\\xc3', b'\\xafve \\xf0\\x9f', b'\\x8d\\x89', b' ok\\n'):
    os.write(1, part); os.write(2, part); time.sleep(0.1)`;

const manyCharacters = "print('a' + '\\U0001F600' * 50000)";

const invalidBytes =
  "import sys\nsys.stdout.buffer.write(b'ok\\xff\\xfe\\x00end\\n')";

for (const { name, begin } of forms) {
  test(`P01 a character that two writes share arrives whole ${name}`, async (t) => {
    const run = await begin(await open(t));
    const live = collector();
    const result = await run(splitCharacters, live.callbacks);
    assert.equal(result.stdout, 'naïve 🍉 ok\n');
    assert.equal(result.stderr, 'naïve 🍉 ok\n');
    assert.equal(live.stdout.toString(), 'naïve 🍉 ok\n');
    assert.equal(live.stderr.toString(), 'naïve 🍉 ok\n');
    assert.equal(result.exitCode, 0);
  });

  test(`P01 a long line of 4-byte characters arrives whole ${name}`, async (t) => {
    const run = await begin(await open(t));
    const live = collector();
    const { stdout } = await run(manyCharacters, live.callbacks);
    assert.equal(Buffer.byteLength(stdout), 200002);
    assert.equal(stdout.length, 100002);
    assert.equal(stdout, `a${'😀'.repeat(50000)}\n`);
    assert.equal(live.stdout.toString(), stdout);
  });

  test(`P02 bytes that are no UTF-8, and NUL, cut nothing ${name}`, async (t) => {
    const run = await begin(await open(t));
    const live = collector();
    const result = await run(invalidBytes, live.callbacks);
    assert.equal(result.exitCode, 0);
    assert.equal(result.fault, null);
    assert.equal(result.stdout, 'ok\uFFFD\uFFFD\u0000end\n');
    assert.equal(result.stdout.length, 9);
    const bytes = '6f6bfffe00656e640a';
    assert.equal(live.stdout.toString('hex'), bytes);
    assert.equal(result.stdoutBuffer.toString('hex'), bytes);
  });
}

// ---- B: stdio --------------------------------------------------------------

// The `stdin` option of a call is carried by the issue that adds it: here stdin
// is what it is without that option, at its end.

test('P03 bash reads the end of stdin at once', async (t) => {
  const sandbox = await open(t);
  const result = await sandbox.runCode('read x; echo "rc=$?"; cat; echo done', {
    language: 'bash',
  });
  assert.equal(result.stdout, 'rc=1\ndone\n');
  assert.equal(result.exitCode, 0);
  assert.ok(result.durationMs < 10000 * timeScale, `${result.durationMs} ms`);
});

test('P03 input() in a call raises EOFError', async (t) => {
  const sandbox = await open(t);
  const result = await sandbox.runCode("input('name? ')");
  assert.equal(result.exitCode, 1);
  assert.equal(result.stdout, 'name? ');
  assert.ok(
    result.stderr.endsWith('EOFError: EOF when reading a line\n'),
    result.stderr,
  );
});

test('P03 input() in a cell raises EOFError and the next cell works', async (t) => {
  const kernel = await (await open(t)).kernel();
  const first = await kernel.runCode("input('name? ')");
  assert.equal(first.exitCode, 1);
  assert.equal(first.stdout, 'name? ');
  assert.ok(
    first.stderr.endsWith('EOFError: EOF when reading a line\n'),
    first.stderr,
  );
  const second = await kernel.runCode('1 + 1');
  assert.equal(second.results[0].text, '2');
});

const printsAndWaits = `import os, time
print('one')
while not os.path.exists('arrived'): time.sleep(0.01)
print('two')`;

for (const { name, begin } of forms) {
  // PYTHONUNBUFFERED of this process would not reach the box if it were set:
  // "P25 nothing of the host's environment ..." is about that.
  test(`P04 a line arrives when it is printed, unflushed, ${name}`, async (t) => {
    const sandbox = await open(t);
    const run = await begin(sandbox);
    const arrived = [];
    const result = await run(printsAndWaits, {
      onStdout(chunk) {
        arrived.push(String(chunk));
        fs.writeFileSync(path.join(sandbox.workspace, 'arrived'), '');
      },
    });
    assert.deepEqual(arrived, ['one\n', 'two\n']);
    assert.equal(result.stdout, 'one\ntwo\n');
  });

  test(`P04 what a callback throws is the call's rejection ${name}`, async (t) => {
    const sandbox = await open(t);
    const run = await begin(sandbox);
    const uncaught = [];
    const remember = (error) => uncaught.push(error);
    process.on('uncaughtException', remember);
    process.on('unhandledRejection', remember);
    t.after(() => {
      process.off('uncaughtException', remember);
      process.off('unhandledRejection', remember);
    });

    let calls = 0;
    const failure = new Error('cb');
    await assert.rejects(
      run("print('x\\n' * 200000)", {
        onStdout() {
          calls++;
          throw failure;
        },
      }),
      (error) => error === failure,
    );
    assert.equal(calls, 1);
    await new Promise(setImmediate);
    assert.deepEqual(uncaught, []);

    // The box of a call is gone with it. A cell ends, and its Kernel lives on: an
    // interpreter and its supervisor.
    const left = busyDescendants();
    assert.equal(left.length, name === 'by runCode' ? 0 : 2);
    assert.equal((await run('40 + 2')).results[0].text, '42');
  });
}

// ---- Callbacks -------------------------------------------------------------

test('a session has callbacks, and a call may have others or none', async (t) => {
  const ofSession = collector();
  const sandbox = await open(t, ofSession.callbacks);
  const print = (word, options) =>
    sandbox.runCode(`echo ${word}; echo ${word.toUpperCase()} >&2`, {
      language: 'bash',
      ...options,
    });

  await print('a');
  const ofCall = collector();
  await print('b', { onStdout: ofCall.callbacks.onStdout });
  const silent = await print('c', { onStdout: null, onStderr: null });
  await print('d', { onStdout: undefined });

  assert.equal(ofSession.stdout.toString(), 'a\nd\n');
  assert.equal(ofSession.stderr.toString(), 'A\nB\nD\n');
  assert.equal(ofCall.stdout.toString(), 'b\n');
  assert.equal(silent.stdout, 'c\n');
  assert.equal(silent.stderr, 'C\n');
});

test("a Kernel has its session's callbacks, its own, and those of a cell", async (t) => {
  const ofSession = collector();
  const ofKernel = collector();
  const ofCell = collector();
  const sandbox = await open(t, ofSession.callbacks);
  const kernel = await sandbox.kernel({
    onStdout: ofKernel.callbacks.onStdout,
  });
  const print = (word, options) =>
    kernel.runCode(
      `import sys; print('${word}'); print('${word.toUpperCase()}', file=sys.stderr)`,
      options,
    );

  await print('a');
  await print('b', { onStdout: ofCell.callbacks.onStdout });
  await print('c', { onStdout: null, onStderr: null });
  await print('d');

  assert.equal(ofKernel.stdout.toString(), 'a\nd\n');
  assert.equal(ofCell.stdout.toString(), 'b\n');
  assert.equal(ofSession.stdout.toString(), '');
  assert.equal(ofSession.stderr.toString(), 'A\nB\nD\n');
});

test('output of a cell that nobody listens to is not given to the next', async (t) => {
  const kernel = await (await open(t)).kernel();
  // What would be wrong here is a race, so it is run often.
  for (let turn = 0; turn < 100; turn++) {
    await kernel.runCode(`print('silent ${turn}')`);
    const live = collector();
    await kernel.runCode(`print('heard ${turn}')`, live.callbacks);
    assert.equal(live.stdout.toString(), `heard ${turn}\n`);
  }
});

test('no byte is lost while the host is too busy for its callbacks', async (t) => {
  const sandbox = await open(t);
  const live = collector();
  let calls = 0;
  const result = await sandbox.runCode('seq 1 200000', {
    language: 'bash',
    onStdout(chunk) {
      calls++;
      const end = performance.now() + 5;
      while (performance.now() < end);
      live.callbacks.onStdout(chunk);
    },
  });
  const expected = Array.from({ length: 200000 }, (_, index) => index + 1);
  assert.equal(live.stdout.toString(), `${expected.join('\n')}\n`);
  assert.ok(result.stdoutBuffer.equals(live.stdout));
  // Waiting chunks come together: one for each write of 4 KiB would be 315.
  assert.ok(calls < 200, `${calls} chunks`);
});

// Half of a surrogate pair, encoded as if it were a character.
const cesu = Buffer.from([0xed, 0xa0, 0x80]);

// Short output that is UTF-8 crosses as a string, other output as bytes.
test('OUT-05 output is the same bytes and the same text however long', async (t) => {
  const sandbox = await open(t);
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  const border = 16 * 1024;
  const endings = ['', 'x', 'é', '😀', '\u0000', '\ufeff']
    .map((text) => Buffer.from(text))
    .concat([Buffer.from([0xff]), Buffer.from([0xf0, 0x9f]), cesu]);
  for (const length of [0, 1, border - 3, border]) {
    for (const ending of endings) {
      const start = Buffer.from('\ufeff'.padEnd(length, '.').slice(0, length));
      const bytes = Buffer.concat([start, ending]);
      const result = await sandbox.run(['cat'], { stdin: bytes });
      assert.ok(result.stdoutBuffer.equals(bytes), `${length}, ${ending}`);
      assert.equal(result.stdout, decoder.decode(bytes));
    }
  }
});

// ---- Caps ------------------------------------------------------------------

test('output up to maxOutputBytes is kept, one byte more is truncated', async (t) => {
  const sandbox = await open(t, { maxOutputBytes: 1000 });
  const write = (stdout, stderr) =>
    sandbox.runCode(
      `head -c ${stdout} /dev/zero | tr '\\0' o; head -c ${stderr} /dev/zero | tr '\\0' e >&2`,
      { language: 'bash' },
    );

  const full = await write(1000, 1000);
  assert.equal(full.stdout, 'o'.repeat(1000));
  assert.equal(full.stderr, 'e'.repeat(1000));
  assert.equal(full.truncated, false);

  for (const [stdout, stderr] of [
    [1001, 3],
    [3, 1001],
  ]) {
    const result = await write(stdout, stderr);
    assert.equal(result.stdout, 'o'.repeat(Math.min(stdout, 1000)));
    assert.equal(result.stderr, 'e'.repeat(Math.min(stderr, 1000)));
    assert.equal(result.truncated, true);
    // Too much output is no fault of the code.
    assert.equal(result.success, true);
  }
});

test('a writer far beyond maxOutputBytes is not blocked, and callbacks get what is kept', async (t) => {
  const sandbox = await open(t, { maxOutputBytes: 5 });
  const live = collector();
  const result = await sandbox.runCode(
    "head -c 20000000 /dev/zero | tr '\\0' x; echo end >&2",
    { language: 'bash', ...live.callbacks },
  );
  assert.equal(result.stdout, 'xxxxx');
  assert.equal(result.stderr, 'end\n');
  assert.equal(live.stdout.toString(), 'xxxxx');
  assert.equal(live.stderr.toString(), 'end\n');
  assert.equal(result.truncated, true);
  assert.equal(result.exitCode, 0);
});

test('maxOutputBytes 0 keeps nothing and calls nobody', async (t) => {
  const sandbox = await open(t, { maxOutputBytes: 0 });
  const live = collector();
  const printing = await sandbox.run(['echo', 'x'], live.callbacks);
  assert.equal(printing.stdout, '');
  assert.equal(live.stdout.length, 0);
  assert.equal(printing.truncated, true);
  const silent = await sandbox.run(['true']);
  assert.equal(silent.truncated, false);
});

test('a cap in the middle of a character leaves U+FFFD and whole characters', async (t) => {
  const sandbox = await open(t, { maxOutputBytes: 6 });
  const { stdout, stdoutBuffer } = await sandbox.run(['printf', 'é😀😀']);
  assert.equal(stdoutBuffer.toString('hex'), 'c3a9f09f9880');
  assert.equal(stdout, 'é😀');
  const narrow = await open(t, { maxOutputBytes: 4 });
  const cut = await narrow.run(['printf', 'é😀']);
  assert.equal(cut.stdout, 'é\uFFFD');
  assert.equal(cut.truncated, true);
});

test('the cap counts for each cell of a Kernel anew', async (t) => {
  const kernel = await (await open(t, { maxOutputBytes: 10 })).kernel();
  const long = await kernel.runCode("print('x' * 100000, end='')");
  assert.equal(long.stdout, 'x'.repeat(10));
  assert.equal(long.truncated, true);
  const short = await kernel.runCode("print('y' * 9)");
  assert.equal(short.stdout, 'yyyyyyyyy\n');
  assert.equal(short.truncated, false);
});

test('stdout and stderr are pipes, and stdin is not', async (t) => {
  const sandbox = await open(t);
  const result = await sandbox.runCode(
    'for fd in 0 1 2; do [[ -t $fd ]] && echo tty; [[ -p /dev/fd/$fd ]] && echo "$fd pipe"; done; ls /proc/self/fd | wc -l',
    { language: 'bash' },
  );
  // The last number counts ls's own descriptor for the folder.
  assert.equal(result.stdout, '1 pipe\n2 pipe\n4\n');
});
