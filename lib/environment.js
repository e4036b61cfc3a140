// SPDX-License-Identifier: Apache-2.0
'use strict';

// The environment of a payload, all of it: nothing of the host's leaks in.

const standardPath = [
  '/usr/local/sbin',
  '/usr/local/bin',
  '/usr/sbin',
  '/usr/bin',
  '/sbin',
  '/bin',
];

// LC_ALL is left unset, so that code can choose a locale; TMPDIR, since /tmp is
// what everyone assumes; TERM, since there is no terminal.
function baseEnvironment(firstOnPath) {
  return {
    PATH: [...new Set([...firstOnPath, ...standardPath])].join(':'),
    HOME: '/home/user',
    USER: 'user',
    LOGNAME: 'user',
    LANG: 'C.UTF-8',
  };
}

/** "NAME=value" strings; a later Map of `layers` wins over an earlier one. */
function environmentOf(firstOnPath, ...layers) {
  const merged = new Map(Object.entries(baseEnvironment(firstOnPath)));
  for (const layer of layers) {
    for (const [name, value] of layer ?? []) merged.set(name, value);
  }
  return Array.from(merged, ([name, value]) => `${name}=${value}`);
}

module.exports = { environmentOf };
