// SPDX-License-Identifier: Apache-2.0
'use strict';

// On a machine that makes boxes impossible: it is said at once, with the cause
// and what to do about it, and nothing is left.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const { test } = require('node:test');

const { SandboxError, doctor, runCode } = require('../../..');

const expected = JSON.parse(process.env.GLOVEBOX_VM_REFUSAL);

// Two seconds on a machine that is not emulated.
const mostMs = 20000;

for (const which of ['first', 'second']) {
  test(`the ${which} call is refused with cause and remedy`, async (t) => {
    const before = fs.readdirSync(os.tmpdir());
    const started = Date.now();
    const error = await runCode('print(1)').then(
      (result) => assert.fail(`it ran: ${JSON.stringify(result)}`),
      (reason) => reason,
    );
    const tookMs = Date.now() - started;
    t.diagnostic(`${error.code} after ${tookMs} ms: ${error.message}`);
    assert.ok(error instanceof SandboxError, error.stack);
    assert.equal(error.code, expected.code);
    for (const part of expected.message) {
      assert.ok(error.message.includes(part), `"${part}" in: ${error.message}`);
    }
    for (const part of expected.without ?? []) {
      assert.ok(!error.message.includes(part), `"${part}" in ${error.message}`);
    }
    assert.ok(tookMs < mostMs, `${tookMs} ms`);
    assert.deepEqual(fs.readdirSync(os.tmpdir()), before);
  });
}

test('doctor() says the same', async (t) => {
  const error = await runCode('print(1)').catch((reason) => reason);
  const report = await doctor();
  t.diagnostic(String(report));
  assert.equal(report.ok, false);
  const box = report.checks.find(({ name }) => name === 'box');
  assert.equal(box.ok, false);
  assert.equal(`${box.cause} ${box.fix}`, error.remedy);
});
