// SPDX-License-Identifier: Apache-2.0
'use strict';

// Which text a failure has on which host. The hosts are folders here: what a
// real one says is in test/cases/doctor.test.js, test/hostile and test/vm.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, test } = require('node:test');
const { errnoName, toSandboxError } = require('../../lib/errors.js');
const { Facts } = require('../../lib/facts.js');
const { diagnose, remedyFor } = require('../../lib/remedies.js');

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'remedies-'));
after(() => fs.rmSync(folder, { recursive: true }));

const launcher = '/opt/app/node_modules/glovebox/build/Release/launcher';

const plainStatus = 'Name:\tnode\nSeccomp:\t0\n';
const plainMounts = `22 1 8:1 / / rw - ext4 /dev/vda rw
23 22 0:21 / /proc rw - proc proc rw
24 23 0:22 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw`;

/** Facts of a host with these files, and with this output of the probe. */
function hostWith(files = {}, { probe = '', signal = null, ...more } = {}) {
  const root = fs.mkdtempSync(path.join(folder, 'host-'));
  const all = {
    '/proc/self/status': plainStatus,
    '/proc/self/mountinfo': plainMounts,
    '/proc/self/cgroup': '0::/user.slice\n',
    ...files,
  };
  for (const [name, text] of Object.entries(all)) {
    const file = path.join(root, name);
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.writeFileSync(file, text);
  }
  return new Facts({
    root,
    env: {},
    uid: 1000,
    launcher,
    runProbe: () => ({ stdout: probe, signal }),
    ...more,
  });
}

const debian = '/proc/sys/kernel/unprivileged_userns_clone';
const ubuntu = '/proc/sys/kernel/apparmor_restrict_unprivileged_userns';
const limit = '/proc/sys/user/max_user_namespaces';
const abi4 = { '/etc/apparmor.d/abi/4.0': '' };
const confined = { probe: 'profile glovebox-vm (enforce)\n' };

const clone = { code: 'START', step: 'clone3', errno: 'EPERM' };
const mount = { code: 'START', step: 'mount slave', errno: 'EACCES' };
const pivot = { code: 'SETUP', step: 'pivot_root', errno: 'EACCES' };
const proc = { code: 'START', step: 'mount proc', errno: 'EPERM' };
const seccomp = { code: 'SETUP', step: 'seccomp', errno: 'EPERM' };

/** The text has all of `wanted` and none of `unwanted`. */
function assertSays(failure, facts, wanted, unwanted = []) {
  const text = remedyFor(failure, facts);
  for (const pattern of wanted) assert.match(text, pattern);
  for (const pattern of unwanted) assert.doesNotMatch(text, pattern);
}

test('HST-13: the switch of Debian is named only where it is there and off', () => {
  const named = /sysctl -w kernel\.unprivileged_userns_clone=1/;
  assertSays(clone, hostWith({ [debian]: '0\n' }), [
    /User namespaces are forbidden to this process/,
    /kernel\.unprivileged_userns_clone is 0/,
    named,
  ]);
  assertSays(clone, hostWith({ [debian]: '1\n' }), [/dmesg/], [named]);
  assertSays(clone, hostWith(), [/dmesg/], [named]);
});

test('P35 HST-13: the switch of Ubuntu is named only where it is on', () => {
  const named = /sysctl -w kernel\.apparmor_restrict_unprivileged_userns=0/;
  for (const failure of [clone, mount, pivot, proc]) {
    assertSays(failure, hostWith({ [ubuntu]: '1\n', ...abi4 }), [
      named,
      /apparmor_restrict_unprivileged_userns is 1/,
      /`abi <abi\/4\.0>, profile glovebox "\/opt\/app\/.*\/launcher" flags=\(unconfined\) \{ userns, \}`/,
      /apparmor_parser -r \/etc\/apparmor\.d\/glovebox/,
    ]);
  }
  const off = hostWith({ [ubuntu]: '0\n', ...abi4 }, confined);
  assertSays(mount, off, [/profile "glovebox-vm"/], [named]);
});

