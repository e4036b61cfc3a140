// SPDX-License-Identifier: Apache-2.0
'use strict';

const assert = require('node:assert/strict');
const { inspect } = require('node:util');
const { describe, test } = require('node:test');
const { FrameCollector } = require('../../lib/frames.js');
const { Result } = require('../../lib/result.js');
const { signalName } = require('../../lib/signals.js');
const { endReason, runOutcome } = require('../../lib/outcome.js');
const { cellOutcome } = require('../../lib/kernel/outcome.js');
const { cellResult, runResult } = require('./fake-engine.js');

const limits = {
  timeoutS: 1.5,
  memoryMb: 128,
  cpus: null,
  pids: 32,
  diskMb: 64,
};

function run(native, frames = new FrameCollector()) {
  return runOutcome(runResult(native), frames, limits, ['prog']);
}

describe('Result', () => {
  const png = Buffer.from([0x89, 0x50, 0x4e, 0x47]);
  const result = new Result({
    'text/plain': 't',
    'text/html': '<b>',
    'text/markdown': '#',
    'text/latex': '$x$',
    'image/svg+xml': '<svg/>',
    'application/json': '{"a":1}',
    'application/javascript': 'f()',
    'image/png': png.toString('base64'),
    'application/pdf': 'JVBERg==',
  });

  test('has an accessor for each form', () => {
    assert.equal(result.text, 't');
    assert.equal(result.html, '<b>');
    assert.equal(result.markdown, '#');
    assert.equal(result.latex, '$x$');
    assert.equal(result.svg, '<svg/>');
    assert.equal(result.json, '{"a":1}');
    assert.equal(result.javascript, 'f()');
    assert.deepEqual(result.png, png);
    assert.equal(result.png, result.png);
    assert.equal(result.pdf.toString(), '%PDF');
    assert.equal(result.jpeg, null);
    assert.deepEqual(result.formats(), Object.keys(result.data));
  });

  test('without a form answers undefined, or null for binary ones', () => {
    const empty = new Result({});
    assert.equal(empty.text, undefined);
    assert.equal(empty.json, undefined);
    assert.equal(empty.png, null);
  });

  test('is its data and whether it is the main one in JSON', () => {
    assert.equal(
      JSON.stringify(new Result({ 'text/plain': '5' })),
      '{"data":{"text/plain":"5"},"isMainResult":false}',
    );
  });
});

