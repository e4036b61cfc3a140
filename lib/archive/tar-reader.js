// SPDX-License-Identifier: Apache-2.0
'use strict';

// Reads tar archives and refuses what is not plainly right. A general reader
// takes what it can get from damaged and odd archives; where two readers take
// different things, a check with one says nothing of the other. This one has one
// meaning for each byte, or none (docs/decisions/0010).
//
// In: pieces of an archive, of any size. Out: pieces of the engine's form of a
// tree. Memory: one header, and the names of all members.

const { SandboxError } = require('../errors.js');
const { quoted } = require('../quoted.js');
const {
  maxFileBytes,
  maxMembers,
  maxNamesBytes,
  nameProblem,
  targetProblem,
} = require('./rules.js');
const { encodeHead } = require('./tree.js');

const blockBytes = 512;
// The paths of one member, and times that other programs put there.
const maxPaxBytes = 32 * 1024;
// Archives are padded to whole records, of 10 KiB mostly.
const maxTrailingBytes = 2 ** 20;

const typesByFlag = {
  0: 'file',
  '\0': 'file',
  1: 'link',
  2: 'symlink',
  5: 'folder',
  x: 'pax',
};

const refusedFlags = {
  3: 'a character device',
  4: 'a block device',
  6: 'a fifo',
  7: 'a contiguous file',
  g: 'a global pax header',
  K: 'a long target of GNU tar (make the archive with `tar --format=pax`)',
  L: 'a long name of GNU tar (make the archive with `tar --format=pax`)',
  M: 'a file continued from another volume',
  N: 'a list of long names of GNU tar',
  S: 'a sparse file',
  V: 'a volume label',
};

// What others write into pax headers and what means nothing here.
const ignoredKeys = new Set(
  'atime ctime gid gname uid uname comment'.split(' '),
);
// How the names of a pax header are written. Bytes are taken as they are, which
// is what both say where names are UTF-8.
const charsets = ['BINARY', 'ISO-IR 10646 2000 UTF-8'];
const ignoredPrefixes = ['SCHILY.', 'LIBARCHIVE.'];

function toText(name) {
  return Buffer.from(name, 'latin1').toString();
}

function showName(name) {
  return quoted(toText(name.slice(0, 200)));
}

/** Why the archive is refused: the rule, and the member that breaks it. */
function archiveError(rule, member) {
  const where = member === undefined ? '' : `member ${showName(member)}: `;
  return new SandboxError(`The archive is refused: ${where}${rule}`, {
    code: 'ERR_SANDBOX_ARCHIVE',
    member: member === undefined ? undefined : toText(member),
  });
}

/** The bytes of a field up to its first NUL, one character each. */
function textField(block, at, size) {
  const text = block.latin1Slice(at, at + size);
  const end = text.indexOf('\0');
  return end === -1 ? text : text.slice(0, end);
}

/** A number in octal, or undefined for anything else. */
function octalField(block, at, size) {
  const text = block.latin1Slice(at, at + size);
  return /^[0-7]+[\0 ]*$/.test(text) ? Number.parseInt(text, 8) : undefined;
}

function hasChecksum(block) {
  let sum = 8 * 0x20; // in the place of its own bytes
  for (let at = 0; at < blockBytes; at++) {
    if (at < 148 || at >= 156) sum += block[at];
  }
  const text = block.latin1Slice(148, 156);
  return /^ *[0-7]+[\0 ]*$/.test(text) && Number.parseInt(text, 8) === sum;
}

// What a signed number of 64 bits can say; no file system knows such years.
const maxTimeNs = 2n ** 63n - 1n;

/** Seconds, and digits after the point, as what the engine takes. */
function toNs(seconds, fraction = '') {
  const digits = BigInt(fraction.slice(0, 9).padEnd(9, '0'));
  const whole = BigInt(seconds) * 1_000_000_000n;
  const ns = `${seconds}`.startsWith('-') ? whole - digits : whole + digits;
  return ns > maxTimeNs ? maxTimeNs : ns < -maxTimeNs ? -maxTimeNs : ns;
}

