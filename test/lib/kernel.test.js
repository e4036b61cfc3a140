// SPDX-License-Identifier: Apache-2.0
'use strict';

const assert = require('node:assert/strict');
const { getEventListeners } = require('node:events');
const { describe, test } = require('node:test');
const { install, nativeError, settle } = require('./fake-engine.js');

const backend = install();
const { Kernel, Sandbox } = require('../../lib/index.js');

async function openKernel(options, sessionOptions) {
  const sandbox = await new Sandbox(sessionOptions).open();
  const session = backend.engine.sessions.at(-1);
  const kernel = await sandbox.kernel(options);
  return { sandbox, session, kernel, run: session.runs.at(-1) };
}

const code = (name) => ({ name: 'SandboxError', code: `ERR_SANDBOX_${name}` });
const done = (exitCode) => Buffer.from(JSON.stringify({ exitCode }));

describe('starting', () => {
  test('waits for the interpreter, in a box without a deadline', async () => {
    const { sandbox, kernel, run } = await openKernel({ env: { A: '1' } });
    assert.ok(kernel instanceof Kernel);
    assert.equal(run.spec.kernel, true);
    assert.equal(run.spec.control, true);
    assert.equal(run.spec.cell, null);
    assert.equal(run.spec.timeoutMs, 0);
    assert.ok(run.spec.env.includes('A=1'));
    assert.match(run.spec.argv[1], /python\/driver\.py$/);
    await kernel.close();
    await sandbox.close();
  });

  test('that fails rejects kernel() with the reason', async () => {
    const sandbox = await new Sandbox().open();
    const session = backend.engine.sessions.at(-1);
    const failing = async (act) => {
      session.onRun = (run) => {
        run.answersStart = false;
        act(run);
      };
      const opening = sandbox.kernel();
      session.runs.at(-1).answersStart = false;
      await opening;
    };
    await assert.rejects(
      failing((run) => run.fail({ code: 'SETUP', errno: 13, op: 'mount' })),
      { ...code('SETUP'), step: 'mount' },
    );
    await assert.rejects(
      failing((run) =>
        run.end({ exec: { code: 'EXEC', errno: 8, op: 'execve', detail: '' } }),
      ),
      { ...code('KERNEL_DEAD'), message: /cannot execute/ },
    );
    await assert.rejects(
      failing((run) => {
        run.emit('cell', 1, nativeError({ code: 'KERNEL_DEAD' }), null);
        run.end({ exitCode: 3 });
      }),
      { ...code('KERNEL_DEAD'), message: /exit code 3/ },
    );
    await assert.rejects(
      failing((run) =>
        run.emit('cell', 1, null, {
          ...cell({ fault: 'timeout', done: null }),
          stderr: Buffer.from('why\n'),
        }),
      ),
      {
        ...code('KERNEL_DEAD'),
        message: /did not start: stopped after 30 s .*\nwhy$/s,
      },
    );
    await sandbox.close();
  });

  test('is for sandbox.kernel() alone', () => {
    assert.throws(() => new Kernel(), code('INVALID_OPTION'));
  });

  function cell(overrides) {
    return require('./fake-engine.js').cellResult(overrides);
  }
});

