// SPDX-License-Identifier: Apache-2.0
'use strict';

// open() and close(): what they end, what they may be mixed with, and how often.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { Readable } = require('node:stream');
const {
  busyDescendants,
  descendants,
  eventually,
  glovebox,
  open,
  test,
} = require('../helpers/harness.js');

const { Sandbox, SandboxError, withSandbox } = glovebox;

const closed = { name: 'SandboxError', code: 'ERR_SANDBOX_CLOSED' };

/** Starts code that does not end; resolves with its promise when it runs. */
function startEndless(sandbox) {
  return new Promise((resolve) => {
    const result = sandbox.runCode('echo up; exec sleep 300', {
      language: 'bash',
      timeoutS: 600,
      onStdout: () => resolve({ result }),
    });
    result.catch(() => {});
  });
}

function sleeps() {
  return descendants().filter(({ name }) => name === 'sleep');
}

test('close() kills what runs, and those calls reject', async (t) => {
  const sandbox = await open(t);
  const started = await Promise.all([1, 2, 3].map(() => startEndless(sandbox)));
  await eventually(() => sleeps().length === 3, 'three sleeps run');
  const { workspace } = sandbox;
  const outcomes = started.map(({ result }) =>
    assert.rejects(result, {
      ...closed,
      message:
        /ended by close\(\)\. Await each call before close\(\), or before the/,
    }),
  );
  await sandbox.close();
  assert.deepEqual(sleeps(), []);
  assert.ok(!fs.existsSync(workspace));
  await Promise.all(outcomes);
});

test('close() rejects a writeFile() whose source yields no more', async (t) => {
  for (const makeSource of [
    () => new Readable({ read() {} }),
    async function* () {
      yield 'one';
      await new Promise(() => {});
    },
  ]) {
    const sandbox = await open(t);
    const source = makeSource();
    const call = sandbox.writeFile('file', source);
    const outcome = assert.rejects(call, closed);
    await sandbox.writeFile('other', 'x'); // By now the first one waits.
    await sandbox.close();
    await outcome;
    assert.notEqual(source.destroyed, false);
  }
});

test('a writeFile() that fails leaves its source as for await does', async (t) => {
  const sandbox = await open(t);
  const mistake = new Error('mine');
  let isLeft = false;
  const calls = [
    [
      async function* () {
        yield 'one';
        throw mistake;
      },
      (error) => error === mistake,
    ],
    [
      async function* () {
        try {
          yield 5;
        } finally {
          isLeft = true;
        }
      },
      { message: /pieces of text or bytes/ },
    ],
  ];
  for (const [source, expected] of calls) {
    await assert.rejects(sandbox.writeFile('file', source()), expected);
  }
  assert.ok(isLeft);
  assert.equal(await sandbox.exists('file'), false);
  await sandbox.writeFile('file', Readable.from(['a', 'b']));
  assert.equal(await sandbox.readFile('file', 'utf8'), 'ab');
});

test('close() rejects calls that have not begun to run yet', async (t) => {
  const sandbox = await open(t);
  const calls = [
    sandbox.run(['sleep', '300']),
    // Quick ones may be over before it is closed.
    sandbox.runCode('import time; time.sleep(300)'),
    sandbox.kernel(),
  ];
  const outcomes = calls.map((call) => assert.rejects(call, closed));
  const closing = sandbox.close();
  await Promise.all(outcomes);
  await closing;
});

test('close() twice, or twice at once, is the same as once', async () => {
  const sandbox = await new Sandbox().open();
  const { result } = await startEndless(sandbox);
  const first = sandbox.close();
  const second = sandbox.close();
  assert.equal(first, second);
  await Promise.all([first, second]);
  assert.equal(sandbox.close(), first);
  await sandbox.close();
  await sandbox[Symbol.asyncDispose]();
  await assert.rejects(result, closed);
});

test('close() says what it could not delete, and has done all else', async () => {
  const sandbox = await new Sandbox().open();
  const { workspace } = sandbox;
  const { result } = await startEndless(sandbox);
  fs.renameSync(workspace, `${workspace}-moved`);
  fs.mkdirSync(workspace);
  fs.writeFileSync(path.join(workspace, 'mine'), '');
  try {
    const closing = sandbox.close();
    await assert.rejects(closing, {
      name: 'SandboxError',
      code: 'ERR_SANDBOX_IO',
      errno: 'ESTALE',
      message: new RegExp(
        `: another folder is in its place: "${workspace}": ESTALE `,
      ),
    });
    assert.equal(sandbox.close(), closing);
    await assert.rejects(result, closed);
    assert.deepEqual(sleeps(), []);
    assert.ok(fs.existsSync(path.join(workspace, 'mine')));
  } finally {
    for (const folder of [workspace, `${workspace}-moved`]) {
      fs.rmSync(folder, { recursive: true });
    }
  }
});

