// SPDX-License-Identifier: Apache-2.0
'use strict';

// What a box with the host's network has of the host's /etc besides: how names
// are found, and where else certificates lie. Names are read anew for each Sandbox
// that opens, since hosts change networks; its boxes see what was there then.

const fs = require('node:fs');
const path = require('node:path');
const { SandboxError } = require('../errors.js');
const { rethrowShortage } = require('../images/shortage.js');
const { addEtcFile, hostname, ownHosts } = require('../images/system.js');
const { Tree } = require('../images/tree.js');

// A list of blocked names may have some. The root is a tmpfs of 16 MiB.
const mostBytes = 8 * 2 ** 20;

// Not nsswitch.conf: the services that the host's may name (resolve, mdns) are
// asked by sockets that a box does not have. The stub of systemd-resolved, which
// resolv.conf then names, is an address like any other.
const hostFiles = [
  'services',
  'protocols',
  'networks',
  'gai.conf',
  'host.conf',
  // Fedora and its kin: openssl's own folder, and what the links in it lead to.
  // Not the folder of either: `pki/tls/private` is there.
  'pki/tls/certs',
  'pki/tls/cert.pem',
  'pki/tls/openssl.cnf',
  'pki/ca-trust/extracted',
  'crypto-policies/back-ends',
  'ssl/ca-bundle.pem', // SUSE
];

// Like the rest of a root these are looked for once: it takes longer than a
// call. Their content is that of the host at any time, since they are mounted.
const known = new Map();

function findHostFiles(etc) {
  if (!known.has(etc)) {
    const tree = new Tree();
    for (const name of hostFiles) addEtcFile(tree, name, etc);
    known.set(etc, tree.entries);
  }
  return known.get(etc);
}

/** The entries of a root with the host's network in it. `etc` is for tests. */
function withHostNetwork(entries, etc = '/etc') {
  const tree = new Tree();
  // By content: it often is a link to where a box has nothing, and is replaced
  // by another file when the network changes, which a mount would not follow.
  const resolver = readFile(path.join(etc, 'resolv.conf'));
  if (resolver) tree.file('/etc/resolv.conf', resolver);
  tree.file('/etc/hosts', makeHosts(readFile(path.join(etc, 'hosts'))));
  const added = [...findHostFiles(etc), ...tree.entries];
  const targets = new Set(added.map(({ target }) => target));
  return [...entries.filter(({ target }) => !targets.has(target)), ...added];
}

/** The host's, and the box's own name, which only the box knows. */
function makeHosts(host = Buffer.alloc(0)) {
  const known = new Set(
    host
      .toString('latin1')
      .split('\n')
      .flatMap((line) => line.replace(/#.*/, '').trim().split(/\s+/).slice(1)),
  );
  const own = ownHosts.filter((line) => {
    const name = line.endsWith(hostname) ? hostname : 'localhost';
    return !known.has(name);
  });
  if (own.length === 0) return host;
  return Buffer.concat([host, Buffer.from(`\n${own.join('\n')}\n`)]);
}

/** What the host's programs would read; undefined where that is nothing. */
function readFile(file) {
  let fd;
  try {
    fd = fs.openSync(file, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
    const stat = fs.fstatSync(fd);
    if (!stat.isFile()) throw unusable(file, 'is no regular file');
    if (stat.size > mostBytes) throw unusable(file, 'is larger than 8 MiB');
    return fs.readFileSync(fd);
  } catch (error) {
    if (error instanceof SandboxError) throw error;
    rethrowShortage(error);
    return undefined;
  } finally {
    if (fd !== undefined) fs.closeSync(fd);
  }
}

function unusable(file, problem) {
  const remedy = 'Put it right, or leave network: true out.';
  return new SandboxError(
    `The box could not be set up: ${file} ${problem}, and a box with ` +
      `network: true gets its content. ${remedy}`,
    { code: 'ERR_SANDBOX_SETUP', step: 'network', remedy },
  );
}

module.exports = { withHostNetwork };
