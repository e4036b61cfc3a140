// SPDX-License-Identifier: Apache-2.0
'use strict';

const assert = require('node:assert/strict');
const os = require('node:os');
const { describe, test } = require('node:test');
const {
  defaultImage,
  install,
  nativeError,
  settle,
} = require('./fake-engine.js');

const backend = install();
const { Sandbox, SandboxError, MountRefused } = require('../../lib/index.js');

async function open(options) {
  const sandbox = await new Sandbox(options).open();
  return { sandbox, session: backend.engine.sessions.at(-1) };
}

// Starts a call, lets its run end with `result`, and gives both.
async function call(session, start, result) {
  session.onRun = (run) => run.end(result);
  return { result: await start(), run: session.runs.at(-1) };
}

const code = (name) => ({ name: 'SandboxError', code: `ERR_SANDBOX_${name}` });

describe('life cycle', () => {
  test('open resolves with the Sandbox, again and again', async () => {
    const sandbox = new Sandbox();
    const first = sandbox.open();
    assert.equal(sandbox.open(), first);
    assert.equal(await first, sandbox);
    assert.equal(await sandbox.open(), sandbox);
    await sandbox.close();
  });

  test('before open every method rejects ERR_SANDBOX_NOT_OPEN', async () => {
    const sandbox = new Sandbox();
    for (const start of methods(sandbox)) {
      await assert.rejects(start, code('NOT_OPEN'));
    }
    assert.throws(() => sandbox.workspace, code('NOT_OPEN'));
    assert.throws(() => sandbox.limits, code('NOT_OPEN'));
  });

  test('after close every method rejects ERR_SANDBOX_CLOSED', async () => {
    const { sandbox } = await open();
    await sandbox.close();
    for (const start of [...methods(sandbox), () => sandbox.open()]) {
      await assert.rejects(start, code('CLOSED'));
    }
    assert.equal(sandbox.workspace, '/tmp/workspace');
  });

  test('close is idempotent and shared by concurrent callers', async () => {
    const { sandbox, session } = await open();
    const first = sandbox.close();
    assert.equal(sandbox.close(), first);
    await Promise.all([first, sandbox.close(), sandbox[Symbol.asyncDispose]()]);
    assert.equal(session.closeCount, 1);
  });

  test('close before open makes open reject', async () => {
    const sandbox = new Sandbox();
    await sandbox.close();
    await assert.rejects(sandbox.open(), code('CLOSED'));
  });

  test('close while opening closes what was opened', async () => {
    let release;
    backend.engine.openGate = new Promise((resolve) => {
      release = resolve;
    });
    const before = backend.engine.sessions.length;
    const sandbox = new Sandbox();
    const opening = sandbox.open();
    await settle();
    const closing = sandbox.close();
    release();
    backend.engine.openGate = undefined;
    await assert.rejects(opening, code('CLOSED'));
    await closing;
    assert.equal(backend.engine.sessions.length, before + 1);
    assert.equal(backend.engine.sessions.at(-1).closeCount, 1);
  });

  test('close at once after open starts nothing', async () => {
    const before = backend.engine.sessions.length;
    const sandbox = new Sandbox();
    const opening = sandbox.open();
    const closing = sandbox.close();
    await assert.rejects(opening, code('CLOSED'));
    await closing;
    assert.equal(backend.engine.sessions.length, before);
  });

  test('CON-05 close rejects the calls that run', async () => {
    const { sandbox } = await open();
    const calls = [sandbox.run(['sleep', '9']), sandbox.runCode('1')];
    await settle();
    await sandbox.close();
    for (const running of calls) await assert.rejects(running, code('CLOSED'));
  });

  test('an open that fails can be tried again', async () => {
    backend.engine.openError = nativeError({
      code: 'SETUP',
      errno: 28,
      op: 'clone3',
    });
    const sandbox = new Sandbox();
    await assert.rejects(sandbox.open(), {
      ...code('SETUP'),
      step: 'clone3',
      errno: 'ENOSPC',
      message: /user\.max_user_namespaces/,
    });
    backend.engine.openError = undefined;
    assert.equal(await sandbox.open(), sandbox);
    await sandbox.close();
  });

  test('a failure of close is a SandboxError', async () => {
    const { sandbox, session } = await open();
    session.closeError = nativeError({ code: 'IO', errno: 5, op: 'unlinkat' });
    await assert.rejects(sandbox.close(), code('IO'));
  });

  function methods(sandbox) {
    return [
      () => sandbox.runCode('1'),
      () => sandbox.run(['true']),
      () => sandbox.kernel(),
      () => sandbox.writeFile('a', 'b'),
      () => sandbox.readFile('a'),
      () => sandbox.listFiles(),
    ];
  }
});

