// SPDX-License-Identifier: Apache-2.0
'use strict';

/** What a call rejects with that `signal` has ended. */
function reasonOf(signal) {
  // Signals that are not Node's own may have none; null is one.
  return signal.reason === undefined
    ? new DOMException('This operation was aborted', 'AbortError')
    : signal.reason;
}

function throwIfAborted(signal) {
  if (signal?.aborted) throw reasonOf(signal);
}

// The calls that a signal ends, with one listener for all of them: with one for
// each, Node warns of a leak when there are more than ten.
const watched = new WeakMap();

function watch(signal) {
  const callbacks = new Set();
  const listener = () => {
    for (const onAbort of [...callbacks]) onAbort(reasonOf(signal));
  };
  const entry = { callbacks, listener };
  watched.set(signal, entry);
  signal.addEventListener('abort', listener);
  return entry;
}

function nothingToForget() {}

/**
 * Calls `onAbort(reason)` when `signal` is aborted. Returns a function that
 * leaves nothing of this call on the signal, which may live much longer.
 */
function watchAbort(signal, onAbort) {
  if (!signal) return nothingToForget;
  const { callbacks, listener } = watched.get(signal) ?? watch(signal);
  // Its own object: the same function may be given twice.
  const callback = (reason) => onAbort(reason);
  callbacks.add(callback);
  return () => {
    if (!callbacks.delete(callback) || callbacks.size > 0) return;
    signal.removeEventListener('abort', listener);
    watched.delete(signal);
  };
}

module.exports = { throwIfAborted, watchAbort };
