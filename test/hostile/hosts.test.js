// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rows HST in which the host process, or a helper of ours, dies or hangs. What
// is killed in the usual ways is in test/cases/host-process.test.js.

const assert = require('node:assert/strict');
const { once } = require('node:events');
const fs = require('node:fs');
const path = require('node:path');
const { Worker } = require('node:worker_threads');
const {
  descendants,
  eventually,
  eventuallyGone,
  hasCgroups,
  leaves,
  open,
  outside,
  soak,
  test,
  timeScale,
} = require('../helpers/harness.js');
const { startHost } = require('../helpers/host-script.js');
const { compile, hasCompiler } = require('./attack.js');

/** The helpers of host process `pid`: `{keeper, launcher}`, by number. */
function helpersOf(pid) {
  const list = descendants(pid);
  const [keeper, ...more] = list.filter(({ ppid }) => ppid === pid);
  assert.deepEqual(more, []);
  const launcher = list.find(({ ppid }) => ppid === keeper.pid);
  return { keeper: keeper.pid, launcher: launcher.pid };
}

async function assertNothingLeft(pid, listed, deadlineMs = 3000) {
  await eventuallyGone(listed, deadlineMs);
  const left = () => leaves(pid);
  await eventually(() => left().length === 0, 'cgroups are left', deadlineMs);
}

// ---- The host dies ---------------------------------------------------------

// Forks without end, in sessions of their own, deaf to what can be ignored.
const clinging = `import os, signal, time
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
print('up', flush=True)
count = 0
while True:
    if count < 40 and os.fork() == 0:
        os.setsid()
        count = 100
    count += 1
    time.sleep(0.01)`;

const ends = {
  // From outside, some 50 ms into the run.
  SIGKILL: () => {},
  'SIGKILL of itself in a callback': (h) => {
    h.onOutput = () => process.kill(process.pid, 'SIGKILL');
  },
  'process.exit() in a callback': (h) => {
    h.onOutput = () => process.exit(3);
  },
  'an exception in a callback': (h) => {
    h.onOutput = () => {
      throw new Error('on purpose');
    };
  },
  'process.abort() in a callback': (h) => {
    h.onOutput = () => process.abort();
  },
  SIGINT: (h) => {
    h.onOutput = () => process.kill(process.pid, 'SIGINT');
  },
};

for (const [how, prepare] of Object.entries(ends)) {
  const id = how === 'SIGKILL' ? 'HST-01' : 'HST-04';
  test(`${id} ${how} in the middle of a run that clings leaves nothing`, async (t) => {
    // Without it process.abort() takes a core of some 100 MB.
    const host = startHost(t, {
      wrapper: ['prlimit', '--core=0'],
    });
    const { pid } = host.child;
    await host.ask(prepare);
    const { workspace } = await host.ask(async (h, code) => {
      h.sandbox = await new h.glovebox.Sandbox().open();
      const started = new Promise((resolve) => {
        h.call = h.sandbox.runCode(code, {
          onStdout() {
            // The test's last look comes before the end.
            if (h.onOutput) process.stdin.once('end', h.onOutput);
            resolve();
          },
        });
      });
      await started;
      return { workspace: h.sandbox.workspace };
    }, clinging);
    let listed = [];
    await eventually(() => {
      listed = descendants(pid);
      return listed.filter(({ name }) => /^python/.test(name)).length >= 5;
    }, 'it has forked');
    assert.ok(fs.existsSync(workspace));
    if (hasCgroups) assert.ok(leaves(pid).length >= 1);

    if (how === 'SIGKILL') host.child.kill('SIGKILL');
    else host.child.stdin.end();
    const { exitCode, signal } = await host.ended;
    assert.ok(exitCode !== 0 || signal, `${exitCode} ${signal}`);
    await assertNothingLeft(pid, listed, 2000);
    await eventually(() => !fs.existsSync(workspace), `${workspace} is left`);
  });
}

// ---- Worker threads --------------------------------------------------------

test('HST-05 twenty workers that are terminated at once, each in a run, take only their boxes along', async (t) => {
  const sandbox = await open(t);
  const kernel = await sandbox.kernel();
  await kernel.runCode('x = 1');
  const workspaces = [];
  const rounds = soak ? 10 : 1;
  const file = path.join(__dirname, '../cases/fixtures/worker.js');
  for (let round = 0; round < rounds; round++) {
    const workers = Array.from({ length: 20 }, () => {
      const worker = new Worker(file, { workerData: { task: 'hang' } });
      t.after(() => worker.terminate());
      return worker;
    });
    // Half of them in their runs, the others wherever they are by then.
    const started = workers.map(async (worker) => {
      const [{ workspace }] = await once(worker, 'message');
      workspaces.push(workspace);
    });
    await Promise.all(started.slice(0, 10));
    await Promise.all(workers.map((worker) => worker.terminate()));
    const isWorkers = ({ ppid }) => ppid === process.pid;
    await eventually(
      () => descendants().filter(isWorkers).length === 1,
      () => JSON.stringify(descendants()),
      10000,
    );
    assert.equal((await kernel.runCode('x')).results[0].text, '1');
    assert.equal((await sandbox.run(['true'])).exitCode, 0);
  }
  assert.ok(workspaces.length >= 10 * rounds);
  for (const folder of workspaces) {
    await eventually(() => !fs.existsSync(folder), `${folder} is left`);
  }
});

