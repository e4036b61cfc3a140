// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rows HST in which the host process is short of something: descriptors, space,
// memory, processes. Whatever is missing, and at whatever step: a call has its
// right result or an error that names the shortage, and when there is enough
// again the next call works.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const {
  descendants,
  eventually,
  eventuallyGone,
  isRoot,
  leaves,
  makeFolder,
  outside,
  skip,
  soak,
  test,
} = require('../helpers/harness.js');
const { startHost } = require('../helpers/host-script.js');
const { compileLibrary, hasCompiler } = require('./attack.js');

/** The last lines of every test here: it ends by itself and leaves nothing. */
async function endWithNothingLeft(host) {
  const { pid } = host.child;
  const listed = descendants(pid);
  const { exitCode, stderr } = await host.end();
  assert.equal(exitCode, 0, stderr);
  await eventuallyGone(listed);
  await eventually(() => leaves(pid).length === 0, 'cgroups are left');
}

/**
 * One session with a call, a Kernel's cell and files. Tells what went wrong, or
 * which answer was. Installed in the host as `host.useAll()`.
 */
async function installUseAll(host) {
  await host.ask((h) => {
    const use = async (sandbox) => {
      const { stdout, truncated } = await sandbox.runCode(
        'open("f", "w").write("x"); print(1)',
      );
      const kernel = await sandbox.kernel();
      const cell = await kernel.runCode('6 * 7');
      await sandbox.writeFile('d/g', 'y');
      const files = await sandbox.listFiles();
      return {
        // What there was no room for is said to be cut off.
        isRight:
          (stdout === '1\n' || truncated) &&
          (cell.results[0]?.text === '42' || cell.truncated) &&
          files.map((file) => file.path).join() === 'd/g,f' &&
          (await sandbox.readFile('f', 'utf8')) === 'x',
        stdout,
        results: cell.results.length,
        files,
      };
    };
    h.useAll = () => h.outcome(h.glovebox.withSandbox(use));
  });
}

// ---- Descriptors -----------------------------------------------------------

test('HST-09 EMFILE at whatever step is an error of that name, and the next call works', async (t) => {
  const host = startHost(t, { wrapper: ['prlimit', '--nofile=200:200'] });
  await installUseAll(host);
  // Takes all descriptors but a few, tries, and gives them back.
  await host.ask((h) => {
    const held = [];
    const take = () => {
      try {
        for (;;) held.push(h.fs.openSync('/dev/null'));
      } catch (error) {
        if (error.code !== 'EMFILE') throw error;
      }
    };
    h.tryWith = async (count) => {
      take();
      for (let i = 0; i < count; i++) h.fs.closeSync(held.pop());
      const outcome = await h.useAll();
      for (const fd of held.splice(0)) h.fs.closeSync(fd);
      return outcome;
    };
  });

  // Before there is an engine; with one; and with one whose helpers died.
  const stages = {
    cold: (h, count) => h.tryWith(count),
    warm: async (h, count) => [await h.tryWith(count), await h.useAll()],
    restart: async (h, count, keeper) => {
      process.kill(keeper, 'SIGKILL');
      while (h.fs.existsSync(`/proc/${keeper}`)) {
        await new Promise(setImmediate);
      }
      return [await h.tryWith(count), await h.useAll()];
    },
  };
  for (const [stage, attempt] of Object.entries(stages)) {
    const steps = new Set();
    for (let count = 0; ; count++) {
      assert.ok(count < 60, `${stage}: 60 descriptors do not suffice`);
      const keeper = descendants(host.child.pid).find(
        ({ ppid }) => ppid === host.child.pid,
      );
      const answer = await host.ask(attempt, count, keeper?.pid);
      const [short, next = { value: { isRight: true } }] = [answer].flat();
      const title = `${stage} ${count}: ${JSON.stringify(short)}`;
      assert.ok(next.value?.isRight, `${title}, next ${JSON.stringify(next)}`);
      if (short.value) {
        assert.ok(short.value.isRight, title);
        break;
      }
      // The dynamic linker has no errno to give.
      if (short.code === 'ERR_SANDBOX_LOAD') {
        assert.match(short.message, /Too many open files/);
        continue;
      }
      const codes = /^ERR_SANDBOX_(START|SETUP|WORKSPACE|IO)$/;
      assert.match(short.code, codes, title);
      assert.equal(short.errno, 'EMFILE', title);
      assert.match(short.message, /ulimit -n/);
      steps.add(short.step);
    }
    assert.ok(steps.size >= 2, `${stage}: ${[...steps]}`);
  }
  await endWithNothingLeft(host);
});