test('HST-13: a profile that confines the launcher is named', () => {
  for (const failure of [clone, mount, pivot, proc]) {
    assertSays(
      failure,
      hostWith(abi4, confined),
      [
        /AppArmor profile "glovebox-vm" confines the launcher/,
        /`capability, mount, umount, pivot_root, userns, `/,
        /apparmor_parser -r/,
      ],
      [/apparmor_restrict/],
    );
  }
});

test('HST-13: an AppArmor that knows no "userns" is not told to use it', () => {
  const facts = hostWith({}, confined);
  assertSays(
    mount,
    facts,
    [/`capability, mount, umount, pivot_root, `/, /abi <abi\/3\.0>/],
    [/userns, /, /abi\/4\.0/],
  );
});

test('a profile that forbids nothing is not named', () => {
  for (const probe of [
    'profile unconfined\n',
    'profile glovebox (unconfined)\n',
    'profile other (complain)\n',
    'profile system_u:system_r:container_t:s0\n',
    'profile \n',
    '',
  ]) {
    const facts = hostWith({}, { probe });
    assert.equal(facts.profile, undefined);
    assertSays(mount, facts, [/may not mount/, /dmesg/], [/AppArmor/]);
  }
});

test("a container's profile is a matter of the container", () => {
  const files = { '/.dockerenv': '' };
  const probe = 'profile docker-default (enforce)\n';
  assertSays(
    mount,
    hostWith(files, { probe }),
    [/"docker-default"/, /docker run .*apparmor=unconfined/],
    [/apparmor_parser/],
  );
});

test('HST-13: each kind of container has its own flags', () => {
  const kinds = [
    [{ '/.dockerenv': '' }, {}, /docker run --security-opt seccomp=unconf/],
    [{ '/proc/self/cgroup': '0::/docker/ab' }, {}, /docker run /],
    [{ '/run/.containerenv': '' }, {}, /podman run .*unmask=ALL/],
    [{ '/proc/self/cgroup': '0::/libpod-ab' }, {}, /podman run /],
    [{}, { env: { KUBERNETES_SERVICE_HOST: '10.0.0.1' } }, /procMount: Unm/],
    [{ '/proc/self/cgroup': '0::/kubepods/pod1' }, {}, /securityContext/],
    [{ '/proc/1/environ': 'a=b\0container=lxc\0' }, {}, /nested user names/],
    [{ '/run/systemd/container': 'systemd-nspawn' }, {}, /systemd-nspawn/],
  ];
  for (const [files, options, pattern] of kinds) {
    for (const failure of [clone, mount, seccomp]) {
      const missing = { ...failure, errno: 'ENOSYS', code: 'START' };
      assertSays(failure, hostWith(files, options), [pattern]);
      if (failure !== mount) {
        assertSays(missing, hostWith(files, options), [pattern]);
      }
    }
  }
});

test('HST-13: a chroot is named before the container around it', () => {
  const inner = '23 22 0:21 / /proc rw - proc proc rw';
  const facts = hostWith({
    '/proc/self/mountinfo': inner,
    '/.dockerenv': '',
  });
  assertSays(clone, facts, [/runs in a chroot/], [/docker run/]);
});

test('SYS-25 HST-13: a filter from outside is named', () => {
  const facts = hostWith({ '/proc/self/status': 'Seccomp:\t2\n' });
  assertSays(clone, facts, [/Seccomp in \/proc\/self\/status is 2/]);
  assertSays(clone, facts, [/RestrictNamespaces=/]);
  assertSays(seccomp, facts, [/nothing runs without it/, /SystemCallFilter=/]);
  assertSays(seccomp, hostWith(), [/CONFIG_SECCOMP_FILTER/]);
});

