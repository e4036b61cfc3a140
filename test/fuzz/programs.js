// SPDX-License-Identifier: Apache-2.0
'use strict';

// How the targets are found and compiled: for libFuzzer by scripts/fuzz.js, and
// to replay what was kept by replay.test.js.

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { compilerFlags, readSources, root } = require('../helpers/c-sources.js');

const names = fs
  .readdirSync(__dirname)
  .filter((name) => name.endsWith('_fuzz.c'))
  .map((name) => name.slice(0, -'_fuzz.c'.length))
  .sort();

const targetFile = (name) => `test/fuzz/${name}_fuzz.c`;
const corpusFolder = (name) => `test/fuzz/corpus/${name}`;

/** The kept inputs of a target: seeds, what fuzzing found, what crashed. */
function listInputs(name) {
  const folder = corpusFolder(name);
  return fs
    .readdirSync(path.join(root, folder))
    .sort()
    .map((file) => `${folder}/${file}`);
}

// The engine's headers include uv.h, which comes with Node's own.
function findNodeHeaders() {
  const prefix =
    process.env.npm_config_nodedir ||
    path.dirname(path.dirname(fs.realpathSync(process.execPath)));
  const folder = path.join(prefix, 'include', 'node');
  return fs.existsSync(folder) ? [`-I${folder}`] : [];
}

/** Arguments of the compiler: `extra` are flags or further sources. */
function compilerArguments(name, binary, extra) {
  return [
    ...compilerFlags,
    '-Itest/fuzz',
    ...findNodeHeaders(),
    ...extra,
    ...readSources(targetFile(name)),
    '-o',
    binary,
  ];
}

/** Whether a program that is linked with these flags runs. */
function canUse(compiler, extra, folder) {
  const source = path.join(folder, 'probe.c');
  const binary = path.join(folder, 'probe');
  fs.writeFileSync(
    source,
    '#include <stddef.h>\n' +
      'int LLVMFuzzerTestOneInput(const char* data, size_t size);\n' +
      'int LLVMFuzzerTestOneInput(const char* data, size_t size) {\n' +
      '  return data != NULL && size == (size_t)-1;\n' +
      '}\n' +
      (extra.some((flag) => flag.includes('fuzzer'))
        ? ''
        : 'int main(void) { return 0; }\n'),
  );
  const args = [...extra, source, '-o', binary];
  const compiled = spawnSync(compiler, args, { encoding: 'utf8' });
  if (compiled.status !== 0) return false;
  return spawnSync(binary, ['-runs=1'], { stdio: 'ignore' }).status === 0;
}

module.exports = {
  canUse,
  compilerArguments,
  corpusFolder,
  listInputs,
  names,
  root,
};
