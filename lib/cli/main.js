#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
'use strict';

// `npx glovebox COMMAND`: one file a command.

const { version } = require('../../package.json');

const usage = 'usage: glovebox doctor [--json]';

const commands = {
  doctor: './doctor.js',
};

const [name, ...args] = process.argv.slice(2);
if (Object.hasOwn(commands, name ?? '')) {
  require(commands[name]).main(args);
} else if (name === '--version') {
  console.log(version);
} else if (name === '--help' || name === '-h') {
  console.log(usage);
} else {
  console.error(usage);
  process.exitCode = 2;
}
