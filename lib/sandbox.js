// SPDX-License-Identifier: Apache-2.0
'use strict';

// A session: checked options and a workspace. Each call gets a box of its own,
// so calls may run at the same time; what they share is the workspace.
//
//   new ──open()──▶ open ──close()──▶ closed        close() is possible in
//    └──────────────close()──────────────▲           every state, and final

const backend = require('./backend.js');
const { restore } = require('./archive/restore.js');
const { snapshot } = require('./archive/snapshot.js');
const { checkArgv } = require('./argv.js');
const { Blueprint } = require('./blueprint.js');
const { adviseOnPreload, checkCode, commandFor } = require('./languages.js');
const { SandboxError, invalidOption, toSandboxError } = require('./errors.js');
const files = require('./files.js');
const { FileReadStream, FileWriteStream } = require('./file-streams.js');
const { startKernel } = require('./kernel.js');
const {
  limitsInForce,
  warnOfWeakLimits,
  weakLimitsError,
} = require('./limits.js');
const { nameMount } = require('./mounts.js');
const { warnOfOpenSockets } = require('./network/isolation.js');
const { isRecord } = require('./option-kinds.js');
const { readHostPath, readOptions } = require('./options.js');
const { makePlan } = require('./plan.js');
const { cutOff, startProcess } = require('./process.js');
const { runToEnd } = require('./run.js');
const { inputSpec, noInput } = require('./stdin-pump.js');
const { workspacePath } = require('./workspace-path.js');

function notOpenError() {
  return new SandboxError(
    'The sandbox is not open: await sandbox.open() first, or use withSandbox()',
    { code: 'ERR_SANDBOX_NOT_OPEN' },
  );
}

function closedError() {
  return new SandboxError('The sandbox is closed: make a new one', {
    code: 'ERR_SANDBOX_CLOSED',
  });
}

// Set in the class, which alone can reach its private parts.
let openQuietly;

class Sandbox {
  #options;
  #warns = true;
  #opening;
  #closing;
  #closed = new AbortController(); // aborted when close() is called
  // Both are there once it is open.
  #blueprint;
  #session;
  // Of calls without options of their own, made once: their settings, and what
  // the engine has read for each runtime that may serve them.
  #usual;
  #prepared = new Map();
  #limits;
  #processes = new Set(); // that spawn() started, and that have not ended

  constructor(options) {
    this.#options = readOptions('new Sandbox()', options);
  }

  static {
    /** Opens it without a warning of weak limits: doctor() tells of them. */
    openQuietly = (sandbox) => {
      sandbox.#warns = false;
      return sandbox.open();
    };
  }

  get workspace() {
    return this.#opened().info.workspace;
  }

  get limits() {
    this.#opened();
    return this.#limits;
  }

