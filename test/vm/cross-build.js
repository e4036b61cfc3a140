// SPDX-License-Identifier: Apache-2.0
'use strict';

// Compiles the addon, the launcher, join.so and the tests in C on this host for a
// test machine of another architecture, where a compiler would take hours.

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { compileUnit, sanitizerFlags, unitFiles } = require('../c/units.js');
const { architectures } = require('./architectures.js');

const root = path.join(__dirname, '..', '..');

// All that binding.gyp reads. Copied, not linked: gyp would put files where a link
// leads.
const sources = [
  ...['binding.gyp', 'package.json', 'scripts', 'src'],
  'node_modules/node-addon-api',
];

/**
 * Builds in `folder`, which it makes; the result is in its build/Release, the
 * tests in C in its build/c-units. `image` is the cache's folder of the machine,
 * with its headers and libraries.
 */
async function crossBuild(name, folder, image) {
  const { triplet } = architectures[name];
  fs.mkdirSync(folder);
  for (const source of sources) {
    fs.cpSync(path.join(root, source), path.join(folder, source), {
      recursive: true,
    });
  }
  const sysroot = `--sysroot=${path.join(image, 'sysroot')}`;
  const { status, error, stdout, stderr } = spawnSync(
    process.execPath,
    [
      process.env.npm_config_node_gyp,
      ...['configure', 'build', '--release', '--jobs=max', '--loglevel=warn'],
      `--arch=${name}`,
      `--nodedir=${path.join(image, 'node')}`,
    ],
    {
      cwd: folder,
      encoding: 'utf8',
      env: {
        ...process.env,
        GLOVEBOX_WERROR: '1',
        CC: `${triplet}-gcc ${sysroot}`,
        CXX: `${triplet}-g++ ${sysroot}`,
        AR: `${triplet}-ar`,
        LINK: `${triplet}-g++ ${sysroot}`,
      },
    },
  );
  if (error) throw error;
  if (status !== 0) throw new Error(`${stdout}\n${stderr}`);

  const units = path.join(folder, 'build', 'c-units');
  fs.mkdirSync(units);
  const command = [`${triplet}-gcc`, sysroot, ...sanitizerFlags];
  for (const file of unitFiles) await compileUnit(file, units, command);
}

module.exports = { crossBuild };
