// SPDX-License-Identifier: Apache-2.0
'use strict';

// What the rungs of cgroup v2 make of the machine's cgroups, as the host sees
// them.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const {
  descendants,
  eventually,
  eventuallyGone,
  leaves,
  open,
  scopes,
  test,
} = require('../../helpers/harness.js');
const { askScript, startScript } = require('../../helpers/host-script.js');

// "own": leaves are made in the cgroup that was handed over to Node; "scope":
// in one that the manager is asked for.
const place = process.env.GLOVEBOX_VM_PLACE;
const goneMs = 20000;

const cgroupAtStart = cgroupOf('self');

function cgroupOf(pid) {
  const text = fs.readFileSync(`/proc/${pid}/cgroup`, 'utf8');
  return path.join('/sys/fs/cgroup', text.trim().slice('0::'.length));
}

const read = (folder, file) =>
  fs.readFileSync(path.join(folder, file), 'utf8').trim();

function nameOf(pid) {
  try {
    return read(`/proc/${pid}`, 'comm');
  } catch {
    return 'gone';
  }
}

/** The leaf of a box, and what is in its files, while a call runs there. */
async function lookAtLeaf(sandbox) {
  let seen;
  const onStdout = () => {
    const { pid } = descendants().find(({ name }) => name === 'bash');
    const leaf = cgroupOf(pid);
    const files = [
      ...['memory.max', 'memory.swap.max', 'memory.oom.group'],
      ...['pids.max', 'cpu.max'],
    ];
    const limits = files
      .filter((file) => fs.existsSync(path.join(leaf, file)))
      .map((file) => [file, read(leaf, file)]);
    const processes = read(leaf, 'cgroup.procs').split('\n').map(Number);
    seen = { leaf, pid, processes, limits: Object.fromEntries(limits) };
    fs.writeFileSync(path.join(sandbox.workspace, 'seen'), '');
  };
  const code = 'echo; until [ -e seen ]; do sleep 0.1; done';
  const result = await sandbox.runCode(code, {
    language: 'bash',
    onStdout,
  });
  assert.equal(result.exitCode, 0, result.stderr);
  return seen;
}

test('a box is in a leaf with its limits, all of it', async (t) => {
  const sandbox = await open(t, { memoryMb: 100, pids: 50, cpus: 0.5 });
  const { leaf, pid, processes, limits } = await lookAtLeaf(sandbox);
  t.diagnostic(leaf);
  assert.match(leaf, new RegExp(`/gbx-${process.pid}-\\d+-\\d+-\\d+$`));
  assert.ok(processes.includes(pid));
  assert.ok(processes.length >= 2, 'init and bash');
  assert.deepEqual(limits, {
    'memory.max': String(100 * 2 ** 20),
    'memory.swap.max': '0',
    'memory.oom.group': '1',
    'pids.max': '51',
    'cpu.max': '50000 100000',
  });
  await eventually(() => !fs.existsSync(leaf), `${leaf} is left`);
});

test('limits of a session replace those that a ready box was made with', async (t) => {
  // Has it made, with the default limits.
  await (await open(t)).run(['true']);
  const options = { memoryMb: 90, pids: 40, cpus: 2 };
  const small = await lookAtLeaf(await open(t, options));
  assert.equal(small.limits['memory.max'], String(90 * 2 ** 20));
  assert.equal(small.limits['pids.max'], '41');
  assert.equal(small.limits['cpu.max'], '200000 100000');
  const lifted = { memoryMb: null, pids: null, cpus: null };
  const none = await lookAtLeaf(await open(t, lifted));
  assert.equal(none.limits['memory.max'], 'max');
  assert.equal(none.limits['memory.swap.max'], 'max');
  assert.equal(none.limits['pids.max'], 'max');
  assert.equal(none.limits['cpu.max'], 'max 100000');
});

