// SPDX-License-Identifier: Apache-2.0
'use strict';

// The option `mounts`: its shape, and where in a box a mount may go. Whether a
// box may have a source is not decided here: the engine judges the open file
// (src/common/host_rules.c), since a path says too little.

const path = require('node:path');
const { MountRefused, invalidOption } = require('./errors.js');
const { mountNumber } = require('./mount-errors.js');
const {
  describe,
  describeKey,
  isPlainString,
  isRecord,
  maxPathBytes,
  ownEntries,
} = require('./option-kinds.js');

const most = 64; // GBX_MOUNTS_MAX of src/common/wire.h
const pathInBox = 'an absolute path in the box';
const expected =
  'an object of {source: target} or {source: [target, "ro" or "rw"]}';

// ---- Where it goes -----------------------------------------------------------

// Where nothing may be, nor below it.
const reserved = {
  '/dev': 'every box has its own',
  '/proc': 'every box has its own',
  '/sys': 'no box has it',
  '/.proc': 'boxes are made with it',
  '/run/glovebox': 'what runs the code is there',
  '/workspace':
    'it is the workspace, in which no place can be made for a mount: take ' +
    'another, such as "/data"',
};

// These only as a whole.
const needed = [
  ...['/bin', '/etc', '/home/user', '/lib', '/lib64', '/sbin', '/tmp'],
  ...['/usr', '/var'],
];

function isWithin(file, folder) {
  return (
    file === folder || file.startsWith(folder === '/' ? folder : `${folder}/`)
  );
}

function refuseTarget(place, target, reason) {
  return new MountRefused(
    `The mount is refused: ${place} cannot go to ${describe(target)}: ${reason}`,
    { rule: 'target', option: 'mounts', target },
  );
}

function readTarget(place, target) {
  if (!isPlainString(target) || target === '') {
    throw invalidOption(
      place,
      `${pathInBox} or [${pathInBox}, "rw"]`,
      describe(target),
    );
  }
  const [suffix] = /:r[ow]$/.exec(target) ?? [];
  if (suffix) {
    const access = suffix.slice(1);
    const list = JSON.stringify([target.slice(0, -suffix.length), access]);
    throw refuseTarget(place, target, `access is said beside it: ${list}`);
  }
  if (!target.startsWith('/')) {
    throw refuseTarget(place, target, 'say an absolute path of the box');
  }
  const parts = target.split('/').filter((part) => part !== '');
  if (parts.includes('.') || parts.includes('..')) {
    throw refuseTarget(place, target, 'it has "." or ".."');
  }
  const clean = `/${parts.join('/')}`;
  if (
    Buffer.byteLength(clean) > maxPathBytes ||
    parts.some((part) => Buffer.byteLength(part) > 255)
  ) {
    throw refuseTarget(place, target, 'it is too long for a path');
  }
  for (const [folder, reason] of Object.entries(reserved)) {
    if (isWithin(clean, folder)) throw refuseTarget(place, target, reason);
  }
  const hidden = [...needed, ...Object.keys(reserved)].find((folder) =>
    isWithin(folder, clean),
  );
  if (hidden !== undefined) {
    const what = hidden === clean ? 'it' : hidden;
    throw refuseTarget(
      place,
      target,
      `every box needs what ${what} has: take a folder of its own`,
    );
  }
  return clean;
}

// ---- The option --------------------------------------------------------------

function readMount(option, source, value) {
  const place = `${option}[${describeKey(source)}]`;
  if (!isPlainString(source) || source === '') {
    throw invalidOption(
      place,
      'a path of this machine, without NUL',
      describe(source),
    );
  }
  const real = path.resolve(source);
  if (Buffer.byteLength(real) > maxPathBytes) {
    throw invalidOption(
      place,
      `a path of at most ${maxPathBytes} bytes`,
      `${Buffer.byteLength(real)} bytes`,
    );
  }
  // Copied: a getter could answer differently the second time.
  const [target, access = 'ro', ...more] = Array.isArray(value)
    ? value
    : [value];
  if (access !== 'ro' && access !== 'rw') {
    throw invalidOption(place, '"ro" or "rw"', describe(access));
  }
  if (more.length > 0) {
    throw invalidOption(place, '[target, "ro" or "rw"]', describe(value));
  }
  return { source: real, target: readTarget(place, target), access };
}

function refuseTwice(option, mounts, key) {
  const values = mounts.map((mount) => mount[key]);
  const twice = values.find((value, i) => values.indexOf(value) !== i);
  if (twice === undefined) return;
  throw invalidOption(
    option,
    `each ${key} once`,
    `${describe(twice)} more than once`,
  );
}

/** A list of `{source, target, access}`, a target before those in it. */
const mountsKind = {
  expected,
  read(value, option) {
    if (!isRecord(value)) {
      throw invalidOption(option, expected, describe(value));
    }
    const entries = ownEntries(value);
    if (entries.length > most) {
      throw invalidOption(
        option,
        `at most ${most} mounts`,
        String(entries.length),
      );
    }
    const mounts = entries.map(([source, to]) => readMount(option, source, to));
    refuseTwice(option, mounts, 'source');
    refuseTwice(option, mounts, 'target');
    return mounts.sort((a, b) => (a.target < b.target ? -1 : 1));
  },
};

/** The option again, for a spec. */
function describeMounts(mounts) {
  return Object.fromEntries(
    mounts.map(({ source, target, access }) => [source, [target, access]]),
  );
}

/** For the engine. */
function nativeMounts(mounts) {
  return mounts.map(({ source, target, access }) => ({
    source,
    target,
    writable: access === 'rw',
  }));
}

/**
 * `error` as the engine gave it, with the mount that it speaks of: it knows the
 * number, and of a long path only the beginning.
 */
function nameMount(error, mounts) {
  const mount = mounts[mountNumber(error)];
  return mount === undefined ? error : Object.assign(error, { mount });
}

module.exports = { describeMounts, mountsKind, nameMount, nativeMounts };
