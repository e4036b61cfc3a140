// SPDX-License-Identifier: Apache-2.0
'use strict';

// What the test machine runs, and what it must answer. Read on both sides: by
// run.js on the host and by guest/main.js in the machine.

/** The machine's users besides root. One with `linger` has a service manager. */
const plainUsers = [
  { name: 'plain', uid: 4001, linger: true },
  { name: 'lone', uid: 4002, linger: false },
];

const quote = (word) => `'${word.replaceAll("'", "'\\''")}'`;

const loginOf = (user) => (command) => [
  ...['runuser', '--login', user, '--command'],
  command.map(quote).join(' '),
];

const allByKernel = { memoryMb: 'kernel', pids: 'kernel', cpus: 'kernel' };
const withoutCgroup = { memoryMb: 'watchdog', pids: 'kernel', cpus: 'none' };

/**
 * The ways in which Node is started, what is in force of limits in each, and
 * where boxes have their cgroups: in Node's "own", or in a "scope" that the
 * service manager is asked for.
 */
const ways = {
  // As from a terminal or ssh: a session of its own, and a service manager.
  login: {
    user: 'plain',
    start: loginOf('plain'),
    limits: allByKernel,
    place: 'scope',
  },
  // In a cgroup that the manager has handed over to Node already.
  scope: {
    user: 'plain',
    start: (command) =>
      loginOf('plain')([
        ...['systemd-run', '--user', '--scope', '--quiet'],
        ...['--property=Delegate=yes', '--', ...command],
      ]),
    limits: allByKernel,
    place: 'own',
  },
  // As from a system service or cron: neither a manager to ask nor a cgroup of
  // its own.
  service: {
    user: 'lone',
    start: (command) => [
      ...['setpriv', '--reuid=lone', '--regid=lone', '--init-groups'],
      ...['--reset-env', '--', ...command],
    ],
    limits: withoutCgroup,
  },
  // As a system service that is root's. The system's manager can be asked.
  root: {
    user: 'root',
    start: (command) => command,
    limits: allByKernel,
    place: 'scope',
  },
  // As in a container: a cgroup whose subtree belongs to Node.
  rootScope: {
    user: 'root',
    start: (command) => [
      ...['systemd-run', '--scope', '--quiet'],
      ...['--property=Delegate=yes', '--', ...command],
    ],
    limits: allByKernel,
    place: 'own',
  },
};

const launcher = '/opt/glovebox/build/Release/launcher';

// Everything but what `rules` leaves out, for the launcher alone.
const appArmorProfile = (rules) => `abi <abi/3.0>,
profile glovebox-vm ${launcher} flags=(attach_disconnected) {
  file,
  network,
  unix,
  signal,
  ptrace,
  ${rules}
}
`;

// Debian 12 has neither Ubuntu's switch nor its rule `userns`.
const confinedLauncher = {
  message: [
    'The AppArmor profile "glovebox-vm" confines the launcher',
    launcher,
    'abi <abi/3.0>',
    'apparmor_parser -r',
  ],
  without: ['apparmor_restrict_unprivileged_userns', 'userns,'],
};

const smoke = 'test/vm/guest/smoke.js';
const cgroupV2 = 'test/vm/guest/cgroup-v2.js';
const refusal = 'test/vm/guest/refusal.js';
const programs = 'test/vm/guest/programs.js';

const noUserNamespaces = {
  sysctls: { 'user.max_user_namespaces': 0 },
  twin: { command: 'unshare --user --map-root-user true', succeeds: false },
  files: [refusal],
  refusal: {
    code: 'ERR_SANDBOX_START',
    message: [
      'user namespaces',
      'user.max_user_namespaces is 0',
      'sysctl -w user.max_user_namespaces=',
    ],
  },
};

/**
 * For deadlines in tests: an emulated processor takes a second or two to start
 * an interpreter, and four on a busy host. arm64's clock goes by instructions, not
 * by the host's: there it is as slow as a processor of one GHz.
 */
const timeScale = 4;

// For a file, in seconds of the host.
const timeoutsS = { x64: 400, arm64: 3600 };

/**
 * One after the other, each in the way that it names:
 *
 * - `sysctls`, `appArmor`, `tmpfs`: how the machine is changed for it, and
 *   changed back after it
 * - `files`: test files of node:test; after each the machine is searched for
 *   what it may have left
 * - `env`: for them
 * - `twin`: a command, and whether it succeeds: shows that the machine is what
 *   the scenario says, without glovebox
 * - `refusal`: what a box that cannot be is refused with: the code, what is in
 *   the message, and what is not (`without`)
 */
