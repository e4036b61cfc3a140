// SPDX-License-Identifier: Apache-2.0
'use strict';

// binding.gyp asks for the sources of its targets:
//   node scripts/sources.js .c src/engine src/common
// prints one path a line, sorted, so that a build does not depend on the order
// in which a filesystem lists its files.

const fs = require('node:fs');

const [suffix, ...folders] = process.argv.slice(2);
for (const folder of folders) {
  const names = fs.readdirSync(folder).filter((name) => name.endsWith(suffix));
  for (const name of names.sort()) console.log(`${folder}/${name}`);
}
