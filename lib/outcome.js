// SPDX-License-Identifier: Apache-2.0
'use strict';

// From the engine's report to an ExecutionResult: which exit code and signal a
// fault reads as, what its message says, what changed in the workspace.

const { describeErrno, errnoName } = require('./errors.js');
const { ExecutionResult } = require('./result.js');
const { signalName } = require('./signals.js');
const { named } = require('./workspace-path.js');

// A fault reads the same whichever mechanism of the kernel did the killing.
const faultEndings = {
  timeout: { exitCode: 137, signal: 'SIGKILL' },
  oom: { exitCode: 137, signal: 'SIGKILL' },
  killed: { exitCode: 137, signal: 'SIGKILL' },
  escape_blocked: { exitCode: 159, signal: 'SIGSYS' },
};

const faultMessages = {
  timeout: ({ timeoutS }) =>
    `stopped after ${timeoutS} s (timeoutS): ` +
    'raise timeoutS if the code needs longer',
  oom: ({ memoryMb }) =>
    memoryMb === null
      ? 'ran out of memory'
      : `exceeded memoryMb ${memoryMb}: raise memoryMb if the code needs more`,
  killed: ({ wasKilled }) =>
    wasKilled
      ? 'killed by SIGKILL: by kill() of its handle, or by the code itself'
      : 'killed by SIGKILL, and by no limit of the sandbox: ' +
        'by the code itself, or by the host',
  disk: ({ diskMb }) =>
    `the workspace grew by more than diskMb ${diskMb}: ` +
    'raise diskMb if the code needs more',
  escape_blocked: (_limits, { faultSyscall }) =>
    'killed for a system call that the sandbox forbids' +
    (faultSyscall ? `: ${faultSyscall}` : ''),
};

// The engine tells more kinds of kill apart than a caller has to.
const publicTypes = { disk: 'killed' };

function faultOf(native, limits) {
  if (native.fault === null) return null;
  const message = faultMessages[native.fault];
  return {
    type: publicTypes[native.fault] ?? native.fault,
    message: message ? message(limits, native) : 'ended by the sandbox',
    ...(native.faultSyscall && { syscall: native.faultSyscall }),
  };
}

// The engine leaves .deps out; so does this, since old loops over `files`
// would stumble over its thousands.
function isDependency(path) {
  return path === '.deps' || path.startsWith('.deps/');
}

function readChanges(native) {
  if (native.files.length === 0) return { files: [], deleted: [] };
  const changes = native.files
    .map(({ path, size, change }) => named(path, { size, change }))
    .filter(({ path }) => !isDependency(path));
  return {
    files: changes.filter(({ change }) => change !== 'deleted'),
    deleted: changes.filter(({ change }) => change === 'deleted'),
  };
}

// The engine sums up the calls that it had no place for as one without a name.
const otherCalls = 'others';

function compareText(a, b) {
  return Number(a > b) - Number(a < b);
}

// By what an engineer looks for first. The sum comes last.
function inOrder(a, b) {
  return (
    Number(a.errno === null) - Number(b.errno === null) ||
    b.count - a.count ||
    compareText(a.syscall, b.syscall) ||
    compareText(a.errno, b.errno)
  );
}

/** The calls that were refused; undefined if nobody asked for them. */
function blockedCalls(native) {
  if (native.blocked === null) return undefined;
  return native.blocked
    .map(({ syscall, errno, count }) =>
      syscall === ''
        ? { syscall: otherCalls, errno: null, count }
        : { syscall, errno: errnoName(errno), count },
    )
    .sort(inOrder);
}

function mainText(results) {
  if (results.length === 0) return undefined;
  return results.findLast((result) => result.isMainResult)?.text;
}

// What a run and a cell have in common.
function commonFacts(native, frames, limits) {
  const durationMs = native.durationUs / 1000;
  const { files, deleted } = readChanges(native);
  return {
    stdout: native.stdout,
    stderr: native.stderr,
    durationMs,
    files,
    deleted,
    results: frames.results,
    text: mainText(frames.results),
    truncated:
      native.stdoutTruncated ||
      native.stderrTruncated ||
      native.framesTruncated ||
      native.filesTruncated ||
      frames.isTruncated,
    usage: usageOf(native.usage, durationMs),
    limits: limitsOf(limits),
    blocked: blockedCalls(native),
  };
}

function toMs(us) {
  return us === null ? null : us / 1000;
}

function usageOf(native, wallMs) {
  return {
    cpuMs: toMs(native.cpuUs),
    cpuUserMs: toMs(native.cpuUserUs),
    cpuSystemMs: toMs(native.cpuSystemUs),
    wallMs,
    maxMemoryBytes: native.maxMemoryBytes,
    maxPids: native.maxPids,
    ioReadBytes: native.readBytes,
    ioWriteBytes: native.writtenBytes,
  };
}

function limitsOf({ timeoutS, memoryMb, cpus, pids, diskMb }) {
  return { timeoutS, memoryMb, cpus, pids, diskMb };
}

/** The result of a whole run. `limits` are those that the run had. */
function runOutcome(native, frames, limits, argv) {
  const facts = commonFacts(native, frames, limits);
  if (native.exec) {
    const ending = { exitCode: execExitCode(native), signal: null };
    const error = execError(native.exec, argv);
    return new ExecutionResult(facts, ending, null, error);
  }
  const fault = faultOf(native, limits);
  // Without a fault the process has the last word: what the driver reported
  // before can be undone by an exit handler, or be a lie.
  const ending = fault
    ? faultEndings[fault.type]
    : { exitCode: native.exitCode, signal: signalName(native.signal) };
  const error = frames.done?.error ?? null;
  return new ExecutionResult(facts, ending, fault, error);
}

function isNotFound(exec) {
  return errnoName(Math.abs(exec.errno)) === 'ENOENT';
}

// As shells do: 127 for what is not there, 126 for what is but cannot run.
function execExitCode({ exec, exitCode }) {
  if (exitCode === 126 || exitCode === 127) return exitCode;
  return isNotFound(exec) ? 127 : 126;
}

function execError(exec, argv) {
  const number = Math.abs(exec.errno);
  const program = JSON.stringify(argv[0]);
  const reason = describeErrno(number);
  const where =
    isNotFound(exec) && !argv[0].includes('/') ? ' (looked for on PATH)' : '';
  return {
    name: errnoName(number) ?? 'UNKNOWN',
    message: `cannot execute ${program} in the box: ${reason}${where}`,
    traceback: '',
    line: null,
  };
}

/** How an interpreter ended. */
function describeEnd(exitCode, signal) {
  return signal === null
    ? `the interpreter ended with exit code ${exitCode}`
    : `the interpreter was ended by ${signal}`;
}

/** Why the run of a kernel ended, in a few words. */
function endReason(native, limits, argv) {
  if (native.exec) return execError(native.exec, argv).message;
  return (
    faultOf(native, limits)?.message ??
    describeEnd(native.exitCode, signalName(native.signal))
  );
}

module.exports = {
  commonFacts,
  describeEnd,
  endReason,
  faultEndings,
  faultMessages,
  faultOf,
  runOutcome,
};
