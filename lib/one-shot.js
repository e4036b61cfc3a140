// SPDX-License-Identifier: Apache-2.0
'use strict';

// Sandboxes that close themselves.

const { throwIfAborted } = require('./abort.js');
const { invalidOption } = require('./errors.js');
const { checkCode } = require('./languages.js');
const { describe, isRecord } = require('./option-kinds.js');
const { readOptions, sessionOptionNames } = require('./options.js');
const { Sandbox } = require('./sandbox.js');

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

async function runCode(code, options = {}) {
  // Read once: a getter could answer differently the next time.
  const given = isRecord(options) ? { ...options } : options;
  // Checked as a whole before anything starts; the Sandbox checks its part
  // again when it is made.
  const { language, cwd, stdin, signal } = readOptions('runCode()', given);
  checkCode(code, language);
  const session = Object.fromEntries(
    Object.entries(given).filter(
      ([name, value]) =>
        sessionOptionNames.includes(name) &&
        !(name === 'timeoutS' && value === null),
    ),
  );
  throwIfAborted(signal);
  return withSandbox(session, (sandbox) =>
    sandbox.runCode(code, { language, cwd, stdin, signal }),
  );
}

module.exports = { runCode, withSandbox };
