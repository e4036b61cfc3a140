// SPDX-License-Identifier: Apache-2.0
'use strict';

// Checked options, put together with what this machine has: all that the engine
// gets to know of a session and of the calls in it.

const os = require('node:os');
const path = require('node:path');
const backend = require('./backend.js');
const { canComeLate, environmentOf, variablesOf } = require('./environment.js');
const { standbyEnvironment, standbysOf } = require('./languages.js');
const { nativeDiskLimit, nativeLimits, nativeTimeout } = require('./limits.js');
const { nativeMounts } = require('./mounts.js');
const { withHostNetwork } = require('./network/host-files.js');
const { readSpec } = require('./plan.js');
const { needsHandle } = require('./run.js');

const specVersion = 1;

const noVariables = new Map();

/**
 * The variables of a call as `env`, and whether an interpreter that runs already
 * may get them, by its runtime.
 */
function callVariables(list, ahead) {
  const isInTime = (runtime) =>
    canComeLate(list, standbyEnvironment(runtime, ahead));
  return {
    env: list,
    canComeLate: { python: isInTime('python'), node: isInTime('node') },
  };
}

// What most sessions of an image have in common, those without variables and
// modules of their own. To make it anew takes as long as a tenth of a call.
const usuals = new WeakMap();

function usualOf(image) {
  const found = usuals.get(image);
  if (found) return found;
  const environment = environmentOf(image.path, noVariables);
  const list = variablesOf(environment);
  const ahead = { preload: [], variables: list };
  const usual = {
    environment,
    variables: callVariables(list, ahead),
    roots: new Map(), // by whether interpreters are started ahead of calls
  };
  usuals.set(image, usual);
  return usual;
}

class Blueprint {
  /** The options, or what a spec has in their place. */
  settings;
  image;
  /** Of all calls, as `cwd` is. */
  environment;
  cwd;
  #variables; // of a call without variables of its own
  #roots; // that others have, too

  constructor({ settings, image, environment, cwd, usual }) {
    this.settings = settings;
    this.image = image;
    this.environment = environment;
    this.cwd = cwd;
    if (!usual || settings.preload.length > 0) return;
    if (usual.environment === environment) this.#variables = usual.variables;
    if (!settings.network) this.#roots = usual.roots;
  }

  /** Of what readOptions() made of a session's options. */
  static async make(options) {
    const { spec, runtimes, env, network } = options;
    if (spec !== null) {
      const read = await readSpec(spec);
      const settings = { ...options, ...read.settings };
      return new Blueprint({ ...read, settings });
    }
    const image = await backend.prepareImage(runtimes);
    const usual = usualOf(image);
    return new Blueprint({
      settings: options,
      image: network
        ? { ...image, entries: withHostNetwork(image.entries) }
        : image,
      environment:
        env.size === 0 ? usual.environment : environmentOf(image.path, env),
      cwd: '/workspace',
      usual,
    });
  }

  sessionSpec(engine) {
    const { settings } = this;
    return {
      version: specVersion,
      root: this.#rootFrom(engine),
      workspace: settings.workspace,
      tempDir: path.resolve(os.tmpdir()),
      mounts: nativeMounts(settings.mounts ?? []),
      ...nativeLimits(settings),
      ...nativeDiskLimit(settings),
      enforceLimits: settings.enforceLimits,
      network: settings.network,
    };
  }

  /** The session's options with those of a call over them. */
  settingsOf(call) {
    const settings = { ...this.settings };
    for (const [name, value] of Object.entries(call)) {
      if (value === undefined) continue;
      if (name === 'timeoutS' && value === null) continue;
      settings[name] = value;
    }
    Object.assign(settings, this.#variablesOf(call));
    return settings;
  }

  /** All that the engine has to know of a call but the command itself. */
  callSpec({ standby, control }, settings, input) {
    return {
      version: specVersion,
      control,
      standby: settings.canComeLate[standby] ? standby : null,
      warm: settings.warm,
      env: settings.env,
      cwd: settings.cwd ?? this.cwd,
      timeoutMs: nativeTimeout(settings.timeoutS),
      maxOutputBytes: settings.maxOutputBytes,
      ...nativeLimits(settings),
      kernel: false,
      trackFiles: settings.trackFiles,
      trace: settings.trace === 'blocked',
      input: input.input,
      inputEnds: input.inputEnds,
      stream: false,
      pty: null,
      wantOutput: [Boolean(settings.onStdout), Boolean(settings.onStderr)],
      handle: needsHandle(settings, input),
    };
  }

  /** What the engine has read of the image, and of what is started in it. */
  #rootFrom(engine) {
    const { warm } = this.settings;
    const known = this.#roots?.get(warm);
    if (known) return known;
    const standbys = warm ? standbysOf(this.image, this.#ahead) : [];
    const root = engine.prepareRoot(this.image.entries, standbys);
    this.#roots?.set(warm, root);
    return root;
  }

  /** What interpreters need to know that are started ahead of calls. */
  get #ahead() {
    return {
      preload: this.settings.preload,
      variables: variablesOf(this.environment),
    };
  }

  /** Its variables as `env`, and whether a running interpreter may get them. */
  #variablesOf({ env, pty }) {
    const isUsual = !env?.size && !pty;
    if (isUsual && this.#variables) return this.#variables;
    const own = this.environment;
    const list = variablesOf(
      pty ? new Map([['TERM', pty.term], ...own]) : own,
      env,
    );
    const found = callVariables(list, this.#ahead);
    if (isUsual) this.#variables = found;
    return found;
  }
}

module.exports = { Blueprint };
