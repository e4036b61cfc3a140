// SPDX-License-Identifier: Apache-2.0
'use strict';

// Programs that were written for E2B: glovebox/e2b in place of its package.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const { eventually, glovebox, test } = require('../helpers/harness.js');
const e2b = require('../../lib/e2b.js');

const { Sandbox } = e2b;

async function create(t, options) {
  const sandbox = await Sandbox.create(options);
  t.after(() => sandbox.kill());
  return sandbox;
}

test('the first example of E2B runs with only the import changed', async () => {
  const sbx = await Sandbox.create();
  await sbx.runCode('x = 1');
  const execution = await sbx.runCode('x+=1; x');
  assert.equal(execution.text, '2');
  assert.equal(await sbx.kill(), true);
});

test("E2B's quickstart runs with only the import changed", async (t) => {
  const sbx = await Sandbox.create();
  t.after(() => sbx.kill());
  const execution = await sbx.runCode('print("hello world")');
  assert.deepEqual(execution.logs, { stdout: ['hello world\n'], stderr: [] });
  const files = await sbx.files.list('/');
  const etc = files.find(({ path }) => path === '/etc');
  assert.deepEqual([etc.name, etc.type], ['etc', 'dir']);
});

test("the first example of E2B's core SDK runs with only the import changed", async (t) => {
  const { default: SandboxOfCore } = await import('../../lib/e2b.mjs');
  const sandbox = await SandboxOfCore.create();
  t.after(() => sandbox.kill());
  const result = await sandbox.commands.run('echo "Hello from E2B!"');
  assert.equal(result.stdout, 'Hello from E2B!\n');
});

// ---- runCode ---------------------------------------------------------------

test('runCode gives results, logs, error and a count', async (t) => {
  const sandbox = await create(t);
  const code = `import sys
print('out')
sys.stderr.write('err\\n')
display(1)
'text'`;
  const execution = await sandbox.runCode(code);
  assert.ok(execution instanceof e2b.Execution);
  assert.equal(execution.logs.stdout.join(''), 'out\n');
  assert.equal(execution.logs.stderr.join(''), 'err\n');
  assert.equal(execution.error, undefined);
  assert.equal(execution.executionCount, 1);
  assert.equal(execution.text, 'text');
  const [shown, main] = execution.results;
  assert.deepEqual(
    [shown.text, shown.isMainResult, main.isMainResult, main.formats()],
    ['1', false, true, []],
  );
  assert.deepEqual(JSON.parse(JSON.stringify(execution)), {
    results: [{ text: '1' }, { text: 'text' }],
    logs: { stdout: ['out\n'], stderr: ['err\n'] },
  });

  const failed = await sandbox.runCode('1 / 0');
  assert.equal(failed.error.name, 'ZeroDivisionError');
  assert.equal(failed.error.value, 'division by zero');
  assert.match(failed.error.traceback, /Traceback/);
  assert.equal(failed.executionCount, 2);
  assert.equal(failed.text, undefined);
});

test('an image is base64', async (t) => {
  const sandbox = await create(t);
  const { results, text } = await sandbox.runCode(`class Image:
    def _repr_png_(self): return b'png'
display(Image())
7`);
  assert.equal(Buffer.from(results[0].png, 'base64').toString(), 'png');
  assert.deepEqual(results[0].formats(), ['png']);
  assert.equal(text, '7');
});

test('the main result is the value of the last expression, whatever it is', async (t) => {
  const sandbox = await create(t);
  const code = `class Image:
    def _repr_png_(self): return b'png'
display(7)`;
  const { results, text } = await sandbox.runCode(`${code}\nImage()`);
  assert.deepEqual(
    results.map(({ isMainResult }) => isMainResult),
    [false, true],
  );
  assert.match(text, /Image/);
  const without = await sandbox.runCode(`${code}\nNone`);
  assert.equal(without.results[0].isMainResult, false);
  assert.equal(without.text, undefined);
});

test('results come while the code runs', async (t) => {
  const sandbox = await create(t);
  const execution = await sandbox.runCode(
    `import os, time
display('shown')
while not os.path.exists('seen'): time.sleep(0.01)
'end'`,
    { onResult: ({ text }) => sandbox.files.write('seen', text) },
  );
  assert.equal(execution.text, 'end');
});

