// SPDX-License-Identifier: Apache-2.0
'use strict';

// One box, one interpreter, many cells. Cells wait here and go to the engine
// one at a time: so it is always known whose output is arriving.
//
// A kernel ends by its own fault (a cell that ran into a limit, an interpreter
// that exited), by close(), or with its sandbox. After that nothing runs in it,
// and every call says at once why.

const { throwIfAborted, watchAbort } = require('./abort.js');
const { FrameCollector } = require('./frames.js');
const { OutputRelay } = require('./output-relay.js');
const { SandboxError, invalidOption, toSandboxError } = require('./errors.js');
const { cellBody, checkCode } = require('./languages.js');
const { cellOutcome, endReason } = require('./outcome.js');
const { nativeTimeout } = require('./limits.js');
const { readOptions } = require('./options.js');

// Set in the class, which alone can reach its private parts.
let startKernel;

const internal = Symbol('kernel');

// Rejects a cell inside; what the caller gets is made from it where it waits.
const dead = Symbol('dead');

class Kernel {
  #settings;
  #argv;
  #run;
  #waiting = [];
  #current;
  // Output from between two cells (a thread goes on printing) belongs to the
  // next one: the engine counts it there, so its callbacks get it too.
  #early = [];
  #nextId = 1;
  #cellCount = 0;
  // Why it is dead: a sentence. `#isClosed` says that it was meant to.
  #death;
  #isClosed = false;
  // `{reason}` once its signal was aborted: every call rejects with that.
  #abortion;
  #forget;
  #closing;
  #ended;
  #markEnded;

