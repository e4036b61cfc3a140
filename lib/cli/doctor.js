// SPDX-License-Identifier: Apache-2.0
'use strict';

// `glovebox doctor [--json]`: exit code 0 where boxes work, 1 where not.

const { doctor } = require('../doctor.js');

async function main(args) {
  const [option] = args;
  if (args.length > 1 || (args.length === 1 && option !== '--json')) {
    console.error('usage: glovebox doctor [--json]');
    process.exitCode = 2;
    return;
  }
  const report = await doctor();
  console.log(
    option === '--json' ? JSON.stringify(report, null, 2) : String(report),
  );
  process.exitCode = report.ok ? 0 : 1;
}

module.exports = { main };
