// SPDX-License-Identifier: Apache-2.0
'use strict';

const { invalidOption } = require('./errors.js');
const {
  describe,
  isPlainString,
  maxStringBytes,
} = require('./option-kinds.js');

/**
 * A checked copy of `argv`. It is never joined into a line for a shell, so
 * nothing in it needs quoting.
 */
function checkArgv(argv) {
  const expected = 'an array of strings with the program first';
  if (!Array.isArray(argv)) {
    // The most common slip deserves its own words.
    const hint =
      typeof argv === 'string'
        ? ': for a line of shell say ["bash", "-c", line]'
        : '';
    throw invalidOption('argv', expected, describe(argv) + hint);
  }
  if (argv.length === 0)
    throw invalidOption('argv', expected, 'an empty array');
  const copy = [];
  for (let index = 0; index < argv.length; index += 1) {
    const argument = argv[index];
    checkArgument(argument, index);
    copy.push(argument);
  }
  if (copy[0] === '') {
    throw invalidOption('argv[0]', 'the name of a program', describe(copy[0]));
  }
  return copy;
}

function checkArgument(argument, index) {
  if (!isPlainString(argument)) {
    throw invalidOption(
      `argv[${index}]`,
      'a string without NUL or unpaired surrogate',
      describe(argument),
    );
  }
  // No character takes more than three bytes for each unit of its length.
  if (argument.length * 3 <= maxStringBytes) return;
  const bytes = Buffer.byteLength(argument);
  if (bytes > maxStringBytes) {
    throw invalidOption(
      `argv[${index}]`,
      `at most ${maxStringBytes} bytes (Linux takes no more)`,
      `${bytes} bytes`,
    );
  }
}

module.exports = { checkArgv };