const zeros = Buffer.alloc(blockBytes);

function isZero(bytes) {
  for (let at = 0; at < bytes.length; at += blockBytes) {
    const part = bytes.subarray(at, at + blockBytes);
    if (!part.equals(zeros.subarray(0, part.length))) return false;
  }
  return true;
}

class TarReader {
  /** What was read so far. */
  counts = { files: 0, folders: 0, links: 0, bytes: 0 };

  #maxBytes;
  #state = this.#readHeader;
  #rest = Buffer.alloc(0); // the begin of a block
  #left = 0; // bytes of what the state reads
  #padding = 0; // bytes that follow it
  #member; // whose bytes these are, for messages
  #pax; // keys and values for the next member
  #paxPieces = [];
  // Name → "file", "folder", "symlink", or "parent": a folder that no member
  // has named yet.
  #kinds = new Map();
  #namesBytes = 0;

  constructor({ maxBytes }) {
    this.#maxBytes = maxBytes;
  }

  /** The tree that comes of one more piece of the archive, in pieces. */
  read(piece) {
    const out = [];
    let bytes =
      this.#rest.length === 0 ? piece : Buffer.concat([this.#rest, piece]);
    while (bytes.length > 0) {
      const used = this.#state(bytes, out);
      if (used === 0) break;
      bytes = bytes.subarray(used);
    }
    // A copy: a few bytes must not hold a whole piece in memory.
    this.#rest = Buffer.from(bytes);
    return out;
  }

  /** The archive has no more pieces. */
  end() {
    if (this.#state !== this.#readTrailer || this.#rest.length > 0) {
      throw archiveError('it is cut off', this.#member);
    }
  }

  // ---- States: each takes what it can from the front, and says how much ----

  #readHeader(bytes, out) {
    if (bytes.length < blockBytes) return 0;
    const block = bytes.subarray(0, blockBytes);
    if (isZero(block)) {
      if (this.#pax) throw archiveError('it ends after a pax header');
      this.#member = undefined;
      this.#state = this.#readSecondEnd;
      return blockBytes;
    }
    const header = readHeader(block);
    this.#member = header.name;
    if (header.type === 'pax') this.#beginPax(header);
    else this.#beginMember(header, out);
    return blockBytes;
  }

  #readPax(bytes) {
    const part = bytes.subarray(0, this.#left);
    this.#paxPieces.push(part);
    this.#left -= part.length;
    if (this.#left === 0) {
      this.#pax = readPax(Buffer.concat(this.#paxPieces));
      this.#paxPieces = [];
      this.#endContent();
    }
    return part.length;
  }

  #readContent(bytes, out) {
    const part = bytes.subarray(0, this.#left);
    out.push(part);
    this.#left -= part.length;
    if (this.#left === 0) this.#endContent();
    return part.length;
  }

  #readPadding(bytes) {
    const part = bytes.subarray(0, this.#left);
    if (!isZero(part))
      throw archiveError('its padding is not zero', this.#member);
    this.#left -= part.length;
    if (this.#left === 0) this.#state = this.#readHeader;
    return part.length;
  }

  #readSecondEnd(bytes) {
    if (bytes.length < blockBytes) return 0;
    if (!isZero(bytes.subarray(0, blockBytes))) {
      throw archiveError('a single block of zeros is no end');
    }
    this.#left = maxTrailingBytes;
    this.#state = this.#readTrailer;
    return blockBytes;
  }

  #readTrailer(bytes) {
    this.#left -= bytes.length;
    if (this.#left < 0 || !isZero(bytes)) {
      throw archiveError('something follows its end');
    }
    return bytes.length;
  }

  #begin(state, size) {
    this.#left = size;
    this.#padding = -size & (blockBytes - 1);
    this.#state = size === 0 ? this.#readHeader : state;
  }

  #endContent() {
    this.#left = this.#padding;
    this.#state = this.#padding === 0 ? this.#readHeader : this.#readPadding;
  }

