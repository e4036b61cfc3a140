// SPDX-License-Identifier: Apache-2.0
'use strict';

// What a person can do about a failure, found by the step that failed and its
// errno. The errnos are the kernel's and mean different things at different
// steps: ENOSPC of clone3 is no full disk.

const { readdirSync, readFileSync } = require('node:fs');
const { launcherPath } = require('./paths.js');

const namespaceSteps = /clone|unshare|setns|fork/;
const idMapSteps = /uid_map|gid_map|setgroups|id map/;
const mountSteps = /mount|open_tree|pivot_root|mask/;

// Ubuntu lets the namespace be made but then takes its capabilities away, so
// the first step that needs one fails. A profile for the launcher alone is the
// narrow cure; the sysctl opens it for every program.
function appArmorRemedy() {
  const profile =
    `abi <abi/4.0>, profile glovebox "${launcherPath()}" ` +
    'flags=(unconfined) { userns, }';
  return (
    'If kernel.apparmor_restrict_unprivileged_userns is 1 here (Ubuntu 23.10 ' +
    'and later), AppArmor takes the rights of user namespaces away: write ' +
    `\`${profile}\` to /etc/apparmor.d/glovebox and run ` +
    '`apparmor_parser -r /etc/apparmor.d/glovebox` as root, or, for every ' +
    'program, `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`.'
  );
}

const userNamespacesForbidden =
  'User namespaces are forbidden to this process. On Debian run ' +
  '`sysctl -w kernel.unprivileged_userns_clone=1`; in a container its seccomp ' +
  'profile must allow clone and unshare (Docker: ' +
  '`--security-opt seccomp=unconfined`); under chroot it cannot work.';

const tooManyNamespaces =
  'This host allows no further user namespaces (or other namespaces): raise ' +
  'the limit as root with `sysctl -w user.max_user_namespaces=15000`, and ' +
  'likewise the other user.max_*_namespaces if they are low.';

// The kernel does not say which of its limits it was. Unless somebody has set
// one they are all the same.
function lowNamespaceLimits() {
  const folder = '/proc/sys/user';
  const limits = readdirSync(folder)
    .filter((name) => /^max_\w+_namespaces$/.test(name))
    .map((name) => ({
      name: `user.${name}`,
      value: Number(readFileSync(`${folder}/${name}`, 'utf8')),
    }));
  const highest = Math.max(...limits.map(({ value }) => value));
  return limits.filter(({ value }) => value < highest);
}

function tooManyNamespacesRemedy() {
  let low = [];
  try {
    low = lowNamespaceLimits();
  } catch {
    // A /proc without them: then the sentence is all there is to say.
  }
  if (low.length === 0) return tooManyNamespaces;
  const listed = low.map(({ name, value }) => `${name} is ${value}`);
  return `${tooManyNamespaces} Here ${listed.join(', ')}.`;
}

const procIsMasked =
  'In a container whose /proc is masked no new /proc can be mounted (Docker: ' +
  '`--security-opt systempaths=unconfined`).';

const tooManyProcesses =
  'No further process may be started here: see `ulimit -u`, and pids.max of ' +
  'the container or service that this runs in.';

const rootWithoutRights =
  'This process has uid 0 but not the capabilities of root (it needs ' +
  'CAP_SETFCAP to map its own uid since Linux 5.12): run it as another user, ' +
  'or with CAP_SYS_ADMIN, CAP_SETUID and CAP_SETGID.';

