// SPDX-License-Identifier: Apache-2.0
'use strict';

// The driver's ends of the socket for cells and of the pipe for answers
// (docs/protocol.md). Node marks every descriptor that it inherits close-on-exec
// when it starts, and join.so those that come later, so no program that the code
// starts gets these.
//
// All calls are synchronous: one more handle in the event loop would keep the
// process alive, and an error is reported while the process is going down.

const { Buffer } = require('node:buffer');
const { fstatSync, readSync, writeSync } = require('node:fs');

const { parse: parseJson, stringify: toJson } = JSON;

const cellFd = 3;
const answerFd = 4;
const headerBytes = 8;
const maxBodyBytes = 64 * 2 ** 20;
const frameTypes = { cell: 1, result: 2, done: 3, command: 4, interrupt: 5 };

// A traceback can be as long as the code likes; the pipe's buffer is not, and
// nobody may be reading any more.
const maxTextLength = 32 * 1024;

let identity;
let cellIdentity;

/** Which pipe or socket it is: its number may belong to another file later. */
function identify(fd = answerFd) {
  const { dev, ino } = fstatSync(fd, { bigint: true });
  return `${dev}:${ino}`;
}

function sleepOneMs() {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
}

/** False at the end of the stream, if nothing of `buffer` was read before. */
function readExactly(buffer) {
  let offset = 0;
  while (offset < buffer.length) {
    let count;
    try {
      count = readSync(cellFd, buffer, offset, buffer.length - offset, null);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      sleepOneMs();
      continue;
    }
    if (count === 0) {
      if (offset === 0) return false;
      throw new Error('the control socket ended inside a frame');
    }
    offset += count;
  }
  return true;
}

/** The next cell, or null when no further one will come. */
function readCell() {
  identity ??= identify();
  cellIdentity ??= identify(cellFd);
  const header = Buffer.alloc(headerBytes);
  if (!readExactly(header)) return null;
  const size = header.readUInt32LE(0);
  const type = header.readUInt32LE(4);
  if (type !== frameTypes.cell || size > maxBodyBytes) {
    throw new Error(`the control socket sent a frame ${type} of ${size} bytes`);
  }
  const body = Buffer.alloc(size);
  if (size > 0 && !readExactly(body)) {
    throw new Error('the control socket ended inside a frame');
  }
  return parseJson(body.toString());
}

/** Takes bytes as they come and gives whole frames: `{type, body}`. */
class FrameReader {
  #chunks = [];
  #size = 0;

  get hasBytes() {
    return this.#size > 0;
  }

  add(bytes) {
    this.#chunks.push(bytes);
    this.#size += bytes.length;
  }

  /** undefined where none is complete. */
  next() {
    if (this.#size < headerBytes) return undefined;
    // Only now, or a long cell in short pieces would be copied for each.
    if (this.#chunks[0].length < headerBytes) this.#join();
    const end = headerBytes + this.#chunks[0].readUInt32LE(0);
    if (this.#size < end) return undefined;
    this.#join();
    const [all] = this.#chunks;
    this.#chunks = [all.subarray(end)];
    this.#size -= end;
    return { type: all.readUInt32LE(4), body: all.subarray(headerBytes, end) };
  }

  #join() {
    if (this.#chunks.length > 1) this.#chunks = [Buffer.concat(this.#chunks)];
  }
}

/**
 * Sends one answer; false where the code has closed the pipe. Never throws: the
 * exit code tells the host what matters.
 */
function send(type, value) {
  try {
    if (identify() !== identity) return false;
    const body = Buffer.from(toJson(value));
    const frame = Buffer.alloc(headerBytes + body.length);
    frame.writeUInt32LE(body.length, 0);
    frame.writeUInt32LE(type, 4);
    body.copy(frame, headerBytes);
    for (let offset = 0; offset < frame.length; ) {
      offset += writeSync(answerFd, frame, offset);
    }
    return true;
  } catch {
    return false;
  }
}

/** Whether cells can still come; false where the code has closed the socket. */
function canReceive() {
  try {
    return identify(cellFd) === cellIdentity;
  } catch {
    return false;
  }
}

/** Sends a value in its forms: MIME type to text or base64. */
function sendResult(bundle) {
  send(frameTypes.result, bundle);
}

/** Says how the cell ended. */
function sendDone({ exitCode, error }) {
  return send(frameTypes.done, {
    exitCode,
    error: error && {
      ...error,
      message: error.message.slice(0, maxTextLength),
      traceback: error.traceback.slice(0, maxTextLength),
    },
  });
}

module.exports = {
  parseJson,
  FrameReader,
  canReceive,
  cellFd,
  frameTypes,
  readCell,
  sendDone,
  sendResult,
};
