// SPDX-License-Identifier: Apache-2.0
'use strict';

// Brings a clone to where it can run: Debian packages, npm packages, build.
//   node scripts/setup.js build|test|bench|vm|vm-arm64|fuzz|ci
// Does only what is missing and says so; costs a few milliseconds when nothing
// is. Runs in a fresh clone, so it needs nothing but Node.

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { isBuilt } = require('./build.js');

const root = path.join(__dirname, '..');

// The last brings cJSON's header, and the library with it.
const buildPackages = [
  ...['g++', 'make', 'python3'],
  ...['libseccomp-dev', 'libcjson-dev'],
];
const testPackages = [...buildPackages, 'python3-matplotlib', 'python3-pandas'];
const fuzzPackages = ['clang', 'libclang-rt-14-dev'];
const diskPackages = ['debian-archive-keyring', 'e2fsprogs', 'mmdebstrap'];
const foreignPackages = [
  'g++-aarch64-linux-gnu',
  'qemu-system-arm',
  'qemu-user-static',
];
const levels = {
  build: buildPackages,
  test: testPackages,
  bench: [...buildPackages, 'bubblewrap', 'python3-pandas'],
  vm: [...buildPackages, ...diskPackages, 'qemu-system-x86'],
  'vm-arm64': [...buildPackages, ...diskPackages, ...foreignPackages],
  fuzz: [...buildPackages, ...fuzzPackages],
  ci: [...testPackages, ...fuzzPackages, 'clang-format', 'strace', 'tzdata'],
};

// The machine is not as it must be, and only its owner can change that.
class SetupStopped extends Error {}

function say(line) {
  console.log(`setup: ${line}`);
}

function run(command, args) {
  const options = { cwd: root, stdio: 'inherit' };
  const { status, error } = spawnSync(command, args, options);
  if (error?.code === 'ENOENT') {
    throw new SetupStopped(`${command} is not installed`);
  }
  if (error) throw error;
  if (status !== 0) {
    throw new SetupStopped(`\`${[command, ...args].join(' ')}\` failed`);
  }
}

// null where there is no dpkg to ask.
function findMissingPackages(packages) {
  const query = spawnSync(
    'dpkg-query',
    ['--show', '--showformat=${Package} ${db:Status-Status}\n', ...packages],
    { encoding: 'utf8' },
  );
  if (query.error) return null;
  const lines = new Set(query.stdout.split('\n'));
  return packages.filter((name) => !lines.has(`${name} installed`));
}

// The words to put before a command to run it as root, or null.
function findRootPrefix() {
  if (process.getuid() === 0) return [];
  const sudo = spawnSync('sudo', ['-n', 'true'], { stdio: 'ignore' });
  return sudo.status === 0 ? ['sudo', '-n'] : null;
}

function installPackages(packages) {
  const missing = findMissingPackages(packages);
  if (missing === null) {
    say(`not Debian or Ubuntu: have the like of ${packages.join(', ')}`);
    return;
  }
  if (missing.length === 0) return;

  const install = ['install', '-y', '--no-install-recommends', ...missing];
  const prefix = findRootPrefix();
  if (prefix === null) {
    throw new SetupStopped(
      'these packages are missing, and installing them takes root. Run this, ' +
        'then try again:\n\n  sudo apt-get update && ' +
        `sudo apt-get ${install.join(' ')}\n`,
    );
  }
  say(`installing ${missing.join(', ')}`);
  // Through env, because sudo drops the caller's environment. One broken
  // package source fails the update, but rarely the installation.
  const aptGet = 'env DEBIAN_FRONTEND=noninteractive apt-get -q'.split(' ');
  const [command, ...args] = [...prefix, ...aptGet];
  spawnSync(command, [...args, 'update'], { stdio: 'inherit' });
  run(command, [...args, ...install]);
}

// npm notes in node_modules what it installed there. Packages for other
// platforms are optional and rightly absent.
function areNpmPackagesCurrent() {
  const readPackages = (file) =>
    JSON.parse(fs.readFileSync(path.join(root, file), 'utf8')).packages;
  const installedFile = 'node_modules/.package-lock.json';
  if (!fs.existsSync(path.join(root, installedFile))) return false;
  const installed = readPackages(installedFile);
  return Object.entries(readPackages('package-lock.json')).every(
    ([name, { version, optional }]) =>
      name === '' ||
      (installed[name] ? installed[name].version === version : optional),
  );
}

function setUp(packages) {
  installPackages(packages);
  if (!areNpmPackagesCurrent()) {
    say('installing npm packages');
    run('npm', ['ci', '--no-fund', '--no-audit']);
  }
  if (!isBuilt()) {
    say('building');
    run('npm', ['run', '--silent', 'build']);
  }
}

const level = process.argv[2];
if (!Object.hasOwn(levels, level)) {
  console.error(
    `usage: node scripts/setup.js ${Object.keys(levels).join('|')}`,
  );
  process.exit(2);
}
try {
  setUp(levels[level]);
} catch (error) {
  if (!(error instanceof SetupStopped)) throw error;
  console.error(`setup: ${error.message}`);
  process.exitCode = 1;
}
