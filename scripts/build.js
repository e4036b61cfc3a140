// SPDX-License-Identifier: Apache-2.0
'use strict';

// `npm run build` compiles the addon, the launcher and join.so into build/Release.
// `npm run build -- --clean` starts from nothing. In a fresh clone it installs
// what is missing first, as scripts/setup.js does.
//
// Only what changed is compiled again, but the project is always configured
// anew: binding.gyp lists its sources by folder, and a new file must be seen.

const { spawnSync } = require('node:child_process');
const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');

const root = path.join(__dirname, '..');
const stampFile = path.join(root, 'build', 'sources.sha256');
const outputs = ['glovebox.node', 'launcher', 'join.so'].map((name) =>
  path.join(root, 'build', 'Release', name),
);

// What the built files depend on. A clone, a checkout and a copy all change
// modification times, so contents decide.
function hashSources() {
  const hash = crypto.createHash('sha256');
  hash.update(`${process.arch} ${process.versions.modules}\n`);
  const files = fs
    .readdirSync(path.join(root, 'src'), { recursive: true })
    .map((name) => path.join('src', name))
    .filter((name) => /\.(c|h|cc)$/.test(name));
  for (const name of ['binding.gyp', 'package.json', ...files.sort()]) {
    hash.update(`${name}\n`).update(fs.readFileSync(path.join(root, name)));
  }
  return hash.digest('hex');
}

function isBuilt() {
  if (!outputs.every((file) => fs.existsSync(file))) return false;
  if (!fs.existsSync(stampFile)) return false;
  return fs.readFileSync(stampFile, 'utf8') === hashSources();
}

// Many distributions and every tarball of Node carry the headers beside the
// executable. Using them makes the build work without a network.
function findHeaders() {
  if (process.env.npm_config_nodedir) return [];
  const prefix = path.dirname(path.dirname(fs.realpathSync(process.execPath)));
  const header = path.join(prefix, 'include', 'node', 'node_api.h');
  return fs.existsSync(header) ? [`--nodedir=${prefix}`] : [];
}

function build(clean) {
  const steps = clean ? ['clean'] : [];
  const hash = hashSources();
  fs.rmSync(stampFile, { force: true });
  const { status, error } = spawnSync(
    process.execPath,
    [
      process.env.npm_config_node_gyp,
      ...steps,
      'configure',
      'build',
      '--release',
      '--jobs=max',
      '--loglevel=warn',
      ...findHeaders(),
    ],
    { cwd: root, stdio: 'inherit' },
  );
  if (error) throw error;
  if (status !== 0) return 1;
  fs.writeFileSync(stampFile, hash);
  return 0;
}

function run(command, args) {
  const { status, error } = spawnSync(command, args, {
    cwd: root,
    stdio: 'inherit',
  });
  if (error) throw error;
  return status ?? 1;
}

function arePackagesInstalled() {
  try {
    require.resolve('node-addon-api');
    return true;
  } catch {
    return false;
  }
}

function main(args) {
  if (!arePackagesInstalled()) {
    return run(process.execPath, ['scripts/setup.js', 'build']);
  }
  // npm brings node-gyp and tells its scripts where it is.
  return process.env.npm_config_node_gyp
    ? build(args.includes('--clean'))
    : run('npm', ['run', 'build', '--', ...args]);
}

if (require.main === module) process.exitCode = main(process.argv.slice(2));

module.exports = { isBuilt };
