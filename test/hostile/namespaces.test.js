// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rows NS: what a box sees of the host and of other boxes, and what it can make
// of its own namespaces, mounts, /proc, /sys and /dev.

// Before the engine starts, so that it is in the environment of everything that
// could hand it on.
process.env.GLOVEBOX_HOST_SECRET = require('node:crypto').randomUUID();

const assert = require('node:assert/strict');
const crypto = require('node:crypto');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const {
  canary,
  descendants,
  isColdPass,
  isRoot,
  leaves,
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
  placeCaller,
} = require('./attack.js');

const needsCompiler = { skip: !hasCompiler() && 'there is no C compiler' };
const bash = { language: 'bash' };

/** `{path, filesystem, options, propagation}` of every mount of a box. */
async function listMounts(sandbox) {
  const result = await sandbox.run(['cat', '/proc/self/mountinfo']);
  assertFinished(result);
  return result.stdout
    .trim()
    .split('\n')
    .map((line) => {
      const [before, after] = line.split(' - ');
      const [, , device, , mountPoint, options, ...propagation] =
        before.split(' ');
      return {
        path: mountPoint,
        device,
        filesystem: after.split(' ')[0],
        options: options.split(','),
        propagation,
      };
    });
}

// ---- Processes -------------------------------------------------------------

test('NS-01 a box lists its own processes and no others', async (t) => {
  const sandbox = await open(t);
  const { parent, ...answer } = await ask(
    sandbox,
    `answer = {
      'pids': sorted(int(name) for name in os.listdir('/proc') if name.isdigit()),
      'self': os.getpid(), 'parent': os.getppid(),
      'group': os.getpgid(0), 'session': os.getsid(0),
    }`,
  );
  assert.deepEqual(answer, {
    pids: [1, 2],
    self: 2,
    group: 2,
    session: 2,
  });
  // What forked a warm one is outside, which is 0 to it.
  assert.ok(parent === 1 || (parent === 0 && !isColdPass), `${parent}`);
  assert.ok(fs.readdirSync('/proc').includes(String(process.pid)));
  assert.ok(descendants().length >= 2, 'keeper and launcher show outside');
});

test('NS-02 no signal reaches a pid outside the box', async (t) => {
  const sandbox = await open(t);
  const ours = [process.pid, ...descendants().map(({ pid }) => pid)];
  const code = `
def signal(pid):
    return attempt(os.kill, pid, 0)
ours = ${JSON.stringify(ours)}
last = ${soak ? 4194304 : 65536}
answer = {
  'reached': [pid for pid in range(1, last + 1) if signal(pid) is None],
  'ours': [signal(pid) for pid in ours],
}`;
  const { reached, ours: answers } = await ask(sandbox, code);
  assert.deepEqual(reached, [1, 2]);
  assert.deepEqual(answers, Array(ours.length).fill('ESRCH'));
  const twin = askOutside(`answer = attempt(os.kill, ${process.pid}, 0)`);
  assert.equal(twin, null);
});

test('NS-13 the payload cannot read the environment, memory, descriptors or executable of pid 1', async (t) => {
  const sandbox = await open(t);
  const { init, own } = await ask(
    sandbox,
    `
def probe(pid):
    folder = '/proc/%s/' % pid
    tries = {name: attempt(os.open, folder + name, os.O_RDONLY) for name in
             ('environ', 'maps', 'smaps', 'auxv', 'io', 'pagemap',
              'map_files', 'ns/mnt')}
    tries['mem'] = attempt(os.open, folder + 'mem', os.O_RDWR)
    for name in ('fd', 'fdinfo', 'map_files', 'ns'):
        tries['list ' + name] = attempt(os.listdir, folder + name)
    for name in ('exe', 'cwd', 'root', 'ns/mnt'):
        tries['link ' + name] = attempt(os.readlink, folder + name)
        tries['follow ' + name] = attempt(os.stat, folder + name)
    return {name: result if isinstance(result, str) and result.isupper()
            else 'works' for name, result in tries.items()}
answer = {'init': probe(1), 'own': probe('self')}`,
  );
  const readable = Object.entries(init).filter(
    // Listing the folder map_files needs nothing; its entries do.
    ([name, result]) => result !== 'EACCES' && name !== 'map_files',
  );
  assert.deepEqual(readable, []);
  const unreadable = Object.entries(own).filter(
    ([, result]) => result !== 'works',
  );
  assert.deepEqual(unreadable, [], 'the same works on itself');
});

