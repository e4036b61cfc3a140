// SPDX-License-Identifier: Apache-2.0
'use strict';

// A kernel: cell after cell in one process, whose event loop goes on between
// them, so that timers and servers of a cell live on.
//
// A cell runs in two parts. The first is what it does at once, and every promise
// that then has a value: it runs under node:vm's `breakOnSigint`, which ends even
// an endless loop. What is left is awaited in the event loop; there an interrupt
// ends the cell, but not what it has started: JavaScript cannot be taken back.
//
// Under node:vm the end may come between any two steps, also of ours and of Node's
// own. So a cell is answered outside of it (finish(), fail()), and what Node has
// noted of who runs for whom is put back (holdCallbacks()).
//
// An interrupt that was sent before a cell has begun is found by its frame, which
// lies in the socket behind the cell (docs/protocol.md); so is one in the event
// loop.
//
// node:vm handles SIGINT from the beginning of a script to its end, and leaves it
// with its default then: one that came in that instant would end the process. So
// the driver takes part in that for good (holdSignal()).

const { executionAsyncResource } = require('node:async_hooks');
const { Buffer } = require('node:buffer');
const console = require('node:console');
const fs = require('node:fs');
const net = require('node:net');
const { constants: osConstants } = require('node:os');
const process = require('node:process');
const { setImmediate } = require('node:timers');
const { Script } = require('node:vm');
const {
  FrameReader,
  canReceive,
  cellFd,
  frameTypes,
  parseJson,
  sendDone,
} = require('./control-socket.cjs');
const { prepareCell } = require('./cell-code.cjs');
const { internalBinding } = require('./internals.cjs');
const { withoutWarnings } = require('./parse.cjs');

const interruptedExitCode = 130;
const interruptedCode = 'ERR_SCRIPT_EXECUTION_INTERRUPTED';
const cutShortCode = /^ERR_SCRIPT_EXECUTION_/;

// Together less than what an interrupt has before the interpreter is killed.
const drainMs = 50;
const mostRounds = 6;
const absorbMs = 3;
// For a signal that was sent: only a thread that gets no time is so late.
const mostLateMs = 200;

// What process.exit() of a cell throws.
class CellExit {
  constructor(exitCode) {
    this.exitCode = exitCode;
  }
}

// Every promise that has a value, and process.nextTick().
const { _tickCallback: runTicks } = process;

const frames = new FrameReader();
let driver;
let socket;
// `{name, outcome}` of the cell that runs; the outcome is what became of it under
// node:vm.
let running;
let isGuarded = false;
let isInterrupted = false;
// How many more INTERRUPTs were read than signals met, since the last "sync".
let signalsDue = 0;
// node's own, where it has them.
let watchdog;
let callbacks;
// Those that node:vm has taken away while it guards.
let listenersAway = 0;
// The code's listeners are called, and no signal has come.
let isTelling = false;

/** `driver`: what driver.cjs has for code of any kind. */
function serve(host) {
  driver = host;
  watchdog = holdSignal();
  if (!watchdog) process.on('SIGINT', () => isTelling || interrupt());
  replaceKill();
  callbacks = holdCallbacks();
  process.on('uncaughtException', onUncaught);
  replaceExit();
  // Now, since an interrupt that came while they are made would leave half of them.
  for (const name of ['stdout', 'stderr']) process[name];
  // So that none of the cells reads that it is not to be used: of that
  // `--pending-deprecation` tells once.
  process.nextTick(() => withoutWarnings(() => runTicks.call(process)));
  socket = new net.Socket({ fd: cellFd, readable: true, writable: false });
  socket.on('data', (bytes) => {
    frames.add(bytes);
    // While a cell waits, it can only be an INTERRUPT. The signal may have met
    // node:vm just as that let go of it.
    if (running) {
      if (watchdog) tellListeners();
      interrupt();
    } else {
      serveFrames();
    }
  });
  // The engine has gone, or the code has closed the socket.
  socket.on('close', () => process.reallyExit(1));
  socket.on('error', () => process.reallyExit(1));
  answer({ exitCode: 0, error: null });
}

