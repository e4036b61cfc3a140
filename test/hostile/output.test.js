// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rows OUT: floods, edges and odd bytes on stdout and stderr.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const {
  glovebox,
  isRoot,
  open,
  packagedPython,
  soak,
  test,
} = require('../helpers/harness.js');
const { ask, askOutside, assertFinished } = require('./attack.js');

const MiB = 1 << 20;
const bash = { language: 'bash' };
const streams = ['stdout', 'stderr'];

function lengths(result) {
  return streams.map((stream) => result[`${stream}Buffer`].length);
}

// ---- What also holds with small pipes --------------------------------------

async function checkFlood(t) {
  const sandbox = await open(t, { maxOutputBytes: MiB });
  // What one call allocates for good is not the flood's.
  await sandbox.run(['head', '-c', `${2 * MiB}`, '/dev/zero']);
  const before = process.memoryUsage.rss();
  const flood = await sandbox.run(['yes'], { timeoutS: soak ? 60 : 2 });
  const grown = process.memoryUsage.rss() - before;
  assert.equal(flood.fault?.type, 'timeout');
  assert.deepEqual(lengths(flood), [MiB, 0]);
  assert.equal(flood.stdout, 'y\n'.repeat(MiB / 2));
  assert.equal(flood.truncated, true);
  assert.ok(grown < 8 * MiB, `${grown / MiB} MiB`);

  // A box that waited for a full pipe would not come to the end.
  const result = await sandbox.runCode(
    `head -c ${100 * MiB} /dev/zero; printf end >&2`,
    bash,
  );
  assert.equal(result.fault, null);
  assert.deepEqual(lengths(result), [MiB, 3]);
  assert.equal(result.stderr, 'end');
  assert.equal(result.truncated, true);
}

async function checkEdges(t) {
  for (const cap of [0, 1, 4096, 65536, 1_000_000]) {
    const sandbox = await open(t, { maxOutputBytes: cap });
    for (const size of [cap - 1, cap, cap + 1].filter((size) => size >= 0)) {
      for (const [index, stream] of streams.entries()) {
        const result = await sandbox.runCode(
          `head -c ${size} /dev/zero >&${index + 1}`,
          bash,
        );
        const title = `${size} bytes of ${cap} on ${stream}`;
        assert.equal(result.exitCode, 0, title);
        const expected = [0, 0];
        expected[index] = Math.min(size, cap);
        assert.deepEqual(lengths(result), expected, title);
        assert.equal(result.truncated, size > cap, title);
      }
    }
  }
}

async function checkBothStreams(t, sizeMiB) {
  const code = `
import os
for i in range(${sizeMiB * 16}):
    for fd, byte in ((1, b'o'), (2, b'e')):
        data = memoryview(byte * 65536)
        while data:
            data = data[os.write(fd, data):]`;
  for (const cap of [64 * MiB, 3 * MiB, MiB + 1]) {
    const sandbox = await open(t, { maxOutputBytes: cap });
    const result = await sandbox.runCode(code);
    assert.equal(result.exitCode, 0);
    const kept = Math.min(cap, sizeMiB * MiB);
    assert.deepEqual(lengths(result), [kept, kept], `cap ${cap}`);
    assert.equal(result.truncated, kept < sizeMiB * MiB, `cap ${cap}`);
    assert.ok(result.stdoutBuffer.equals(Buffer.alloc(kept, 'o')));
    assert.ok(result.stderrBuffer.equals(Buffer.alloc(kept, 'e')));
  }
}

test(
  'OUT-01 a flood is capped, costs the host nothing and does not block the box',
  checkFlood,
);

test(
  'OUT-02 output is truncated from the first byte above the cap, not before',
  checkEdges,
);

test('OUT-04 both streams at once do not deadlock, and each has its own cap', (t) =>
  checkBothStreams(t, 50));

test('OUT-13 it all holds with pipes of 8 KiB', {
  skip: isRoot && 'root is exempt from the quota of pipes',
}, async (t) => {
  // The quota is the user's, not a process': another one uses it up.
  const fill = `
import fcntl, os, sys
F_SETPIPE_SZ, F_GETPIPE_SZ = 1031, 1032
kept = []
while True:
    kept.append(os.pipe())
    if fcntl.fcntl(kept[-1][1], F_GETPIPE_SZ) <= 8192:
        break
    try:
        fcntl.fcntl(kept[-1][1], F_SETPIPE_SZ, 1 << 20)
    except OSError:
        pass
# Some more, for pipes that others of this user give up meanwhile.
kept += [os.pipe() for _ in range(400)]
print('full', flush=True)
sys.stdin.read()`;
  const filler = spawn(packagedPython ?? 'python3', ['-c', fill]);
  t.after(async () => {
    filler.stdin.end();
    await once(filler, 'close');
  });
  await once(filler.stdout, 'data');

  const sandbox = await open(t);
  const size = await ask(
    sandbox,
    'import fcntl\nanswer = [fcntl.fcntl(fd, 1032) for fd in (1, 2)]',
  );
  assert.ok(
    size.every((bytes) => bytes <= 8192),
    `pipes of ${size}`,
  );
  await checkFlood(t);
  await checkEdges(t);
  await checkBothStreams(t, 10);
});