  constructor(key, session, spec, settings) {
    if (key !== internal) {
      throw invalidOption('new Kernel()', 'sandbox.kernel()', 'a direct call');
    }
    this.#settings = settings;
    this.#argv = spec.argv;
    this.#ended = new Promise((resolve) => {
      this.#markEnded = resolve;
    });
    this.#run = session.run(
      { ...spec, wantOutput: [false, false] },
      (...event) => this.#onEvent(...event),
    );
    this.#forget = watchAbort(settings.signal, (reason) => {
      this.#abortion = { reason };
      this.#abort('it was aborted');
    });
  }

  static {
    startKernel = async (session, spec, settings) => {
      throwIfAborted(settings.signal);
      let kernel;
      try {
        kernel = new Kernel(internal, session, spec, settings);
      } catch (error) {
        throw toSandboxError(error);
      }
      await kernel.#start();
      return kernel;
    };
  }

  async runCode(code, options) {
    const call = readOptions('kernel.runCode()', options);
    checkCode(code, 'python');
    const inherited = this.#settings;
    return this.#runCell({
      body: cellBody(code, `<cell ${++this.#cellCount}>`),
      timeoutS: call.timeoutS ?? inherited.timeoutS,
      trackFiles: inherited.trackFiles,
      signal: call.signal,
      // null is an answer too: it means none.
      onStdout:
        call.onStdout === undefined ? inherited.onStdout : call.onStdout,
      onStderr:
        call.onStderr === undefined ? inherited.onStderr : call.onStderr,
      onResult:
        call.onResult === undefined ? inherited.onResult : call.onResult,
    });
  }

  close() {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  [Symbol.asyncDispose]() {
    return this.close();
  }

  // An empty cell: when it is answered the interpreter is there. So a kernel
  // that cannot start is an error of kernel(), not of somebody's first cell,
  // and the time it takes to start counts against no cell.
  async #start() {
    const { timeoutS } = this.#settings;
    let result;
    try {
      result = await this.#runCell({
        body: cellBody('', '<start>'),
        timeoutS,
        trackFiles: false,
      });
    } catch (error) {
      await this.close();
      throw error;
    }
    if (result.success) return;
    await this.close();
    const reason = result.fault?.message ?? `exit code ${result.exitCode}`;
    const stderr = result.stderr.trim();
    throw new SandboxError(
      `The kernel did not start: ${reason}${stderr && `\n${stderr}`}`,
      { code: 'ERR_SANDBOX_KERNEL_DEAD' },
    );
  }

  async #runCell(settings) {
    if (this.#death !== undefined) throw this.#deathError();
    throwIfAborted(settings.signal);
    const cell = { ...settings };
    const forget = watchAbort(settings.signal, (reason) =>
      this.#abortCell(cell, reason),
    );
    // A cell cannot be stopped without the state of all others, so it ends as
    // it would have, and only then the caller learns of the callback.
    cell.relay = new OutputRelay(settings, () => {
      if (cell === this.#current) this.#run.setWantOutput(cell.relay.wanted);
    });
    cell.frames = new FrameCollector((result) =>
      cell.relay.deliver('result', result),
    );
    try {
      return await new Promise((resolve, reject) => {
        Object.assign(cell, { resolve, reject });
        this.#waiting.push(cell);
        this.#sendNext();
      });
    } catch (error) {
      if (cell.abortion) throw cell.abortion.reason;
      if (cell.relay.failure) throw cell.relay.failure.error;
      if (error === dead) throw this.#deathError();
      throw toSandboxError(error);
    } finally {
      forget();
    }
  }

  // A cell that runs can only be ended with all the others, and is when the box
  // is gone; one that waits has not touched anything.
  #abortCell(cell, reason) {
    cell.abortion = { reason };
    if (cell === this.#current) {
      this.#abort('one of its cells was aborted');
      return;
    }
    this.#waiting = this.#waiting.filter((other) => other !== cell);
    cell.reject(dead);
  }

  #abort(reason) {
    this.#death ??= reason;
    this.#run.abort();
  }

  #sendNext() {
    if (this.#current || this.#death !== undefined) return;
    const cell = this.#waiting.shift();
    if (!cell) return;
    this.#current = cell;
    cell.id = this.#nextId++;
    for (const chunk of this.#early.splice(0)) cell.relay.deliver(...chunk);
    try {
      this.#run.setWantOutput(cell.relay.wanted);
      this.#run.cell(
        cell.id,
        cell.body,
        nativeTimeout(cell.timeoutS),
        this.#settings.maxOutputBytes,
        cell.trackFiles,
      );
    } catch (error) {
      // The run has just ended: its end is on the way, and says why.
      if (error.code === 'KERNEL_DEAD') return;
      this.#current = undefined;
      cell.reject(error);
      this.#sendNext();
    }
  }

  #onEvent(kind, first, second, third) {
    // The engine must not get an exception back, not even one of ours.
    try {
      if (kind === 'stdout' || kind === 'stderr') {
        if (this.#current) this.#current.relay.deliver(kind, first);
        else this.#early.push([kind, first]);
      } else if (kind === 'frame') {
        this.#current?.frames.add(first, second);
      } else if (kind === 'cell') {
        if (first === this.#current?.id) this.#onCell(second, third);
      } else if (kind === 'end') {
        this.#onEnd(first, second);
      }
    } catch (error) {
      this.#current?.reject(error);
      this.#current = undefined;
      this.#die(toSandboxError(error).message);
      this.#run.abort();
    }
  }

  #onCell(error, native) {
    const cell = this.#current;
    if (error) {
      // The end of the run, which follows, knows more of the reason.
      if (error.code !== 'KERNEL_DEAD') this.#onFailure(error);
      return;
    }
    const limits = { ...this.#settings, timeoutS: cell.timeoutS };
    const { result, death } = cellOutcome(native, cell.frames, limits);
    this.#current = undefined;
    if (death !== undefined) {
      this.#die(death);
      // It may live on, for one where something forged the reply.
      this.#run.abort();
    }
    if (cell.relay.failure) cell.reject(cell.relay.failure.error);
    else if (cell.abortion) cell.reject(dead);
    else cell.resolve(result);
    this.#sendNext();
    if (!this.#current) this.#run.setWantOutput([false, false]);
  }

  #onEnd(error, native) {
    try {
      if (error) this.#onFailure(error);
      else this.#die(endReason(native, this.#settings, this.#argv));
      this.#current?.reject(dead);
      this.#current = undefined;
    } finally {
      this.#forget();
      this.#markEnded();
    }
  }

  // The sandbox failed, or it was closed. The cell that runs gets the failure
  // itself; those that wait are told that the kernel is dead, and why.
  #onFailure(error) {
    if (error.code === 'CLOSED') this.#isClosed = true;
    if (this.#death === undefined && !this.#isClosed) {
      this.#current?.reject(error);
    }
    this.#die(toSandboxError(error).message);
  }

  #die(reason) {
    this.#death ??= reason;
    const cells = this.#waiting.splice(0);
    for (const cell of cells) cell.reject(dead);
  }

  #deathError() {
    if (this.#abortion) return this.#abortion.reason;
    if (this.#isClosed) {
      return new SandboxError('The kernel is closed: ask for a new one', {
        code: 'ERR_SANDBOX_CLOSED',
      });
    }
    return new SandboxError(
      `The kernel has ended and its state is gone: ${this.#death}. ` +
        'Ask the sandbox for a new one.',
      { code: 'ERR_SANDBOX_KERNEL_DEAD' },
    );
  }

  async #close() {
    this.#isClosed = true;
    this.#die('it was closed');
    this.#run.abort();
    await this.#ended;
  }
}

module.exports = { Kernel, startKernel };