test('the session gets limits in its own units, and 0 for lifted ones', async () => {
  const { sandbox } = await open({
    memoryMb: 128,
    cpus: 0.5,
    pids: null,
    workspace: '/srv/w',
    runtimes: { python: '/usr/bin/python3' },
  });
  const { standbys, ...spec } = backend.engine.specs.at(-1);
  assert.deepEqual(
    standbys.map(({ runtime, argv }) => [runtime, argv[0]]),
    [
      ['python', '/opt/python/bin/python3'],
      ['node', '/usr/bin/node'],
      ['zygote', '/opt/python/bin/python3'],
    ],
  );
  assert.deepEqual(spec, {
    version: 1,
    entries: defaultImage.entries,
    workspace: '/srv/w',
    tempDir: os.tmpdir(),
    mounts: [],
    memoryBytes: 134217728,
    pids: 0,
    cpuMillis: 500,
    diskBytes: 1073741824,
    enforceLimits: true,
    network: false,
  });
  assert.deepEqual(backend.prepared.at(-1), { python: '/usr/bin/python3' });
  await sandbox.close();
});

describe('what a call gets', () => {
  test('a program: argv, whole environment, limits', async () => {
    const { sandbox, session } = await open({
      env: { A: '1', B: '1' },
      timeoutS: 2.5,
      maxOutputBytes: 10,
      trackFiles: false,
    });
    const { run } = await call(session, () =>
      sandbox.run(['echo', 'a b'], { env: { B: '2', PATH: '/x' } }),
    );
    assert.deepEqual(run.spec, {
      version: 1,
      argv: ['echo', 'a b'],
      env: [
        'PATH=/x',
        'HOME=/home/user',
        'USER=user',
        'LOGNAME=user',
        'LANG=C.UTF-8',
        'A=1',
        'B=2',
      ],
      cwd: '/workspace',
      timeoutMs: 2500,
      maxOutputBytes: 10,
      memoryBytes: 536870912,
      pids: 256,
      cpuMillis: 0,
      control: false,
      standby: null,
      warm: true,
      kernel: false,
      cell: null,
      script: null,
      trackFiles: false,
      trace: false,
      input: false,
      firstInput: null,
      inputEnds: false,
      stream: false,
      pty: null,
      wantOutput: [false, false],
      handle: false,
    });
    await sandbox.close();
  });

  test('a call without options is as one with all of the defaults', async () => {
    const { sandbox, session } = await open({ env: { A: '1' }, timeoutS: 3 });
    const python = () => sandbox.runCode('1');
    const sources = [
      [python, () => sandbox.runCode('1', {})],
      [() => sandbox.run(['x', 'y']), () => sandbox.run(['x', 'y'], {})],
      [
        () => sandbox.runCode('1', { language: 'bash' }),
        () => sandbox.run(['/usr/bin/bash', '-c', '--', '1', 'bash']),
      ],
    ];
    for (const [start, same] of sources) {
      const first = await call(session, start);
      // What one call asks for is not the next one's.
      await call(session, () =>
        sandbox.runCode('1', {
          timeoutS: 9,
          env: { B: '2' },
          stdin: 'in',
          onStdout: () => {},
        }),
      );
      const second = await call(session, start);
      assert.deepEqual(second.run.spec, first.run.spec);
      assert.deepEqual((await call(session, same)).run.spec, first.run.spec);
    }
    const { run } = await call(session, python);
    assert.deepEqual(run.spec.env.at(-1), 'A=1');
    assert.equal(run.spec.standby, 'python');
    await sandbox.close();
  });

  test("the runtimes' folders come first on PATH", async () => {
    const { sandbox, session } = await open();
    const { run } = await call(session, () => sandbox.run(['true']));
    assert.equal(
      run.spec.env[0],
      'PATH=/opt/python/bin:/usr/local/sbin:/usr/local/bin:' +
        '/usr/sbin:/usr/bin:/sbin:/bin',
    );
    await sandbox.close();
  });

  test('python and node: their driver, and the code as one cell', async () => {
    const { sandbox, session } = await open();
    const source = 'print("é\ud800\0")';
    const python = await call(session, () => sandbox.runCode(source));
    assert.deepEqual(python.run.spec.argv, [
      '/opt/python/bin/python3',
      '/run/glovebox/runtimes/python/driver.py',
    ]);
    assert.equal(python.run.spec.control, true);
    assert.equal(python.run.spec.script, null);
    assert.deepEqual(JSON.parse(python.run.spec.cell), { code: source });

    const node = await call(session, () =>
      sandbox.runCode(source, { language: 'node' }),
    );
    assert.equal(node.run.spec.argv[0], '/usr/bin/node');
    assert.equal(node.run.spec.control, true);
    assert.deepEqual(JSON.parse(node.run.spec.cell), { code: source });
    await sandbox.close();
  });

  test('P30 bash: an argument, or a script where it is too long', async () => {
    const { sandbox, session } = await open();
    const specOf = async (source) => {
      const start = () => sandbox.runCode(source, { language: 'bash' });
      return (await call(session, start)).run.spec;
    };
    const short = await specOf('echo hi');
    assert.deepEqual(short.argv, [
      '/usr/bin/bash',
      '-c',
      '--',
      'echo hi',
      'bash',
    ]);
    assert.equal(short.control, false);
    assert.equal(short.cell, null);
    assert.equal(short.script, null);

    const border = await specOf('x'.repeat(131071));
    assert.equal(border.argv[3].length, 131071);
    assert.equal(border.script, null);
    for (const source of ['x'.repeat(131072), 'é'.repeat(65536)]) {
      const long = await specOf(source);
      assert.equal(long.argv[3], 'eval -- "$(</dev/fd/3)" 3<&-');
      assert.equal(long.script.toString(), source);
    }
    await sandbox.close();
  });

  test('a timeout of null inherits, the shortest is 1 ms', async () => {
    const { sandbox, session } = await open({ timeoutS: 7 });
    const timeoutOf = async (timeoutS) =>
      (await call(session, () => sandbox.run(['x'], { timeoutS }))).run.spec
        .timeoutMs;
    assert.equal(await timeoutOf(null), 7000);
    assert.equal(await timeoutOf(undefined), 7000);
    assert.equal(await timeoutOf(0.001), 1);
    // ENV-07: more than a timer of 32 bits holds.
    assert.equal(await timeoutOf(31536000), 31536000000);
    await sandbox.close();
  });

  test('limits that are named in a message are those of the call', async () => {
    const { sandbox, session } = await open({ timeoutS: 7, memoryMb: 64 });
    const late = await call(
      session,
      () => sandbox.run(['x'], { timeoutS: 1 }),
      {
        fault: 'timeout',
      },
    );
    assert.match(late.result.fault.message, /stopped after 1 s/);
    const full = await call(session, () => sandbox.run(['x']), {
      fault: 'oom',
    });
    assert.match(full.result.fault.message, /memoryMb 64/);
    await sandbox.close();
  });
});