// Else what other tests have on its way between processes counts.
const onlyRoot = {
  skip: !isRoot && 'the quota is that of all who run as this user',
};

test(
  'HST-09 boxes that wait leave enough descriptors to calls',
  onlyRoot,
  async (t) => {
    // Each box of the launcher has ten.
    const host = startHost(t, { wrapper: ['prlimit', '--nofile=64:64'] });
    const outcome = await host.ask((h) =>
      h.outcome(
        h.glovebox.withSandbox({ warm: false }, async (sandbox) => {
          const answers = new Set();
          for (let i = 0; i < 40; i++) {
            answers.add((await sandbox.run(['echo', 'x'])).stdout);
            answers.add((await sandbox.runCode('print("x")')).stdout);
          }
          return [...answers];
        }),
      ),
    );
    assert.deepEqual(outcome, { value: ['x\n'] });
    await endWithNothingLeft(host);
  },
);

// ---- Space -----------------------------------------------------------------

/** An argv that runs another with mounts of its own, after `script`. */
function withOwnMounts(script) {
  // A plain user may mount in a user namespace of its own.
  const options = isRoot ? ['--mount'] : ['--mount', '--map-root-user'];
  return ['unshare', ...options, 'sh', '-ec', `${script}\nexec "$@"`, 'sh'];
}

test('HST-11 ENOSPC in TMPDIR is an error of that name, and partial files are removed', async (t) => {
  const folder = makeFolder(t);
  const host = startHost(t, {
    wrapper: withOwnMounts(
      `mount -t tmpfs -o size=64k,nr_inodes=40,mode=0777 none '${folder}'`,
    ),
    env: { TMPDIR: folder },
  });
  await host.ask((h, temp) => {
    h.list = () => h.fs.readdirSync(temp).filter((name) => /^gl/.test(name));
    const file = h.path.join(temp, 'full');
    h.fillSpace = () => {
      try {
        h.fs.writeFileSync(file, Buffer.alloc(2 ** 20));
      } catch (error) {
        if (error.code !== 'ENOSPC') throw error;
      }
    };
    h.fillInodes = () => {
      h.fs.mkdirSync(file);
      try {
        for (let i = 0; ; i++) h.fs.writeFileSync(`${file}/${i}`, '');
      } catch (error) {
        if (error.code !== 'ENOSPC') throw error;
      }
    };
    h.free = () => h.fs.rmSync(file, { recursive: true });
  }, folder);

  // No room for a workspace at all.
  const noWorkspace = await host.ask(async (h) => {
    h.fillInodes();
    const outcome = await h.callOnce();
    h.free();
    return { outcome, left: h.list(), next: await h.callOnce() };
  });
  assert.equal(noWorkspace.outcome.code, 'ERR_SANDBOX_WORKSPACE');
  assert.equal(noWorkspace.outcome.errno, 'ENOSPC');
  assert.match(noWorkspace.outcome.message, /disk is full.*TMPDIR/);
  assert.deepEqual(noWorkspace.left, []);
  assert.equal(noWorkspace.next.value.stdout, 'hi\n');

  // Full when it is there: calls run, what they write is their own trouble.
  const full = await host.ask(async (h) => {
    h.fillSpace();
    const sandbox = await new h.glovebox.Sandbox().open();
    const bash = { language: 'bash' };
    const answer = {
      runs: (await sandbox.run(['echo', 'hi'])).stdout,
      inBox: (await sandbox.runCode('echo x > f', bash)).stderr,
      write: await h.outcome(sandbox.writeFile('g', 'x'.repeat(9999))),
      left: h.fs.readdirSync(sandbox.workspace),
    };
    h.free();
    await sandbox.writeFile('g', 'first');
    h.fillSpace();
    answer.overwrite = await h.outcome(
      sandbox.writeFile('g', 'x'.repeat(99999)),
    );
    answer.kept = await sandbox.readFile('g', 'utf8');
    h.free();
    await sandbox.close();
    return { ...answer, afterClose: h.list(), next: await h.callOnce() };
  });
  assert.equal(full.runs, 'hi\n');
  assert.match(full.inBox, /No space left on device/);
  for (const { code, errno } of [full.write, full.overwrite]) {
    assert.deepEqual([code, errno], ['ERR_SANDBOX_IO', 'ENOSPC']);
  }
  assert.deepEqual(full.left, ['f']);
  assert.equal(full.kept, 'first');
  assert.deepEqual(full.afterClose, []);
  assert.equal(full.next.value.stdout, 'hi\n');
  await endWithNothingLeft(host);
});

