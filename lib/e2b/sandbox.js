// SPDX-License-Identifier: Apache-2.0
'use strict';

// E2B's Sandbox on a Sandbox of glovebox. What a service in a data centre can
// and one machine cannot throws, and says so.

const { randomUUID } = require('node:crypto');
const { isRecord } = require('../option-kinds.js');
const glovebox = require('../sandbox.js');
const {
  checkCallbacks,
  checkText,
  invalid,
  readOptions,
  secondsOf,
} = require('./arguments.js');
const { Commands } = require('./commands.js');
const { PythonContext } = require('./contexts.js');
const {
  InvalidArgumentError,
  TimeoutError,
  hasEnded,
  notThere,
  translated,
} = require('./errors.js');
const { Execution, LogStream, ResultStream, errorOf } =
  require('./execution.js');
const { Filesystem } = require('./filesystem.js');

const defaultLifeMs = 300_000;
const defaultTimeoutMs = 60_000;

// The longest that a timer of Node can be.
const longestLifeMs = 2 ** 31 - 1;

const internal = Symbol('sandbox');

const noAddress = 'a box has no network address of its own';
const noRules = 'the network is all or nothing: allowInternetAccess';
const noService = 'there is no service behind it, only this machine';
const noPause = 'a sandbox lives and ends with this program';

const createOptions = [
  'envs',
  'timeoutMs',
  'metadata',
  'secure',
  'signal',
  'glovebox',
];

const absentOptions = {
  template: 'the programs in a box are those of this machine',
  mcp: noService,
  network: noRules,
  iam: noService,
  volumeMounts: 'say folders as glovebox: {mounts} or {workspace}',
  lifecycle: noPause,
};

// E2B's names for languages, in glovebox's.
const languages = new Map([
  ['python', 'python'],
  ['javascript', 'node'],
  ['js', 'node'],
  ['bash', 'bash'],
]);

const codeOptions = [
  'language',
  'context',
  'onStdout',
  'onStderr',
  'onResult',
  'onError',
  'envs',
  'timeoutMs',
  'signal',
];

const callbackNames = ['onStdout', 'onStderr', 'onResult', 'onError'];

function checkLife(timeoutMs) {
  const fits =
    typeof timeoutMs === 'number' &&
    timeoutMs >= 0 &&
    timeoutMs <= longestLifeMs;
  if (fits) return;
  throw invalid('timeoutMs', `milliseconds, 0–${longestLifeMs}`, timeoutMs);
}

// The templates that E2B takes when none is named hold what any has.
function refuseTemplate(template) {
  if (['base', 'code-interpreter-v1'].includes(template)) return;
  throw notThere(
    `template ${JSON.stringify(template)}`,
    absentOptions.template,
  );
}

function readCreateOptions(args) {
  let [template, options] = args;
  if (typeof template !== 'string') [template, options] = [undefined, template];
  if (options !== undefined && !isRecord(options)) {
    throw invalid('Sandbox.create()', 'an object of options', options);
  }
  const { template: named, allowInternetAccess, ...rest } = options ?? {};
  for (const name of [template, named]) {
    if (name !== undefined && name !== null) refuseTemplate(name);
  }
  const read = readOptions(
    'Sandbox.create()',
    rest,
    createOptions,
    absentOptions,
  );
  read.timeoutMs ??= defaultLifeMs;
  checkLife(read.timeoutMs);
  setNetwork(read, allowInternetAccess ?? undefined);
  return read;
}

function setNetwork(read, isAllowed) {
  if (isAllowed === undefined) return;
  if (typeof isAllowed !== 'boolean') {
    throw invalid('allowInternetAccess', 'true or false', isAllowed);
  }
  const { network = isAllowed } = read.glovebox ?? {};
  if (network !== isAllowed) {
    throw invalid(
      'network of glovebox',
      `the same as for allowInternetAccess (${isAllowed}), or none`,
      network,
    );
  }
  // Off is what there is anyway, also with a spec, beside which it cannot stand.
  if (isAllowed) read.glovebox = { ...read.glovebox, network };
}

function languageOf(name) {
  const language = languages.get(name);
  if (language) return language;
  const known = [...languages.keys()].join(', ');
  throw notThere(`language ${JSON.stringify(name)}`, `it has ${known}`);
}

class Sandbox {
  #sandbox;
  #timer;
  #isRunning = true;
  #contexts = new Map();
  #default;

  constructor(key, sandbox, timeoutMs) {
    if (key !== internal) {
      throw new InvalidArgumentError('Say Sandbox.create(), not new Sandbox()');
    }
    this.sandboxId = randomUUID();
    this.files = new Filesystem(sandbox);
    this.commands = new Commands(sandbox);
    this.#sandbox = sandbox;
    this.#default = new PythonContext(sandbox);
    this.#live(timeoutMs);
  }

  static create(...args) {
    return translated(async () => {
      const { envs, timeoutMs, signal, ...read } = readCreateOptions(args);
      signal?.throwIfAborted();
      const sandbox = new glovebox.Sandbox({
        trackFiles: false, // Nothing here tells of files.
        ...read.glovebox,
        env: { ...read.glovebox?.env, ...envs },
      });
      await sandbox.open();
      return new this(internal, sandbox, timeoutMs);
    });
  }