// In order: the first that fits is printed.
const rules = [
  {
    steps: /^uid_map$/,
    errnos: ['EPERM'],
    applies: () => process.getuid() === 0,
    remedy: () => rootWithoutRights,
  },
  {
    steps: namespaceSteps,
    errnos: ['ENOSPC', 'EUSERS'],
    remedy: tooManyNamespacesRemedy,
  },
  {
    steps: namespaceSteps,
    errnos: ['EPERM'],
    remedy: () => `${userNamespacesForbidden} ${appArmorRemedy()}`,
  },
  {
    codes: ['SETUP', 'START'],
    steps: idMapSteps,
    errnos: ['EPERM', 'EACCES'],
    remedy: () => `${appArmorRemedy()} ${userNamespacesForbidden}`,
  },
  {
    steps: /^mount proc$/,
    errnos: ['EPERM'],
    remedy: () => `${procIsMasked} ${appArmorRemedy()}`,
  },
  {
    codes: ['SETUP', 'START'],
    steps: mountSteps,
    errnos: ['EACCES', 'EPERM'],
    remedy: appArmorRemedy,
  },
  {
    steps: /seccomp/,
    errnos: ['ENOSYS', 'EINVAL', 'EPERM'],
    remedy: () =>
      'The system call filter is what holds the code, so nothing runs without ' +
      'it. This kernel, or the container around this process, has no seccomp.',
  },
  {
    steps: /clone|fork|spawn|thread/,
    errnos: ['EAGAIN'],
    remedy: () => tooManyProcesses,
  },
  {
    codes: ['LIMIT'],
    steps: /^cgroup$/,
    remedy: () =>
      'Another Sandbox, opened now, says in its `limits` what is in force. A ' +
      'user who logs out loses the service manager, and the cgroups with it, ' +
      'unless `loginctl enable-linger` keeps it.',
  },
  {
    codes: ['LIMIT'],
    remedy: () =>
      'If this process may not use its cgroup, `enforceLimits: false` runs ' +
      'the code without cgroup limits.',
  },
  {
    codes: ['UNSUPPORTED'],
    steps: /^trace$/,
    remedy: () =>
      'Only where a process may listen to the system calls of others ' +
      '(Linux 5.0; a container may forbid it) is it known what was refused: ' +
      'leave `trace` out.',
  },
  {
    codes: ['UNSUPPORTED'],
    remedy: () =>
      'Linux 5.15 or later is needed, with pidfd, openat2, open_tree and ' +
      'mount_setattr; a container may hide them.',
  },
  {
    codes: ['START'],
    steps: /spawn|exec/,
    errnos: ['EACCES', 'ENOENT', 'ENOEXEC'],
    remedy: () =>
      `The launcher ${launcherPath()} must be executable and on a file system ` +
      'that is not mounted noexec. Run `npm run build` to make it anew.',
  },
  {
    errnos: ['EMFILE', 'ENFILE'],
    remedy: () =>
      'Too many files are open: raise the limit (`ulimit -n`), or run fewer ' +
      'calls at the same time.',
  },
  {
    codes: ['WORKSPACE', 'IO'],
    errnos: ['ENOSPC', 'EDQUOT'],
    remedy: () =>
      'The disk is full: free some of it, or name another with the ' +
      '`workspace` option or TMPDIR.',
  },
  {
    codes: ['WORKSPACE'],
    steps: /mount_setattr/,
    errnos: ['EINVAL'],
    remedy: () =>
      'The file system of the workspace has no idmapped mounts, which root ' +
      'needs to share a folder with a box: use one on another (ext4, xfs, ' +
      'btrfs), or leave `workspace` out.',
  },
  {
    codes: ['WORKSPACE'],
    errnos: ['EACCES', 'EROFS'],
    remedy: () => 'The workspace must be a folder that this user may write to.',
  },
  {
    codes: ['WORKSPACE'],
    errnos: ['ENOTDIR'],
    remedy: () => 'The workspace must be a folder.',
  },
  {
    codes: ['TOO_LARGE'],
    steps: /walk|changed files/,
    remedy: () =>
      'The workspace holds more files than can be compared: use fewer, or ' +
      '`trackFiles: false`.',
  },
  { codes: ['BUSY'], remedy: () => 'Try again.' },
  {
    codes: ['DISK_FULL'],
    remedy: () =>
      'Delete files from the folder that `sandbox.workspace` names, and the ' +
      'next call runs; or make a Sandbox with a higher `diskMb`, or null for ' +
      'no limit.',
  },
  {
    codes: ['NO_MEMORY'],
    remedy: () => 'Run fewer calls at the same time, or add memory.',
  },
  {
    codes: ['DIED'],
    remedy: () => 'The next call starts them again.',
  },
  {
    codes: ['INTERNAL', 'INVALID'],
    remedy: () => 'This is a bug of glovebox: please report this message.',
  },
];

/** A sentence or two, or undefined where there is nothing to advise. */
function remedyFor({ code, step, errno }) {
  const rule = rules.find(
    ({ codes, steps, errnos, applies = () => true }) =>
      applies() &&
      (!codes || codes.includes(code)) &&
      (!steps || steps.test(step)) &&
      (!errnos || errnos.includes(errno)),
  );
  return rule?.remedy();
}

module.exports = { remedyFor };
