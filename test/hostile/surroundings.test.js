// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rows HST on what is around: a kernel that lacks something, and a process in
// which other code takes signals, children and clocks into its own hands.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const {
  descendants,
  eventually,
  eventuallyGone,
  isRoot,
  makeFolder,
  outside,
  skip,
  soak,
  test,
  timeScale,
} = require('../helpers/harness.js');
const { startHost } = require('../helpers/host-script.js');
const {
  compile,
  compileLibrary,
  hasCompiler,
  numbers,
} = require('./attack.js');

const needsCompiler = { skip: !hasCompiler() && 'there is no C compiler' };

/**
 * What a session has to do right anywhere: output of each kind, exit codes,
 * signals, a deadline, a Kernel, files, and calls at the same time. Resolves
 * with what was wrong: nothing, if all is well. For `host.ask()`.
 */
async function smoke(h) {
  const wrong = [];
  const check = (what, got, wanted) => {
    if (got !== wanted) wrong.push(`${what}: ${got}, not ${wanted}`);
  };
  await h.glovebox.withSandbox(async (sandbox) => {
    const bash = { language: 'bash' };
    const python = await sandbox.runCode('open("f", "w").write("x"); print(1)');
    check('python', python.stdout, '1\n');
    check('files', python.files[0]?.path, 'f');
    const exit = await sandbox.runCode('echo e >&2; exit 7', bash);
    check('stderr', exit.stderr, 'e\n');
    check('exit code', exit.exitCode, 7);
    const signal = await sandbox.runCode('kill -TERM $$', bash);
    check('signal', signal.signal, 'SIGTERM');
    const late = await sandbox.run(['sleep', '60'], { timeoutS: 0.2 });
    check('deadline', late.fault?.type, 'timeout');
    const kernel = await sandbox.kernel();
    const cell = await kernel.runCode('6 * 7');
    check('kernel', cell.results[0]?.text, '42');
    await sandbox.writeFile('d/g', 'y');
    check('readFile', await sandbox.readFile('d/g', 'utf8'), 'y');
    const many = await Promise.all(
      [1, 2, 3, 4, 5, 6, 7, 8].map((n) => sandbox.run(['echo', `${n}`])),
    );
    check(
      'at once',
      many.map(({ stdout }) => stdout).join(''),
      '1\n2\n3\n4\n5\n6\n7\n8\n',
    );
    const forbidden = await sandbox.runCode(
      'import ctypes; ctypes.CDLL(None).unshare(0x10000000); print("made")',
    );
    check('filter', forbidden.fault?.type, 'escape_blocked');
  });
  return wrong;
}

async function assertWorks(host, title) {
  assert.deepEqual(await host.ask(smoke), [], title);
}

async function end(host) {
  const listed = descendants(host.child.pid);
  const { exitCode, signal, stderr } = await host.end();
  assert.deepEqual([exitCode, signal], [0, null], stderr);
  await eventuallyGone(listed);
}

// ---- Kernels that lack something -------------------------------------------

const memfdCreate = process.arch === 'x64' ? 319 : 279;
const closeRange = 436;

// What nothing can replace: refused, by name, and at once.
const needed = {
  openat2: numbers.openat2,
  clone3: numbers.clone3,
  close_range: closeRange,
  pidfd_open: numbers.pidfd_open,
  pidfd_send_signal: numbers.pidfd_send_signal,
  mount_setattr: numbers.mount_setattr,
  open_tree: numbers.open_tree,
  move_mount: 429,
  memfd_create: memfdCreate,
};

for (const [name, number] of Object.entries(needed)) {
  test(
    `HST-16 a kernel without ${name} is refused by that name`,
    needsCompiler,
    async (t) => {
      const { ENOSYS } = os.constants.errno;
      const host = startHost(t, {
        wrapper: [compile('without-call'), String(number), String(ENOSYS)],
      });
      const { outcome, took } = await host.ask(async (h) => {
        const start = performance.now();
        const answer = await h.callOnce();
        return { outcome: answer, took: performance.now() - start };
      });
      assert.equal(outcome.code, 'ERR_SANDBOX_UNSUPPORTED', outcome.message);
      assert.equal(outcome.step, name);
      assert.equal(outcome.errno, 'ENOSYS');
      // In a container it is more likely to be the one that lacks it.
      assert.match(outcome.message, /Linux 5\.15|container around this/);
      assert.ok(took < 5000 * timeScale, `${took} ms`);
      await end(host);
    },
  );
}

// What is not used, or only where there is: nothing is missing without it.
const dispensable = {
  Landlock: numbers.landlock_create_ruleset,
  pidfd_getfd: numbers.pidfd_getfd,
  // yama.ptrace_scope=3 forbids it to everyone.
  'ptrace (HST-25)': numbers.ptrace,
};

