// SPDX-License-Identifier: Apache-2.0
'use strict';

// A read-only root in the making: entries, and what a path means in a box that
// has them. Host paths keep their place in the box, so what matters is whether
// every hop of a path is there: `/opt/venv/bin/python3` may be a symlink to a
// symlink in a folder that nobody has thought of.

const fs = require('node:fs');
const path = require('node:path');

const maxHops = 40; // as in the kernel

// What every box has of its own. Below the first something of the host may be
// shown. Not below the others: there it would be found by who lists the
// workspace, or be in the way of what is not of the host.
const ownFolders = ['/etc', '/home/user', '/run/glovebox', '/tmp', '/var'];
const ownMounts = ['/dev', '/proc', '/sys', '/var/tmp', '/workspace'];

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

  /** `data` is text or bytes. */
  file(target, data) {
    this.#add({ kind: 'file', target, data: Buffer.from(data) });
  }

  /**
   * All entries, parents before children. What lies below a bind is left out:
   * the bind brings it, since everything has its place of the host.
   */
  get entries() {
    // A parent is a prefix of its child, so it comes first.
    return [...this.#entries.values()]
      .filter(({ target }) => !this.#findBindAbove(target))
      .sort((a, b) => (a.target < b.target ? -1 : 1));
  }

  #findBindAbove(file) {
    for (let above = file; above !== '/'; ) {
      above = path.dirname(above);
      const entry = this.#entries.get(above);
      if (entry?.kind === 'bind') return entry;
    }
    return undefined;
  }

  // What is at `file`, all of whose parents are folders: it `isMissing`, or it
  // `isImplied` as a parent of entries, or it is a symlink with a `text`.
  #look(file) {
    const entry = this.#entries.get(file);
    if (entry) return { text: entry.kind === 'symlink' && entry.source };
    const bind = this.#findBindAbove(file);
    if (bind) return lookOnHost(bind.source + file.slice(bind.target.length));
    const isParent = [...this.#entries.keys()].some((target) =>
      isWithin(target, file),
    );
    return isParent ? { isImplied: true } : { isMissing: true };
  }

  /**
   * Follows `file` as the kernel would in the box. Returns undefined if it is
   * there, else where the way ended: `missing`, and the `rest` that was to go;
   * or `isLoop`.
   */
  findMissing(file) {
    let at = '/';
    let hops = 0;
    const rest = names(file);
    while (rest.length > 0) {
      const name = rest.shift();
      const next = path.join(at, name);
      const { isMissing, isImplied, text } = this.#look(next);
      // A folder that only holds other entries is not the host's.
      const isOther = isImplied && rest.length === 0;
      if (isMissing || isOther) return { missing: next, rest };
      if (text) {
        if (++hops > maxHops) return { isLoop: true };
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
      if (found.isLoop || !this.#addNext(found)) return false;
    }
    return false;
  }

  // Symlinks stay symlinks, even where the file behind them would do: Python
  // looks for its library from where its executable really lies.
  #addNext({ missing, rest }) {
    let at = missing;
    for (const name of [...rest, undefined]) {
      if (ownMounts.some((folder) => isWithin(at, folder))) return false;
      const { isMissing, text } = lookOnHost(at);
      // Below a bind nothing can be added: there the host lacks it too.
      if (isMissing) return false;
      if (text && !isNeededAsFolder(at)) {
        this.symlink(at, text);
        return true;
      }
      // Folders on the way come with what is bound below them.
      if (name !== undefined) at = path.join(at, name);
    }
    return this.#tryToBind(at);
  }

  #tryToBind(target) {
    try {
      this.bind(target);
      return true;
    } catch {
      return false;
    }
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
