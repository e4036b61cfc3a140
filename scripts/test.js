// SPDX-License-Identifier: Apache-2.0
'use strict';

// Runs the test suite as the current user and, when that is root, once more as
// an unprivileged user: the two get their boxes and limits in different ways.
//   npm test -- [FILE...] [--test-name-pattern=PATTERN...]
//
// Tests learn of the pass from GLOVEBOX_TEST_PASS: "root" or "user", and from
// GLOVEBOX_TEST_WARM=0 that no interpreter is to wait for its call.

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { files: packed } = require('../package.json');

const root = path.join(__dirname, '..');

// Each file looks for what it left behind in a temporary folder and among
// processes of its own, so they can share the machine's cores.
const concurrentFiles = 2;

// A test that hangs must fail, not run into the time limit of a CI.
const fileTimeoutMs = process.env.GLOVEBOX_SOAK === '1' ? 0 : 5 * 60 * 1000;

// An id that Debian and Ubuntu give to nobody.
const plainId = 65000;

// What an installed package has, and the tests.
const installedFiles = [
  ...['package.json', 'README.md', ...packed],
  ...['examples', 'scripts/failures.js', 'test'],
];

// These compile C, check types, make inputs up or calculate: the outcome is the
// same for every user, and the copy has no node_modules and no bench.
const rootPassOnly = [
  'test/bench/',
  'test/c/',
  'test/fuzz/',
  'test/property/',
  'test/types/',
];

// What runs code is run once more with interpreters that are started for each
// call (`warm: false`), as they are wherever none can wait.
const coldFolders = ['test/cases/', 'test/hostile/'];
const coldPreload = 'test/helpers/cold.js';

// But for those that are about interpreters that wait, or run no code by
// runCode(): programs, kernels, options, hosts that let nothing run.
const warmOnly = [
  'test/cases/doctor.test.js',
  'test/cases/kernel-control.test.js',
  'test/cases/kernel-languages.test.js',
  'test/cases/kernel.test.js',
  'test/cases/misuse.test.js',
  'test/cases/plan.test.js',
  'test/cases/preload.test.js',
  'test/cases/profile.test.js',
  'test/cases/pty.test.js',
  'test/cases/spawn.test.js',
  'test/cases/warm.test.js',
  'test/hostile/kernel-replies.test.js',
  'test/hostile/kernel-sabotage.test.js',
  'test/hostile/kernel.test.js',
  'test/hostile/leftovers.test.js',
  'test/hostile/refused-hosts.test.js',
  'test/hostile/warm.test.js',
];

const isForColdPass = (file) =>
  coldFolders.some((folder) => file.startsWith(folder)) &&
  !warmOnly.includes(file);

function findTestFiles() {
  return fs
    .readdirSync(path.join(root, 'test'), { recursive: true })
    .filter((name) => /\.test\.[cm]?js$/.test(name))
    .map((name) => `test/${name}`)
    .sort();
}

function testCommand(node, { files, options }, failures) {
  return [
    node,
    '--test',
    '--test-reporter=spec',
    '--test-reporter-destination=stdout',
    '--test-reporter=./scripts/failures.js',
    `--test-reporter-destination=${failures}`,
    `--test-concurrency=${concurrentFiles}`,
    ...(fileTimeoutMs > 0 ? [`--test-timeout=${fileTimeoutMs}`] : []),
    ...options,
    ...files,
  ];
}

function run([command, ...args], options) {
  const { status, error } = spawnSync(command, args, {
    stdio: 'inherit',
    ...options,
  });
  if (error) throw error;
  return status ?? 1;
}

function printHeading(text) {
  console.log(`\n==== ${text} ====\n`);
}

// What failed in each pass, printed again when all are over.
const summaries = [];

function runPass(heading, prefix, node, choice, options) {
  printHeading(heading);
  const failures = path.join(options.cwd, `.failures-${summaries.length}`);
  // The user of the pass writes it, in a folder of root's.
  fs.writeFileSync(failures, '');
  fs.chmodSync(failures, 0o666);
  try {
    const command = testCommand(node, choice, failures);
    const status = run([...prefix, ...command], options);
    summaries.push({
      heading,
      status,
      text: fs.readFileSync(failures, 'utf8'),
    });
  } finally {
    fs.rmSync(failures, { force: true });
  }
}

