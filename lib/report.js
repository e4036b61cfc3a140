// SPDX-License-Identifier: Apache-2.0
'use strict';

// The text of doctor(): what fails first, so that it is not looked for.

const os = require('node:os');

const width = 80;

function mark({ ok, needed }) {
  if (ok) return 'ok  ';
  return needed ? 'FAIL' : 'weak';
}

// Commands stay whole, so that they can be copied.
function indent(label, text) {
  const words = text.match(/[^\s`]*`[^`]*`\S*|\S+/g) ?? [];
  const lines = [];
  let line = '';
  for (const word of words) {
    if (line !== '' && line.length + word.length + 11 > width) {
      lines.push(line);
      line = word;
    } else {
      line += line === '' ? word : ` ${word}`;
    }
  }
  lines.push(line);
  return lines.map((part, row) => `      ${row === 0 ? label : '   '} ${part}`);
}

function formatCheck(check, column) {
  // What came from outside may hold anything.
  const plain = (text) => text.replaceAll(/[\u0000-\u001f\u007f]+/g, ' ');
  return [
    `${mark(check)}  ${check.name.padEnd(column)}  ${plain(check.detail)}`,
    ...(check.cause ? indent('why', plain(check.cause)) : []),
    ...(check.fix ? indent('fix', plain(check.fix)) : []),
  ];
}

function formatReport({ ok, version, checks }) {
  const column = Math.max(...checks.map(({ name }) => name.length));
  const urgency = (check) => (check.ok ? 2 : check.needed ? 0 : 1);
  const sorted = [...checks].sort((a, b) => urgency(a) - urgency(b));
  const weak = checks.filter((check) => !check.ok && !check.needed).length;
  const verdict = ok
    ? `boxes work here${weak > 0 ? `, with ${weak} weakness${weak > 1 ? 'es' : ''}` : ''}`
    : 'boxes do not work here';
  return [
    `glovebox ${version}, ${os.type()} ${os.release()}: ${verdict}`,
    '',
    ...sorted.flatMap((check) => formatCheck(check, column)),
  ].join('\n');
}

module.exports = { formatReport };