function serveFrames() {
  while (!running) {
    const frame = frames.next();
    if (!frame) return;
    if (frame.type === frameTypes.cell) {
      runCell(parseJson(frame.body.toString()));
    } else if (frame.type === frameTypes.command) {
      absorbSignal();
      // "sync": two turns of the event loop, in which what was sent before it
      // comes to its handlers.
      setImmediate(() =>
        setImmediate(() => answer({ exitCode: 0, error: null })),
      );
    } else {
      // An INTERRUPT was for a cell that has ended.
      signalsDue++;
    }
  }
}

function answer(done) {
  // Nobody would hear of any cell, or no further one would come. The sooner that
  // is known the better.
  if (!sendDone(done) || !canReceive()) process.reallyExit(1);
}

// ---- Cells -------------------------------------------------------------------

function runCell({ code, name }) {
  const cell = { name, outcome: undefined };
  running = cell;
  isInterrupted = false;
  driver.startCell();
  try {
    const prepared = prepareCell(code, name);
    const script = new Script(prepared.text, {
      filename: name,
      columnOffset: -prepared.columns,
      importModuleDynamically: driver.importerIn(process.cwd()),
    });
    guarded(() => {
      if (isInterruptWaiting()) throw interruptedError();
      const result = script.runInThisContext();
      const shown = prepared.hasValue ? result : undefined;
      if (isPromise(shown) || prepared.isAsync) {
        const promise = prepared.isAsync ? result : shown;
        promise.then(
          (settled) => finish(cell, settled),
          (error) => fail(cell, error),
        );
      } else {
        finish(cell, shown);
      }
      // Whatever needs no event loop, while it can be interrupted.
      runTicks.call(process);
    });
  } catch (error) {
    if (error?.code === interruptedCode) drain();
    fail(cell, error);
    return;
  }
  if (cell.outcome?.isFailure) fail(cell, cell.outcome.thrown);
  else if (cell.outcome) finish(cell, cell.outcome.value);
  else if (isInterruptWaiting()) interrupt();
}

// node:vm guards scripts, not functions: a script calls the function by a name
// that is gone before the code begins.
const guardName = '__glovebox_guarded__';
const guard = new Script(`${guardName}()`, { filename: 'node:guard' });

function guarded(action, options) {
  // Then there is no such name, and nothing is guarded any more.
  if (!Object.isExtensible(globalThis)) return action();
  // One that met no script is forgotten with the next.
  if (watchdog?.watchdogHasPendingSigint()) signalsDue--;
  const depth = callbacks?.depth();
  const resource = executionAsyncResource();
  const stores = storesOf(resource);
  try {
    listenersAway = process.listenerCount('SIGINT');
    isGuarded = true;
    Object.defineProperty(globalThis, guardName, {
      value() {
        delete globalThis[guardName];
        return action();
      },
      configurable: true,
    });
    return guard.runInThisContext({
      breakOnSigint: true,
      displayErrors: false,
      ...options,
    });
  } catch (error) {
    callbacks?.leave(depth);
    if (error?.code === interruptedCode && !early.has(error)) signalsDue--;
    if (cutShortCode.test(error?.code)) putBack(resource, stores);
    throw error;
  } finally {
    isGuarded = false;
    listenersAway = 0;
    delete globalThis[guardName];
  }
}

// Before Node 24, AsyncLocalStorage keeps its values in the resource for which
// code runs: an interrupt in its run() would leave them to later cells.
function storesOf(resource) {
  return Object.getOwnPropertySymbols(resource).map((symbol) => [
    symbol,
    resource[symbol],
  ]);
}

function putBack(resource, stores) {
  const before = new Map(stores);
  for (const [symbol, value] of storesOf(resource)) {
    if (!before.has(symbol)) delete resource[symbol];
    else if (before.get(symbol) !== value)
      resource[symbol] = before.get(symbol);
  }
}

// What the cell had set going by promises would go on when it has been answered,
// and if that is endless, for ever: each round ends one that is.
function drain() {
  for (let round = 0; round < mostRounds; round++) {
    try {
      guarded(() => runTicks.call(process), { timeout: drainMs });
      return;
    } catch {
      // It was ended, or failed where nobody waits for it.
    }
  }
}

