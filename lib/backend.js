// SPDX-License-Identifier: Apache-2.0
'use strict';

// What a Sandbox needs of this machine, behind one door: the engine, what is
// compiled with it, and the host's own files as a root. Tests put another
// backend in its place.

const { rethrowShortage } = require('./images/shortage.js');
const { getEngine, getNative } = require('./native.js');

/**
 * Remembers what `prepare` resolved with, for each distinct argument: looking
 * for interpreters takes longer than a call. A failure is forgotten, and so is
 * what `forget(accept)` finds among the results, so that the next call sees what
 * was installed meanwhile.
 */
function rememberPromises(prepare) {
  const known = new Map();
  const remember = (argument) => {
    const entries = Object.entries(argument).sort(([a], [b]) =>
      a < b ? -1 : 1,
    );
    const key = JSON.stringify(entries);
    const found = known.get(key);
    if (found) return found;
    const promise = Promise.resolve(prepare(argument));
    known.set(key, promise);
    promise.catch(() => known.delete(key));
    return promise;
  };
  remember.forget = (accept) => {
    for (const [key, promise] of known) {
      const drop = (result) => accept(result) && known.delete(key);
      promise.then(drop, () => {});
    }
  };
  return remember;
}

const prepareImage = rememberPromises(async (runtimes) => {
  try {
    const { prepareHostImage } = require('./images/host.js');
    return await prepareHostImage({ runtimes });
  } catch (error) {
    rethrowShortage(error);
    throw error;
  }
});

/** `runtimes` of an image lacks what somebody wanted. */
function lookAgainFor(runtimes) {
  prepareImage.forget((image) => image.runtimes === runtimes);
}

const describeBox = () => getNative().describeBox();
const readSpec = (json) => getNative().readSpec(json);

module.exports = {
  describeBox,
  getEngine,
  lookAgainFor,
  prepareImage,
  readSpec,
  rememberPromises,
};
