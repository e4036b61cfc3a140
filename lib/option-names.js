// SPDX-License-Identifier: Apache-2.0
'use strict';

// What somebody meant who wrote a name that is no option: names of other
// sandboxes and of node:child_process, other units, other spellings.

const { SandboxError } = require('./errors.js');

// Names are compared without case, "_" and "-": "memory_mb" is "memoryMb".
const renamed = {
  timeout: 'timeoutS, in seconds',
  timeoutms: 'timeoutS, in seconds (milliseconds / 1000)',
  timeoutseconds: 'timeoutS, in seconds',
  timeoutsec: 'timeoutS, in seconds',
  timelimit: 'timeoutS, in seconds',
  deadline: 'timeoutS, in seconds',
  memory: 'memoryMb, in MiB',
  mem: 'memoryMb, in MiB',
  memorylimit: 'memoryMb, in MiB',
  memorymib: 'memoryMb, in MiB',
  memorylimitmb: 'memoryMb, in MiB',
  maxmemory: 'memoryMb, in MiB',
  maxmemorymb: 'memoryMb, in MiB',
  memorybytes: 'memoryMb, in MiB (bytes / 1048576)',
  cpu: 'cpus, in cores',
  cpucount: 'cpus, in cores',
  vcpus: 'cpus, in cores',
  maxprocesses: 'pids',
  pidslimit: 'pids',
  processes: 'pids',
  disk: 'diskMb, in MiB',
  disksize: 'diskMb, in MiB',
  envs: 'env',
  envvars: 'env',
  environment: 'env',
  workingdirectory: ['cwd', 'workspace'],
  workdir: ['cwd', 'workspace'],
  dir: ['cwd', 'workspace'],
  input: 'stdin',
  abortsignal: 'signal',
  cancelsignal: 'signal',
  maxbuffer: 'maxOutputBytes, in bytes',
  maxoutput: 'maxOutputBytes, in bytes',
  maxoutputlength: 'maxOutputBytes, in bytes',
  outputlimit: 'maxOutputBytes, in bytes',
  lang: 'language',
  allowinternetaccess: 'network',
  allownetwork: 'network',
  networkaccess: 'network',
  internet: 'network',
  net: 'network',
  alloweddomains: 'egressAllow',
  binds: 'mounts',
  volumes: 'mounts',
  interpreters: 'runtimes',
  python: 'runtimes, as in runtimes: { python: PATH }',
  pythonpath: 'runtimes, as in runtimes: { python: PATH }',
  columns: 'cols',
  width: 'cols',
  height: 'rows',
  lines: 'rows',
  stdout: 'onStdout',
  stderr: 'onStderr',
  onoutput: 'onStdout and onStderr',
  results: 'onResult',
  ondisplay: 'onResult',
  workspacedir: 'workspace',
  template: 'image',
  limits: 'memoryMb, cpus and pids',
  strict: 'requireLimits',
};

// Where to look first for what a place has not.
const closest = { 'kernel.runCode()': ['sandbox.kernel()'] };

// Guessing takes time that grows with the length.
const longestGuess = 30;

function normalize(name) {
  return name.toLowerCase().replaceAll(/[-_]/g, '');
}

/** The error for `name`, which is no option of `place`. */
function unknownOption(name, place, tables) {
  const elsewhere = [...(closest[place] ?? []), ...Object.keys(tables)].find(
    (other) => other !== place && Object.hasOwn(tables[other], name),
  );
  if (elsewhere) {
    // Nobody is sent from one refusal to the next.
    const isBuilt = tables[elsewhere][name].kind !== undefined;
    const later = isBuilt ? '' : ', and not built yet there either';
    return error(
      name,
      `${name} is an option of ${elsewhere}, not of ${place}${later}`,
      undefined,
    );
  }
  const meant = findMeant(name, Object.keys(tables[place]));
  const shown = JSON.stringify(
    name.length > 60 ? `${name.slice(0, 60)}…` : name,
  );
  return error(
    name,
    `Unknown option ${shown} of ${place}${meant ? `: did you mean ${meant}?` : ''}`,
    meant,
  );
}

function error(option, message, expected) {
  return new SandboxError(message, {
    code: 'ERR_SANDBOX_INVALID_OPTION',
    option,
    expected,
    received: option,
  });
}

function findMeant(name, known) {
  const plain = normalize(name);
  const spelt = known.find((option) => normalize(option) === plain);
  if (spelt) return spelt;
  if (Object.hasOwn(renamed, plain)) {
    const candidates = [renamed[plain]].flat();
    const isKnown = (text) => known.includes(text.split(/\W/)[0]);
    return candidates.find(isKnown) ?? candidates[0];
  }
  if (plain.length > longestGuess) return undefined;

  // One slip in a short name, two in a longer one; with more, any guess is as
  // likely wrong as right.
  const allowed = plain.length < 5 ? 1 : 2;
  const [nearest] = known
    .map((option) => ({ option, slips: distance(plain, normalize(option)) }))
    .filter(({ slips }) => slips <= allowed)
    .sort((a, b) => a.slips - b.slips);
  return nearest?.option;
}

/** How many letters to add, drop, replace or swap: the distance of two words. */
function distance(from, to) {
  // Rows of the usual table: the last two are all that is looked back at.
  let before = [];
  let last = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let i = 1; i <= from.length; i++) {
    const row = [i];
    for (let j = 1; j <= to.length; j++) {
      const differs = from[i - 1] === to[j - 1] ? 0 : 1;
      row[j] = Math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + differs);
      const swapped =
        i > 1 &&
        j > 1 &&
        from[i - 1] === to[j - 2] &&
        from[i - 2] === to[j - 1];
      if (swapped) row[j] = Math.min(row[j], before[j - 2] + 1);
    }
    before = last;
    last = row;
  }
  return last[to.length];
}

module.exports = { unknownOption };