// A SIGINT that node:vm meets while it lets go of it, or whose thread is late,
// ends the script that it guards next: this one.
function absorbSignal() {
  const isOver =
    watchdog && (signalsDue <= 0 || watchdog.watchdogHasPendingSigint());
  const waitMs = isOver ? 0 : watchdog ? mostLateMs : absorbMs;
  const cell = new Int32Array(new SharedArrayBuffer(4));
  try {
    // Of no length, it still lets node forget one that it has kept.
    guarded(() => Atomics.wait(cell, 0, 0, waitMs));
  } catch {
    // There was one.
  }
  signalsDue = 0;
}

function isPromise(value) {
  return require('node:util').types.isPromise(value);
}

function finish(cell, value) {
  if (running !== cell) return;
  if (isGuarded) {
    cell.outcome ??= { isFailure: false, value };
    return;
  }
  try {
    if (value !== undefined) guarded(() => driver.showMain(value));
  } catch (error) {
    fail(cell, error);
    return;
  }
  end({ exitCode: 0, error: null });
}

function fail(cell, thrown) {
  if (running !== cell) return;
  if (isGuarded) {
    // Of what goes wrong the first counts, also where there is a value.
    if (cell.outcome?.isFailure) report(describe(thrown, cell.name));
    else cell.outcome = { isFailure: true, thrown };
    return;
  }
  if (thrown instanceof CellExit) {
    end({ exitCode: thrown.exitCode & 0xff, error: null });
    return;
  }
  // A program that the code waits for may have died of the signal and the code
  // thrown for that, before node:vm has noticed it.
  const wasInterrupted =
    isInterrupted || thrown?.code === interruptedCode || isInterruptWaiting();
  if (wasInterrupted) {
    mendStream('stdout');
    mendStream('stderr');
  }
  const error = describe(thrown, cell.name);
  report(error);
  end({ exitCode: wasInterrupted ? interruptedExitCode : 1, error });
}

function end(done) {
  answer(done);
  running = undefined;
  // Further frames may have come with those that were read.
  setImmediate(serveFrames);
}

function report({ traceback }) {
  process.stderr.write(
    traceback.startsWith('Uncaught')
      ? `${traceback}\n`
      : `Uncaught ${traceback}\n`,
  );
}

function describe(thrown, name) {
  try {
    const error = driver.describeError(thrown, frameOf(name));
    return { ...error, traceback: withoutDriver(error.traceback) };
  } catch {
    // Anything can be thrown, and reading it can throw again.
    return {
      name: typeof thrown,
      message: '',
      traceback: 'Uncaught',
      line: null,
    };
  }
}

function frameOf(name) {
  return new RegExp(`${name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}:(\\d+)`);
}

