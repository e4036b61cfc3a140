// SPDX-License-Identifier: Apache-2.0
'use strict';

// Code that finds the driver's pipe and speaks in its name. It shares
// the driver's process, so nothing can stop it. What must hold: the call
// resolves with what the process did, nothing that it says changes anything
// here, and the host's memory and time stay its own.

const assert = require('node:assert/strict');
const { open, soak, test, timeScale } = require('../helpers/harness.js');
const { assertFinished, prelude } = require('./attack.js');

const [RESULT, DONE] = [2, 3];

const speak = `${prelude}
import fcntl, struct, threading
cells, control = 200, 201
assert os.readlink('/proc/self/fd/%d' % control).startswith('pipe:')
def send(data):
    data = memoryview(data)
    while data:
        data = data[os.write(control, data):]
def frame(kind, body, size=None):
    return struct.pack('<II', len(body) if size is None else size, kind) + body
`;

/** The text of a Python expression for the bytes of `text`. */
function bytes(text) {
  return `bytes.fromhex('${Buffer.from(text).toString('hex')}')`;
}

function frame(type, body) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return `frame(${type}, ${bytes(text)})`;
}

async function forge(sandbox, statements) {
  return sandbox.runCode(`${speak}\n${statements}\nprint('end')`);
}

function assertUnharmed(title) {
  assert.deepEqual(Object.keys(Object.prototype), [], title);
  assert.equal({}.polluted, undefined, title);
  assert.equal([].polluted, undefined, title);
}

test('ATK what is no frame of a driver changes no result', async (t) => {
  const sandbox = await open(t);
  const forgeries = {
    'random bytes': 'attempt(send, os.urandom(65536))',
    zeroes: 'attempt(send, bytes(65536))',
    'a length of 4 GiB': `send(frame(${RESULT}, b'', 0xffffffff))`,
    'a length over the limit': `send(frame(${RESULT}, b'', (64 << 20) + 1))`,
    'half a header': "send(b'\\1\\0\\0\\0')",
    'a body that ends early': `send(frame(${RESULT}, b'{', 1000))`,
    'type 0': "send(frame(0, b'{}'))",
    'a cell': 'send(frame(1, b\'{"code": "1/0"}\'))',
    'type 4': "send(frame(4, b'{}'))",
    'type 2^32 - 1': "send(frame(0xffffffff, b'{}'))",
    'the end': 'os.close(control)',
    'something else in its place':
      "os.dup2(os.open('/dev/null', os.O_RDWR), control)",
    'everything closed': 'os.closerange(3, 1024)',
    'the end of sending':
      'import socket; socket.socket(fileno=os.dup(cells)).shutdown(2)',
    'a reader besides the driver':
      'threading.Thread(target=os.read, args=(cells, 65536), daemon=True).start()',
    'a small pipe': 'fcntl.fcntl(control, 1031, 4096)',
  };
  for (const [title, statements] of Object.entries(forgeries)) {
    const result = await forge(sandbox, statements);
    assertFinished(result, title);
    assert.equal(result.stdout, 'end\n', title);
    assert.deepEqual(result.results, [], title);
    assert.equal(result.success, true, title);
    assert.equal(result.error, null, title);
    assertUnharmed(title);
  }
});

