// SPDX-License-Identifier: Apache-2.0
'use strict';

// Group MNT of the hostile cases where the source is a mount itself, or holds
// one: hosts with mounts of their own. The rest is in mounts.test.js.

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const {
  isRoot,
  makeFolder: makeTestFolder,
  skip,
  test,
} = require('../helpers/harness.js');
const { startHost } = require('../helpers/host-script.js');

function scratchFolder(t) {
  const folder = makeTestFolder(t);
  fs.chmodSync(folder, 0o755);
  return folder;
}

function makeFolder(...parts) {
  const folder = path.join(...parts);
  fs.mkdirSync(folder, { recursive: true });
  return folder;
}

/** A host process whose mounts are its own, as far as `script` has made them. */
function startWithMounts(t, script, args, env) {
  const shell = `${script}\nshift ${args.length}\nexec "$@"`;
  return startHost(t, {
    env,
    wrapper: [
      ...['unshare', isRoot ? '-m' : '-rm', '--propagation', 'private'],
      ...['sh', '-ec', shell, 'sh', ...args],
    ],
  });
}

function tryMounts(host, cases) {
  return host.ask(async ({ glovebox: { Sandbox: There } }, list) => {
    const seen = [];
    for (const [source, access, argv] of list) {
      const sandbox = new There({ mounts: { [source]: ['/data', access] } });
      try {
        await sandbox.open();
        const { stdout, stderr } = await sandbox.run(argv);
        seen.push(stdout + stderr);
      } catch ({ message, rule }) {
        seen.push({ message, rule });
      }
      await sandbox.close();
    }
    return seen;
  }, cases);
}

function canMount(t) {
  try {
    execFileSync('unshare', [isRoot ? '-m' : '-rm', 'true'], {
      stdio: 'ignore',
    });
    return true;
  } catch {
    skip(t, 'no mount namespaces here');
    return false;
  }
}

test('MNT-01 a bind mount of what is refused is refused, and what holds one', async (t) => {
  if (!canMount(t)) return;
  const folder = scratchFolder(t);
  const [alias, holds, twin] = ['alias', 'holds', 'twin'].map((name) =>
    makeFolder(folder, name),
  );
  makeFolder(holds, 'deep', 'ssl');
  const mine = makeFolder(folder, 'mine');
  fs.writeFileSync(path.join(mine, 'file'), 'bound');
  const host = startWithMounts(
    t,
    'mount --rbind /etc/ssl "$1"; mount --rbind /etc "$2/deep/ssl"; ' +
      'mount --bind "$3" "$4"',
    [alias, holds, mine, twin],
  );
  const seen = await tryMounts(host, [
    [alias, 'ro', ['ls', '/data']],
    [path.join(alias, 'certs'), 'ro', ['ls', '/data']],
    [holds, 'ro', ['ls', '/data']],
    [path.join(holds, 'deep'), 'ro', ['ls', '/data']],
    [twin, 'ro', ['cat', '/data/file']],
    [folder, 'ro', ['ls', '/data']],
  ]);
  assert.deepEqual(
    seen.map(({ rule }) => rule),
    ['system', 'system', 'system', 'system', undefined, 'system'],
  );
  assert.match(seen[2].message, /holds a mount that is \/etc/);
  assert.equal(seen[4], 'bound');
  assert.equal((await host.end()).exitCode, 0);
});

test('MNT-01 bind mounts of a temporary workspace and of what is hidden are refused on file systems of their own', async (t) => {
  if (!canMount(t)) return;
  const folder = scratchFolder(t);
  const [temp, home, alias, hidden] = ['temp', 'home', 'alias', 'hidden'].map(
    (name) => makeFolder(folder, name),
  );
  const host = startWithMounts(
    t,
    'for place in "$1" "$2"; do mount -t tmpfs none "$place"; done; ' +
      'mkdir "$2/.ssh"; mount --bind "$2/.ssh" "$3"',
    [temp, home, hidden],
    { HOME: home, TMPDIR: temp },
  );
  const rules = await host.ask(
    async ({ glovebox: { Sandbox: There }, childProcess }, place, secret) => {
      const owner = await new There().open();
      await owner.writeFile('file', 'private');
      const bind = ['--bind', owner.workspace, place];
      childProcess.execFileSync('mount', bind);
      const seen = [];
      for (const source of [place, `${place}/file`, secret]) {
        const sandbox = new There({ mounts: { [source]: '/data' } });
        await sandbox.open().then(
          () => seen.push('opened'),
          ({ rule }) => seen.push(rule),
        );
        await sandbox.close();
      }
      childProcess.execFileSync('umount', [place]);
      await owner.close();
      return seen;
    },
    alias,
    hidden,
  );
  assert.deepEqual(rules, ['own', 'own', 'hidden']);
  assert.equal((await host.end()).exitCode, 0);
});

test('MNT-01 file systems of the kernel are refused wherever they are mounted', async (t) => {
  if (!isRoot || !canMount(t)) return; // Others may mount none of them.
  const folder = scratchFolder(t);
  const known = fs.readFileSync('/proc/filesystems', 'utf8');
  const types = [
    ...['proc', 'sysfs', 'cgroup', 'cgroup2', 'debugfs', 'tracefs', 'bpf'],
    ...['securityfs', 'pstore', 'mqueue', 'devpts', 'hugetlbfs', 'fusectl'],
  ].filter((type) => new RegExp(`\\t${type}$`, 'm').test(known));
  const places = types.map((type) => makeFolder(folder, type));
  const host = startWithMounts(
    t,
    types
      .map((type, i) => [type, `"\${${i + 1}}"`])
      .map(
        ([type, place]) =>
          `mount -t ${type} none ${place} 2>&- || mount -t tmpfs other ${place}`,
      )
      .join('\n'),
    places,
  );
  const mounted = await host.ask(({ fs: files }) =>
    files.readFileSync('/proc/self/mounts', 'utf8'),
  );
  const cases = places
    .filter((place) => !mounted.includes(`other ${place} `))
    .map((place) => [place, 'ro', ['ls', '/data']]);
  assert.ok(cases.length > 5, `${cases}`);
  const seen = await tryMounts(host, cases);
  for (const [i, { rule }] of seen.entries()) {
    assert.equal(rule, 'kernel', cases[i][0]);
  }
  assert.equal((await host.end()).exitCode, 0);
});

