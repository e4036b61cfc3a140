// SPDX-License-Identifier: Apache-2.0
'use strict';

// One box with one interpreter in it, which is given one thing to do at a time.

const { nativeTimeout } = require('../limits.js');

class Interpreter {
  /** Resolves when its box is gone. */
  ended;
  #run;
  #task;
  #lastId = 0;
  // Output from between two cells (a thread goes on printing) belongs to the
  // next one: the engine counts it there, so its callbacks get it too.
  #early = [];
  // Which of stdout and stderr the engine sends while a cell runs.
  #wanted = [false, false];
  #onEnd;
  #markEnded;

  /** `onEnd(error, native)` is called once, when its box is gone. */
  constructor(session, spec, argv, onEnd) {
    this.#onEnd = onEnd;
    this.ended = new Promise((resolve) => {
      this.#markEnded = resolve;
    });
    this.#run = session.run(spec, argv, null, null, (...event) =>
      this.#onEvent(...event),
    );
  }

  get isBusy() {
    return this.#task !== undefined;
  }

  /**
   * Starts a task: `{body, isCommand, timeoutS, maxOutputBytes, trackFiles,
   * isSupervised, relay, frames, take(error, native)}`. Throws if the engine
   * does not take it.
   */
  perform(task) {
    this.#task = task;
    task.id = ++this.#lastId;
    if (!task.isCommand) {
      for (const chunk of this.#early.splice(0)) task.relay.deliver(...chunk);
    }
    try {
      if (!task.isCommand) this.#want(task.relay.wanted);
      this.#run.cell(
        task.id,
        task.body,
        nativeTimeout(task.timeoutS),
        task.maxOutputBytes,
        task.trackFiles,
        task.isSupervised,
        task.isCommand,
      );
    } catch (error) {
      // It has just ended: its end is on the way, and says why.
      if (error.code === 'KERNEL_DEAD') return this.#awaitEnd();
      this.#task = undefined;
      throw error;
    }
  }

  /** A callback of the task has failed: it is not called again. */
  updateWanted(task) {
    if (task === this.#task) this.#want(task.relay.wanted);
  }

  #want(wanted) {
    const [stdout, stderr] = this.#wanted;
    if (wanted[0] === stdout && wanted[1] === stderr) return;
    this.#wanted = wanted;
    this.#run.setWantOutput(wanted);
  }

  interrupt(insist) {
    this.#run.interrupt(insist);
  }

  abort() {
    this.#run.abort();
  }

  #onEvent(kind, first, second, third) {
    const task = this.#task;
    // The engine must not get an exception back, not even one of ours.
    try {
      if (kind === 'stdout' || kind === 'stderr') {
        if (task && !task.isCommand) task.relay.deliver(kind, first);
        else this.#early.push([kind, first]);
      } else if (kind === 'frame') {
        task?.frames?.add(first, second);
      } else if (kind === 'cell') {
        if (first === task?.id) this.#onAnswer(second, third);
      } else if (kind === 'end') {
        this.#markEnded();
        this.#onEnd(first, second);
      }
    } catch (error) {
      this.#task = undefined;
      task?.take(error, null);
      this.#run.abort();
    }
  }

  // A cell keeps this process until it is answered; so must the end that answers
  // it instead.
  #awaitEnd() {
    this.#run.setAwaited(true);
  }

  #onAnswer(error, native) {
    // What ended the box knows more of the reason, and follows.
    if (error?.code === 'KERNEL_DEAD') return this.#awaitEnd();
    const task = this.#task;
    this.#task = undefined;
    task.take(error, native);
    if (!this.#task && !task.isCommand) {
      this.#want([false, false]);
    }
  }
}

module.exports = { Interpreter };
