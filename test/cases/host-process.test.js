// SPDX-License-Identifier: Apache-2.0
'use strict';

// What happens to the processes around a box: worker threads that end, a host
// that ends, helpers of ours that are killed, a module that is there twice.

const assert = require('node:assert/strict');
const { once } = require('node:events');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { Worker } = require('node:worker_threads');
const {
  descendants,
  eventually,
  eventuallyGone,
  glovebox,
  hasCgroups,
  leaves,
  open,
  outside,
  test,
} = require('../helpers/harness.js');
const { askScript, startScript } = require('../helpers/host-script.js');

const { SandboxError } = glovebox;

function childrenOf(parent, list = descendants()) {
  return list.filter(({ ppid }) => ppid === parent);
}

/**
 * The helpers of this thread's engine: `{keeper, launcher}`. Idle ones of other
 * threads and copies would be taken for them, so there must be none.
 */
function helpers() {
  const list = descendants();
  const keepers = childrenOf(process.pid, list);
  assert.equal(keepers.length, 1, JSON.stringify(list));
  const [keeper] = keepers;
  const launchers = childrenOf(keeper.pid, list);
  assert.equal(launchers.length, 1, JSON.stringify(list));
  return { keeper: keeper.pid, launcher: launchers[0].pid };
}

/** Starts code that does not end: `{result}`, and when that is there it runs. */
async function startEndless(sandbox) {
  return new Promise((resolve) => {
    const result = sandbox.runCode('echo up; exec sleep 777', {
      language: 'bash',
      timeoutS: 900,
      onStdout: () => resolve({ result }),
    });
    result.catch(() => {});
  });
}

function sleeps() {
  return descendants().filter(({ name }) => name === 'sleep');
}

// ---- Worker threads --------------------------------------------------------

function startWorker(t, workerData) {
  const file = path.join(__dirname, 'fixtures', 'worker.js');
  const worker = new Worker(file, { workerData });
  t.after(() => worker.terminate());
  return worker;
}

test('several worker threads load the addon at once, and each runs code', async (t) => {
  const names = ['one', 'two', 'three', 'four'];
  const answers = await Promise.all(
    names.map(async (threadName) => {
      const worker = startWorker(t, { task: 'run', threadName });
      const [[answer], [exitCode]] = await Promise.all([
        once(worker, 'message'),
        once(worker, 'exit'),
      ]);
      assert.equal(exitCode, 0);
      return answer;
    }),
  );
  for (const [index, { stdouts, text }] of answers.entries()) {
    assert.deepEqual(stdouts, Array(3).fill(`${names[index]}\n`));
    assert.equal(text, `'${names[index]}'`);
  }
  // Their engines ended with them.
  await eventually(
    () => childrenOf(process.pid).length === 1,
    () => JSON.stringify(descendants()),
  );
});

test("HST-05 terminate() of a worker in a call ends its box, and no other's", async (t) => {
  const sandbox = await open(t);
  const own = await startEndless(sandbox);
  const [ownSleep] = await eventuallySleeps(1);
  const before = new Set(descendants().map(({ pid }) => pid));
  const worker = startWorker(t, { task: 'hang' });
  const [{ workspace }] = await once(worker, 'message');
  await eventuallySleeps(2);
  const added = descendants().filter(({ pid }) => !before.has(pid));
  assert.ok(fs.existsSync(workspace));

  await worker.terminate();
  await eventually(() => sleeps().length === 1, 'the box is still there');
  assert.deepEqual(
    sleeps().map(({ pid }) => pid),
    [ownSleep.pid],
  );
  const keeper = added.filter(({ ppid }) => ppid === process.pid);
  assert.equal(keeper.length, 1);
  await eventuallyGone(keeper);
  await eventually(() => !fs.existsSync(workspace), `${workspace} is there`);

  assert.equal((await sandbox.run(['true'])).exitCode, 0);
  await sandbox.close();
  await assert.rejects(own.result, { code: 'ERR_SANDBOX_CLOSED' });
});

