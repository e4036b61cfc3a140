// SPDX-License-Identifier: Apache-2.0
'use strict';

const { throwIfAborted, watchAbort } = require('./abort.js');
const { FrameCollector } = require('./frames.js');
const { OutputRelay } = require('./output-relay.js');
const { runOutcome } = require('./outcome.js');
const { InputPipe, needsPump, pump } = require('./stdin-pump.js');
const { toSandboxError } = require('./errors.js');

/**
 * Runs one payload to its end. `spec` is what the engine gets; `settings` has
 * the callbacks, the source of stdin, the signal, and the limits that messages
 * name. Resolves with an ExecutionResult. Rejects with what a callback or the
 * source threw, with the signal's reason, or with a SandboxError.
 */
async function runToEnd(session, spec, settings) {
  throwIfAborted(settings.signal);
  const input = new InputPipe();
  let run;
  // The first thing that makes the result worthless: then the run need not go
  // on, and its end is waited for.
  let failure;
  const stop = (error) => {
    failure ??= { error };
    run?.abort();
  };
  const relay = new OutputRelay(settings, () => stop(relay.failure.error));
  const frames = new FrameCollector((result) =>
    relay.deliver('result', result),
  );
  const forget = watchAbort(settings.signal, stop);

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
          } else if (kind === 'input') {
            input.answer(first === 1);
          } else if (kind === 'end') {
            if (first) reject(first);
            else resolve(second);
          }
        } catch (error) {
          reject(error);
        }
      };
      run = session.run({ ...spec, wantOutput: relay.wanted }, onEvent);
      input.attach(run);
      if (needsPump(spec)) pump(settings.stdin, input).catch(stop);
    });
  } catch (error) {
    throw failure ? failure.error : toSandboxError(error);
  } finally {
    forget();
    input.close();
  }
  if (failure) throw failure.error;
  return runOutcome(native, frames, settings, spec.argv);
}

module.exports = { runToEnd };