// ---- Bytes -----------------------------------------------------------------

test('OUT-05 every byte arrives as it was written', async (t) => {
  const sandbox = await open(t);
  const cases = {
    'NUL and all other bytes': [
      Buffer.from(Array.from({ length: 256 }, (_, i) => i)),
      Buffer.from(Array.from({ length: 128 }, (_, i) => i)).toString() +
        '\ufffd'.repeat(128),
    ],
    '0xff': [Buffer.from([0xff]), '\ufffd'],
    'half a character': [Buffer.from('a€').subarray(0, 3), 'a\ufffd'],
    'a surrogate as CESU-8': [
      Buffer.from([0xed, 0xa0, 0x80]),
      '\ufffd\ufffd\ufffd',
    ],
    'an overlong NUL': [Buffer.from([0xc0, 0x80]), '\ufffd\ufffd'],
    'line ends': [Buffer.from('a\r\nb\rc\n\n'), 'a\r\nb\rc\n\n'],
    'terminal sequences': [
      Buffer.from('\x1b]52;c;aGk=\x07\x1b[2J'),
      '\x1b]52;c;aGk=\x07\x1b[2J',
    ],
    'byte order marks': [Buffer.from('\ufeffa\ufeff'), '\ufeffa\ufeff'],
    nothing: [Buffer.alloc(0), ''],
  };
  for (const [title, [data, text]] of Object.entries(cases)) {
    for (const [index, stream] of streams.entries()) {
      const chunks = [];
      const result = await sandbox.runCode(
        `import os\nos.write(${index + 1}, bytes.fromhex('${data.toString('hex')}'))`,
        {
          [index === 0 ? 'onStdout' : 'onStderr']: (chunk) =>
            chunks.push(chunk),
        },
      );
      assert.deepEqual(result[`${stream}Buffer`], data, title);
      assert.deepEqual(Buffer.concat(chunks), data, title);
      assert.equal(result[stream], text, title);
    }
  }
});

test('OUT-05 a line of 10 MiB, and characters that come in parts, are whole', async (t) => {
  const sandbox = await open(t);
  const line = await sandbox.runCode(
    `print('x' * ${10 * MiB - 1}); print('after')`,
  );
  assertFinished(line);
  assert.equal(line.stdout, `${'x'.repeat(10 * MiB - 1)}\nafter\n`);

  const chunks = [];
  const parts = await sandbox.runCode(
    `
import os
for i in range(20000):
    for byte in '😀é€'.encode():
        os.write(1, bytes([byte]))`,
    { onStdout: (chunk) => chunks.push(chunk) },
  );
  assertFinished(parts);
  assert.ok(chunks.length > 1, 'it came in more than one piece');
  assert.equal(parts.stdout, '😀é€'.repeat(20_000));
  assert.ok(Buffer.concat(chunks).equals(parts.stdoutBuffer));
});

test('OUT-07 chunks that a callback keeps or changes are its own', async (t) => {
  const sandbox = await open(t);
  const [kept, copies] = [[], []];
  const result = await sandbox.runCode(
    `
import os
for i in range(20000):
    os.write(1, b'%07d\\n' % i)`,
    {
      onStdout(chunk) {
        kept.push(chunk);
        copies.push(Buffer.from(chunk));
        if (kept.length % 2 === 0) chunk.fill('!');
      },
    },
  );
  assertFinished(result);
  const wanted = Array.from(
    { length: 20_000 },
    (_, i) => `${String(i).padStart(7, '0')}\n`,
  ).join('');
  assert.equal(result.stdout, wanted);
  assert.equal(Buffer.concat(copies).toString(), wanted);
  // Later chunks did not land where earlier ones are.
  for (const [index, chunk] of kept.entries()) {
    const expected =
      index % 2 === 1 ? Buffer.alloc(chunk.length, '!') : copies[index];
    assert.ok(chunk.equals(expected), `chunk ${index}`);
  }
});

// ---- The ends of streams ---------------------------------------------------

