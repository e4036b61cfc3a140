// SPDX-License-Identifier: Apache-2.0
'use strict';

// sandbox.spawn(): streams, signals, events, and what belongs to a handle.

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { Readable } = require('node:stream');
const { pipeline } = require('node:stream/promises');
const { text } = require('node:stream/consumers');
const {
  descendants,
  eventually,
  eventuallyGone,
  glovebox,
  open,
  test,
  timeScale,
} = require('../helpers/harness.js');
const { askScript, startScript } = require('../helpers/host-script.js');

const isRunning = (name) =>
  descendants().some((process) => process.name === name);

// ---- Streams ---------------------------------------------------------------

test('what is written to stdin comes back from cat, piece by piece', async (t) => {
  const sandbox = await open(t);
  const cat = sandbox.spawn(['cat']);
  for (const line of ['one\n', 'two\n', 'naïve 🍉\n']) {
    cat.stdin.write(line);
    const [chunk] = await once(cat.stdout, 'data');
    assert.equal(String(chunk), line);
  }
  cat.stdin.end();
  const result = await cat.wait();
  assert.ok(result instanceof glovebox.ExecutionResult);
  assert.equal(result.exitCode, 0);
  assert.equal(result.success, true);
});

test('stdout and stderr are apart, and can be iterated', async (t) => {
  const sandbox = await open(t);
  const child = sandbox.spawn(['sh', '-c', 'echo out; echo err >&2']);
  const [stdout, stderr] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
  ]);
  assert.equal(stdout, 'out\n');
  assert.equal(stderr, 'err\n');
  const result = await child.wait();
  // Somebody else read them.
  assert.equal(result.stdout, '');
  assert.equal(result.stderr, '');
});

test('wait() has the output that nobody else reads', async (t) => {
  const sandbox = await open(t);
  const child = sandbox.spawn(['sh', '-c', 'echo out; echo err >&2; exit 3'], {
    env: { A: '1' },
  });
  const result = await child.wait();
  assert.equal(result.stdout, 'out\n');
  assert.equal(result.stderr, 'err\n');
  assert.equal(result.exitCode, 3);
  assert.equal(await child.wait(), result);
});

test('wait() keeps maxOutputBytes, and the program does not notice', async (t) => {
  const sandbox = await open(t, { maxOutputBytes: 1000 });
  const child = sandbox.spawn(['head', '-c', '3000000', '/dev/zero']);
  const result = await child.wait();
  assert.equal(result.stdoutBuffer.length, 1000);
  assert.equal(result.truncated, true);
  assert.equal(result.exitCode, 0);
});

test('output is there for who comes late', async (t) => {
  const sandbox = await open(t);
  const child = sandbox.spawn(['echo', 'late']);
  await once(child, 'exit');
  assert.equal(await text(child.stdout), 'late\n');
});

test('code can be spawned, with results, files and its stdin', async (t) => {
  const sandbox = await open(t);
  const child = sandbox.spawn({
    code: 'open("made", "w").write(input())\n6 * 7',
  });
  child.stdin.end('typed\n');
  const result = await child.wait();
  assert.equal(result.results[0].text, '42');
  assert.deepEqual(result.files, [
    { path: 'made', size: 5, change: 'created' },
  ]);
  const node = sandbox.spawn({ code: 'console.log(1)', language: 'node' });
  assert.equal((await node.wait()).stdout, '1\n');
  const bash = sandbox.spawn({ code: 'cat; exit 5', language: 'bash' });
  bash.stdin.end('x');
  const { stdout, exitCode } = await bash.wait();
  assert.deepEqual([stdout, exitCode], ['x', 5]);
});