describe('cells', () => {
  test('KRN-19 run one after the other, in order', async () => {
    const { sandbox, kernel, run } = await openKernel();
    const results = Promise.all(
      Array.from({ length: 100 }, (_, i) => kernel.runCode(String(i))),
    );
    run.onCell = (cell) =>
      setImmediate(() => {
        assert.equal(run.cells.at(-1), cell, 'one at a time');
        run.emit('frame', 2, Buffer.from(`{"text/plain":"${cell.code}"}`));
        run.answer(cell, { stdout: Buffer.from(cell.code) });
      });
    run.onCell(run.cells[0]);
    const all = await results;
    assert.deepEqual(
      all.map((result) => result.stdout),
      Array.from({ length: 100 }, (_, i) => String(i)),
    );
    assert.deepEqual(
      all.map((result) => result.results.map((one) => one.text).join()),
      all.map((result) => result.stdout),
    );
    await sandbox.close();
  });

  test('have the deadline of the cell, the kernel, or the session', async () => {
    const timeoutOf = async (options, ...rest) => {
      const { sandbox, kernel, run } = await openKernel(...rest);
      run.onCell = (cell) => setImmediate(() => run.answer(cell));
      await kernel.runCode('1', options);
      await sandbox.close();
      return run.cells[0].timeoutMs;
    };
    const session = { timeoutS: 3 };
    assert.equal(
      await timeoutOf({ timeoutS: 1 }, { timeoutS: 2 }, session),
      1000,
    );
    assert.equal(await timeoutOf({}, { timeoutS: 2 }, session), 2000);
    assert.equal(await timeoutOf({ timeoutS: null }, {}, session), 3000);
  });

  test('P07 an exit code ends the cell, not the kernel', async () => {
    const { sandbox, kernel, run } = await openKernel();
    const exits = [1, 3, 1, 0];
    run.onCell = (cell) =>
      setImmediate(() => run.answer(cell, { done: done(exits.shift()) }));
    assert.equal((await kernel.runCode('sys.exit("bad")')).exitCode, 1);
    assert.equal((await kernel.runCode('exit(3)')).exitCode, 3);
    assert.equal((await kernel.runCode('sys.exit(True)')).exitCode, 1);
    assert.equal((await kernel.runCode('a')).success, true);
    await sandbox.close();
  });

  test('P20 get their own output and results only', async () => {
    const { sandbox, kernel, run } = await openKernel();
    const seen = [];
    const first = kernel.runCode('1', { onStdout: (c) => seen.push(`1${c}`) });
    const second = kernel.runCode('2', { onStdout: (c) => seen.push(`2${c}`) });
    run.emit('stdout', Buffer.from('a'));
    run.emit('frame', 2, Buffer.from('{"text/plain":"r"}'));
    run.answer(run.cells[0], { stdout: Buffer.from('a') });
    run.emit('stdout', Buffer.from('b'));
    run.answer(run.cells[1], { stdout: Buffer.from('b') });
    assert.equal((await first).results.length, 1);
    assert.equal((await second).results.length, 0);
    assert.deepEqual(seen, ['1a', '2b']);
    await sandbox.close();
  });

  test('want output only while somebody listens', async () => {
    const { sandbox, kernel, run } = await openKernel({ onStderr: () => {} });
    assert.deepEqual(run.wantOutput, [false, false]);
    const first = kernel.runCode('1', { onStdout: () => {} });
    const second = kernel.runCode('2', { onStderr: null });
    assert.deepEqual(run.wantOutput, [true, true]);
    run.answer(run.cells[0]);
    assert.deepEqual(run.wantOutput, [false, false]);
    run.answer(run.cells[1]);
    await Promise.all([first, second]);
    await sandbox.close();
  });

  test('get what was written since the cell before', async () => {
    const seen = [];
    const { sandbox, kernel, run } = await openKernel({
      onStdout: (chunk) => seen.push(chunk.toString()),
    });
    const first = kernel.runCode('1');
    run.answer(run.cells[0]);
    await first;
    run.emit('stdout', Buffer.from('between'));
    assert.deepEqual(seen, []);
    const second = kernel.runCode('2');
    run.answer(run.cells[1]);
    await second;
    assert.deepEqual(seen, ['between']);
    await sandbox.close();
  });

  test('P04 what a callback throws rejects the cell and keeps the kernel', async () => {
    const { sandbox, kernel, run } = await openKernel();
    const bad = kernel.runCode('1', {
      onStdout() {
        throw new Error('cb');
      },
    });
    bad.catch(() => {});
    run.emit('stdout', Buffer.from('x'));
    run.emit('stdout', Buffer.from('y'));
    assert.deepEqual(run.wantOutput, [false, false]);
    assert.equal(run.isAborted, false);
    run.answer(run.cells[0]);
    await assert.rejects(bad, /^Error: cb$/);
    const good = kernel.runCode('2');
    run.answer(run.cells[1]);
    assert.equal((await good).success, true);
    await sandbox.close();
  });

  test('are refused before they reach the kernel', async () => {
    const { sandbox, kernel, run } = await openKernel();
    for (const [source, options] of [
      [5, {}],
      ['1', { timeoutS: 0 }],
      ['1', { env: {} }],
      ['1', { timeout: 1 }],
      ['1', { stdin: 'x' }],
    ]) {
      await assert.rejects(
        kernel.runCode(source, options),
        code('INVALID_OPTION'),
      );
    }
    assert.equal(run.cells.length, 0);
    await sandbox.close();
  });
});