  runCode(code, options) {
    return translated(async () => {
      checkText('code', code);
      const read = readOptions('runCode()', options, codeOptions);
      checkCallbacks(read, callbackNames);
      this.#checkRunning();
      const shown = new ResultStream(read.onResult);
      const logs = [
        new LogStream(read.onStdout, false),
        new LogStream(read.onStderr, true),
      ];
      const callbacks = {
        onStdout: (chunk) => logs[0].add(chunk),
        onStderr: (chunk) => logs[1].add(chunk),
        onResult: (result) => shown.add(result),
      };
      const ending = await this.#execute(code, read, callbacks);
      const { result, count, isLost } = ending;
      for (const log of logs) await log.end();
      if (result.fault?.type === 'timeout') {
        throw new TimeoutError(
          `The code was stopped after ${read.timeoutMs ?? defaultTimeoutMs} ` +
            `ms${isLost ? ', and the state of its interpreter is gone' : ''}: ` +
            'give it a longer timeoutMs, or 0 for no limit',
        );
      }
      const [stdout, stderr] = logs.map(({ pieces }) => pieces);
      const execution = new Execution(
        shown.results,
        { stdout, stderr },
        errorOf(result),
        count,
      );
      if (execution.error) await read.onError?.(execution.error);
      return execution;
    });
  }

  async createCodeContext(options) {
    const names = ['cwd', 'language'];
    const read = readOptions('createCodeContext()', options, names);
    const { cwd = '/workspace', language = 'python' } = read;
    if (languageOf(language) !== 'python') {
      throw notThere(`context of ${language}`, 'only Python keeps its state');
    }
    this.#checkRunning();
    const context = { id: randomUUID(), language, cwd };
    const python = new PythonContext(this.#sandbox, cwd);
    this.#contexts.set(context.id, { context, python });
    return { ...context };
  }

  async listCodeContexts() {
    return [...this.#contexts.values()].map(({ context }) => ({ ...context }));
  }

  async removeCodeContext(context) {
    const { python } = this.#findContext(context);
    this.#contexts.delete(context.id ?? context);
    await translated(() => python.close());
  }

  async restartCodeContext(context) {
    const { python } = this.#findContext(context);
    await translated(() => python.close());
  }

  async isRunning() {
    return this.#isRunning;
  }

  /** From now on. */
  async setTimeout(timeoutMs) {
    checkLife(timeoutMs);
    this.#checkRunning();
    this.#live(timeoutMs);
  }

  /** False if it had ended before. */
  async kill() {
    const wasRunning = this.#isRunning;
    this.#isRunning = false;
    clearTimeout(this.#timer);
    await translated(() => this.#sandbox.close());
    return wasRunning;
  }

  async [Symbol.asyncDispose]() {
    await this.kill();
  }

  #live(timeoutMs) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      // It is closed as far as can be; there is nobody to tell.
      this.kill().catch(() => {});
    }, timeoutMs);
    this.#timer.unref();
  }

  #checkRunning() {
    if (!this.#isRunning) throw hasEnded();
  }

  #findContext(context) {
    const found = this.#contexts.get(context?.id ?? context);
    if (!found) throw new InvalidArgumentError('There is no such code context');
    return found;
  }

  #execute(code, read, callbacks) {
    if (read.language !== undefined && read.context !== undefined) {
      throw new InvalidArgumentError('Say language or context, not both');
    }
    const options = {
      timeoutS: secondsOf(read.timeoutMs, defaultTimeoutMs),
      signal: read.signal,
      ...callbacks,
    };
    const language = languageOf(read.language ?? 'python');
    if (language === 'python') {
      const python =
        read.context === undefined
          ? this.#default
          : this.#findContext(read.context).python;
      return python.run(code, read.envs, options);
    }
    return this.#executeOnce(code, { ...options, language, env: read.envs });
  }

  async #executeOnce(code, options) {
    return { result: await this.#sandbox.runCode(code, options) };
  }
}

// ---- What is not there ------------------------------------------------------

const absentMethods = {
  connect: noPause,
  fork: noService,
  pause: noPause,
  betaPause: noPause,
  createSnapshot: "glovebox's own Sandbox has snapshot() and restore()",
  listSnapshots: noService,
  updateNetwork: noRules,
  getMcpToken: noService,
  uploadUrl: noService,
  downloadUrl: noService,
  getInfo: noService,
  getMetrics: noService,
};

const absentStatics = ['connect', 'list', 'fork', 'kill', 'pause', 'getInfo'];

function define(target, name, value) {
  Object.defineProperty(target, name, {
    value,
    writable: true,
    configurable: true,
  });
}

for (const [name, why] of Object.entries(absentMethods)) {
  define(Sandbox.prototype, name, async () => {
    throw notThere(`sandbox.${name}()`, why);
  });
}

for (const name of absentStatics) {
  define(Sandbox, name, async () => {
    throw notThere(`Sandbox.${name}()`, noPause);
  });
}

// These do not give promises in E2B either.
for (const name of ['getHost', 'getMcpUrl']) {
  define(Sandbox.prototype, name, () => {
    throw notThere(`sandbox.${name}()`, noAddress);
  });
}

const absentParts = {
  pty: "glovebox's own Sandbox has spawn() with pty",
  git: 'run git as a command',
};

for (const [name, why] of Object.entries(absentParts)) {
  Object.defineProperty(Sandbox.prototype, name, {
    configurable: true,
    get() {
      throw notThere(`sandbox.${name}`, why);
    },
  });
}

module.exports = { Sandbox };
