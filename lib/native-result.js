// SPDX-License-Identifier: Apache-2.0
'use strict';

// What the engine reports of a run or a cell. The addon has the facts and these
// functions make one object of them: to set each property from C++ takes ten
// times as long. The order of the parameters is that of convert.cc.

function makeRunResult(
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
  files,
  exitCode,
  signal,
  exec,
  cpuUs,
  cpuUserUs,
  cpuSystemUs,
  readBytes,
  writtenBytes,
  maxMemoryBytes,
  maxPids,
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
    files,
    exitCode,
    signal,
    exec,
    usage: {
      cpuUs,
      cpuUserUs,
      cpuSystemUs,
      readBytes,
      writtenBytes,
      maxMemoryBytes,
      maxPids,
    },
  };
}

function makeCellResult(
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
  files,
  done,
  interrupted,
  timedOut,
  exitCode,
  signal,
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
    files,
    done,
    interrupted,
    timedOut,
    exitCode,
    signal,
  };
}

module.exports = { makeCellResult, makeRunResult };