test('callbacks get messages and results as they come, errors after', async (t) => {
  const sandbox = await create(t);
  const seen = [];
  const execution = await sandbox.runCode(
    `import sys
print('é')
print('no', file=sys.stderr)
display('shown')
raise KeyError('k')`,
    {
      onStdout: ({ line, error, timestamp }) => {
        assert.ok(timestamp > 1e18);
        seen.push([line, error]);
      },
      onStderr: (message) => seen.push([`${message}`.slice(0, 2), true]),
      onResult: (result) => seen.push(result.text),
      onError: (error) => seen.push(error.name),
    },
  );
  assert.ok(execution.error instanceof e2b.ExecutionError);
  assert.ok(seen.some((one) => one[0] === 'é\n' && one[1] === false));
  assert.ok(seen.some((one) => one[0] === 'no' && one[1] === true));
  assert.ok(seen.includes('shown'));
  assert.equal(seen.at(-1), 'KeyError');
});

test('what a callback throws is what runCode rejects with', async (t) => {
  const sandbox = await create(t);
  const mistake = new Error('mine');
  const fail = () => {
    throw mistake;
  };
  for (const name of ['onStdout', 'onResult']) {
    await assert.rejects(
      sandbox.runCode('print(1); 2', { [name]: fail }),
      (error) => error === mistake,
    );
  }
});

test('envs of a call are gone after it, those of the sandbox stay', async (t) => {
  const sandbox = await create(t, { envs: { A: 'session', B: 'b' } });
  const read = `import os
[os.environ.get(name) for name in 'ABC']`;
  const envs = { A: 'call\'s "\\\n', C: '√' };
  // At the same time: no other call sees them.
  const [inCall, after] = await Promise.all([
    sandbox.runCode(read, { envs }),
    sandbox.runCode(read),
  ]);
  assert.equal(inCall.text, `['call\\'s "\\\\\\n', 'b', '√']`);
  assert.equal(after.text, "['session', 'b', None]");
  assert.equal(after.executionCount, 2);
  const names = await sandbox.runCode('[n for n in dir() if n[0] != "_"]');
  assert.equal(names.text, "['os']");
});

test('after a timeout, runCode says so, and the context keeps its state', async (t) => {
  const sandbox = await create(t);
  await sandbox.runCode('x = 1');
  await assert.rejects(
    sandbox.runCode('while True: pass', { timeoutMs: 200 }),
    (error) =>
      error instanceof e2b.TimeoutError &&
      error instanceof e2b.SandboxError &&
      error.name === 'TimeoutError' &&
      /200 ms: give/.test(error.message),
  );
  const { text, executionCount } = await sandbox.runCode('x');
  assert.equal(text, '1');
  assert.equal(executionCount, 3);
});

test('an interpreter that ends is an error of its execution', async (t) => {
  const sandbox = await create(t);
  const { error, logs } = await sandbox.runCode(
    "print('before', flush=True)\nimport os; os._exit(3)",
  );
  assert.equal(error.name, 'killed');
  assert.deepEqual(logs.stdout, ['before\n']);
  assert.equal((await sandbox.runCode('1')).text, '1');
});

test('bash and JavaScript run, each call anew', async (t) => {
  const sandbox = await create(t);
  const bash = await sandbox.runCode('echo $A; exit 3', {
    language: 'bash',
    envs: { A: 'a' },
  });
  assert.deepEqual(bash.logs.stdout, ['a\n']);
  assert.deepEqual(
    { ...bash.error },
    {
      name: 'ExitCode',
      value: '3',
      traceback: '',
    },
  );
  const js = await sandbox.runCode('console.log(1 + 1)', {
    language: 'javascript',
  });
  assert.equal(js.logs.stdout.join(''), '2\n');
  assert.equal(js.executionCount, undefined);
  for (const language of ['typescript', 'r', 'java']) {
    await assert.rejects(
      sandbox.runCode('1', { language }),
      /glovebox\/e2b has no language/,
    );
  }
});

test('contexts have a state of their own', async (t) => {
  const sandbox = await create(t);
  await sandbox.runCode('x = 1');
  await sandbox.files.makeDir('sub');
  const context = await sandbox.createCodeContext({ cwd: '/workspace/sub' });
  assert.deepEqual(await sandbox.listCodeContexts(), [context]);
  const other = await sandbox.runCode('x = 2; import os; os.getcwd()', {
    context,
  });
  assert.equal(other.text, '/workspace/sub');
  assert.equal((await sandbox.runCode('x')).text, '1');
  assert.equal((await sandbox.runCode('x', { context })).text, '2');
  await sandbox.restartCodeContext(context);
  const { error } = await sandbox.runCode('x', { context: context.id });
  assert.equal(error.name, 'NameError');
  await sandbox.removeCodeContext(context);
  assert.deepEqual(await sandbox.listCodeContexts(), []);
  await assert.rejects(
    sandbox.runCode('x', { context }),
    e2b.InvalidArgumentError,
  );
});

