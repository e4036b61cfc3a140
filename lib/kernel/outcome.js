// SPDX-License-Identifier: Apache-2.0
'use strict';

// From the engine's report to the result of a cell, and what became of the
// kernel's state.

const {
  commonFacts,
  describeEnd,
  faultEndings,
  faultMessages,
  faultOf,
} = require('../outcome.js');
const { readDone } = require('../frames.js');
const { ExecutionResult } = require('../result.js');
const { signalName } = require('../signals.js');

const interruptedExitCode = 130;
const diedExitCode = -1;

// What a fault says of the state after it.
const fates = {
  kept: 'the cell was interrupted, and the kernel and its state are kept',
  back: 'the state is that of before this cell again',
  lost: 'the state is gone, and rollback() brings that of a checkpoint back',
  gone: 'the kernel and its state are gone',
};

/** Why the interpreter is gone, of which the supervisor says that it died. */
function deathOf(native, { lost }, limits) {
  if (native.timedOut) return faultMessages.timeout(limits);
  if (lost.isClosed) return 'the interpreter closed its control channel';
  return describeEnd(lost.exitCode, signalName(lost.signal));
}

/**
 * What a cell came to: `death` says why the interpreter is gone after it, if it
 * is, and `isLost` that its box is not. `resultFor(fate)` gives the result; the
 * fate of the state is "back", "lost" or "gone" where there is a death.
 */
function cellOutcome(native, frames, limits, language) {
  const facts = commonFacts(native, frames, limits);
  const done = native.done ? readDone(native.done) : undefined;
  const error = done?.error ?? null;
  const failed = (death, type, ending, isLost = false) => ({
    death,
    isLost,
    resultFor: (fate) => {
      const why = { type, message: `${death}; ${fates[fate]}` };
      return new ExecutionResult(facts, ending, why, error);
    },
  });
  const ended = (exitCode, why, death) => {
    const ending = { exitCode, signal: null };
    const result = new ExecutionResult(facts, ending, why, error);
    return { death, isLost: false, resultFor: () => result };
  };

  const fault = faultOf(native, limits);
  if (fault) {
    const outcome = failed(fault.message, fault.type, faultEndings[fault.type]);
    return fault.syscall === undefined
      ? outcome
      : withSyscall(outcome, fault.syscall);
  }
  if (done?.lost) {
    const ending = native.timedOut
      ? faultEndings.timeout
      : { exitCode: diedExitCode, signal: signalName(done.lost.signal) };
    const type = native.timedOut ? 'timeout' : 'killed';
    return failed(deathOf(native, done, limits), type, ending, true);
  }
  if (native.timedOut) {
    const message = faultMessages.timeout(limits);
    if (!done) return failed(message, 'timeout', faultEndings.timeout);
    const why = { type: 'timeout', message: `${message}; ${fates.kept}` };
    return ended(interruptedExitCode, why);
  }
  if (done) return ended(done.exitCode, null);

  const signal = signalName(native.signal);
  const hasEnded = native.exitCode !== null;
  if (hasEnded && signal === null && language === 'bash') {
    // What `exit` means in a shell.
    const { exitCode } = native;
    const death = `the shell ended with exit code ${exitCode}`;
    return ended(exitCode, null, death);
  }
  // The interpreter is gone, or something else answers in its place.
  const death = native.done
    ? 'the interpreter sent a reply that no driver sends'
    : hasEnded
      ? describeEnd(native.exitCode, signal)
      : 'the interpreter ended, or closed its control channel';
  return failed(death, 'killed', { exitCode: diedExitCode, signal });
}

function withSyscall(outcome, syscall) {
  return {
    ...outcome,
    resultFor(fate) {
      const result = outcome.resultFor(fate);
      result.fault.syscall = syscall;
      return result;
    },
  };
}

module.exports = { cellOutcome, deathOf };
