// SPDX-License-Identifier: Apache-2.0
'use strict';

// The file methods of a Sandbox, on the engine's session. Every call is one job
// of the engine's, beneath the workspace; what takes more than one is a stream.

const { isUint8Array } = require('node:util/types');
const { throwIfAborted, watchAbort } = require('./abort.js');
const { invalidOption, toSandboxError } = require('./errors.js');
const { describe, isRecord } = require('./option-kinds.js');
const { maxOutputBytes: longestString, readOptions } = require('./options.js');
const {
  named,
  showPath,
  workspaceFolder,
  workspacePath,
} = require('./workspace-path.js');

// As in engine.h.
const types = [undefined, 'file', 'directory', 'symlink', 'other'];
const listAll = 1;
const listFlat = 2;
const changes = { mkdir: 1, rename: 2, remove: 3, removeTree: 4 };
const uses = { read: 1, write: 2, pack: 3, unpack: 4, watch: 5 };

const noPath = Buffer.alloc(0);

/** What `work` gives; what it rejects with names the call. */
async function attempt(call, path, work) {
  try {
    return await work;
  } catch (error) {
    throw toSandboxError(error, `${call}(${showPath(path)})`);
  }
}

// ---- Content ---------------------------------------------------------------

// The bytes themselves, not a copy: the engine copies before it returns.
function toBytes(data, encoding) {
  if (typeof data === 'string') return Buffer.from(data, encoding);
  if (isUint8Array(data)) {
    return Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  }
  return undefined;
}

function isStream(data) {
  return typeof data?.[Symbol.asyncIterator] === 'function';
}

/**
 * The pieces of a source, as `for await` takes them. Once `signal` is aborted it
 * throws the reason: a source that never yields again is not waited for.
 */
async function* piecesUntil(signal, source) {
  const iterator = source[Symbol.asyncIterator]();
  let isAtPiece = false;
  try {
    for (;;) {
      const { value, done } = await nextUntil(signal, iterator);
      if (done) return;
      isAtPiece = true;
      yield value;
      isAtPiece = false;
    }
  } finally {
    if (signal.aborted) leave(iterator, source);
    else if (isAtPiece) await iterator.return?.();
  }
}

function nextUntil(signal, iterator) {
  return new Promise((resolve, reject) => {
    throwIfAborted(signal);
    const forget = watchAbort(signal, reject);
    // Also where next() throws.
    const next = (async () => iterator.next())();
    next.finally(forget).then(resolve, reject);
  });
}

// A generator does not return while it waits for its next piece.
function leave(iterator, source) {
  source.destroy?.();
  const returned = (async () => iterator.return?.())();
  returned.catch(() => {}); // What it says of that is of no use any more.
}

/** `closed` is aborted when the sandbox closes. */
async function writeFile(session, path, data, options, closed) {
  const target = workspacePath(path);
  const { encoding } = readOptions(
    'sandbox.writeFile()',
    typeof options === 'string' ? { encoding: options } : options,
  );
  const bytes = toBytes(data, encoding);
  if (bytes) {
    await attempt('writeFile', path, session.writeFile(target, bytes));
    return;
  }
  if (!isStream(data)) {
    throw invalidOption(
      'data',
      'a string, bytes, or a stream of them',
      describe(data),
    );
  }
  const opened = session.openFile(uses.write, target);
  const file = await attempt('writeFile', path, opened);
  try {
    for await (const piece of piecesUntil(closed, data)) {
      const part = toBytes(piece, encoding);
      if (!part) {
        throw invalidOption('data', 'pieces of text or bytes', describe(piece));
      }
      await attempt('writeFile', path, file.write(part));
    }
  } catch (error) {
    // Nothing is left of it; what ended it says more than that.
    await file.close(false).catch(() => {});
    throw error;
  }
  await attempt('writeFile', path, file.close(true));
}

async function readFile(session, path, options) {
  const source = workspacePath(path);
  const { maxBytes, encoding } = readOptions(
    'sandbox.readFile()',
    typeof options === 'string' ? { encoding: options } : options,
  );
  // A text longer than a string can be is refused by its size, as any file
  // that is too large.
  const limit = encoding ? Math.min(maxBytes, longestString) : maxBytes;
  const bytes = await attempt(
    'readFile',
    path,
    session.readFile(source, limit),
  );
  return encoding ? bytes.toString(encoding) : bytes;
}

// ---- Names -----------------------------------------------------------------