// ---- commands --------------------------------------------------------------

test('commands.run gives stdout, stderr and exitCode', async (t) => {
  const sandbox = await create(t, { envs: { B: 'b' } });
  const seen = [];
  const result = await sandbox.commands.run('pwd; echo $A$B >&2', {
    cwd: '/tmp',
    envs: { A: 'a' },
    onStdout: (data) => seen.push(data),
    onStderr: (data) => seen.push(data),
  });
  assert.deepEqual(result, { exitCode: 0, stdout: '/tmp\n', stderr: 'ab\n' });
  assert.deepEqual(seen.sort(), ['/tmp\n', 'ab\n']);
});

test('commands.run throws CommandExitError for an exit code', async (t) => {
  const sandbox = await create(t);
  await assert.rejects(
    sandbox.commands.run('echo out; echo err >&2; exit 3'),
    (error) => {
      assert.ok(error instanceof e2b.CommandExitError);
      assert.ok(error instanceof e2b.SandboxError);
      const { name, exitCode, stdout, stderr } = error;
      assert.deepEqual(
        [name, exitCode, stdout, stderr, error.error],
        ['CommandExitError', 3, 'out\n', 'err\n', 'exit code 3'],
      );
      return true;
    },
  );
});

test('commands.run throws TimeoutError after timeoutMs', async (t) => {
  const sandbox = await create(t);
  await assert.rejects(
    sandbox.commands.run('sleep 60', { timeoutMs: 100 }),
    e2b.TimeoutError,
  );
  assert.deepEqual(await sandbox.commands.list(), []);
});

test('what a callback of a command throws is what run rejects with', async (t) => {
  const sandbox = await create(t);
  const mistake = new Error('mine');
  const onStdout = () => {
    throw mistake;
  };
  await assert.rejects(
    sandbox.commands.run('echo out; sleep 60', { onStdout }),
    (error) => error === mistake,
  );
});

test('a signal ends code with its reason, and the context keeps its state', async (t) => {
  const sandbox = await create(t);
  const reason = new Error('enough');
  const controller = new AbortController();
  await sandbox.runCode('x = 1');
  const running = sandbox.runCode("print('up', flush=True)\nwhile True: pass", {
    signal: controller.signal,
    onStdout: () => controller.abort(reason),
  });
  await assert.rejects(running, (error) => error === reason);
  assert.equal((await sandbox.runCode('x')).text, '1');
});

test('memory that runs out is an error of the execution', async (t) => {
  const sandbox = await create(t, { glovebox: { memoryMb: 64 } });
  const { error } = await sandbox.runCode("x = b'1' * (1 << 30)");
  assert.ok(['oom', 'MemoryError'].includes(error.name), error.name);
});

test('a signal ends a command with its reason', async (t) => {
  const sandbox = await create(t);
  const reason = new Error('enough');
  const controller = new AbortController();
  const running = sandbox.commands.run('echo up; sleep 60', {
    signal: controller.signal,
    onStdout: () => controller.abort(reason),
  });
  await assert.rejects(running, (error) => error === reason);
});