test('NS-13 no variable of the host environment is anywhere in /proc', async (t) => {
  const sandbox = await open(t);
  const everything = await sandbox.runCode(
    'cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; env',
    bash,
  );
  const secret = process.env.GLOVEBOX_HOST_SECRET;
  assert.match(everything.stdout, /HOME=\/home\/user/);
  assert.ok(!everything.stdout.includes(secret));
  const twin = outside(['cat', '/proc/self/environ']);
  assert.ok(twin.stdout.includes(secret));
});

test('NS-14 no executable can be overwritten through /proc while boxes start', async (t) => {
  const files = [
    process.execPath,
    require.resolve('../../build/Release/glovebox.node'),
    require.resolve('../../build/Release/launcher'),
  ];
  const hash = () =>
    files.map((file) =>
      crypto.createHash('sha256').update(fs.readFileSync(file)).digest('hex'),
    );
  const before = hash();
  const sandbox = await open(t);
  const held = askAndHold(
    sandbox,
    `
outcomes, links, tries = set(), set(), 0
print('READY', flush=True)
while not os.path.exists('/workspace/release'):
    for name in os.listdir('/proc'):
        if name.isdigit() or name in ('self', 'thread-self'):
            path = '/proc/%s/exe' % name
            links.add(attempt(os.readlink, path))
            for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC):
                outcomes.add(attempt(os.open, path, flags))
                tries += 1
links.discard(os.readlink('/proc/self/exe'))
answer = {'outcomes': sorted(map(str, outcomes)), 'links': sorted(links),
          'tries': tries}`,
  );
  await held.ready;
  const others = await open(t);
  for (let i = 0; i < 20; i++) assertFinished(await others.run(['true']));
  await held.release();
  const { outcomes, links, tries } = await held.answer;
  assert.ok(tries > 20, `${tries} tries`);
  // pid 1's is out of reach; its own is not its to write, read-only or running.
  for (const outcome of outcomes) {
    assert.ok(['EACCES', 'EROFS', 'ETXTBSY'].includes(outcome), outcome);
  }
  assert.deepEqual(links, ['EACCES'], 'no other executable shows');
  assert.deepEqual(hash(), before);
});

test('NS-14 a script whose interpreter is /proc/self/exe runs nothing of the host', async (t) => {
  const launcher = require.resolve('../../build/Release/launcher');
  const before = fs.readFileSync(launcher);
  const sandbox = await open(t);
  // The kernel resolves it while the launcher's image is still the payload's.
  for (const role of ['', ' keeper', ' launcher']) {
    await sandbox.writeFile('script', `#!/proc/self/exe${role}\n`);
    fs.chmodSync(path.join(sandbox.workspace, 'script'), 0o755);
    const result = await sandbox.run(['./script'], { timeoutS: 5 });
    assert.equal(result.success, false, role);
    assert.equal(result.stdout, '', role);
    assert.notEqual(result.fault?.type, 'timeout', role);
  }
  assert.deepEqual(fs.readFileSync(launcher), before);
});

