// SPDX-License-Identifier: Apache-2.0
'use strict';

// What the tests of archives share: files for them, and what is in a workspace.

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { open } = require('../helpers/harness.js');

let made = 0;

/** A path for a file of the host that is gone after test `t`. */
function hostFile(t, bytes) {
  const file = path.join(os.tmpdir(), `archive-${process.pid}-${made++}`);
  t.after(() => fs.rmSync(file, { recursive: true, force: true }));
  if (bytes) fs.writeFileSync(file, bytes);
  return file;
}

async function openWithFile(t) {
  const sandbox = await open(t);
  await sandbox.writeFile('old/kept.txt', 'kept');
  return sandbox;
}

/** Everything in the workspace: hidden names, modes and contents too. */
function contents({ workspace }) {
  const found = [];
  const look = (folder, prefix) => {
    for (const name of fs.readdirSync(folder, { encoding: 'buffer' })) {
      const file = Buffer.concat([folder, Buffer.from('/'), name]);
      const shown = prefix + name.toString('latin1');
      const stat = fs.lstatSync(file);
      const text = stat.isFile() ? fs.readFileSync(file, 'latin1') : '';
      found.push([shown, stat.mode, text]);
      if (stat.isDirectory()) look(file, `${shown}/`);
    }
  };
  look(Buffer.from(workspace), '');
  return found.sort(([a], [b]) => (a < b ? -1 : 1));
}

module.exports = { contents, hostFile, openWithFile };