  open() {
    if (this.#closing) return Promise.reject(closedError());
    this.#opening ??= this.#open().catch((error) => {
      // What was wrong may be put right: the next open() tries again.
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }

  close() {
    this.#closing ??= this.#close();
    this.#closed.abort(closedError());
    return this.#closing;
  }

  [Symbol.asyncDispose]() {
    return this.close();
  }

  async runCode(code, options) {
    const session = this.#ready();
    const call = readOptions('sandbox.runCode()', options);
    checkCode(code, call.language);
    const command = commandFor(this.#blueprint.image, call.language, code);
    return await this.#run(session, command, call, options === undefined);
  }

  async run(argv, options) {
    const session = this.#ready();
    // Who writes run('ls', ['-l']) is told of the argv first.
    const command = argvCommand(argv);
    const call = readOptions('sandbox.run()', options);
    return await this.#run(session, command, call, options === undefined);
  }

  spawn(command, options) {
    const session = this.#ready();
    const parts = this.#commandToSpawn(command);
    const call = readOptions('sandbox.spawn()', options);
    const settings = this.#settingsOf(call);
    const spec = {
      ...this.#blueprint.callSpec(parts, settings, noInput),
      input: true,
      stream: true,
      pty: settings.pty,
      wantOutput: [true, true],
      handle: true,
    };
    return startProcess(session, spec, parts, settings, this.#processes);
  }

  async kernel(options) {
    const session = this.#ready();
    const call = readOptions('sandbox.kernel()', options);
    if (call.checkpoint && call.language !== 'python') {
      throw invalidOption(
        'checkpoint',
        `null for a kernel of ${call.language}, which has no checkpoints`,
        JSON.stringify(call.checkpoint),
      );
    }
    const command = commandFor(this.#blueprint.image, call.language, undefined);
    const settings = this.#settingsOf(call);
    const spec = {
      ...this.#blueprint.callSpec(command, settings, noInput),
      kernel: true,
      timeoutMs: 0, // Each cell has its own.
      wantOutput: [false, false],
      handle: true,
    };
    return startKernel(session, spec, command.argv, settings);
  }

  // ---- Files: what they do is in files.js -----------------------------------

  async writeFile(path, data, options) {
    const session = this.#ready();
    return files.writeFile(session, path, data, options, this.#closed.signal);
  }

  async readFile(path, options) {
    return files.readFile(this.#ready(), path, options);
  }

  createReadStream(path, options) {
    const settings = readOptions(
      'sandbox.createReadStream()',
      typeof options === 'string' ? { encoding: options } : options,
    );
    const bytes = workspacePath(path);
    return new FileReadStream(this.#ready(), path, bytes, settings);
  }

  createWriteStream(path, options) {
    const settings = readOptions('sandbox.createWriteStream()', options);
    const bytes = workspacePath(path);
    return new FileWriteStream(this.#ready(), path, bytes, settings);
  }

  async listFiles(folder, options) {
    return files.listFiles(this.#ready(), folder, options);
  }

  async stat(path) {
    return files.stat(this.#ready(), path);
  }

  async exists(path) {
    return files.exists(this.#ready(), path);
  }

  async mkdir(path) {
    return files.mkdir(this.#ready(), path);
  }

  async rename(from, to) {
    return files.rename(this.#ready(), from, to);
  }

  async rm(path, options) {
    return files.rm(this.#ready(), path, options);
  }

  async watch(folder) {
    return files.watch(this.#ready(), folder);
  }

  async snapshot(dest, options) {
    const settings = readOptions('sandbox.snapshot()', options);
    return snapshot(this.#ready(), readHostPath('dest', dest), settings);
  }

  async restore(src, options) {
    const settings = readOptions('sandbox.restore()', options);
    return restore(this.#ready(), readHostPath('src', src), settings);
  }

  async plan() {
    const session = this.#opened();
    const { workspace, cgroups, scoped } = session.info;
    try {
      return makePlan({
        image: this.#blueprint.image,
        settings: this.#blueprint.settings,
        environment: this.#blueprint.environment,
        cwd: this.#blueprint.cwd,
        workspace,
        cgroups,
        scoped,
        limits: this.#limits,
        givenUp: session.givenUp(),
      });
    } catch (error) {
      throw toSandboxError(error, 'plan()');
    }
  }

  // ---- Life cycle ---------------------------------------------------------

  async #open() {
    try {
      // First, since it says best why nothing can work on this machine.
      const engine = backend.getEngine();
      this.#blueprint = await Blueprint.make(this.#options);
      if (this.#closing) throw closedError();
      this.#session = await engine.openSession(
        this.#blueprint.sessionSpec(engine),
      );
    } catch (error) {
      const mounts = this.#blueprint?.settings.mounts ?? [];
      const failure = toSandboxError(nameMount(error, mounts));
      throw adviseOnPreload(failure, this.#blueprint?.image);
    }
    const { settings } = this.#blueprint;
    this.#limits = limitsInForce(this.#session.info, settings);
    // #close() is waiting for this promise and ends the session after it.
    if (this.#closing) throw closedError();
    if (settings.requireLimits) await this.#refuseWeakLimits();
    if (settings.enforceLimits && this.#warns) warnOfWeakLimits(this.#limits);
    if (this.#warns) {
      warnOfOpenSockets(settings.network, this.#session.info.scoped);
    }
    return this;
  }

  /** Only an open session knows what its limits are worth. */
  async #refuseWeakLimits() {
    const refusal = weakLimitsError(this.#limits, this.#blueprint.settings);
    if (!refusal) return;
    const session = this.#session;
    this.#session = undefined;
    await session.close().catch(() => {}); // The refusal says more.
    throw refusal;
  }

  async #close() {
    await this.#opening?.catch(() => {});
    for (const process of this.#processes) cutOff(process);
    try {
      await this.#session?.close();
    } catch (error) {
      throw toSandboxError(error);
    }
  }

  /** The engine's session, for calls. */
  #ready() {
    if (this.#closing) throw closedError();
    return this.#opened();
  }

  /** The engine's session, for facts that stay true after close(). */
  #opened() {
    if (!this.#session) throw notOpenError();
    return this.#session;
  }

  // ---- What the engine gets -----------------------------------------------

  #run(session, command, call, isUsual) {
    if (isUsual) {
      this.#usual ??= this.#settingsOf(call);
      const spec = this.#preparedSpec(session, command);
      return runToEnd(session, spec, command, this.#usual, noInput);
    }
    const settings = this.#settingsOf(call);
    const input = inputSpec(settings.stdin);
    const spec = this.#blueprint.callSpec(command, settings, input);
    return runToEnd(session, spec, command, settings, input);
  }

  /** What the session's run() takes in the place of a spec. */
  #preparedSpec(session, command) {
    // A command with a control socket is of the runtime that `standby` names,
    // and all that have none are alike.
    const { standby } = command;
    let prepared = this.#prepared.get(standby);
    if (prepared === undefined) {
      const spec = this.#blueprint.callSpec(command, this.#usual, noInput);
      prepared = session.prepare(spec);
      this.#prepared.set(standby, prepared);
    }
    return prepared;
  }

  /** `command` is an argv or `{code, language}`. */
  #commandToSpawn(command) {
    if (!isRecord(command)) return argvCommand(command);
    const { code, language } = readOptions(
      'the code of sandbox.spawn()',
      command,
    );
    checkCode(code, language);
    return commandFor(this.#blueprint.image, language, code);
  }

  /** The session's options with those of a call over them. */
  #settingsOf(call) {
    const settings = this.#blueprint.settingsOf(call);
    this.#checkLimits(call, settings);
    return settings;
  }

  // A call may ask for a limit that its session has not.
  #checkLimits({ memoryMb, cpus, pids }, settings) {
    const isOwn = [memoryMb, cpus, pids].some((limit) => limit !== undefined);
    if (!isOwn) return; // Checked when it was opened.
    const limits = limitsInForce(this.#session.info, settings);
    if (settings.requireLimits) {
      const refusal = weakLimitsError(limits, settings);
      if (refusal) throw refusal;
    }
    if (settings.enforceLimits && this.#warns) warnOfWeakLimits(limits);
  }
}

function argvCommand(argv) {
  return {
    argv: checkArgv(argv),
    standby: null,
    control: false,
    code: null,
  };
}

module.exports = { Sandbox, openQuietly };