test('onStdout of a process gets what the stream gets', async (t) => {
  const seen = [];
  const sandbox = await open(t, {
    onStdout: (chunk) => seen.push(String(chunk)),
  });
  const child = sandbox.spawn(['echo', 'live']);
  const result = await child.wait();
  assert.deepEqual(seen, ['live\n']);
  assert.equal(result.stdout, 'live\n');
  const quiet = sandbox.spawn(['echo', 'quiet'], { onStdout: null });
  assert.equal((await quiet.wait()).stdout, 'quiet\n');
  assert.equal(seen.length, 1);
  const broken = new Error('of the callback');
  const ended = sandbox.spawn(['sh', '-c', 'echo x; sleep 77'], {
    onStdout() {
      throw broken;
    },
  });
  await assert.rejects(ended.wait(), (error) => error === broken);
});

test('an encoding is for who reads the stream: the result and callbacks have bytes', async (t) => {
  const sandbox = await open(t);
  const bytes = [0xc3, 0x28, 0xff, 0xc3, 0xa9];
  const argv = [
    'printf',
    bytes.map((byte) => `\\${byte.toString(8)}`).join(''),
  ];
  const seen = [];
  for (const onStdout of [null, (chunk) => seen.push(chunk)]) {
    const child = sandbox.spawn(argv, { onStdout });
    child.stdout.setEncoding('utf8');
    const { stdoutBuffer, stdout } = await child.wait();
    assert.deepEqual([...stdoutBuffer], bytes);
    assert.equal(stdout, '\ufffd(\ufffdé');
  }
  assert.deepEqual([...Buffer.concat(seen)], bytes);
});

test('what a reader does to a chunk does not change the result', async (t) => {
  const sandbox = await open(t);
  const onStdout = (chunk) => chunk.fill('x');
  const argv = ['echo', 'one'];
  const child = sandbox.spawn(argv, { onStdout });
  child.stdout.on('data', onStdout);
  assert.equal((await child.wait()).stdout, 'one\n');
  const { stdout } = await sandbox.run(argv, { onStdout });
  assert.equal(stdout, 'one\n');
});

test('a program whose output nobody reads waits, and goes on when it is read', async (t) => {
  const sandbox = await open(t);
  const total = 8 * 2 ** 20;
  const child = sandbox.spawn([
    'sh',
    '-c',
    `head -c ${total} /dev/zero; echo written > done`,
  ]);
  await once(child, 'spawn');
  // It fills its pipe, and then nothing happens.
  await new Promise((resolve) => setTimeout(resolve, 300));
  assert.deepEqual(await sandbox.listFiles(), []);
  assert.ok(child.stdout.readableLength <= 2 ** 18);
  let size = 0;
  for await (const chunk of child.stdout) size += chunk.length;
  assert.equal(size, total);
  const { exitCode, files } = await child.wait();
  assert.equal(exitCode, 0);
  assert.deepEqual(
    files.map((file) => file.path),
    ['done'],
  );
});

test('a program that writes for ever does not keep others from their turn', async (t) => {
  const sandbox = await open(t);
  const yes = sandbox.spawn(['yes']);
  let size = 0;
  yes.stdout.on('data', (chunk) => {
    size += chunk.length;
  });
  await once(yes.stdout, 'data');
  let ticks = 0;
  await new Promise((resolve) => {
    const interval = setInterval(() => {
      if (++ticks < 20 || size < 2 ** 20) return;
      clearInterval(interval);
      resolve();
    }, 5);
  });
  yes.kill();
  const { signal } = await yes.wait();
  assert.equal(signal, 'SIGTERM');
});

test('a stream that is destroyed is SIGPIPE for who writes to it', async (t) => {
  const sandbox = await open(t);
  const yes = sandbox.spawn(['yes']);
  for await (const chunk of yes.stdout) {
    assert.equal(String(chunk.subarray(0, 2)), 'y\n');
    break;
  }
  const result = await yes.wait();
  assert.equal(result.signal, 'SIGPIPE');
  assert.equal(yes.signalCode, 'SIGPIPE');
});

test("a program that closes its stdin destroys the handle's, silently", async (t) => {
  const sandbox = await open(t);
  const child = sandbox.spawn(['sh', '-c', 'exec <&-; sleep 77']);
  await once(child, 'spawn');
  const closed = once(child.stdin, 'close');
  const interval = setInterval(() => child.stdin.write('x'.repeat(65536)), 20);
  await closed;
  clearInterval(interval);
  child.kill('SIGKILL');
  await child.wait();
});