test('MNT-01 an overlay that shows what is refused is refused, layer by layer', async (t) => {
  if (!canMount(t)) return;
  const folder = scratchFolder(t);
  const [home, mine, empty, over, holds, twin, plain] = [
    ...['home', 'mine', 'empty', 'over', 'holds', 'twin', 'plain'],
  ].map((name) => makeFolder(folder, name));
  const odd = makeFolder(home, '.a:b,c d', 'deep');
  const work = makeFolder(home, 'work');
  makeFolder(holds, 'below');
  for (const place of [odd, mine, work]) {
    fs.writeFileSync(path.join(place, 'file'), 'shown');
  }
  const escaped = odd.replace(/[:,]/g, '\\$&').replace(/\/deep$/, '');
  const host = startWithMounts(
    t,
    'lay() { mount -t overlay none -o "lowerdir=$1" "$2"; }\n' +
      'lay "/etc:$1" "$2"; lay "$3:$1" "$4/below"; ' +
      'lay "$5:$1" "$6"; lay "$7:$1" "$8"; lay "$6:$1" "$1"',
    [empty, over, escaped, holds, home, plain, mine, twin],
    { HOME: home },
  );
  const seen = await tryMounts(host, [
    [over, 'ro', ['ls', '/data']],
    [path.join(over, 'ssl'), 'ro', ['ls', '/data']],
    [path.join(over, 'passwd'), 'ro', ['cat', '/data']],
    [holds, 'ro', ['ls', '/data']],
    [path.join(holds, 'below', 'deep'), 'ro', ['cat', '/data/file']],
    [plain, 'ro', ['ls', '/data']],
    [path.join(plain, '.a:b,c d'), 'ro', ['ls', '/data']],
    [path.join(empty, '.a:b,c d'), 'ro', ['ls', '/data']], // of an overlay
    [path.join(plain, 'work'), 'ro', ['cat', '/data/file']],
    [twin, 'ro', ['cat', '/data/file']],
  ]);
  assert.deepEqual(
    seen.map((one) => one.rule ?? one),
    [
      ...['system', 'system', 'system', 'hidden', 'hidden', 'home', 'hidden'],
      ...['hidden', 'shown', 'shown'],
    ],
  );
  assert.match(seen[0].message, /is an overlay of what is \/etc/);
  assert.equal((await host.end()).exitCode, 0);
});

test('MNT-04 a source on a mount with nosuid, nodev and noexec keeps these, and is read-only all the way down', async (t) => {
  if (!canMount(t)) return;
  const source = makeFolder(scratchFolder(t), 'source');
  const host = startWithMounts(
    t,
    'mount -t tmpfs -o nosuid,nodev,noexec,mode=755 one "$1"; mkdir "$1/below"; ' +
      'mount -t tmpfs -o mode=777 two "$1/below"; echo text > "$1/below/file"',
    [source],
  );
  const argv = [
    'sh',
    '-c',
    'cat /data/below/file; echo more > /data/below/new; ' +
      'grep " /data" /proc/self/mountinfo',
  ];
  const seen = await tryMounts(host, [
    [source, 'ro', argv],
    [source, 'rw', argv],
  ]);
  const options = seen.map((text) =>
    Array.from(
      text.matchAll(/ (\/data\S*) (\S+)/g),
      ([, target, flags]) => `${target} ${flags}`,
    ),
  );
  assert.match(seen[0], /^text\n/);
  assert.match(seen[0], /cannot create .*Read-only file system/);
  assert.match(options[0][0], /^\/data ro,nosuid,nodev,noexec/);
  assert.match(options[0][1], /^\/data\/below ro,nosuid,nodev/);
  assert.match(options[1][0], /^\/data rw,nosuid,nodev,noexec/);
  assert.match(options[1][1], /^\/data\/below rw,nosuid,nodev/);
  assert.doesNotMatch(seen[1], /cannot create/);
  assert.equal((await host.end()).exitCode, 0);
});

test('MNT-04 as root a file system without idmaps is mounted to be read, and not to be written', async (t) => {
  if (!isRoot || !canMount(t)) return; // Others need no idmaps.
  const source = makeFolder(scratchFolder(t), 'source');
  const host = startWithMounts(
    t,
    'mount -t ramfs none "$1"; chmod 755 "$1"; echo all > "$1/file"; ' +
      'echo none > "$1/closed"; chmod 600 "$1/closed"',
    [source],
  );
  const [file, closed, writable] = await tryMounts(host, [
    [source, 'ro', ['cat', '/data/file']],
    [source, 'ro', ['cat', '/data/closed']],
    [source, 'rw', ['touch', '/data/new']],
  ]);
  assert.equal(file, 'all\n');
  assert.match(closed, /Permission denied/);
  assert.match(writable.message, /has no idmapped mounts, which root needs/);
  assert.ok(writable.message.includes(source), writable.message);
  assert.equal((await host.end()).exitCode, 0);
});
