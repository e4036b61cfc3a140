// SPDX-License-Identifier: Apache-2.0
'use strict';

// Why a step failed and what a person can do about it: the one source of that
// text, for every error and for doctor(). It goes by the step, its errno and
// what this host says of itself. The errnos are the kernel's and mean different
// things at different steps: ENOSPC of clone3 is no full disk.

const { Facts } = require('./facts.js');

const namespaceSteps = /clone|unshare|setns|fork/;
const idMapSteps = /uid_map|gid_map|setgroups|setresuid|id map/;
const mountSteps = /mount|open_tree|pivot_root|mask/;
const startCodes = ['SETUP', 'START'];

const abi4 = '/etc/apparmor.d/abi/4.0';
const ubuntuSwitch = 'kernel.apparmor_restrict_unprivileged_userns';
const debianSwitch = 'kernel.unprivileged_userns_clone';
const namespaceLimit = 'user.max_user_namespaces';

// Profiles that a container manager puts on all that it starts.
const containerProfiles = /^(docker-|containers-default|cri-containerd|lxc-)/;

// A parser that is older than the rule `userns` would refuse the profile, and
// where the rule is not known nothing asks for it.
function appArmorProfile(facts) {
  const [abi, rule] = facts.exists(abi4) ? ['4.0', 'userns, '] : ['3.0', ''];
  return (
    `abi <abi/${abi}>, profile glovebox "${facts.launcher}" ` +
    `flags=(unconfined) { ${rule}}`
  );
}

const containerFixes = {
  docker:
    'Start the container with `docker run ' +
    '--security-opt seccomp=unconfined --security-opt apparmor=unconfined ' +
    '--security-opt systempaths=unconfined`.',
  podman:
    'Start the container with `podman run ' +
    '--security-opt seccomp=unconfined --security-opt apparmor=unconfined ' +
    '--security-opt label=disable --security-opt unmask=ALL`.',
  kubernetes:
    'Give the pod `hostUsers: false`, and the container `securityContext: ' +
    '{ seccompProfile: { type: Unconfined }, ' +
    'appArmorProfile: { type: Unconfined }, procMount: Unmasked }`.',
};

const otherContainerFix =
  'Let the container have nested user namespaces: its seccomp and AppArmor ' +
  'profile must allow clone, clone3, unshare, mount, umount2, pivot_root, ' +
  'open_tree, move_mount, mount_setattr and seccomp, and nothing may be ' +
  'mounted over its /proc.';

function containerFix(facts) {
  return containerFixes[facts.container] ?? otherContainerFix;
}

const serviceFix =
  'In a systemd unit leave out RestrictNamespaces=, ProtectKernelTunables=, ' +
  'ProtectKernelLogs=, ProtectProc= and ProcSubset=, and let SystemCallFilter= ' +
  'have @mount, @sandbox, clone, clone3, unshare and setns.';

const lookInTheLog =
  'Look in the log of the kernel (`dmesg`) for a security module that says so.';

// ---- What stands in the way of namespaces and mounts -------------------------

// Each gives `{cause, fix}`, or undefined where it is not so. What is asked for
// by running a program comes late.

function debianForbids(facts) {
  if (facts.sysctl(debianSwitch) !== '0') return undefined;
  return {
    cause:
      'User namespaces are forbidden to this process: ' +
      `${debianSwitch} is 0.`,
    fix:
      `Run \`sysctl -w ${debianSwitch}=1\` as root, and write ` +
      `\`${debianSwitch}=1\` to /etc/sysctl.d/glovebox.conf to keep it.`,
  };
}

// Ubuntu lets the namespace be made but then takes its capabilities away, so
// the first step that needs one fails. A profile for the launcher alone is the
// narrow cure; the sysctl opens it for every program.
function ubuntuRestricts(facts) {
  if (facts.sysctl(ubuntuSwitch) !== '1') return undefined;
  return {
    cause:
      'AppArmor takes the rights of user namespaces away from programs without ' +
      `a profile: ${ubuntuSwitch} is 1 (Ubuntu 23.10 and later).`,
    fix:
      `Write \`${appArmorProfile(facts)}\` to /etc/apparmor.d/glovebox and ` +
      'run `apparmor_parser -r /etc/apparmor.d/glovebox` as root; or, for ' +
      `every program, \`sysctl -w ${ubuntuSwitch}=0\`.`,
  };
}

