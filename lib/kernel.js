// SPDX-License-Identifier: Apache-2.0
'use strict';

// What a program holds of a kernel. What is behind it does not hold it in turn,
// but while a call is on its way: so one that was forgotten can be collected,
// and its box goes with it.

const { invalidOption, toSandboxError } = require('./errors.js');
const { KernelCore } = require('./kernel/core.js');
const { checkCode } = require('./languages.js');
const { describe } = require('./option-kinds.js');
const { readOptions } = require('./options.js');

// Set in the class, which alone can reach its private parts.
let startKernel;

const internal = Symbol('kernel');

const forgotten = new FinalizationRegistry((core) => core.abandon());

// The kernels that somebody waits for: once for each call.
const awaited = new Map();

async function hold(kernel, call) {
  awaited.set(kernel, (awaited.get(kernel) ?? 0) + 1);
  try {
    return await call;
  } finally {
    const left = awaited.get(kernel) - 1;
    if (left > 0) awaited.set(kernel, left);
    else awaited.delete(kernel);
  }
}

class Kernel {
  #core;
  #language;
  #closing;

  constructor(key, core, language) {
    if (key !== internal) {
      throw invalidOption('new Kernel()', 'sandbox.kernel()', 'a direct call');
    }
    this.#core = core;
    this.#language = language;
    forgotten.register(this, core, core);
  }

  static {
    startKernel = async (session, spec, argv, settings) => {
      const core = new KernelCore(session, spec, argv, settings);
      await core.start();
      return new Kernel(internal, core, settings.language);
    };
  }

  get isAlive() {
    return this.#core.isAlive;
  }

  async runCode(code, options) {
    const call = readOptions('kernel.runCode()', options);
    checkCode(code, this.#language);
    return await hold(this, this.#core.runCode(code, call));
  }

  async interrupt() {
    try {
      return await this.#core.interrupt();
    } catch (error) {
      throw toSandboxError(error);
    }
  }

  restart() {
    return hold(this, this.#core.restart());
  }

  async checkpoint() {
    return hold(this, this.#core.checkpoint());
  }

  async rollback(id) {
    if (!Number.isSafeInteger(id) || id < 1) {
      throw invalidOption('id', 'what checkpoint() gave', describe(id));
    }
    return hold(this, this.#core.rollback(id));
  }

  close() {
    forgotten.unregister(this.#core);
    this.#closing ??= this.#core.close();
    return this.#closing;
  }

  [Symbol.asyncDispose]() {
    return this.close();
  }
}

module.exports = { Kernel, startKernel };
