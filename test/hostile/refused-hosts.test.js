// SPDX-License-Identifier: Apache-2.0
'use strict';

// Hosts on which no box can be: a weaker one is never made instead.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const { constants } = require('node:os');
const { isRoot, outside, skip, test } = require('../helpers/harness.js');
const {
  askRefused,
  assertRefused,
  withoutRights,
} = require('../helpers/refused.js');
const { compile, hasCompiler, numbers } = require('./attack.js');

const { EPERM, ENOSYS } = constants.errno;

const newNamespaces = 0x7e020000; // every CLONE_NEW... but NEWTIME

// As root the mount namespace alone will do.
const unshareMounts = isRoot
  ? ['unshare', '--mount', '--propagation', 'private']
  : ['unshare', '--user', '--map-root-user', '--mount'];

const shell = (script) => ['sh', '-ec', script, 'sh'];

/** The start of a command that runs behind a filter, see filtered.c. */
function filtered(errno, ...rules) {
  return [compile('filtered'), String(errno), ...rules.map(String), '--'];
}

const isContainer = fs.existsSync('/.dockerenv');

/** What the text says to do about what surrounds the process. */
const aroundIt = isContainer
  ? /docker run --security-opt seccomp=unconfined/
  : /RestrictNamespaces=/;

test('HST-13: a chroot is refused by its name', () => {
  // A folder with the host's folders in it, as debootstrap and mounts make one.
  const script = `
    root=$(mktemp -d); mount -t tmpfs none "$root"; mkdir "$root/r"; cd /
    for name in *; do
      if [ -L "$name" ]; then cp -P "$name" "$root/r/$name"
      elif [ -d "$name" ]; then
        mkdir "$root/r/$name"; mount --rbind "$name" "$root/r/$name"; fi
    done
    exec chroot "$root/r" "$@"`;
  const prefix = [...unshareMounts, ...shell(script)];
  const twin = outside([...prefix, 'unshare', '--user', 'true']);
  assert.match(twin.stderr, /unshare failed: Operation not permitted/);
  const answer = askRefused(prefix);
  assertRefused(answer, [/user namespaces/, /runs in a chroot/, /pivot_root/]);
  assert.equal(answer.error.code, 'ERR_SANDBOX_START');
  assert.equal(answer.error.errno, 'EPERM');
});

for (const [title, errno, rules] of [
  // EPERM would keep a libc from making threads.
  ["with ENOSYS for clone3, as Docker's", ENOSYS, [numbers.clone3]],
  [
    'with EPERM for unshare of a namespace',
    EPERM,
    [`${numbers.unshare}&${newNamespaces}`],
  ],
  ['with EPERM for mount', EPERM, [numbers.mount]],
  ['with EPERM for open_tree', EPERM, [numbers.open_tree]],
]) {
  test(`HST-13: an outer filter ${title} is named`, (t) => {
    if (!hasCompiler()) return skip(t, 'no C compiler');
    const answer = askRefused(filtered(errno, ...rules));
    assertRefused(answer, [
      isContainer ? /container around this process/ : /call filter/,
      aroundIt,
    ]);
  });
}

// The first ends the launcher while it starts, the second while it makes a root.
for (const name of ['mount', 'mount_setattr']) {
  test(`HST-13: an outer filter that kills for ${name} is named`, (t) => {
    if (!hasCompiler()) return skip(t, 'no C compiler');
    const answer = askRefused(filtered(0, numbers[name]));
    assertRefused(answer, [new RegExp(`kills whoever calls ${name}\\.`)]);
  });
}

for (const [title, errno, rules] of [
  ['is missing', ENOSYS, [numbers.seccomp]],
  ['is forbidden', EPERM, [numbers.seccomp]],
  // Only loading a filter: the questions before it are answered.
  ['loads no filter', EPERM, [`${numbers.seccomp}=1`]],
]) {
  test(`SYS-25: where seccomp(2) ${title}, nothing runs unfiltered`, (t) => {
    if (!hasCompiler()) return skip(t, 'no C compiler');
    assertRefused(askRefused(filtered(errno, ...rules)), [
      /filter is what holds the code, so nothing runs without it/,
      aroundIt,
    ]);
  });
}

test('HST-14: a masked /proc is refused, with what masks it', () => {
  const script = 'mount -t tmpfs none /proc/irq; exec "$@"';
  const prefix = [...unshareMounts, ...shell(script)];
  // The twin: here a new /proc cannot be mounted by anybody without the host's.
  const twin = outside([
    ...prefix,
    ...['unshare', '--user', '--map-root-user', '--mount', '--pid', '--fork'],
    ...['mount', '-t', 'proc', 'proc', '/proc'],
  ]);
  assert.match(twin.stderr, /permission denied|not permitted/);
  assertRefused(askRefused(prefix), [
    /mounted over parts of \/proc \(\/proc\/irq\)/,
    isContainer ? /systempaths=unconfined/ : /ProtectKernelTunables=/,
  ]);
});

test('HST-13: as root of a user namespace whose limit is used up', () => {
  const script = 'echo 0 > /proc/sys/user/max_mnt_namespaces; exec "$@"';
  const prefix = ['unshare', '--user', '--map-root-user', ...shell(script)];
  assertRefused(askRefused([...prefix, ...withoutRights]), [
    /no further user namespaces, or namespaces of another kind/,
    /user\.max_mnt_namespaces is 0/,
    /sysctl -w user\.max_mnt_namespaces=/,
  ]);
});
