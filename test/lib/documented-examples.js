// SPDX-License-Identifier: Apache-2.0
'use strict';

const fs = require('node:fs');
const path = require('node:path');

const root = path.join(__dirname, '..', '..');
const files = ['index.d.ts', 'e2b.d.ts'].map((name) => path.join(root, name));

/**
 * The examples of the typings as `{name, code}`. They are TypeScript that is
 * JavaScript too.
 */
function readExamples() {
  const source = files.map((file) => fs.readFileSync(file, 'utf8')).join('');
  // A comment with an example, up to the line that it belongs to.
  const commented =
    /@example\n\s*\* ```ts\n(.*?)\n\s*\* ```\n\s*\*\/\n\s*(.*?)\n/gs;
  return Array.from(source.matchAll(commented), ([, block, declaration]) => ({
    name: declaration.replace(/[<({].*/, '').trim(),
    code: block.replaceAll(/^\s*\* ?/gm, ''),
  }));
}

/** The pieces of JavaScript in the README, which are modules. */
function readReadmeExamples() {
  const text = fs.readFileSync(path.join(root, 'README.md'), 'utf8');
  return Array.from(text.matchAll(/^```js\n(.*?)^```$/gms), ([, code]) => code);
}

module.exports = { readExamples, readReadmeExamples };
