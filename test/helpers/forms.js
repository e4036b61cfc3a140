// SPDX-License-Identifier: Apache-2.0
'use strict';

/**
 * The two ways in which a session runs Python. `begin(sandbox)` resolves with a
 * function that runs one piece of code: each in a box of its own, or all in one
 * Kernel.
 */
const forms = [
  {
    name: 'by runCode',
    async begin(sandbox) {
      return (code, options) => sandbox.runCode(code, options);
    },
  },
  {
    name: 'in a Kernel',
    async begin(sandbox) {
      const kernel = await sandbox.kernel();
      return (code, options) => kernel.runCode(code, options);
    },
  },
];

module.exports = { forms };
