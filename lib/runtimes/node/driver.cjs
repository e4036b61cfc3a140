// SPDX-License-Identifier: Apache-2.0
'use strict';

// Theory of operation
// -------------------
// argv.js starts `node -e` with one line that loads this file and starts it. It
// reads the cell from the control socket before anything of the code runs, decides
// whether it is a script or a module, and lets Node run it in the next tick,
// when the line of `-e` has ended and the event loop has not begun. From there
// on it is Node's own affair: timers, rejections and exit codes need no help.
//
// The code must look as if it were all that runs. So Node's own functions are
// queued, bound to their arguments, and no function of the driver lies below
// the code on the stack; and what the driver left in `process` and in the
// module cache is taken back.
//
// The names of a script are global names: its `function process()` takes the place of
// Node's. So what the driver's files need of those they take by require() at first.
//
// The driver stays for two things: it shows values, those that the code gives to
// display() and that of its last expression; and when an uncaught error takes the
// process down, it tells the host about it. A cell that ends in any other way sends no
// DONE: the exit code says it all.

const Module = require('node:module');
const path = require('node:path');
const process = require('node:process');
const util = require('node:util');
const { Script, compileFunction } = require('node:vm');
const { readCell, sendDone, sendResult } = require('./control-socket.cjs');
const { parse, withoutWarnings } = require('./parse.cjs');

// The names that `node -e` gives to a script, to a module, and to a second
// module, where its own line is one: without `require` it runs as a module, as
// NODE_OPTIONS may say that all code does.
const lineIsModule = typeof globalThis.require !== 'function';
const scriptName = '[eval]';
const moduleName = lineIsModule ? '[eval2]' : '[eval1]';

// A frame of any of them in a stack trace.
const evalFrame = /(?:\[eval\]|file:\S*\[eval[12]\]):(\d+)/;

// The options have two names: `assert` is that of older versions.
const importerSource = `module.exports = (specifier, _referrer, attributes) =>
  attributes && Object.keys(attributes).length > 0
    ? import(specifier, { with: attributes, assert: attributes })
    : import(specifier);`;

/**
 * An `import()` that resolves as code in `folder` would and that loads with
 * Node's own loader: the driver's own `import()` would resolve from its place.
 * It can be given to node:vm as `importModuleDynamically`, in which Node's
 * constant for the same purpose prints a warning.
 */
function importerIn(folder) {
  const referrer = new Module(moduleName);
  referrer.filename = path.join(folder, moduleName);
  referrer.paths = Module._nodeModulePaths(folder);
  referrer._compile(importerSource, referrer.filename);
  return referrer.exports;
}

// What lies below a script on the stack: by its name, a frame of `node -e`.
const runScript = compileFunction('show(run())', ['run', 'show'], {
  filename: '[eval]-wrapper',
});

// `--pending-deprecation` would tell the code that it is not to be used.
const parent = withoutWarnings(() => module.parent);

// Loaded at the first use, which most cells have none of.
let loadedResults;

function results() {
  if (!loadedResults) {
    loadedResults = require('./results.cjs');
    loadedResults.setSender(sendResult);
    hideModules();
  }
  return loadedResults;
}

function defineDisplay() {
  Object.defineProperty(globalThis, 'display', {
    value: function display(...values) {
      results().display(...values);
    },
    configurable: true,
    writable: true,
  });
}

function run(code) {
  const folder = process.cwd();
  const options = {
    filename: scriptName,
    importModuleDynamically: importerIn(folder),
  };
  const cell = parse(code, (source) => new Script(source, options));
  if (cell.isModule || lineIsModule) {
    // Loaded only here: most cells are scripts.
    const { evaluateModule } = require('./module.cjs');
    evaluateModule({
      source: cell.source,
      folder,
      name: moduleName,
      load: options.importModuleDynamically,
      show: (namespace) => results().showMain(namespace.default),
    });
  } else if (cell.script) {
    process.nextTick(restoreModule);
    const evaluate = cell.script.runInThisContext.bind(cell.script);
    process.nextTick(runScript, evaluate, (value) => {
      // Most scripts end in a call of console.log().
      if (value !== undefined) results().showScript(cell.source, value);
    });
  } else {
    // Throws the SyntaxError again, with nothing of the driver on the stack.
    process.nextTick(Reflect.construct, Script, [code, options]);
  }
}

// `node -e` gives the global `module` back to the built-in module when its line
// has ended.
function restoreModule() {
  globalThis.module = parent;
}

