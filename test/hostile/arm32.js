// SPDX-License-Identifier: Apache-2.0
'use strict';

// Programs of 32-bit ARM, which many processors of arm64 run, and which no
// compiler for arm64 makes.

const baseAddress = 0x10000;
const headerBytes = 52;
const segmentBytes = 32;

/**
 * An executable that makes the call of this number, without arguments, and ends
 * with what it gives as its exit code. `number`: below 256.
 */
function makeArm32Program(number) {
  const instructions = [
    0xe3a07000 | number, // mov r7, #number
    0xef000000, // svc 0
    0xe3a07001, // mov r7, #1: exit
    0xef000000, // svc 0
  ];
  const codeAt = headerBytes + segmentBytes;
  const file = Buffer.alloc(codeAt + instructions.length * 4);
  const put = (offset, size, value) =>
    file.writeUIntLE(value >>> 0, offset, size);
  file.write('\x7fELF\x01\x01\x01', 'latin1');
  put(16, 2, 2); // an executable
  put(18, 2, 40); // of ARM
  put(20, 4, 1);
  put(24, 4, baseAddress + codeAt); // starts there
  put(28, 4, headerBytes); // where the segment is described
  put(36, 4, 0x05000000); // the convention of calls: EABI 5
  put(40, 2, headerBytes);
  put(42, 2, segmentBytes);
  put(44, 2, 1);
  put(headerBytes, 4, 1); // it is loaded,
  put(headerBytes + 8, 4, baseAddress); // to there,
  put(headerBytes + 12, 4, baseAddress);
  put(headerBytes + 16, 4, file.length);
  put(headerBytes + 20, 4, file.length);
  put(headerBytes + 24, 4, 5); // readable and executable
  put(headerBytes + 28, 4, 0x1000);
  for (const [index, word] of instructions.entries()) {
    put(codeAt + index * 4, 4, word);
  }
  return file;
}

module.exports = { makeArm32Program };