test('close() from a callback of a running call ends it', async () => {
  const sandbox = await new Sandbox().open();
  let closing;
  const call = sandbox.runCode('echo up; sleep 300', {
    language: 'bash',
    onStdout: () => {
      closing = sandbox.close();
    },
  });
  await assert.rejects(call, closed);
  await closing;
  assert.deepEqual(sleeps(), []);
});

test('after close() every method rejects, and starts nothing', async (t) => {
  const sandbox = await open(t);
  await sandbox.close();
  for (const call of [
    () => sandbox.run(['true']),
    () => sandbox.runCode('1'),
    () => sandbox.kernel(),
    () => sandbox.writeFile('f', 'x'),
    () => sandbox.readFile('f'),
    () => sandbox.listFiles(),
    () => sandbox.open(),
  ]) {
    await assert.rejects(call(), closed);
  }
  // Keeper, launcher, and boxes that wait for other sessions' calls.
  await eventually(
    () => busyDescendants().length === 0,
    () => JSON.stringify(busyDescendants()),
  );
});

test('before open() every method rejects and says what to do', async () => {
  const sandbox = new Sandbox();
  const notOpen = {
    code: 'ERR_SANDBOX_NOT_OPEN',
    message: /await sandbox\.open\(\)/,
  };
  for (const call of [
    () => sandbox.run(['true']),
    () => sandbox.runCode('1'),
    () => sandbox.kernel(),
    () => sandbox.writeFile('f', 'x'),
    () => sandbox.readFile('f'),
    () => sandbox.listFiles(),
  ]) {
    await assert.rejects(call(), notOpen);
  }
  assert.throws(() => sandbox.workspace, notOpen);
  assert.throws(() => sandbox.limits, notOpen);
  await sandbox.close();
});

test('open() twice is once, and with close() at the same time it leaves nothing', async () => {
  const sandbox = new Sandbox();
  const [one, two] = await Promise.all([sandbox.open(), sandbox.open()]);
  assert.equal(one, sandbox);
  assert.equal(two, sandbox);
  await sandbox.close();

  const hasty = new Sandbox();
  const opening = assert.rejects(hasty.open(), closed);
  await hasty.close();
  await opening;
  // The check after this file finds a workspace that was left.

  const never = new Sandbox();
  await never.close();
  await assert.rejects(never.open(), closed);
});

test('open() that failed can be tried again', async (t) => {
  const parent = fs.mkdtempSync(path.join(os.tmpdir(), 'cases-life-'));
  t.after(() => fs.rmSync(parent, { recursive: true, force: true }));
  const workspace = path.join(parent, 'w');
  fs.writeFileSync(workspace, '');
  const sandbox = new Sandbox({ workspace });
  await assert.rejects(sandbox.open(), { code: 'ERR_SANDBOX_WORKSPACE' });
  fs.unlinkSync(workspace);
  await sandbox.open();
  assert.equal((await sandbox.run(['true'])).exitCode, 0);
  await sandbox.close();
});

test('a call in a workspace that was deleted or made anew rejects and says so', async (t) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'workspace-'));
  const lost = {
    code: 'ERR_SANDBOX_WORKSPACE',
    errno: 'ESTALE',
    message:
      /: workspace has been deleted or replaced: .*Make a new Sandbox\.$/,
  };
  for (const isMadeAnew of [true, false]) {
    const sandbox = await open(t, { workspace: folder });
    assert.equal((await sandbox.run(['true'])).exitCode, 0);
    fs.rmdirSync(folder);
    if (isMadeAnew) fs.mkdirSync(folder);
    await assert.rejects(sandbox.run(['true']), lost);
    await assert.rejects(sandbox.runCode('1'), lost);
    await assert.rejects(sandbox.kernel(), lost);
    await sandbox.close();
  }
});

test('withSandbox closes when its function returns, throws or rejects', async () => {
  let sandbox;
  let workspace;
  const value = await withSandbox(async (opened) => {
    sandbox = opened;
    workspace = opened.workspace;
    assert.ok(fs.existsSync(workspace));
    return (await opened.run(['echo', 'x'])).stdout;
  });
  assert.equal(value, 'x\n');
  assert.ok(!fs.existsSync(workspace));
  await assert.rejects(sandbox.run(['true']), closed);

  const failure = new Error('mine');
  for (const fail of [
    () => {
      throw failure;
    },
    () => Promise.reject(failure),
  ]) {
    let running;
    await assert.rejects(
      withSandbox({ pids: 32 }, async (opened) => {
        sandbox = opened;
        workspace = opened.workspace;
        running = (await startEndless(opened)).result;
        return fail();
      }),
      (error) => error === failure,
    );
    assert.deepEqual(sleeps(), []);
    assert.ok(!fs.existsSync(workspace));
    await assert.rejects(running, closed);
    await assert.rejects(sandbox.run(['true']), closed);
  }
});

