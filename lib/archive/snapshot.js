// SPDX-License-Identifier: Apache-2.0
'use strict';

// A workspace into a file of the host: the engine's tree, as tar, as gzip, piece
// by piece. The archive gets its name when it is whole.

const { randomBytes } = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const { pipeline } = require('node:stream/promises');
const { constants, createGzip } = require('node:zlib');
const { SandboxError, toSandboxError } = require('../errors.js');
const { quoted } = require('../quoted.js');
const { uses } = require('../files.js');
const { named } = require('../workspace-path.js');
const { hostFileError, locate } = require('./host-file.js');
const {
  maxFileBytes,
  maxMembers,
  maxNamesBytes,
  nameProblem,
  targetProblem,
} = require('./rules.js');
const { padding, tarEnd, tarHeader } = require('./tar-writer.js');
const { Batch } = require('./batch.js');
const { TreeReader, types } = require('./tree.js');

// What this thread does at a time: thousands of small files.
const pieceBytes = 2 ** 16;
// What else there is in a workspace has no name in an archive.
const typeNames = { [types.file]: 'file', [types.folder]: 'folder' };

// The engine reads the next one while this one is written.
async function* readPieces(file) {
  let next = file.read(0, pieceBytes);
  for (;;) {
    const piece = await next;
    if (piece.length === 0) return;
    next = file.read(0, pieceBytes);
    next.catch(() => {}); // It is told when its turn comes, if it does.
    yield piece;
  }
}

const { S_IFMT, S_IFIFO, S_IFCHR, S_IFBLK, S_IFSOCK } = fs.constants;
const kindsByMode = new Map([
  [S_IFIFO, 'a fifo'],
  [S_IFCHR, 'a device'],
  [S_IFBLK, 'a device'],
  [S_IFSOCK, 'a socket'],
]);

/** Why an entry is not in the archive; undefined if it is. */
function skipReason({ type, mode }, name, target) {
  if (type === types.other) {
    return kindsByMode.get(mode & S_IFMT) ?? 'something mounted there';
  }
  const problem =
    nameProblem(name) ??
    (type === types.symlink ? targetProblem(name, target) : undefined);
  return problem?.replace(/^it is /, '');
}

class Writer {
  info = { files: 0, folders: 0, links: 0, bytes: 0, skipped: [] };

  #maxBytes;
  #names = new Map(); // of files with several names, the first, by inode
  #skippedFolder; // with "/" at its end
  #members = 0; // those that are left out and told of, too
  #namesBytes = 0;
  #isSkipping = false; // the bytes of a file that is left out
  #size = 0; // of the file that is being written
  #left = 0; // what is still to come of it

  constructor({ maxBytes }) {
    this.#maxBytes = maxBytes;
  }

  /** The archive, in pieces, of a tree in pieces. */
  async *write(pieces) {
    const tree = new TreeReader();
    const batch = new Batch();
    for await (const piece of pieces) {
      for (const entry of tree.read(piece)) this.#add(entry, batch);
      if (batch.isFull) yield batch.take();
    }
    batch.add(tarEnd);
    yield batch.take();
  }

  #add({ head, data }, batch) {
    if (data) {
      if (this.#isSkipping) return;
      batch.add(data);
      this.#left -= data.length;
      if (this.#left === 0) batch.add(padding(this.#size));
      return;
    }
    const member = this.#toMember(head);
    // Bytes that another name of the file brought already, too.
    this.#isSkipping = member?.type !== 'file';
    if (!member) return;
    this.#size = this.#left = member.type === 'file' ? member.size : 0;
    batch.add(tarHeader(member));
  }

  #toMember(head) {
    const { info } = this;
    const name = head.path.latin1Slice();
    if (this.#skippedFolder && name.startsWith(this.#skippedFolder)) {
      return undefined;
    }
    this.#countName(head.path);
    const reason = skipReason(head, name, head.target.latin1Slice());
    if (reason) {
      if (head.type === types.folder) this.#skippedFolder = `${name}/`;
      info.skipped.push(named(Buffer.from(head.path), { reason }));
      return undefined;
    }
    const first = head.link === 0n ? undefined : this.#names.get(head.link);
    if (first) {
      info.links++;
      return { ...head, type: 'link', target: first };
    }
    if (head.link !== 0n) this.#names.set(head.link, Buffer.from(head.path));
    if (head.type === types.symlink) {
      info.links++;
      return { ...head, type: 'symlink' };
    }
    if (head.type === types.folder) info.folders++;
    else this.#countFile(head);
    return { ...head, type: typeNames[head.type] };
  }