describe('misuse', () => {
  test('ENV-01 argv is refused by the item that is wrong', async () => {
    const { sandbox, session } = await open();
    const wrong = [
      ['echo hi', /argv, received "echo hi" \(string\): for a line of shell/],
      [[], /for argv, received an empty array/],
      [undefined, /for argv, received undefined/],
      [{ length: 1, 0: 'x' }, /for argv, received an object/],
      [[''], /for argv\[0\]/],
      [['a\0b'], /for argv\[0\], received "a\\u0000b"/],
      [['a', 5], /for argv\[1\], received 5 \(number\)/],
      [['a', '\udfff'], /for argv\[1\]/],
      [Array(2), /for argv\[0\], received undefined/],
      [['a', 'x'.repeat(131072)], /for argv\[1\], received 131072 bytes/],
    ];
    for (const [argv, message] of wrong) {
      await assert.rejects(sandbox.run(argv), {
        ...code('INVALID_OPTION'),
        message,
      });
    }
    // As with child_process.
    for (const method of ['run', 'spawn']) {
      await assert.rejects(async () => sandbox[method]('ls', ['-l']), {
        ...code('INVALID_OPTION'),
        message:
          /^Expected an array of strings .* received "ls" \(string\): for/,
      });
    }
    assert.equal(session.runs.length, 0);
    await sandbox.close();
  });

  test('ENV-10 argv is copied', async () => {
    const { sandbox, session } = await open();
    const argv = ['true'];
    const running = sandbox.run(argv);
    argv[0] = 'changed';
    await settle();
    assert.deepEqual(session.runs[0].spec.argv, ['true']);
    session.runs[0].end();
    await running;
    await sandbox.close();
  });

  test('ENV-11 code is a string, of a length that a frame can hold', async () => {
    const { sandbox, session } = await open();
    for (const source of [undefined, null, 5, Buffer.from('1'), ['1']]) {
      await assert.rejects(sandbox.runCode(source), {
        ...code('INVALID_OPTION'),
        message: /Expected a string for code/,
      });
    }
    await assert.rejects(sandbox.runCode('x'.repeat(2 ** 26)), {
      message: /at most 67108864 bytes of code/,
    });
    for (const source of ['echo a\0b', 'echo \ud800']) {
      await assert.rejects(sandbox.runCode(source, { language: 'bash' }), {
        message: /bash code without NUL or unpaired surrogate/,
      });
    }
    assert.equal(session.runs.length, 0);
    await sandbox.close();
  });

  test('P33 a language that does not exist starts nothing', async () => {
    const { sandbox, session } = await open();
    await assert.rejects(sandbox.runCode('1', { language: 'ruby' }), {
      ...code('INVALID_OPTION'),
      message: /ruby/,
    });
    await assert.rejects(sandbox.kernel({ language: 'ruby' }), {
      ...code('INVALID_OPTION'),
      message: /ruby/,
    });
    await assert.rejects(
      sandbox.kernel({ language: 'bash', checkpoint: 'each' }),
      { ...code('INVALID_OPTION'), option: 'checkpoint' },
    );
    assert.equal(session.runs.length, 0);
    await sandbox.close();
  });
});

