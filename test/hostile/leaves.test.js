// SPDX-License-Identifier: Apache-2.0
'use strict';

// On cgroup v1 a box may have the cgroups of one before it (decision 17): the
// limits hold as in new ones, and nothing of that one counts.

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const {
  descendants,
  eventually,
  hasCgroups,
  leaves,
  open,
  test,
  timeScale,
} = require('../helpers/harness.js');
const { assertFinished } = require('./attack.js');

// More than are ever ready.
const rounds = 40;

const isV2 = fs.existsSync('/sys/fs/cgroup/cgroup.controllers');
const needsV1 =
  hasCgroups && !isV2
    ? {}
    : { skip: 'by design: only leaves of cgroup v1 are used again' };

const MiB = 2 ** 20;

/** So many leaves wait when nothing happens: ready boxes, and spare ones. */
const mostAtRest = 8 + 8 + 8;

for (const controller of ['memory', 'pids', 'cpu', 'cpuacct']) {
  test(
    `calls one after the other share few leaves of ${controller}`,
    needsV1,
    async (t) => {
      const sandbox = await open(t);
      const seen = new Set();
      for (let i = 0; i < rounds; i++) {
        assertFinished(await sandbox.run(['true']));
        for (const leaf of leaves(process.pid, controller)) seen.add(leaf);
      }
      assert.ok(seen.size < rounds, `${seen.size} leaves`);
    },
  );
}

test(
  'a box counts no memory and no processor time of one before it',
  needsV1,
  async (t) => {
    const sandbox = await open(t);
    const heavy = await sandbox.runCode(`import time
data = bytearray(b'x') * (200 * 2**20)
end = time.process_time() + 0.5
while time.process_time() < end: pass
print('done')`);
    assertFinished(heavy);
    assert.ok(heavy.usage.maxMemoryBytes > 200 * MiB);
    assert.ok(heavy.usage.cpuMs >= 500);
    for (let i = 0; i < 20; i++) {
      const { usage } = await sandbox.run(['true']);
      assert.ok(usage.maxMemoryBytes < 50 * MiB, `${usage.maxMemoryBytes}`);
      assert.ok(usage.cpuMs < 200 * timeScale, `${usage.cpuMs} ms`);
    }
  },
);

test(
  'what a box left in the page cache counts for no other',
  needsV1,
  async (t) => {
    const sandbox = await open(t);
    const write = 'head -c 64M /dev/zero > data; sync data';
    assertFinished(await sandbox.runCode(write, { language: 'bash' }));
    for (let i = 0; i < 20; i++) {
      const { usage } = await sandbox.run(['true']);
      assert.ok(usage.maxMemoryBytes < 50 * MiB, `${usage.maxMemoryBytes}`);
    }
  },
);

test(
  'what boxes left on a tmpfs does not end one with little memory',
  needsV1,
  async (t) => {
    const workspace = fs.mkdtempSync(path.join(os.tmpdir(), 'tmpfs-'));
    execFileSync('mount', ['-t', 'tmpfs', 'none', workspace]);
    t.after(() => {
      execFileSync('umount', ['-l', workspace]);
      fs.rmdirSync(workspace);
    });
    fs.chmodSync(workspace, 0o777);
    const sandbox = await open(t, { workspace });
    // Memory that nobody can take back: the leaf pays as long as the file is
    // there. Less of it than keeps a leaf from being used again.
    const write = (name) =>
      `mkdir ${name}; cd ${name}; touch $(seq 80); head -c 700K /dev/zero > data`;
    for (let round = 0; round < 6; round++) {
      for (let i = 0; i < 20; i++)
        assertFinished(await sandbox.run(['sh', '-c', write(`${round}-${i}`)]));
      for (let i = 0; i < 20; i++)
        assertFinished(
          await sandbox.run(['true'], { memoryMb: 1 + (round % 2) }),
        );
    }
  },
);

test(
  'a box that ran out of memory has the fault, those after it do not',
  needsV1,
  async (t) => {
    // So little that it leaves next to nothing.
    const sandbox = await open(t, { memoryMb: 8 });
    const endByForce = async () => {
      const { fault, signal } = await sandbox.run(['sh', '-c', 'kill -9 $$']);
      return { fault, signal };
    };
    const expected = await endByForce();
    assert.equal(expected.signal, 'SIGKILL');
    for (let i = 0; i < 10; i++) {
      const { fault } = await sandbox.run(['tail', '/dev/zero']);
      assert.equal(fault?.type, 'oom');
      for (let j = 0; j < 10; j++) {
        assert.deepEqual(await endByForce(), expected);
      }
    }
  },
);

const limitFiles = {
  memory: 'memory.limit_in_bytes',
  pids: 'pids.max',
  cpu: 'cpu.cfs_quota_us',
};

function membersOf(leaf) {
  try {
    return fs.readFileSync(`${leaf}/cgroup.procs`, 'utf8').split('\n');
  } catch {
    return []; // It was that of a box that waited, and is gone.
  }
}

/** What the leaves of the box say in which process `pid` of the host is. */
function limitsOf(pid) {
  return Object.entries(limitFiles).map(([controller, file]) => {
    const leaf = leaves(process.pid, controller).find((folder) =>
      membersOf(folder).includes(`${pid}`),
    );
    return Number(fs.readFileSync(`${leaf}/${file}`));
  });
}

test(
  'the limits of a call hold for that call, and those of the session for the next',
  needsV1,
  async (t) => {
    const sandbox = await open(t, { memoryMb: 128, pids: 30, cpus: 1 });
    const inForce = async (options) => {
      const child = await sandbox.spawn(['sleep', '77'], options);
      let asleep;
      await eventually(() => {
        asleep = descendants().find(({ name }) => name === 'sleep');
        return asleep !== undefined;
      }, 'it does not sleep');
      const found = limitsOf(asleep.pid);
      child.kill('SIGKILL');
      await child.wait();
      return found;
    };
    for (let i = 0; i < 6; i++) {
      const own = { memoryMb: 64 + i, pids: 20 + i, cpus: 0.5 };
      // One process more: init.
      assert.deepEqual(await inForce(own), [(64 + i) * MiB, 21 + i, 50_000]);
      assert.deepEqual(await inForce({}), [128 * MiB, 31, 100_000]);
    }
  },
);

test('after many calls at once few leaves stay', needsV1, async (t) => {
  const sandbox = await open(t);
  const calls = Array.from({ length: 40 }, () => sandbox.run(['sleep', '1']));
  for (const result of await Promise.all(calls)) assertFinished(result);
  await sandbox.close();
  await eventually(
    () => leaves().length <= mostAtRest,
    () => `${leaves().length} leaves`,
  );
});
