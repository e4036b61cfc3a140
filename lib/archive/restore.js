// SPDX-License-Identifier: Apache-2.0
'use strict';

// An archive into a workspace. It is read once, in pieces: what is checked and
// what is unpacked are the same bytes. The engine keeps it aside until the last
// of them was right.

const fs = require('node:fs');
const { createGunzip } = require('node:zlib');
const { SandboxError, toSandboxError } = require('../errors.js');
const { FileReadStream } = require('../file-streams.js');
const { uses } = require('../files.js');
const { workspacePath } = require('../workspace-path.js');
const { Batch } = require('./batch.js');
const { hostFileError, locate } = require('./host-file.js');
const { TarReader, archiveError } = require('./tar-reader.js');

const { O_RDONLY, O_NONBLOCK, O_NOCTTY } = fs.constants;

const pieceBytes = 2 ** 16;

/** A stream of the archive. One in the workspace is a box's, as all there is. */
async function openArchive(session, src) {
  const { inside, hostPath } = await locate(session.info.workspace, src);
  if (inside !== undefined) {
    return new FileReadStream(session, inside, workspacePath(inside), {
      start: 0,
      end: Number.POSITIVE_INFINITY,
      highWaterMark: pieceBytes,
    });
  }
  const handle = await fs.promises.open(
    hostPath,
    O_RDONLY | O_NONBLOCK | O_NOCTTY,
  );
  if (!(await handle.stat()).isFile()) {
    await handle.close();
    throw new SandboxError(`${JSON.stringify(src)} is no file`, {
      code: 'ERR_SANDBOX_NOT_REGULAR',
      option: 'src',
    });
  }
  return handle.createReadStream({ highWaterMark: pieceBytes });
}

// Not by pipeline(): of what the last part throws that tells only that the parts
// before it were aborted.
async function* decompress(archive) {
  const gunzip = createGunzip({ chunkSize: pieceBytes });
  archive.on('error', (error) => gunzip.destroy(error));
  // That event may have been: its file is opened while the engine's is.
  if (archive.errored) gunzip.destroy(archive.errored);
  else archive.pipe(gunzip);
  try {
    yield* gunzip;
  } finally {
    gunzip.destroy();
    archive.destroy();
  }
}

async function unpack(archive, file, options) {
  const reader = new TarReader(options);
  const batch = new Batch();
  // The engine writes one batch while the next is read.
  let written;
  const write = async () => {
    await written;
    written = file.write(batch.take());
    written.catch(() => {}); // It is told when the next one is, or at the end.
  };
  for await (const piece of decompress(archive)) {
    for (const part of reader.read(piece)) batch.add(part);
    if (batch.isFull) await write();
  }
  reader.end();
  await write();
  await written;
  return reader.counts;
}

// What zlib and the engine say of an archive.
function restoreError(error, src) {
  if (typeof error?.code === 'string' && error.code.startsWith('Z_')) {
    return archiveError(`it is no whole gzip file (${error.message})`);
  }
  return hostFileError(error, src);
}

async function restore(session, src, options) {
  let archive;
  let file;
  try {
    archive = await openArchive(session, src);
    // An error without a listener would end the whole program.
    archive.on('error', () => {});
    file = await session.openFile(uses.unpack, Buffer.alloc(0));
    const info = await unpack(archive, file, options);
    const whole = file;
    file = undefined;
    await whole.close(true);
    return info;
  } catch (error) {
    const call = `restore(${JSON.stringify(src)})`;
    throw toSandboxError(restoreError(error, src), call);
  } finally {
    archive?.destroy(); // It has not begun, maybe.
    await file?.close(false).catch(() => {});
  }
}

module.exports = { restore };
