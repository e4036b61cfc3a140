// SPDX-License-Identifier: Apache-2.0
'use strict';

// Paths of files in the workspace. The engine opens them one component at a
// time and follows no link, so this is not what keeps them inside: it refuses
// early, with a better message, what could never be right.
//
// Names are bytes. A string stands for its UTF-8; a name that is not UTF-8 is
// given, and comes back, as bytes.

const { isUint8Array } = require('node:util/types');
const { SandboxError, invalidOption } = require('./errors.js');
const { describe } = require('./option-kinds.js');
const { quoted } = require('./quoted.js');

const maxPathBytes = 4095;
const noPath = Buffer.alloc(0);

function refuse(shown, reason) {
  return new SandboxError(
    `${shown} is not a path of the workspace: ${reason}`,
    {
      code: 'ERR_SANDBOX_PATH',
      option: 'path',
    },
  );
}

/** A path for messages, of which control characters reach no terminal. */
function showPath(path) {
  return quoted(typeof path === 'string' ? path : Buffer.from(path).toString());
}

/** The same for a folder; undefined is the workspace itself. */
function workspaceFolder(folder) {
  if (folder === undefined) return noPath;
  const isWhole = ['', '.', './', '/', '/workspace', '/workspace/'];
  if (isWhole.includes(folder)) {
    throw refuse(describe(folder), 'leave it out to mean all of it');
  }
  return workspacePath(folder);
}

/** The bytes of a checked path, without "." and doubled slashes. */
function workspacePath(path, option = 'path') {
  if (typeof path === 'string') {
    if (!path.isWellFormed()) {
      throw refuse(describe(path), 'it has an unpaired surrogate');
    }
    return checkPath(Buffer.from(path), describe(path));
  }
  if (isUint8Array(path)) {
    return checkPath(Buffer.from(path), `${showPath(path)} (bytes)`);
  }
  throw invalidOption(option, 'a string, or bytes', describe(path));
}

function checkPath(bytes, shown) {
  // One character a byte, so that the parts can be joined to the same bytes.
  const text = bytes.toString('latin1');
  if (text.includes('\0')) throw refuse(shown, 'it has a NUL');
  if (text.startsWith('/')) {
    const inside = text.replace(/^\/workspace\//, '');
    const hint =
      inside !== text && inside !== ''
        ? `, here ${showPath(Buffer.from(inside, 'latin1'))}`
        : '';
    throw refuse(shown, `paths are relative to the workspace${hint}`);
  }
  if (text.endsWith('/')) throw refuse(shown, 'it ends in "/"');

  const parts = text.split('/').filter((part) => part !== '' && part !== '.');
  if (parts.length === 0) throw refuse(shown, 'it names no file');
  if (parts.includes('..')) throw refuse(shown, 'it has a ".."');

  const clean = Buffer.from(parts.join('/'), 'latin1');
  if (clean.length > maxPathBytes) {
    throw refuse(shown, `it is longer than ${maxPathBytes} bytes`);
  }
  return clean;
}

/**
 * An entry with its name, a string or bytes, before its other properties: `path`,
 * and where the bytes are not UTF-8, so that the text has lost something, also
 * `pathBuffer` (not in JSON).
 */
function named(name, facts) {
  const path = name.toString();
  const entry = { path, ...facts };
  if (name === path) return entry;
  if (!path.includes('\ufffd') || Buffer.from(path).equals(name)) return entry;
  return Object.defineProperty(entry, 'pathBuffer', {
    value: name,
    enumerable: false,
  });
}

module.exports = {
  maxPathBytes,
  named,
  showPath,
  workspaceFolder,
  workspacePath,
};