async function listFiles(session, folder, options) {
  // listFiles(options), as the folder can be left out.
  if (isRecord(folder)) {
    return listFiles(session, undefined, folder);
  }
  const below = workspaceFolder(folder);
  const { all, recursive } = readOptions('sandbox.listFiles()', options);
  const flags = (all ? listAll : 0) | (recursive ? 0 : listFlat);
  const listing = session.listFiles(below, flags);
  const files = await attempt('listFiles', folder ?? '', listing);
  return files.map(({ path, size, mtimeMs, type }) =>
    named(path, { size, mtimeMs, ...(all && { type: types[type] }) }),
  );
}

async function stat(session, path) {
  const asked = session.stat(workspacePath(path));
  const [{ type, size, mtimeMs, mode }] = await attempt('stat', path, asked);
  return { type: types[type], size, mtimeMs, mode };
}

async function exists(session, path) {
  try {
    await attempt('exists', path, session.stat(workspacePath(path)));
    return true;
  } catch (error) {
    if (error.code === 'ERR_SANDBOX_NOT_FOUND') return false;
    throw error;
  }
}

async function mkdir(session, path) {
  const target = workspacePath(path);
  const made = session.changePath(changes.mkdir, target, noPath);
  await attempt('mkdir', path, made);
}

async function rename(session, from, to) {
  const source = workspacePath(from, 'from');
  const target = workspacePath(to, 'to');
  const renamed = session.changePath(changes.rename, source, target);
  await attempt('rename', from, renamed);
}

async function rm(session, path, options) {
  const target = workspacePath(path);
  const { recursive, force } = readOptions('sandbox.rm()', options);
  const change = recursive ? changes.removeTree : changes.remove;
  try {
    const removed = session.changePath(change, target, noPath);
    await attempt('rm', path, removed);
  } catch (error) {
    if (!force || error.code !== 'ERR_SANDBOX_NOT_FOUND') throw error;
  }
}

// ---- Changes as they come --------------------------------------------------

const watchLost = 4;
const changeNames = [undefined, 'created', 'modified', 'deleted'];

/** What changes below a folder. Made by `sandbox.watch()`. */
class Watcher {
  #file;
  #changes = noChanges(); // of the last read
  #ended = false;
  #turn = Promise.resolve(); // of the last next()

  constructor(file) {
    this.#file = file;
  }

  // One after the other, as those of a generator: whoever raced one against a
  // clock calls it again while it still waits.
  next() {
    const change = this.#turn.then(() => this.#take());
    this.#turn = change.catch(() => {}); // It is the caller's.
    return change;
  }

  async #take() {
    for (;;) {
      const next = this.#changes.next();
      if (!next.done || this.#ended) return next;
      await this.#read();
    }
  }

  async return() {
    await this.close();
    return { value: undefined, done: true };
  }

  async close() {
    this.#ended = true;
    this.#changes = noChanges();
    await this.#file.close(false).catch(() => {}); // It is closed already.
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  [Symbol.asyncDispose]() {
    return this.close();
  }

  async #read() {
    let bytes;
    try {
      bytes = await this.#file.read(0, 0);
    } catch (error) {
      // Closed, with the sandbox or by itself: that is how a watch ends.
      if (error.code !== 'CLOSED') throw toSandboxError(error, 'watch');
      this.#ended = true;
      return;
    }
    if (bytes.length === 0) await this.close(); // The folder is gone.
    if (!this.#ended) this.#changes = readChanges(bytes);
  }
}

function noChanges() {
  return [].values();
}

// One at a time, as they are taken: there may be some hundred thousand.
function* readChanges(bytes) {
  for (let at = 0; at < bytes.length; ) {
    const [change, type] = bytes.subarray(at, at + 2);
    const end = bytes.indexOf(0, at + 2);
    const path = bytes.subarray(at + 2, end);
    at = end + 1;
    if (change === watchLost) {
      yield { change: 'lost', path: '', type: 'directory' };
    } else {
      const kind = types[type];
      yield named(path, {
        change: changeNames[change],
        type: kind === 'directory' ? kind : 'file',
      });
    }
  }
}

async function watch(session, folder) {
  const below = workspaceFolder(folder);
  const opened = session.openFile(uses.watch, below);
  return new Watcher(await attempt('watch', folder ?? '', opened));
}

module.exports = {
  exists,
  listFiles,
  mkdir,
  readFile,
  rename,
  rm,
  stat,
  uses,
  watch,
  writeFile,
};