test('HST-13: a filter that kills is named with the call', () => {
  const files = { '/proc/self/status': 'Seccomp:\t2\n' };
  const options = {
    probe: 'profile \npidfd_open 22\nclone3 ',
    signal: 'SIGSYS',
  };
  const died = { code: 'DIED', step: 'launcher' };
  assertSays(died, hostWith(files, options), [/kills whoever calls clone3/]);
  // Without a filter around it nobody asks.
  let asked = 0;
  const runProbe = () => {
    asked++;
    return { stdout: '', signal: null };
  };
  assert.equal(
    remedyFor(died, hostWith({}, { runProbe })),
    'The next call starts them again.',
  );
  assert.equal(asked, 0);
});

test('HST-14: what covers parts of /proc is named', () => {
  const covers = `${plainMounts}
25 23 0:5 /null /proc/kcore rw - devtmpfs d rw
26 23 0:6 / /proc/acpi ro - tmpfs t rw`;
  const files = { '/proc/self/mountinfo': covers };
  assertSays(proc, hostWith(files), [
    /over parts of \/proc \(\/proc\/kcore, \/proc\/acpi\)/,
    /ProtectKernelTunables=/,
  ]);
  assertSays(proc, hostWith({ ...files, '/.dockerenv': '' }), [
    /systempaths=unconfined/,
  ]);
});

test('P35 HST-13: a limit of namespaces is named with its value', () => {
  for (const errno of ['ENOSPC', 'EUSERS']) {
    const failure = { code: 'START', step: 'clone3', errno };
    assertSays(failure, hostWith({ [limit]: '0\n' }), [
      /no further user namespaces/,
      /user\.max_user_namespaces is 0/,
      /sysctl -w user\.max_user_namespaces=15000/,
    ]);
  }
  const net = '/proc/sys/user/max_net_namespaces';
  const failure = { code: 'SETUP', step: 'clone3', errno: 'ENOSPC' };
  const low = hostWith({ [limit]: '90000\n', [net]: '20\n' });
  assertSays(failure, low, [
    /: user\.max_net_namespaces is 20\./,
    /sysctl -w user\.max_net_namespaces=15000/,
  ]);
  assertSays(failure, hostWith(), [/kind\./, /user\.max_user_namespaces=/]);
  const elsewhere = { code: 'IO', step: 'write', errno: 'ENOSPC' };
  assertSays(elsewhere, hostWith({ [limit]: '0\n' }), [/disk/], [/sysctl/]);
});

test('HST-09: descriptors on their way are told from open ones', () => {
  assert.equal(errnoName(109), 'ETOOMANYREFS');
  const failure = { code: 'SETUP', step: 'sendmsg', errno: 'ETOOMANYREFS' };
  assertSays(failure, hostWith(), [/on their way/, /ulimit -n/], [/are open/]);
});

test('a root without its capabilities is told so', () => {
  const failure = { code: 'START', step: 'uid_map', errno: 'EPERM' };
  const words = /uid 0 but not the capabilities of root/;
  assertSays(failure, hostWith({}, { uid: 0 }), [words]);
  assertSays(failure, hostWith(), [/dmesg/], [words]);
});

test('a refused workspace says what would be one', () => {
  const failure = { code: 'WORKSPACE', step: 'workspace', errno: 'EPERM' };
  assertSays(failure, hostWith(), [/made for it/]);
});

test('cause and fix are apart, and both in the message of an error', () => {
  const facts = hostWith({ [debian]: '0' });
  const { cause, fix } = diagnose(clone, facts);
  assert.match(cause, / is 0\.$/);
  assert.match(fix, /^Run /);
  const native = { code: 'START', errno: 1, op: 'clone3', detail: '' };
  const error = toSandboxError(native, undefined, facts);
  assert.equal(error.remedy, `${cause} ${fix}`);
  assert.ok(error.message.endsWith(`. ${cause} ${fix}`));
});

test('nothing is read for a failure that needs no facts', () => {
  const facts = new Facts({
    root: path.join(folder, 'nowhere'),
    runProbe: () => assert.fail('asked'),
  });
  facts.read = (file) => assert.fail(`read ${file}`);
  facts.exists = (file) => assert.fail(`looked for ${file}`);
  assert.match(
    remedyFor({ code: 'BUSY', step: '', errno: '' }, facts),
    /again/,
  );
});