test('a command in the background can be read, written to and killed', async (t) => {
  const { commands } = await create(t);
  const handle = await commands.run('read line; echo got $line; sleep 60', {
    background: true,
    stdin: true,
  });
  assert.ok(handle instanceof e2b.CommandHandle);
  assert.equal(handle.exitCode, undefined);
  const [{ pid, args }] = await commands.list();
  assert.deepEqual([pid, args[0]], [handle.pid, '-c']);
  await commands.sendStdin(pid, 'it\n');
  await eventually(() => handle.stdout === 'got it\n', 'the output');
  assert.equal(await commands.kill(pid), true);
  await assert.rejects(handle.wait(), e2b.CommandExitError);
  assert.equal(handle.exitCode, 137);
  assert.equal(await handle.kill(), false);
  assert.equal(await commands.kill(pid), false);

  const cat = await commands.run('cat', { background: true, stdin: true });
  await cat.sendStdin('all');
  await cat.closeStdin();
  const ended = await cat.wait();
  assert.deepEqual(ended, { exitCode: 0, stdout: 'all', stderr: '' });

  const closed = await commands.run('exec <&-; echo up; sleep 60', {
    background: true,
    stdin: true,
  });
  await eventually(() => closed.stdout === 'up\n', 'stdin is closed');
  for (const data of ['told', 'told again']) {
    await assert.rejects(closed.sendStdin(data), {
      name: 'SandboxError',
      message: /^The stdin of the command is closed$/,
    });
  }
  await closed.kill();

  const deaf = await commands.run('sleep 60', { background: true });
  await assert.rejects(deaf.sendStdin('x'), /stdin: true/);
  await assert.rejects(deaf.disconnect(), e2b.SandboxError);
  await deaf.kill();
});

// ---- files -----------------------------------------------------------------

test('files.write and files.read take all that E2B takes', async (t) => {
  const { files, runCode } = await create(t);
  assert.equal(typeof runCode, 'function');
  const written = await files.write('sub/a.txt', 'é');
  assert.deepEqual(written, {
    name: 'a.txt',
    path: '/workspace/sub/a.txt',
    type: 'file',
  });
  const bytes = new TextEncoder().encode('é');
  const inputs = [bytes, bytes.buffer, new Blob([bytes])];
  inputs.push(new Blob([bytes]).stream());
  for (const data of inputs) {
    await files.write('/workspace/b.txt', data);
    assert.equal(await files.read('b.txt'), 'é');
  }
  const list = await files.write([
    { path: 'c', data: '1' },
    { path: 'd', data: '2' },
  ]);
  assert.deepEqual(
    list.map(({ name }) => name),
    ['c', 'd'],
  );
  const asBytes = await files.read('b.txt', { format: 'bytes' });
  assert.deepEqual(asBytes, bytes);
  const blob = await files.read('b.txt', { format: 'blob' });
  assert.equal(await blob.text(), 'é');
  const stream = await files.read('b.txt', { format: 'stream' });
  assert.equal(await new Response(stream).text(), 'é');
});

test('files.list gives one level, or as many as depth says', async (t) => {
  const { files } = await create(t);
  await files.write('a/b/c.txt', '123');
  await files.write('top.txt', '');
  const paths = (entries) => entries.map((entry) => entry.path).sort();
  const top = await files.list('.');
  assert.deepEqual(paths(top), ['/workspace/a', '/workspace/top.txt']);
  assert.equal(top.find(({ name }) => name === 'a').type, e2b.FileType.DIR);
  assert.deepEqual(paths(await files.list('/workspace/a', { depth: 2 })), [
    '/workspace/a/b',
    '/workspace/a/b/c.txt',
  ]);
  assert.deepEqual(paths(await files.list('', { depth: 2 })), [
    '/workspace/a',
    '/workspace/a/b',
    '/workspace/top.txt',
  ]);
  const [entry] = await files.list('a/b');
  assert.equal(entry.size, 3);
  assert.equal(entry.type, 'file');
  assert.ok(entry.modifiedTime instanceof Date);
});

test('files.list shows folders outside of the workspace that are the same in each box', async (t) => {
  const sandbox = await create(t, { envs: { NODE_OPTIONS: '--none' } });
  const { files } = sandbox;
  const { stdout } = await sandbox.commands.run('ls -A /');
  const names = stdout.trim().split('\n').sort();
  for (const path of ['/', '//', '/tmp/..']) {
    const found = (await files.list(path)).map(({ name }) => name);
    assert.deepEqual(found.sort(), names, path);
  }
  const deep = await files.list('/', { depth: 2 });
  const passwd = deep.find(({ path }) => path === '/etc/passwd');
  assert.equal(passwd.name, 'passwd');
  assert.equal(passwd.type, 'file');
  assert.ok(passwd.size > 0 && passwd.modifiedTime instanceof Date);
  assert.ok(!deep.some(({ path }) => path.split('/').length > 3));
  await assert.rejects(files.list('/none'), e2b.FileNotFoundError);
  await assert.rejects(files.list('/etc/passwd'), e2b.SandboxError);
  for (const path of ['/tmp', '/home/user', '/etc/../home/user/x']) {
    await assert.rejects(files.list(path), e2b.InvalidArgumentError, path);
  }
});