  #countName(filePath) {
    if (++this.#members > maxMembers) {
      throw tooLarge(`more than ${maxMembers} files and folders`, filePath);
    }
    this.#namesBytes += filePath.length;
    if (this.#namesBytes > maxNamesBytes) {
      throw tooLarge(`more than ${maxNamesBytes} bytes of names`, filePath);
    }
  }

  #countFile({ path: filePath, size }) {
    this.info.files++;
    this.info.bytes += size;
    if (size > maxFileBytes) {
      throw tooLarge(
        `a file of more than ${maxFileBytes} bytes, which is the most that an archive can hold`,
        filePath,
      );
    }
    if (this.info.bytes > this.#maxBytes) {
      throw tooLarge(`more than maxBytes, ${this.#maxBytes}`, filePath);
    }
  }
}

function tooLarge(what, filePath) {
  return new SandboxError(
    `The workspace has ${what}: at ${quoted(filePath.toString())}`,
    { code: 'ERR_SANDBOX_TOO_LARGE', member: filePath.toString() },
  );
}

/** Where the archive may go. Throws for what it would harm. */
async function checkDestination(workspace, dest) {
  const { inside, hostPath } = await locate(workspace, path.dirname(dest));
  // Code in a box could put a link there, and the next archive would hold this.
  if (inside !== undefined) {
    throw new SandboxError(
      `${JSON.stringify(dest)} lies in the workspace, or its way leads through that: name a file elsewhere`,
      { code: 'ERR_SANDBOX_PATH', option: 'dest' },
    );
  }
  const known = await fs.promises.lstat(dest).catch(() => undefined);
  if (known && !known.isFile() && !known.isSymbolicLink()) {
    throw new SandboxError(
      `${JSON.stringify(dest)} is there already and is no file`,
      { code: 'ERR_SANDBOX_EXISTS', option: 'dest' },
    );
  }
  return path.join(hostPath, path.basename(dest));
}

async function snapshot(session, dest, options) {
  const call = `snapshot(${JSON.stringify(dest)})`;
  let temporary;
  let file;
  try {
    const target = await checkDestination(session.info.workspace, dest);
    const name = `.glovebox-${randomBytes(8).toString('hex')}.tmp`;
    const beside = path.join(path.dirname(target), name);
    const output = await fs.promises.open(beside, 'wx', 0o666);
    temporary = beside;
    const stream = output.createWriteStream();
    const writer = new Writer(options);
    try {
      file = await session.openFile(uses.pack, Buffer.alloc(0));
      await pipeline(
        writer.write(readPieces(file)),
        // A checkpoint is made more often than it is kept.
        createGzip({ level: constants.Z_BEST_SPEED, chunkSize: 2 ** 16 }),
        stream,
      );
    } finally {
      stream.destroy();
      await output.close().catch(() => {}); // The stream did that, mostly.
    }
    await fs.promises.rename(temporary, target);
    temporary = undefined;
    return writer.info;
  } catch (error) {
    // The first error is what the caller has to know of.
    if (temporary) await fs.promises.rm(temporary).catch(() => {});
    throw toSandboxError(hostFileError(error, dest), call);
  } finally {
    await file?.close(false).catch(() => {}); // With the sandbox it is closed.
  }
}

module.exports = { snapshot };
