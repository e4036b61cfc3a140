// SPDX-License-Identifier: Apache-2.0
'use strict';

// A reporter for `node --test`: only what failed, and why. scripts/test.js
// prints it once more when all passes are over, where nobody has to look for
// it among the lines of those that passed.

const { inspect } = require('node:util');

module.exports = async function* reportFailures(events) {
  for await (const { type, data } of events) {
    if (type === 'test:fail' && !isOfItsTests(data)) yield describe(data);
  }
};

// A file or suite that fails because a test in it did says nothing new.
function isOfItsTests({ details }) {
  return details.error?.failureType === 'subtestsFailed';
}

function describe({ name, file, line, details }) {
  const { error } = details;
  const text = inspect(error?.cause ?? error, { depth: 4 });
  const seconds = (details.duration_ms / 1000).toFixed(1);
  const indented = text.replaceAll('\n', '\n    ');
  return `✖ ${name} (${file ?? '?'}:${line ?? '?'}, ${seconds} s)\n    ${indented}\n`;
}
