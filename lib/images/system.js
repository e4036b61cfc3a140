// SPDX-License-Identifier: Apache-2.0
'use strict';

// What every host image has: the host's programs and libraries, and an /etc of
// ours with those files of the host's that describe its software and nothing
// else. Never /etc as a whole: it holds keys and passwords, and a plain user's
// box reads what that user can.

const fs = require('node:fs');
const path = require('node:path');
const { listNames } = require('./shortage.js');
const { isWithin } = require('./tree.js');

const hostname = 'glovebox';

// Symlinks into /usr on most hosts, folders on the others.
const topFolders = ['bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32'];

// Without a network "localhost" must still have both its addresses.
const ownHosts = [
  '127.0.0.1 localhost',
  '::1 localhost ip6-localhost ip6-loopback',
  `127.0.0.1 ${hostname}`,
];

const ownFiles = {
  passwd: [
    'root:x:0:0:root:/root:/usr/sbin/nologin',
    'user:x:1000:1000:user:/home/user:/bin/bash',
    'nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin',
  ],
  group: ['root:x:0:', 'user:x:1000:', 'nogroup:x:65534:'],
  hosts: ownHosts,
  hostname: [hostname],
  // The host's may name services (sss, systemd, mdns) that a box cannot reach.
  'nsswitch.conf': [
    'passwd: files',
    'group: files',
    'shadow: files',
    'hosts: files dns',
    'networks: files',
    'protocols: files',
    'services: files',
  ],
};

// Of /etc/ssl not the folder: it holds `private`.
const hostFiles = [
  'ld.so.cache',
  'ld.so.conf',
  'ld.so.conf.d',
  'alternatives',
  'ssl/certs',
  'ssl/cert.pem',
  'ssl/openssl.cnf',
  'ca-certificates',
  'ca-certificates.conf',
  'localtime',
  'mime.types',
  'fonts',
  'matplotlibrc',
];
const hostPatterns = [/^python3[\d.]*$/, /^java-/];

function addUserland(tree) {
  tree.bind('/usr');
  for (const name of topFolders) {
    const file = `/${name}`;
    const stat = fs.lstatSync(file, { throwIfNoEntry: false });
    if (stat?.isSymbolicLink()) tree.symlink(file, fs.readlinkSync(file));
    else if (stat?.isDirectory()) tree.bind(file);
  }
  // On NixOS all programs are symlinks into the store.
  if (isWithin(realpath('/bin/sh') ?? '/', '/nix/store')) {
    tree.bind('/nix/store');
  }
}

function addEtc(tree, etc = '/etc') {
  for (const [name, lines] of Object.entries(ownFiles)) {
    tree.file(`/etc/${name}`, `${lines.join('\n')}\n`);
  }
  const matching = listNames(etc).filter((name) =>
    hostPatterns.some((pattern) => pattern.test(name)),
  );
  for (const name of [...hostFiles, ...matching]) {
    addEtcFile(tree, name, etc);
  }
}

// A symlink stays one where what it points to is in the box too: /etc/localtime
// tells the name of the time zone only so.
function addEtcFile(tree, name, etc) {
  const file = path.join(etc, name);
  const source = realpath(file);
  if (source === undefined) return;
  const target = `/etc/${name}`;
  const text = readlink(file);
  const pointsTo = text && path.resolve(path.dirname(target), text);
  if (
    pointsTo &&
    ['/usr', '/etc/alternatives'].some((folder) => isWithin(pointsTo, folder))
  ) {
    tree.symlink(target, text);
  } else {
    tree.bind(target, source);
  }
}

function realpath(file) {
  try {
    return fs.realpathSync(file);
  } catch {
    return undefined;
  }
}

function readlink(file) {
  try {
    return fs.readlinkSync(file);
  } catch {
    return undefined;
  }
}

module.exports = { addEtc, addEtcFile, addUserland, hostname, ownHosts };
