// SPDX-License-Identifier: Apache-2.0
'use strict';

// A process to talk to, in a box of its own: what sandbox.spawn() returns. Its
// members and events are those of node:child_process where they mean the same.
//
// Output is read from the box only while somebody reads the streams, so a
// program that writes faster than that waits, as with a pipe.

const { AsyncResource } = require('node:async_hooks');
const { EventEmitter } = require('node:events');
const { Readable, Writable } = require('node:stream');
const { throwIfAborted, watchAbort } = require('./abort.js');
const { FrameCollector } = require('./frames.js');
const { KeptOutput } = require('./kept-output.js');
const { OutputRelay } = require('./output-relay.js');
const {
  SandboxError,
  brokenPipe,
  invalidOption,
  toSandboxError,
} = require('./errors.js');
const { describe } = require('./option-kinds.js');
const { readOptions } = require('./options.js');
const { runOutcome } = require('./outcome.js');
const { signalName, signalNumber } = require('./signals.js');
const { InputPipe, bytesOf } = require('./stdin-pump.js');

// Set in the class, which alone can reach its private parts.
let startProcess;
let cutOff;

const internal = Symbol('process');

// What a stream takes before somebody reads it.
const readAheadBytes = 2 ** 18;

const streamNames = ['stdout', 'stderr'];

class SandboxProcess extends EventEmitter {
  #settings;
  #argv;
  #run;
  #input = new InputPipe();
  #frames;
  #scope = new AsyncResource('GLOVEBOX_PROCESS');
  #streams;
  #wanted = [false, false];
  #relay;
  // What wait() gives as stdout and stderr; missing where somebody else reads.
  #kept;
  #pid;
  #exitCode = null;
  #signalCode = null;
  #wasKilled = false;
  #hasEnded = false;
  // Its sandbox is being closed: where a stream ends now, it does for that.
  #isCutOff = false;
  // `{error}`: what wait() rejects with.
  #failure;
  #forget;
  #waiting;
  #ended;
  #markEnded;
  // For each stream: that 'close' need not wait for it.
  #markDone = [];

