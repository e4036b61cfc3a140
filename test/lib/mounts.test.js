// SPDX-License-Identifier: Apache-2.0
'use strict';

// The shape of the option `mounts`, and the targets that no box has a place for.

const assert = require('node:assert/strict');
const path = require('node:path');
const { test } = require('node:test');
const { MountRefused, SandboxError } = require('../../lib/errors.js');
const { nameMount } = require('../../lib/mounts.js');
const { toSandboxError } = require('../../lib/errors.js');
const { readOptions } = require('../../lib/options.js');

const read = (mounts) => readOptions('new Sandbox()', { mounts }).mounts;

test('a string is read-only, a pair says it', () => {
  assert.deepEqual(
    read({ '/a': '/x', '/b': ['/y', 'rw'], '/c': ['/z', 'ro'], '/d': ['/w'] }),
    [
      { source: '/d', target: '/w', access: 'ro' },
      { source: '/a', target: '/x', access: 'ro' },
      { source: '/b', target: '/y', access: 'rw' },
      { source: '/c', target: '/z', access: 'ro' },
    ],
  );
  assert.equal(read(null), null);
  assert.deepEqual(read({}), []);
});

test('a source may be relative, and a target is made clean', () => {
  const [{ source, target }] = read({ 'data/./x': '/a//b/' });
  assert.equal(source, path.resolve('data/x'));
  assert.equal(target, '/a/b');
});

test('a target comes before those in it, whatever was said first', () => {
  const targets = read({
    '/1': '/data/out/deep',
    '/2': '/data',
    '/3': '/data-more',
    '/4': '/data/out',
  }).map(({ target }) => target);
  for (const [i, target] of targets.entries()) {
    for (const later of targets.slice(i)) {
      assert.ok(!target.startsWith(`${later}/`), `${later} after ${target}`);
    }
  }
});

