// SPDX-License-Identifier: Apache-2.0
'use strict';

// Makes tar archives byte by byte, wrong ones above all. It shares nothing with
// lib/archive, so that one error cannot hide in both.

const zlib = require('node:zlib');

const bytesOf = (text) =>
  Buffer.isBuffer(text) ? text : Buffer.from(text, 'utf8');

/**
 * One header. Every field can be given as text, which goes in as it is; `sum` is
 * made to fit unless it is given.
 */
function header({
  name = 'f',
  mode = '0000644\0',
  size = 0,
  mtime = '00000000000\0',
  type = '0',
  target = '',
  magic = 'ustar\x0000',
  prefix = '',
  sum,
} = {}) {
  const block = Buffer.alloc(512);
  const put = (value, at, most) => bytesOf(value).copy(block, at, 0, most);
  put(name, 0, 100);
  put(mode, 100, 8);
  put('0000000\0', 108, 8);
  put('0000000\0', 116, 8);
  put(
    typeof size === 'number' ? `${size.toString(8).padStart(11, '0')}\0` : size,
    124,
    12,
  );
  put(mtime, 136, 12);
  put('        ', 148, 8);
  put(type, 156, 1);
  put(target, 157, 100);
  put(magic, 257, 8);
  put(prefix, 345, 155);
  const total = block.reduce((all, byte) => all + byte, 0);
  put(sum ?? `${total.toString(8).padStart(6, '0')}\0 `, 148, 8);
  return block;
}

function padded(body) {
  return Buffer.concat([body, Buffer.alloc(-body.length & 511)]);
}

/** A member with its content; `size` may lie about that. */
function member({ body = '', size, ...fields } = {}) {
  const content = bytesOf(body);
  return Buffer.concat([
    header({ size: size ?? content.length, ...fields }),
    padded(content),
  ]);
}

/** A pax header with records as they are. */
function pax(records, fields) {
  return member({ name: 'pax', type: 'x', body: records, ...fields });
}

/** One record of a pax header, of the right length. */
function record(key, value) {
  const rest = Buffer.concat([
    Buffer.from(` ${key}=`),
    bytesOf(value),
    Buffer.from('\n'),
  ]);
  let size = rest.length + 1;
  while (String(size).length + rest.length !== size) size++;
  return Buffer.concat([Buffer.from(String(size)), rest]);
}

const end = Buffer.alloc(1024);

/** A whole archive, as gzip. */
function archive(...members) {
  return zlib.gzipSync(Buffer.concat([...members, end]), { level: 1 });
}

module.exports = { archive, end, header, member, padded, pax, record };
