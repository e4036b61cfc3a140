// SPDX-License-Identifier: Apache-2.0
'use strict';

// What the hostile tests of kernels share.

const assert = require('node:assert/strict');

/** Of the driver: where cells come from, and where its frames go. */
const [cellFd, answerFd] = [200, 201];
const dead = { code: 'ERR_SANDBOX_KERNEL_DEAD' };

/** The kernel answers, and its driver calculates. */
async function check(kernel, title) {
  const result = await kernel.runCode('6 * 7');
  assert.equal(result.results[0]?.text, '42', title);
}

/** No reply has reached the prototypes of this process. */
function assertUnharmed(title) {
  assert.deepEqual(Object.keys(Object.prototype), [], title);
  assert.equal({}.success, undefined, title);
}

module.exports = { answerFd, assertUnharmed, cellFd, check, dead };