test('files.makeDir, rename, exists, getInfo and remove do what they say', async (t) => {
  const { files } = await create(t);
  assert.equal(await files.makeDir('x/y'), true);
  assert.equal(await files.makeDir('x/y'), false);
  await files.write('x/y/f', '1');
  const renamed = await files.rename('x/y/f', 'z/g');
  assert.equal(renamed.path, '/workspace/z/g');
  assert.equal(renamed.size, 1);
  assert.equal(await files.exists('x/y/f'), false);
  assert.equal(await files.exists('z/g'), true);
  assert.equal((await files.getInfo('z')).type, 'dir');
  await files.remove('z');
  assert.equal(await files.exists('z/g'), false);
});

test('code, commands and files share the workspace', async (t) => {
  const sandbox = await create(t);
  await sandbox.files.write('n.txt', '41');
  const { text } = await sandbox.runCode("int(open('n.txt').read()) + 1");
  assert.equal(text, '42');
  const { stdout } = await sandbox.commands.run('cat n.txt');
  assert.equal(stdout, '41');
});

test('files that are not there, or outside, are errors by their class', async (t) => {
  const { files } = await create(t);
  for (const work of [
    () => files.read('none'),
    () => files.read('none', { format: 'stream' }),
    () => files.list('none'),
    () => files.rename('none', 'other'),
    () => files.remove('none'),
  ]) {
    await assert.rejects(work, (error) => {
      assert.ok(error instanceof e2b.FileNotFoundError, String(error));
      assert.ok(error instanceof e2b.NotFoundError);
      assert.ok(error.cause instanceof glovebox.SandboxError);
      assert.equal(error.code, 'ERR_SANDBOX_NOT_FOUND');
      return true;
    });
  }
  for (const path of ['/etc/passwd', '/home/user/x', '../x', '/workspace2/x']) {
    await assert.rejects(files.read(path), e2b.InvalidArgumentError, path);
    await assert.rejects(files.write(path, ''), e2b.InvalidArgumentError, path);
  }
});

// ---- Life ------------------------------------------------------------------

test('kill ends it once, and what comes after is told', async (t) => {
  const sandbox = await create(t);
  assert.match(sandbox.sandboxId, /^[\w-]{36}$/);
  assert.equal(await sandbox.isRunning(), true);
  const sleeping = sandbox.commands.run('sleep 60');
  const ended = assert.rejects(sleeping, {
    name: 'SandboxNotFoundError',
    message: /^The sandbox has ended, by kill\(\) or because its timeoutMs/,
  });
  assert.equal(await sandbox.kill(), true);
  await ended;
  assert.equal(await sandbox.isRunning(), false);
  assert.equal(await sandbox.kill(), false);
  for (const work of [
    () => sandbox.runCode('1'),
    () => sandbox.commands.run('true'),
    () => sandbox.files.read('x'),
    () => sandbox.setTimeout(1000),
  ]) {
    await assert.rejects(work, (error) => {
      assert.ok(error instanceof e2b.SandboxNotFoundError, error.stack);
      assert.equal(error.code, 'ERR_SANDBOX_CLOSED');
      return error.message.startsWith('The sandbox has ended, by kill() or');
    });
  }
});

test('it ends by itself, at the time that create or setTimeout said', async (t) => {
  const short = await create(t, { timeoutMs: 50 });
  await eventually(async () => !(await short.isRunning()), 'its end');
  const sandbox = await create(t, { timeoutMs: 2 ** 31 - 1 });
  await sandbox.setTimeout(50);
  await eventually(async () => !(await sandbox.isRunning()), 'its end');
});

test('a subclass creates its own', async (t) => {
  class Mine extends Sandbox {
    name = 'mine';
  }
  const sandbox = await Mine.create();
  t.after(() => sandbox.kill());
  assert.equal(sandbox.name, 'mine');
  assert.equal((await sandbox.runCode('1')).text, '1');
});

// ---- Options ---------------------------------------------------------------

test('the options of glovebox are given as glovebox', async (t) => {
  const sandbox = await create(t, { glovebox: { env: { G: 'g' }, pids: 40 } });
  const { stdout } = await sandbox.commands.run('echo $G');
  assert.equal(stdout, 'g\n');
  await assert.rejects(
    Sandbox.create({ glovebox: { memoryMb: 0 } }),
    (error) =>
      error instanceof e2b.InvalidArgumentError && /memoryMb/.test(error),
  );
});

