// SPDX-License-Identifier: Apache-2.0
'use strict';

// `sandbox.commands`: each command is a bash in a box of its own, and what it
// started ends with it.

const { StringDecoder } = require('node:string_decoder');
const {
  checkCallbacks,
  checkText,
  readOptions,
  secondsOf,
} = require('./arguments.js');
const {
  CommandExitError,
  SandboxError,
  TimeoutError,
  notThere,
  toE2bError,
  translated,
} = require('./errors.js');

const defaultTimeoutMs = 60_000;

// Of each stream. A program that writes without end must not fill the host.
const keptCharacters = 2 ** 26;

const runOptions = [
  'background',
  'cwd',
  'user',
  'envs',
  'onStdout',
  'onStderr',
  'stdin',
  'timeoutMs',
  'signal',
];

/** The text of one stream so far: its beginning, if there is too much. */
class OutputText {
  text = '';
  #decoder = new StringDecoder('utf8');
  #callback;
  #room = keptCharacters;

  constructor(callback) {
    this.#callback = callback;
  }

  add(chunk) {
    return this.#deliver(this.#decoder.write(chunk));
  }

  end() {
    return this.#deliver(this.#decoder.end());
  }

  #deliver(text) {
    if (text === '') return undefined;
    const kept = text.slice(0, this.#room);
    this.#room -= kept.length;
    this.text += kept;
    return this.#callback?.(text);
  }
}

function errorText({ exitCode, signal, fault }) {
  if (fault) return fault.message;
  return signal ? `ended by ${signal}` : `exit code ${exitCode}`;
}

function closedStdin() {
  return new SandboxError('The stdin of the command is closed');
}

class CommandHandle {
  #process;
  #outputs;
  #takesInput;
  #timeoutMs;
  #ending;
  #result;

  constructor(pid, start, options) {
    const { onStdout, onStderr, stdin = false, timeoutMs } = options;
    this.pid = pid;
    this.#takesInput = stdin;
    this.#timeoutMs = timeoutMs ?? defaultTimeoutMs;
    this.#outputs = [new OutputText(onStdout), new OutputText(onStderr)];
    const [stdout, stderr] = this.#outputs;
    this.#process = start({
      onStdout: (chunk) => stdout.add(chunk),
      onStderr: (chunk) => stderr.add(chunk),
    });
    if (!stdin) this.#process.stdin.end();
    this.#ending = this.#wait();
    this.#ending.catch(() => {}); // Who waits gets it.
  }

  get stdout() {
    return this.#outputs[0].text;
  }

  get stderr() {
    return this.#outputs[1].text;
  }

  get exitCode() {
    return this.#result?.exitCode;
  }

  get error() {
    return this.#result?.error;
  }

  async wait() {
    const result = await this.#ending;
    if (result.exitCode !== 0) throw new CommandExitError(result);
    return result;
  }

  /** Whether there was something to kill. */
  async kill() {
    const sent = this.#process.kill('SIGKILL');
    await this.#ending.catch(() => {});
    return sent;
  }

  async sendStdin(data) {
    if (!this.#takesInput) {
      throw new SandboxError(
        'The command reads no stdin: run it with stdin: true',
      );
    }
    const { stdin } = this.#process;
    if (stdin.destroyed || stdin.writableEnded) throw closedStdin();
    await new Promise((resolve, reject) => {
      stdin.write(data, (error) => {
        if (!error) resolve();
        else reject(stdin.destroyed ? closedStdin() : toE2bError(error));
      });
    });
  }

  async closeStdin() {
    this.#process.stdin.end();
  }

  async disconnect() {
    throw notThere(
      'disconnect()',
      'a command ends with the program that runs it',
    );
  }

  /** Resolves when it runs, or has ended. */
  async started() {
    if (this.#process.pid !== undefined) return;
    const spawned = new Promise((resolve) =>
      this.#process.once('spawn', resolve),
    );
    await Promise.race([spawned, this.#ending]);
  }

  async #wait() {
    let ended;
    try {
      ended = await this.#process.wait();
      await Promise.all(this.#outputs.map((output) => output.end()));
    } catch (error) {
      throw toE2bError(error);
    }
    if (ended.fault?.type === 'timeout') {
      throw new TimeoutError(
        `The command was stopped after ${this.#timeoutMs} ms: ` +
          'give it a longer timeoutMs, or 0 for no limit',
      );
    }
    const { stdout, stderr } = this;
    const { exitCode } = ended;
    this.#result = { exitCode, stdout, stderr };
    if (exitCode !== 0) this.#result.error = errorText(ended);
    return this.#result;
  }
}

class Commands {
  #sandbox;
  #running = new Map();
  #lastPid = 0;

  constructor(sandbox) {
    this.#sandbox = sandbox;
  }

  async run(cmd, options) {
    return translated(async () => {
      checkText('cmd', cmd);
      const read = readOptions('commands.run()', options, runOptions);
      checkCallbacks(read, ['onStdout', 'onStderr']);
      const handle = this.#start(cmd, read);
      if (!read.background) return handle.wait();
      await handle.started();
      return handle;
    });
  }

  async list() {
    return [...this.#running].map(([pid, { cmd, read }]) => ({
      pid,
      cmd: '/bin/bash',
      args: ['-c', cmd],
      envs: { ...read.envs },
      cwd: read.cwd ?? '/workspace',
    }));
  }

  /** False if no such command runs. */
  async kill(pid) {
    return this.#running.get(pid)?.handle.kill() ?? false;
  }

  async sendStdin(pid, data) {
    await this.#find(pid).sendStdin(data);
  }

  async closeStdin(pid) {
    await this.#find(pid).closeStdin();
  }

  async connect() {
    throw notThere(
      'commands.connect()',
      'keep the handle that run() gave with background: true',
    );
  }

  #find(pid) {
    const found = this.#running.get(pid);
    if (!found) throw new SandboxError(`No command with pid ${pid} runs`);
    return found.handle;
  }

  #start(cmd, read) {
    // A number of ours: each box counts its processes from 1.
    const pid = ++this.#lastPid;
    const timeoutS = secondsOf(read.timeoutMs, defaultTimeoutMs);
    const start = (callbacks) =>
      this.#sandbox.spawn(
        { code: cmd, language: 'bash' },
        {
          ...callbacks,
          cwd: read.cwd,
          env: read.envs,
          signal: read.signal,
          timeoutS,
        },
      );
    const handle = new CommandHandle(pid, start, read);
    this.#running.set(pid, { handle, cmd, read });
    const forget = () => this.#running.delete(pid);
    handle.wait().then(forget, forget);
    return handle;
  }
}

module.exports = { CommandHandle, Commands };
