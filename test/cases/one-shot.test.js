// SPDX-License-Identifier: Apache-2.0
'use strict';

// runCode() of the module: a session for one call, which the engine opens, and
// closes, by itself.

const assert = require('node:assert/strict');
const { once } = require('node:events');
const fs = require('node:fs');
const path = require('node:path');
const { PassThrough } = require('node:stream');
const { Worker } = require('node:worker_threads');
const {
  descendants,
  eventually,
  glovebox,
  isRoot,
  makeFolder,
  outside,
  skip,
  temporaryWorkspaces,
  test,
} = require('../helpers/harness.js');

const { SandboxError, runCode } = glovebox;

/** Resolves when a call that prints has begun. */
function startSignal() {
  let onStdout;
  const started = new Promise((resolve) => {
    onStdout = resolve;
  });
  return { started, onStdout };
}

/** Calls `work` while TMPDIR is `folder`. */
async function withTmpdir(folder, work) {
  const { TMPDIR } = process.env;
  process.env.TMPDIR = folder;
  try {
    await work();
  } finally {
    process.env.TMPDIR = TMPDIR;
  }
}

const contents = {
  nothing: 'pass',
  'a few files and folders': `
import os
for i in range(5):
    open(f"f{i}", "w").write("x" * 1000)
    os.mkdir(f"d{i}")
os.symlink("/etc/passwd", "link")
os.mkfifo("pipe")
os.link("f0", "again")`,
  'a large file': 'open("f", "wb").write(b"x" * (5 << 20))',
  'a folder with something in it': `
import os
os.makedirs("a/b")
open("a/b/f", "w")`,
  'thousands of files': `
for i in range(2000):
    open(f"f{i}", "w")`,
  'a folder that was full and is empty': `
import os
for i in range(2000):
    open("f" * 200 + str(i), "w")
for name in os.listdir():
    os.unlink(name)`,
  'a tree deeper than any path': `
import os
for i in range(1500):
    os.mkdir("deeper")
    os.chdir("deeper")`,
  'folders that are closed to their owner': `
import os
os.makedirs("a/b")
open("a/b/f", "w")
os.chmod("a/b", 0)
os.chmod("a", 0)
os.chmod(".", 0)`,
};

test('the workspace of a one-shot call is gone when its promise resolves', async () => {
  for (const [what, code] of Object.entries(contents)) {
    const result = await runCode(`${code}\nprint("made")`);
    assert.deepEqual(temporaryWorkspaces(), [], what);
    assert.equal(result.stdout, 'made\n', `${what}: ${result.stderr}`);
  }
});

test('it is gone when the promise rejects', async () => {
  for (const [what, code] of Object.entries(contents)) {
    const failing = runCode(`${code}\nprint("made", flush=True); input()`, {
      stdin: (async function* () {
        await new Promise(() => {});
      })(),
      onStdout: () => {
        throw new Error('mine');
      },
    });
    await assert.rejects(failing, { message: 'mine' });
    assert.deepEqual(temporaryWorkspaces(), [], what);
  }
});

test('a hundred one-shot calls at once give a hundred results and leave nothing', async () => {
  const results = await Promise.all(
    Array.from({ length: 100 }, (_, i) =>
      runCode(`open("f", "w").write("${i}"); print(open("f").read())`),
    ),
  );
  assert.deepEqual(temporaryWorkspaces(), []);
  assert.deepEqual(
    results.map(({ stdout }) => stdout),
    results.map((_, i) => `${i}\n`),
  );
  assert.ok(results.every(({ files }) => files.length === 1));
});

test('a session that cannot be opened rejects as open() does, and nothing runs', async (t) => {
  const folder = makeFolder(t);
  const file = path.join(folder, 'file');
  fs.writeFileSync(file, '');
  const code = 'open("/workspace/ran", "w")';
  const missing = path.join(folder, 'missing');
  for (const options of [
    { workspace: '/proc' },
    { workspace: file },
    { mounts: { [missing]: '/data' } },
    { mounts: { '/etc': ['/data', 'rw'] } },
    { preload: ['no_such_module'], warm: true },
    { spec: path.join(folder, 'none.json') },
  ]) {
    const open = new glovebox.Sandbox(options).open();
    const expected = await open.catch((error) => error);
    assert.ok(expected instanceof SandboxError);
    const received = await runCode(code, options).catch((error) => error);
    assert.equal(received.constructor, expected.constructor);
    assert.deepEqual({ ...received }, { ...expected });
    assert.equal(received.message, expected.message);
    assert.deepEqual(temporaryWorkspaces(), []);
  }
  assert.equal((await runCode('print(1)')).stdout, '1\n');
});