test('options of the connection and default templates do nothing', async (t) => {
  const sandbox = await Sandbox.create('code-interpreter-v1', {
    apiKey: 'e2b_x',
    domain: 'e2b.dev',
    requestTimeoutMs: 1,
    metadata: { a: 'b' },
    allowInternetAccess: false,
  });
  t.after(() => sandbox.kill());
  const options = { requestTimeoutMs: 1 };
  assert.equal((await sandbox.runCode('1', options)).text, '1');
});

test('the network of this machine is there with allowInternetAccess: true, and only so', async (t) => {
  const host = fs.readlinkSync('/proc/self/ns/net');
  for (const [options, isShared] of [
    [{}, false],
    [{ allowInternetAccess: false }, false],
    [{ allowInternetAccess: true }, true],
    [{ allowInternetAccess: true, glovebox: { pids: 50 } }, true],
    [{ glovebox: { network: true } }, true],
  ]) {
    const sandbox = await Sandbox.create(options);
    t.after(() => sandbox.kill());
    const { stdout } = await sandbox.commands.run('readlink /proc/self/ns/net');
    assert.equal(stdout.trim() === host, isShared, JSON.stringify(options));
  }
  for (const options of [
    { allowInternetAccess: 'yes' },
    { allowInternetAccess: false, glovebox: { network: true } },
    { allowInternetAccess: true, glovebox: { network: false } },
  ]) {
    await assert.rejects(Sandbox.create(options), e2b.InvalidArgumentError);
  }
});

test('what cannot be is refused and named', async (t) => {
  const refused = [
    ['my-template'],
    [{ template: 'my-template' }],
    [{ network: { allowOut: ['1.1.1.1'] } }],
    [{ mcp: {} }],
    [{ volumeMounts: {} }],
    [{ lifecycle: { onTimeout: 'pause' } }],
  ];
  for (const args of refused) {
    await assert.rejects(Sandbox.create(...args), (error) => {
      assert.ok(error instanceof e2b.SandboxError);
      assert.match(error.message, /^glovebox\/e2b has no (option|template) /);
      return true;
    });
  }
  for (const options of [
    { timeoutms: 1 },
    { timeoutMs: -1 },
    { timeoutMs: '1' },
  ]) {
    await assert.rejects(Sandbox.create(options), e2b.InvalidArgumentError);
  }
  for (const args of [[5], [null], ['base', 'base']]) {
    await assert.rejects(Sandbox.create(...args), e2b.InvalidArgumentError);
  }
  assert.throws(() => new Sandbox(), e2b.InvalidArgumentError);

  const sandbox = await create(t);
  const absent = ['connect', 'fork', 'pause', 'betaPause', 'createSnapshot'];
  absent.push('listSnapshots', 'updateNetwork', 'getMcpToken', 'uploadUrl');
  absent.push('downloadUrl', 'getInfo', 'getMetrics');
  for (const name of absent) {
    await assert.rejects(
      sandbox[name](),
      /^SandboxError: glovebox\/e2b has no/,
    );
  }
  for (const name of ['connect', 'list', 'fork', 'kill', 'pause', 'getInfo']) {
    await assert.rejects(Sandbox[name](), e2b.SandboxError);
  }
  assert.throws(() => sandbox.getHost(3000), /has no network address/);
  assert.throws(() => sandbox.getMcpUrl(), e2b.SandboxError);
  assert.throws(() => sandbox.pty, e2b.SandboxError);
  assert.throws(() => sandbox.git, e2b.SandboxError);
  await assert.rejects(sandbox.commands.connect(1), e2b.SandboxError);
  await assert.rejects(sandbox.files.watchDir('.'), e2b.SandboxError);
  await assert.rejects(
    sandbox.commands.run('id', { user: 'root' }),
    /never root/,
  );
  for (const work of [
    () => sandbox.runCode(1),
    () => sandbox.runCode('1', { onStdout: 1 }),
    () => sandbox.runCode('1', { lang: 'python' }),
    () => sandbox.runCode('1', { timeoutMs: -1 }),
    () => sandbox.commands.run(['id']),
    () => sandbox.files.read('x', { format: 'text2' }),
    () => sandbox.files.list('.', { depth: 0 }),
    () => sandbox.files.write('x', 1),
  ]) {
    await assert.rejects(work, e2b.InvalidArgumentError);
  }
});
