// SPDX-License-Identifier: Apache-2.0
'use strict';

// Tells whether boxes work here by making one, with all that a call takes; and
// of what does not work, why and what to do. Where a box cannot be made, the
// rest is told as far as it can be seen from outside.

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const backend = require('./backend.js');
const { SandboxError, withoutRemedy } = require('./errors.js');
const { Facts } = require('./facts.js');
const { whatItTakes } = require('./limits.js');
const { checkPlatform, load } = require('./native.js');
const { languages, version } = require('./options.js');
const { diagnose } = require('./remedies.js');
const { formatReport } = require('./report.js');
const { Sandbox, openQuietly } = require('./sandbox.js');

const oldestKernel = [5, 15];
const firstLandlockWithScopes = 6;

// The magic numbers of statfs(2).
const fileSystems = new Map([
  [0x01021994, 'tmpfs'],
  [0x01021997, '9p'],
  [0x2fc12fc1, 'zfs'],
  [0x58465342, 'xfs'],
  [0x65735546, 'fuse'],
  [0x6969, 'nfs'],
  [0x794c7630, 'overlayfs'],
  [0x9123683e, 'btrfs'],
  [0xef53, 'ext4'],
]);

/** The report of a diagnosis. Its text is for people, the rest for programs. */
class DoctorReport {
  constructor(checks) {
    this.ok = checks.every(({ ok, needed }) => ok || !needed);
    this.version = version;
    this.checks = checks;
  }

  toString() {
    return formatReport(this);
  }
}

/** `needed`: without it there is no box. */
function passed(name, detail, needed = false) {
  return { name, ok: true, needed, detail };
}

function failed(name, detail, { cause, fix } = {}, needed = false) {
  const check = { name, ok: false, needed, detail };
  if (cause) check.cause = cause;
  if (fix) check.fix = fix;
  return check;
}

/** A check that failed with `error`, which says itself what to do. */
function failedWith(name, error, facts, needed) {
  const { code = '', step = '', errno } = error;
  const known = error instanceof SandboxError;
  const native = { code: code.replace(/^ERR_SANDBOX_/, ''), step, errno };
  return failed(
    name,
    known ? withoutRemedy(error) : String(error?.message ?? error),
    known ? diagnose(native, facts) : undefined,
    needed,
  );
}

// ---- Without a box ------------------------------------------------------------

function checkThePlatform() {
  const detail = `${process.platform} ${process.arch}, Node ${process.versions.node}`;
  try {
    checkPlatform();
    return passed('platform', detail, true);
  } catch (error) {
    return failed('platform', detail, { cause: error.message }, true);
  }
}

function checkTheBuild() {
  try {
    const { launcher } = load();
    return passed('compiled part', path.dirname(launcher), true);
  } catch (error) {
    const [cause, ...rest] = error.message.split('\n');
    const fix = rest.pop();
    return failed(
      'compiled part',
      cause.replace(/\. Tried:$/, ''),
      { cause: rest.map((line) => line.trim()).join('; '), fix },
      true,
    );
  }
}

function checkTheUser(facts) {
  const rights = /^0*$/.test(facts.probe.capabilities ?? '')
    ? 'no capabilities'
    : `capabilities ${facts.probe.capabilities}`;
  const around = [
    facts.container && `in a container (${facts.container})`,
    facts.isChroot && 'in a chroot',
    facts.isFiltered && 'behind a system call filter',
    facts.profile && `launcher under the profile ${facts.profile}`,
  ].filter(Boolean);
  return passed('user', [`uid ${facts.uid}, ${rights}`, ...around].join(', '));
}

function kernelVersion() {
  return os.release().split('.', 2).map(Number);
}

function isAtLeast([major, minor], [wantedMajor, wantedMinor]) {
  return major > wantedMajor || (major === wantedMajor && minor >= wantedMinor);
}

// These two are why there is no box; where there is one, they are not.
function checkTheKernel(isNeeded) {
  const detail = `Linux ${os.release()}`;
  const tooOld = { code: 'UNSUPPORTED', step: 'version' };
  return isAtLeast(kernelVersion(), oldestKernel)
    ? passed('kernel', detail, isNeeded)
    : failed('kernel', detail, diagnose(tooOld), isNeeded);
}

function checkTheCalls(facts, isNeeded) {
  const { calls, killedFor } = facts.probe;
  const names = Object.keys(calls).filter((name) => name !== 'listener');
  const isRefused = (name) =>
    [os.constants.errno.ENOSYS, os.constants.errno.EPERM].includes(calls[name]);
  const refused = names.filter(isRefused);
  const fail = (detail, failure) =>
    failed('system calls', detail, diagnose(failure, facts), isNeeded);
  if (killedFor) {
    return fail(`killed for ${killedFor}`, { code: 'DIED' });
  }
  if (names.length === 0) {
    return fail('the launcher did not answer', { code: 'INTERNAL' });
  }
  if (refused.length > 0) {
    return fail(`missing: ${refused.join(', ')}`, {
      code: 'UNSUPPORTED',
      step: refused[0],
      errno: 'ENOSYS',
    });
  }
  return passed('system calls', names.join(', '), isNeeded);
}

// What glovebox uses where it is there, and does without where it is not.
function checkTheFeatures(facts) {
  const { calls, landlock } = facts.probe;
  const kernel = kernelVersion();
  const features = {
    'seccomp listener': calls.listener === 0,
    CLONE_INTO_CGROUP: calls.clone3 === os.constants.errno.EINVAL,
    'idmapped tmpfs': isAtLeast(kernel, [6, 3]),
    'memory.peak': isAtLeast(kernel, [5, 19]),
    [`Landlock ABI ${landlock}`]: landlock > 0,
    // They hold the abstract sockets with network: true.
    'Landlock scopes': landlock >= firstLandlockWithScopes,
  };
  const names = Object.keys(features);
  const missing = names.filter((name) => !features[name]);
  const there = names.filter((name) => features[name]).join(', ');
  return missing.length === 0
    ? passed('optional features', there)
    : failed('optional features', `without ${missing.join(', ')}`, {
        cause: `There are: ${there || 'none'}. A newer kernel has the others, or what is around this process hides them.`,
      });
}