test('Node is moved only in a cgroup that was handed over to it', async (t) => {
  const sandbox = await open(t);
  const { leaf } = await lookAtLeaf(sandbox);
  const parent = path.dirname(leaf);
  if (place === 'own') {
    const unit = cgroupAtStart.replace(/\/gbx-bystanders$/, '');
    assert.equal(parent, unit);
    assert.equal(cgroupOf('self'), path.join(unit, 'gbx-bystanders'));
    assert.deepEqual(scopes(), []);
  } else {
    assert.equal(cgroupOf('self'), cgroupAtStart);
    assert.match(
      path.basename(parent),
      new RegExp(`^glovebox-${process.pid}-\\d+\\.scope$`),
    );
    // Nobody but keeper, launcher and zygote, and nothing but leaves beside them.
    const bystanders = path.join(parent, 'gbx-bystanders');
    const names = () =>
      read(bystanders, 'cgroup.procs')
        .split('\n')
        .map((pid) => nameOf(pid))
        .sort();
    await eventually(
      () => `${names()}` === 'glovebox-zygote,launcher,launcher',
      () => `${names()}`,
    );
    assert.equal(read(parent, 'cgroup.procs'), '');
  }
});

test('a box cannot see its leaf’s name, nor any other cgroup', async (t) => {
  const sandbox = await open(t);
  const { stdout } = await sandbox.runCode(
    'cat /proc/self/cgroup /proc/1/cgroup; grep -c cgroup /proc/self/mountinfo',
    { language: 'bash' },
  );
  assert.equal(stdout, '0::/\n0::/\n0\n');
});

test('a limit that leaves no room for a box is fault "oom"', async (t) => {
  const sandbox = await open(t, { memoryMb: 1 });
  // With a ready box, and with one that is made for the call.
  for (let call = 0; call < 4; call++) {
    const { exitCode, fault } = await sandbox.run(['true']);
    t.diagnostic(`${exitCode} ${fault?.message}`);
    if (exitCode !== 0) assert.equal(fault?.type, 'oom');
  }
});

test('usage is what the leaf counted', async (t) => {
  const sandbox = await open(t, { memoryMb: 400 });
  const { usage } = await sandbox.runCode(`import os, time
mine, childs = os.pipe()
if os.fork() == 0:
    b = b'x' * (100 * 2**20)
    end = time.process_time() + 0.3
    while time.process_time() < end: pass
    os.write(childs, b'x')
    time.sleep(60)
os.read(mine, 1)
c = b'x' * (100 * 2**20)`);
  // Together: the largest of the processes alone has half of it.
  const mib = usage.maxMemoryBytes / 2 ** 20;
  assert.ok(mib >= 200 && mib < 400, `${mib} MiB`);
  assert.ok(usage.cpuMs >= 300, `${usage.cpuMs} ms`);
  const apart = usage.cpuUserMs + usage.cpuSystemMs;
  assert.ok(Math.abs(apart - usage.cpuMs) < 50, `${apart} ms apart`);
  // pids.peak came with Linux 6.1.
  const pids = usage.maxPids ?? 2;
  assert.ok(pids >= 2 && pids < 10, `${pids} processes`);
});

test('SIGKILL of the host leaves no leaf and no scope', async (t) => {
  const script = startScript(t, 'killed-host.js');
  const { pid } = script.child;
  await script.line();
  assert.ok(leaves(pid).length >= 2, 'of each of its boxes');
  assert.equal(scopes(pid).length, place === 'scope' ? 1 : 0);
  process.kill(pid, 'SIGKILL');
  await script.ended;
  const left = () => [...leaves(pid), ...scopes(pid)];
  await eventually(
    () => left().length === 0,
    () => `${left()}`,
    goneMs,
  );
});

test('SIGKILL of the host and its keeper leaves nothing that the next does not remove', async (t) => {
  const script = startScript(t, 'killed-host.js');
  const { pid } = script.child;
  const { workspace } = JSON.parse(await script.line());
  // Nobody is left who knows of it.
  t.after(() => fs.rmSync(workspace, { recursive: true, force: true }));
  const listed = descendants(pid);
  const keeper = listed.find(({ ppid }) => ppid === pid);
  assert.ok(leaves(pid).length >= 2);
  process.kill(pid, 'SIGSTOP');
  process.kill(keeper.pid, 'SIGKILL');
  process.kill(pid, 'SIGKILL');
  await script.ended;
  await eventuallyGone(listed, goneMs);
  if (place === 'own') {
    await askScript(t, 'ends-by-itself.js', { args: ['both'] });
  }
  const left = () => [...leaves(pid), ...scopes(pid)];
  await eventually(
    () => left().length === 0,
    () => `${left()}`,
    goneMs,
  );
});
