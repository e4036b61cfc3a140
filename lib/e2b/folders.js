// SPDX-License-Identifier: Apache-2.0
'use strict';

// Folders outside of the workspace. They are the same in each box, but for those
// that begin empty; so what is in one is seen from a box of its own.

const path = require('node:path');
const { FileNotFoundError, SandboxError } = require('./errors.js');

// New for each box: what was written there before is gone.
const passing = ['/tmp', '/home/user', '/dev/shm'];

/** `folder` without "..", as far as spelling goes. */
function withoutDetours(folder) {
  const normal = path.posix.normalize(folder);
  return normal === '/' ? normal : normal.replace(/\/$/, '');
}

function isPassing(folder) {
  const absolute = withoutDetours(folder);
  return passing.some(
    (one) => absolute === one || absolute.startsWith(`${one}/`),
  );
}

/** Runs in the box, with nothing of this file around it. */
function printEntries(folder, depth) {
  const fs = require('node:fs');
  const entries = [];
  const typeOf = (info) => {
    if (info.isFile()) return 'file';
    if (info.isDirectory()) return 'directory';
    return info.isSymbolicLink() ? 'symlink' : 'other';
  };
  const visit = (parent, levels) => {
    for (const name of fs.readdirSync(parent)) {
      const file = parent === '/' ? `/${name}` : `${parent}/${name}`;
      const info = fs.lstatSync(file, { throwIfNoEntry: false });
      // Processes come and go.
      if (!info) continue;
      const { size, mtimeMs } = info;
      entries.push({ path: file, type: typeOf(info), size, mtimeMs });
      if (levels < 2 || !info.isDirectory()) continue;
      try {
        visit(file, levels - 1);
      } catch {
        // One that the user may not read is listed without what is in it.
      }
    }
  };
  try {
    visit(folder, depth);
    console.log(JSON.stringify({ entries }));
  } catch ({ code, message }) {
    console.log(JSON.stringify({ error: { code, message } }));
  }
}

/** `{path, type, size, mtimeMs}` of what is in `folder`, `depth` levels deep. */
async function listInBox(sandbox, folder, depth) {
  const given = JSON.stringify([withoutDetours(folder), depth]);
  const { stdout, stderr } = await sandbox.runCode(
    `(${printEntries})(...${given})`,
    {
      language: 'node',
      // Neither files of the workspace nor the code's options are in the way.
      cwd: '/',
      env: { NODE_OPTIONS: '' },
      onStdout: null,
      onStderr: null,
    },
  );
  let answer;
  try {
    answer = JSON.parse(stdout);
  } catch (cause) {
    throw new SandboxError(`${folder} could not be listed: ${stderr}`, {
      cause,
    });
  }
  const { entries, error } = answer;
  if (error?.code === 'ENOENT') throw new FileNotFoundError(error.message);
  if (error) throw new SandboxError(error.message);
  return entries.sort((a, b) => Number(a.path > b.path) || -1);
}

module.exports = { isPassing, listInBox };
