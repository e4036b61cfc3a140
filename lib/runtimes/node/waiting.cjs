// SPDX-License-Identifier: Apache-2.0
'use strict';

// An interpreter that was started in a ready box, before there was a call.
// join.so takes the call: its limits, its descriptors 0 to 4, its working folder
// (src/join/take.h). What is left to do here is what Node has looked at already:
// the environment, and where the code is taken to lie.

const Module = require('node:module');
const path = require('node:path');

function takeEnvironment(variables) {
  for (const name of Object.keys(process.env)) delete process.env[name];
  for (const variable of variables) {
    const at = variable.indexOf('=');
    process.env[variable.slice(0, at)] = variable.slice(at + 1);
  }
}

/**
 * Waits for the call and becomes its payload; exits if there is none. Returns
 * the driver, to be started.
 */
module.exports = function wait(library, driver) {
  driver.warmUp();
  const addon = { exports: {} };
  process.dlopen(addon, library);
  const taken = addon.exports.take();
  if (taken === null) process.reallyExit(127);
  const [folder, ...variables] = taken.split('\0').slice(0, -1);
  takeEnvironment(variables);
  process.chdir(folder); // It is there: but Node remembers where it was.
  const main = module.parent;
  main.filename = path.join(folder, path.basename(main.filename));
  main.paths = Module._nodeModulePaths(folder);
  return { start: () => driver.start(addon.exports.leave) };
};
