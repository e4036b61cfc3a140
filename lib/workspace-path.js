// SPDX-License-Identifier: Apache-2.0
'use strict';

// Paths of files in the workspace. The engine opens them one component at a
// time and follows no link, so this is not what keeps them inside: it refuses
// early, with a better message, what could never be right.

const { SandboxError, invalidOption } = require('./errors.js');
const { describe } = require('./option-kinds.js');

const maxPathBytes = 4095;

function refuse(path, reason) {
  return new SandboxError(
    `${describe(path)} is not a path of the workspace: ${reason}`,
    {
      code: 'ERR_SANDBOX_PATH',
      option: 'path',
    },
  );
}

/** The bytes of a checked path, without "." and doubled slashes. */
function workspacePath(path) {
  if (typeof path !== 'string') {
    throw invalidOption('path', 'a string', describe(path));
  }
  if (path.includes('\0')) throw refuse(path, 'it has a NUL');
  if (!path.isWellFormed()) throw refuse(path, 'it has an unpaired surrogate');
  if (path.startsWith('/')) {
    const inside = path.replace(/^\/workspace\//, '');
    const hint =
      inside !== path && inside !== ''
        ? `, here ${JSON.stringify(inside)}`
        : '';
    throw refuse(path, `paths are relative to the workspace${hint}`);
  }
  if (path.endsWith('/')) throw refuse(path, 'it ends in "/"');

  const parts = path.split('/').filter((part) => part !== '' && part !== '.');
  if (parts.length === 0) throw refuse(path, 'it names no file');
  if (parts.includes('..')) throw refuse(path, 'it has a ".."');

  const bytes = Buffer.from(parts.join('/'));
  if (bytes.length > maxPathBytes) {
    throw refuse(path, `it is longer than ${maxPathBytes} bytes`);
  }
  return bytes;
}

module.exports = { workspacePath };
