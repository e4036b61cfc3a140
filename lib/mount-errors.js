// SPDX-License-Identifier: Apache-2.0
'use strict';

// What the engine says of a mount. The detail is "NUMBER REASON: SOURCE", and of
// one that is refused "NUMBER RULE REASON: SOURCE".

const remedies = {
  containers: 'Mount a folder of your own with a copy of what the code needs.',
  'hard-link': 'Mount a copy of it: its other name may be that of a secret.',
  hidden:
    'Mount a folder outside of it, with a copy of what the code needs and ' +
    'without settings and keys.',
  home: 'Mount a folder in the home folder, with no more than the code needs.',
  kernel: 'What the kernel tells and controls there is not for a box.',
  own: 'Give that sandbox a workspace of your own, which you can mount.',
  root: 'Mount the folders that the code needs.',
  run: 'Sockets and secrets of this machine are there: mount a copy of what the code needs.',
  'special-file': 'Only files and folders can be mounted.',
  submounts: 'Mount the folders in it that the code needs.',
  system:
    'Mount a folder of your own with a copy of what the code needs; programs ' +
    'and libraries of this machine every box has.',
  temp: 'Mount a folder in it that is made for the code.',
};

function isOfMount({ code, op }) {
  const isOfSource = op === 'mount' || op === 'id map';
  return isOfSource && (code === 'MOUNT' || code === 'MOUNT_REFUSED');
}

/** Which mount an error speaks of; undefined if of none. */
function mountNumber(error) {
  const [number] = /^\d+(?= )/.exec(isOfMount(error) ? error.detail : '') ?? [];
  return number;
}

/**
 * The parts of an error of a mount, for errors.js: `{reason, details, remedy}`;
 * undefined for another error.
 */
function readMountError(error) {
  const number = mountNumber(error);
  if (number === undefined) return undefined;
  const rest = error.detail.slice(number.length + 1);
  const isRefused = error.code === 'MOUNT_REFUSED';
  const [, rule, reason, cut] = isRefused
    ? /^(\S+) (.*?): (.*)$/s.exec(rest)
    : /^()(.*?): (.*)$/s.exec(rest);
  const { source = cut, target } = error.mount ?? {};
  return {
    reason,
    details: isRefused
      ? { rule, source, target, option: 'mounts' }
      : { source, target },
    remedy: remedies[rule],
  };
}

module.exports = { mountNumber, readMountError };