test('a missing interpreter is told when its language is used', async () => {
  backend.image = {
    ...defaultImage,
    runtimes: {
      ...defaultImage.runtimes,
      node: {
        error: {
          code: 'ERR_SANDBOX_RUNTIME_MISSING',
          message: 'There is no node on PATH: apt-get install nodejs',
        },
      },
    },
  };
  const { sandbox, session } = await open();
  backend.image = defaultImage;
  await assert.rejects(sandbox.runCode('1', { language: 'node' }), {
    ...code('RUNTIME_MISSING'),
    message: /apt-get install nodejs/,
  });
  await call(session, () => sandbox.runCode('1'));
  await sandbox.close();
});

test('a failure of the sandbox rejects with a stack that leads here', async () => {
  const { sandbox, session } = await open();
  session.onRun = (run) =>
    run.fail({ code: 'SETUP', errno: 13, op: 'mount', detail: '/dev' });
  async function myOwnFunction() {
    await sandbox.run(['true']);
  }
  await assert.rejects(myOwnFunction, (error) => {
    assert.ok(error instanceof SandboxError);
    assert.ok(!(error instanceof MountRefused));
    assert.equal(error.code, 'ERR_SANDBOX_SETUP');
    assert.match(error.stack, /myOwnFunction/);
    return true;
  });
  session.onRun = nativeError({ code: 'CLOSED' });
  await assert.rejects(sandbox.run(['true']), code('CLOSED'));
  await sandbox.close();
});

