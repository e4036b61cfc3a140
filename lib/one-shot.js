// SPDX-License-Identifier: Apache-2.0
'use strict';

// Sandboxes that close themselves.

const { throwIfAborted } = require('./abort.js');
const backend = require('./backend.js');
const { Blueprint } = require('./blueprint.js');
const { SandboxError, invalidOption, toSandboxError } = require('./errors.js');
const { adviseOnPreload, checkCode, commandFor } = require('./languages.js');
const { limitsInForce, warnOfWeakLimits } = require('./limits.js');
const { nameMount } = require('./mounts.js');
const { warnOfOpenSockets } = require('./network/isolation.js');
const { describe, isRecord } = require('./option-kinds.js');
const { readOptions, sessionOptionNames } = require('./options.js');
const { runToEnd } = require('./run.js');
const { Sandbox } = require('./sandbox.js');
const { inputSpec } = require('./stdin-pump.js');

async function withSandbox(options, work) {
  // The options may be left out.
  if (typeof options === 'function' && work === undefined) {
    return withSandbox({}, options);
  }
  if (typeof work !== 'function') {
    throw invalidOption('fn', 'a function of a Sandbox', describe(work));
  }
  const sandbox = new Sandbox(options);
  let value;
  try {
    await sandbox.open();
    value = await work(sandbox);
  } catch (error) {
    await sandbox.close().catch((second) => keepBoth(error, second));
    throw error;
  }
  await sandbox.close();
  return value;
}

// The first error is the one to look at; the second is where those who look at
// the first will see it.
function keepBoth(error, second) {
  const isObject = typeof error === 'object' && error !== null;
  if (isObject && Object.isExtensible(error)) {
    Object.defineProperty(error, 'suppressed', {
      value: second,
      configurable: true,
      enumerable: true,
      writable: true,
    });
  } else {
    process.emitWarning(second);
  }
}

async function runCode(code, options) {
  // Read once: a getter could answer differently the next time.
  const given = isRecord(options) ? { ...options } : options;
  const call = readOptions('runCode()', given);
  checkCode(code, call.language);
  throwIfAborted(call.signal);
  // Only an open session knows what its limits are worth, and a spec may require
  // them, too.
  const waits = call.requireLimits || call.spec !== null;
  if (waits) return runWhenOpen(code, given, call);
  const { timeoutS } = readOptions('new Sandbox()');
  return runAtOnce(code, call.timeoutS === null ? { ...call, timeoutS } : call);
}

function runWhenOpen(code, given, { language, cwd, stdin, signal }) {
  const session = Object.fromEntries(
    Object.entries(given).filter(
      ([name, value]) =>
        sessionOptionNames.includes(name) &&
        !(name === 'timeoutS' && value === null),
    ),
  );
  return withSandbox(session, (sandbox) =>
    sandbox.runCode(code, { language, cwd, stdin, signal }),
  );
}

/**
 * The same with one call of the engine, which goes on from the opening of the
 * session to the run, and to the closing, by itself: to be woken in between
 * takes longer than what is done then.
 */
async function runAtOnce(code, options) {
  const session = new PassingSession();
  const blueprint = await session.prepare(options);
  const command = commandFor(blueprint.image, options.language, code);
  const settings = blueprint.settingsOf({});
  const input = inputSpec(settings.stdin);
  const spec = blueprint.callSpec(command, settings, input);
  let result;
  try {
    result = await runToEnd(session, spec, command, settings, input);
  } catch (error) {
    const isOurs = error instanceof SandboxError;
    const failure = isOurs ? adviseOnPreload(error, blueprint.image) : error;
    if (session.closeError) keepBoth(failure, session.closeError);
    throw failure;
  }
  if (session.closeError) throw session.closeError;
  return result;
}

/** One that its only run opens, and that is gone when that has ended. */
class PassingSession {
  /** Set with the end of the run: why its workspace could not be removed. */
  closeError;
  #engine;
  #blueprint;

  async prepare(options) {
    try {
      this.#engine = backend.getEngine();
      this.#blueprint = await Blueprint.make(options);
    } catch (error) {
      throw toSandboxError(error);
    }
    return this.#blueprint;
  }

  run(spec, argv, code, firstInput, onEvent) {
    const { settings } = this.#blueprint;
    return this.#engine.runOnce(
      this.#blueprint.sessionSpec(this.#engine),
      spec,
      argv,
      code,
      firstInput,
      (kind, first, second, closeError) => {
        if (kind === 'opened') {
          warn(first, settings);
        } else if (kind === 'end') {
          if (closeError) this.closeError = toSandboxError(closeError);
          const error = first && nameMount(first, settings.mounts ?? []);
          onEvent('end', error, second);
        } else {
          onEvent(kind, first, second);
        }
      },
    );
  }
}

function warn(info, settings) {
  if (settings.enforceLimits) warnOfWeakLimits(limitsInForce(info, settings));
  warnOfOpenSockets(settings.network, info.scoped);
}

module.exports = { runCode, withSandbox };
