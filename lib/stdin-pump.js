// SPDX-License-Identifier: Apache-2.0
'use strict';

// What the code reads from stdin. The engine takes one piece at a time and
// says when the pipe has it, so a program that reads slowly, or never, holds
// its source back and fills no memory.

const { Readable } = require('node:stream');
const { isUint8Array } = require('node:util/types');
const { invalidOption } = require('./errors.js');
const { describe } = require('./option-kinds.js');

// One copy of that size is all that waits in the engine.
const maxPieceBytes = 2 ** 20;

const nothing = Buffer.alloc(0);

/** The bytes themselves, not a copy; undefined for what has none. */
function bytesOf(chunk) {
  if (typeof chunk === 'string') return Buffer.from(chunk);
  if (!isUint8Array(chunk)) return undefined;
  return Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
}

const noInput = Object.freeze({
  input: false,
  firstInput: null,
  inputEnds: false,
});

/**
 * What a run has to know of `source`: what there is of it at the start, if that
 * is little, goes with the run and is in the pipe before the code starts.
 */
function inputSpec(source) {
  if (source === null || source === undefined) return noInput;
  const bytes = bytesOf(source);
  const isWhole = bytes !== undefined && bytes.length <= maxPieceBytes;
  return {
    input: true,
    firstInput: isWhole ? bytes : null,
    inputEnds: isWhole,
  };
}

/** Whether inputSpec() left something for pump(). */
function needsPump({ input, inputEnds }) {
  return input && !inputEnds;
}

/** The way to the stdin of a run. One write at a time. */
class InputPipe {
  #run;
  #answer;
  #isOpen = true;
  #hasEnded = false;
  /** Called once when nobody reads any more, or the run has ended. */
  onClose = () => {};

  attach(run) {
    this.#run = run;
  }

  get isOpen() {
    return this.#isOpen;
  }

  /** Resolves when the pipe has all of it, or will not: which of both. */
  async write(bytes) {
    for (let at = 0; at < bytes.length && this.#takes; at += maxPieceBytes) {
      await this.#send(bytes.subarray(at, at + maxPieceBytes), false);
    }
    return this.#takes;
  }

  /**
   * After what the engine has; the rest of a write that is on its way is left.
   * Once: on a terminal each would be another Ctrl-D.
   */
  async end() {
    if (!this.#takes) return;
    this.#hasEnded = true;
    this.#settle();
    await this.#send(nothing, true);
  }

  get #takes() {
    return this.#isOpen && !this.#hasEnded;
  }

  /** The engine's event. */
  answer(isOpen) {
    if (!isOpen) this.close();
    else this.#settle();
  }

  close() {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#settle();
    this.onClose();
  }

  #send(piece, ends) {
    return new Promise((resolve) => {
      this.#answer = resolve;
      // A run that has ended says so with its last event, on its way to us.
      this.#run.write(piece, ends);
    });
  }

  #settle() {
    const answer = this.#answer;
    this.#answer = undefined;
    answer?.();
  }
}

// A web stream can be let go of only by its reader, and its iterator does that
// no sooner than the next chunk is there.
function destroyable(source) {
  if (typeof source.getReader !== 'function') return source;
  return Readable.fromWeb(source, { objectMode: true, highWaterMark: 1 });
}

async function* piecesOf(source) {
  const whole = bytesOf(source);
  if (whole) {
    yield whole;
    return;
  }
  for await (const chunk of source) {
    const bytes = bytesOf(chunk);
    if (!bytes) {
      throw invalidOption(
        'stdin',
        'chunks that are strings or bytes',
        describe(chunk),
      );
    }
    yield bytes;
  }
}

/**
 * Writes all of `source` into `pipe`. Rejects with what the source throws. If
 * the reader ends first, that is no error; the rest of the source is not read,
 * and a stream is destroyed.
 */
async function pump(source, pipe) {
  const stream = destroyable(source);
  const pieces = piecesOf(stream);
  pipe.onClose = () => {
    // It may be waiting for a chunk that never comes.
    if (typeof stream.destroy === 'function') stream.destroy();
    pieces.return().catch(() => {});
  };
  try {
    for await (const piece of pieces) {
      if (!(await pipe.write(piece))) return;
    }
  } catch (error) {
    if (!pipe.isOpen) return;
    throw error;
  }
  await pipe.end();
}

module.exports = { InputPipe, bytesOf, inputSpec, needsPump, noInput, pump };