test('a workspace that the keeper refuses costs no ready box', async (t) => {
  if (!isRoot) return t.skip('by design: only root mounts, and needs maps');
  const workspace = makeFolder(t);
  const readyBoxes = () =>
    descendants()
      .filter(({ name, state }) => name === 'glovebox-ready' && state !== 'Z')
      .map(({ pid }) => pid);
  const warm = true;
  await runCode('1', { warm }); // From here on there are some, in a while.
  let before = [];
  let rounds = 0;
  await eventually(
    () => {
      const now = readyBoxes();
      rounds = String(now) === String(before) ? rounds + 1 : 0;
      before = now;
      return now.length > 0 && rounds > 10;
    },
    'the ready boxes do not come to rest',
    20_000,
  );
  // A filesystem without maps of ids, which root's boxes need.
  const { exitCode } = outside(['mount', '-t', 'ramfs', 'none', workspace]);
  if (exitCode !== 0) return skip(t, 'nothing can be mounted here');
  try {
    for (let i = 0; i < 3; i++) {
      const code = 'open("ran", "w")';
      await assert.rejects(runCode(code, { workspace, warm }), {
        code: 'ERR_SANDBOX_WORKSPACE',
        step: 'mount_setattr',
      });
    }
    assert.deepEqual(fs.readdirSync(workspace), []);
  } finally {
    outside(['umount', workspace]);
  }
  const after = readyBoxes();
  assert.ok(
    before.every((pid) => after.includes(pid)),
    `${before} became ${after}`,
  );
});

test('a TMPDIR that goes away is an error, and one that comes back is used', async (t) => {
  const folder = path.join(makeFolder(t), 'tmp');
  await withTmpdir(folder, async () => {
    for (let round = 0; round < 3; round++) {
      await assert.rejects(runCode('1'), {
        code: 'ERR_SANDBOX_WORKSPACE',
        errno: 'ENOENT',
      });
      fs.mkdirSync(folder);
      for (let call = 0; call < 2; call++) {
        assert.equal((await runCode('print(1)')).stdout, '1\n');
        assert.deepEqual(fs.readdirSync(folder), []);
      }
      fs.rmdirSync(folder);
    }
  });
});

test('requireLimits refuses before the code runs', async (t) => {
  const workspace = makeFolder(t);
  const code = 'open("ran", "w")';
  await assert.rejects(
    runCode(code, { workspace, requireLimits: true, enforceLimits: false }),
    { code: 'ERR_SANDBOX_LIMIT' },
  );
  assert.deepEqual(fs.readdirSync(workspace), []);

  const sandbox = await new glovebox.Sandbox({ workspace }).open();
  const spec = await sandbox.plan();
  await sandbox.close();
  Object.assign(spec.spec, { requireLimits: true, enforceLimits: false });
  await assert.rejects(runCode(code, { spec }), { code: 'ERR_SANDBOX_LIMIT' });
  assert.deepEqual(fs.readdirSync(workspace), []);
});

test('options of the session and of the call hold', async (t) => {
  const folder = makeFolder(t);
  const workspace = path.join(folder, 'work');
  const data = path.join(folder, 'data');
  fs.mkdirSync(data);
  fs.writeFileSync(path.join(data, 'f'), 'mounted');
  const pieces = [];
  const code = `
import json, os, sys
print(json.dumps([os.getcwd(), os.environ["A"], sys.stdin.read(),
                  open("/data/f").read()]))
open("/workspace/made", "w")`;
  const result = await runCode(code, {
    workspace,
    mounts: { [data]: '/data' },
    env: { A: 'b' },
    cwd: '/tmp',
    stdin: 'typed',
    timeoutS: null,
    preload: ['json'],
    warm: true,
    onStdout: (piece) => pieces.push(piece),
  });
  const said = ['/tmp', 'b', 'typed', 'mounted'];
  assert.deepEqual(JSON.parse(result.stdout), said, result.stderr);
  assert.equal(Buffer.concat(pieces).toString(), result.stdout);
  assert.deepEqual(fs.readdirSync(workspace), ['made']);

  const sandbox = new glovebox.Sandbox({ env: { A: 'from the spec' } });
  await sandbox.open();
  const spec = await sandbox.plan();
  await sandbox.close();
  const again = await runCode('echo "$A"', { spec, language: 'bash' });
  assert.equal(again.stdout, 'from the spec\n');
});

test('an abort at any moment of a one-shot call ends it one way or the other', async () => {
  for (let delayMs = 0; delayMs <= 20; delayMs += 0.5) {
    const controller = new AbortController();
    const settled = runCode('print("done")', {
      signal: controller.signal,
    }).then(
      ({ stdout }) => stdout,
      ({ name }) => name,
    );
    setTimeout(() => controller.abort(), delayMs);
    assert.match(await settled, /^(done\n|AbortError)$/);
    assert.deepEqual(temporaryWorkspaces(), []);
  }
});

test('an abort before anything is open waits for nothing but the end', async () => {
  const controller = new AbortController();
  const call = runCode('print("done")', { signal: controller.signal });
  controller.abort(new Error('mine'));
  await assert.rejects(call, { message: 'mine' });
  assert.deepEqual(temporaryWorkspaces(), []);
});

/** Puts another folder in the place of the one workspace, then calls `end`. */
async function endSwapped(folder, end) {
  const [name] = fs.readdirSync(folder);
  const place = path.join(folder, name);
  fs.renameSync(place, path.join(folder, 'moved'));
  fs.mkdirSync(place);
  fs.writeFileSync(path.join(place, 'kept'), '');
  end();
}

