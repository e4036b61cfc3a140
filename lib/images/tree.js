// SPDX-License-Identifier: Apache-2.0
'use strict';

// A read-only root in the making: entries, and what a path means in a box that
// has them. Host paths keep their place in the box, so what matters is whether
// every hop of a path is there: `/opt/venv/bin/python3` may be a symlink to a
// symlink in a folder that nobody has thought of.

const fs = require('node:fs');
const path = require('node:path');

const maxHops = 40; // as in the kernel

// What every box has of its own. A bind may lie below the first; nothing of the
// host is shown below the second, where the box's own things are.
const ownFolders = ['/tmp', '/home/user', '/run/glovebox', '/etc'];
const ownMounts = ['/proc', '/sys', '/dev', '/workspace'];

/** Whether `file` is `folder` or lies below it; both are absolute. */
function isWithin(file, folder) {
  return file === folder || folder === '/' || file.startsWith(`${folder}/`);
}

function names(text) {
  return text.split('/').filter((name) => name !== '' && name !== '.');
}

class Tree {
  #entries = new Map();

  #add(entry) {
    if (!this.#entries.has(entry.target)) {
      this.#entries.set(entry.target, entry);
    }
  }

  /** The first entry at a target stays. */
  bind(target, source = target) {
    this.#add({ kind: 'bind', target, source: fs.realpathSync(source) });
  }

  symlink(target, text) {
    this.#add({ kind: 'symlink', target, source: text });
  }

  file(target, text) {
    this.#add({ kind: 'file', target, data: Buffer.from(text) });
  }

  /** All entries, parents before children. */
  get entries() {
    // A parent is a prefix of its child, so it comes first.
    return [...this.#entries.values()].sort((a, b) =>
      a.target < b.target ? -1 : 1,
    );
  }

  // What is at `file`, all of whose parents are folders: "missing", a
  // symlink's text in `text`, or neither.
  #look(file) {
    const entry = this.#entries.get(file);
    if (entry) return { text: entry.kind === 'symlink' && entry.source };
    for (let above = file; above !== '/'; ) {
      above = path.dirname(above);
      const bind = this.#entries.get(above);
      if (bind?.kind === 'bind') {
        return lookOnHost(bind.source + file.slice(above.length));
      }
    }
    const isParent = [...this.#entries.keys()].some((target) =>
      isWithin(target, file),
    );
    return { isMissing: !isParent };
  }

  /**
   * Follows `file` as the kernel would in the box. Returns undefined if it is
   * there, else where the way ended: `missing`, and the `rest` that was to go.
   */
  findMissing(file) {
    let at = '/';
    let hops = 0;
    const rest = names(file);
    while (rest.length > 0) {
      const name = rest.shift();
      const next = path.join(at, name);
      const { isMissing, text } = this.#look(next);
      if (isMissing || hops > maxHops) return { missing: next, rest };
      if (text) {
        hops++;
        if (text.startsWith('/')) at = '/';
        rest.unshift(...names(text));
      } else {
        at = next;
      }
    }
    return undefined;
  }

  /**
   * Adds what lacks for `file`, a host path, to mean the same in the box: the
   * symlinks on the way, and the file or folder itself. Returns whether that
   * was possible.
   */
  reach(file) {
    for (let hop = 0; hop <= maxHops; hop++) {
      const found = this.findMissing(file);
      if (!found) return true;
      const target = path.join(found.missing, ...found.rest);
      if (ownMounts.some((folder) => isWithin(target, folder))) return false;
      const { isMissing, text } = lookOnHost(found.missing);
      // Below a bind nothing can be added: there the host lacks it too.
      if (isMissing) return false;
      if (text && !isNeededAsFolder(found.missing)) {
        this.symlink(found.missing, text);
        continue;
      }
      try {
        this.bind(target);
      } catch {
        return false;
      }
    }
    return false;
  }
}

// On some hosts /home is a symlink; in a box it is where /home/user lies.
function isNeededAsFolder(file) {
  return [...ownFolders, ...ownMounts].some((folder) => isWithin(folder, file));
}

function lookOnHost(file) {
  try {
    const isLink = fs.lstatSync(file).isSymbolicLink();
    return { text: isLink && fs.readlinkSync(file) };
  } catch {
    return { isMissing: true };
  }
}

module.exports = { Tree, isWithin };
