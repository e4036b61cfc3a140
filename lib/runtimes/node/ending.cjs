// SPDX-License-Identifier: Apache-2.0
'use strict';

// The end of an interpreter that was started before its call. Node takes its
// heap and its threads apart, which is a good part of a short call, and all of
// it is memory that the kernel takes back anyway. What code can see of the end,
// exit handlers and exit codes, has happened when the process is left here; and
// where it may see more, in the hooks of addons, Node's own end comes after all.

function hasAddons() {
  return Object.keys(require.cache).some((file) => file.endsWith('.node'));
}

/**
 * Ends the process by `leave(code)`, at process.exit() and when nothing is left
 * to do. `reportUncaught` is who is told of errors that nobody caught: of those
 * Node writes to stderr when exit handlers have run.
 */
function endBy(leave, reportUncaught) {
  const { reallyExit } = process;
  let hasFailed = false;

  function end(code) {
    if (hasAddons()) reallyExit.call(process, code);
    else leave(code);
  }

  function endLast() {
    const isTold = process
      .listeners('uncaughtExceptionMonitor')
      .includes(reportUncaught);
    if (hasFailed || !isTold || process.reallyExit !== end || hasAddons())
      return;
    if (process.listeners('exit').at(-1) === endLast)
      leave(Number(process.exitCode ?? 0));
  }

  process.reallyExit = end;
  process.on('uncaughtExceptionMonitor', () => {
    hasFailed = true;
  });
  // Each time that nothing is left to do, behind all exit handlers there are.
  process.on('beforeExit', () => {
    process.off('exit', endLast);
    process.on('exit', endLast);
  });
}

module.exports = { endBy };
