// SPDX-License-Identifier: Apache-2.0
'use strict';

// `npm run test:asan` compiles engine and addon with AddressSanitizer and
// UndefinedBehaviorSanitizer, in a copy of the project under build/asan, and
// runs a part of the suite on them.
//   npm run test:asan -- [FILE...] [--test-name-pattern=PATTERN...]
//
// The launcher is static and stays as it is: the sanitizers cannot be linked
// into it. Its parsers run under them in test/fuzz.

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { files: packed } = require('../package.json');

const root = path.join(__dirname, '..');
const copy = path.join(root, 'build', 'asan');
const reports = path.join(copy, 'reports');

// What the tests need, and what the build needs. node_modules is found above.
const copiedFiles = [
  ...['package.json', 'README.md', 'binding.gyp', 'scripts', 'test'],
  ...packed.filter((name) => !name.startsWith('build/')),
];

// Those that drive most of the native code, and long enough for races.
const defaultFiles = [
  'test/cases/output.test.js',
  'test/cases/processes.test.js',
  'test/cases/lifecycle.test.js',
  'test/cases/kernel.test.js',
  'test/cases/files.test.js',
  'test/cases/results.test.js',
  'test/cases/misuse.test.js',
  'test/cases/host-process.test.js',
  'test/lib/callbacks.test.js',
  'test/hostile/concurrency.test.js',
];

const fileTimeoutMs = 5 * 60 * 1000;

class Stopped extends Error {}

function run(command, args, options) {
  const { status, error } = spawnSync(command, args, {
    cwd: copy,
    stdio: 'inherit',
    ...options,
  });
  if (error) throw new Stopped(`${command}: ${error.message}`);
  return status ?? 1;
}

// Modification times are kept, so that make compiles only what changed.
function copyProject() {
  fs.mkdirSync(copy, { recursive: true });
  for (const name of copiedFiles) {
    const target = path.join(copy, name);
    // A file that was removed must not be compiled or run any more.
    fs.rmSync(target, { recursive: true, force: true });
    fs.cpSync(path.join(root, name), target, {
      recursive: true,
      preserveTimestamps: true,
    });
  }
}

function build() {
  const env = { ...process.env, GLOVEBOX_SANITIZE: '1' };
  const status = run('npm', ['run', '--silent', 'build'], { env });
  if (status !== 0) throw new Stopped('the build failed');
}

// Node itself is not instrumented, so the libraries must be there before it.
function findLibrary(name) {
  const compiler = process.env.CC || 'gcc';
  const query = spawnSync(compiler, [`-print-file-name=${name}`], {
    encoding: 'utf8',
  });
  const file = (query.stdout ?? '').trim();
  // The compiler repeats the name of a library that it does not have.
  if (path.isAbsolute(file)) return fs.realpathSync(file);
  throw new Stopped(
    `${compiler} has no ${name}: install the sanitizers of gcc ` +
      '(`apt-get install gcc` has them on Debian and Ubuntu)',
  );
}

function runTests(words) {
  const options = words.filter((word) => word.startsWith('-'));
  const files = words
    .filter((word) => !word.startsWith('-'))
    .map((file) => path.relative(root, path.resolve(file)));
  const log = `log_path=${path.join(reports, 'report')}`;
  const env = {
    ...process.env,
    LD_PRELOAD: ['libasan.so', 'libubsan.so'].map(findLibrary).join(' '),
    // Node frees little of its own when it ends.
    ASAN_OPTIONS: `detect_leaks=0:${log}`,
    UBSAN_OPTIONS: `print_stacktrace=1:${log}`,
    GLOVEBOX_TEST_PASS: process.getuid() === 0 ? 'root' : 'user',
  };
  const command = [
    '--test',
    '--test-reporter=spec',
    '--test-concurrency=2',
    `--test-timeout=${fileTimeoutMs}`,
    ...options,
    ...(files.length > 0 ? files : defaultFiles),
  ];
  return run(process.execPath, command, { env });
}

// A host that a test expects to die may have died of a report.
function countReports() {
  const names = fs.readdirSync(reports);
  for (const name of names) {
    console.error(`\n==== ${name} ====\n`);
    console.error(fs.readFileSync(path.join(reports, name), 'utf8'));
  }
  return names.length;
}

try {
  copyProject();
  build();
  fs.rmSync(reports, { recursive: true, force: true });
  // Any user's process may have something to report.
  fs.mkdirSync(reports);
  fs.chmodSync(reports, 0o777);
  const status = runTests(process.argv.slice(2));
  const count = countReports();
  if (count > 0) console.error(`asan: ${count} reports of the sanitizers`);
  process.exitCode = status !== 0 || count > 0 ? 1 : 0;
} catch (error) {
  if (!(error instanceof Stopped)) throw error;
  console.error(`asan: ${error.message}`);
  process.exitCode = 1;
}