test('ATK a DONE of its own does not stand in for how the process ended', async (t) => {
  const sandbox = await open(t);
  const lie = { exitCode: 0, error: null };
  const said = { name: 'Forged', message: 'no', traceback: '', line: 1 };
  const cases = [
    ['a success, then a failure', frame(DONE, lie), 'sys.exit(7)', 7],
    ['a failure, then a success', frame(DONE, { exitCode: 9 }), '', 0],
    ['twice', `${frame(DONE, lie)} * 2`, 'os._exit(3)', 3],
    ['thousands', `${frame(DONE, lie)} * 10000`, '', 0],
    ['an error', frame(DONE, { exitCode: 1, error: said }), '', 0],
    ...[
      '',
      'null',
      '[]',
      '1',
      '"x"',
      '{"exitCode": "0"}',
      '{"exitCode": 256}',
      '{"exitCode": -1}',
      '{"exitCode": 0.5}',
      '{"exitCode": 1e400}',
      '{"exitCode": 0, "error": []}',
      '{"exitCode": 0, "error": {"name": {"toString": 1}}}',
      '{"__proto__": {"exitCode": 0, "polluted": 1}}',
      '{"exitCode": 0, "constructor": {"prototype": {"polluted": 1}}}',
      '{"exitCode": 0',
      '\ud800',
      `${'['.repeat(100_000)}${']'.repeat(100_000)}`,
    ].map((body) => [body.slice(0, 80), frame(DONE, body), 'sys.exit(4)', 4]),
  ];
  for (const [title, sent, ending, exitCode] of cases) {
    const result = await forge(
      sandbox,
      `send(${sent})\nprint('end')\n${ending}`,
    );
    assert.equal(result.exitCode, exitCode, title);
    assert.equal(result.fault, null, title);
    assert.equal(result.success, exitCode === 0, title);
    assert.deepEqual(result.results, [], title);
    assertUnharmed(title);
  }
  const forged = await forge(
    sandbox,
    `send(${frame(DONE, { exitCode: 1, error: said, extra: 1 })})`,
  );
  assert.deepEqual(forged.error, said, 'it may lie about its own exception');
});

test('ATK a RESULT of its own is data or nothing', async (t) => {
  const sandbox = await open(t);
  const nothing = [
    'no JSON',
    '',
    'null',
    '[]',
    '[{"text/plain": "x"}]',
    '"text/plain"',
    '{}',
    '{"text/plain": 1}',
    '{"text/plain": {"toString": "x"}}',
    '{"text/plain": null, "text/html": "x"}',
    '{"__proto__": {"text/plain": "x"}}',
    '{"__proto__": "x", "constructor": "x", "toString": "x", "then": "x"}',
    `{"${'x'.repeat(1 << 20)}/y": "x"}`,
    `${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`,
  ];
  for (const body of nothing) {
    const title = body.slice(0, 80);
    const result = await forge(sandbox, `send(${frame(RESULT, body)})`);
    assertFinished(result, title);
    assert.deepEqual(result.results, [], title);
    assertUnharmed(title);
  }

  const result = await forge(
    sandbox,
    `send(${frame(
      RESULT,
      '{"text/plain": "x", "text/plain": "y", "toString": "z", "image/png": "no base64!", "__proto__": "z"}',
    )})`,
  );
  assertFinished(result);
  const [only] = result.results;
  assert.deepEqual(
    { ...only.data },
    { 'text/plain': 'y', 'image/png': 'no base64!' },
  );
  assert.equal(Object.getPrototypeOf(only.data), Object.prototype);
  assert.ok(Buffer.isBuffer(only.png));
  assert.equal(only.html, undefined);
  assertUnharmed('data');
});

test('ATK results beyond a thousand are dropped, and the result says so', async (t) => {
  const sandbox = await open(t);
  const body = frame(RESULT, { 'text/plain': 'x' });
  for (const [count, kept, truncated] of [
    [1000, 1000, false],
    [1001, 1000, true],
    [100_000, 1000, true],
  ]) {
    const result = await forge(sandbox, `send(${body} * ${count})`);
    assertFinished(result);
    assert.equal(result.results.length, kept);
    assert.equal(result.truncated, truncated);
  }
});