test('OUT-08 a box that closes its output runs on to its own end', async (t) => {
  const sandbox = await open(t);
  for (const [code, options] of [
    ['echo before; exec 1>&- 2>&-; sleep 1; exit 3', bash],
    [
      'import os, time\nprint("before", flush=True)\nos.close(1); os.close(2)\ntime.sleep(1)\nos._exit(3)',
      {},
    ],
  ]) {
    const result = await sandbox.runCode(code, options);
    assert.deepEqual(
      [result.exitCode, result.fault, result.stdout, result.stderr],
      [3, null, 'before\n', ''],
    );
    assert.ok(result.durationMs >= 1000, `${result.durationMs} ms`);
    assert.ok(result.durationMs < 10_000, `${result.durationMs} ms`);
  }
});

test('OUT-11 without input stdin is at its end, and nothing is a terminal', async (t) => {
  const sandbox = await open(t);
  const code = `answer = [sys.stdin.read(), os.read(0, 1).hex(),
          [os.isatty(fd) for fd in (0, 1, 2)]]`;
  const nothing = ['', '', [false, false, false]];
  assert.deepEqual(await ask(sandbox, code), nothing);
  assert.deepEqual(askOutside(code, { input: '' }), nothing);

  const shell = await sandbox.runCode(
    'cat | wc -c; read line || echo end; test -t 0 || echo no terminal',
    bash,
  );
  assert.equal(shell.stdout, '0\nend\nno terminal\n');
  const node = await sandbox.runCode(
    'let n = 0; for await (const chunk of process.stdin) n++; ' +
      'console.log(n, process.stdin.isTTY, process.stdout.isTTY)',
    { language: 'node' },
  );
  assert.equal(node.stdout, '0 undefined undefined\n');
  const program = await sandbox.run(['cat']);
  assertFinished(program);
  assert.equal(program.stdout, '');
});

test('OUT-14 no cap is so high that output could not become a string', async (t) => {
  const longest = 536_870_888;
  for (const cap of [longest + 1, 3 * 2 ** 30, 2 ** 53, Infinity]) {
    assert.throws(
      () => new glovebox.Sandbox({ maxOutputBytes: cap }),
      { code: 'ERR_SANDBOX_INVALID_OPTION', message: /maxOutputBytes/ },
      `${cap}`,
    );
  }
  const sandbox = await open(t, { maxOutputBytes: longest, timeoutS: 300 });
  const size = soak ? longest + 1 : 20 * MiB;
  // A character takes no less than a byte, also one that stands for a bad byte.
  const result = await sandbox.runCode(
    `head -c ${size} /dev/zero | tr '\\0' '\\377'`,
    bash,
  );
  assert.equal(result.exitCode, 0);
  assert.equal(result.stdout.length, Math.min(size, longest));
  assert.equal(result.stdout.at(-1), '\ufffd');
  assert.equal(result.truncated, size > longest);
});

// Boxes of one session can meet in the workspace, and a socket there carries
// descriptors from one to the other.
const takesStdout = `import array, os, socket, time
listener = socket.socket(socket.AF_UNIX)
listener.bind('/workspace/socket')
listener.listen()
open('/workspace/up', 'w').close()
connection, _ = listener.accept()
_, rights, _, _ = connection.recvmsg(10, socket.CMSG_LEN(4))
fd = array.array('i', rights[0][2])[0]
for _ in range(8):
    if os.fork() == 0:
        os.dup2(fd, 1)
        os.execvp('cat', ['cat', '/dev/zero'])
time.sleep(0.3)
connection.send(b'x')
time.sleep(100)`;

const givesStdout = `import os, socket, time
while not os.path.exists('/workspace/up'): time.sleep(0.01)
connection = socket.socket(socket.AF_UNIX)
connection.connect('/workspace/socket')
socket.send_fds(connection, [b'x'], [1])
connection.recv(1)
os._exit(0)`;

test('OUT-10: a box that goes on writing to the stdout of one that ended holds nobody', async (t) => {
  const sandbox = await open(t, { maxOutputBytes: MiB, trackFiles: false });
  const taker = sandbox.runCode(takesStdout, { timeoutS: 5 });
  const giver = await sandbox.runCode(givesStdout);
  assert.equal(giver.exitCode, 0, giver.stderr);
  assert.ok(giver.stdoutBuffer.length <= MiB);
  // The other one's deadline is the engine's to keep.
  assert.equal((await taker).fault?.type, 'timeout');

  await sandbox.run(['rm', 'socket', 'up']);
  const second = sandbox.runCode(takesStdout, { timeoutS: 5 });
  const child = sandbox.spawn({ code: givesStdout });
  child.stdout.resume();
  assert.equal((await child.wait()).exitCode, 0);
  assert.equal((await second).fault?.type, 'timeout');
});