describe('files', () => {
  test('P23 go through byte for byte', async () => {
    const { sandbox, session } = await open();
    const bytes = Uint8Array.from([0, 255, 254, 10, 13, 128]);
    const names = [
      'a b.txt',
      'nl\nx.txt',
      '日本語 😀.txt',
      '-rf',
      `q'"$(id).txt`,
      'sub dir/é.bin',
    ];
    for (const name of names) {
      await sandbox.writeFile(name, bytes);
      assert.deepEqual(await sandbox.readFile(name), Buffer.from(bytes));
    }
    assert.deepEqual(
      await sandbox.listFiles(),
      names.map((path) => ({ path, size: 6, mtimeMs: 1500.5 })),
    );
    await sandbox.writeFile('text', 'é');
    assert.equal(session.files.at(-1).data.toString('hex'), 'c3a9');
    // A view of a part of a larger buffer.
    await sandbox.writeFile('part', bytes.subarray(1, 3));
    assert.equal(session.files.at(-1).data.toString('hex'), 'fffe');
    await sandbox.close();
  });

  test('are read as bytes, or decoded', async () => {
    const { sandbox, session } = await open();
    await sandbox.writeFile('f', 'é');
    assert.ok(Buffer.isBuffer(await sandbox.readFile('f')));
    assert.equal(session.lastMaxBytes, 2 ** 30);
    assert.equal(await sandbox.readFile('f', 'utf8'), 'é');
    assert.equal(session.lastMaxBytes, 536870888);
    assert.equal(await sandbox.readFile('f', { encoding: 'hex' }), 'c3a9');
    await sandbox.readFile('f', { maxBytes: 5, encoding: null });
    assert.equal(session.lastMaxBytes, 5);
    for (const options of ['klingon', { maxBytes: -1 }, { maxBytes: 1.5 }]) {
      await assert.rejects(
        sandbox.readFile('f', options),
        code('INVALID_OPTION'),
      );
    }
    await assert.rejects(sandbox.readFile('f', { max: 5 }), /max/);
    await sandbox.close();
  });

  test('P38 a failure names the call, the path and the errno', async () => {
    const { sandbox } = await open();
    await assert.rejects(sandbox.readFile('none.txt'), {
      ...code('NOT_FOUND'),
      errno: 'ENOENT',
      message: /^readFile\("none\.txt"\): There is no such file/,
    });
    await sandbox.close();
  });

  test('WS-01 paths that can never be right are refused', async () => {
    const { sandbox, session } = await open();
    const wrong = [
      '../x',
      'a/../../x',
      '/etc/passwd',
      '/workspace/x',
      'a//../../../x',
      '',
      '.',
      './',
      'a/',
      'a\0b',
      'a\ud800',
      'x'.repeat(5000),
    ];
    for (const path of wrong) {
      for (const start of [
        () => sandbox.writeFile(path, 'x'),
        () => sandbox.readFile(path),
        () => sandbox.listFiles(path),
      ]) {
        await assert.rejects(start, code('PATH'), path.slice(0, 20));
      }
    }
    await assert.rejects(sandbox.readFile('/workspace/a.txt'), /here "a\.txt"/);
    for (const path of [undefined, 5, ['a'], null]) {
      await assert.rejects(sandbox.readFile(path), code('INVALID_OPTION'));
    }
    assert.deepEqual(session.files, []);
    await sandbox.close();
  });

  test('paths lose what changes nothing', async () => {
    const { sandbox, session } = await open();
    await sandbox.writeFile('./a//b/./c', 'x');
    assert.equal(session.files[0].path, 'a/b/c');
    await sandbox.listFiles('./a');
    assert.equal(session.lastListed, 'a');
    await sandbox.listFiles();
    assert.equal(session.lastListed, '');
    await sandbox.close();
  });

  test('data is a string or bytes', async () => {
    const { sandbox } = await open();
    for (const data of [undefined, null, 5, {}, [1], new ArrayBuffer(1)]) {
      await assert.rejects(sandbox.writeFile('f', data), {
        ...code('INVALID_OPTION'),
        option: 'data',
      });
    }
    await sandbox.close();
  });
});