test('ATK pid 1 is deaf to every signal, and kill(-1) ends only siblings', async (t) => {
  const sandbox = await open(t);
  const answer = await ask(
    sandbox,
    `
import signal
child = os.fork()
if child == 0:
    signal.pause()
for number in range(1, 65):
    os.kill(1, number)
pidfd = os.pidfd_open(1)
signal.pidfd_send_signal(pidfd, signal.SIGKILL)
os.kill(-1, signal.SIGKILL)
answer = {'child': os.waitpid(child, 0)[1], 'init': attempt(os.kill, 1, 0),
          'state': read('/proc/1/stat').split(') ')[1][0]}`,
  );
  assert.deepEqual(answer, { child: 9, init: null, state: 'S' });
});

// What a box can see of files and processes that might be another's.
const lookAround = `
def list_files():
    found = []
    for folder in ('/tmp', '/home/user', '/dev/shm'):
        for parent, folders, files in os.walk(folder):
            found += [os.path.join(parent, name) for name in files]
    return sorted(found)
def look_around():
    pids = [name for name in os.listdir('/proc') if name.isdigit()]
    texts = [read('/proc/%s/%s' % (pid, name)) for pid in pids
             for name in ('cmdline', 'environ')]
    return {
        'text': ''.join(texts + [read(name) for name in list_files()]),
        'files': list_files(), 'pids': sorted(map(int, pids)),
        'pipes': [os.readlink('/proc/self/fd/%d' % fd) for fd in (1, 2)],
    }
`;

test('ATK two boxes at the same time see nothing of each other', async (t) => {
  const secret = crypto.randomUUID();
  const first = await open(t);
  const held = askAndHold(
    first,
    `
import subprocess
secret = os.environ['MARK']
for folder in ('/tmp', '/home/user', '/dev/shm'):
    with open(folder + '/mark', 'w') as file:
        file.write(secret)
subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)', secret])
${lookAround}
answer = look_around()
hold()`,
    { env: { MARK: secret } },
  );
  await held.ready;
  const others = [];
  // Another call of the same session, and one of another session.
  for (const sandbox of [first, await open(t)]) {
    others.push(await ask(sandbox, `${lookAround}\nanswer = look_around()`));
  }
  await held.release();
  const own = await held.answer;

  assert.ok(own.text.split(secret).length > 3, 'it sees its own');
  assert.equal(own.pids.length, 3);
  assert.deepEqual(own.files, [
    '/dev/shm/mark',
    '/home/user/mark',
    '/tmp/mark',
  ]);
  for (const other of others) {
    assert.ok(!other.text.includes(secret));
    assert.deepEqual(other.files, []);
    assert.deepEqual(other.pids, [1, 2]);
    for (const pipe of other.pipes) assert.ok(!own.pipes.includes(pipe));
  }
});

test('ATK a box made ahead of need has no trace of an earlier call', async (t) => {
  const sandbox = await open(t);
  const leave = `
import socket, subprocess
for folder in ('/tmp', '/home/user', '/dev/shm'):
    os.makedirs(folder + '/left')
    open(folder + '/left/behind', 'w').close()
subprocess.Popen(['sleep', '1000'], start_new_session=True)
listener = socket.socket(socket.AF_UNIX)
listener.bind('\\0left-behind')
listener.listen()
${lookAround}
answer = [list_files(), call('shmget', 0x1234, 4096, 0o1600)]`;
  const find = `
import socket
${lookAround}
answer = [list_files(), look_around()['pids'], call('shmget', 0x1234, 0, 0),
          attempt(socket.socket(socket.AF_UNIX).connect, '\\0left-behind')]`;
  for (let i = 0; i < 5; i++) {
    const [files, segment] = await ask(sandbox, leave);
    assert.equal(files.length, 3);
    assert.equal(typeof segment, 'number');
    assert.deepEqual(await ask(sandbox, find), [
      [],
      [1, 2],
      'ENOENT',
      'ECONNREFUSED',
    ]);
  }
});

// ---- Namespaces and mounts -------------------------------------------------

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