function profileConfines(facts) {
  const { profile } = facts;
  if (profile === undefined) return undefined;
  const cause = `The AppArmor profile ${JSON.stringify(profile)} confines the launcher.`;
  if (containerProfiles.test(profile)) {
    return { cause, fix: containerFix(facts) };
  }
  const rule = facts.exists(abi4) ? 'userns, ' : '';
  return {
    cause,
    fix:
      `Add \`capability, mount, umount, pivot_root, ${rule}\` to that profile, ` +
      `or put \`${appArmorProfile(facts)}\` in its place, and run ` +
      '`apparmor_parser -r` with its file as root.',
  };
}

function chrootForbids(facts) {
  if (!facts.isChroot) return undefined;
  return {
    cause:
      'This process runs in a chroot, and there the kernel allows no user ' +
      'namespaces.',
    fix:
      'Run it outside of the chroot, or enter that folder in another way: with ' +
      'pivot_root, as containers and `systemd-nspawn` do.',
  };
}

function containerForbids(facts) {
  if (facts.container === undefined) return undefined;
  return {
    cause: `The container around this process (${facts.container}) forbids it.`,
    fix: containerFix(facts),
  };
}

function filterForbids(facts) {
  if (!facts.isFiltered) return undefined;
  return {
    cause:
      'A system call filter that was put on this process from outside forbids ' +
      'it (Seccomp in /proc/self/status is 2).',
    fix: `Start it without, or with a wider one. ${serviceFix}`,
  };
}

const obstacles = [
  ubuntuRestricts,
  profileConfines,
  chrootForbids,
  containerForbids,
  filterForbids,
];

function firstOf(list, facts) {
  for (const find of list) {
    const found = find(facts);
    if (found) return found;
  }
  return undefined;
}

// ---- By step and errno --------------------------------------------------------

function namespacesRefused(facts) {
  return (
    firstOf([debianForbids, ...obstacles], facts) ?? {
      cause:
        'User namespaces are forbidden to this process, and neither ' +
        `${debianSwitch}, ${ubuntuSwitch}, a chroot, a container nor a system ` +
        'call filter that could be seen is the reason.',
      fix: lookInTheLog,
    }
  );
}

function namespacesUsedUp(facts) {
  // The kernel does not say which of its limits it was. Unless somebody has set
  // one they are all the same.
  const limits = facts.namespaceLimits;
  const highest = Math.max(...limits.map(({ value }) => value));
  const low = limits.filter(({ value }) => value < highest);
  const users = limits.filter(({ name }) => name === namespaceLimit);
  const named = low.length > 0 ? low : users;
  const listed = named.map(({ name, value }) => `${name} is ${value}`);
  return {
    cause:
      'The kernel allows this process no further user namespaces, or ' +
      'namespaces of another kind' +
      `${listed.length > 0 ? `: ${listed.join(', ')}` : ''}.`,
    fix:
      'Raise the limit as root with ' +
      `\`sysctl -w ${named[0]?.name ?? namespaceLimit}=15000\`, and likewise ` +
      'the other user.max_*_namespaces if they are low.',
  };
}

// Docker's profile says so of clone3, so that libcs fall back to clone; but the
// first kernel that has clone3 is much older than the oldest that will do.
function callMissing(facts) {
  return (
    firstOf([profileConfines, containerForbids, filterForbids], facts) ??
    kernelTooOld()
  );
}

function kernelTooOld() {
  return {
    cause:
      'This kernel lacks a system call that a box is made with, or hides it.',
    fix: 'Use Linux 5.15 or later, with user namespaces and seccomp.',
  };
}

function mountsRefused(facts) {
  return (
    firstOf([...obstacles, debianForbids], facts) ?? {
      cause:
        'This process may not mount, not even in a user namespace of its own, ' +
        'and nothing that could be seen is the reason.',
      fix: lookInTheLog,
    }
  );
}