test('HST-17 boxes start and end well while eight threads allocate as fast as they can', async (t) => {
  const host = startHost(t);
  const count = soak ? 1000 : 60;
  const answer = await host.ask(async (h, boxes) => {
    const allocate = `
      const { workerData } = require('node:worker_threads');
      const count = new Int32Array(workerData);
      for (;;) {
        const kept = [];
        for (let i = 0; i < 100; i++) {
          kept.push(Buffer.alloc(1 + (i * 997) % 65536), new Map([[i, {}]]));
        }
        Atomics.add(count, 0, kept.length);
      }`;
    const shared = new SharedArrayBuffer(4);
    const threads = Array.from(
      { length: 8 },
      () => new h.workers.Worker(allocate, { eval: true, workerData: shared }),
    );
    const allocated = new Int32Array(shared);
    // Threads take their time to start.
    while (Atomics.load(allocated, 0) < 1000) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    const before = Atomics.load(allocated, 0);
    const stdouts = await h.glovebox.withSandbox((sandbox) =>
      Promise.all(
        Array.from({ length: boxes }, async (_, i) => {
          const { stdout } = await sandbox.run(['echo', `${i}`]);
          return stdout;
        }),
      ),
    );
    const meanwhile = Atomics.load(allocated, 0) - before;
    await Promise.all(threads.map((thread) => thread.terminate()));
    return { stdouts, meanwhile };
  }, count);
  assert.deepEqual(
    answer.stdouts,
    Array.from({ length: count }, (_, i) => `${i}\n`),
  );
  assert.ok(answer.meanwhile > 0, 'the threads stood still');
  assert.equal((await host.end()).exitCode, 0);
});

// ---- Garbage ---------------------------------------------------------------

test('HST-08 forgotten sessions, kernels and runs survive collection, and nothing is left at the end', async (t) => {
  const host = startHost(t, { flags: ['--expose-gc'] });
  const { pid } = host.child;
  const answer = await host.ask(async (h) => {
    const { Sandbox } = h.glovebox;
    const workspaces = [];
    let ended = 0;
    for (let i = 0; i < 10; i++) {
      const sandbox = await new Sandbox().open();
      workspaces.push(sandbox.workspace);
      const kernel = await sandbox.kernel();
      await kernel.runCode('x = [0] * 1000');
      sandbox.run(['sleep', '0.1']).then(() => {
        ended++;
      });
      globalThis.gc();
    }
    while (ended < 10) {
      globalThis.gc();
      await new Promise(setImmediate);
    }
    // Run finalizers, which Node calls in a later turn.
    for (let i = 0; i < 20; i++) {
      globalThis.gc();
      await new Promise(setImmediate);
    }
    return { workspaces, next: await h.callOnce() };
  });
  assert.equal(answer.next.value.stdout, 'hi\n');
  const listed = descendants(pid);
  const { exitCode, stderr } = await host.end();
  assert.equal(exitCode, 0, stderr);
  await assertNothingLeft(pid, listed);
  for (const folder of answer.workspaces) {
    await eventually(() => !fs.existsSync(folder), `${folder} is left`);
  }
});

