// SPDX-License-Identifier: Apache-2.0
'use strict';

// Gives each kept input of test/fuzz/corpus to its target once, under
// AddressSanitizer and UndefinedBehaviorSanitizer where the compiler has them.
// It needs no clang: `npm run fuzz` does, and looks for new inputs.

const assert = require('node:assert/strict');
const { spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, test } = require('node:test');
const fuzz = require('./programs.js');

const compiler = process.env.CC || 'gcc';
const sanitizerFlags = [
  '-fsanitize=address,undefined',
  '-fno-sanitize-recover=undefined',
];
const timeoutMs = 120_000;

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'glovebox-fuzz-'));
after(() => fs.rmSync(folder, { recursive: true, force: true }));

const hasCompiler = spawnSync(compiler, ['--version']).status === 0;
const hasSanitizers =
  hasCompiler && fuzz.canUse(compiler, sanitizerFlags, folder);

function execute(command, args) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd: fuzz.root,
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: timeoutMs,
      killSignal: 'SIGKILL',
    });
    const output = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr']) {
      child[name].setEncoding('utf8').on('data', (text) => {
        output[name] += text;
      });
    }
    child.on('error', reject);
    child.on('close', (status, signal) =>
      resolve({ status, signal, ...output }),
    );
  });
}

test('there are fuzz targets', () => {
  assert.notEqual(fuzz.names.length, 0);
});

for (const name of fuzz.names) {
  const suffix = hasSanitizers ? '' : ' (without sanitizers: not installed)';
  test(`${name}: no kept input does harm${suffix}`, async (t) => {
    if (!hasCompiler && process.env.GLOVEBOX_MUST_RUN !== '1') {
      t.skip(`no C compiler: ${compiler}`);
      return;
    }
    const binary = path.join(folder, name);
    const args = fuzz.compilerArguments(name, binary, [
      ...(hasSanitizers ? sanitizerFlags : []),
      'test/fuzz/replay_main.c',
    ]);
    const { status, stderr } = await execute(compiler, args);
    assert.equal(status, 0, `${compiler} ${args.join(' ')}\n${stderr}`);

    const inputs = fuzz.listInputs(name);
    assert.notEqual(inputs.length, 0, `test/fuzz/corpus/${name} is empty`);
    const run = await execute(binary, inputs);
    const last = run.stdout.trimEnd().split('\n').at(-1);
    assert.equal(run.status, 0, `${last} (${run.signal})\n${run.stderr}`);
    assert.equal(run.stdout.trimEnd().split('\n').length, inputs.length);
  });
}
