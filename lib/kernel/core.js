// SPDX-License-Identifier: Apache-2.0
'use strict';

// What is behind a Kernel: calls wait here and go to the interpreter one at a
// time, so it is always known whose output is arriving.
//
//   starting ──▶ ready ◀──restart(), rollback()── lost    the interpreter is gone,
//                 │ ╲─────────────────────────────▶       its copies are not
//                 ╰──▶ dead ◀─────────────────────╯       the box is gone
//
// A lost or dead kernel runs nothing, and every call says at once why; restart()
// helps both. A closed or an aborted one is dead for good.

const { throwIfAborted, watchAbort } = require('../abort.js');
const { FrameCollector, readDone } = require('../frames.js');
const { OutputRelay, hasCallbacks } = require('../output-relay.js');
const { SandboxError, toSandboxError } = require('../errors.js');
const { cellBody, commandBody, startBody } = require('../languages.js');
const { endReason } = require('../outcome.js');
const { cellOutcome, deathOf } = require('./outcome.js');
const { Interpreter } = require('./interpreter.js');

// Sleeping copies take memory and count as processes.
const mostCheckpoints = 16;
// Of a command that comes before no cell. No code runs, but a copy of a large heap
// takes its time.
const commandTimeoutS = 60;
const leastCommandTimeoutS = 10;

// Rejects a call inside; what the caller gets is made from it where it waits.
const dead = Symbol('dead');
// The relay of cells whose output nobody listens to.
const nobody = new OutputRelay({}, () => {});
// Why cells reject that a restart() took by surprise.
const restarted = 'it was restarted';

// What a driver says of it is the code's word too: only its kind counts.
function checkpointError({ name }) {
  const message =
    name === 'NoCheckpoint'
      ? 'There is no such checkpoint: it is older than the last ' +
        `${mostCheckpoints}, or was made before a restart(), or its copy of the ` +
        'interpreter was killed. The state is as it was.'
      : 'The checkpoint cannot be made: there is no room for another process ' +
        "in the box (pids, memoryMb), or the box's python has no ctypes.";
  return new SandboxError(message, { code: 'ERR_SANDBOX_CHECKPOINT' });
}

// Why the interpreter is gone after a cell, if it is. The SIGKILL that an abort
// comes to in the end was nobody else's.
function deathAfter(outcome, { abortion }) {
  if (outcome.death === undefined || !abortion) return outcome.death;
  const { fault, signal } = outcome.resultFor('gone');
  return fault?.type === 'killed' && signal === 'SIGKILL'
    ? 'a cell whose signal was aborted did not heed the interrupt'
    : outcome.death;
}

class KernelCore {
  #session;
  #spec;
  #argv;
  #settings;
  #language;
  #interpreter;
  #isStarting = false;
  #isSupervised = false;
  #waiting = [];
  // The call that the interpreter has, or that is being prepared for it.
  #current;
  #cellCount = 0;
  // An interrupt may still be on its way to the interpreter.
  #mustSync = false;
  // Ids of the copies that there are, the oldest first.
  #checkpoints = [];
  #lastCheckpoint = 0;
  // The one that a kernel with checkpoint: 'each' has made by itself.
  #automatic;
  // Why it is lost or dead: a sentence. `#isClosed` says that it was meant to.
  #death;
  #isLost = false;
  #isClosed = false;
  // `{reason}` once its signal was aborted: every call rejects with that.
  #abortion;
  #forget = () => {};
  #restarting;

  constructor(session, spec, argv, settings) {
    this.#session = session;
    this.#spec = spec;
    this.#argv = argv;
    this.#settings = settings;
    this.#language = settings.language;
  }

  get isAlive() {
    return this.#death === undefined;
  }

  get isGone() {
    return this.#isClosed || (this.#death !== undefined && !this.#isLost);
  }

