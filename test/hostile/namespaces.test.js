// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rows NS: what a box can make of its own namespaces and mounts, and whether a
// way leads out of its root.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const {
  canary,
  isRoot,
  makeFolder,
  open,
  outside,
  soak,
  test,
} = require('../helpers/harness.js');
const {
  ask,
  askAndHold,
  askOutside,
  assertBlocked,
  assertFinished,
  hasCompiler,
  listMounts,
  placeCaller,
} = require('./attack.js');

const needsCompiler = { skip: !hasCompiler() && 'there is no C compiler' };
const bash = { language: 'bash' };

test(
  'NS-04 every call of the mount interfaces ends the box',
  needsCompiler,
  async (t) => {
    const caller = await placeCaller(await open(t));
    const names = `mount umount2 pivot_root move_mount open_tree open_tree_attr
    fsopen fsconfig fsmount fspick mount_setattr`.split(/\s+/);
    const everywhere = [-1, -1, -1, -1, -1, -1];
    for (const name of names) {
      assertBlocked(await caller.inside(name, ...everywhere), name);
      assert.match(caller.outside(name, ...everywhere), /^-1 \d+$/);
    }
  },
);

test('NS-05 no mount of a box can be taken away', needsCompiler, async (t) => {
  const caller = await placeCaller(await open(t));
  const detach = 2;
  for (const target of [
    '/proc/kcore',
    '/proc/sys',
    '/proc',
    '/.proc',
    '/sys/fs/cgroup',
    '/workspace',
    '/tmp',
    '/usr',
    '/',
  ]) {
    const result = await caller.inside('umount2', `s:${target}`, detach);
    assertBlocked(result, target);
  }
  const remount = 32;
  for (const target of ['/', '/usr', '/proc/sys']) {
    const result = await caller.inside(
      'mount',
      0,
      `s:${target}`,
      0,
      remount,
      0,
    );
    assertBlocked(result, `remount of ${target}`);
  }
  assert.match(
    caller.outside('umount2', 's:/does-not-exist', detach),
    /^-1 \d+$/,
  );
});

// As of <linux/sched.h>.
const newNamespaces = {
  NEWTIME: 0x80,
  NEWNS: 0x20000,
  NEWCGROUP: 0x2000000,
  NEWUTS: 0x4000000,
  NEWIPC: 0x8000000,
  NEWUSER: 0x10000000,
  NEWPID: 0x20000000,
  NEWNET: 0x40000000,
};
const SIGCHLD = 17;
const bit32 = 2n ** 32n;

test(
  'NS-07 unshare of any namespace ends the box',
  needsCompiler,
  async (t) => {
    const caller = await placeCaller(await open(t));
    for (const [name, flag] of Object.entries(newNamespaces)) {
      assertBlocked(await caller.inside('unshare', flag), name);
    }
    const CLONE_FILES = 0x400;
    for (const flags of [
      newNamespaces.NEWUSER | newNamespaces.NEWNS | CLONE_FILES,
      BigInt(newNamespaces.NEWUSER) | bit32,
    ]) {
      assertBlocked(await caller.inside('unshare', flags), `flags ${flags}`);
    }
    const harmless = await caller.inside('unshare', CLONE_FILES);
    assertFinished(harmless);
    assert.equal(harmless.stdout, '0 0\n');
    assert.equal(caller.outside('unshare', newNamespaces.NEWUSER), '0 0');
  },
);

test(
  'NS-08 clone of any namespace ends the box, clone of a process works',
  needsCompiler,
  async (t) => {
    const caller = await placeCaller(await open(t));
    for (const [name, flag] of Object.entries(newNamespaces)) {
      // Here it is part of the signal, and clone3 is the only way to ask for it.
      if (name === 'NEWTIME') continue;
      const flags = flag | SIGCHLD;
      assertBlocked(await caller.inside('clone', flags), name);
      const high = BigInt(flags) | bit32;
      assertBlocked(await caller.inside('clone', high), `${name}, bit 32`);
    }
    const process = await caller.inside('clone', SIGCHLD);
    assertFinished(process);
    assert.match(process.stdout, /^[1-9]\d* 0\n$/);
    assert.match(
      caller.outside('clone', newNamespaces.NEWUSER | SIGCHLD),
      /^[1-9]\d* 0$/,
    );
  },
);

test(
  'NS-10 setns ends the box, whatever the descriptor',
  needsCompiler,
  async (t) => {
    const sandbox = await open(t);
    const caller = await placeCaller(sandbox);
    for (const kind of ['mnt', 'user', 'net', 'pid']) {
      const result = await caller.inside('setns', `o:/proc/self/ns/${kind}`, 0);
      assertBlocked(result, kind);
    }
    const pidfd = await caller.inside('setns', 'p:1', newNamespaces.NEWNS);
    assertBlocked(pidfd, 'the pidfd of pid 1');
    assertBlocked(await caller.inside('setns', -1, 0), 'no descriptor');
    assert.equal(
      await ask(
        sandbox,
        "answer = attempt(os.open, '/proc/1/ns/mnt', os.O_RDONLY)",
      ),
      'EACCES',
    );
    const EINVAL = 22;
    // The namespace that it is in already.
    assert.equal(
      caller.outside('setns', 'o:/proc/self/ns/user', 0),
      `-1 ${EINVAL}`,
    );
  },
);

