// SPDX-License-Identifier: Apache-2.0
'use strict';

// Which members an archive may have. A restore refuses the others, and a
// snapshot leaves them out and says so; so a restore takes every snapshot.
//
// Names are strings of one character a byte ("latin1"): a name is bytes, and
// two that differ must not become one.

const { maxPathBytes } = require('../workspace-path.js');

const maxMembers = 500_000;
/** The most that the size field of a tar header can say in octal. */
const maxFileBytes = 8 ** 11 - 1;
const defaultMaxBytes = 10 * 2 ** 30;
/**
 * The most that all names have together. Both sides keep them until the end, so
 * without it half a million long ones are more than the heap of a process.
 */
const maxNamesBytes = 128 * 2 ** 20;

const maxNameBytes = 255;
// A deeper tree takes time that grows with the square of its depth.
const maxDepth = 256;
const ownName = /^\.glovebox-[0-9a-f]{16}\.tmp$/;

/** Why no member may have this name; undefined if it may. */
function nameProblem(name) {
  if (name === '') return 'its name is empty';
  if (name.length > maxPathBytes) {
    return `its name is longer than ${maxPathBytes} bytes`;
  }
  if (name.includes('\0')) return 'its name has a NUL';
  if (name.startsWith('/')) return 'its name is absolute';
  // Nothing to Linux, but who wrote them meant another system's folders.
  if (/^[A-Za-z]:[\\/]/.test(name)) return 'its name has a drive letter';
  if (name.split(/[\\/]/).includes('..')) return 'its name has a ".."';
  const parts = name.split('/');
  if (parts.includes('.')) return 'its name has a "."';
  if (parts.includes('')) return 'its name has an empty part';
  if (parts.length > maxDepth) {
    return `its name has more than ${maxDepth} parts`;
  }
  if (parts.some((part) => part.length > maxNameBytes)) {
    return `a part of its name is longer than ${maxNameBytes} bytes`;
  }
  if (parts.some((part) => ownName.test(part))) {
    return 'the sandbox keeps such names for itself';
  }
  return undefined;
}

/**
 * Why no symlink `name` may have this target. What it may: climb from its own
 * folder, at most to the workspace, and then only go down. After a name has been
 * entered "..", would mean whatever that name leads to, so it is refused there.
 */
function targetProblem(name, target) {
  if (target === '') return 'its target is empty';
  if (target.length > maxPathBytes) {
    return `its target is longer than ${maxPathBytes} bytes`;
  }
  if (target.includes('\0')) return 'its target has a NUL';
  if (target.startsWith('/')) return 'it is a symlink to an absolute path';
  const parts = target.split('/').filter((part) => part !== '' && part !== '.');
  const climbs = parts.findIndex((part) => part !== '..');
  const count = climbs === -1 ? parts.length : climbs;
  if (count > name.split('/').length - 1) {
    return 'it is a symlink that leads out of the workspace';
  }
  if (parts.slice(count).includes('..')) {
    return 'it is a symlink whose target has ".." after a name';
  }
  return undefined;
}

module.exports = {
  defaultMaxBytes,
  maxFileBytes,
  maxMembers,
  maxNamesBytes,
  nameProblem,
  targetProblem,
};