test('a write that nobody reads is told so by its callback, not by an error', async (t) => {
  const sandbox = await open(t);
  const child = sandbox.spawn(['head', '-c', '3']);
  child.stdin.on('error', assert.fail);
  const big = Buffer.alloc(2 ** 22, 'x');
  const callback = new Promise((resolve) => child.stdin.write(big, resolve));
  const { code, syscall, errno } = await callback;
  assert.deepEqual([code, syscall, errno], ['EPIPE', 'write', -32]);
  assert.equal((await child.wait()).stdout, 'xxx');
  const another = sandbox.spawn(['head', '-c', '3']);
  const endless = Readable.from(
    (async function* () {
      for (;;) yield big;
    })(),
  );
  await assert.rejects(pipeline(endless, another.stdin), { code: 'EPIPE' });
  await another.wait();
});

test('destroy() of stdin gives up what is being written, and is its end', async (t) => {
  const sandbox = await open(t);
  const child = sandbox.spawn([
    ...['sh', '-c', 'echo up; until [ -e go ]; do sleep 0.01; done; wc -c'],
  ]);
  await once(child.stdout, 'data');
  const callback = new Promise((resolve) =>
    child.stdin.write(Buffer.alloc(2 ** 22), resolve),
  );
  child.stdin.destroy();
  assert.equal((await callback).code, 'EPIPE');
  await sandbox.writeFile('go', '');
  const [size] = await once(child.stdout, 'data');
  assert.ok(Number(size) < 2 ** 22);
  assert.equal((await child.wait()).exitCode, 0);
});

test('a pipeline through a program works', async (t) => {
  const sandbox = await open(t);
  const child = sandbox.spawn(['tr', 'a-z', 'A-Z']);
  const lines = Array.from({ length: 20000 }, (_, i) => `line ${i}\n`);
  const [, upper] = await Promise.all([
    pipeline(Readable.from(lines), child.stdin),
    text(child.stdout),
  ]);
  assert.equal(upper, lines.join('').toUpperCase());
});

test('1 GiB goes through stdin and stdout, and this process stays below 150 MB', async (t) => {
  const answer = await askScript(t, 'gigabyte.js');
  assert.equal(answer.size, 2 ** 30);
  assert.equal(answer.exitCode, 0);
  assert.ok(answer.maxRssMb < 150, `${answer.maxRssMb} MB`);
});

// ---- Signals ---------------------------------------------------------------

const traps = `trap 'echo caught $0' USR1 TERM RTMIN+3
echo ready
while :; do sleep 0.05; done`;

test('kill() sends any signal, by name or number', async (t) => {
  const sandbox = await open(t);
  for (const signal of ['SIGUSR1', 10, 'SIGTERM', undefined, 'SIGRTMIN+3']) {
    const child = sandbox.spawn(['bash', '-c', traps]);
    await once(child.stdout, 'data');
    assert.equal(child.killed, false);
    assert.equal(child.kill(signal), true);
    assert.equal(child.killed, true);
    const [chunk] = await once(child.stdout, 'data');
    assert.equal(String(chunk), 'caught bash\n');
    assert.equal(child.exitCode, null);
    child.kill('SIGKILL');
    const result = await child.wait();
    assert.equal(result.exitCode, 137);
    assert.equal(result.signal, 'SIGKILL');
    assert.equal(result.fault.type, 'killed');
    assert.match(result.fault.message, /kill\(\) of its handle/);
    assert.equal(child.signalCode, 'SIGKILL');
    assert.equal(child.kill(), false, 'it has ended');
  }
});

test('a signal that comes before the program ends it all the same', async (t) => {
  const sandbox = await open(t);
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGKILL', 'SIGUSR2']) {
    const child = sandbox.spawn(['sleep', '77']);
    assert.equal(child.pid, undefined);
    assert.equal(child.kill(signal), true);
    const result = await child.wait();
    assert.equal(result.signal, signal);
    assert.equal(child.signalCode, signal);
  }
});

