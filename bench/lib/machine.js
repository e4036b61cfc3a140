// SPDX-License-Identifier: Apache-2.0
'use strict';

// On what a number was measured: without it a number says nothing.

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');

const cgroup2Magic = 0x63677270;

function readCgroupMode() {
  try {
    const { type } = fs.statfsSync('/sys/fs/cgroup');
    return type === cgroup2Magic ? 'v2' : 'v1';
  } catch {
    return 'none';
  }
}

function describeMachine({ python, node }) {
  return {
    date: new Date().toISOString().slice(0, 10),
    cpu: os.cpus()[0]?.model ?? 'unknown',
    cores: os.availableParallelism(),
    memoryGb: Math.round(os.totalmem() / 2 ** 30),
    kernel: os.release(),
    node: `${node.version} (${node.executable})`,
    python: `${python.version} (${python.executable})`,
    bwrap: execFileSync('/usr/bin/bwrap', ['--version'], { encoding: 'utf8' })
      .trim()
      .split(' ')
      .at(-1),
    cgroup: readCgroupMode(),
    user: process.getuid() === 0 ? 'root' : 'plain user',
  };
}

module.exports = { describeMachine };