function checkTheWorkspace() {
  const folder = path.resolve(os.tmpdir());
  try {
    const { type, bavail, bsize } = fs.statfsSync(folder);
    const name = fileSystems.get(type) ?? `file system 0x${type.toString(16)}`;
    const gib = ((bavail * bsize) / 2 ** 30).toFixed(1);
    return passed('temporary folder', `${folder}: ${name}, ${gib} GiB free`);
  } catch (error) {
    return failed('temporary folder', `${folder}: ${error.message}`, {
      fix: 'Name another folder with TMPDIR.',
    });
  }
}

// ---- In a box -------------------------------------------------------------------

async function tryBox(facts) {
  const started = performance.now();
  // A limit that is not asked for would tell nothing.
  const sandbox = new Sandbox({ cpus: 1, trackFiles: false, timeoutS: 20 });
  try {
    await openQuietly(sandbox);
    const result = await sandbox.run(['cat', '/proc/self/status']);
    const tookMs = Math.round(performance.now() - started);
    const checks = [
      result.success
        ? passed('box', `made and run in ${tookMs} ms, as the first`, true)
        : failed('box', `cat ended with ${describeEnd(result)}`, {}, true),
      ...(result.success ? [checkTheWalls(result.stdout)] : []),
      ...checkTheLimits(sandbox.limits),
      ...(await checkTheRuntimes(sandbox)),
    ];
    await sandbox.close();
    return checks;
  } catch (error) {
    await sandbox.close().catch(() => {}); // What came first says more.
    return [failedWith('box', error, facts, true)];
  }
}

function describeEnd({ exitCode, fault, error }) {
  return fault?.message ?? error?.message ?? `exit code ${exitCode}`;
}

/** What the kernel says of a process in a box. */
function checkTheWalls(status) {
  const walls = {
    'a filter of system calls': /^Seccomp:\s*2$/m,
    'no new privileges': /^NoNewPrivs:\s*1$/m,
    'no capability': /^CapEff:\s*0+$/m,
    'no capability to get': /^CapBnd:\s*0+$/m,
  };
  const open = Object.keys(walls).filter((name) => !walls[name].test(status));
  return open.length === 0
    ? passed(
        'walls of the box',
        Object.keys(walls).slice(0, 3).join(', '),
        true,
      )
    : failed(
        'walls of the box',
        `it does not have: ${open.join(', ')}`,
        diagnose({ code: 'INTERNAL' }),
        true,
      );
}

function checkTheLimits(limits) {
  const causes = {
    watchdog: 'A watchdog looks 20 times a second and can come too late.',
    none: 'Nothing holds this limit.',
  };
  return (
    Object.entries(limits)
      // diskMb is a watchdog's on every host, so there is nothing to change.
      .filter(([name, force]) => force !== null && name !== 'diskMb')
      .map(([name, force]) =>
        force === 'kernel'
          ? passed(`limit ${name}`, 'kernel')
          : failed(`limit ${name}`, force, {
              cause: causes[force],
              fix: `${whatItTakes(limits)}.`,
            }),
      )
  );
}

async function checkTheRuntimes(sandbox) {
  const { runtimes } = await backend.prepareImage({});
  const checks = languages.map((language) =>
    checkTheRuntime(sandbox, language, runtimes[language]),
  );
  return Promise.all(checks);
}

async function checkTheRuntime(sandbox, language, runtime) {
  const { executable, error, lacksCtypes } = runtime;
  if (error) return failed(language, 'not found', { cause: error.message });
  const result = await sandbox.run([executable, '--version']);
  const [line] = `${result.stdout}${result.stderr}`.split('\n');
  const slow = lacksCtypes ? ', without ctypes: it starts with each call' : '';
  return result.success
    ? passed(language, `${executable}: ${line}${slow}`)
    : failed(language, `${executable}: ${describeEnd(result)}`, {
        cause: `It does not run in a box: ${line}`,
        fix: `Name another with \`runtimes: { ${language}: '/path/to/it' }\`.`,
      });
}

// Root shares a folder that stays by an id map, for which its file system has
// to be made.
async function tryWorkspaceThatStays(facts) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'glovebox-doctor-'));
  const sandbox = new Sandbox({ workspace: folder, trackFiles: false });
  try {
    await openQuietly(sandbox);
    await sandbox.close();
    return passed('workspace that stays', `in ${path.dirname(folder)}`);
  } catch (error) {
    return failedWith('workspace that stays', error, facts, false);
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

async function doctor() {
  const platform = checkThePlatform();
  if (!platform.ok) return new DoctorReport([platform]);
  const build = checkTheBuild();
  if (!build.ok) return new DoctorReport([platform, build]);

  const facts = new Facts();
  const checks = await tryBox(facts);
  const works = checks.every(({ ok, needed }) => ok || !needed);
  if (works && facts.uid === 0) checks.push(await tryWorkspaceThatStays(facts));
  return new DoctorReport([
    ...checks,
    platform,
    build,
    checkTheKernel(!works),
    checkTheCalls(facts, !works),
    checkTheFeatures(facts),
    checkTheUser(facts),
    checkTheWorkspace(),
  ]);
}

module.exports = { doctor };