async function eventuallySleeps(count) {
  await eventually(
    () => sleeps().length === count,
    () => JSON.stringify(descendants()),
  );
  return sleeps();
}

test('HST-05 workers that end while they load, open or run leave the host alone', async (t) => {
  for (const delayMs of [0, 5, 20, 40, 60, 80, 120]) {
    const worker = startWorker(t, { task: 'hang' });
    await once(worker, 'online');
    // No event marks these moments: any of them will do.
    await new Promise((resolve) => setTimeout(resolve, delayMs));
    await worker.terminate();
  }
  await eventually(
    () => childrenOf(process.pid).length === 1 && sleeps().length === 0,
    () => JSON.stringify(descendants()),
  );
  assert.equal((await (await open(t)).run(['true'])).exitCode, 0);
});

// ---- The host ends ---------------------------------------------------------

const ends = {
  exit: { exitCode: 7, signal: null },
  throw: { exitCode: 1, signal: null },
  reject: { exitCode: 1, signal: null },
  sigterm: { exitCode: null, signal: 'SIGTERM' },
};

for (const [way, expected] of Object.entries(ends)) {
  test(`HST-04 a host that ends in the middle of calls (${way}) leaves nothing`, async (t) => {
    const script = startScript(t, 'ends-mid-run.js', { args: [way] });
    const { pid } = script.child;
    const { workspaces } = JSON.parse(await script.line());
    let listed = [];
    await eventually(() => {
      listed = descendants(pid);
      return listed.filter(({ name }) => name === 'sleep').length === 2;
    }, 'two calls run');
    assert.ok(workspaces.every((folder) => fs.existsSync(folder)));
    if (hasCgroups) assert.ok(leaves(pid).length >= 4);

    script.child.stdin.end();
    const { exitCode, signal } = await script.ended;
    assert.deepEqual({ exitCode, signal }, expected);
    await eventuallyGone(listed);
    await eventually(() => leaves(pid).length === 0, 'cgroups are left', 3000);
    for (const folder of workspaces) {
      await eventually(() => !fs.existsSync(folder), `${folder} is left`, 3000);
    }
  });
}

test('HST-08 sandboxes that are forgotten and collected lose no call and leave nothing', async (t) => {
  const script = startScript(t, 'forgotten.js');
  const { pid } = script.child;
  const answer = JSON.parse(await script.line());
  assert.deepEqual(answer.finished, ['1\n', '2\n', '3\n']);
  assert.equal(answer.exitCode, 0);
  // It ends by itself, with three sessions open for all that it knows.
  assert.equal((await script.ended).exitCode, 0);
  await eventually(() => leaves(pid).length === 0, 'cgroups are left', 3000);
  for (const folder of answer.workspaces) {
    await eventually(() => !fs.existsSync(folder), `${folder} is left`, 3000);
  }
});

// ---- Our processes are killed ----------------------------------------------

