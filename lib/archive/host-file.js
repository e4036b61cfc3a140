// SPDX-License-Identifier: Apache-2.0
'use strict';

// The archive's own file, which lies on the host and which node:fs reads and
// writes.

const fs = require('node:fs');
const path = require('node:path');
const { SandboxError } = require('../errors.js');

/** Whether `file` is `folder` or lies in it. Both absolute, without links. */
function isInside(folder, file) {
  const way = path.relative(folder, file);
  return way !== '..' && !way.startsWith('../') && !path.isAbsolute(way);
}

// As many as the kernel follows.
const maxLinks = 40;

/** Where a link leads; undefined for what is none, or is not there. */
async function readLink(file) {
  try {
    return await fs.promises.readlink(file);
  } catch (error) {
    if (error.code === 'EINVAL' || error.code === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * Where the absolute path `file` leads: `{hostPath}`, without links, or
 * `{inside}`, the rest of its way from where that enters `workspace`. There a box
 * lays the links, so none is followed for it, not even one that leads out again.
 */
async function locate(workspace, file) {
  const rest = file.split('/');
  let links = 0;
  let at = '/';
  while (rest.length > 0) {
    const part = rest.shift();
    if (part === '' || part === '.') continue;
    const next = path.join(at, part);
    if (isInside(workspace, next)) {
      const inside = path.relative(workspace, next);
      return { inside: [inside, ...rest].filter(Boolean).join('/') };
    }
    const target = part === '..' ? undefined : await readLink(next);
    if (target === undefined) {
      at = next;
      continue;
    }
    if (++links > maxLinks) {
      throw Object.assign(new Error('ELOOP: too many symbolic links'), {
        code: 'ELOOP',
        syscall: 'readlink',
      });
    }
    if (target.startsWith('/')) at = '/';
    rest.unshift(...target.split('/'));
  }
  return { hostPath: at };
}

/** The error for what node:fs threw; any other error as it is. */
function hostFileError(error, file) {
  if (error instanceof SandboxError || typeof error?.syscall !== 'string') {
    return error;
  }
  return new SandboxError(
    `The file ${JSON.stringify(file)} cannot be used: ${error.message}`,
    {
      code: 'ERR_SANDBOX_HOST_FILE',
      cause: error,
      errno: error.code,
      step: error.syscall,
    },
  );
}

module.exports = { hostFileError, locate };