for (const [name, number] of Object.entries(dispensable)) {
  test(`HST-16 without ${name} all is as it was`, needsCompiler, async (t) => {
    const { ENOSYS } = os.constants.errno;
    const host = startHost(t, {
      wrapper: [compile('without-call'), String(number), String(ENOSYS)],
    });
    await assertWorks(host);
    await end(host);
  });
}

// ---- Signals and children --------------------------------------------------

const disturbances = {
  'HST-19 a signal each millisecond in every thread interrupts no call for good':
    { disturb: 'interrupt', least: 100 },
  'HST-20 a host that ignores SIGCHLD gets every result': {
    disturb: 'ignore',
    least: 0,
  },
  'HST-20 a host with a thread that reaps every child gets every result': {
    disturb: 'reap',
    least: 1,
  },
};

for (const [title, { disturb, least }] of Object.entries(disturbances)) {
  test(title, needsCompiler, async (t) => {
    const file = path.join(makeFolder(t), 'count');
    fs.writeFileSync(file, Buffer.alloc(4));
    const count = () => fs.readFileSync(file).readInt32LE(0);
    const host = startHost(t, {
      env: { DISTURB: disturb, DISTURB_COUNT: file },
    });
    const { pid } = host.child;
    // Interpreters are looked for by Node's own means, which such an addon
    // breaks: that is done by then.
    await host.ask((h) => h.callOnce());
    await host.ask((_h, addon) => {
      process.dlopen({ exports: {} }, addon);
    }, compileLibrary('disturb'));
    for (let round = 0; round < (soak ? 50 : 2); round++) {
      await assertWorks(host, `round ${round}`);
      // Its helpers end, unseen, and are started anew.
      const keeper = descendants(pid).find(({ ppid }) => ppid === pid);
      process.kill(keeper.pid, 'SIGKILL');
      await eventually(
        () => !descendants(pid).some((found) => found.pid === keeper.pid),
        'the killed keeper is still there',
      );
    }
    await assertWorks(host, 'at the end');
    assert.ok(count() >= least, `${count()} signals or children`);
    await end(host);
  });
}

// ---- Clocks ----------------------------------------------------------------

test(
  'HST-22 a wall clock that is set back and forth changes no duration and no deadline',
  needsCompiler,
  async (t) => {
    const host = startHost(t, {
      env: { LD_PRELOAD: compileLibrary('odd-clock') },
    });
    const { steps, result, late } = await host.ask(async (h) => {
      const times = Array.from({ length: 20 }, () => Date.now());
      return h.glovebox.withSandbox(async (sandbox) => ({
        steps: times.map((time, i) => time - times[Math.max(0, i - 1)]),
        result: await sandbox.run(['sleep', '0.2']),
        late: await sandbox.run(['sleep', '60'], { timeoutS: 0.5 }),
      }));
    });
    // The clock of the host process does jump.
    assert.ok(
      steps.some((step) => step < -3600e3),
      `${steps}`,
    );
    assert.ok(
      steps.some((step) => step > 3600e3),
      `${steps}`,
    );
    for (const [{ durationMs, usage }, wanted] of [
      [result, 200],
      [late, 500],
    ]) {
      assert.ok(durationMs >= wanted, `${durationMs} ms`);
      assert.ok(durationMs < (wanted + 2000) * timeScale, `${durationMs} ms`);
      assert.equal(usage.wallMs, durationMs);
    }
    assert.equal(late.fault.type, 'timeout');
    await end(host);
  },
);

// ---- Loaded twice ----------------------------------------------------------

