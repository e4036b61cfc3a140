// SPDX-License-Identifier: Apache-2.0
'use strict';

// Loaded before all else where each interpreter is to be started for its call
// (scripts/test.js), in this process and in those that tests start: a Sandbox is
// one of `warm: false`, if it does not ask for the contrary, and a one-shot call
// has one of those.

const { isRecord } = require('../../lib/option-kinds.js');
const sandboxes = require('../../lib/sandbox.js');

function cold(options = {}) {
  // A spec says so itself.
  const takesIt = isRecord(options) && options.spec == null;
  return takesIt ? { warm: false, ...options } : options;
}

const { Sandbox: AsItIs } = sandboxes;

sandboxes.Sandbox = class Sandbox extends AsItIs {
  constructor(options) {
    super(cold(options));
  }
};

// It takes the class from there.
const oneShot = require('../../lib/one-shot.js');

const { runCode } = oneShot;

oneShot.runCode = (code, options) => runCode(code, cold(options));