test('ATK floods of frames cost the host neither memory nor time', async (t) => {
  const floods = [
    `frame(${RESULT}, b'x') * 100000`,
    `frame(${RESULT}, b'') * 100000`,
    `frame(${DONE}, b'x') * 100000`,
    `frame(${DONE}, bytes(1 << 20)) * 4`,
  ];
  const sandbox = await open(t);
  const other = await open(t);
  await sandbox.runCode('');
  await other.run(['true']);
  const before = process.memoryUsage.rss();

  const timeoutS = soak ? 60 : 4;
  const running = floods.map((data) => {
    let start;
    const started = new Promise((resolve) => {
      start = resolve;
    });
    const code = `${speak}
data = ${data}
print('begin', flush=True)
while True:
    send(data)`;
    const result = sandbox.runCode(code, { timeoutS, onStdout: start });
    return { started, result };
  });
  await Promise.all(running.map(({ started }) => started));
  // The engine goes on while JavaScript is busy; what it takes has to wait.
  const busyUntil = Date.now() + 1000;
  while (Date.now() < busyUntil);
  const beside = await other.run(['true']);
  assertFinished(beside);
  assert.ok(
    beside.durationMs < 2500 * timeScale,
    `another call: ${beside.durationMs} ms`,
  );

  for (const { result: promise } of running) {
    const result = await promise;
    assert.equal(result.fault?.type, 'timeout');
    assert.equal(result.stdout, 'begin\n');
    assert.deepEqual(result.results, []);
    const late = result.durationMs - timeoutS * 1000;
    assert.ok(late < 2500 * timeScale, `the deadline came ${late} ms late`);
  }
  const grown = process.memoryUsage.rss() - before;
  assert.ok(grown < 64 << 20, `${grown >> 20} MiB`);
});

test('ATK frames that come faster than they can be read hold up neither a deadline nor another call', async (t) => {
  const sandbox = await open(t);
  const other = await open(t);
  await other.run(['true']);
  let start;
  const started = new Promise((resolve) => {
    start = resolve;
  });
  // One write is one piece for the kernel, so frames of several processes stay
  // whole. It ends by itself, should the deadline never come.
  const flooding = sandbox.runCode(
    `${speak}
data = frame(${RESULT}, b'') * 4000
end = time.monotonic() + 10
fork = ctypes.CDLL(None).fork # runs none of the driver's handlers
for i in range(4):
    if fork() == 0:
        break
print('begin', flush=True)
while time.monotonic() < end:
    os.write(control, data)
os._exit(0)`,
    { timeoutS: 2, onStdout: start },
  );
  await started;
  const beside = await other.run(['true']);
  const result = await flooding;
  assertFinished(beside);
  assert.ok(
    beside.durationMs < 4000 * timeScale,
    `another call: ${beside.durationMs} ms`,
  );
  assert.equal(result.fault?.type, 'timeout');
  assert.ok(
    result.durationMs < 6000 * timeScale,
    `ended after ${result.durationMs} ms`,
  );
});

test('ATK large results are kept up to a quarter of a GiB', async (t) => {
  const result = await forge(
    await open(t),
    `
body = frame(${RESULT}, b'{"text/plain": "' + b'x' * (15 << 20) + b'"}')
for i in range(${soak ? 1000 : 30}):
    send(body)`,
  );
  assertFinished(result);
  assert.equal(result.results.length, 17);
  assert.equal(result.truncated, true);
});

test('ATK a flood of results is cut, and its kernel goes on', async (t) => {
  const kernel = await (await open(t)).kernel();
  const statements = `data = frame(${RESULT}, b'') * 100000\nwhile True: send(data)`;
  const flood = await kernel.runCode(`${speak}\n${statements}`, {
    timeoutS: 1,
  });
  assert.equal(flood.fault.type, 'timeout');
  assert.equal(flood.truncated, true);
  assert.equal((await kernel.runCode('6 * 7')).results[0].text, '42');
});

test('ATK a cell that speaks for its kernel ends only itself', async (t) => {
  const sandbox = await open(t);
  for (const [title, statements] of Object.entries({
    'no frame': "attempt(send, b'x' * 65536)\ntime.sleep(1000)",
    'a reply without an exit code': `send(${frame(DONE, '{}')})\ntime.sleep(1000)`,
    'no socket': 'os.close(control)',
  })) {
    const kernel = await sandbox.kernel();
    const result = await kernel
      .runCode(`${speak}\n${statements}`, {
        timeoutS: 2,
      })
      .catch((error) => error);
    assert.notEqual(result.success, true, title);
    assertUnharmed(title);
    await assert.rejects(
      kernel.runCode('1'),
      { code: 'ERR_SANDBOX_KERNEL_DEAD' },
      title,
    );
    await kernel.close();
  }
  const kernel = await sandbox.kernel();
  assert.equal((await kernel.runCode('6 * 7')).results[0].text, '42');
  await kernel.close();
});
