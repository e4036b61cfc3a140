// SPDX-License-Identifier: Apache-2.0
'use strict';

// What programs of tests that are written in C are compiled with: flags, and
// what the first comment of each names: `sources: ... libs: ...`.

const fs = require('node:fs');
const path = require('node:path');

const root = path.join(__dirname, '..', '..');

const compilerFlags = [
  '-std=gnu17',
  '-D_GNU_SOURCE',
  '-Wall',
  '-Wextra',
  '-Wshadow',
  '-Werror',
  '-g',
  // The interpreter of the filter runs millions of instructions.
  '-O1',
  '-Isrc',
];

const words = (list = '') =>
  list.split(/\s+/).filter((word) => word !== '' && word !== '*');

/** The sources that go with `file`, itself first, and the libraries. */
function readSources(file) {
  const text = fs.readFileSync(path.join(root, file), 'utf8');
  const match = /\/\*\s*sources:(.*?)(?:\blibs:(.*?))?\*\//s.exec(text);
  if (!match)
    throw new Error(`${file} has no comment "sources: ... libs: ..."`);
  return [file, ...words(match[1]), ...words(match[2])];
}

module.exports = { compilerFlags, readSources, root };
