// SPDX-License-Identifier: Apache-2.0
'use strict';

// What the test machine can be, by Node's names of architectures. One that is
// not the host's gets its Node from npm, the compiled part of glovebox from a
// cross compiler, and a compiler for what tests compile in it.

/**
 * - `debian`: its name there; `kernel`: the package of the kernel
 * - `qemu`: the program, `machine`: its arguments, `console`: its serial port
 * - `binfmt`: how the host's kernel is told to start its programs by `emulator`
 * - `triplet`: what its compiler and its folder of libraries are called by
 */
const architectures = {
  x64: {
    debian: 'amd64',
    kernel: 'linux-image-cloud-amd64',
    qemu: 'qemu-system-x86_64',
    machine: ['-accel', 'tcg,thread=multi'],
    console: 'ttyS0',
  },
  arm64: {
    debian: 'arm64',
    kernel: 'linux-image-cloud-arm64',
    qemu: 'qemu-system-aarch64',
    // Signed pointers in the processor's own way take most of the emulator's
    // time; any other way signs as well.
    machine: [
      ...['-machine', 'virt', '-cpu', 'max,pauth-impdef=on'],
      // A nanosecond for each instruction, whatever it takes: else a busy host
      // would have deadlines of the product pass, which no test can scale.
      ...['-accel', 'tcg,thread=single', '-icount', 'shift=0'],
    ],
    console: 'ttyAMA0',
    emulator: '/usr/bin/qemu-aarch64-static',
    binfmt: {
      magic: '7f454c460201010000000000000000000200b700',
      mask: 'ffffffffffffff00fffffffffffffffffeffffff',
    },
    triplet: 'aarch64-linux-gnu',
  },
};

module.exports = { architectures };
