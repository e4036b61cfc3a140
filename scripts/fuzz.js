// SPDX-License-Identifier: Apache-2.0
'use strict';

// `npm run fuzz` gives the readers of foreign bytes what libFuzzer thinks of.
//   npm run fuzz -- [SECONDS] [TARGET...]  each target that long (60)
//   npm run fuzz -- --keep [TARGET...]     adds to the kept inputs those of
//                                          earlier runs that reach more code
//   npm run fuzz -- --replay               only the kept inputs; needs no clang
//
// GLOVEBOX_FUZZ_SECONDS is the same as SECONDS. Targets are test/fuzz/*_fuzz.c,
// kept inputs test/fuzz/corpus/TARGET. An input that does harm is put there, so
// that `npm test` fails until it does no more. Others stay in build/fuzz.

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const fuzz = require('../test/fuzz/programs.js');

const compiler = process.env.CLANG || 'clang';
const fuzzerFlags = [
  '-fsanitize=fuzzer,address,undefined',
  '-fno-sanitize-recover=undefined',
];
const buildFolder = path.join(fuzz.root, 'build', 'fuzz');

// More than the largest message, so that too large ones come too.
const largestInput = 16384;
const inputTimeoutS = 10;

class Stopped extends Error {}

function run(command, args) {
  const { status, error } = spawnSync(command, args, {
    cwd: fuzz.root,
    stdio: 'inherit',
  });
  if (error) throw new Stopped(`${command}: ${error.message}`);
  return status ?? 1;
}

function checkCompiler() {
  if (spawnSync(compiler, ['--version']).status !== 0) {
    throw new Stopped(
      'clang is not installed. On Debian and Ubuntu:\n\n' +
        '  sudo apt-get install clang libclang-rt-14-dev\n\n' +
        '(the number is that of `clang --version`)',
    );
  }
  if (!fuzz.canUse(compiler, fuzzerFlags, buildFolder)) {
    throw new Stopped(
      `${compiler} has no libFuzzer. On Debian and Ubuntu:\n\n` +
        '  sudo apt-get install libclang-rt-14-dev\n\n' +
        '(the number is that of `clang --version`)',
    );
  }
}

function compile(name) {
  const binary = path.join(buildFolder, name);
  const args = fuzz.compilerArguments(name, binary, fuzzerFlags);
  if (run(compiler, args) !== 0) throw new Stopped(`${name}: not compiled`);
  return binary;
}

function foundFolder(name) {
  const folder = path.join(buildFolder, `${name}.found`);
  fs.mkdirSync(folder, { recursive: true });
  return folder;
}

const commonOptions = (name) => [
  `-max_len=${largestInput}`,
  `-timeout=${inputTimeoutS}`,
  `-artifact_prefix=${fuzz.corpusFolder(name)}/`,
];

function fuzzTarget(name, seconds) {
  console.log(`\n==== ${name}: ${seconds} s ====\n`);
  const status = run(compile(name), [
    ...commonOptions(name),
    `-max_total_time=${seconds}`,
    '-print_final_stats=1',
    '-verbosity=0',
    // libFuzzer writes what it finds into the first folder.
    foundFolder(name),
    fuzz.corpusFolder(name),
  ]);
  if (status !== 0)
    console.error(`fuzz: the input is in ${fuzz.corpusFolder(name)}: keep it`);
  return status;
}

function keep(name) {
  console.log(`\n==== ${name}: keep ====\n`);
  return run(compile(name), [
    ...commonOptions(name),
    '-merge=1',
    // Features count how often code runs, too: far too many inputs to keep.
    '-use_value_profile=0',
    '-use_counters=0',
    '-verbosity=0',
    fuzz.corpusFolder(name),
    foundFolder(name),
  ]);
}

function parseArguments(words) {
  const choice = {
    mode: 'fuzz',
    seconds: Number(process.env.GLOVEBOX_FUZZ_SECONDS ?? 60),
    targets: [],
  };
  for (const word of words) {
    if (word === '--replay' || word === '--keep') choice.mode = word.slice(2);
    else if (/^\d+$/.test(word)) choice.seconds = Number(word);
    else if (fuzz.names.includes(word)) choice.targets.push(word);
    else throw new Stopped(`"${word}" is none of ${fuzz.names.join(', ')}`);
  }
  // 0 would be without end for libFuzzer.
  if (!(choice.seconds >= 1))
    throw new Stopped('expected whole seconds from 1');
  if (choice.targets.length === 0) choice.targets = fuzz.names;
  return choice;
}

function main() {
  const { mode, seconds, targets } = parseArguments(process.argv.slice(2));
  if (mode === 'replay')
    return run(process.execPath, ['--test', 'test/fuzz/replay.test.js']);
  fs.mkdirSync(buildFolder, { recursive: true });
  checkCompiler();
  const statuses = targets.map((name) =>
    mode === 'keep' ? keep(name) : fuzzTarget(name, seconds),
  );
  return statuses.every((status) => status === 0) ? 0 : 1;
}

try {
  process.exitCode = main();
} catch (error) {
  if (!(error instanceof Stopped)) throw error;
  console.error(`fuzz: ${error.message}`);
  process.exitCode = 1;
}
