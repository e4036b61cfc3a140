// SPDX-License-Identifier: Apache-2.0
'use strict';

const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const { install, nativeError } = require('./fake-engine.js');

const backend = install();
const { Sandbox, runCode, withSandbox } = require('../../lib/index.js');

const code = (name) => ({ name: 'SandboxError', code: `ERR_SANDBOX_${name}` });
const lastSession = () => backend.engine.sessions.at(-1);

// Every run of the next session ends with `result`.
function nextRunsEnd(result) {
  backend.engine.onSession = (session) => {
    session.onRun = (run) => run.end(result);
  };
}

describe('withSandbox', () => {
  test('gives an open Sandbox, returns the value, closes', async () => {
    let seen;
    const value = await withSandbox({ memoryMb: 64 }, async (sandbox) => {
      seen = sandbox;
      assert.equal(sandbox.workspace, '/tmp/workspace');
      return 5;
    });
    assert.equal(value, 5);
    assert.ok(seen instanceof Sandbox);
    assert.equal(lastSession().closeCount, 1);
    assert.equal(backend.engine.specs.at(-1).memoryBytes, 2 ** 26);
  });

  test('takes the function alone, and a function that is not async', async () => {
    assert.equal(await withSandbox(() => 5), 5);
    assert.equal(await withSandbox(undefined, () => 6), 6);
    assert.equal(lastSession().closeCount, 1);
  });

  test('closes and rejects with what the function throws', async () => {
    const thrown = new Error('mine');
    const failing = withSandbox(() => {
      throw thrown;
    });
    await assert.rejects(failing, (error) => error === thrown);
    assert.equal(lastSession().closeCount, 1);
  });

  test('keeps both errors, the first in front', async () => {
    const thrown = new Error('mine');
    const failing = withSandbox(() => {
      lastSession().closeError = nativeError({ code: 'IO', errno: 5 });
      throw thrown;
    });
    await assert.rejects(failing, (error) => {
      assert.equal(error, thrown);
      assert.equal(error.suppressed.code, 'ERR_SANDBOX_IO');
      return true;
    });
  });

  test('a second error is a warning where the first cannot hold it', async () => {
    const warnings = [];
    const listen = (warning) => warnings.push(warning);
    process.on('warning', listen);
    for (const thrown of ['text', Object.freeze(new Error('frozen'))]) {
      const failing = withSandbox(() => {
        lastSession().closeError = nativeError({ code: 'IO', errno: 5 });
        throw thrown;
      });
      await assert.rejects(failing, (error) => error === thrown);
    }
    await new Promise(setImmediate);
    process.off('warning', listen);
    assert.deepEqual(
      warnings.map((warning) => warning.code),
      ['ERR_SANDBOX_IO', 'ERR_SANDBOX_IO'],
    );
  });

  test('rejects with an error of close alone', async () => {
    const failing = withSandbox(() => {
      lastSession().closeError = nativeError({ code: 'IO', errno: 5 });
    });
    await assert.rejects(failing, code('IO'));
  });

  test('rejects when it cannot open, without calling the function', async () => {
    backend.engine.openError = nativeError({ code: 'START', errno: 2 });
    await assert.rejects(
      withSandbox(() => assert.fail('called')),
      code('START'),
    );
    backend.engine.openError = undefined;
  });

  test('refuses what is no function', async () => {
    for (const args of [[], [{}], [{}, 5], [null, undefined]]) {
      await assert.rejects(withSandbox(...args), {
        ...code('INVALID_OPTION'),
        option: 'fn',
      });
    }
  });
});