function printSummary() {
  for (const { heading, status, text } of summaries) {
    if (status === 0) continue;
    printHeading(`failed among ${heading}`);
    console.log(text || `(no test; the run ended with ${status})`);
  }
}

function runAsCurrentUser(choice) {
  const isRoot = process.getuid() === 0;
  const env = { ...process.env, GLOVEBOX_TEST_PASS: isRoot ? 'root' : 'user' };
  runWarmAndCold(
    `tests as ${isRoot ? 'root' : 'a plain user'}`,
    [],
    process.execPath,
    choice,
    { cwd: root, env },
  );
}

function runWarmAndCold(heading, prefix, node, choice, options) {
  runPass(heading, prefix, node, choice, options);
  const files = choice.files.filter(isForColdPass);
  if (files.length === 0) return;
  const preload = JSON.stringify(path.join(options.cwd, coldPreload));
  const env = {
    ...options.env,
    GLOVEBOX_TEST_WARM: '0',
    NODE_OPTIONS: `${options.env.NODE_OPTIONS ?? ''} --require=${preload}`,
  };
  runPass(
    `${heading}, with warm: false`,
    prefix,
    node,
    { ...choice, files },
    { ...options, env },
  );
}

function runAsPlainUser({ files: allFiles, options }) {
  const files = allFiles.filter(
    (file) => !rootPassOnly.some((folder) => file.startsWith(folder)),
  );
  if (files.length === 0) return;

  // Not os.tmpdir(): TMPDIR may name a folder that is private to root, as the
  // folder of this clone may be.
  const copy = fs.mkdtempSync('/tmp/plain-user-');
  try {
    const env = preparePlainUser(copy);
    const node = findNodeFor(copy, env);
    runWarmAndCold(
      `tests as a plain user (uid ${plainId})`,
      becomePlainUser,
      node,
      { files, options },
      { cwd: copy, env },
    );
  } finally {
    fs.rmSync(copy, { recursive: true, force: true });
  }
}

const becomePlainUser = [
  'setpriv',
  `--reuid=${plainId}`,
  `--regid=${plainId}`,
  '--clear-groups',
  '--inh-caps=-all',
  '--bounding-set=-all',
];

function preparePlainUser(copy) {
  fs.chmodSync(copy, 0o755);
  for (const name of installedFiles) {
    const target = path.join(copy, name);
    fs.mkdirSync(path.dirname(target), { recursive: true });
    fs.cpSync(path.join(root, name), target, { recursive: true });
  }
  for (const name of ['home', 'tmp']) {
    const folder = path.join(copy, name);
    fs.mkdirSync(folder, { mode: 0o700 });
    fs.chownSync(folder, plainId, plainId);
  }
  // Nothing else of root's environment: it names root's folders and files.
  const kept = Object.entries(process.env).filter(([name]) =>
    /^(PATH|LANG|TERM|CI|NO_COLOR|FORCE_COLOR|GLOVEBOX_\w+)$/.test(name),
  );
  return {
    ...Object.fromEntries(kept),
    HOME: path.join(copy, 'home'),
    TMPDIR: path.join(copy, 'tmp'),
    USER: 'plain',
    LOGNAME: 'plain',
    GLOVEBOX_TEST_PASS: 'user',
  };
}

// root's node may lie in root's home (nvm does that), out of others' reach.
function findNodeFor(copy, env) {
  const probe = spawnSync(
    becomePlainUser[0],
    [...becomePlainUser.slice(1), process.execPath, '--version'],
    { env, cwd: copy },
  );
  if (probe.status === 0) return process.execPath;
  const bin = path.join(copy, 'bin');
  fs.mkdirSync(bin);
  fs.copyFileSync(process.execPath, path.join(bin, 'node'));
  env.PATH = `${bin}:${env.PATH}`;
  return path.join(bin, 'node');
}

// Files may be given from any folder; the two passes run in their own.
function parseArguments(words) {
  const options = words.filter((word) => word.startsWith('-'));
  const files = words
    .filter((word) => !word.startsWith('-'))
    .map((file) => path.relative(root, path.resolve(file)));
  return { options, files: files.length > 0 ? files : findTestFiles() };
}

const choice = parseArguments(process.argv.slice(2));
if (choice.files.length === 0) {
  console.error('no test files found');
  process.exit(1);
}
runAsCurrentUser(choice);
if (process.getuid() === 0) runAsPlainUser(choice);
printSummary();
process.exitCode = Math.max(...summaries.map(({ status }) => status));