test('a workspace that cannot be removed rejects the call, as close() does', async (t) => {
  const folder = makeFolder(t);
  const inPlace = { code: 'ERR_SANDBOX_IO', errno: 'ESTALE' };
  await withTmpdir(folder, async () => {
    const { started, onStdout } = startSignal();
    const stdin = new PassThrough();
    const call = runCode('print(1, flush=True); input()', { stdin, onStdout });
    await Promise.race([started, call]);
    await endSwapped(folder, () => stdin.end('go\n'));
    await assert.rejects(call, inPlace);
    assert.ok(fs.readdirSync(folder).includes('moved'));
  });
});

test('an error of a call keeps that its workspace could not be removed', async (t) => {
  const folder = makeFolder(t);
  await withTmpdir(folder, async () => {
    const { started, onStdout } = startSignal();
    const controller = new AbortController();
    const { signal } = controller;
    const code = 'import time; print(1, flush=True); time.sleep(77)';
    const call = runCode(code, { signal, onStdout });
    await Promise.race([started, call]);
    await endSwapped(folder, () => controller.abort());
    await assert.rejects(call, (error) => {
      assert.equal(error.name, 'AbortError');
      assert.equal(error.suppressed.code, 'ERR_SANDBOX_IO');
      return true;
    });
  });
});

test('a worker that is terminated among one-shot calls leaves nothing', async () => {
  const program = `
    const { parentPort } = require('node:worker_threads');
    const { runCode } = require(${JSON.stringify(path.resolve(__dirname, '../..'))});
    runCode('1').then(() => {
      for (let i = 0; i < 20; i++) runCode('print(1)');
      parentPort.postMessage('calling');
    });`;
  for (let delayMs = 0; delayMs <= 20; delayMs += 5) {
    const worker = new Worker(program, { eval: true });
    await once(worker, 'message');
    await new Promise((resolve) => setTimeout(resolve, delayMs));
    await worker.terminate();
    await eventually(
      () => temporaryWorkspaces().length === 0,
      () => `left: ${temporaryWorkspaces()}`,
    );
  }
});

test('a worker that is terminated while its session opens and its run looks at files leaves no descriptor', async (t) => {
  const workspace = makeFolder(t);
  for (let i = 0; i < 10_000; i++) {
    fs.writeFileSync(path.join(workspace, `f${i}`), '');
  }
  const hasDescriptor = () =>
    fs.readdirSync('/proc/self/fd').some((fd) => {
      try {
        return fs.readlinkSync(`/proc/self/fd/${fd}`).startsWith(workspace);
      } catch {
        return false; // It was closed meanwhile.
      }
    });
  const program = `
    const { parentPort, workerData } = require('node:worker_threads');
    const { runCode } = require(${JSON.stringify(path.resolve(__dirname, '../..'))});
    parentPort.once('message', () => runCode('1', workerData));
    runCode('1').then(() => parentPort.postMessage('open'));`;
  for (let delayMs = 5; delayMs <= 35; delayMs += 10) {
    const before = descendants().map(({ pid }) => pid);
    const worker = new Worker(program, {
      eval: true,
      workerData: { workspace },
    });
    await once(worker, 'message');
    const keeper = descendants().find(
      ({ pid, ppid }) => ppid === process.pid && !before.includes(pid),
    );
    const launcher = descendants().find(({ ppid }) => ppid === keeper.pid);
    process.kill(launcher.pid, 'SIGSTOP'); // Nothing is ever open.
    worker.postMessage('go');
    await eventually(hasDescriptor, 'the workspace is not opened');
    await new Promise((resolve) => setTimeout(resolve, delayMs));
    await worker.terminate();
    assert.ok(!hasDescriptor(), `after ${delayMs} ms`);
  }
});

for (const victim of ['launcher', 'keeper']) {
  test(`SIGKILL of the ${victim} at any moment settles one-shot calls, which leave nothing`, async () => {
    for (let round = 0; round < 5; round++) {
      await runCode('1'); // Both run.
      const calls = Array.from({ length: 20 }, () => runCode('print(1)'));
      const [keeper] = descendants().filter(
        ({ ppid, state }) => ppid === process.pid && state !== 'Z',
      );
      const [launcher] = descendants(keeper.pid).filter(
        ({ ppid }) => ppid === keeper.pid,
      );
      setTimeout(
        () => process.kill({ keeper, launcher }[victim].pid, 'SIGKILL'),
        round * 3,
      );
      for (const { value, reason } of await Promise.allSettled(calls)) {
        if (reason) assert.match(reason.code, /^ERR_SANDBOX_(DIED|START)$/);
        else assert.equal(value.stdout, '1\n');
      }
      assert.deepEqual(temporaryWorkspaces(), []);
      await eventually(
        () => !descendants().some(({ pid }) => pid === launcher.pid),
        'the launcher is left',
      );
    }
  });
}
