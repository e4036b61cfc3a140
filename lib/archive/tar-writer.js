// SPDX-License-Identifier: Apache-2.0
'use strict';

// Headers of tar archives: ustar, with a pax header before a member whose name
// or target is longer than its field. Names go in as the bytes that they are.

const blockBytes = 512;
const fieldBytes = 100;

const flags = { file: '0', link: '1', symlink: '2', folder: '5', pax: 'x' };

// Whoever unpacks it as root gets files of nobody in particular: ids of the
// host say nothing on another one. In a box the user has these.
const owner = { id: 1000, name: 'user' };

// Seconds that 11 octal digits can say.
const maxSeconds = 8 ** 11 - 1;

function writeOctal(block, at, size, number) {
  block.write(
    `${number.toString(8).padStart(size - 1, '0')}\0`,
    at,
    size,
    'latin1',
  );
}

function block({ flag, name, target, mode, size, seconds }) {
  const header = Buffer.alloc(blockBytes);
  name.copy(header, 0, 0, fieldBytes);
  writeOctal(header, 100, 8, mode & 0o777);
  writeOctal(header, 108, 8, owner.id);
  writeOctal(header, 116, 8, owner.id);
  writeOctal(header, 124, 12, size);
  writeOctal(header, 136, 12, seconds);
  header.write(' '.repeat(8), 148, 'latin1');
  header.write(flag, 156, 'latin1');
  target.copy(header, 157, 0, fieldBytes);
  header.write('ustar\x0000', 257, 'latin1');
  header.write(owner.name, 265, 'latin1');
  header.write(owner.name, 297, 'latin1');
  let sum = 0;
  for (const byte of header) sum += byte;
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return header;
}

/** "27 path=...\n": the number counts itself. */
function paxRecord(key, value) {
  const rest = key.length + value.length + 3; // " ", "=", "\n"
  let size = rest + String(rest).length;
  size = rest + String(size).length;
  return Buffer.concat([
    Buffer.from(`${size} ${key}=`),
    value,
    Buffer.from('\n'),
  ]);
}

const zeros = Buffer.alloc(blockBytes);

function padding(size) {
  return zeros.subarray(0, -size & (blockBytes - 1));
}

/** The header of a member, with all that goes before it. */
function tarHeader({ type, path, target, mode, size, mtimeNs }) {
  const name =
    type === 'folder' ? Buffer.concat([path, Buffer.from('/')]) : path;
  const seconds = Math.min(
    Math.max(Number(mtimeNs / 1_000_000_000n), 0),
    maxSeconds,
  );
  const member = block({
    flag: flags[type],
    name,
    target,
    mode,
    size: type === 'file' ? size : 0,
    seconds,
  });
  const records = [];
  if (name.length > fieldBytes) records.push(paxRecord('path', name));
  if (target.length > fieldBytes) records.push(paxRecord('linkpath', target));
  if (records.length === 0) return member;
  const body = Buffer.concat(records);
  const pax = block({
    flag: flags.pax,
    name: Buffer.from('PaxHeaders/member'),
    target: Buffer.alloc(0),
    mode: 0o644,
    size: body.length,
    seconds,
  });
  return Buffer.concat([pax, body, padding(body.length), member]);
}

/** The end of an archive. */
const tarEnd = Buffer.alloc(2 * blockBytes);

module.exports = { padding, tarEnd, tarHeader };
