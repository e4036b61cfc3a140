// SPDX-License-Identifier: Apache-2.0
'use strict';

// Small pieces of a stream, together. Each that goes on alone costs a round trip
// to another thread, which is more than is done there with a small file.

const enough = 2 ** 18;

class Batch {
  #parts = [];
  #size = 0;

  add(part) {
    this.#parts.push(part);
    this.#size += part.length;
  }

  get isFull() {
    return this.#size >= enough;
  }

  /** All of it, in one piece; the batch is empty then. */
  take() {
    const [first] = this.#parts;
    const all =
      this.#parts.length === 1 ? first : Buffer.concat(this.#parts, this.#size);
    this.#parts = [];
    this.#size = 0;
    return all ?? Buffer.alloc(0);
  }
}

module.exports = { Batch };