test('HST-23 the module loaded again, from a second folder and in a worker, is three that do not meet', async (t) => {
  const folder = makeFolder(t);
  const root = path.join(__dirname, '..', '..');
  for (const name of ['package.json', 'lib', 'build/Release']) {
    const target = path.join(folder, name);
    fs.mkdirSync(path.dirname(target), { recursive: true });
    fs.cpSync(path.join(root, name), target, {
      recursive: true,
      filter: (file) => !/obj\.target|\.deps|\.a$/.test(file),
    });
  }
  const host = startHost(t);
  const { pid } = host.child;
  const answer = await host.ask(async (h, copyFolder) => {
    await h.callOnce(); // The first loads its native part.
    for (const name of Object.keys(h.require.cache)) {
      if (name.startsWith(h.packageFolder)) delete h.require.cache[name];
    }
    const again = h.require(h.packageFolder);
    const copy = h.require(copyFolder);
    const worker = new h.workers.Worker(
      `const { parentPort } = require('node:worker_threads');
       const load = require(${JSON.stringify(copyFolder)});
       load.runCode('print(1)').then(({ stdout }) => parentPort.postMessage(stdout));`,
      { eval: true },
    );
    const modules = [h.glovebox, again, copy];
    const sandboxes = await Promise.all(
      modules.map((module) => new module.Sandbox().open()),
    );
    const running = sandboxes.map((sandbox) =>
      h.outcome(sandbox.run(['sleep', '60'])),
    );
    const [ofWorker] = await Promise.all([
      new Promise((resolve) => worker.once('message', resolve)),
      ...sandboxes.map((sandbox) => sandbox.run(['true'])),
    ]);
    await worker.terminate();
    // The end of the second is nothing to the others.
    await sandboxes[1].close();
    const closed = await running[1];
    const others = await Promise.all(
      [sandboxes[0], sandboxes[2]].map((sandbox) => sandbox.run(['echo', 'x'])),
    );
    h.rest = [sandboxes[0], sandboxes[2]];
    return {
      different: new Set(modules.map(({ Sandbox }) => Sandbox)).size,
      ofWorker,
      closed: closed.code,
      others: others.map(({ stdout }) => stdout),
    };
  }, folder);
  assert.deepEqual(answer, {
    different: 3,
    ofWorker: '1\n',
    closed: 'ERR_SANDBOX_CLOSED',
    others: ['x\n', 'x\n'],
  });
  const keepers = descendants(pid).filter(({ ppid }) => ppid === pid);
  assert.equal(keepers.length, 3, 'one for each copy that is loaded');
  await host.ask((h) => Promise.all(h.rest.map((sandbox) => sandbox.close())));
  await end(host);
});

// ---- Debuggers -------------------------------------------------------------

test('HST-25 a host process that is traced works', async (t) => {
  const hasStrace = outside(['strace', '-V']).exitCode === 0;
  if (!hasStrace) return skip(t, 'there is no strace');
  const log = path.join(makeFolder(t), 'trace');
  const host = startHost(t, {
    // All threads, and all that they start: keeper, launcher and boxes.
    wrapper: ['strace', '-f', '-qq', '-e', 'trace=execve', '-o', log],
  });
  const works = await host.ask(smoke);
  assert.deepEqual(works, []);
  const traced = fs.readFileSync(log, 'utf8');
  assert.match(traced, /execve\("[^"]*launcher", \["glovebox-keeper"/);
  assert.equal((await host.end()).exitCode, 0);
});

// ---- Numbers that are used again -------------------------------------------

/**
 * Makes the next process of this pid namespace get a number. In one of its own,
 * where nobody else takes it.
 */
const inOwnPids = [
  'unshare',
  ...(isRoot ? [] : ['--map-root-user']),
  '--pid',
  '--fork',
  '--kill-child',
  '--mount-proc',
];

test('HST-26 what ends late ends no other process that got the number of a box', async (t) => {
  if (outside([...inOwnPids, 'true']).exitCode !== 0) {
    return skip(t, 'no pid namespace with a /proc of its own can be made');
  }
  const host = startHost(t, { wrapper: inOwnPids });
  const answer = await host.ask(async (h) => {
    const pids = () =>
      h.fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name));
    const sandbox = await new h.glovebox.Sandbox().open();
    await sandbox.run(['true']);
    let ofBox = [];
    const kernel = await sandbox.kernel();
    const call = sandbox.runCode('echo up; sleep 0.2', {
      language: 'bash',
      timeoutS: 1.5,
      onStdout() {
        ofBox = pids();
      },
    });
    await call;
    const isGone = (pid) => !h.fs.existsSync(`/proc/${pid}`);
    while (!ofBox.some(isGone)) await new Promise(setImmediate);
    // Sleeps take the numbers of all that is gone: of init and of the payload.
    const sleeps = [];
    const wanted = ofBox.filter(isGone).map(Number);
    for (const pid of wanted) {
      h.fs.writeFileSync('/proc/sys/kernel/ns_last_pid', String(pid - 1));
      sleeps.push(h.childProcess.spawn('sleep', ['60']));
    }
    const taken = sleeps.filter(({ pid }) => wanted.includes(pid));
    // The deadline of the call passes, the session closes, the helpers end.
    await new Promise((resolve) => setTimeout(resolve, 1600));
    await kernel.close();
    await sandbox.close();
    const alive = sleeps.filter(
      ({ exitCode, signalCode }) => exitCode === null && signalCode === null,
    );
    for (const sleep of sleeps) sleep.kill();
    return {
      wanted: wanted.length,
      taken: taken.length,
      started: sleeps.length,
      alive: alive.length,
    };
  });
  assert.ok(answer.taken >= 1, JSON.stringify(answer));
  assert.equal(answer.alive, answer.started);
  assert.equal((await host.end()).exitCode, 0);
});