describe('runCode', () => {
  test('runs in a sandbox of its own, which it closes', async () => {
    nextRunsEnd({ stdout: Buffer.from('hi\n') });
    const result = await runCode('echo hi', {
      language: 'bash',
      memoryMb: 64,
      timeoutS: 2,
      env: { A: '1' },
    });
    assert.equal(result.stdout, 'hi\n');
    const { spec } = lastSession().runs[0];
    assert.deepEqual(spec.argv.slice(1, 4), ['-c', '--', 'echo hi']);
    assert.equal(spec.timeoutMs, 2000);
    assert.equal(spec.memoryBytes, 2 ** 26);
    assert.ok(spec.env.includes('A=1'));
    assert.equal(lastSession().closeCount, 1);
  });

  test('has defaults, and a timeoutS of null is the default', async () => {
    nextRunsEnd({});
    await runCode('1');
    assert.equal(lastSession().runs[0].spec.timeoutMs, 30000);
    await runCode('1', { timeoutS: null, stdin: null, language: undefined });
    assert.equal(lastSession().runs[0].spec.timeoutMs, 30000);
  });

  test('passes output on', async () => {
    backend.engine.onSession = (session) => {
      session.onRun = (run) => {
        run.emit('stdout', Buffer.from('live'));
        run.end();
      };
    };
    const seen = [];
    await runCode('1', { onStdout: (chunk) => seen.push(String(chunk)) });
    assert.deepEqual(seen, ['live']);
  });

  test('rejects when its session cannot be opened', async () => {
    backend.engine.openError = nativeError({ code: 'START', errno: 2 });
    await assert.rejects(runCode('1'), code('START'));
    backend.engine.openError = nativeError({
      code: 'MOUNT',
      errno: 2,
      op: 'mount',
      detail: '0 cannot be opened: /data',
    });
    await assert.rejects(runCode('1', { mounts: { '/data': '/mnt' } }), {
      ...code('MOUNT'),
      source: '/data',
      target: '/mnt',
    });
    backend.engine.openError = undefined;
  });

  test('rejects with an error of the close alone', async () => {
    backend.engine.onSession = (session) => {
      session.closeError = nativeError({ code: 'IO', errno: 5 });
      session.onRun = (run) => run.end();
    };
    await assert.rejects(runCode('1'), code('IO'));
  });

  test('keeps both errors, the first in front', async () => {
    backend.engine.onSession = (session) => {
      session.closeError = nativeError({ code: 'IO', errno: 5 });
      session.onRun = (run) => run.fail({ code: 'DIED' });
    };
    await assert.rejects(runCode('1'), (error) => {
      assert.equal(error.code, 'ERR_SANDBOX_DIED');
      assert.equal(error.suppressed.code, 'ERR_SANDBOX_IO');
      return true;
    });
  });

  test('a limit that is not the kernel’s is warned of, once', async () => {
    const warnings = [];
    const listen = (warning) => warnings.push(warning.code);
    process.on('warning', listen);
    backend.engine.onSession = (session) => {
      session.info.memory = 'none';
      session.onRun = (run) => run.end();
    };
    await runCode('1', { memoryMb: null });
    await runCode('1', { enforceLimits: false });
    await new Promise(setImmediate);
    assert.deepEqual(warnings, []);
    await runCode('1');
    await runCode('1');
    await new Promise(setImmediate);
    process.off('warning', listen);
    assert.deepEqual(warnings, ['GLOVEBOX_LIMITS']);
  });

  test('an image is described to the engine once', async () => {
    nextRunsEnd({});
    const described = [];
    const { prepareRoot } = backend.engine;
    backend.engine.prepareRoot = (...lists) => {
      described.push(lists);
      return prepareRoot(...lists);
    };
    const image = backend.image;
    backend.image = { ...image };
    for (const options of [undefined, {}, { env: { A: '1' } }]) {
      await runCode('1', options);
    }
    await withSandbox(() => {});
    assert.equal(described.length, 1);
    // These have roots of their own.
    for (const options of [{ warm: false }, { preload: ['json'] }]) {
      await runCode('1', options);
      await runCode('1', options);
    }
    assert.equal(described.length, 1 + 1 + 2);
    backend.image = image;
    delete backend.engine.prepareRoot;
  });

  test('misuse rejects before anything is opened', async () => {
    const before = backend.engine.specs.length;
    for (const args of [
      [],
      [5],
      ['1', { language: 'ruby' }],
      ['1', { timeout: 5 }],
      ['1', { memoryMb: '5' }],
      ['1', { stdin: 5 }],
      ['1', { network: 'host' }],
      ['1', null],
      ['a\0', { language: 'bash' }],
    ]) {
      await assert.rejects(runCode(...args), code('INVALID_OPTION'));
    }
    assert.equal(backend.engine.specs.length, before);
  });

  test('ENV-10 options are read once', async () => {
    nextRunsEnd({});
    let reads = 0;
    await runCode('1', {
      get memoryMb() {
        return ++reads === 1 ? 64 : 'changed';
      },
    });
    assert.equal(reads, 1);
  });
});
