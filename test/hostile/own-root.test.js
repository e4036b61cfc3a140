// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rows NS: what of its own root a box can change: its mounts, /proc, /sys and
// /dev.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const {
  descendants,
  isRoot,
  leaves,
  makeFolder,
  open,
  outside,
  test,
} = require('../helpers/harness.js');
const {
  ask,
  askAndHold,
  askOutside,
  assertFinished,
  listMounts,
} = require('./attack.js');

const bash = { language: 'bash' };

// ---- Mounts ----------------------------------------------------------------

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