  // ---- Members -------------------------------------------------------------

  #beginPax({ size }) {
    if (this.#pax) throw archiveError('two pax headers are for one member');
    if (size === 0 || size > maxPaxBytes) {
      throw archiveError(
        `a pax header has ${size} bytes, not 1–${maxPaxBytes}`,
      );
    }
    this.#begin(this.#readPax, size);
  }

  #beginMember(header, out) {
    const member = { ...header, ...this.#takePax(header) };
    const { type } = member;
    this.#member = member.name;
    if (type !== 'file' && member.size !== 0) {
      throw archiveError(`it is a ${type} with a size`, member.name);
    }
    const name = this.#addName(member);
    if (name !== '') out.push(this.#encode(member, name));
    this.#begin(this.#readContent, member.size);
  }

  #takePax({ name, size }) {
    const pax = this.#pax ?? new Map();
    this.#pax = undefined;
    const taken = {};
    if (pax.has('path')) taken.name = pax.get('path');
    if (pax.has('linkpath')) taken.target = pax.get('linkpath');
    // A reader that knows no pax would go on at another place.
    if (pax.has('size') && pax.get('size') !== String(size)) {
      throw archiveError('its pax header has another size', name);
    }
    const time = /^(-?\d{1,12})(?:\.(\d+))?$/.exec(pax.get('mtime'));
    if (time) taken.mtimeNs = toNs(time[1], time[2]);
    return taken;
  }

  /**
   * The name without what says nothing, in its place among the others; "" for
   * what `tar -C folder .` calls the folder itself.
   */
  #addName({ name: written, type }) {
    let name = '';
    if (type !== 'folder' || !/^\.\/+$/.test(written)) {
      name = written.replace(/^(?:\.\/)+(?=[^/])/, '');
      if (type === 'folder') name = name.replace(/\/$/, '');
      const problem = nameProblem(name);
      if (problem) throw archiveError(problem, written);
    }
    // A copy: a part of another string keeps all of that in memory, here the
    // 32 KiB of a pax header, maybe.
    name = Buffer.from(name, 'latin1').latin1Slice();
    this.#addParents(name, written);
    const known = this.#kinds.get(name);
    if (known && !(known === 'parent' && type === 'folder')) {
      const rule =
        known === 'parent' ? 'other members lie below it' : 'it is there twice';
      throw archiveError(rule, written);
    }
    if (!known) this.#count(written);
    this.#namesBytes += name.length;
    if (this.#namesBytes > maxNamesBytes) {
      throw archiveError(
        `all names have more than ${maxNamesBytes} bytes`,
        written,
      );
    }
    this.#kinds.set(name, type === 'link' ? 'file' : type);
    return name;
  }

  #addParents(name, written) {
    for (
      let end = name.lastIndexOf('/');
      end !== -1;
      end = name.lastIndexOf('/', end - 1)
    ) {
      const parent = name.slice(0, end);
      const known = this.#kinds.get(parent);
      if (known === 'folder' || known === 'parent') return;
      if (known) {
        throw archiveError(
          `it lies below a ${known}, ${showName(parent)}`,
          written,
        );
      }
      this.#kinds.set(parent, 'parent');
      this.#count(written);
      if (end === 0) return;
    }
  }

  #count(written) {
    if (this.#kinds.size >= maxMembers) {
      throw archiveError(
        `there are more than ${maxMembers} files and folders`,
        written,
      );
    }
  }

  #encode(member, name) {
    const { type, mode, size, mtimeNs, target } = member;
    const { counts } = this;
    const head = { mode, size, mtimeNs, path: Buffer.from(name, 'latin1') };
    switch (type) {
      case 'file':
        counts.files++;
        counts.bytes += size;
        if (counts.bytes > this.#maxBytes) {
          throw archiveError(
            `its files have more than maxBytes, ${this.#maxBytes}`,
            member.name,
          );
        }
        return encodeHead({ ...head, type });
      case 'folder':
        counts.folders++;
        return encodeHead({ ...head, type });
      case 'symlink': {
        const problem = targetProblem(name, target);
        if (problem) throw archiveError(problem, member.name);
        counts.links++;
        break;
      }
      default: {
        // Its file comes before it, so nothing leads to what is not there.
        const plain = target.replace(/^(?:\.\/)+/, '');
        if (this.#kinds.get(plain) !== 'file' || plain === name) {
          throw archiveError(
            `it is a hard link to ${showName(target)}, which is no file before it`,
            member.name,
          );
        }
        counts.links++;
        const path = Buffer.from(plain, 'latin1');
        return encodeHead({ ...head, type, target: path });
      }
    }
    return encodeHead({ ...head, type, target: Buffer.from(target, 'latin1') });
  }
}