test('SIGSTOP holds a process and SIGCONT lets it go on', async (t) => {
  const sandbox = await open(t);
  const child = sandbox.spawn(['cat']);
  await once(child, 'spawn');
  child.stdin.write('a');
  await once(child.stdout, 'data');
  child.kill('SIGSTOP');
  await eventually(
    () =>
      descendants().some(({ name, state }) => name === 'cat' && state === 'T'),
    'cat is stopped',
  );
  child.stdin.write('b');
  child.kill('SIGCONT');
  const [chunk] = await once(child.stdout, 'data');
  assert.equal(String(chunk), 'b');
  child.stdin.end();
  assert.equal((await child.wait()).exitCode, 0);
});

test('kill() refuses what is no signal, and 0 sends none', async (t) => {
  const sandbox = await open(t);
  const child = sandbox.spawn(['cat']);
  for (const signal of [
    'TERM',
    'SIGNOPE',
    -1,
    65,
    1.5,
    null,
    {},
    '__proto__',
  ]) {
    assert.throws(() => child.kill(signal), {
      code: 'ERR_SANDBOX_INVALID_OPTION',
    });
  }
  assert.equal(child.kill(0), true);
  assert.equal(child.killed, false);
  child.stdin.end();
  await child.wait();
  assert.equal(child.kill(0), false);
});

// ---- Life ------------------------------------------------------------------

test('pid is the number that the process has in its box', async (t) => {
  const sandbox = await open(t);
  const child = sandbox.spawn(['sh', '-c', 'echo $$']);
  assert.equal(child.pid, undefined);
  await once(child, 'spawn');
  const { stdout } = await child.wait();
  assert.equal(stdout, `${child.pid}\n`);
});

test('events come in order: spawn, exit, close', async (t) => {
  const sandbox = await open(t);
  const child = sandbox.spawn(['sh', '-c', 'echo x; exit 4']);
  const events = [];
  for (const name of ['spawn', 'exit', 'close']) {
    child.on(name, (...ending) => events.push([name, ...ending]));
  }
  child.stdout.resume();
  child.stderr.resume();
  await once(child, 'close');
  assert.deepEqual(events, [['spawn'], ['exit', 4, null], ['close', 4, null]]);
  assert.equal(child.exitCode, 4);
  assert.equal(child.signalCode, null);
});

test('an error comes before exit, so that who awaits that gets it', async (t) => {
  const sandbox = await open(t);
  const controller = new AbortController();
  const { signal } = controller;
  const child = sandbox.spawn(['sleep', '77'], { signal });
  const events = [];
  for (const name of ['spawn', 'error', 'exit', 'close']) {
    child.on(name, () => events.push(name));
  }
  await once(child, 'spawn');
  const closed = new Promise((resolve) => child.on('close', resolve));
  const exited = once(child, 'exit');
  const reason = new Error('enough');
  controller.abort(reason);
  await assert.rejects(exited, (error) => error === reason);
  await closed;
  assert.deepEqual(events, ['spawn', 'error', 'exit', 'close']);
  const unstarted = sandbox.spawn(['true'], { cwd: 'missing' });
  await assert.rejects(once(unstarted, 'exit'), { code: 'ERR_SANDBOX_SETUP' });
});

test("'close' does not wait for a stream that nobody reads, and its output is kept", async (t) => {
  const sandbox = await open(t);
  const child = sandbox.spawn(['sh', '-c', 'echo out; echo err >&2']);
  child.stdout.resume();
  // Else a lost event would end this program with nothing left to wait for.
  const deadline = setTimeout(() => {}, 20_000 * timeScale);
  const [exitCode] = await once(child, 'close', {
    signal: AbortSignal.timeout(10_000 * timeScale),
  });
  clearTimeout(deadline);
  assert.equal(exitCode, 0);
  assert.equal((await child.wait()).stderr, 'err\n');
});

