// SPDX-License-Identifier: Apache-2.0

import e2b = require('glovebox/e2b');

export async function viaRequire(): Promise<string | undefined> {
  const sandbox: e2b.Sandbox = await e2b.Sandbox.create({ timeoutMs: 1000 });
  const execution: e2b.Execution = await sandbox.runCode('1');
  return execution.text;
}