// ---- Headers ---------------------------------------------------------------

function readHeader(block) {
  const magic = block.latin1Slice(257, 265);
  const isGnu = magic === 'ustar  \0';
  if (!isGnu && magic !== 'ustar\x0000') {
    throw archiveError('a header is not of the ustar form');
  }
  if (!hasChecksum(block)) throw archiveError('a header has a wrong checksum');
  const prefix = textField(block, 345, 155);
  const short = textField(block, 0, 100);
  const name = prefix === '' || isGnu ? short : `${prefix}/${short}`;
  if (isGnu && !isZero(block.subarray(345))) {
    throw archiveError('its header has fields of GNU tar alone', name);
  }
  const flag = block.latin1Slice(156, 157);
  if (!Object.hasOwn(typesByFlag, flag)) {
    const kind = Object.hasOwn(refusedFlags, flag)
      ? refusedFlags[flag]
      : `of the unknown type ${JSON.stringify(flag)}`;
    throw archiveError(`it is ${kind}`, name);
  }
  // That was how folders were written before they had a type of their own. Some
  // readers hold to it whatever name a pax header gives, and take what is the
  // file's content for the next header.
  if (flag === '\0' && name.endsWith('/')) {
    throw archiveError('it is a file in the form of a folder', name);
  }
  const type = typesByFlag[flag];
  const mode = octalField(block, 100, 8);
  if (mode === undefined) throw archiveError('its mode is not octal', name);
  const size = octalField(block, 124, 12);
  if (size === undefined || size > maxFileBytes) {
    throw archiveError('its size is not octal', name);
  }
  return {
    name,
    type,
    mode,
    size,
    // Of no weight: a time that is not octal is none.
    mtimeNs: toNs(octalField(block, 136, 12) ?? 0),
    target: textField(block, 157, 100),
  };
}

/** Keys and values of a pax header: `"27 path=...\n"`, in a row. */
function readPax(body) {
  const text = body.toString('latin1');
  const records = new Map();
  for (let at = 0; at < text.length; ) {
    const [digits] = /^[1-9]\d{0,5}(?= )/.exec(text.slice(at, at + 7)) ?? [];
    const end = at + Number(digits);
    const record = text.slice(at, end);
    const [, key, value] =
      /^\d+ ([\x21-\x3c\x3e-\x7e]+)=(.*)\n$/s.exec(record) ?? [];
    if (!digits || end > text.length || key === undefined) {
      throw archiveError('a pax header has a record of a wrong length');
    }
    addRecord(records, key, value);
    at = end;
  }
  return records;
}

function addRecord(records, key, value) {
  if (records.has(key)) throw archiveError(`a pax header has two of ${key}`);
  if (['path', 'linkpath', 'size', 'mtime'].includes(key)) {
    if (value.includes('\0'))
      throw archiveError(`the ${key} of a pax header has a NUL`);
    records.set(key, value);
    return;
  }
  if (ignoredKeys.has(key)) return;
  if (key === 'hdrcharset' && charsets.includes(value)) return;
  if (ignoredPrefixes.some((prefix) => key.startsWith(prefix))) return;
  throw archiveError(`a pax header has the unknown key ${JSON.stringify(key)}`);
}

module.exports = { TarReader, archiveError };