test('HST-11 a read-only /tmp is named, and a workspace elsewhere works', async (t) => {
  const folder = makeFolder(t);
  const host = startHost(t, {
    wrapper: withOwnMounts(`
mount -t tmpfs -o mode=0755 none '${folder}'
mount --rbind /tmp /tmp
mount -o remount,bind,ro /tmp`),
    env: { TMPDIR: undefined },
  });
  const refused = await host.ask((h) => h.callOnce());
  assert.equal(refused.code, 'ERR_SANDBOX_WORKSPACE');
  assert.equal(refused.errno, 'EROFS');
  assert.match(refused.message, /"\/tmp"/);
  const works = await host.ask(
    (h, workspace) => h.callOnce({ workspace }),
    path.join(folder, 'workspace'),
  );
  assert.equal(works.value?.stdout, 'hi\n', JSON.stringify(works));
  await endWithNothingLeft(host);
});

// ---- Memory ----------------------------------------------------------------

test('HST-12 ENOMEM at whatever allocation is an error of that name, and the next call works', {
  skip: !hasCompiler() && 'there is no C compiler',
}, async (t) => {
  const control = path.join(makeFolder(t), 'control');
  fs.writeFileSync(control, Buffer.alloc(8));
  const host = startHost(t, {
    env: {
      FAIL_MALLOC: control,
      LD_PRELOAD: compileLibrary('fail-malloc'),
    },
  });
  await installUseAll(host);
  await host.ask((h, file) => {
    const fd = h.fs.openSync(file, 'r+');
    const numbers = new Int32Array(2);
    h.setLeft = (left) => {
      h.fs.writeSync(fd, Int32Array.of(left), 0, 4, 0);
    };
    h.countFailed = () => {
      h.fs.readSync(fd, numbers, 0, 8, 0);
      return numbers[1];
    };
    h.setLeft(-1);
  }, control);
  assert.ok((await host.ask((h) => h.useAll())).value.isRight);

  // Some at a time of which it takes many: a soak tries each.
  const step = soak ? 1 : 13;
  let failures = 0;
  for (let left = 0; ; left += step) {
    const { first, next, failed } = await host.ask(async (h, count) => {
      const before = h.countFailed();
      h.setLeft(count);
      const outcome = await h.useAll();
      h.setLeft(-1);
      const failedNow = h.countFailed() - before;
      return {
        first: outcome,
        failed: failedNow,
        next: failedNow > 0 ? await h.useAll() : outcome,
      };
    }, left);
    const title = `allocation ${left}: ${JSON.stringify(first)}`;
    assert.ok(next.value?.isRight, `${title}, next ${JSON.stringify(next)}`);
    if (first.value) assert.ok(first.value.isRight, title);
    else assert.match(first.code, /_(NO_MEMORY|KERNEL_DEAD)$/, title);
    if (first.code?.endsWith('NO_MEMORY')) failures++;
    if (failed === 0) break;
  }
  assert.ok(failures >= 3, `${failures} failures`);
  await endWithNothingLeft(host);
});

