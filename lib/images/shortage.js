// SPDX-License-Identifier: Apache-2.0
'use strict';

const fs = require('node:fs');
const { constants } = require('node:os');
const { toSandboxError } = require('../errors.js');

const shortages = new Set(['EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN']);

// How a shim that could not start its interpreter puts it.
const words = {
  EMFILE: 'Too many open files',
  ENFILE: 'Too many open files in system',
  ENOMEM: 'Cannot allocate memory',
  EAGAIN: 'Resource temporarily unavailable',
};

function findShortage({ code, info, stderr }) {
  const number = info?.code ?? code;
  if (shortages.has(number)) return number;
  const text = String(stderr ?? '');
  return Object.keys(words).find((name) => text.includes(words[name]));
}

/**
 * Throws what to do about it if `error` says that this process is short of
 * something. A file that could not be opened for that reason is not missing: a
 * root made without it would be remembered, and its lack blamed on the host.
 */
function rethrowShortage(error) {
  const name = findShortage(error);
  if (name === undefined) return;
  const [op] = (error.info?.syscall ?? error.syscall ?? 'spawn').split(' ');
  throw toSandboxError({
    code: 'SETUP',
    errno: constants.errno[name],
    op,
    detail: error.path ?? '',
  });
}

/** What is in a folder, sorted; nothing if it cannot be read. */
function listNames(folder) {
  try {
    return fs.readdirSync(folder).sort();
  } catch (error) {
    rethrowShortage(error);
    return [];
  }
}

module.exports = { listNames, rethrowShortage };
