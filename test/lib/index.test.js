// SPDX-License-Identifier: Apache-2.0
'use strict';

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const glovebox = require('../../lib/index.js');

const root = path.join(__dirname, '..', '..');

const names = [
  'ExecutionResult',
  'Kernel',
  'MountRefused',
  'Result',
  'Sandbox',
  'SandboxError',
  'SandboxProcess',
  'doctor',
  'isSupported',
  'runCode',
  'version',
  'withSandbox',
];

function evaluate(code, ...flags) {
  return execFileSync(process.execPath, [...flags, '-e', code], {
    cwd: root,
    encoding: 'utf8',
  }).trim();
}

test('the exports are these', () => {
  assert.deepEqual(Object.keys(glovebox).sort(), names);
  assert.equal(glovebox.version, require('../../package.json').version);
});

test('P33 a module imports them by name and as default', () => {
  const output = evaluate(
    `import api, * as all from 'glovebox';
     import { runCode, Sandbox, withSandbox } from 'glovebox';
     console.log(typeof runCode, typeof Sandbox, typeof withSandbox,
       typeof api.runCode);
     console.log(Object.keys(all).sort().join());`,
    '--input-type=module',
  );
  assert.equal(
    output,
    `function function function function\n${[...names, 'default'].sort()}`,
  );
});

test('P33 require and import give the same classes', () => {
  const output = evaluate(
    `import { createRequire } from 'node:module';
     import { SandboxError } from 'glovebox';
     const require = createRequire(process.cwd() + '/');
     console.log(SandboxError === require('glovebox').SandboxError);`,
    '--input-type=module',
  );
  assert.equal(output, 'true');
});

test('P33 the names can be read from the text of lib/index.js', () => {
  const output = evaluate(
    `import { runCode, version } from './lib/index.js';
     console.log(typeof runCode, typeof version);`,
    '--input-type=module',
  );
  assert.equal(output, 'function string');
});

test('importing loads nothing compiled and never throws', () => {
  const output = evaluate(
    `Object.defineProperty(process, 'platform', { value: 'darwin' });
     const { runCode, isSupported } = require('glovebox');
     console.log(isSupported());
     runCode('1').catch((error) => console.log(error.code));
     console.log(Object.keys(require.cache).some((f) => f.endsWith('.node')));`,
  );
  assert.equal(output, 'false\nfalse\nERR_SANDBOX_UNSUPPORTED_PLATFORM');
});

test('glovebox/e2b is one module for require and import', () => {
  const output = evaluate(
    `import { createRequire } from 'node:module';
     import Default, * as all from 'glovebox/e2b';
     import { Sandbox, CommandExitError } from 'glovebox/e2b';
     const require = createRequire(process.cwd() + '/');
     const common = require('glovebox/e2b');
     console.log(Default === Sandbox, Sandbox === common.Sandbox,
       CommandExitError === common.CommandExitError);
     console.log(Object.keys(all).sort().join());
     console.log([...Object.keys(common), 'default'].sort().join());`,
    '--input-type=module',
  );
  const [same, imported, required] = output.split('\n');
  assert.equal(same, 'true true true');
  assert.equal(imported, required);
});

// What npm finds a binding.gyp in, it compiles when it installs from a lock file,
// since that says nothing of `gypfile: false`; and node-addon-api is not there.
test('the package has what was compiled, and nothing that npm would compile', (t) => {
  const cache = fs.mkdtempSync(path.join(os.tmpdir(), 'glovebox-npm-'));
  t.after(() => fs.rmSync(cache, { recursive: true }));
  const output = execFileSync(
    'npm',
    ['pack', '--dry-run', '--json', '--ignore-scripts', `--cache=${cache}`],
    { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] },
  );
  const [{ files }] = JSON.parse(output);
  const paths = files.map((file) => file.path);
  assert.deepEqual(
    paths.filter((name) => name.endsWith('.gyp')),
    [],
  );
  const scripts = ['preinstall', 'install', 'postinstall'].filter(
    (name) => name in require('../../package.json').scripts,
  );
  assert.deepEqual(scripts, []);
  for (const name of ['glovebox.node', 'launcher', 'join.so']) {
    assert.ok(paths.includes(`build/Release/${name}`), name);
  }
  assert.ok(paths.includes('lib/index.js') && paths.includes('index.d.ts'));
});