  constructor(key, session, spec, command, settings) {
    if (key !== internal) {
      throw invalidOption(
        'new SandboxProcess()',
        'sandbox.spawn()',
        'a direct call',
      );
    }
    super();
    this.#settings = settings;
    this.#argv = command.argv;
    this.#ended = new Promise((resolve) => {
      this.#markEnded = resolve;
    });
    this.#streams = streamNames.map((_, index) => this.#makeReadable(index));
    this.#kept = streamNames.map(() => new KeptOutput(settings.maxOutputBytes));
    this.stdin = this.#makeWritable();
    [this.stdout, this.stderr] = this.#streams;
    this.#announceClose();
    this.#relayOutput();
    this.#run = session.run(
      spec,
      command.argv,
      command.code,
      null,
      (...event) => this.#scope.runInAsyncScope(this.#onEvent, this, ...event),
    );
    this.#input.attach(this.#run);
    this.#forget = watchAbort(settings.signal, (reason) => this.#stop(reason));
  }

  static {
    startProcess = (session, spec, command, settings, alive) => {
      throwIfAborted(settings.signal);
      let started;
      try {
        started = new SandboxProcess(
          internal,
          session,
          spec,
          command,
          settings,
        );
      } catch (error) {
        throw toSandboxError(error);
      }
      alive.add(started);
      started.#ended.then(() => alive.delete(started));
      return started;
    };
    cutOff = (process) => {
      process.#isCutOff = true;
    };
  }

  /** Its number in the box; undefined before 'spawn'. */
  get pid() {
    return this.#pid;
  }

  get exitCode() {
    return this.#exitCode;
  }

  get signalCode() {
    return this.#signalCode;
  }

  /** Whether kill() sent a signal. */
  get killed() {
    return this.#wasKilled;
  }

  kill(signal = 'SIGTERM') {
    const number = signalNumber(signal);
    if (number === undefined) {
      throw invalidOption(
        'signal',
        'the name or number of a signal, such as "SIGTERM"',
        describe(signal),
      );
    }
    if (this.#hasEnded) return false;
    if (number === 0) return true;
    const sent = this.#run.signal(number);
    if (sent) this.#wasKilled = true;
    return sent;
  }

  resize(size) {
    const { cols, rows } = readOptions('process.resize()', size);
    if (!this.#settings.pty) {
      throw new SandboxError(
        'resize() needs a terminal: spawn it with pty: {cols, rows}',
        { code: 'ERR_SANDBOX_INVALID_OPTION', option: 'pty' },
      );
    }
    if (!this.#hasEnded) this.#run.resize(cols, rows);
  }

  wait() {
    this.#waiting ??= this.#wait();
    return this.#waiting;
  }

  ref() {
    this.#run.setAwaited(true);
    return this;
  }

  unref() {
    this.#run.setAwaited(false);
    return this;
  }

  async [Symbol.asyncDispose]() {
    if (!this.#hasEnded) this.#run.abort();
    await this.#ended;
  }

  // ---- Streams --------------------------------------------------------------

  #makeReadable(index) {
    return new Readable({
      highWaterMark: readAheadBytes,
      read: () => this.#want(index),
      destroy: (error, callback) => {
        this.#abandon(index);
        callback(error);
      },
    });
  }

  #makeWritable() {
    const input = this.#input;
    let isWriting = false;
    // Out of the promise, see #announceClose().
    const settle = (callback, error) =>
      process.nextTick(() => {
        isWriting = false;
        // First: who writes learns of it by this callback, and not by an error
        // event, which would end a program that has no listener.
        if (!input.isOpen) stdin.destroy();
        callback(error);
      });
    const fail = (callback) => (error) =>
      settle(callback, toSandboxError(error));
    const stdin = new Writable({
      write: (chunk, _encoding, callback) => {
        isWriting = true;
        input
          .write(bytesOf(chunk))
          .then(
            (isTaken) => settle(callback, isTaken ? null : brokenPipe()),
            fail(callback),
          );
      },
      final: (callback) =>
        input.end().then(() => settle(callback, null), fail(callback)),
      destroy: (error, callback) => {
        // Who reads a pipe waits for more that will not come.
        if (!this.#settings.pty) input.end().catch(() => {});
        callback(error);
      },
    });
    // Not an error: a program need not read all that it is given.
    input.onClose = () => {
      if (!isWriting) stdin.destroy();
    };
    return stdin;
  }

  // The stream wants a chunk. Not at once: a program that always has more would
  // never let anything else have its turn.
  #want(index) {
    if (this.#wanted[index] || this.#hasEnded) return;
    this.#wanted[index] = true;
    setImmediate(() => this.#read(index));
  }

  #read(index) {
    if (!this.#wanted[index] || this.#hasEnded) return;
    // It may have written something already: 'spawn' comes before all of it.
    if (this.#pid === undefined) return;
    let chunk;
    try {
      chunk = this.#run.read(index);
    } catch (error) {
      this.#stop(toSandboxError(error));
      return;
    }
    if (chunk === null) return; // An event comes when there is something.
    this.#wanted[index] = false;
    const stream = this.#streams[index];
    if (chunk.length === 0) {
      // Or its end follows at once, and says so.
      if (!this.#isCutOff && !this.#failure) stream.push(null);
    } else if (stream.destroyed) this.#want(index);
    else this.#give(index, chunk);
  }

  // What a reader of one throws is not the other's concern.
  #readBoth() {
    try {
      this.#read(0);
    } finally {
      this.#read(1);
    }
  }

  // The result and callbacks get the bytes as they came, which a stream with an
  // encoding does not give.
  #give(index, chunk) {
    const stream = this.#streams[index];
    if (stream.destroyed) return;
    const kept = this.#kept[index];
    if (kept?.isWanted || isUnread(stream)) kept?.add(chunk);
    else this.#kept[index] = undefined;
    this.#relay.deliver(streamNames[index], chunk);
    stream.push(chunk);
  }

  // Also what nobody reads of the stream has to flow.
  #keep(index) {
    this.#kept[index].isWanted = true;
    this.#streams[index].resume();
  }

  // Nobody will read it: who writes to a pipe gets SIGPIPE. A terminal goes on,
  // since the program is on its other side with all that it does.
  #abandon(index) {
    if (this.#hasEnded) return;
    if (this.#settings.pty) this.#want(index);
    else this.#run?.closeOutput(index);
  }

  // 'close' comes after 'exit' and the ends of both streams, but of those that
  // nobody reads: they keep what they have for who comes late.
  #announceClose() {
    const done = this.#streams.map(
      (stream, index) =>
        new Promise((resolve) => {
          this.#markDone[index] = resolve;
          stream.once('close', resolve);
        }),
    );
    Promise.all([this.#ended, ...done]).then(() => {
      // Out of the promise, which would turn what a listener throws into a
      // rejection.
      process.nextTick(() =>
        this.emit('close', this.#exitCode, this.#signalCode),
      );
    });
  }

  // A callback is a reader like any other; what it read is in the result too.
  #relayOutput() {
    this.#relay = new OutputRelay(this.#settings, (error) => this.#stop(error));
    this.#frames = new FrameCollector(this.#relay);
    this.#relay.wanted.forEach((isWanted, index) => {
      if (isWanted) this.#keep(index);
    });
  }

  // ---- The end --------------------------------------------------------------

  #onEvent(kind, first, second) {
    if (kind === 'stdout' || kind === 'stderr') {
      // What was in the pipe at the end.
      this.#give(streamNames.indexOf(kind), first);
    } else if (kind === 'output') {
      this.#readBoth();
    } else if (kind === 'input') {
      this.#input.answer(first === 1);
    } else if (kind === 'frame') {
      this.#frames.add(first, second);
    } else if (kind === 'start') {
      this.#onStart(first);
    } else if (kind === 'end') {
      this.#onEnd(first, second);
    }
  }

  #onStart(pid) {
    this.#pid = pid;
    try {
      this.emit('spawn');
    } finally {
      this.#readBoth();
    }
  }

  #stop(error) {
    this.#failure ??= { error };
    this.#run?.abort();
  }

  #onEnd(error, native) {
    this.#hasEnded = true;
    this.#forget();
    if (error) this.#failure ??= { error: toSandboxError(error) };
    // A box that was taken down has ended all the same.
    const signal = this.#failure ? 'SIGKILL' : signalName(native.signal);
    this.#signalCode = signal;
    this.#exitCode = signal === null ? native.exitCode : null;
    for (const stream of this.#streams) this.#endStream(stream);
    this.#input.close();
    this.#markEnded(native);
    try {
      this.#announceFailure();
    } finally {
      this.#announceExit();
    }
  }

  // Before 'exit', as with node:child_process: who awaits that gets it. Who does
  // not listen learns it from wait().
  #announceFailure() {
    if (!this.#failure || this.listenerCount('error') === 0) return;
    this.emit('error', this.#failure.error);
  }

  #announceExit() {
    try {
      this.emit('exit', this.#exitCode, this.#signalCode);
    } finally {
      this.#streams.forEach((stream, index) => {
        if (isUnread(stream) && !this.#kept[index]?.isWanted) {
          this.#markDone[index]();
        }
      });
    }
  }

  // What was cut off must not look complete; but an error that nobody listens
  // for would end the whole program.
  #endStream(stream) {
    if (!this.#failure) stream.push(null);
    else if (stream.listenerCount('error') === 0) stream.destroy();
    else stream.destroy(this.#failure.error);
  }

  async #wait() {
    this.#streams.forEach((stream, index) => {
      if (this.#kept[index]?.isWanted) return;
      if (isUnread(stream)) this.#keep(index);
      else this.#kept[index] = undefined;
    });
    const native = await this.#ended;
    if (this.#failure) throw this.#failure.error;
    const nothing = new KeptOutput(0);
    const [stdout = nothing, stderr = nothing] = this.#kept;
    return runOutcome(
      {
        ...native,
        stdout: stdout.bytes,
        stderr: stderr.bytes,
        stdoutTruncated: stdout.isTruncated,
        stderrTruncated: stderr.isTruncated,
      },
      this.#frames,
      { ...this.#settings, wasKilled: this.#wasKilled },
      this.#argv,
    );
  }
}

function isUnread(stream) {
  return (
    !stream.readableDidRead &&
    !stream.destroyed &&
    stream.listenerCount('data') === 0 &&
    stream.listenerCount('readable') === 0
  );
}

module.exports = { SandboxProcess, cutOff, startProcess };