// ---- Processes -------------------------------------------------------------

/**
 * A way to let no further process be made by a host process and what it
 * started: a pids cgroup as root, whom RLIMIT_NPROC does not bind.
 */
function makeProcessLimit() {
  if (!isRoot) {
    const each = (pid, words) => {
      for (const one of [pid, ...descendants(pid).map((found) => found.pid)]) {
        // Another's end meanwhile is no failure.
        outside(['prlimit', `--pid=${one}`, ...words]);
      }
    };
    return {
      wrapper: [],
      fill: (pid) => each(pid, ['--nproc=1:']),
      free: (pid) => each(pid, ['--nproc=4096:']),
      remove() {},
    };
  }
  const folder = `/sys/fs/cgroup/pids/glovebox-test-${process.pid}`;
  try {
    fs.mkdirSync(folder);
  } catch {
    return undefined;
  }
  const write = (text) => fs.writeFileSync(`${folder}/pids.max`, text);
  return {
    wrapper: ['sh', '-c', `echo 0 > ${folder}/cgroup.procs; exec "$@"`, 'sh'],
    fill: () => write('1'),
    free: () => write('max'),
    remove: () =>
      eventually(() => {
        try {
          fs.rmdirSync(folder);
          return true;
        } catch (error) {
          assert.equal(error.code, 'EBUSY');
          return false;
        }
      }, `${folder} is busy`),
  };
}

test('HST-10 where no process can be made calls fail with EAGAIN, and the next one works', async (t) => {
  const limit = makeProcessLimit();
  if (!limit) return skip(t, 'no pids cgroup (v1) can be made');
  const host = startHost(t, { wrapper: limit.wrapper });
  // After the host's own end, which startHost() sees to.
  t.after(limit.remove);
  const { pid } = host.child;
  await host.ask(() => {});

  // First with no engine: not even its thread can be had.
  limit.fill(pid);
  const cold = await host.ask((h) => h.callOnce());
  limit.free(pid);
  assert.equal(cold.errno, 'EAGAIN', JSON.stringify(cold));
  assert.match(cold.code, /^ERR_SANDBOX_(START|SETUP)$/);
  assert.match(cold.message, /ulimit -u/);
  assert.equal((await host.ask((h) => h.callOnce())).value.stdout, 'hi\n');

  // Then with everything running. A box that was ready needs no new process.
  await host.ask(async (h) => {
    h.sandbox = await new h.glovebox.Sandbox().open();
    await h.sandbox.run(['true']);
  });
  limit.fill(pid);
  const outcomes = await host.ask((h) =>
    Promise.all(
      [1, 2, 3, 4, 5, 6].map(() => h.outcome(h.sandbox.run(['echo', 'hi']))),
    ),
  );
  limit.free(pid);
  const refused = outcomes.filter(({ code }) => code !== undefined);
  assert.ok(refused.length >= 2, JSON.stringify(outcomes));
  for (const { code, errno, step, message } of refused) {
    assert.equal(code, 'ERR_SANDBOX_SETUP');
    assert.equal(errno, 'EAGAIN');
    assert.match(step, /^(clone3|fork)$/);
    assert.match(message, /ulimit -u.*pids\.max/);
  }
  for (const { value } of outcomes) {
    if (value) assert.equal(value.stdout, 'hi\n');
  }
  const next = await host.ask(async (h) => {
    const results = await Promise.all(
      [1, 2, 3, 4].map(() => h.sandbox.run(['echo', 'hi'])),
    );
    await h.sandbox.close();
    return results.map(({ stdout }) => stdout);
  });
  assert.deepEqual(next, Array(4).fill('hi\n'));
  await endWithNothingLeft(host);
});
