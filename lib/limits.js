// SPDX-License-Identifier: Apache-2.0
'use strict';

// Limits as the engine wants them (0 lifts), and what it says came of them.

const { SandboxError } = require('./errors.js');

const bytesPerMib = 2 ** 20;
const millisPerCore = 1000;

function nativeLimits({ memoryMb, pids, cpus }) {
  return {
    memoryBytes: (memoryMb ?? 0) * bytesPerMib,
    pids: pids ?? 0,
    cpuMillis: Math.round((cpus ?? 0) * millisPerCore),
  };
}

/** Of a session only: its boxes share the workspace. */
function nativeDiskLimit({ diskMb }) {
  return { diskBytes: (diskMb ?? 0) * bytesPerMib };
}

/** At least 1: 0 would mean no deadline. */
function nativeTimeout(timeoutS) {
  return Math.max(1, Math.round(timeoutS * 1000));
}

/**
 * What `sandbox.limits` shows: how the host enforces each, by the session's
 * `info`, and null for what the settings lift.
 */
function limitsInForce(info, settings) {
  const { memory, pids, cpus, disk } = info;
  const force = { memoryMb: memory, pids, cpus, diskMb: disk };
  return Object.freeze(
    Object.fromEntries(
      Object.entries(force).map(([name, how]) => [
        name,
        settings[name] === null ? null : how,
      ]),
    ),
  );
}

/**
 * "memoryMb (watchdog), cpus (none)"; empty if all are the kernel's. diskMb
 * never is, on any host, so to complain of it would help nobody.
 */
function weakLimits({ diskMb, ...limits }) {
  return Object.entries(limits)
    .filter(([, force]) => force !== null && force !== 'kernel')
    .map(([name, force]) => `${name} (${force})`)
    .join(', ');
}

// Where memory is the kernel's, the cgroup is there and lacks a controller.
function whatItTakes(limits) {
  if (limits.memoryMb === 'kernel') {
    return (
      'The cpu controller is not delegated to the cgroup of the boxes: put ' +
      '"[Service]" and "Delegate=cpu cpuset io memory pids" as two lines into ' +
      '/etc/systemd/system/user@.service.d/delegate.conf, run `systemctl ' +
      'daemon-reload`, and log in anew'
    );
  }
  return (
    'It takes cgroup v2 and a systemd service manager of this user (who has ' +
    'one while logged in, and always after `loginctl enable-linger`), or a ' +
    'cgroup that was delegated to this process (`Delegate=yes` in the unit ' +
    'of a service), or root'
  );
}

let hasWarned = false;

/**
 * Warns, once in a thread, of limits that were asked for and are not the
 * kernel's: a program that sees none of it would trust them all the same.
 */
function warnOfWeakLimits(limits) {
  const named = weakLimits(limits);
  if (named === '' || hasWarned) return;
  hasWarned = true;
  process.emitWarning(
    `the kernel of this host does not enforce ${named} for this process, see ` +
      'sandbox.limits. A watchdog looks now and then and can come too late; ' +
      `none is no limit at all. ${whatItTakes(limits)}. requireLimits: true ` +
      'refuses; `node --disable-warning=GLOVEBOX_LIMITS` (Node 20.11) only ' +
      'hides this text.',
    { type: 'GloveboxWarning', code: 'GLOVEBOX_LIMITS' },
  );
}

/**
 * The refusal of `requireLimits`; undefined where the kernel enforces every
 * limit that was not lifted.
 */
function weakLimitsError(limits, { enforceLimits }) {
  const named = weakLimits(limits);
  if (named === '') return undefined;
  const remedy = enforceLimits
    ? `${whatItTakes(limits)}. Or lift what may be unlimited with null, or leave ` +
      'requireLimits out'
    : 'Leave enforceLimits: false out, which makes no cgroup';
  return new SandboxError(
    'requireLimits: the kernel of this host does not enforce ' +
      `${named} for this process. ${remedy}.`,
    { code: 'ERR_SANDBOX_LIMIT' },
  );
}

module.exports = {
  limitsInForce,
  nativeDiskLimit,
  nativeLimits,
  nativeTimeout,
  warnOfWeakLimits,
  weakLimitsError,
  whatItTakes,
};
