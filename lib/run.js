// SPDX-License-Identifier: Apache-2.0
'use strict';

const { throwIfAborted, watchAbort } = require('./abort.js');
const { FrameCollector } = require('./frames.js');
const { OutputRelay, hasCallbacks } = require('./output-relay.js');
const { runOutcome } = require('./outcome.js');
const { InputPipe, needsPump, pump } = require('./stdin-pump.js');
const { toSandboxError } = require('./errors.js');

/** Whether something may end a run before its time, or write to it. */
function needsHandle(settings, input) {
  return Boolean(settings.signal) || hasCallbacks(settings) || needsPump(input);
}

/**
 * Runs one payload to its end. `spec` is what the engine gets with the command
 * and with `input`, what inputSpec() says of stdin; `settings` has the callbacks,
 * the source of stdin, the signal, and the limits that messages name. Resolves
 * with an ExecutionResult. Rejects with what a callback or the source threw, with
 * the signal's reason, or with a SandboxError.
 */
async function runToEnd(session, spec, command, settings, input) {
  throwIfAborted(settings.signal);
  const pipe = needsPump(input) ? new InputPipe() : undefined;
  let run; // undefined where nothing needs it
  // The first thing that makes the result worthless: then the run need not go
  // on, and its end is waited for.
  let failure;
  const stop = (error) => {
    failure ??= { error };
    run?.abort();
  };
  const relay = hasCallbacks(settings)
    ? new OutputRelay(settings, stop)
    : undefined;
  const frames = new FrameCollector(relay);
  const forget = watchAbort(settings.signal, stop);

  let native;
  try {
    native = await new Promise((resolve, reject) => {
      const onEvent = (kind, first, second) => {
        // The engine must not get an exception back, not even one of ours.
        try {
          if (kind === 'end') {
            if (first) reject(first);
            else resolve(second);
          } else if (kind === 'stdout' || kind === 'stderr') {
            relay?.deliver(kind, first);
          } else if (kind === 'frame') {
            frames.add(first, second);
          } else if (kind === 'input') {
            pipe?.answer(first === 1);
          }
        } catch (error) {
          reject(error);
        }
      };
      const { argv, code } = command;
      run = session.run(spec, argv, code, input.firstInput, onEvent);
      if (!pipe) return;
      pipe.attach(run);
      pump(settings.stdin, pipe).catch(stop);
    });
  } catch (error) {
    throw failure ? failure.error : toSandboxError(error);
  } finally {
    forget();
    pipe?.close();
  }
  if (failure) throw failure.error;
  return runOutcome(native, frames, settings, command.argv);
}

module.exports = { needsHandle, runToEnd };