for (const victim of ['launcher', 'keeper']) {
  test(`HST-02 SIGKILL of the ${victim} rejects what runs; the next call works, and files are kept`, async (t) => {
    const sandbox = await open(t);
    await sandbox.writeFile('kept', 'x');
    const kernel = await sandbox.kernel();
    assert.equal((await kernel.runCode('1')).success, true);
    const { result } = await startEndless(sandbox);
    await eventuallySleeps(1);
    const listed = descendants();

    process.kill(helpers()[victim], 'SIGKILL');
    await assert.rejects(result, (error) => {
      assert.ok(error instanceof SandboxError);
      assert.equal(error.code, 'ERR_SANDBOX_DIED');
      assert.match(
        error.message,
        /sandbox processes ended before the call did/,
      );
      assert.match(error.message, /The next call starts them again/);
      return true;
    });
    await assert.rejects(kernel.runCode('1'), {
      code: 'ERR_SANDBOX_KERNEL_DEAD',
      message: /sandbox processes ended/,
    });

    const next = await sandbox.runCode('cat kept; echo y > new', {
      language: 'bash',
    });
    assert.equal(next.stdout, 'x');
    assert.equal(next.exitCode, 0);
    assert.equal(await sandbox.readFile('new', 'utf8'), 'y\n');
    const fresh = await sandbox.kernel();
    assert.equal((await fresh.runCode('6 * 7')).results[0].text, '42');
    // The old ones are gone, all of them.
    await eventuallyGone(listed);
    assert.ok(!listed.some(({ pid }) => pid === helpers().launcher));
    const { workspace } = sandbox;
    await sandbox.close();
    assert.ok(!fs.existsSync(workspace));
  });

  test(`HST-02 SIGKILL of the idle ${victim} is not noticed by the next calls`, async (t) => {
    const sandbox = await open(t);
    assert.equal((await sandbox.run(['true'])).exitCode, 0);
    const victims = helpers();
    process.kill(victims[victim], 'SIGKILL');
    await eventuallyGone([{ pid: victims[victim], name: 'launcher' }]);
    const results = await Promise.all(
      [1, 2, 3].map((n) => sandbox.run(['echo', `${n}`])),
    );
    assert.deepEqual(
      results.map(({ stdout }) => stdout),
      ['1\n', '2\n', '3\n'],
    );
    assert.equal((await (await open(t)).run(['true'])).exitCode, 0);
  });
}

test('SIGKILL of a box by the host is fault "killed" of that call alone', async (t) => {
  const sandbox = await open(t);
  const [one, two] = [await startEndless(sandbox), await startEndless(sandbox)];
  const [first] = await eventuallySleeps(2);
  // Its parent is the init of its box.
  process.kill(first.ppid, 'SIGKILL');
  const result = await Promise.race([one.result, two.result]);
  assert.equal(result.fault.type, 'killed');
  assert.equal(result.exitCode, 137);
  assert.equal(result.stdout, 'up\n');
  assert.equal(sleeps().length, 1);
  const other = sleeps()[0];
  process.kill(other.pid, 'SIGTERM');
  const results = await Promise.all([one.result, two.result]);
  assert.deepEqual(results.map(({ signal }) => signal).sort(), [
    'SIGKILL',
    'SIGTERM',
  ]);
});

// ---- Two copies ------------------------------------------------------------

test('HST-23 two copies of the package work in one process', async (t) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cases-copy-'));
  t.after(() => fs.rmSync(folder, { recursive: true }));
  const root = path.join(__dirname, '..', '..');
  for (const name of [
    'package.json',
    'lib',
    'build/Release/glovebox.node',
    'build/Release/launcher',
    'build/Release/join.so',
  ]) {
    const target = path.join(folder, name);
    fs.mkdirSync(path.dirname(target), { recursive: true });
    fs.cpSync(path.join(root, name), target, { recursive: true });
  }
  const answer = await askScript(t, 'two-copies.js', { args: [folder] });
  assert.deepEqual(answer, {
    python: ['original\n', 'copy\n'],
    bash: ['original\n', 'copy\n'],
    node: ['original\n', 'copy\n'],
    areSeparate: true,
    afterCloseOfFirst: 0,
    runningInSecond: 'ERR_SANDBOX_CLOSED',
    hasOwnErrors: true,
  });
});

test('the root of a user namespace with one id is a plain user', async () => {
  const script = `
    const { withSandbox } = require(${JSON.stringify(path.join(__dirname, '../..'))});
    withSandbox(async (sandbox) => {
      const { stdout } = await sandbox.run(['id', '-u']);
      console.log(JSON.stringify([process.getuid(), stdout, sandbox.limits.memoryMb]));
    });`;
  const { stdout, stderr } = outside([
    'unshare',
    '--map-root-user',
    process.execPath,
    '--no-warnings',
    '-e',
    script,
  ]);
  assert.equal(stderr, '');
  assert.deepEqual(JSON.parse(stdout), [0, '1000\n', 'watchdog']);
});
