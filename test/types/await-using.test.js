// SPDX-License-Identifier: Apache-2.0
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const ts = require('typescript');
const { descendants, glovebox, test } = require('../helpers/harness.js');

test('await using closes what it holds, the last first, also after a throw', async () => {
  // Node.js 20 has the symbol and not the syntax: TypeScript has that.
  const { outputText } = ts.transpileModule(
    `exports.use = async function ({ Sandbox }, seen) {
       await using sandbox = await new Sandbox().open();
       await using kernel = await sandbox.kernel();
       await using watcher = await sandbox.watch();
       await using child = sandbox.spawn(['sleep', '300']);
       Object.assign(seen, { sandbox, kernel, watcher, child });
       seen.cell = await kernel.runCode('6 * 7');
       seen.ended = child.wait();
       seen.ended.catch(() => {});
       throw new RangeError('mine');
     };`,
    { compilerOptions: { target: 'ES2022', module: 'CommonJS' } },
  );
  assert.doesNotMatch(outputText, /await using/);
  const module = { exports: {} };
  new Function('exports', outputText)(module.exports);
  const seen = {};
  // Its own error, not one of the closing.
  await assert.rejects(module.exports.use(glovebox, seen), {
    name: 'RangeError',
    message: 'mine',
  });
  assert.equal(seen.cell.results[0].text, '42');
  assert.ok(!descendants().some(({ name }) => name === 'sleep'));
  assert.ok(!fs.existsSync(seen.sandbox.workspace));
  // Not ERR_SANDBOX_CLOSED: it was ended before its Sandbox was.
  await assert.rejects(seen.ended, { code: 'ERR_SANDBOX_ABORTED' });
  await assert.rejects(seen.kernel.runCode('1'), {
    code: 'ERR_SANDBOX_CLOSED',
  });
  await assert.rejects(seen.sandbox.run(['true']), {
    code: 'ERR_SANDBOX_CLOSED',
  });
  assert.deepEqual(await seen.watcher.next(), { done: true, value: undefined });
});
