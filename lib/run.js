// SPDX-License-Identifier: Apache-2.0
'use strict';

const { FrameCollector } = require('./frames.js');
const { OutputRelay } = require('./output-relay.js');
const { runOutcome } = require('./outcome.js');
const { toSandboxError } = require('./errors.js');

/**
 * Runs one payload to its end. `spec` is what the engine gets, `limits` are the
 * numbers that messages name. Resolves with an ExecutionResult; rejects with
 * what a callback threw, or with a SandboxError.
 */
async function runToEnd(session, spec, callbacks, limits) {
  const frames = new FrameCollector();
  // Nobody will see this run's result any more, so it need not go on.
  let run;
  const relay = new OutputRelay(callbacks, () => run?.abort());

  let native;
  try {
    native = await new Promise((resolve, reject) => {
      const onEvent = (kind, first, second) => {
        // The engine must not get an exception back, not even one of ours.
        try {
          if (kind === 'stdout' || kind === 'stderr') {
            relay.deliver(kind, first);
          } else if (kind === 'frame') {
            frames.add(first, second);
          } else if (kind === 'end') {
            if (first) reject(first);
            else resolve(second);
          }
        } catch (error) {
          reject(error);
        }
      };
      run = session.run({ ...spec, wantOutput: relay.wanted }, onEvent);
    });
  } catch (error) {
    if (relay.failure) throw relay.failure.error;
    throw toSandboxError(error);
  }
  if (relay.failure) throw relay.failure.error;
  return runOutcome(native, frames, limits, spec.argv);
}

module.exports = { runToEnd };