function procIsCovered(facts) {
  const covers = facts.coversOfProc;
  if (covers.length === 0) return mountsRefused(facts);
  const shown = covers.slice(0, 3).join(', ');
  return {
    cause:
      `Something is mounted over parts of /proc (${shown}` +
      `${covers.length > 3 ? ', ...' : ''}), and so the kernel lets nobody ` +
      'mount a new /proc.',
    fix:
      facts.container === undefined
        ? `Unmount it, or start this process without. ${serviceFix}`
        : containerFix(facts),
  };
}

function filterRefused(facts) {
  const reason = firstOf([containerForbids, filterForbids], facts);
  const why = reason?.cause ?? 'This kernel seems to have no seccomp.';
  return {
    cause: `The system call filter is what holds the code, so nothing runs without it. ${why}`,
    fix: reason?.fix ?? 'Use a kernel with CONFIG_SECCOMP_FILTER.',
  };
}

// A filter that kills leaves no errno: keeper or launcher is just gone.
function launcherDied(facts) {
  const call = facts.isFiltered ? facts.probe.killedFor : undefined;
  if (call === undefined) {
    return { cause: '', fix: 'The next call starts them again.' };
  }
  const { fix } = filterForbids(facts);
  return {
    cause:
      'A system call filter that was put on this process from outside kills ' +
      `whoever calls ${call}.`,
    fix,
  };
}

const fixed =
  (fix, cause = '') =>
  () => ({ cause, fix });