test('NS-31 shared memory and queues of one box are not in another, nor on the host', async (t) => {
  const sandbox = await open(t);
  // Where a box shares them, what a broken run leaves must not be found later.
  const key = crypto.randomInt(1, 2 ** 31);
  const queue = `b'hostile-${key}'`;
  const make = `
O_CREAT_RDWR = 0o102
answer = {'made': [call('shmget', ${key}, 4096, 0o1600),
                   call('mq_open', ${queue}, O_CREAT_RDWR, 0o600, 0)]}
open('/dev/shm/hostile', 'w').close()`;
  const find = `[
  call('shmget', ${key}, 0, 0), call('mq_open', ${queue}, 2, 0, 0),
  os.path.exists('/dev/shm/hostile'), os.path.exists('/dev/mqueue')]`;
  const held = askAndHold(
    sandbox,
    `${make}\nanswer['found'] = ${find}\nhold()`,
  );
  await held.ready;
  const beside = await ask(sandbox, `answer = ${find}`);
  const host = askOutside(`answer = ${find}[:3]`);
  await held.release();
  const { made, found } = await held.answer;
  assert.deepEqual(
    made.map((id) => typeof id),
    ['number', 'number'],
  );
  assert.deepEqual(found.slice(2), [true, false]);
  assert.equal(found[0], made[0]);
  assert.equal(typeof found[1], 'number');
  assert.deepEqual(beside, ['ENOENT', 'ENOENT', false, false]);
  assert.deepEqual(host, ['ENOENT', 'ENOENT', false]);
  assert.deepEqual(await ask(sandbox, `answer = ${find}`), beside, 'the next');
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

test('ATK every mount is read-only but the four that a box may write to', async (t) => {
  const sandbox = await open(t);
  const mounts = await listMounts(sandbox);
  const devices = ['full', 'null', 'random', 'urandom', 'zero'].map(
    (name) => `/dev/${name}`,
  );
  // Its masks are the box's own /dev/null.
  const isDevice = ({ path: name, device }) =>
    devices.includes(name) ||
    (name.startsWith('/proc/') &&
      device === mounts.find((mount) => mount.path === '/dev/null').device);
  const writable = mounts.filter(
    (mount) => mount.options.includes('rw') && !isDevice(mount),
  );
  assert.deepEqual(writable.map((mount) => mount.path).sort(), [
    '/dev/shm',
    '/home/user',
    '/proc',
    '/tmp',
    '/workspace',
  ]);
  for (const mount of mounts) {
    assert.ok(mount.options.includes('nosuid'), mount.path);
    assert.ok(mount.options.includes('nodev') || isDevice(mount), mount.path);
  }
  // All boxes share the file system of "/", whose owner they are.
  const root = mounts.find((mount) => mount.path === '/');
  assert.equal(root.filesystem, 'tmpfs');
  for (const mount of mounts.filter(({ device }) => device === root.device)) {
    assert.ok(mount.options.includes('ro'), mount.path);
  }
  const names = mounts.map(({ filesystem }) => filesystem);
  assert.ok(!names.some((name) => /^(sysfs|cgroup2?|debugfs|bpf)$/.test(name)));
});

test('ATK nothing can be made, changed or renamed outside of the four', async (t) => {
  const answer = await ask(
    await open(t),
    `
def make(folder):
    return attempt(os.open, folder + '/x', os.O_CREAT | os.O_WRONLY)
own = ('/', '/.proc', '/dev', '/etc', '/home', '/run', '/run/glovebox', '/var')
answer = {
  'own': sorted({make(folder) for folder in own}),
  'host': sorted({make(folder) for folder in
                  ('/usr', '/usr/bin', '/run/glovebox/runtimes', '/etc/ssl')}),
  'chmod': attempt(os.chmod, '/etc/passwd', 0o666),
  'rename': attempt(os.rename, '/etc', '/etc2'),
  'unlink': attempt(os.unlink, '/etc/hosts'),
  'twin': sorted(make(folder) > 0 for folder in
                 ('/workspace', '/tmp', '/home/user', '/dev/shm')),
}`,
  );
  assert.ok(answer.host.every((result) => /^(EROFS|EACCES)$/.test(result)));
  assert.deepEqual(
    { ...answer, host: undefined },
    {
      own: ['EROFS'],
      host: undefined,
      chmod: 'EROFS',
      // Mount points are in it.
      rename: answer.rename,
      unlink: 'EROFS',
      twin: [true, true, true, true],
    },
  );
  assert.match(answer.rename, /^(EROFS|EBUSY)$/);
});

test('ATK files cannot be linked or renamed across mounts', async (t) => {
  const answer = await ask(
    await open(t),
    `
open('/tmp/a', 'w').close()
open('/workspace/a', 'w').close()
hidden = os.open('/tmp', os.O_TMPFILE | os.O_RDWR)
answer = {
  'links': sorted({attempt(os.link, source, '/workspace/b') for source in
                   ('/usr/bin/env', '/dev/null', '/etc/passwd', '/tmp/a',
                    '/proc/self/status')}),
  'executable': attempt(os.link, '/proc/self/exe', '/workspace/b',
                        follow_symlinks=True),
  'descriptor': attempt(os.link, '/proc/self/fd/%d' % hidden, '/workspace/b',
                        follow_symlinks=True),
  'rename': attempt(os.rename, '/tmp/a', '/workspace/b'),
  'twin': attempt(os.link, '/workspace/a', '/workspace/b'),
}`,
  );
  assert.deepEqual(answer, {
    links: ['EXDEV'],
    executable: 'EXDEV',
    descriptor: 'EXDEV',
    rename: 'EXDEV',
    twin: null,
  });
});

// ---- /proc, /sys and /dev --------------------------------------------------

test('NS-16 sysrq-trigger takes no command', async (t) => {
  // "h" prints a help text, so a product that fails this leaves the host up.
  const answer = await ask(
    await open(t),
    `
def is_null(path):
    return os.path.exists(path) and os.stat(path).st_rdev == os.makedev(1, 3)
def write(path):
    fd = os.open(path, os.O_WRONLY)
    return os.write(fd, b'h')
path = '/proc/sysrq-trigger'
answer = 'masked' if is_null(path) else attempt(write, path)`,
  );
  assert.match(answer, /^(masked|EROFS|EACCES|ENOENT)$/);
});

test('NS-17 files of /proc that tell of the host are empty, closed or not there', async (t) => {
  const names = `kcore kallsyms kmsg keys key-users timer_list sched_debug
    latency_stats interrupts softirqs iomem ioports vmallocinfo slabinfo
    pagetypeinfo config.gz locks kpagecount kpageflags kpagecgroup acpi asound driver
    scsi`.split(/\s+/);
  const code = (list) => `
def look(name):
    path = '/proc/' + name
    return attempt(os.listdir, path) if os.path.isdir(path) else read(path)
answer = {name: look(name) for name in ${JSON.stringify(list)}}`;
  const answer = await ask(await open(t), code(names));
  const open_ = Object.entries(answer).filter(
    ([, content]) =>
      content.length > 0 && !['EACCES', 'EPERM', 'ENOENT'].includes(content),
  );
  assert.deepEqual(open_, []);
  const twin = askOutside(code(['interrupts', 'kallsyms', 'softirqs']));
  for (const [name, content] of Object.entries(twin)) {
    assert.ok(content.length > 100, `${name} outside`);
  }
});

test('ATK no file of /proc outside of processes can be written to', async (t) => {
  const { tries, opened, outcomes } = await ask(
    await open(t),
    `
tries, opened, outcomes = 0, [], set()
for parent, folders, files in os.walk('/proc'):
    if parent == '/proc':
        folders[:] = [name for name in folders if not name.isdigit() and
                      name not in ('self', 'thread-self', 'net')]
    for name in files:
        path = os.path.join(parent, name)
        result = attempt(os.open, path, os.O_WRONLY | os.O_NONBLOCK)
        tries += 1
        if isinstance(result, str):
            outcomes.add(result)
            continue
        if os.fstat(result).st_rdev != os.makedev(1, 3):
            opened.append(path)
        os.close(result)
answer = {'tries': tries, 'opened': opened, 'outcomes': sorted(outcomes)}`,
  );
  assert.ok(tries > 500, `${tries} tries`);
  assert.deepEqual(opened, []);
  assert.ok(outcomes.includes('EROFS'), 'the mask is tried');
  if (isRoot) {
    const twin = askOutside(
      "answer = attempt(os.open, '/proc/sys/kernel/core_pattern', os.O_WRONLY)",
    );
    assert.equal(typeof twin, 'number', 'its owner can');
  }
});

test('ATK the procfs that boxes are made with is not in them', async (t) => {
  const sandbox = await open(t);
  const result = await sandbox.runCode(
    'ls -A /.proc; stat --file-system --format=%T /.proc /proc; ' +
      'grep -c " - proc " /proc/self/mountinfo',
    bash,
  );
  assertFinished(result);
  const [hidden, own, count] = result.stdout.split('\n');
  assert.deepEqual([hidden, own], ['tmpfs', 'proc']);
  const mounts = await listMounts(sandbox);
  const procs = mounts.filter(({ filesystem }) => filesystem === 'proc');
  assert.equal(Number(count), procs.length);
  // Its own, and read-only parts of it.
  assert.deepEqual(new Set(procs.map(({ device }) => device)).size, 1);
  assert.ok(procs.every(({ path: name }) => /^\/proc(\/|$)/.test(name)));
});

test('NS-20 /dev has five harmless devices and no others', async (t) => {
  const sandbox = await open(t);
  const answer = await ask(
    sandbox,
    `
import stat
devices = {}
for name in os.listdir('/dev'):
    info = os.lstat('/dev/' + name)
    devices[name] = ('%d:%d' % (os.major(info.st_rdev), os.minor(info.st_rdev))
                     if stat.S_ISCHR(info.st_mode) else
                     stat.filemode(info.st_mode)[0])
def write(path):
    with open(path, 'wb', buffering=0) as file:
        return file.write(b'x')
answer = {
  'devices': devices, 'zero': open('/dev/zero', 'rb').read(3).hex(),
  'full': attempt(write, '/dev/full'), 'null': attempt(write, '/dev/null'),
  'random': len(open('/dev/urandom', 'rb').read(3)),
  'others': sorted({attempt(os.stat, '/dev/' + name) for name in (
      'kmsg', 'mem', 'kmem', 'port', 'sda', 'vda', 'loop-control', 'fuse', 'kvm',
      'vsock', 'net/tun', 'uinput', 'tty', 'console', 'ptmx', 'pts',
      'userfaultfd', 'mapper/control', 'snd', 'dri')}),
}`,
  );
  assert.deepEqual(answer, {
    devices: {
      fd: 'l',
      full: '1:7',
      null: '1:3',
      random: '1:8',
      shm: 'd',
      stderr: 'l',
      stdin: 'l',
      stdout: 'l',
      urandom: '1:9',
      zero: '1:5',
    },
    zero: '000000',
    full: 'ENOSPC',
    null: 1,
    random: 3,
    others: ['ENOENT'],
  });
  assert.ok(fs.existsSync('/dev/kmsg') || fs.existsSync('/dev/tty'));
});

test('ATK a box cannot make device nodes', async (t) => {
  const answer = await ask(
    await open(t),
    `
import stat
def make(folder, kind, *number):
    return attempt(os.mknod, folder + '/node', kind | 0o666, os.makedev(*number))
folders = ('/workspace', '/tmp', '/home/user', '/dev/shm')
answer = {
  'character': [make(folder, stat.S_IFCHR, 1, 3) for folder in folders],
  'block': [make(folder, stat.S_IFBLK, 8, 0) for folder in folders],
}
# Overlays mark what is gone with a device of no driver; anybody may make it.
make('/workspace', stat.S_IFCHR, 0, 0)
answer['whiteout'] = attempt(os.open, '/workspace/node', os.O_RDONLY)
answer['fifo'] = make('/tmp', stat.S_IFIFO, 0, 0)`,
  );
  assert.deepEqual(answer, {
    character: ['EPERM', 'EPERM', 'EPERM', 'EPERM'],
    block: ['EPERM', 'EPERM', 'EPERM', 'EPERM'],
    whiteout: answer.whiteout,
    fifo: null,
  });
  // nodev; or, where it could not even be made, nothing.
  assert.match(answer.whiteout, /^(EACCES|ENXIO|ENOENT)$/);
  if (isRoot) {
    const node = path.join(makeFolder(t), 'node');
    assert.equal(outside(['mknod', node, 'c', '1', '3']).exitCode, 0);
  }
});

test('NS-23 there is no /sys', async (t) => {
  const paths = [
    '/sys',
    '/sys/kernel/uevent_helper',
    '/sys/firmware',
    '/sys/fs/bpf',
    '/sys/fs/cgroup',
    '/sys/kernel/debug',
    '/sys/devices/virtual/powercap',
    '/sys/devices/system/cpu/cpu0/thermal_throttle',
  ];
  const answer = await ask(
    await open(t),
    `answer = [attempt(os.stat, path) for path in ${JSON.stringify(paths)}]`,
  );
  assert.deepEqual(answer, Array(paths.length).fill('ENOENT'));
  assert.ok(fs.existsSync('/sys/kernel'));
});

test('NS-25 a box sees no cgroup but its own, as the root', async (t) => {
  const sandbox = await open(t);
  const held = askAndHold(
    sandbox,
    `answer = read('/proc/self/cgroup') + read('/proc/1/cgroup')
hold()`,
  );
  await held.ready;
  // The launcher's: boxes are its children.
  const outsideBox = descendants().map(({ pid }) => {
    try {
      return fs.readFileSync(`/proc/${pid}/cgroup`, 'utf8');
    } catch {
      return '';
    }
  });
  await held.release();
  const lines = (await held.answer).trim().split('\n');
  assert.ok(lines.length >= 2);
  for (const line of lines) assert.match(line, /^\d+:[^:]*:\/$/);
  const mounts = await listMounts(sandbox);
  assert.ok(!mounts.some(({ filesystem }) => filesystem.startsWith('cgroup')));
  if (sandbox.limits.memoryMb === 'kernel') {
    assert.ok(leaves().length > 0);
    assert.match(outsideBox.join(''), /\/gbx-\d+-\d+-\d+-\d+$/m);
  }
});

// ---- Files -----------------------------------------------------------------

test('ATK what a box writes into a workspace belongs to its owner', async (t) => {
  const workspace = makeFolder(t);
  const owner = isRoot
    ? { uid: 4242, gid: 4343 }
    : { uid: process.getuid(), gid: process.getgid() };
  fs.chownSync(workspace, owner.uid, owner.gid);
  const sandbox = await open(t, { workspace });
  const answer = await ask(
    sandbox,
    `
open('file', 'w').close()
os.mkdir('folder')
os.symlink('/', 'link')
os.mkfifo('fifo')
os.chmod('file', 0o6755)
info = os.stat('file')
answer = {
  'owner': [info.st_uid, info.st_gid],
  'chown': sorted({attempt(os.chown, 'file', uid, -1) for uid in
                   (0, 1, 4242, 65534)}),
  'capability': attempt(os.setxattr, 'file', 'security.capability',
                        bytes.fromhex('0100000200000000' + '00' * 12)),
  'trusted': attempt(os.setxattr, 'file', 'trusted.x', b''),
}`,
  );
  assert.deepEqual(answer.owner, [1000, 1000]);
  assert.ok(answer.chown.every((result) => /^(EPERM|EINVAL)$/.test(result)));
  assert.match(answer.capability, /^(EPERM|EINVAL)$/);
  assert.equal(answer.trusted, 'EPERM');
  for (const name of ['file', 'folder', 'link', 'fifo']) {
    const { uid, gid } = fs.lstatSync(path.join(workspace, name));
    assert.deepEqual({ uid, gid }, owner, name);
  }
  // On the host it has the bits: docs/threat-model.md says so.
  assert.equal(fs.statSync(path.join(workspace, 'file')).mode & 0o7777, 0o6755);
});

test('ATK a setuid program in the workspace gives a box nothing', {
  skip: !isRoot && 'only root can make one that would',
}, async (t) => {
  const workspace = makeFolder(t);
  fs.chmodSync(workspace, 0o755);
  const program = path.join(workspace, 'id');
  fs.copyFileSync('/usr/bin/id', program);
  fs.chmodSync(program, 0o4755);
  fs.chownSync(workspace, 4242, 4343);
  const sandbox = await open(t, { workspace });
  const result = await sandbox.run(['./id', '-u']);
  assert.equal(result.stdout, '1000\n', result.stderr);
  const twin = outside([
    ...['setpriv', '--reuid=65000', '--regid=65000', '--clear-groups'],
    ...[program, '-u'],
  ]);
  assert.equal(twin.stdout, '0\n', twin.stderr);
});

test('ATK a link that a box planted leads the host nowhere (WS-02)', async (t) => {
  const sandbox = await open(t);
  const links = {
    file: canary.file,
    folder: canary.dir,
    root: '/',
    up: '../..',
    proc: '/proc/self/cwd',
    loop: 'loop',
  };
  await ask(
    sandbox,
    `
for name, target in json.loads(${JSON.stringify(JSON.stringify(links))}).items():
    os.symlink(target, name)
answer = None`,
  );
  const secret = path.basename(canary.file);
  const outsidePath = { name: 'SandboxError', code: 'ERR_SANDBOX_PATH' };
  const noFile = { name: 'SandboxError', code: 'ERR_SANDBOX_NOT_REGULAR' };
  for (const [name, refused] of Object.entries({
    file: noFile,
    loop: noFile,
    [`folder/${secret}`]: outsidePath,
    [`root${canary.file}`]: outsidePath,
    [`up/${path.relative(os.tmpdir(), canary.file)}`]: outsidePath,
    'proc/x': outsidePath,
  })) {
    await assert.rejects(sandbox.readFile(name), refused, `read ${name}`);
    await assert.rejects(
      sandbox.writeFile(name, 'x'),
      refused,
      `write ${name}`,
    );
  }
  for (const name of ['folder', 'root', 'up', 'root/etc']) {
    await assert.rejects(sandbox.listFiles(name), outsidePath, `list ${name}`);
  }
  assert.deepEqual(await sandbox.listFiles(), []);
  assert.equal(
    fs.readFileSync(path.join(sandbox.workspace, 'file'), 'utf8'),
    canary.secret,
    'an open that follows links reads it',
  );
});

test('ATK what is no regular file holds up no call of the host (WS-05)', async (t) => {
  const sandbox = await open(t);
  await ask(
    sandbox,
    `
import socket
os.mkfifo('fifo')
socket.socket(socket.AF_UNIX).bind('socket')
os.mkdir('folder')
answer = None`,
  );
  const notRegular = { name: 'SandboxError', code: 'ERR_SANDBOX_NOT_REGULAR' };
  for (const name of ['fifo', 'socket', 'folder']) {
    await assert.rejects(sandbox.readFile(name), notRegular, `read ${name}`);
    await assert.rejects(
      sandbox.writeFile(name, 'x'),
      notRegular,
      `write ${name}`,
    );
  }
  assert.deepEqual(await sandbox.listFiles(), []);
});