describe('death', () => {
  test('P14 a timeout resolves its cell and rejects all others at once', async () => {
    const { sandbox, kernel, run } = await openKernel();
    const slow = kernel.runCode('while True: pass', { timeoutS: 1 });
    const waiting = kernel.runCode('2');
    waiting.catch(() => {});
    run.answer(run.cells[0], {
      fault: 'timeout',
      done: null,
      stdout: Buffer.from('before\n'),
    });
    const result = await slow;
    assert.equal(result.fault.type, 'timeout');
    assert.equal(result.exitCode, 137);
    assert.equal(result.signal, 'SIGKILL');
    assert.equal(result.stdout, 'before\n');
    const gone = {
      ...code('KERNEL_DEAD'),
      message: /state is gone: stopped after 1 s \(timeoutS\)/,
    };
    await assert.rejects(waiting, gone);
    await assert.rejects(kernel.runCode('3'), gone);
    assert.equal(run.cells.length, 1);
    await kernel.close();
    await sandbox.close();
  });

  test('KRN-01 a forged reply ends the kernel', async () => {
    const { sandbox, kernel, run } = await openKernel();
    const cell = kernel.runCode('forge()');
    run.answer(run.cells[0], { done: Buffer.from('{"exitCode":0.5}') });
    const result = await cell;
    assert.equal(result.exitCode, -1);
    assert.equal(result.success, false);
    assert.equal(run.isAborted, true);
    await assert.rejects(kernel.runCode('1'), code('KERNEL_DEAD'));
    await sandbox.close();
  });

  test('KRN-08 an interpreter that exits ends its cell with -1', async () => {
    const { sandbox, kernel, run } = await openKernel();
    const cell = kernel.runCode('os._exit(3)');
    run.answer(run.cells[0], { done: null });
    run.end({ exitCode: 3 });
    assert.equal((await cell).exitCode, -1);
    await assert.rejects(kernel.runCode('1'), code('KERNEL_DEAD'));
    await kernel.close();
    await sandbox.close();
  });

  test('while idle is told to the next cell', async () => {
    const { sandbox, kernel, run } = await openKernel();
    run.end({ fault: 'oom' });
    await assert.rejects(kernel.runCode('1'), {
      ...code('KERNEL_DEAD'),
      message: /exceeded memoryMb 512/,
    });
    await sandbox.close();
  });

  test('by a failure of the sandbox rejects the cell with that failure', async () => {
    const { sandbox, kernel, run } = await openKernel();
    const cells = [kernel.runCode('1'), kernel.runCode('2')];
    for (const cell of cells) cell.catch(() => {});
    run.fail({ code: 'DIED', op: 'launcher' });
    await assert.rejects(cells[0], code('DIED'));
    await assert.rejects(cells[1], code('KERNEL_DEAD'));
    await sandbox.close();
  });

  test('just before a cell is sent rejects it with what ended the run', async () => {
    const { sandbox, kernel, run } = await openKernel();
    run.cell = () => {
      throw nativeError({ code: 'KERNEL_DEAD', op: 'cell' });
    };
    const cell = kernel.runCode('1');
    await new Promise(setImmediate);
    assert.ok(run.isAwaited, 'or this process might end before');
    run.fail({ code: 'DIED', op: 'launcher' });
    await assert.rejects(cell, code('DIED'));
    await sandbox.close();
  });

  test('in the middle of a cell keeps this process until it is told', async () => {
    const { sandbox, kernel, run } = await openKernel();
    const cell = kernel.runCode('1');
    await new Promise(setImmediate);
    const { id } = run.cells[0];
    run.emit('cell', id, nativeError({ code: 'KERNEL_DEAD' }), null);
    assert.ok(run.isAwaited);
    run.fail({ code: 'DIED', op: 'launcher' });
    await assert.rejects(cell, code('DIED'));
    await sandbox.close();
  });

  test('KRN-02 by a broken protocol rejects the cell and says so', async () => {
    const { sandbox, kernel, run } = await openKernel();
    const cell = kernel.runCode('1');
    cell.catch(() => {});
    const error = nativeError({ code: 'PROTOCOL', detail: 'length' });
    run.emit('cell', run.cells[0].id, error, null);
    await assert.rejects(cell, code('PROTOCOL'));
    await assert.rejects(kernel.runCode('2'), code('KERNEL_DEAD'));
    run.end();
    await sandbox.close();
  });
});

