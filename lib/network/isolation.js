// SPDX-License-Identifier: Apache-2.0
'use strict';

// What `network: true` opens, and what of that the kernel can still shut. The
// network namespace of a box shuts all of it otherwise.

/** Of Landlock, where the kernel has them: what landlock.c of the launcher sets. */
const scopes = ['abstract unix sockets', 'signals'];

const reachable = [
  "the host's network: the internet, the networks that the host is in, and what " +
    'listens on its loopback addresses (databases, metadata services of clouds)',
  "ports of the host from 1024: what listens there in a box is the host's to " +
    'all who can reach it',
  'sockets, addresses, routes and neighbours of the host, in /proc/net and by ' +
    'netlink, to be read',
];

const openSockets =
  'abstract unix sockets of the host: this kernel has no Landlock scopes ' +
  '(Linux 6.12, with landlock among its `lsm=`)';

/** For plan(): `scoped` is what the session's info says. */
function describeNetwork(isShared, scoped) {
  if (!isShared) return { network: 'loopback', scopes: [], relaxes: [] };
  return {
    network: 'host',
    scopes: scoped ? [...scopes] : [],
    relaxes: scoped ? [...reachable] : [...reachable, openSockets],
  };
}

let hasWarned = false;

/** Warns, once in a thread, of what no option asked to open. */
function warnOfOpenSockets(isShared, scoped) {
  if (!isShared || scoped || hasWarned) return;
  hasWarned = true;
  process.emitWarning(
    'with network: true code can reach the abstract unix sockets of this host ' +
      '(those of D-Bus or X11, say), which have no permissions: the kernel has ' +
      'no Landlock scopes, which came with Linux 6.12, or Landlock is off (its ' +
      'name must be in the boot option `lsm=`). `node ' +
      '--disable-warning=GLOVEBOX_NETWORK` (Node 20.11) only hides this text.',
    { type: 'GloveboxWarning', code: 'GLOVEBOX_NETWORK' },
  );
}

module.exports = { describeNetwork, warnOfOpenSockets };
