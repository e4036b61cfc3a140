// SPDX-License-Identifier: Apache-2.0
'use strict';

// `sandbox.files`: the workspace, which is all that boxes keep.

const path = require('node:path');
const { Readable } = require('node:stream');
const { checkText, invalid, readOptions } = require('./arguments.js');
const { InvalidArgumentError, notThere, translated } = require('./errors.js');
const { isPassing, listInBox } = require('./folders.js');

const FileType = Object.freeze({
  FILE: 'file',
  DIR: 'dir',
  SYMLINK: 'symlink',
});

const typeNames = new Map([
  ['file', FileType.FILE],
  ['directory', FileType.DIR],
  ['symlink', FileType.SYMLINK],
]);

const workspace = '/workspace';

const fileOptions = ['user', 'gzip', 'useOctetStream', 'signal'];

const noMetadata = { metadata: 'files of this machine have none' };

function isElsewhere(given) {
  checkText('path', given);
  return (
    given.startsWith('/') &&
    given !== workspace &&
    !given.startsWith(`${workspace}/`)
  );
}

/** Relative to the workspace; "" is the workspace itself. */
function relativePath(given) {
  if (isElsewhere(given)) {
    throw new InvalidArgumentError(
      `${JSON.stringify(given)} is not in ${workspace}, which is the only ` +
        'folder that is kept: say a relative path',
    );
  }
  const relative = given.startsWith('/')
    ? given.slice(workspace.length)
    : given;
  const parts = relative.split('/').filter((part) => part && part !== '.');
  return parts.join('/');
}

function dataOf(data) {
  if (data instanceof ArrayBuffer) return new Uint8Array(data);
  if (data instanceof Blob) return data.stream();
  return data;
}

function nameOf(file, folder = workspace) {
  return {
    name: path.posix.basename(file),
    path: path.posix.join(folder, file),
  };
}

function entryOf(file, { type, size, mtimeMs, mode }, folder) {
  return {
    ...nameOf(file, folder),
    type: typeNames.get(type),
    size,
    ...(mode !== undefined && { mode }),
    modifiedTime: new Date(mtimeMs),
  };
}

class Filesystem {
  #sandbox;

  constructor(sandbox) {
    this.#sandbox = sandbox;
  }

  read(file, options) {
    return translated(async () => {
      const names = ['format', ...fileOptions, 'streamIdleTimeoutMs'];
      const { format = 'text' } = readOptions('files.read()', options, names);
      const relative = relativePath(file);
      switch (format) {
        case 'text':
          return this.#sandbox.readFile(relative, 'utf8');
        case 'bytes':
          return new Uint8Array(await this.#sandbox.readFile(relative));
        case 'blob':
          return new Blob([await this.#sandbox.readFile(relative)]);
        case 'stream':
          await this.#sandbox.stat(relative);
          return Readable.toWeb(this.#sandbox.createReadStream(relative));
        default:
          throw invalid(
            'format',
            '"text", "bytes", "blob" or "stream"',
            format,
          );
      }
    });
  }

  /** One file, or a list of `{path, data}`. */
  write(file, data, options) {
    if (Array.isArray(file)) return this.writeFiles(file, data);
    return translated(async () => {
      readOptions('files.write()', options, fileOptions, noMetadata);
      return this.#write(file, data);
    });
  }

  writeFiles(files, options) {
    return translated(async () => {
      readOptions('files.writeFiles()', options, fileOptions, noMetadata);
      const written = [];
      for (const { path: file, data } of files) {
        written.push(await this.#write(file, data));
      }
      return written;
    });
  }

  list(folder, options) {
    return translated(async () => {
      const names = ['depth', 'user', 'signal'];
      const { depth = 1 } = readOptions('files.list()', options, names);
      if (!Number.isInteger(depth) || depth < 1) {
        throw invalid('depth', 'a whole number from 1', depth);
      }
      if (isElsewhere(folder) && !isPassing(folder)) {
        const found = await listInBox(this.#sandbox, folder, depth);
        return found.map((entry) => entryOf(entry.path.slice(1), entry, '/'));
      }
      const below = relativePath(folder);
      const listing = { all: true, recursive: depth > 1 };
      const entries = await this.#sandbox.listFiles(
        below === '' ? undefined : below,
        listing,
      );
      const levels = below === '' ? 0 : below.split('/').length;
      return entries
        .filter((entry) => entry.path.split('/').length - levels <= depth)
        .map((entry) => entryOf(entry.path, entry));
    });
  }

  exists(file, options) {
    return translated(async () => {
      readOptions('files.exists()', options, fileOptions);
      const relative = relativePath(file);
      return relative === '' || this.#sandbox.exists(relative);
    });
  }

  getInfo(file, options) {
    return translated(async () => {
      readOptions('files.getInfo()', options, fileOptions);
      return this.#info(relativePath(file));
    });
  }

  remove(file, options) {
    return translated(async () => {
      readOptions('files.remove()', options, fileOptions);
      await this.#sandbox.rm(relativePath(file), { recursive: true });
    });
  }

  /** False if it was there. */
  makeDir(folder, options) {
    return translated(async () => {
      readOptions('files.makeDir()', options, fileOptions);
      const relative = relativePath(folder);
      if (relative === '' || (await this.#sandbox.exists(relative))) {
        return false;
      }
      await this.#sandbox.mkdir(relative);
      return true;
    });
  }

  rename(from, to, options) {
    return translated(async () => {
      readOptions('files.rename()', options, fileOptions);
      const target = relativePath(to);
      await this.#sandbox.rename(relativePath(from), target);
      return this.#info(target);
    });
  }

  async watchDir() {
    throw notThere('files.watchDir()', "glovebox's own Sandbox has watch()");
  }

  async #write(file, data) {
    const relative = relativePath(file);
    await this.#sandbox.writeFile(relative, dataOf(data));
    return { ...nameOf(relative), type: FileType.FILE };
  }

  async #info(relative) {
    return entryOf(relative, await this.#sandbox.stat(relative));
  }
}

module.exports = { FileType, Filesystem };