describe('closing', () => {
  test('KRN-20 is idempotent, rejects what runs and what waits', async () => {
    const { sandbox, kernel, run } = await openKernel();
    const cells = [kernel.runCode('1'), kernel.runCode('2')];
    for (const cell of cells) cell.catch(() => {});
    const first = kernel.close();
    assert.equal(kernel.close(), first);
    await first;
    assert.equal(run.hasEnded, true);
    for (const cell of cells) await assert.rejects(cell, code('CLOSED'));
    await assert.rejects(kernel.runCode('3'), code('CLOSED'));
    await kernel[Symbol.asyncDispose]();
    await sandbox.close();
  });

  test('P32 the sandbox ends a forgotten kernel', async () => {
    const { sandbox, kernel, run } = await openKernel();
    const cells = [kernel.runCode('1'), kernel.runCode('2')];
    for (const cell of cells) cell.catch(() => {});
    await sandbox.close();
    assert.equal(run.hasEnded, true);
    for (const cell of cells) await assert.rejects(cell, code('CLOSED'));
    await assert.rejects(kernel.runCode('3'), code('CLOSED'));
    await kernel.close();
  });

  test('a cell that ends at the same time settles once', async () => {
    const { sandbox, kernel, run } = await openKernel();
    const cell = kernel.runCode('1');
    const closing = kernel.close();
    run.answer(run.cells[0], { stdout: Buffer.from('x') });
    assert.equal((await cell).stdout, 'x');
    await closing;
    await settle();
    await sandbox.close();
  });

  test('an answer after the end of its cell is ignored', async () => {
    const { sandbox, kernel, run } = await openKernel();
    const cell = kernel.runCode('1');
    run.answer(run.cells[0]);
    run.answer(run.cells[0]);
    await cell;
    await kernel.close();
    await sandbox.close();
  });
});

describe('a signal', () => {
  const none = (signal) => getEventListeners(signal, 'abort').length === 0;

  test('has no listener of a kernel once that rejects a cell for its death', async () => {
    for (const kill of [
      (run, controller) => {
        controller.abort();
        const error = nativeError({ code: 'ABORTED' });
        run.emit('cell', run.cells[0].id, error, null);
      },
      (run) => {
        const error = nativeError({ code: 'PROTOCOL', detail: 'length' });
        run.emit('cell', run.cells[0].id, error, null);
      },
      (run) => run.answer(run.cells[0], { fault: 'oom', done: null }),
    ]) {
      const controller = new AbortController();
      const { signal } = controller;
      const { sandbox, kernel, run } = await openKernel({ signal });
      assert.ok(!none(signal));
      const cells = Promise.allSettled([kernel.runCode('1')]);
      kill(run, controller);
      // Its box has not ended yet.
      await cells;
      assert.equal(kernel.isAlive, false);
      assert.ok(none(signal), String(kill));
      await sandbox.close();
    }
  });

  test('that is aborted while a kernel is dead, or between two interpreters, refuses restart()', async () => {
    for (const isDead of [true, false]) {
      const controller = new AbortController();
      const { signal } = controller;
      const { sandbox, session, kernel, run } = await openKernel({ signal });
      const reason = new Error('enough');
      if (isDead) {
        run.end({ exitCode: 3 });
        controller.abort(reason);
      }
      const restarting = kernel.restart();
      restarting.catch(() => {});
      controller.abort(reason);
      const isReason = (error) => error === reason;
      await assert.rejects(restarting, isReason);
      await assert.rejects(kernel.runCode('1'), isReason);
      assert.equal(session.runs.length, 1);
      assert.ok(none(signal));
      await sandbox.close();
    }
  });
});
