// SPDX-License-Identifier: Apache-2.0
'use strict';

// Limits as the engine wants them (0 lifts), and what it says came of them.

const bytesPerMib = 2 ** 20;
const millisPerCore = 1000;

function nativeLimits({ memoryMb, pids, cpus }) {
  return {
    memoryBytes: (memoryMb ?? 0) * bytesPerMib,
    pids: pids ?? 0,
    cpuMillis: Math.round((cpus ?? 0) * millisPerCore),
  };
}

/** At least 1: 0 would mean no deadline. */
function nativeTimeout(timeoutS) {
  return Math.max(1, Math.round(timeoutS * 1000));
}

/** What `sandbox.limits` shows. */
function limitsInForce({ memory, pids, cpus }) {
  return Object.freeze({ memoryMb: memory, pids, cpus });
}

let hasWarned = false;

/**
 * Warns, once in a thread, of limits that were asked for and are not the
 * kernel's: a program that sees none of it would trust them all the same.
 */
function warnOfWeakLimits(limits) {
  const weak = Object.entries(limits).filter(
    ([, force]) => force !== null && force !== 'kernel',
  );
  if (weak.length === 0 || hasWarned) return;
  hasWarned = true;
  const named = weak.map(([name, force]) => `${name} (${force})`).join(', ');
  process.emitWarning(
    `the kernel of this host does not enforce ${named} for this process, see ` +
      'sandbox.limits. It takes root and cgroup v1 so far; enforceLimits: ' +
      'false says that you know.',
    { type: 'GloveboxWarning', code: 'GLOVEBOX_LIMITS' },
  );
}

module.exports = {
  limitsInForce,
  nativeLimits,
  nativeTimeout,
  warnOfWeakLimits,
};