// process.exit() drops what was written but found no room in the pipe, and Node
// leaves the pipe non-blocking for the programs that share it. A blocking pipe
// ends both, and blocks nobody for long: the engine always reads. It is done at
// the first use, since making the streams takes as long as all of the driver.
function blockOnWrite(name) {
  const property = Object.getOwnPropertyDescriptor(process, name);
  Object.defineProperty(process, name, {
    ...property,
    get() {
      Object.defineProperty(process, name, property);
      const stream = process[name];
      stream._handle?.setBlocking?.(true);
      return stream;
    },
  });
}

function hideModules() {
  for (const file of Object.keys(require.cache)) {
    if (file.startsWith(__dirname)) delete require.cache[file];
  }
}

function hideDriver() {
  hideModules();
  parent?.children.splice(0);
  // What child_process.fork() hands on must not load the driver again.
  process.execArgv = [];
}

/** What `read` gives as text; anything can be thrown, and reading it can throw. */
function textOf(read, otherwise) {
  try {
    return String(read());
  } catch {
    return otherwise;
  }
}

/** Also those that are made by hand, as DOMException and errors of workers are. */
function isError(thrown) {
  try {
    return util.types.isNativeError(thrown) || thrown instanceof Error;
  } catch {
    return false;
  }
}

/**
 * Where in the code of a module a SyntaxError is, which Node keeps apart from its
 * stack: the place and the line of the code. Empty where that is not known.
 */
function placeOf(error) {
  try {
    const { internalBinding } = require('./internals.cjs');
    hideModules();
    const { privateSymbols } = internalBinding('util');
    const place = error[privateSymbols.arrow_message_private_symbol];
    return typeof place === 'string' ? place.trimEnd() : '';
  } catch {
    return '';
  }
}

/** As Node prints it: with its causes, if it has any. */
function tracebackOf(error) {
  const stack = textOf(() => error.stack, '');
  const place = error instanceof SyntaxError ? placeOf(error) : '';
  const text = textOf(() => util.inspect(error), stack);
  return place && !text.includes(place) ? `${place}\n\n${text}` : text;
}

function describeError(thrown, cellFrame = evalFrame) {
  if (!isError(thrown)) {
    const shown = textOf(() => util.inspect(thrown), `[${typeof thrown}]`);
    return {
      name: typeof thrown,
      message: typeof thrown === 'string' ? thrown : shown,
      traceback: `Uncaught ${shown}`,
      line: null,
    };
  }
  const traceback = tracebackOf(thrown);
  const frame = cellFrame.exec(traceback);
  return {
    name: textOf(() => thrown.name, 'Error'),
    message: textOf(() => thrown.message, ''),
    traceback,
    line: frame ? Number(frame[1]) : null,
  };
}

function reportUncaught(thrown) {
  const isHandled =
    process.listenerCount('uncaughtException') > 0 ||
    process.hasUncaughtExceptionCaptureCallback();
  if (isHandled) return;
  let error = null;
  try {
    error = describeError(thrown);
  } catch {
    // Anything can be thrown, and reading it can throw again. Then the host
    // gets no more than the exit code.
  }
  sendDone({ exitCode: 1, error });
}

function serveKernel() {
  const { serve } = require('./kernel.cjs');
  // Now, since an interrupt in the middle would leave half of a module for good.
  const { showMain, startCell } = results();
  serve({ describeError, importerIn, showMain, startCell });
}

/**
 * Has all that most cells need loaded, compiled and run once. For an interpreter
 * that waits; it sends nothing and leaves nothing.
 */
function warmUp() {
  require('node:net'); // Node itself does for its first stream.
  require('./ending.cjs');
  require('./internals.cjs').find(); // Which kernels need.
  // Not by results(), which hides what start() has yet to load.
  loadedResults = require('./results.cjs');
  const { setSender, showScript, startCell } = loadedResults;
  setSender(() => {});
  const { source, script } = parse(
    '[{ warm: "up" }]',
    (text) => new Script(text, { importModuleDynamically: importerIn('/') }),
  );
  showScript(source, script.runInThisContext());
  setSender(sendResult);
  startCell();
}

/** `leave(code)` ends the process at once; without it Node's own end does. */
function start(leave) {
  const cell = readCell();
  if (cell?.kernel) {
    blockOnWrite('stdout');
    blockOnWrite('stderr');
    defineDisplay();
    process.nextTick(restoreModule);
    serveKernel();
    hideDriver();
  } else if (cell) {
    process.on('uncaughtExceptionMonitor', reportUncaught);
    // Only now: it has to be told of errors that nobody catches too.
    if (leave) require('./ending.cjs').endBy(leave, reportUncaught);
    blockOnWrite('stdout');
    blockOnWrite('stderr');
    defineDisplay();
    run(cell.code);
    hideDriver();
  }
}

module.exports = { start, warmUp };
