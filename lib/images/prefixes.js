// SPDX-License-Identifier: Apache-2.0
'use strict';

// Which folders an interpreter needs beside its executable. As a rule that is
// its prefix, and all of it: an installation, a version of pyenv or nvm, a conda
// environment, a venv. But a prefix may also be a folder in which a person keeps
// everything else, such as $HOME, and untrusted code must not read that; then it
// is only what the interpreter itself put there.

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { listNames, rethrowShortage } = require('./shortage.js');
const { isWithin } = require('./tree.js');

// Folders that many things share. None of them is ever shown as a whole.
const sharedFolders = new Set(
  `/ /bin /boot /dev /etc /home /lib /lib64 /media /mnt /nix /opt /proc /root
   /run /sbin /snap /srv /sys /tmp /usr /var /var/cache /var/lib /var/opt
   /var/tmp`.split(/\s+/),
);
const sharedInHome = [
  '.local',
  '.local/share',
  '.config',
  '.cache',
  '.nix-profile',
];

// Stores whose packages refer to each other by absolute path: in a box they
// work together or not at all. Anybody can read them.
const stores = [/^\/nix\/store(?=\/)/, /^.*\/\.linuxbrew(?=\/)/];

/** The user's home folders: by the environment and by the user database. */
function findHomes(env = process.env) {
  const homes = [env.HOME];
  try {
    homes.push(os.userInfo().homedir);
  } catch (error) {
    rethrowShortage(error);
    // A user id without an entry has none there.
  }
  return unique(homes.filter((home) => home && path.isAbsolute(home))).flatMap(
    (home) => [path.resolve(home), realpathOr(home)],
  );
}

function isShared(folder, homes) {
  return (
    sharedFolders.has(folder) ||
    // Other people's home folders too.
    path.dirname(folder) === '/home' ||
    homes.some(
      (home) =>
        isWithin(home, folder) ||
        sharedInHome.some((name) => folder === path.join(home, name)),
    )
  );
}

/** Whether `folder` may be shown as a whole, by its name and by its real one. */
function isOwn(folder, homes) {
  return !isShared(folder, homes) && !isShared(realpathOr(folder), homes);
}

function findStores(executable) {
  const real = realpathOr(executable);
  return stores.map((store) => store.exec(real)?.[0]).filter(Boolean);
}

// A venv is often made right in a project's folder, beside its secrets.
const venvNames = /^(bin|etc|include|lib|lib64|man|pyvenv\.cfg|share)$/;
const namesBesideVenv =
  /^(\.gitignore|\.lock|CACHEDIR\.TAG|\.virtualenv|\.venv)$/;

function findVenvFolders(prefix) {
  const names = listNames(prefix);
  return names.every(
    (name) => venvNames.test(name) || namesBesideVenv.test(name),
  )
    ? [prefix]
    : names
        .filter((name) => venvNames.test(name))
        .map((name) => path.join(prefix, name));
}

/**
 * The folders and files that a Python needs, from what it said of itself:
 * `{executable, prefixes, basePrefixes, libraries}`.
 */
function findPythonFolders(python, homes) {
  const { executable, basePrefixes = [], libraries = [] } = python;
  const prefixes = unique([...(python.prefixes ?? []), ...basePrefixes]);
  const folders = findStores(executable);
  for (const prefix of prefixes) {
    if (!isOwn(prefix, homes)) {
      folders.push(
        ...libraries.filter((folder) => isWithin(folder, prefix)),
        ...findSharedLibraries(prefix),
      );
    } else if (fs.existsSync(path.join(prefix, 'pyvenv.cfg'))) {
      folders.push(...findVenvFolders(prefix));
    } else {
      folders.push(prefix);
    }
  }
  return unique(folders).filter(
    (folder) => fs.existsSync(folder) && isOwn(folder, homes),
  );
}

// libpython3.12.so.1.0 of a Python that was built with --enable-shared.
function findSharedLibraries(prefix) {
  return ['lib', 'lib64'].flatMap((name) =>
    listNames(path.join(prefix, name))
      .filter((file) => /^libpython3[\w.]*\.so/.test(file))
      .map((file) => path.join(prefix, name, file)),
  );
}

/** The prefix of a Node, if it has one that looks like it: npm lies there. */
function findNodeFolders(executable, homes) {
  const folders = findStores(executable);
  const bin = path.dirname(executable);
  const prefix = path.dirname(bin);
  const isInstallation =
    path.basename(bin) === 'bin' &&
    ['lib/node_modules', 'include/node/node_version.h'].some((name) =>
      fs.existsSync(path.join(prefix, name)),
    );
  return isInstallation && isOwn(prefix, homes)
    ? [...folders, prefix]
    : folders;
}

function realpathOr(file) {
  try {
    return fs.realpathSync(file);
  } catch {
    return path.resolve(file);
  }
}

function unique(values) {
  return [...new Set(values)];
}

module.exports = {
  findHomes,
  findNodeFolders,
  findPythonFolders,
  findStores,
  isOwn,
};
