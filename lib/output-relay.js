// SPDX-License-Identifier: Apache-2.0
'use strict';

const { AsyncResource } = require('node:async_hooks');

/**
 * Hands chunks of live output, and rich results, to the user's callbacks. What a
 * callback throws must not become an uncaught exception of the host, so the first
 * such error is kept in `failure`, `onFailure` is called with it, and no callback
 * is called again.
 */
class OutputRelay {
  /** `{error}` once a callback has failed: what was thrown may be undefined. */
  failure;
  #callbacks;
  #onFailure;
  #scope;

  constructor(settings, onFailure) {
    const { onStdout, onStderr, onResult } = settings;
    this.#callbacks = { stdout: onStdout, stderr: onStderr, result: onResult };
    this.#onFailure = onFailure;
    if (hasCallbacks(settings)) {
      // They see the AsyncLocalStorage of the code that started the call.
      this.#scope = new AsyncResource('GLOVEBOX_OUTPUT');
    }
  }

  /** Which of stdout and stderr somebody listens to. */
  get wanted() {
    const { stdout, stderr } = this.#callbacks;
    return [Boolean(stdout && !this.failure), Boolean(stderr && !this.failure)];
  }

  /** `kind`: "stdout" or "stderr" with a Buffer, "result" with a Result. */
  deliver(kind, value) {
    const callback = this.#callbacks[kind];
    if (!callback || this.failure) return;
    try {
      const returned = this.#scope.runInAsyncScope(callback, undefined, value);
      // An async callback fails by its promise. It is not waited for.
      if (typeof returned?.then === 'function') {
        returned.then(undefined, (error) => this.#fail(error));
      }
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error) {
    if (this.failure) return;
    this.failure = { error };
    this.#onFailure(error);
  }
}

/** Whether there is any callback of OutputRelay's among `settings`. */
function hasCallbacks({ onStdout, onStderr, onResult }) {
  return Boolean(onStdout || onStderr || onResult);
}

module.exports = { OutputRelay, hasCallbacks };