const scenarios = [
  {
    name: 'user.max_user_namespaces=0',
    way: 'login',
    ...noUserNamespaces,
  },
  {
    name: 'user.max_user_namespaces=0 as root',
    way: 'root',
    ...noUserNamespaces,
  },
  {
    name: 'kernel.unprivileged_userns_clone=0',
    way: 'login',
    sysctls: { 'kernel.unprivileged_userns_clone': 0 },
    twin: { command: 'unshare --user --map-root-user true', succeeds: false },
    files: [refusal],
    refusal: {
      code: 'ERR_SANDBOX_START',
      message: [
        'User namespaces are forbidden',
        'sysctl -w kernel.unprivileged_userns_clone=1',
      ],
    },
  },
  {
    name: 'AppArmor denies mount and capabilities',
    way: 'login',
    appArmor: appArmorProfile('deny mount, deny capability,'),
    twin: { command: 'unshare --user --map-root-user true', succeeds: true },
    files: [refusal],
    refusal: {
      code: 'ERR_SANDBOX_START',
      ...confinedLauncher,
    },
  },
  {
    name: 'AppArmor denies mount',
    way: 'login',
    appArmor: appArmorProfile('capability, deny mount,'),
    twin: { command: 'unshare --user --map-root-user true', succeeds: true },
    files: [refusal],
    refusal: {
      code: 'ERR_SANDBOX_START',
      ...confinedLauncher,
    },
  },
  { name: 'plain user, logged in', way: 'login', files: [smoke, cgroupV2] },
  {
    name: 'plain user, in a delegated scope',
    way: 'scope',
    files: [smoke, cgroupV2],
  },
  { name: 'plain user, in a system service', way: 'service', files: [smoke] },
  { name: 'root, in a system service', way: 'root', files: [smoke, cgroupV2] },
  {
    name: 'root, in a delegated scope, on a tmpfs without idmaps',
    way: 'rootScope',
    tmpfs: true,
    files: [smoke, cgroupV2, 'test/vm/guest/no-idmaps.js'],
  },
  {
    name: 'tests, plain user, logged in',
    way: 'login',
    files: ['test/cases/limits.test.js', 'test/cases/processes.test.js'],
  },
  {
    name: 'tests, root, in a delegated scope',
    way: 'rootScope',
    files: ['test/cases/limits.test.js', 'test/cases/processes.test.js'],
  },
];

// What the architecture could change: system calls and their numbers, what the
// kernel makes of a call's memory, registers and signals, what programs are
// compiled to. What a machine without user namespaces is told is no part of it.
const everywhere = [
  ...['killing-syscalls', 'syscall-filters', 'syscalls'].map(
    (name) => `test/hostile/${name}.test.js`,
  ),
  ...['ordinary-programs', 'descriptors', 'namespaces', 'memory', 'warm'].map(
    (name) => `test/hostile/${name}.test.js`,
  ),
  ...['limits', 'processes', 'runtimes', 'kernel', 'kernel-languages'].map(
    (name) => `test/cases/${name}.test.js`,
  ),
  ...['one-shot', 'output', 'spawn', 'warm'].map(
    (name) => `test/cases/${name}.test.js`,
  ),
];
const foreignScenarios = [
  {
    name: 'C, root, in a delegated scope',
    way: 'rootScope',
    env: { GLOVEBOX_C_UNITS: '/opt/glovebox/build/c-units' },
    files: ['test/c/c-units.test.js'],
  },
  {
    name: 'walk, plain user, logged in',
    way: 'login',
    files: [smoke, programs, cgroupV2],
  },
  {
    name: 'walk, root, in a delegated scope',
    way: 'rootScope',
    files: [smoke, programs, cgroupV2],
  },
  { name: 'tests, plain user, logged in', way: 'login', files: everywhere },
  {
    name: 'tests, root, in a delegated scope',
    way: 'rootScope',
    files: everywhere,
  },
  {
    name: 'cold, root, in a delegated scope',
    way: 'rootScope',
    env: {
      GLOVEBOX_TEST_WARM: '0',
      NODE_OPTIONS: '--require=/opt/glovebox/test/helpers/cold.js',
    },
    files: [
      'test/cases/runtimes.test.js',
      'test/hostile/killing-syscalls.test.js',
    ],
  },
];

/**
 * The scenarios that `choice` leaves of the machine of an `architecture`: those
 * whose name contains one of its `names` (all, if there is none), with its `files`
 * instead of their own, if there is one.
 */
function chooseScenarios({ architecture, names, files }) {
  const all = architecture === 'x64' ? scenarios : foreignScenarios;
  return all
    .filter(
      ({ name }) =>
        names.length === 0 || names.some((part) => name.includes(part)),
    )
    .map((scenario) => ({
      timeoutS: timeoutsS[architecture],
      ...scenario,
      files: files.length > 0 ? files : scenario.files,
    }));
}

module.exports = { chooseScenarios, launcher, plainUsers, timeScale, ways };
