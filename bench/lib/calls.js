// SPDX-License-Identifier: Apache-2.0
'use strict';

// The calls whose speed has a goal, and what they are measured against: the
// same real executables as in the box.

const assert = require('node:assert');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const { Sandbox, runCode } = require('../..');
const { bwrapArgv, timeCommand } = require('./commands.js');
const { burst, works } = require('./goals.js');
const { timeFunction } = require('./measure.js');

const imports = 'import numpy, pandas';

// The distribution's, where there is one: what else is called python3 on PATH
// often costs several times as much to start, which would flatter us.
function choosePython(wanted) {
  const path = wanted ?? '/usr/bin/python3';
  return fs.existsSync(path) ? path : undefined;
}

// The box knows best which interpreter it runs, and the host image has it at
// the same path.
async function findExecutables(sandbox) {
  const python = await sandbox.runCode(
    'import os, platform\n' +
      'print(os.readlink("/proc/self/exe"), platform.python_version())',
  );
  const node = await sandbox.runCode(
    'console.log(require("fs").readlinkSync("/proc/self/exe"), process.version)',
    { language: 'node' },
  );
  const split = ({ stdout }) => {
    const [executable, version] = stdout.trim().split(' ');
    return { executable, version };
  };
  return { python: split(python), node: split(node) };
}

// A failed run is often a quick one.
async function expectOutput(result, stdout) {
  const { stdout: seen, exitCode, fault } = await result;
  assert.deepStrictEqual(
    { stdout: seen, exitCode, fault },
    { stdout, exitCode: 0, fault: null },
  );
}

async function expectTwo(result) {
  const { results, error } = await result;
  assert.deepStrictEqual([results[0]?.text, error], ['2', null]);
}

// undefined where this version has no such thing.
async function openPreloaded(session) {
  let sandbox;
  try {
    sandbox = new Sandbox({ ...session, preload: ['numpy', 'pandas'] });
  } catch (error) {
    if (error.option !== 'preload') throw error;
    return undefined;
  }
  return sandbox.open();
}

function hasPackages(python) {
  return spawnSync(python, ['-c', imports]).status === 0;
}

/**
 * `{series, missing, close}`: what can be measured, and a Map of what cannot to
 * why. A series has a `weight`: "light", "burst" or "heavy".
 */
async function defineCalls(sandbox, session, { python, node }) {
  const missing = new Map();
  const light = (one) => ({ ...one, weight: 'light' });
  const heavy = (one) => ({ ...one, weight: 'heavy' });
  const printOne = (target) => expectOutput(target.runCode('print(1)'), '1\n');
  const kernel = await sandbox.kernel();
  const series = [
    light(timeCommand(works.true, ['/usr/bin/true'])),
    light(timeCommand(works.bwrap, bwrapArgv(['/usr/bin/true']))),
    light(timeCommand(works.python, [python.executable, '-c', 'print(1)'])),
    heavy(timeCommand(works.node, [node.executable, '-e', '1'])),
    light(
      timeFunction(works.run, () => expectOutput(sandbox.run(['true']), '')),
    ),
    light(timeFunction(works.code, () => printOne(sandbox))),
    light(
      timeFunction(works.oneShot, () =>
        expectOutput(runCode('print(1)', session), '1\n'),
      ),
    ),
    {
      ...timeFunction(works.burst, () =>
        Promise.all(Array.from({ length: burst }, () => printOne(sandbox))),
      ),
      weight: 'burst',
    },
    heavy(
      timeFunction(works.nodeCode, () =>
        expectTwo(sandbox.runCode('1+1', { language: 'node' })),
      ),
    ),
    light(timeFunction(works.cell, () => expectTwo(kernel.runCode('1+1')))),
  ];

  let preloaded;
  if (hasPackages(python.executable)) {
    series.push(
      heavy(timeCommand(works.pandas, [python.executable, '-c', imports])),
    );
    preloaded = await openPreloaded(session);
    if (preloaded) {
      series.push(
        heavy(
          timeFunction(works.preload, () =>
            expectOutput(preloaded.runCode(imports), ''),
          ),
        ),
      );
    } else {
      missing.set(works.preload, 'not built');
    }
  } else {
    missing.set(works.pandas, 'skipped: numpy and pandas are not installed');
  }

  async function close() {
    await kernel.close();
    await preloaded?.close();
  }
  return { series, missing, close };
}

module.exports = { choosePython, defineCalls, findExecutables };
