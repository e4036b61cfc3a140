// SPDX-License-Identifier: Apache-2.0

// A CommonJS module, which gets index.d.ts, beside the ES modules, which get
// index.d.mts.

import glovebox = require('glovebox');

export async function viaRequire(): Promise<glovebox.ExecutionResult> {
  // @ts-expect-error: no such language
  await glovebox.runCode('1', { language: 'ruby' });
  return glovebox.runCode('1', { language: 'bash' });
}
