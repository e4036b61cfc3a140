// SPDX-License-Identifier: Apache-2.0
'use strict';

const assert = require('node:assert/strict');
const path = require('node:path');
const { describe, test } = require('node:test');
const { readOptions, version } = require('../../lib/options.js');
const { SandboxError } = require('../../lib/errors.js');

function refusal(place, options) {
  try {
    readOptions(place, options);
  } catch (error) {
    assert.ok(error instanceof SandboxError, error.stack);
    assert.equal(error.code, 'ERR_SANDBOX_INVALID_OPTION');
    return error;
  }
  throw new Error(`accepted ${JSON.stringify(options)}`);
}

function refuses(place, options, message) {
  const error = refusal(place, options);
  assert.match(error.message, message);
  return error;
}

describe('session options', () => {
  const place = 'new Sandbox()';

  test('have the documented defaults', () => {
    const options = readOptions(place);
    assert.deepEqual(
      Object.fromEntries(
        Object.entries(options).filter(([, value]) => value !== undefined),
      ),
      {
        image: 'host',
        spec: null,
        workspace: null,
        mounts: null,
        memoryMb: 512,
        cpus: null,
        pids: 256,
        diskMb: 1024,
        timeoutS: 30,
        env: new Map(),
        maxOutputBytes: 67108864,
        enforceLimits: true,
        trackFiles: true,
        trace: null,
        capDrop: ['ALL'],
        warm: true,
        preload: [],
        runtimes: {},
        onStdout: null,
        onStderr: null,
        onResult: null,
        network: false,
        requireLimits: false,
        depsReadonly: false,
        securityProfile: 'default',
      },
    );
  });

  test('accept both ends of every range and nothing beyond', () => {
    const ranges = {
      timeoutS: [0.001, 31536000],
      memoryMb: [1, 2 ** 31],
      diskMb: [1, 2 ** 31],
      cpus: [0.01, 1024],
      pids: [1, 4194304],
      maxOutputBytes: [0, 536870888],
    };
    for (const [name, [least, most]] of Object.entries(ranges)) {
      for (const value of [least, most]) {
        assert.equal(readOptions(place, { [name]: value })[name], value);
      }
      for (const value of [least - 0.0005, most + 1, Number.NaN, Infinity]) {
        const error = refusal(place, { [name]: value });
        assert.equal(error.option, name);
        assert.equal(error.received, `${value} (number)`);
      }
    }
  });

  test('say what was expected and what was received', () => {
    const error = refusal(place, { timeoutS: '5s' });
    assert.equal(
      error.message,
      'Expected seconds, 0.001–31536000, for timeoutS, received "5s" (string)',
    );
    assert.equal(error.option, 'timeoutS');
    assert.equal(error.expected, 'seconds, 0.001–31536000');
    assert.equal(error.received, '"5s" (string)');
  });

  test('null lifts memoryMb, cpus, pids and diskMb, and nothing else', () => {
    const lifted = { memoryMb: null, cpus: null, pids: null, diskMb: null };
    const options = readOptions(place, lifted);
    for (const name of Object.keys(lifted)) assert.equal(options[name], null);
    for (const name of ['timeoutS', 'maxOutputBytes', 'env', 'trackFiles']) {
      assert.equal(refusal(place, { [name]: null }).option, name);
    }
  });

  test('of a wrong type are refused by name', () => {
    const wrong = {
      memoryMb: [1.5, '512', 10n, true],
      diskMb: [0.5, '1024', 0],
      pids: [0, 1.5, '1'],
      cpus: ['1', []],
      enforceLimits: [1, 'yes'],
      requireLimits: [1, null],
      trackFiles: [0],
      trace: [true, 'all'],
      env: [[], 'A=B', 5],
      onStdout: ['f', 5, {}],
      onResult: ['f', 5, {}],
      workspace: ['', 5, 'a\0b', 'half \ud800 pair'],
      capDrop: ['ALL', [5]],
      runtimes: ['python3', []],
      network: ['no', 'host', 1, null],
      image: [5],
    };
    for (const [name, values] of Object.entries(wrong)) {
      for (const value of values) {
        assert.equal(refusal(place, { [name]: value }).option, name);
      }
    }
  });

  test('a relative workspace means the folder of now', () => {
    const { workspace } = readOptions(place, { workspace: 'w' });
    assert.equal(workspace, path.resolve('w'));
  });

  test('renamed and misspelt names are refused with the right one', () => {
    const meant = {
      timeout: /did you mean timeoutS, in seconds\?/,
      timeoutMs: /did you mean timeoutS, in seconds \(milliseconds \/ 1000\)\?/,
      timeout_s: /did you mean timeoutS\?/,
      TIMEOUTS: /did you mean timeoutS\?/,
      memory: /did you mean memoryMb, in MiB\?/,
      memoryBytes: /did you mean memoryMb, in MiB \(bytes/,
      memroyMb: /did you mean memoryMb\?/,
      envs: /did you mean env\?/,
      evn: /did you mean env\?/,
      workdir: /did you mean workspace\?/,
      maxBuffer: /did you mean maxOutputBytes, in bytes\?/,
      trackfile: /did you mean trackFiles\?/,
      onStdOut: /did you mean onStdout\?/,
      maxMemory: /did you mean memoryMb, in MiB\?/,
      allowNetwork: /did you mean network\?/,
      python: /did you mean runtimes, as in runtimes: \{ python: PATH \}\?/,
      zzz: /^Unknown option "zzz" of new Sandbox\(\)$/,
    };
    for (const [name, message] of Object.entries(meant)) {
      const error = refuses(place, { [name]: 1 }, message);
      assert.equal(error.option, name);
    }
  });

  test('options that would read as empty are refused', () => {
    const empty = [
      [new Map([['env', {}]]), /received a Map$/],
      [new Set(['env']), /received a Set$/],
      [Promise.resolve({ network: true }), /received a promise \(await it\)$/],
      [Buffer.from('{}'), /received bytes$/],
    ];
    for (const [value, message] of empty) {
      refuses(place, value, message);
      refuses(place, { env: value }, message);
      refuses(place, { runtimes: value }, message);
    }
  });

  test('an unknown name is refused even if its value is undefined', () => {
    refuses(place, { timeout: undefined }, /did you mean timeoutS/);
  });

  test('a name of many characters is refused fast and printed short', () => {
    const error = refusal(place, { ['x'.repeat(10 ** 6)]: 1 });
    assert.ok(error.message.length < 200);
  });

  test('an option of another function is sent there', () => {
    refuses(
      place,
      { language: 'node' },
      /language is an option of sandbox\.runCode\(\), not of new Sandbox\(\)/,
    );
    refuses(
      'sandbox.run()',
      { trackFiles: false },
      /trackFiles is an option of new Sandbox\(\), not of sandbox\.run\(\)/,
    );
    refuses(
      'kernel.runCode()',
      { env: {} },
      /env is an option of sandbox\.kernel\(\), not of kernel\.runCode\(\)$/,
    );
  });

  test('an option of another function that is not built is not sent there', () => {
    refuses(
      'sandbox.run()',
      { setup: ['numpy'] },
      /setup is an option of .*, and not built yet there either$/,
    );
  });

  test('what is not built yet is refused by name', () => {
    const later = {
      image: 'python:3.12-slim',
      setup: 'pip install x',
      setupTimeoutS: 60,
      profiles: ['vcpu:heavy'],
      depsReadonly: true,
      securityProfile: 'untrusted',
      seccompProfile: '/x.json',
      apparmor: 'x',
      egressAllow: ['pypi.org'],
      name: 'x',
      persist: true,
      prewarm: 1,
      tmpfs: { '/tmp': '64m' },
      user: 'node',
      workspaceMaxBytes: 5,
    };
    for (const [name, value] of Object.entries(later)) {
      const error = refusal(place, { [name]: value });
      const start = `${name} is not built yet in glovebox ${version}: `;
      assert.ok(error.message.startsWith(start), error.message);
      assert.equal(error.option, name);
    }
  });

  test('a wrong value is not told of one that is not built yet', () => {
    const error = refusal(place, { securityProfile: 'strict' });
    assert.equal(
      error.message,
      'Expected "default", or null for the same, for securityProfile, ' +
        'received "strict" (string)',
    );
  });

  test('what is not built yet is accepted where it asks for nothing', () => {
    readOptions(place, {
      image: 'host',
      setup: null,
      setupTimeoutS: 600,
      profiles: [],
      depsReadonly: false,
      securityProfile: null,
      seccompProfile: null,
      apparmor: undefined,
      preload: [],
      egressAllow: undefined,
      persist: false,
      prewarm: 0,
      user: null,
      capDrop: [],
      warm: false,
    });
  });

  test('are an object', () => {
    for (const options of [null, 5, 'x', [], () => {}]) {
      refuses(place, options, /Expected an object with options of new Sandbox/);
    }
  });

  test('ENV-10 are read once, and only own properties are read', () => {
    let reads = 0;
    const options = {
      get memoryMb() {
        return ++reads === 1 ? 64 : 'changed';
      },
    };
    Object.setPrototypeOf(options, { timeoutS: 'inherited', evil: 1 });
    assert.equal(readOptions(place, options).memoryMb, 64);
    assert.equal(reads, 1);
    readOptions(place, Object.freeze({ pids: 5 }));
    assert.throws(
      () =>
        readOptions(place, {
          get pids() {
            throw new RangeError('mine');
          },
        }),
      RangeError,
    );
  });
});

describe('env', () => {
  const place = 'new Sandbox()';

  test('P25 values arrive unchanged', () => {
    const env = {
      A: 'hello world',
      B: 'l1\nl2',
      C: '$HOME',
      D: ' pad ',
      E: `q"'\\=`,
      F: 'é😀',
      G: '',
    };
    const read = readOptions(place, { env }).env;
    assert.deepEqual(Object.fromEntries(read), env);
    env.A = 'changed later';
    assert.equal(read.get('A'), 'hello world');
  });

  test('P25 ENV-02 what cannot be carried is refused by its name', () => {
    const wrong = [
      [{ A: 'x\0y' }, 'env["A"]', 'a string with a NUL'],
      [{ A: 'x\ud800' }, 'env["A"]', 'a string with an unpaired surrogate'],
      [{ A: 5 }, 'env["A"]', 'a value of type number'],
      [{ A: undefined }, 'env["A"]', 'a value of type undefined'],
      [{ '': 'x' }, 'env[""]', '"" (string)'],
      [{ 'A=B': 'x' }, 'env["A=B"]', '"A=B" (string)'],
      [{ 'A\0': 'x' }, 'env["A\\u0000"]', '"A\\u0000" (string)'],
      [{ A: 'x'.repeat(131072) }, 'env["A"]', '131074 bytes'],
    ];
    for (const [env, option, received] of wrong) {
      const error = refusal(place, { env });
      assert.equal(error.option, option);
      assert.equal(error.received, received);
    }
  });

  test('the longest value that Linux takes is accepted', () => {
    readOptions(place, { env: { A: 'x'.repeat(131069) } });
  });

  test('a value is never printed', () => {
    const error = refusal(place, { env: { KEY: 'secret\0' } });
    assert.doesNotMatch(error.message, /secret/);
  });

  test('KRN-05 "__proto__" is a name like any other', () => {
    const env = JSON.parse('{"__proto__": "x"}');
    assert.deepEqual(
      [...readOptions(place, { env }).env],
      [['__proto__', 'x']],
    );
  });
});

describe('per-call options', () => {
  test('that are left out inherit, a null callback is kept', () => {
    const call = readOptions('sandbox.run()', { onStdout: null });
    assert.equal(call.onStdout, null);
    assert.equal(call.onStderr, undefined);
    assert.equal(call.timeoutS, undefined);
    assert.equal(
      readOptions('sandbox.run()', { timeoutS: null }).timeoutS,
      null,
    );
  });

  test('stdin of cells is refused by name, and where else to put it', () => {
    for (const place of ['sandbox.kernel()', 'kernel.runCode()']) {
      refuses(
        place,
        { stdin: 'x' },
        /cells have no stdin.* a variable or a file/,
      );
      readOptions(place, { stdin: null });
    }
  });

  test('limits may be lifted with null, and are ranges as for the session', () => {
    for (const place of [
      'sandbox.run()',
      'sandbox.runCode()',
      'sandbox.spawn()',
      'sandbox.kernel()',
    ]) {
      const call = readOptions(place, { memoryMb: null, cpus: 0.5, pids: 1 });
      assert.deepEqual([call.memoryMb, call.cpus, call.pids], [null, 0.5, 1]);
      refuses(place, { memoryMb: 0 }, /Expected MiB, a whole number 1–/);
      refuses(place, { cpus: '1' }, /Expected cores, 0\.01–1024, or null/);
      refuses(place, { pids: 1.5 }, /for pids, received 1\.5/);
    }
  });

  test('cwd starts at the workspace, and null is the workspace', () => {
    const read = (cwd) => readOptions('sandbox.run()', { cwd }).cwd;
    assert.equal(read('/tmp'), '/tmp');
    assert.equal(read('a/b'), '/workspace/a/b');
    assert.equal(read(null), null);
    assert.equal(read(undefined), undefined);
    for (const cwd of ['', 'a\0b', '\ud800', 5, 'x'.repeat(4096), ['/tmp']]) {
      refuses('sandbox.run()', { cwd }, /^Expected the path of a folder/);
    }
  });

  test('stdin is text, bytes or a stream of them', () => {
    const { Readable } = require('node:stream');
    for (const stdin of [
      '',
      Buffer.alloc(1),
      new Uint8Array(2),
      Readable.from([]),
      (async function* () {})(),
      new ReadableStream(),
      null,
    ]) {
      assert.equal(readOptions('sandbox.run()', { stdin }).stdin, stdin);
    }
    for (const stdin of [
      5,
      true,
      {},
      [],
      ['a'],
      new Uint16Array(2),
      () => {},
    ]) {
      refuses('sandbox.run()', { stdin }, /^Expected a string, bytes, or a/);
    }
    refuses(
      'sandbox.spawn()',
      { stdin: 'x' },
      /^What spawn\(\) returns has a stdin .*handle\.stdin\.end/,
    );
  });

  test('signal is an AbortSignal', () => {
    const { signal } = new AbortController();
    assert.equal(readOptions('sandbox.run()', { signal }).signal, signal);
    assert.equal(readOptions('sandbox.run()', { signal: null }).signal, null);
    for (const wrong of [new AbortController(), 'SIGTERM', 15, {}]) {
      refuses('sandbox.run()', { signal: wrong }, /^Expected an AbortSignal/);
    }
  });

  test('pty has a size and a TERM', () => {
    const read = (pty) => readOptions('sandbox.spawn()', { pty }).pty;
    const term = 'xterm-256color';
    assert.deepEqual(read({}), { cols: 80, rows: 24, term });
    assert.deepEqual(read({ cols: 1, rows: 65535, term: 'dumb' }), {
      cols: 1,
      rows: 65535,
      term: 'dumb',
    });
    assert.equal(read(null), null);
    refuses('sandbox.spawn()', { pty: { cols: 0 } }, /for cols, received 0/);
    refuses('sandbox.spawn()', { pty: { rows: 65536 } }, /for rows/);
    refuses('sandbox.spawn()', { pty: { columns: 80 } }, /did you mean cols\?/);
    refuses(
      'sandbox.spawn()',
      { pty: true },
      /^Expected an object such as \{ cols: 80, rows: 24 \}, or null for none, for pty, received true/,
    );
  });

  test('P33 a language that does not exist is refused by name', () => {
    const places = ['sandbox.runCode()', 'runCode()'];
    for (const place of places) {
      assert.equal(readOptions(place).language, 'python');
      refuses(
        place,
        { language: 'ruby' },
        /Expected "python", "bash" or "node", for language, received "ruby"/,
      );
      refuses(place, { language: 'javascript' }, /: say "node"$/);
      refuses(place, { language: 'js' }, /: say "node"$/);
      refuses(place, { language: 'sh' }, /: say "bash"$/);
      refuses(place, { language: 'Python' }, /: say "python"$/);
      refuses(place, { language: 'JS' }, /: say "node"$/);
      refuses(place, { language: 'toString' }, /received "toString"/);
    }
  });

  test('a kernel is of any language, and makes checkpoints or none', () => {
    const read = (options) => readOptions('sandbox.kernel()', options);
    assert.equal(read({ language: 'bash' }).language, 'bash');
    assert.equal(read({}).checkpoint, null);
    assert.equal(read({ checkpoint: 'each' }).checkpoint, 'each');
    const wrong = /Expected "each", or null for none but/;
    refuses('sandbox.kernel()', { checkpoint: true }, wrong);
  });

  test('a one-shot takes both kinds, and timeoutS null is the default', () => {
    const options = readOptions('runCode()', {
      language: 'node',
      memoryMb: 64,
      timeoutS: null,
    });
    assert.equal(options.language, 'node');
    assert.equal(options.memoryMb, 64);
    assert.equal(options.timeoutS, null);
  });
});

test('runtimes are absolute paths of known languages', () => {
  const place = 'new Sandbox()';
  assert.deepEqual(
    readOptions(place, { runtimes: { python: '/usr/bin/python3', node: null } })
      .runtimes,
    { python: '/usr/bin/python3' },
  );
  refuses(place, { runtimes: { ruby: '/x' } }, /received the key "ruby"/);
  refuses(place, { runtimes: { python: 'python3' } }, /for runtimes\.python/);
});
