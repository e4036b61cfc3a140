// SPDX-License-Identifier: Apache-2.0
'use strict';

// The end of an interpreter that was started before its call. Node takes its
// heap and its threads apart, which is a good part of a short call, and all of
// it is memory that the kernel takes back anyway. What code can see of the end,
// exit handlers and exit codes, has happened when the process is left here; and
// where there may be more, Node's own end comes after all: what the code left to
// Node's threads, the log of trace events, the hooks of addons (of which
// `leave` knows, and returns).
//
// The code may have replaced whatever it can reach, so all that is used here was
// taken before it came, and what throws is no reason to leave.

const process = require('node:process');

const { getEnabledCategories } = loadTraceEvents();
const { apply } = Reflect;
const { isInteger } = Number;
const { listeners, on, off, getActiveResourcesInfo } = process;

/** Not every build of Node has them. */
function loadTraceEvents() {
  try {
    return require('node:trace_events');
  } catch {
    return { getEnabledCategories: () => undefined };
  }
}

/** Whether Node's threads have files to write, rename or remove. */
function hasFileWork() {
  const resources = apply(getActiveResourcesInfo, process, []);
  for (let i = 0; i < resources.length; i++) {
    if (resources[i] === 'FSReqCallback' || resources[i] === 'FSReqPromise')
      return true;
  }
  return false;
}

/**
 * Ends the process by `leave(code)`, at process.exit() and when nothing is left
 * to do. `reportUncaught` is who is told of errors that nobody caught: of those
 * Node writes to stderr when exit handlers have run.
 */
function endBy(leave, reportUncaught) {
  const { reallyExit } = process;
  let hasFailed = false;

  function leaveWith(code) {
    // What is no such number Node has a reading of.
    if (isInteger(code) && getEnabledCategories() === undefined) leave(code);
  }

  function end(code) {
    try {
      if (!hasFileWork()) leaveWith(code);
    } catch {
      // As if it were not there.
    }
    apply(reallyExit, process, [code]);
  }

  function isTold() {
    const told = apply(listeners, process, ['uncaughtExceptionMonitor']);
    for (let i = 0; i < told.length; i++) {
      if (told[i] === reportUncaught) return true;
    }
    return false;
  }

  function endLast() {
    try {
      if (hasFailed || !isTold() || process.reallyExit !== end) return;
      // It may be the code that has said so.
      if (process._exiting !== true) return;
      // The code's may have left promises, which Node then looks after.
      if (apply(listeners, process, ['exit']).length > 1) return;
      leaveWith(process.exitCode ?? 0);
    } catch {
      // As above.
    }
  }

  process.reallyExit = end;
  process.on('uncaughtExceptionMonitor', () => {
    hasFailed = true;
  });
  // Each time that nothing is left to do.
  process.on('beforeExit', () => {
    apply(off, process, ['exit', endLast]);
    apply(on, process, ['exit', endLast]);
  });
}

module.exports = { endBy };