// In order: the first that fits speaks.
const rules = [
  {
    steps: /^inotify$/,
    errnos: ['ENOSPC', 'EMFILE'],
    diagnose: fixed(
      'Close watchers, or raise `sysctl fs.inotify.max_user_watches` and ' +
        'fs.inotify.max_user_instances.',
      'The kernel lets a user watch no more folders.',
    ),
  },
  {
    steps: /^chdir$/,
    errnos: ['ENOENT', 'ENOTDIR', 'EACCES', 'ELOOP', 'ENAMETOOLONG'],
    diagnose: fixed(
      'Let cwd be a folder that the box has and its user may enter: a ' +
        'relative one starts at /workspace.',
    ),
  },
  {
    steps: /^uid_map$/,
    errnos: ['EPERM'],
    applies: ({ uid }) => uid === 0,
    diagnose: fixed(
      'Run it as another user, or with CAP_SYS_ADMIN, CAP_SETUID and CAP_SETGID.',
      'This process has uid 0 but not the capabilities of root (it needs ' +
        'CAP_SETFCAP to map its own uid since Linux 5.12).',
    ),
  },
  {
    steps: namespaceSteps,
    errnos: ['ENOSPC', 'EUSERS'],
    diagnose: namespacesUsedUp,
  },
  {
    steps: namespaceSteps,
    errnos: ['EPERM', 'EACCES'],
    diagnose: namespacesRefused,
  },
  {
    codes: startCodes,
    steps: idMapSteps,
    errnos: ['EPERM', 'EACCES'],
    diagnose: namespacesRefused,
  },
  { steps: /^mount proc$/, errnos: ['EPERM'], diagnose: procIsCovered },
  {
    codes: startCodes,
    steps: mountSteps,
    errnos: ['EACCES', 'EPERM'],
    diagnose: mountsRefused,
  },
  {
    steps: /seccomp/,
    errnos: ['ENOSYS', 'EINVAL', 'EPERM', 'EACCES'],
    diagnose: filterRefused,
  },
  {
    steps: /clone|fork|spawn|thread/,
    errnos: ['EAGAIN'],
    diagnose: fixed(
      'See `ulimit -u`, and pids.max of the container or service that this ' +
        'runs in.',
      'No further process may be started here.',
    ),
  },
  {
    codes: ['LIMIT'],
    steps: /^cgroup$/,
    diagnose: fixed(
      'Another Sandbox, opened now, says in its `limits` what is in force. A ' +
        'user who logs out loses the service manager, and the cgroups with it, ' +
        'unless `loginctl enable-linger` keeps it.',
    ),
  },
  {
    codes: ['LIMIT'],
    diagnose: fixed(
      'If this process may not use its cgroup, `enforceLimits: false` runs ' +
        'the code without cgroup limits.',
    ),
  },
  {
    steps: /^dlopen$/,
    diagnose: fixed(
      'Install it (Debian, Ubuntu: `apt-get install libcjson1`), or give the ' +
        'options one by one instead of `spec`.',
      'A spec is read by the library cJSON 1.7.13 or later.',
    ),
  },
  {
    codes: ['UNSUPPORTED'],
    steps: /^trace$/,
    diagnose: fixed(
      'Leave `trace` out.',
      'Only where a process may listen to the system calls of others (Linux ' +
        '5.0; a container may forbid it) is it known what was refused.',
    ),
  },
  {
    codes: ['UNSUPPORTED', ...startCodes],
    errnos: ['ENOSYS'],
    diagnose: callMissing,
  },
  {
    codes: ['UNSUPPORTED'],
    steps: /^seccomp_arch_native$/,
    diagnose: fixed(
      'Use a machine with one of these.',
      'The system call filter is written for x86-64 and arm64 only.',
    ),
  },
  { codes: ['UNSUPPORTED'], diagnose: kernelTooOld },
  {
    codes: ['START'],
    steps: /spawn|exec/,
    errnos: ['EACCES', 'ENOENT', 'ENOEXEC', 'EPERM'],
    diagnose: ({ launcher }) => ({
      cause: '',
      fix:
        `The launcher ${launcher} must be executable and on a file system ` +
        'that is not mounted noexec. Run `npm run build` to make it anew.',
    }),
  },
  // "ended unexpectedly", while it started.
  {
    codes: ['START'],
    steps: /^(keeper|launcher)$/,
    errnos: ['EPIPE'],
    diagnose: launcherDied,
  },
  {
    errnos: ['ETOOMANYREFS'],
    diagnose: fixed(
      'Raise the limit (`ulimit -n`), or run fewer calls at the same time.',
      'As many descriptors as a process may have are on their way between ' +
        'the processes of this user.',
    ),
  },
  {
    errnos: ['EMFILE', 'ENFILE'],
    diagnose: fixed(
      'Raise the limit (`ulimit -n`), or run fewer calls at the same time.',
      'Too many files are open.',
    ),
  },
  {
    codes: ['WORKSPACE', 'IO'],
    errnos: ['ENOSPC', 'EDQUOT'],
    diagnose: fixed(
      'Free some of it, or name another with the `workspace` option or TMPDIR.',
      'The disk is full.',
    ),
  },
  {
    codes: ['WORKSPACE'],
    steps: /mount_setattr/,
    errnos: ['EINVAL'],
    diagnose: fixed(
      'Use one on another (ext4, xfs, btrfs), or leave `workspace` out.',
      'The file system of the workspace has no idmapped mounts, which root ' +
        'needs to share a folder with a box.',
    ),
  },
  {
    codes: ['MOUNT'],
    steps: /^id map$/,
    diagnose: fixed(
      'Mount one of another (ext4, xfs, btrfs), or read-only.',
      'Its file system has no idmapped mounts, which root needs to let a box ' +
        'write there.',
    ),
  },
  {
    codes: ['MOUNT'],
    errnos: ['ESTALE'],
    diagnose: fixed(
      'Make a new Sandbox. Of a file that programs replace when they save it, ' +
        'mount the folder.',
    ),
  },
  {
    codes: ['MOUNT'],
    steps: /^mount target$/,
    diagnose: fixed(
      'Take a target of its own, such as "/data": new folders can be made ' +
        'where a box has nothing of this machine.',
    ),
  },
  {
    codes: ['MOUNT'],
    errnos: ['ENOENT'],
    diagnose: fixed('Make it first: glovebox makes nothing outside of a box.'),
  },
  {
    codes: ['WORKSPACE'],
    errnos: ['ESTALE'],
    diagnose: fixed('Make a new Sandbox.'),
  },
  {
    codes: ['WORKSPACE'],
    errnos: ['EACCES', 'EROFS'],
    diagnose: fixed(
      'The workspace must be a folder that this user may write to.',
    ),
  },
  {
    codes: ['WORKSPACE'],
    steps: /^workspace$/,
    errnos: ['EPERM'],
    diagnose: fixed(
      'Code in the box can change all of the workspace, so folders of the ' +
        'system are none, nor is the home folder: name one that is made for it.',
    ),
  },
  {
    codes: ['WORKSPACE'],
    steps: /^open$/,
    errnos: ['ENOENT'],
    diagnose: fixed(
      'Temporary workspaces are made in the folder that TMPDIR names, else in ' +
        '/tmp: it must be there.',
    ),
  },
  {
    codes: ['WORKSPACE'],
    errnos: ['ENOTDIR'],
    diagnose: fixed('The workspace must be a folder.'),
  },
  {
    codes: ['TOO_LARGE'],
    steps: /^walk$/,
    errnos: ['ENAMETOOLONG'],
    diagnose: fixed(
      'Remove a folder above it with `rm()`, or rename some to shorter names.',
    ),
  },
  {
    codes: ['TOO_LARGE'],
    steps: /walk|changed files/,
    diagnose: fixed(
      'Use fewer, or one folder at a time.',
      'The workspace holds more files than can be looked through.',
    ),
  },
  {
    codes: ['TOO_LARGE'],
    steps: /^read$/,
    diagnose: fixed('Raise `maxBytes`, or read with `createReadStream()`.'),
  },
  {
    codes: ['BUSY'],
    steps: /^restore$/,
    diagnose: fixed('Wait for the calls of this sandbox, then try again.'),
  },
  { codes: ['BUSY'], diagnose: fixed('Try again.') },
  {
    codes: ['CLOSED'],
    steps: /^call$/,
    diagnose: fixed(
      'Await each call before close(), or before the function that ' +
        'withSandbox() was given returns.',
    ),
  },
  {
    codes: ['DISK_FULL'],
    diagnose: fixed(
      'Delete files with `sandbox.rm()`, or from the folder that ' +
        '`sandbox.workspace` names, and the next call runs; or make a Sandbox with a higher `diskMb`, or null for ' +
        'no limit.',
    ),
  },
  {
    codes: ['NOT_REGULAR'],
    steps: /^rm$/,
    diagnose: fixed('Say `recursive: true`.', 'It is a folder.'),
  },
  {
    codes: ['NOT_REGULAR'],
    errnos: ['EINVAL', 'EEXIST', 'ELOOP', 'EISDIR', 'ENXIO'],
    diagnose: fixed(
      '`stat()` says which.',
      'A folder, a symlink (none is followed) or a special file is there.',
    ),
  },
  {
    codes: ['PATH'],
    errnos: ['ELOOP'],
    diagnose: fixed(
      'Say the path of the file itself.',
      'Code can make symlinks in the workspace, and none is followed.',
    ),
  },
  {
    codes: ['EXISTS'],
    steps: /^(mkdir|rename)$/,
    diagnose: fixed('Remove it with `rm()`, or take another name.'),
  },
  {
    codes: ['PATH'],
    steps: /^rename$/,
    errnos: ['EINVAL'],
    diagnose: fixed(
      'Take a name outside of it.',
      'A folder cannot be moved into itself.',
    ),
  },
  {
    codes: ['NO_MEMORY'],
    diagnose: fixed('Run fewer calls at the same time, or add memory.'),
  },
  { codes: ['DIED'], diagnose: launcherDied },
  {
    codes: ['INTERNAL', 'INVALID'],
    diagnose: fixed('This is a bug of glovebox: please report this message.'),
  },
];

/**
 * `{cause, fix}` of a failure: a sentence or two each, the cause empty where
 * the failure itself says it all. Undefined where there is nothing to advise.
 */
function diagnose({ code, step, errno }, facts = new Facts()) {
  const rule = rules.find(
    ({ codes, steps, errnos, applies = () => true }) =>
      (!codes || codes.includes(code)) &&
      (!steps || steps.test(step)) &&
      (!errnos || errnos.includes(errno)) &&
      applies(facts),
  );
  return rule?.diagnose(facts);
}

/** Both in one, as errors have it. */
function remedyFor(failure, facts) {
  const found = diagnose(failure, facts);
  return found && [found.cause, found.fix].filter(Boolean).join(' ');
}

module.exports = { diagnose, remedyFor };
