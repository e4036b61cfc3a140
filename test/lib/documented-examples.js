// SPDX-License-Identifier: Apache-2.0
'use strict';

const fs = require('node:fs');
const path = require('node:path');

const file = path.join(__dirname, '..', '..', 'index.d.ts');

/**
 * The examples of index.d.ts as `{name, code}`. They are TypeScript that is
 * JavaScript too.
 */
function readExamples() {
  const source = fs.readFileSync(file, 'utf8');
  // A comment with an example, up to the line that it belongs to.
  const commented =
    /@example\n\s*\* ```ts\n(.*?)\n\s*\* ```\n\s*\*\/\n\s*(.*?)\n/gs;
  return Array.from(source.matchAll(commented), ([, block, declaration]) => ({
    name: declaration.replace(/[<({].*/, '').trim(),
    code: block.replaceAll(/^\s*\* ?/gm, ''),
  }));
}

module.exports = { readExamples };