const driverFrame =
  /^ +at (?:.*\((?:node:vm|node:guard|.*\/runtimes\/node\/)|node:guard|\/.*\/runtimes\/node\/)/;

/** Each stack of a traceback up to where the driver called the code. */
function withoutDriver(traceback) {
  const kept = [];
  let isBelow = false;
  for (const line of traceback.split('\n')) {
    isBelow = /^ +at /.test(line) && (isBelow || driverFrame.test(line));
    if (!isBelow) kept.push(line);
    // What follows belongs to the error: its cause, say.
    else if (line.endsWith(' {')) kept.push(`${kept.pop() ?? ''} {`);
  }
  return kept.join('\n');
}

// ---- Interrupts ----------------------------------------------------------------

/** What `use` makes of Node's own; undefined where this Node has none. */
function ofInternals(use) {
  try {
    return use();
  } catch {
    return undefined;
  }
}

/**
 * Node's stack of the callbacks that run, each for another. One that ends by an
 * interrupt stays there, and one that ends in an error if Node itself does not
 * catch that: when Node finds it, it ends the process.
 */
function holdCallbacks() {
  return ofInternals(() => {
    const binding = internalBinding('async_wrap');
    const { async_hook_fields: fields, async_id_fields: ids } = binding;
    const { kDefaultTriggerAsyncId, kExecutionAsyncId, kStackLength } =
      binding.constants;
    const trigger = ids[kDefaultTriggerAsyncId];
    return {
      depth: () => fields[kStackLength],
      leave(depth) {
        while (fields[kStackLength] > depth)
          binding.popAsyncContext(ids[kExecutionAsyncId]);
        ids[kDefaultTriggerAsyncId] = trigger;
      },
    };
  });
}

/** Holds SIGINT for node:vm, as if it ran a script all the time. */
function holdSignal() {
  return ofInternals(() => {
    const binding = internalBinding('contextify');
    const { Signal } = internalBinding('signal_wrap');
    binding.watchdogHasPendingSigint();
    // While it listens, listeners of the code that come and go change nothing of
    // how the signal is handled.
    const listener = new Signal();
    listener.unref();
    listener.onsignal = () => {};
    if (listener.start(osConstants.signals.SIGINT) !== 0) return undefined;
    binding.startSigintWatchdog();
    return binding;
  });
}

// A SIGINT that the code sends to itself goes to its listeners alone, as long as
// it has any. Held, none would reach them; and this one is no interrupt.
function replaceKill() {
  const send = process.kill;
  const ownListeners = watchdog ? 0 : 1;
  process.kill = function kill(pid, signal) {
    const isOwn =
      pid === process.pid &&
      (signal === 'SIGINT' || signal === osConstants.signals.SIGINT);
    const listeners = process.listenerCount('SIGINT') + listenersAway;
    if (!isOwn || listeners <= ownListeners)
      return send.call(this, pid, signal);
    setImmediate(tellListeners);
    return true;
  };
}

function tellListeners() {
  isTelling = true;
  try {
    process.emit('SIGINT', 'SIGINT', osConstants.signals.SIGINT);
  } catch (error) {
    onUncaught(error);
  } finally {
    isTelling = false;
  }
}

// Those that were found by their frame.
const early = new WeakSet();

function interruptedError() {
  // As node:vm has it.
  const error = new Error('Script execution was interrupted by `SIGINT`');
  error.code = interruptedCode;
  error.stack = `Error: ${error.message}`;
  early.add(error);
  return error;
}

function interrupt() {
  if (!running) return;
  isInterrupted = true;
  fail(running, interruptedError());
}

/** Whether an INTERRUPT has come behind the cell; nothing else can. */
function isInterruptWaiting() {
  const bytes = Buffer.alloc(4096);
  try {
    const count = fs.readSync(cellFd, bytes, 0, bytes.length, null);
    frames.add(bytes.subarray(0, count));
  } catch {
    // EAGAIN: there is nothing.
  }
  isInterrupted = frames.hasBytes;
  return isInterrupted;
}

// The end may have come in the middle of a console.log(), whose stream would then
// wait for ever for a write that is done.
function mendStream(name) {
  const state = process[name]._writableState;
  if (!state?.writing && !state?.bufferProcessing) return;
  state.bufferProcessing = false;
  state.sync = false;
  try {
    if (typeof state.writecb === 'function') state.onwrite();
  } catch {
    // The code's own callback has failed, or it is no stream of Node's.
  }
  if (process[name]._writableState.writing) replaceStream(name);
}

function replaceStream(name) {
  const fd = name === 'stdout' ? 1 : 2;
  const stream = new net.Socket({ fd, readable: false, writable: true });
  stream._handle?.setBlocking?.(true);
  stream._type = 'pipe';
  Object.defineProperty(process, name, {
    value: stream,
    configurable: true,
    enumerable: true,
    writable: true,
  });
  console[`_${name}`] = stream;
}

// ---- What the code throws where nobody waits for it -----------------------------

function onUncaught(thrown) {
  // The code has a handler of its own.
  if (process.listenerCount('uncaughtException') > 1) return;
  if (running) {
    fail(running, thrown);
    return;
  }
  report(describe(thrown, '<cell 0>'));
}

/** In a cell, process.exit() ends the cell, as sys.exit() of python does. */
function replaceExit() {
  const exit = process.exit.bind(process);
  process.exit = (code) => {
    if (!running) exit(code);
    const exitCode = Number(code ?? process.exitCode ?? 0);
    process.exitCode = undefined;
    throw new CellExit(Number.isInteger(exitCode) ? exitCode : 1);
  };
}

module.exports = { serve };