  /** Rejects if the interpreter does not start. */
  async start() {
    throwIfAborted(this.#settings.signal);
    try {
      await this.#startInterpreter();
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  // ---- Calls ----------------------------------------------------------------

  runCode(code, call) {
    const inherited = this.#settings;
    const entry = {
      kind: 'cell',
      body: cellBody(code, `<cell ${++this.#cellCount}>`, this.#language),
      timeoutS: call.timeoutS ?? inherited.timeoutS,
      signal: call.signal,
      // null is an answer too: it means none.
      onStdout:
        call.onStdout === undefined ? inherited.onStdout : call.onStdout,
      onStderr:
        call.onStderr === undefined ? inherited.onStderr : call.onStderr,
      onResult:
        call.onResult === undefined ? inherited.onResult : call.onResult,
    };
    if (this.#death !== undefined) throw this.#deathError();
    throwIfAborted(entry.signal);
    entry.forget = watchAbort(entry.signal, (reason) =>
      this.#abortCell(entry, reason),
    );
    // What a callback throws ends no cell: its caller learns of it when the cell
    // has ended as it would have.
    entry.relay = hasCallbacks(entry)
      ? new OutputRelay(entry, () => this.#interpreter?.updateWanted(entry))
      : nobody;
    entry.frames = new FrameCollector(entry.relay);
    return this.#call(entry);
  }

  async checkpoint() {
    this.#refuseCheckpoints();
    if (this.#death !== undefined) throw this.#deathError();
    return this.#call({ kind: 'checkpoint' });
  }

  async rollback(id) {
    this.#refuseCheckpoints();
    if (this.#death !== undefined && !this.#isLost) throw this.#deathError();
    return this.#call({ kind: 'rollback', checkpoint: id });
  }

  async interrupt() {
    const entry = this.#current;
    if (entry?.kind !== 'cell' || !this.#interpreter.isBusy) return false;
    // What comes before a cell, such as its checkpoint, is not interrupted.
    entry.isInterrupted = true;
    if (entry.isSent) this.#interpreter.interrupt(false);
    return true;
  }

  restart() {
    if (this.#isClosed || this.#abortion) {
      return Promise.reject(this.#deathError());
    }
    this.#restarting ??= this.#restart().finally(() => {
      this.#restarting = undefined;
    });
    return this.#restarting;
  }

  async close() {
    this.#isClosed = true;
    this.#die('it was closed');
    this.#interpreter?.abort();
    await this.#interpreter?.ended;
    // Which waits for the box of the interpreter before.
    await this.#restarting?.catch(() => {});
  }

  /** Nobody has the Kernel any more. */
  abandon() {
    if (this.isGone) return;
    process.emitWarning(
      'a Kernel was garbage collected and is closed now: await ' +
        'kernel.close(), or use `await using`, to end it when it is done',
      { type: 'GloveboxWarning', code: 'GLOVEBOX_UNCLOSED' },
    );
    this.close();
  }

  async #call(entry) {
    try {
      return await new Promise((resolve, reject) => {
        entry.resolve = resolve;
        entry.reject = reject;
        this.#waiting.push(entry);
        this.#sendNext();
      });
    } catch (error) {
      if (entry.abortion) throw entry.abortion.reason;
      if (entry.relay?.failure) throw entry.relay.failure.error;
      if (error === dead) throw this.#deathError(entry.death);
      throw toSandboxError(error);
    } finally {
      entry.forget?.();
    }
  }

  #refuseCheckpoints() {
    if (this.#language === 'python') return;
    throw new SandboxError(
      `A kernel of ${this.#language} has no checkpoints: only python's has`,
      { code: 'ERR_SANDBOX_CHECKPOINT' },
    );
  }

  // A cell that runs is interrupted as by its timeout; one that waits has not
  // touched anything.
  #abortCell(entry, reason) {
    entry.abortion = { reason };
    if (entry === this.#current) {
      if (entry.isSent) this.#interpreter.interrupt(true);
      return;
    }
    this.#waiting = this.#waiting.filter((other) => other !== entry);
    entry.reject(dead);
  }

  // ---- The queue ------------------------------------------------------------

  #sendNext() {
    if (this.#current || this.#isStarting || !this.#waiting[0]) return;
    if (this.#death !== undefined && !this.#isLost) return;
    this.#current = this.#waiting.shift();
    this.#prepare(this.#current);
  }

  // What comes before a call itself, one step after the other.
  #prepare(entry) {
    const isCell = entry.kind === 'cell';
    if (isCell && entry.abortion) {
      this.#settle(entry, (one) => one.reject(dead));
    } else if (this.#mustSync && !this.#isLost) {
      this.#demand({ do: 'sync' }, () => {
        this.#mustSync = false;
        this.#prepare(entry);
      });
    } else if (isCell && this.#copiesEach() && !entry.isCopied) {
      entry.isCopied = true;
      this.#makeCopy(this.#automatic, (id) => {
        this.#automatic = id;
        this.#prepare(entry);
      });
    } else if (isCell) {
      this.#sendCell(entry);
    } else if (entry.kind === 'checkpoint') {
      const tooMany = this.#checkpoints.length >= mostCheckpoints;
      this.#makeCopy(tooMany ? this.#checkpoints[0] : undefined, (id) => {
        if (tooMany) this.#checkpoints.shift();
        this.#checkpoints.push(id);
        this.#settle(entry, (one) => one.resolve(id));
      });
    } else {
      this.#demand({ do: 'rollback', id: entry.checkpoint }, () => {
        this.#isBack();
        this.#settle(entry, (one) => one.resolve());
      });
    }
  }

  #copiesEach() {
    return this.#settings.checkpoint === 'each' && this.#isSupervised;
  }

  #settle(entry, how) {
    if (this.#current === entry) this.#current = undefined;
    how(entry);
    this.#sendNext();
  }

  #send(task) {
    const interpreter = this.#interpreter;
    const { take } = task;
    // After a restart() the answer of the one before says nothing.
    task.take = (error, native) => {
      if (interpreter === this.#interpreter) take(error, native);
    };
    try {
      interpreter.perform(task);
    } catch (error) {
      this.#settle(this.#current, (entry) => entry.reject(error));
    }
  }

  #sendCell(entry) {
    entry.isCommand = false;
    entry.trackFiles = this.#settings.trackFiles;
    entry.maxOutputBytes = this.#settings.maxOutputBytes;
    entry.isSupervised = this.#isSupervised;
    entry.take = (error, native) => this.#onCell(entry, error, native);
    this.#send(entry);
    entry.isSent = true;
    if (entry.isInterrupted) this.#interpreter?.interrupt(false);
  }

  /** `then(done, native)` gets the answer, if one came. */
  #command(command, then) {
    this.#send({
      body: commandBody(command),
      isCommand: true,
      timeoutS: Math.max(
        this.#current.timeoutS ?? commandTimeoutS,
        leastCommandTimeoutS,
      ),
      trackFiles: false,
      maxOutputBytes: 0,
      isSupervised: this.#isSupervised,
      take: (error, native) => this.#onCommand(error, native, then),
    });
  }

  /** `then()` is called if the interpreter did it; else the call rejects. */
  #demand(command, then) {
    const entry = this.#current;
    this.#command(command, (done, native) => {
      if (done.lost) {
        // It had died before the command came.
        this.#afterLoss(deathOf(native, done, this.#limits()), (isBack) => {
          if (isBack && entry.kind === 'cell') this.#prepare(entry);
          else this.#settle(entry, (one) => one.reject(dead));
        });
      } else if (done.error) {
        this.#settle(entry, (one) => one.reject(checkpointError(done.error)));
      } else {
        then();
      }
    });
  }

  #makeCopy(drop, then) {
    const id = ++this.#lastCheckpoint;
    this.#demand({ do: 'checkpoint', id, drop: String(drop ?? '') }, () =>
      then(id),
    );
  }

  #isBack() {
    this.#death = undefined;
    this.#isLost = false;
    this.#mustSync = false;
  }

  // ---- Answers --------------------------------------------------------------

  #onCommand(error, native, then) {
    if (error) {
      this.#onFailure(error);
      return;
    }
    const done = native.done ? readDone(native.done) : undefined;
    if (!done || (native.timedOut && !done.lost)) {
      const entry = this.#current;
      this.#isLost = false;
      this.#die('the interpreter did not answer as a driver does');
      this.#interpreter.abort();
      this.#settle(entry, (one) => one.reject(dead));
      return;
    }
    then(done, native);
  }

  #onCell(entry, error, native) {
    if (error) {
      this.#onFailure(error);
      return;
    }
    if (native.interrupted) this.#mustSync = true;
    const outcome = cellOutcome(
      native,
      entry.frames,
      this.#limits(entry),
      this.#language,
    );
    const death = deathAfter(outcome, entry);
    if (outcome.isLost) {
      this.#afterLoss(death, (isBack) => {
        const fate = this.#isLost ? 'lost' : 'gone';
        this.#finishCell(entry, outcome.resultFor(isBack ? 'back' : fate));
      });
      return;
    }
    if (death !== undefined) {
      this.#die(death);
      // It may live on, for one where something forged the reply.
      this.#interpreter.abort();
    }
    this.#finishCell(entry, outcome.resultFor('gone'));
  }

  #limits({ timeoutS } = this.#settings) {
    const settings = this.#settings;
    return timeoutS === undefined || timeoutS === settings.timeoutS
      ? settings
      : { ...settings, timeoutS };
  }

  #finishCell(entry, result) {
    this.#settle(entry, (one) => {
      if (one.relay.failure) one.reject(one.relay.failure.error);
      else if (one.abortion) one.reject(dead);
      else one.resolve(result);
    });
  }

  // The interpreter has died and its box has not. `then(isBack)` says whether
  // one that goes on from a checkpoint has taken its place.
  #afterLoss(death, then) {
    this.#mustSync = false;
    if (this.#automatic === undefined) {
      this.#lose(death, then);
      return;
    }
    this.#command({ do: 'rollback', id: this.#automatic }, (done) => {
      const isBack = !done.lost && !done.error;
      if (isBack) {
        this.#isBack();
        then(true);
      } else {
        this.#lose(death, then);
      }
    });
  }

  #lose(death, then) {
    this.#isLost = this.#checkpoints.length > 0;
    this.#die(death);
    if (this.#isLost) {
      then(false);
      return;
    }
    // Nothing is left that could be woken. Who learns of it finds nothing of the
    // box.
    this.#current = undefined;
    this.#interpreter.abort();
    this.#interpreter.ended.then(() => then(false));
  }

  // The sandbox failed, or it was closed. The call that runs gets the failure
  // itself; those that wait are told that the kernel is dead, and why.
  #onFailure(error) {
    if (error.code === 'CLOSED') this.#isClosed = true;
    const entry = this.#current;
    this.#current = undefined;
    if (this.#death === undefined && !this.#isClosed) entry?.reject(error);
    this.#isLost = false;
    this.#die(toSandboxError(error).message);
    entry?.reject(dead);
  }

  #die(reason) {
    this.#death ??= reason;
    // Now: who learns of it finds nothing of it on the signal. One that is lost
    // has its box still.
    if (!this.#isLost) this.#forget();
    for (const entry of this.#waiting.splice(0)) entry.reject(dead);
  }

  #onEnd(interpreter, error, native) {
    // An earlier one, in the place of which another was started.
    if (interpreter !== this.#interpreter) return;
    this.#isLost = false;
    try {
      if (error) {
        this.#onFailure(error);
      } else {
        this.#die(endReason(native, this.#settings, this.#argv));
        this.#current?.reject(dead);
        this.#current = undefined;
      }
    } finally {
      this.#forget();
    }
  }

  #deathError(death = this.#death) {
    if (this.#abortion) return this.#abortion.reason;
    if (this.#isClosed) {
      return new SandboxError('The kernel is closed: ask for a new one', {
        code: 'ERR_SANDBOX_CLOSED',
      });
    }
    if (death === restarted) {
      return new SandboxError(
        'The state of the kernel is gone: it was restarted while this cell ' +
          'ran or waited. Give the cell to it again.',
        { code: 'ERR_SANDBOX_KERNEL_DEAD' },
      );
    }
    const help = this.#isLost
      ? 'rollback() brings the state of a checkpoint back, restart() starts ' +
        'with none.'
      : 'Ask the sandbox for a new one, or restart() it.';
    return new SandboxError(
      `The kernel has ended and its state is gone: ${death}. ${help}`,
      { code: 'ERR_SANDBOX_KERNEL_DEAD' },
    );
  }

  // ---- Interpreters ---------------------------------------------------------

  // An empty cell: when it is answered the interpreter is there. So a kernel
  // that cannot start is an error of kernel(), not of somebody's first cell,
  // and the time it takes to start counts against no cell.
  async #startInterpreter() {
    this.#isStarting = true;
    this.#isSupervised = false;
    try {
      this.#watchSignal();
      const native = await new Promise((resolve, reject) => {
        const interpreter = new Interpreter(
          this.#session,
          this.#spec,
          this.#argv,
          (error, end) => {
            this.#onEnd(interpreter, error, end);
            if (error) reject(error);
            else reject(dead);
          },
        );
        this.#interpreter = interpreter;
        interpreter.perform({
          body: startBody(this.#language),
          isCommand: false,
          timeoutS: this.#settings.timeoutS,
          maxOutputBytes: this.#settings.maxOutputBytes,
          trackFiles: false,
          isSupervised: false,
          relay: nobody,
          take: (error, answer) => (error ? reject(error) : resolve(answer)),
        });
      });
      this.#checkStarted(native);
    } catch (error) {
      if (error === dead) throw this.#deathError();
      throw this.#abortion ? this.#abortion.reason : toSandboxError(error);
    } finally {
      this.#isStarting = false;
    }
  }

  // Throws if it is aborted already, as it can be while there is no interpreter.
  #watchSignal() {
    const { signal } = this.#settings;
    const onAbort = (reason) => {
      this.#abortion = { reason };
      // All calls are rejected when its box is gone.
      this.#death ??= 'it was aborted';
      this.#isLost = false;
      this.#interpreter?.abort();
    };
    try {
      throwIfAborted(signal);
    } catch (reason) {
      onAbort(reason);
      throw reason;
    }
    this.#forget = watchAbort(signal, onAbort);
  }

  #checkStarted(native) {
    const done = native.done ? readDone(native.done) : undefined;
    if (done?.exitCode === 0 && !native.timedOut) {
      this.#isSupervised = done.isSupervised === true;
      return;
    }
    const limits = this.#limits();
    const frames = new FrameCollector();
    const result = cellOutcome(native, frames, limits).resultFor('gone');
    const reason = result.fault?.message ?? `exit code ${result.exitCode}`;
    const stderr = result.stderr.trim();
    throw new SandboxError(
      `The kernel did not start: ${reason}${stderr && `\n${stderr}`}`,
      { code: 'ERR_SANDBOX_KERNEL_DEAD' },
    );
  }

  async #restart() {
    for (const entry of [this.#current, ...this.#waiting.splice(0)]) {
      if (!entry) continue;
      entry.death = restarted;
      entry.reject(dead);
    }
    this.#forget();
    const old = this.#interpreter;
    // Of another interpreter than the present one its end says nothing.
    this.#interpreter = undefined;
    this.#current = undefined;
    this.#death = undefined;
    this.#isLost = this.#mustSync = false;
    this.#checkpoints = [];
    this.#automatic = undefined;
    this.#isStarting = true;
    old.abort();
    await old.ended;
    if (this.#isClosed || this.#abortion) throw this.#deathError();
    try {
      await this.#startInterpreter();
    } catch (error) {
      this.#die(error.message);
      this.#interpreter?.abort();
      throw error;
    }
    this.#sendNext();
  }
}

module.exports = { KernelCore };
