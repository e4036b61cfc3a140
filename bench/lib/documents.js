// SPDX-License-Identifier: Apache-2.0
'use strict';

// What the bench writes into documents: between a pair of comments, and nothing
// else of them.

const fs = require('node:fs');

/** `text` with `body` between the comments `bench:NAME` and `/bench:NAME`. */
function replaceSection(text, name, body) {
  const begin = `<!-- bench:${name} -->`;
  const end = `<!-- /bench:${name} -->`;
  const from = text.indexOf(begin);
  const to = text.indexOf(end);
  if (from < 0 || to < from) {
    throw new Error(`there is no pair of comments ${begin} and ${end}`);
  }
  return `${text.slice(0, from + begin.length)}\n\n${body.trim()}\n\n${text.slice(to)}`;
}

/** `sections` maps a name to its Markdown. */
function writeSections(file, sections) {
  let text = fs.readFileSync(file, 'utf8');
  for (const [name, body] of Object.entries(sections)) {
    text = replaceSection(text, name, body);
  }
  fs.writeFileSync(file, text);
}

module.exports = { replaceSection, writeSections };