describe('ExecutionResult', () => {
  test('P01 P02 decodes as a whole and keeps the bytes', () => {
    const bytes = Buffer.from('6f6bfffe00656e640a', 'hex');
    const result = run({ stdout: bytes, stderr: Buffer.from('na\u00efve 🍉') });
    assert.equal(result.stdout, 'ok\uFFFD\uFFFD\u0000end\n');
    assert.equal(result.stderr, 'naïve 🍉');
    assert.equal(result.stdoutBuffer, bytes);
    assert.equal(result.stderrBuffer.toString(), 'naïve 🍉');
  });

  test('OUT-05 keeps a byte order mark', () => {
    const result = run({ stdout: Buffer.from('\ufeffx') });
    assert.equal(result.stdout, '\ufeffx');
  });

  test('P02 short output comes as text, and its bytes are made when asked', () => {
    const text = '\ufeffna\u00efve \u{1f349}\u0000\n';
    const result = run({ stdout: text, stderr: '' });
    assert.equal(result.stdout, text);
    result.stdout = 'changed';
    assert.deepEqual(result.stdoutBuffer, Buffer.from(text));
    assert.equal(result.stdoutBuffer, result.stdoutBuffer);
    assert.equal(result.stderrBuffer.length, 0);
    assert.notEqual(result.stderrBuffer, run({ stderr: '' }).stderrBuffer);
  });

  test('has plain own properties, and no bytes in JSON or console.log', () => {
    const result = run({ stdout: Buffer.from('out') });
    assert.deepEqual(Object.keys(result), [
      'stdout',
      'stderr',
      'exitCode',
      'signal',
      'durationMs',
      'fault',
      'files',
      'deletedFiles',
      'results',
      'truncated',
      'success',
      'error',
      'usage',
      'limits',
    ]);
    assert.equal(JSON.parse(JSON.stringify(result)).success, true);
    assert.deepEqual({ ...result }, structuredClone(result));
    assert.throws(() => {
      result.stdoutBuffer = Buffer.alloc(0);
    }, TypeError);
    assert.doesNotMatch(inspect(result), /Buffer/);
  });

  test('P06 the program has the last word on how it ended', () => {
    assert.equal(run({ exitCode: 3 }).success, false);
    for (const exitCode of [124, 126, 127, 137, 139, 159]) {
      const result = run({ exitCode });
      assert.equal(result.exitCode, exitCode);
      assert.equal(result.signal, null);
      assert.equal(result.fault, null);
    }
    const killed = run({ exitCode: 139, signal: 11 });
    assert.equal(killed.signal, 'SIGSEGV');
    assert.equal(killed.fault, null);
    assert.equal(killed.success, false);
  });

  test('a fault reads the same whichever mechanism killed', () => {
    const endings = {
      timeout: [137, 'SIGKILL'],
      oom: [137, 'SIGKILL'],
      killed: [137, 'SIGKILL'],
      escape_blocked: [159, 'SIGSYS'],
    };
    for (const [fault, [exitCode, signal]] of Object.entries(endings)) {
      const result = run({ fault, exitCode: 0, signal: 0 });
      assert.equal(result.fault.type, fault);
      assert.equal(result.exitCode, exitCode);
      assert.equal(result.signal, signal);
      assert.equal(result.success, false);
    }
  });

  test('a fault names the limit and what to do', () => {
    assert.match(
      run({ fault: 'timeout' }).fault.message,
      /stopped after 1\.5 s \(timeoutS\): raise timeoutS/,
    );
    assert.match(
      run({ fault: 'oom' }).fault.message,
      /exceeded memoryMb 128: raise memoryMb/,
    );
    const outgrown = run({ fault: 'disk' });
    assert.equal(outgrown.fault.type, 'killed');
    assert.match(outgrown.fault.message, /diskMb 64: raise diskMb/);
    assert.equal(outgrown.exitCode, 137);
    assert.equal(outgrown.signal, 'SIGKILL');
    const named = run({ fault: 'escape_blocked', faultSyscall: 'mount' });
    assert.match(named.fault.message, /that the sandbox forbids: mount$/);
    assert.equal(named.fault.syscall, 'mount');
    assert.ok(!('syscall' in run({ fault: 'timeout' }).fault));
    const lifted = { ...limits, memoryMb: null };
    const native = runResult({ fault: 'oom' });
    const result = runOutcome(native, new FrameCollector(), lifted, ['x']);
    assert.equal(result.fault.message, 'ran out of memory');
  });

  test('blocked calls come by count and name, and only if asked for', () => {
    assert.ok(!('blocked' in run({})));
    assert.deepEqual(run({ blocked: [] }).blocked, []);
    const { blocked } = run({
      blocked: [
        { syscall: 'socket', errno: 97, count: 1 },
        { syscall: '', errno: 0, count: 500 },
        { syscall: 'chroot', errno: 1, count: 1 },
        { syscall: '998', errno: 38, count: 7 },
      ],
    });
    assert.deepEqual(blocked, [
      { syscall: '998', errno: 'ENOSYS', count: 7 },
      { syscall: 'chroot', errno: 'EPERM', count: 1 },
      { syscall: 'socket', errno: 'EAFNOSUPPORT', count: 1 },
      { syscall: 'others', errno: null, count: 500 },
    ]);
  });

  test('an exception comes from the driver, the exit code from the process', () => {
    const frames = new FrameCollector();
    const error = { name: 'E', message: 'm', traceback: 't', line: 1 };
    frames.add(3, Buffer.from(JSON.stringify({ exitCode: 1, error })));
    const result = run({ exitCode: 5 }, frames);
    assert.equal(result.exitCode, 5);
    assert.deepEqual(result.error, error);
  });

  test('PRC-17 an argv that cannot be executed is a result', () => {
    const notFound = run({
      exec: { code: 'EXEC', errno: 2, op: 'execve', detail: 'prog' },
      exitCode: 127,
    });
    assert.equal(notFound.exitCode, 127);
    assert.equal(notFound.success, false);
    assert.equal(notFound.fault, null);
    assert.deepEqual(notFound.error, {
      name: 'ENOENT',
      message:
        'cannot execute "prog" in the box: ' +
        'no such file or directory (looked for on PATH)',
      traceback: '',
      line: null,
    });
    // The engine's exit code counts if it is one of the two.
    const exec = { code: 'EXEC', errno: 13, op: 'execve', detail: 'prog' };
    assert.equal(run({ exec, exitCode: 0 }).exitCode, 126);
    assert.equal(run({ exec, exitCode: 126 }).error.name, 'EACCES');
    assert.equal(run({ exec: { ...exec, errno: 2 } }).exitCode, 127);
  });

  test('changed files are sorted into files and deletedFiles, without .deps', () => {
    const file = (path, change, size = 1) => ({
      path: Buffer.from(path),
      size,
      change,
    });
    const result = run({
      files: [
        file('a.txt', 'modified', 5),
        file('日本語 😀.txt', 'created'),
        file('b.txt', 'deleted', 0),
        file('.deps/x.py', 'created'),
        file('.deps', 'created'),
        file('.depsx', 'created'),
        file([0x63, 0xff], 'deleted', 0),
        file('.deps/y.py', 'deleted', 0),
      ],
    });
    assert.deepEqual(result.files, [
      { path: 'a.txt', size: 5, change: 'modified' },
      { path: '日本語 😀.txt', size: 1, change: 'created' },
      { path: '.depsx', size: 1, change: 'created' },
    ]);
    assert.deepEqual(result.deletedFiles, ['b.txt', 'c\ufffd']);
    assert.deepEqual(
      result.deletedFileBuffers.map((name) => name.toString('latin1')),
      ['b.txt', 'c\xff'],
    );
  });

  test('truncated covers both streams, frames and results', () => {
    assert.equal(run({}).truncated, false);
    for (const name of [
      'stdoutTruncated',
      'stderrTruncated',
      'framesTruncated',
      'filesTruncated',
    ]) {
      assert.equal(run({ [name]: true }).truncated, true);
    }
    assert.equal(run({}, { results: [], isTruncated: true }).truncated, true);
  });

  test('usage is in milliseconds and bytes, null where not known', () => {
    assert.deepEqual(run({}).usage, {
      cpuMs: 2,
      cpuUserMs: 1.5,
      cpuSystemMs: 0.5,
      wallMs: 1.5,
      maxMemoryBytes: 4096,
      maxPids: null,
      ioReadBytes: 512,
      ioWriteBytes: 0,
    });
    assert.equal(run({}).durationMs, 1.5);
  });

  test('has the limits of its call, and nothing else of its settings', () => {
    const native = runResult({});
    const settings = { ...limits, env: ['A=secret'], onStdout() {} };
    const result = runOutcome(native, new FrameCollector(), settings, ['x']);
    assert.deepEqual(result.limits, limits);
    const frames = new FrameCollector();
    const cell = cellOutcome(cellResult({}), frames, settings, 'python');
    assert.deepEqual(cell.resultFor('gone').limits, limits);
  });

  test('a SIGKILL from the handle is said to be one', () => {
    const native = runResult({ fault: 'killed', exitCode: 137, signal: 9 });
    const frames = new FrameCollector();
    const message = (settings) =>
      runOutcome(native, frames, settings, ['x']).fault.message;
    assert.match(message({}), /by no limit of the sandbox/);
    assert.match(message({ wasKilled: true }), /by kill\(\) of its handle/);
  });
});

