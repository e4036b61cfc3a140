// SPDX-License-Identifier: Apache-2.0
'use strict';

// The engine's form of a tree (struct gbx_tree_head in engine.h): heads with
// their paths, and after that of a file its bytes.

const headBytes = 40;
const types = { file: 1, folder: 2, symlink: 3, other: 4, link: 5 };

function encodeHead({ type, mode, path, target, size, mtimeNs }) {
  const targetBytes = target ?? Buffer.alloc(0);
  const head = Buffer.alloc(headBytes);
  head.writeUInt32LE(types[type], 0);
  head.writeUInt32LE(mode, 4);
  head.writeUInt32LE(path.length, 8);
  head.writeUInt32LE(targetBytes.length, 12);
  head.writeBigUInt64LE(BigInt(size), 16);
  head.writeBigInt64LE(mtimeNs, 24);
  return Buffer.concat([head, path, targetBytes]);
}

/** Reads a tree that comes in pieces. No head is split between two. */
class TreeReader {
  #left = 0; // bytes of the file that the next piece begins with

  /**
   * What a piece holds: `{head}` for each entry, and `{data}` for each part of
   * the bytes of the file before.
   */
  *read(piece) {
    for (let at = 0; at < piece.length; ) {
      if (this.#left > 0) {
        const data = piece.subarray(at, at + this.#left);
        at += data.length;
        this.#left -= data.length;
        yield { data };
        continue;
      }
      const head = decodeHead(piece, at);
      at += headBytes + head.path.length + head.target.length;
      if (head.type === types.file) this.#left = head.size;
      yield { head };
    }
  }
}

function decodeHead(bytes, at) {
  const pathEnd = at + headBytes + bytes.readUInt32LE(at + 8);
  const targetEnd = pathEnd + bytes.readUInt32LE(at + 12);
  return {
    type: bytes.readUInt32LE(at),
    mode: bytes.readUInt32LE(at + 4),
    size: Number(bytes.readBigUInt64LE(at + 16)),
    mtimeNs: bytes.readBigInt64LE(at + 24),
    link: bytes.readBigUInt64LE(at + 32),
    path: bytes.subarray(at + headBytes, pathEnd),
    target: bytes.subarray(pathEnd, targetEnd),
  };
}

module.exports = { TreeReader, encodeHead, types };
