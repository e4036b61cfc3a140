// SPDX-License-Identifier: Apache-2.0
'use strict';

// How node is started for a cell. Used on the host; the other files of this
// folder run in the box and must work from Node 18 on.

const driverInBox = '/run/glovebox/runtimes/node/driver.cjs';
const waitingInBox = '/run/glovebox/runtimes/node/waiting.cjs';

/**
 * JavaScript that loads a file of ours. The line of -e has no name meanwhile, or
 * Node would first parse the package.json of the working folder, and fail if that
 * is not right. With NODE_OPTIONS=--input-type=module the line runs as a module,
 * which has no `require`; the global `module` is then the built-in module.
 */
function load(file) {
  const name = JSON.stringify(file);
  const nameless = `(f=>{module.filename=null;try{return require(${name})}finally{module.filename=f}})(module.filename)`;
  return `(globalThis.require?${nameless}:module.createRequire('/')(${name}))`;
}

/**
 * The argv that runs one cell, sent over descriptor 3.
 *
 * The driver is not the main program but is loaded by a line of `-e`, since
 * only `-e` gives code the surroundings that it expects: `require`, `module`,
 * `exports` and the built-in modules as globals, modules looked up from the
 * working folder, and no file in `process.argv`. The code itself cannot be that
 * line: an argument is at most 128 KiB.
 */
function nodeArgv(executable, driver = driverInBox) {
  return [
    executable,
    // For vm.SourceTextModule: the driver needs it where module.registerHooks
    // does not exist yet. Remove once Node 22.15 is the floor.
    '--experimental-vm-modules',
    '-e',
    `${load(driver)}.start()`,
  ];
}

/** The argv of an interpreter that is started before there is a cell. */
function standbyArgv(executable, library) {
  const wait = `${load(waitingInBox)}(${JSON.stringify(library)},${load(driverInBox)})`;
  return [...nodeArgv(executable).slice(0, -1), `${wait}.start()`];
}

module.exports = { nodeArgv, standbyArgv };