test('HST-08 a forgotten session without a Kernel is closed when it is collected', async (t) => {
  const host = startHost(t, { flags: ['--expose-gc'] });
  const { left, next } = await host.ask(async (h) => {
    const use = async () => {
      const sandbox = await new h.glovebox.Sandbox().open();
      await sandbox.runCode('echo x > f', { language: 'bash' });
      return sandbox.workspace;
    };
    const workspaces = await Promise.all([use(), use(), use()]);
    const end = Date.now() + 10000;
    const isThere = (folder) => h.fs.existsSync(folder);
    while (workspaces.some(isThere) && Date.now() < end) {
      globalThis.gc();
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    return { left: workspaces.filter(isThere), next: await h.callOnce() };
  });
  assert.deepEqual(left, []);
  assert.equal(next.value.stdout, 'hi\n');
  assert.equal((await host.end()).exitCode, 0);
});

// ---- A launcher that crashes -----------------------------------------------

async function startSleep(h) {
  h.sandbox ??= await new h.glovebox.Sandbox().open();
  await new Promise((onStdout) => {
    h.call = h.outcome(
      h.sandbox.runCode('echo up; exec sleep 60', {
        language: 'bash',
        timeoutS: 50,
        onStdout,
      }),
    );
  });
}

for (const signal of ['SIGSEGV', 'SIGABRT', 'SIGTERM', 'SIGHUP']) {
  test(`HST-02 ${signal} does nothing to a launcher`, async (t) => {
    const host = startHost(t);
    await host.ask(startSleep);
    const { launcher } = helpersOf(host.child.pid);
    process.kill(launcher, signal);
    const next = await host.ask((h) =>
      h.outcome(h.sandbox.run(['echo', 'hi'])),
    );
    assert.equal(next.value.stdout, 'hi\n');
    assert.equal(helpersOf(host.child.pid).launcher, launcher);
    host.child.kill('SIGKILL');
    await host.ended;
  });
}

test('HST-02 a launcher that crashes in the middle of calls rejects them within a second, and is replaced', {
  skip: !hasCompiler() && 'there is no C compiler',
}, async (t) => {
  const host = startHost(t);
  const { pid } = host.child;
  await host.ask(startSleep);
  const listed = descendants(pid);
  const { launcher } = helpersOf(pid);
  // A signal would not do: the pid 1 of a namespace gets none from outside that
  // it did not ask for, but SIGKILL and SIGSTOP.
  const crash = outside([compile('crash'), String(launcher)]);
  assert.equal(crash.exitCode, 0, crash.stderr);
  const outcome = await host.ask(async (h) => {
    const start = performance.now();
    // It sleeps in a call: the next message wakes it, and it goes on to crash.
    const calls = [
      h.outcome(h.sandbox.run(['echo', 'hi'])),
      h.outcome(h.glovebox.withSandbox((box) => box.run(['echo', 'hi']))),
    ];
    return {
      call: await h.call,
      calls: await Promise.all(calls),
      took: performance.now() - start,
      next: await h.outcome(h.sandbox.run(['echo', 'hi'])),
    };
  });
  assert.equal(outcome.call.code, 'ERR_SANDBOX_DIED');
  assert.match(outcome.call.message, /The next call starts them again/);
  for (const { value, code } of outcome.calls) {
    if (!value) assert.equal(code, 'ERR_SANDBOX_DIED');
  }
  assert.ok(outcome.took < 1000 * timeScale, `${outcome.took} ms`);
  assert.equal(outcome.next.value.stdout, 'hi\n');
  await eventuallyGone(listed);
  assert.notEqual(helpersOf(pid).launcher, launcher);
  const { exitCode, stderr } = await host.end();
  assert.equal(exitCode, 0, stderr);
});

// ---- Helpers that hang -----------------------------------------------------

// The end of a killed run is awaited for 5 s.
const patienceMs = 5000;

test('PRC-08 HST-02 a launcher or keeper that is stopped holds up no call and no close for ever', async (t) => {
  // Both take their time, and do so together.
  await Promise.all(
    ['launcher', 'keeper'].map((victim) => stopAndCall(t, victim)),
  );
});

async function stopAndCall(t, victim) {
  const host = startHost(t);
  const { pid } = host.child;
  await host.ask(async (h) => {
    h.sandbox = await new h.glovebox.Sandbox().open();
    h.kernel = await h.sandbox.kernel();
    await h.kernel.runCode('x = 1');
  });
  const stopped = helpersOf(pid)[victim];
  process.kill(stopped, 'SIGSTOP');
  t.after(() => {
    try {
      process.kill(stopped, 'SIGKILL');
    } catch {
      // It was replaced.
    }
  });
  const answer = await host.ask(async (h) => {
    const { performance } = globalThis;
    const time = async (promise) => {
      const start = performance.now();
      const outcome = await h.outcome(promise);
      return { ...outcome, took: performance.now() - start };
    };
    // More than there are ready boxes, which need no keeper.
    const calls = await Promise.all(
      [1, 2, 3, 4].map(() =>
        time(h.sandbox.run(['echo', 'hi'], { timeoutS: 0.5 })),
      ),
    );
    const cell = await h.kernel.runCode('x');
    return {
      calls,
      // What runs does not need them.
      cell: cell.results[0].text,
      close: await time(h.sandbox.close()),
    };
  });
  const hung = answer.calls.filter(({ value }) => value?.fault);
  if (victim === 'launcher') assert.equal(hung.length, 4);
  for (const { value, took } of answer.calls) {
    assert.ok(
      value.fault?.type === 'timeout' || value.stdout === 'hi\n',
      JSON.stringify(value),
    );
    assert.ok(took < (patienceMs + 2500) * timeScale, `${took} ms`);
  }
  assert.equal(answer.cell, '1');
  const { code, took } = answer.close;
  assert.equal(code, undefined);
  assert.ok(took < (patienceMs + 2000) * timeScale, `${took} ms`);

  // With nothing heard for half a minute both are replaced.
  if (soak) {
    const later = await host.ask(async (h) => {
      const end = Date.now() + 60000;
      let outcome;
      do {
        outcome = await h.callOnce({ timeoutS: 1 });
      } while (outcome.value?.stdout !== 'hi\n' && Date.now() < end);
      return outcome;
    });
    assert.equal(later.value?.stdout, 'hi\n');
    assert.notEqual(helpersOf(pid)[victim], stopped);
  }
  host.child.kill('SIGKILL');
  await host.ended;
}