test('MNT-02 a target that is no place of its own is refused', () => {
  const refused = [
    ...['relative', './x', 'C:\\x', '/a/../etc', '/a/./b', '/..'],
    ...['/', '//', '/workspace', '/workspace/data', '/workspace/'],
    ...['/proc', '/proc/sys', '/dev', '/dev/shm', '/dev/shm/x', '/dev/null'],
    ...['/sys', '/sys/fs/cgroup', '/run', '/run/glovebox', '/.proc'],
    ...['/run/glovebox/runtimes/python', '/tmp', '/tmp/', '/home'],
    ...['/home/user', '/etc', '/usr', '/bin', '/lib', '/var'],
    ...[`/${'a/'.repeat(2500)}`, `/${'n'.repeat(256)}`],
    ...['/data:ro', '/data:rw'],
  ];
  for (const target of refused) {
    for (const value of [target, [target, 'rw']]) {
      assert.throws(
        () => read({ '/srv/x': value }),
        (error) => {
          assert.ok(error instanceof MountRefused, `${target}: ${error}`);
          assert.equal(error.code, 'ERR_SANDBOX_MOUNT_REFUSED');
          assert.equal(error.rule, 'target');
          assert.equal(error.target, target);
          assert.match(error.message, /^The mount is refused: mounts\["\/srv/);
          return true;
        },
      );
    }
  }
  for (const target of [
    '/data',
    '/tmp/x',
    '/home/user/x',
    '/etc/x',
    '/var/x',
  ]) {
    assert.equal(read({ '/srv/x': target })[0].target, target);
  }
});

test('what is no mount at all is refused by its place', () => {
  const wrong = [
    [[], 'mounts', 'an array of 0'],
    [new Map([['/a', '/b']]), 'mounts', 'a Map'],
    ['/a:/b', 'mounts', '"/a:/b" (string)'],
    [5, 'mounts', '5 (number)'],
    [{ '/a': 5 }, 'mounts["/a"]', '5 (number)'],
    [{ '/a': '' }, 'mounts["/a"]', '"" (string)'],
    [{ '/a': null }, 'mounts["/a"]', 'null'],
    [{ '/a': { target: '/b' } }, 'mounts["/a"]', 'an object'],
    [{ '/a': '/b\0c' }, 'mounts["/a"]', '"/b\\u0000c" (string)'],
    [{ '/a\0': '/b' }, 'mounts["/a\\u0000"]', '"/a\\u0000" (string)'],
    [{ '': '/b' }, 'mounts[""]', '"" (string)'],
    [{ '/a': [] }, 'mounts["/a"]', 'undefined'],
    [{ '/a': ['/b', 'RW'] }, 'mounts["/a"]', '"RW" (string)'],
    [{ '/a': ['/b', true] }, 'mounts["/a"]', 'true (boolean)'],
    [{ '/a': ['/b', 'ro', 1] }, 'mounts["/a"]', 'an array of 3'],
    [
      { [`/${'x'.repeat(5000)}`]: '/b' },
      `mounts["/${'x'.repeat(59)}…"]`,
      '5001 bytes',
    ],
    [{ '/a': '/x', '/b': '/x/' }, 'mounts', '"/x" (string) more than once'],
    [{ '/a': '/x', '/a/': '/y' }, 'mounts', '"/a" (string) more than once'],
  ];
  for (const [mounts, option, received] of wrong) {
    assert.throws(
      () => read(mounts),
      (error) => {
        assert.ok(error instanceof SandboxError);
        assert.equal(error.code, 'ERR_SANDBOX_INVALID_OPTION');
        assert.equal(error.option, option);
        assert.equal(error.received, received);
        return true;
      },
    );
  }
});

test('MNT-11 more than 64 mounts are refused', () => {
  const many = (count) =>
    Object.fromEntries(
      Array.from({ length: count }, (_, i) => [`/src/${i}`, `/dst/${i}`]),
    );
  assert.equal(read(many(64)).length, 64);
  for (const count of [65, 1000]) {
    assert.throws(() => read(many(count)), {
      option: 'mounts',
      message: `Expected at most 64 mounts for mounts, received ${count}`,
    });
  }
});

test('MNT-10 an access with options of mount(8) in it is none', () => {
  for (const access of [
    'rw,mode=0777',
    'ro,exec',
    'rw ',
    'tmpfs',
    '64m,mode=0777,uid=0',
    '64M',
    1e3,
    -1,
  ]) {
    assert.throws(() => read({ '/srv/x': ['/data', access] }), {
      code: 'ERR_SANDBOX_INVALID_OPTION',
      option: 'mounts["/srv/x"]',
    });
  }
  for (const access of ['ro', 'rw']) {
    assert.equal(read({ '/srv/x': ['/data', access] }).length, 1);
  }
});

test('values are read once', () => {
  let reads = 0;
  const mounts = {
    get '/a'() {
      reads++;
      return reads === 1 ? '/x' : '/proc';
    },
  };
  assert.equal(read(mounts)[0].target, '/x');
  assert.equal(reads, 1);
});

test('an error of the engine names the mount, its rule and what to do', () => {
  const mounts = read({ '/srv/a': '/a', '/etc/x"y': '/b' });
  const refused = toSandboxError(
    nameMount(
      {
        code: 'MOUNT_REFUSED',
        errno: 1,
        op: 'mount',
        detail: '1 system is /etc, or lies in it: /etc/x',
      },
      mounts,
    ),
  );
  assert.ok(refused instanceof MountRefused);
  assert.equal(refused.name, 'MountRefused');
  assert.equal(refused.code, 'ERR_SANDBOX_MOUNT_REFUSED');
  assert.equal(refused.rule, 'system');
  assert.equal(refused.source, '/etc/x"y');
  assert.equal(refused.target, '/b');
  assert.equal(refused.option, 'mounts');
  assert.equal(refused.errno, undefined);
  assert.match(
    refused.message,
    /^The mount is refused: "\/etc\/x\\"y" is \/etc, or lies in it\. Mount a /,
  );
  // A call knows less: the beginning of the path.
  const ofCall = toSandboxError({
    code: 'MOUNT_REFUSED',
    errno: 1,
    op: 'mount',
    detail: '1 hidden is .aws of $HOME, or holds it: /srv/a: b',
  });
  assert.ok(ofCall instanceof MountRefused);
  assert.equal(ofCall.source, '/srv/a: b');
  assert.equal(ofCall.rule, 'hidden');
  assert.match(
    ofCall.message,
    /: "\/srv\/a: b" is \.aws of \$HOME, or holds it\. M/,
  );
  const missing = toSandboxError(
    nameMount(
      {
        code: 'MOUNT',
        errno: 2,
        op: 'mount',
        detail: '0 cannot be opened: /srv',
      },
      mounts,
    ),
  );
  assert.ok(!(missing instanceof MountRefused));
  assert.match(
    missing.message,
    /^The mount could not be made: "\/srv\/a" cannot be opened: ENOENT \(.*\)\. Make it first/,
  );
});
