// SPDX-License-Identifier: Apache-2.0
'use strict';

// The first `most` bytes of a stream, and whether there were more. A copy: a
// program that writes byte by byte makes a chunk of each, which take ten times
// the room of what is in them.

class KeptOutput {
  isWanted = false;
  isTruncated = false;
  #most;
  #room = Buffer.alloc(0);
  #size = 0;

  constructor(most) {
    this.#most = most;
  }

  get bytes() {
    return this.#room.subarray(0, this.#size);
  }

  add(chunk) {
    const fits = chunk.subarray(0, this.#most - this.#size);
    const size = this.#size + fits.length;
    if (size > this.#room.length) this.#grow(size);
    fits.copy(this.#room, this.#size);
    this.#size = size;
    if (fits.length < chunk.length) this.isTruncated = true;
  }

  #grow(size) {
    const enough = Math.max(size, 2 * this.#room.length);
    const larger = Buffer.allocUnsafeSlow(Math.min(enough, this.#most));
    this.#room.copy(larger, 0, 0, this.#size);
    this.#room = larger;
  }
}

module.exports = { KeptOutput };
