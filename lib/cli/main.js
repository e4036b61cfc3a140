#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
'use strict';

// `npx glovebox COMMAND`: one file a command.

const commands = {
  doctor: './doctor.js',
};

const [name, ...args] = process.argv.slice(2);
if (Object.hasOwn(commands, name ?? '')) {
  require(commands[name]).main(args);
} else {
  console.error('usage: glovebox doctor [--json]');
  process.exitCode = 2;
}
