// SPDX-License-Identifier: Apache-2.0
'use strict';

const path = require('node:path');

// Where `npm run build` puts what it compiles: the addon, and beside it the
// launcher, which the addon starts, and a library for interpreters in boxes.
const buildFolder = path.join(__dirname, '..', 'build', 'Release');

function addonPath(folder = buildFolder) {
  return path.join(folder, 'glovebox.node');
}

function launcherPath(folder = buildFolder) {
  return path.join(folder, 'launcher');
}

/** What an interpreter that waits for its call loads, in its box. */
function joinPath(folder = buildFolder) {
  return path.join(folder, 'join.so');
}

module.exports = { addonPath, buildFolder, joinPath, launcherPath };
