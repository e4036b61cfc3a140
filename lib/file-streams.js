// SPDX-License-Identifier: Apache-2.0
'use strict';

// Streams of one file in the workspace, as node:fs has them. The engine holds
// the file open; each piece is one call of its own, so memory stays at what the
// streams buffer.

const { Readable, Writable } = require('node:stream');
const { toSandboxError } = require('./errors.js');
const { uses } = require('./files.js');
const { showPath } = require('./workspace-path.js');

class FileReadStream extends Readable {
  #open;
  #file;
  #call;
  #position;
  #end;

  constructor(session, path, bytes, { start, end, ...options }) {
    super(options);
    this.#open = () => session.openFile(uses.read, bytes);
    this.#call = `createReadStream(${showPath(path)})`;
    this.#position = start;
    this.#end = end;
  }

  _construct(callback) {
    this.#open().then(
      (file) => {
        this.#file = file;
        callback();
      },
      (error) => callback(toSandboxError(error, this.#call)),
    );
  }

  _read(size) {
    const wanted = Math.min(size, this.#end + 1 - this.#position);
    if (wanted <= 0) {
      this.push(null);
      return;
    }
    this.#file.read(this.#position, wanted).then(
      (bytes) => {
        this.#position += bytes.length;
        this.push(bytes.length === 0 ? null : bytes);
      },
      (error) => this.destroy(toSandboxError(error, this.#call)),
    );
  }

  _destroy(error, callback) {
    if (!this.#file) {
      callback(error);
      return;
    }
    this.#file.close(false).then(
      () => callback(error),
      () => callback(error), // With the sandbox it was closed already.
    );
  }
}

class FileWriteStream extends Writable {
  #open;
  #file;
  #call;

  constructor(session, path, bytes, options) {
    super({ ...options, decodeStrings: true });
    this.#open = () => session.openFile(uses.write, bytes);
    this.#call = `createWriteStream(${showPath(path)})`;
  }

  _construct(callback) {
    this.#open().then(
      (file) => {
        this.#file = file;
        callback();
      },
      (error) => callback(toSandboxError(error, this.#call)),
    );
  }

  _write(chunk, _encoding, callback) {
    this.#settle(this.#file.write(toBuffer(chunk)), callback);
  }

  // Only now does the file get its name.
  _final(callback) {
    const file = this.#file;
    this.#file = undefined;
    this.#settle(file.close(true), callback);
  }

  _destroy(error, callback) {
    const file = this.#file;
    this.#file = undefined;
    if (!file) {
      callback(error);
      return;
    }
    file.close(false).then(
      () => callback(error),
      () => callback(error),
    );
  }

  #settle(promise, callback) {
    promise.then(
      () => callback(),
      (error) => callback(toSandboxError(error, this.#call)),
    );
  }
}

// A Writable passes any Uint8Array on as it is.
function toBuffer(chunk) {
  return Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
}

module.exports = { FileReadStream, FileWriteStream };
