// SPDX-License-Identifier: Apache-2.0
'use strict';

// What the engine reports of a run or a cell. The addon has the facts and these
// functions make one object of them: to set each property from C++ takes ten
// times as long. The order of the parameters is that of convert.cc.

function makeCommon(
  stdout,
  stderr,
  stdoutTruncated,
  stderrTruncated,
  fault,
  faultSyscall,
  blocked,
  framesTruncated,
  filesTruncated,
  durationUs,
  cpuUs,
  cpuUserUs,
  cpuSystemUs,
  readBytes,
  writtenBytes,
  maxMemoryBytes,
  maxPids,
  files,
) {
  return {
    stdout,
    stderr,
    stdoutTruncated,
    stderrTruncated,
    fault,
    faultSyscall,
    blocked,
    framesTruncated,
    filesTruncated,
    durationUs,
    usage: {
      cpuUs,
      cpuUserUs,
      cpuSystemUs,
      readBytes,
      writtenBytes,
      maxMemoryBytes,
      maxPids,
    },
    files,
  };
}

function makeRunResult(exitCode, signal, exec, ...common) {
  const result = makeCommon(...common);
  result.exitCode = exitCode;
  result.signal = signal;
  result.exec = exec;
  return result;
}

function makeCellResult(
  done,
  interrupted,
  timedOut,
  exitCode,
  signal,
  ...common
) {
  const result = makeCommon(...common);
  result.done = done;
  result.interrupted = interrupted;
  result.timedOut = timedOut;
  result.exitCode = exitCode;
  result.signal = signal;
  return result;
}

module.exports = { makeCellResult, makeRunResult };