test('a program that cannot be executed is a result, as with run()', async (t) => {
  const sandbox = await open(t);
  const child = sandbox.spawn(['no-such-program']);
  const result = await child.wait();
  assert.equal(result.exitCode, 127);
  assert.equal(result.error.name, 'ENOENT');
  assert.equal(child.exitCode, 127);
});

test('timeoutS holds for a process', async (t) => {
  const sandbox = await open(t);
  const child = sandbox.spawn(['sleep', '77'], { timeoutS: 0.3 });
  const result = await child.wait();
  assert.equal(result.fault.type, 'timeout');
  assert.equal(child.signalCode, 'SIGKILL');
});

test('background work ends with its process', async (t) => {
  const sandbox = await open(t);
  const child = sandbox.spawn(['sh', '-c', 'sleep 77 & echo started']);
  const result = await child.wait();
  assert.equal(result.stdout, 'started\n');
  assert.ok(!isRunning('sleep'));
});

test('close() ends processes; wait() rejects, and nothing is uncaught', async (t) => {
  const sandbox = await open(t);
  const child = sandbox.spawn(['sh', '-c', 'echo x; exec sleep 77']);
  await once(child.stdout, 'data');
  const silent = sandbox.spawn(['sleep', '77']);
  const reading = text(sandbox.spawn(['sleep', '77']).stdout);
  const errors = [];
  child.on('error', (error) => errors.push(error.code));
  const cut = assert.rejects(reading);
  const closes = [child, silent].map(
    // once() would listen for errors.
    (one) => new Promise((resolve) => one.on('close', resolve)),
  );
  await sandbox.close();
  await assert.rejects(child.wait(), { code: 'ERR_SANDBOX_CLOSED' });
  await assert.rejects(silent.wait(), { code: 'ERR_SANDBOX_CLOSED' });
  await cut;
  await Promise.all(closes);
  assert.deepEqual(errors, ['ERR_SANDBOX_CLOSED']);
  assert.ok(!isRunning('sleep'));
  assert.throws(() => sandbox.spawn(['true']), { code: 'ERR_SANDBOX_CLOSED' });
});

test('await using, and asyncDispose by hand, end a process', async (t) => {
  const sandbox = await open(t);
  const child = sandbox.spawn(['sleep', '77']);
  await child[Symbol.asyncDispose]();
  assert.ok(!isRunning('sleep'));
  await assert.rejects(child.wait(), { code: 'ERR_SANDBOX_ABORTED' });
  await child[Symbol.asyncDispose]();
  const ended = sandbox.spawn(['true']);
  await ended.wait();
  await ended[Symbol.asyncDispose]();
  assert.equal((await ended.wait()).exitCode, 0);
});

test('unref() lets this program end, and the process with it', async (t) => {
  const script = startScript(t, 'unref.js');
  const { pid } = JSON.parse(await script.line());
  assert.equal(pid, 2);
  const started = Date.now();
  const listed = descendants(script.child.pid);
  const { exitCode, stderr } = await script.ended;
  assert.equal(exitCode, 0, stderr);
  assert.ok(Date.now() - started < 15000 * timeScale);
  await eventuallyGone(listed);
});

test('wrong commands and options throw before anything starts', async (t) => {
  const sandbox = await open(t);
  for (const args of [
    [],
    ['ls -la'],
    [[]],
    [[5]],
    [{}],
    [{ code: 5 }],
    [{ code: '1', language: 'ruby' }],
    [{ code: '1', langauge: 'node' }],
    [['ls'], { stdin: 'x' }],
    [['ls'], { stdio: 'pipe' }],
    [['ls'], { pty: { columns: 5 } }],
  ]) {
    assert.throws(() => sandbox.spawn(...args), {
      code: 'ERR_SANDBOX_INVALID_OPTION',
    });
  }
  assert.throws(() => new glovebox.SandboxProcess(), {
    code: 'ERR_SANDBOX_INVALID_OPTION',
  });
  assert.throws(() => new glovebox.Sandbox().spawn(['ls']), {
    code: 'ERR_SANDBOX_NOT_OPEN',
  });
});