test('runCode of the module is a session of its own', async () => {
  const results = await Promise.all([
    glovebox.runCode("open('f', 'w').write('x'); 6 * 7"),
    glovebox.runCode('ls; echo "$A"', { language: 'bash', env: { A: 'b' } }),
    glovebox.runCode('console.log(1)', { language: 'node', memoryMb: 1024 }),
  ]);
  assert.equal(results[0].results[0].text, '42');
  assert.deepEqual(results[0].files, [
    { path: 'f', size: 1, change: 'created' },
  ]);
  assert.equal(results[1].stdout, 'b\n');
  assert.equal(results[2].stdout, '1\n');
  const stopped = await glovebox.runCode('while True: pass', { timeoutS: 0.5 });
  assert.equal(stopped.fault.type, 'timeout');
});

test('a program that cannot be executed is a result, 127 or 126', async (t) => {
  const sandbox = await open(t);
  await sandbox.writeFile('text', 'no program');
  await sandbox.runCode('cp text script; chmod +x script; mkdir folder', {
    language: 'bash',
  });
  const expected = [
    [['no-such-program'], 127, 'ENOENT'],
    [['/no/such/program'], 127, 'ENOENT'],
    [['./text'], 126, 'EACCES'],
    [['./folder'], 126, 'EACCES'],
    [['./script'], 126, 'ENOEXEC'],
  ];
  for (const [argv, exitCode, name] of expected) {
    const result = await sandbox.run(argv);
    assert.equal(result.exitCode, exitCode, argv[0]);
    assert.equal(result.error.name, name, argv[0]);
    assert.ok(result.error.message.includes(argv[0]), result.error.message);
    assert.equal(result.fault, null);
    assert.equal(result.success, false);
    assert.equal(result.stdout + result.stderr, '');
  }
});

test('run() passes its arguments as they are, through no shell', async (t) => {
  const sandbox = await open(t);
  const odd = [
    '',
    ' ',
    '$HOME',
    '*',
    '; ls',
    '"',
    "'",
    '\\',
    'l1\nl2',
    'é😀',
    '--',
  ];
  const result = await sandbox.run(['printf', '%s\\0', ...odd]);
  assert.deepEqual(result.stdout.split('\0'), [...odd, '']);
  const longest = 'x'.repeat(131071);
  assert.equal((await sandbox.run(['printf', '%s', longest])).stdout, longest);
});

test('errors of files name the path, and no path leaves the workspace', async (t) => {
  const sandbox = await open(t);
  await sandbox.runCode('ln -s /etc/passwd link; ln -s .. up; mkdir d', {
    language: 'bash',
  });
  const expectations = [
    [() => sandbox.readFile('none'), 'ERR_SANDBOX_NOT_FOUND'],
    [() => sandbox.listFiles('none'), 'ERR_SANDBOX_NOT_FOUND'],
    [() => sandbox.readFile('link'), 'ERR_SANDBOX_NOT_REGULAR'],
    [() => sandbox.writeFile('link', 'x'), 'ERR_SANDBOX_NOT_REGULAR'],
    [() => sandbox.listFiles('up'), 'ERR_SANDBOX_PATH'],
    [() => sandbox.readFile('up/etc/passwd'), 'ERR_SANDBOX_PATH'],
    [() => sandbox.readFile('../etc/passwd'), 'ERR_SANDBOX_PATH'],
    [() => sandbox.writeFile('../x', 'x'), 'ERR_SANDBOX_PATH'],
    [() => sandbox.writeFile('/etc/x', 'x'), 'ERR_SANDBOX_PATH'],
    [() => sandbox.readFile('a\0b'), 'ERR_SANDBOX_PATH'],
    [() => sandbox.readFile('d'), 'ERR_SANDBOX_NOT_REGULAR'],
    [() => sandbox.writeFile('d', 'x'), 'ERR_SANDBOX_NOT_REGULAR'],
  ];
  for (const [call, code] of expectations) {
    await assert.rejects(call(), (error) => {
      assert.ok(error instanceof SandboxError, `${call}: ${error}`);
      assert.equal(error.code, code, `${call}: ${error.message}`);
      return true;
    });
  }
  await sandbox.writeFile('ten', '0123456789');
  await assert.rejects(sandbox.readFile('ten', { maxBytes: 9 }), {
    code: 'ERR_SANDBOX_TOO_LARGE',
  });
  assert.equal((await sandbox.readFile('ten', { maxBytes: 10 })).length, 10);
});