test('NS-11 chroot is refused, and a kept folder leads no higher than the root', async (t) => {
  const sandbox = await open(t);
  const answer = await ask(
    sandbox,
    `
kept = os.open('/', os.O_RDONLY)
answer = {'chroot': attempt(os.chroot, '/tmp')}
os.fchdir(kept)
for step in range(100):
    os.chdir('..')
answer['is root'] = os.path.samestat(os.stat('.'), os.stat('/'))
answer['canary'] = attempt(os.stat, ${JSON.stringify(canary.file)})
answer['canary, upward'] = attempt(
    os.stat, '../' * 100 + ${JSON.stringify(canary.file)})`,
  );
  assert.deepEqual(answer, {
    chroot: 'EPERM',
    'is root': true,
    canary: 'ENOENT',
    'canary, upward': 'ENOENT',
  });
  assert.ok(fs.existsSync(canary.file));
  const twin = outside(['unshare', '--map-root-user', 'chroot', '/', 'true']);
  assert.equal(twin.exitCode, 0, twin.stderr);
});

test(
  'NS-26 no cgroup hierarchy can be mounted, so no release_agent set',
  needsCompiler,
  async (t) => {
    const sandbox = await open(t);
    const caller = await placeCaller(sandbox);
    for (const type of ['cgroup', 'cgroup2']) {
      const args = ['s:none', 's:/tmp', `s:${type}`, 0, 0];
      assertBlocked(await caller.inside('mount', ...args), type);
    }
    const found = await sandbox.runCode(
      'find / -xdev -name release_agent -o -name cgroup.procs',
      bash,
    );
    assert.equal(found.stdout, '');

    const folder = makeFolder(t);
    const mounted = ['cgroup -o memory', 'cgroup2'].some((type) => {
      const script = `mount -t ${type} none ${folder} && ls ${folder}/cgroup.procs`;
      return outside(['unshare', '-UrmC', 'sh', '-c', script]).exitCode === 0;
    });
    assert.ok(mounted, 'a user and a cgroup namespace are all that it takes');
  },
);

test('NS-28 a folder that the host moves out of the workspace leads nowhere', async (t) => {
  const folder = makeFolder(t);
  const workspace = path.join(folder, 'workspace');
  const [inside, moved] = [path.join(workspace, 'a'), path.join(folder, 'a')];
  fs.mkdirSync(path.join(inside, 'b', 'c'), { recursive: true });
  fs.writeFileSync(path.join(folder, 'secret.txt'), 'secret');
  const sandbox = await open(t, { workspace });

  const climb = `
def climb():
    os.fchdir(inner)
    seen = []
    for step in range(10):
        seen.append(attempt(os.listdir, '.'))
        error = attempt(os.chdir, '..')
        if error is not None:
            return seen + [error]
    return seen
`;
  const before = await ask(
    sandbox,
    `${climb}
inner = os.open('/workspace/a/b/c', os.O_RDONLY)
answer = climb()`,
  );
  assert.deepEqual(before.slice(0, 4), [[], ['c'], ['b'], ['a']]);

  const rounds = soak ? 100_000 : 1000;
  const held = askAndHold(
    sandbox,
    `${climb}
def open_inner():
    while True:
        result = attempt(os.open, '/workspace/a/b/c', os.O_RDONLY)
        if isinstance(result, int):
            return result
def escaped():
    opened = [attempt(os.open, '../' * n + 'secret.txt', os.O_RDONLY,
                      dir_fd=inner) for n in range(6)]
    return (any('secret.txt' in names for names in climb()) or
            any(isinstance(result, int) for result in opened))
inner = open_inner()
hits = sum(escaped() for round in range(${rounds}))
hold()
answer = {'last': climb(), 'hits': hits}`,
  );
  let racing = true;
  const stop = () => {
    racing = false;
  };
  const done = held.ready.then(stop, stop);
  while (racing) {
    fs.renameSync(inside, moved);
    fs.renameSync(moved, inside);
    await new Promise(setImmediate);
  }
  await done;
  fs.renameSync(inside, moved);
  await held.release();
  assert.deepEqual(await held.answer, { last: [[], 'ENOENT'], hits: 0 });

  // Where the mount is the whole file system it is one step after the other.
  const twin = askOutside(`
os.chdir(${JSON.stringify(path.join(moved, 'b', 'c'))})
os.chdir('../../..')
answer = os.listdir('.')`);
  assert.ok(twin.includes('secret.txt'));
});

test(
  'NS-32 nothing that a box does about mounts shows on the host',
  needsCompiler,
  async (t) => {
    const sandbox = await open(t);
    const caller = await placeCaller(sandbox);
    const mountinfo = () => fs.readFileSync('/proc/self/mountinfo', 'utf8');
    const before = mountinfo();
    const bind = 4096;
    assertBlocked(
      await caller.inside('mount', 's:/tmp', 's:/workspace', 0, bind, 0),
      'a bind mount',
    );
    assert.equal(mountinfo(), before);
    for (const mount of await listMounts(sandbox)) {
      assert.deepEqual(
        mount.propagation.filter((tag) => !/^$/.test(tag)),
        [],
        mount.path,
      );
    }
  },
);

test('NS-32 what the host mounts below a workspace meanwhile is not in the box', {
  skip: !isRoot && 'only root can mount',
}, (t) => {
  const { exitCode, stdout, stderr } = outside([
    // In a namespace of its own, so that it is no mount of other tests.
    ...['unshare', '--mount', process.execPath, '--no-warnings'],
    path.join(__dirname, 'fixtures', 'mounts-meanwhile.js'),
    makeFolder(t),
  ]);
  assert.equal(exitCode, 0, stderr);
  assert.deepEqual(JSON.parse(stdout), {
    peers: [],
    files: [],
    mounts: ['/workspace'],
    outside: ['file'],
  });
});
