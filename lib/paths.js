// SPDX-License-Identifier: Apache-2.0
'use strict';

const path = require('node:path');

// Where `npm run build` puts what it compiles: the addon, and beside it the
// launcher, which the addon starts.
const buildFolder = path.join(__dirname, '..', 'build', 'Release');

function addonPath(folder = buildFolder) {
  return path.join(folder, 'glovebox.node');
}

function launcherPath(folder = buildFolder) {
  return path.join(folder, 'launcher');
}

module.exports = { addonPath, buildFolder, launcherPath };
