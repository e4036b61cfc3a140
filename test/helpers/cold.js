// SPDX-License-Identifier: Apache-2.0
'use strict';

// Loaded before all else where each interpreter is to be started for its call
// (scripts/test.js), in this process and in those that tests start: a Sandbox is
// one of `warm: false`, if it does not ask for the contrary.

const { isRecord } = require('../../lib/option-kinds.js');
const sandboxes = require('../../lib/sandbox.js');

const { Sandbox: AsItIs } = sandboxes;

sandboxes.Sandbox = class Sandbox extends AsItIs {
  constructor(options = {}) {
    // A spec says so itself.
    const takesIt = isRecord(options) && options.spec == null;
    super(takesIt ? { warm: false, ...options } : options);
  }
};
