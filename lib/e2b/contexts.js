// SPDX-License-Identifier: Apache-2.0
'use strict';

// A Python that keeps its state from one runCode() to the next: a Kernel that
// starts when it is first needed. When it has ended, by a limit or by itself,
// the call that met that says so, and the next one starts another.

const startTimeoutS = 60;

class PythonContext {
  #sandbox;
  #cwd;
  #starting;
  #count = 0;

  constructor(sandbox, cwd) {
    this.#sandbox = sandbox;
    this.#cwd = cwd;
  }

  /**
   * `{result, count, isLost}` of a cell; `options` are those of
   * `kernel.runCode()`. Lost is the state of the interpreter, if it has ended.
   */
  async run(code, envs, options) {
    const starting = this.#start();
    const kernel = await starting;
    // All in one turn, so no other cell comes between them.
    const cells = [
      ...(envs ? [kernel.runCode(setVariables(envs))] : []),
      kernel.runCode(code, options),
      ...(envs ? [kernel.runCode(resetVariables)] : []),
    ];
    const count = ++this.#count;
    const endings = await Promise.allSettled(cells);
    const { value: result, reason } = endings[envs ? 1 : 0];
    // A timeout leaves it alive, with its state.
    if (!kernel.isAlive) await this.#forget(starting);
    if (!result) throw reason;
    return { result, count, isLost: !kernel.isAlive };
  }

  /** Ends it; the next call starts anew. */
  async close() {
    await this.#forget(this.#starting);
  }

  #start() {
    if (this.#starting) return this.#starting;
    const settings = { cwd: this.#cwd, timeoutS: startTimeoutS };
    const starting = this.#sandbox.kernel(settings);
    this.#starting = starting;
    starting.catch(() => this.#drop(starting));
    return starting;
  }

  #drop(starting) {
    if (this.#starting !== starting) return;
    this.#starting = undefined;
    this.#count = 0;
  }

  async #forget(starting) {
    this.#drop(starting);
    const kernel = await starting?.catch(() => undefined);
    await kernel?.close();
  }
}

// Variables of one call, in an interpreter that others use after it. JSON of
// strings is Python too. No name is left in the namespace of the code.
function setVariables(envs) {
  return `(lambda os, new: (
    setattr(os, "_e2b_envs", {name: os.environ.get(name) for name in new}),
    os.environ.update(new), None)[-1])(__import__("os"), ${JSON.stringify(envs)})`;
}

const resetVariables = `(lambda os: ([
    os.environ.pop(name, None) if old is None
    else os.environ.__setitem__(name, old)
    for name, old in vars(os).pop("_e2b_envs", {}).items()], None)[-1])(
    __import__("os"))`;

module.exports = { PythonContext };
