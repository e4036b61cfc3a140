// SPDX-License-Identifier: Apache-2.0
'use strict';

// A reporter for node:test that writes a line of JSON for each test that ended,
// with its diagnostic messages.

const { inspect } = require('node:util');

// What the test threw, without node:test's wrapping.
function describe(error) {
  const cause = error?.cause ?? error;
  return cause instanceof Error ? inspect(cause) : String(cause);
}

function toReport(isPass, data) {
  return {
    type: 'test',
    name: data.name,
    nesting: data.nesting,
    durationMs: data.details.duration_ms,
    ok: isPass,
    // A reason, or "" where none was given.
    skip: data.skip === '' ? true : data.skip,
    error: isPass ? undefined : describe(data.details.error),
    notes: [],
  };
}

module.exports = async function* reportAsLines(source) {
  // The messages of a test come after it.
  let report;
  for await (const { type, data } of source) {
    if (type === 'test:diagnostic') {
      report?.notes.push(data.message);
      continue;
    }
    if (report) yield `${JSON.stringify(report)}\n`;
    const isEnd = type === 'test:pass' || type === 'test:fail';
    report = isEnd ? toReport(type === 'test:pass', data) : undefined;
  }
  if (report) yield `${JSON.stringify(report)}\n`;
};