describe('a cell', () => {
  const outcome = (native, language = 'python') => {
    const frames = new FrameCollector();
    const found = cellOutcome(cellResult(native), frames, limits, language);
    return { ...found, result: found.resultFor('gone') };
  };

  test('ends as its DONE frame says', () => {
    const error = { name: 'E', message: 'm', traceback: 't', line: 2 };
    const done = Buffer.from(JSON.stringify({ exitCode: 1, error }));
    const { result, death } = outcome({ done, stdout: Buffer.from('x') });
    assert.equal(death, undefined);
    assert.equal(result.exitCode, 1);
    assert.deepEqual(result.error, error);
    assert.equal(result.stdout, 'x');
    assert.equal(result.fault, null);
  });

  test('has its own usage', () => {
    const { usage } = outcome({}).result;
    assert.equal(usage.cpuMs, 2);
    assert.equal(usage.maxMemoryBytes, 4096);
    assert.equal(usage.wallMs, 1.5);
  });

  test('P14 that hits a limit kills the kernel and says so', () => {
    const { result, death } = outcome({ fault: 'timeout', done: null });
    assert.match(death, /stopped after 1\.5 s/);
    assert.equal(result.exitCode, 137);
    assert.equal(result.fault.type, 'timeout');
    assert.match(result.fault.message, /the kernel and its state are gone/);
  });

  test('KRN-08 without a reply has exit code -1, and a dead kernel', () => {
    const { result, death } = outcome({ done: null });
    assert.match(death, /interpreter ended, or closed its control channel/);
    assert.equal(result.exitCode, -1);
    assert.equal(result.success, false);
    assert.equal(result.fault.type, 'killed');
  });

  test('KRN-01 with a reply that no driver sends, too', () => {
    const done = Buffer.from('{"exitCode":"0"}');
    const { result, death } = outcome({ done });
    assert.match(death, /reply that no driver sends/);
    assert.equal(result.exitCode, -1);
    assert.equal(result.success, false);
  });
});

test('the end of a kernel is explained', () => {
  assert.match(endReason(runResult({ exitCode: 3 }), limits, ['p']), /code 3$/);
  assert.match(
    endReason(runResult({ fault: 'oom' }), limits, ['p']),
    /memoryMb/,
  );
  const exec = { code: 'EXEC', errno: 2, op: 'execve', detail: '' };
  assert.match(endReason(runResult({ exec }), limits, ['p']), /cannot execute/);
});

test('signals have the names that people use', () => {
  assert.equal(signalName(0), null);
  assert.equal(signalName(6), 'SIGABRT');
  assert.equal(signalName(9), 'SIGKILL');
  assert.equal(signalName(31), 'SIGSYS');
  assert.equal(signalName(34), 'SIGRTMIN');
  assert.equal(signalName(37), 'SIGRTMIN+3');
  assert.equal(signalName(99), 'SIG99');
});
