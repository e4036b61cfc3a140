// SPDX-License-Identifier: Apache-2.0
'use strict';

// Text of others in messages. Code in a box chooses the names of its files, and
// a message ends in a terminal or a log: nothing in it may move a cursor, begin
// a line, or turn the direction of what follows.

const controls =
  /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** `text` with escapes in the place of control characters. */
function escaped(text) {
  return text.replace(
    controls,
    (character) =>
      `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** `text` in quotes, which end where they seem to. */
function quoted(text) {
  return escaped(JSON.stringify(text));
}

module.exports = { escaped, quoted };
