// SPDX-License-Identifier: Apache-2.0
'use strict';

// What a box gets, as plain data. `spec` is what makes it and can be read back,
// from a file too: the engine parses it (src/engine/spec.c). `box` is what comes
// of that here: it is told from the tables that make the box, and not read back.

const crypto = require('node:crypto');
const fs = require('node:fs');
const backend = require('./backend.js');
const { canComeLate, variablesOf } = require('./environment.js');
const { SandboxError } = require('./errors.js');
const { standbyEnvironment } = require('./languages.js');
const { hostname } = require('./images/system.js');
const { describeMounts } = require('./mounts.js');
const { describeNetwork } = require('./network/isolation.js');
const { isRecord } = require('./option-kinds.js');
const { languages, readOptions, version } = require('./options.js');
const { escaped, quoted } = require('./quoted.js');

const formatVersion = 2;
const largestFile = 2 ** 20;
const bytesPerMib = 2 ** 20;
const bytesPerInstruction = 8; // of a struct sock_filter
// Of the launcher: what boxes that wait are made for (spares.c), and what only a
// new cgroup is good for (leaves.h).
const readyPids = 256;
const smallMemoryMb = 8;

// ---- Telling --------------------------------------------------------------------

/**
 * `session` is what an open Sandbox knows: `image`, the options in force as
 * `settings`, `environment` (a Map), `cwd`, `workspace` (its path), `limits`
 * (how each is enforced), `cgroups` (whether boxes that wait have one), `scoped`
 * (whether Landlock holds a shared network) and `givenUp` (which interpreters
 * turned out not to be able to wait: "python", "node", "zygote").
 */
function makePlan(session) {
  return {
    version: formatVersion,
    glovebox: version,
    spec: describeSpec(session),
    box: describeBox(session, backend.describeBox()),
  };
}

function describeSpec({ image, settings, environment, cwd }) {
  return {
    entries: image.entries.map(({ data, ...entry }) =>
      data === undefined ? entry : { ...entry, data: data.toString() },
    ),
    runtimes: Object.fromEntries(
      languages.map((name) => [name, image.runtimes[name].executable ?? null]),
    ),
    workspace: settings.workspace,
    mounts: describeMounts(settings.mounts ?? []),
    cwd,
    env: Object.fromEntries(environment),
    limits: {
      memoryMb: settings.memoryMb,
      pids: settings.pids,
      cpus: settings.cpus,
      diskMb: settings.diskMb,
    },
    enforceLimits: settings.enforceLimits,
    requireLimits: settings.requireLimits,
    trackFiles: settings.trackFiles,
    warm: settings.warm,
    network: settings.network,
    preload: settings.preload,
    timeoutS: settings.timeoutS,
    maxOutputBytes: settings.maxOutputBytes,
  };
}

function describeBox(session, made) {
  const { settings, limits, scoped } = session;
  const { network } = settings;
  return {
    mounts: describeAllMounts(session, made),
    devices: made.devices,
    namespaces: [
      ...['user', 'mount', 'pid', 'ipc', 'uts', 'cgroup'],
      ...(network ? [] : ['network']),
    ],
    ...describeNetwork(network, scoped),
    capabilities: [],
    user: { name: 'user', uid: 1000, gid: 1000, home: '/home/user' },
    hostname,
    limits: Object.fromEntries(
      Object.entries(limits).map(([name, force]) => [
        name,
        { value: settings[name], force },
      ]),
    ),
    filter: describeFilter(made),
    start: describeStart(session),
  };
}

function describeAllMounts({ image, settings, workspace }, made) {
  const bind = (target, source, access) => ({
    target,
    type: 'bind',
    source,
    access,
  });
  const memoryBytes = (settings.memoryMb ?? 0) * bytesPerMib;
  const isThere = (file) => fs.existsSync(file);
  return [
    { target: '/', type: 'tmpfs', access: 'ro' },
    ...made.devices.map((device) => bind(device, device, 'rw')),
    ...image.entries
      .filter(({ kind }) => kind === 'bind')
      .map(({ target, source }) => bind(target, source, 'ro')),
    ...made.scratch.map(({ path, quarters }) => ({
      target: path,
      type: 'tmpfs',
      access: 'rw',
      sizeBytes: memoryBytes === 0 ? null : (memoryBytes / 4) * quarters,
    })),
    { target: '/proc', type: 'proc', access: 'rw' },
    // Where this kernel has them.
    ...[...made.hiddenFiles, ...made.hiddenDirs]
      .filter(isThere)
      .map((target) => ({ target, type: 'hidden', access: 'none' })),
    ...made.readOnlyDirs
      .filter(isThere)
      .map((target) => ({ target, type: 'proc', access: 'ro' })),
    bind('/workspace', workspace, 'rw'),
    ...(settings.mounts ?? []).map(({ source, target, access }) =>
      bind(target, source, access),
    ),
  ];
}

function describeFilter({ verdicts, program }) {
  const filter = {
    otherwise: 'ENOSYS',
    instructions: program.length / bytesPerInstruction,
    sha256: crypto.createHash('sha256').update(program).digest('hex'),
  };
  for (const [verdict, calls] of verdicts) {
    filter[verdict] ??= [];
    filter[verdict].push(...calls.split(' '));
  }
  for (const [verdict, calls] of Object.entries(filter)) {
    if (Array.isArray(calls)) filter[verdict] = [...new Set(calls)].sort();
  }
  return filter;
}

// As the launcher's spares.c and canComeLate() decide it, for calls without options
// of their own.
function describeStart(session) {
  const box = describeBoxStart(session);
  return {
    box,
    python: describePythonStart(session, box),
    bash: { from: 'cold', why: 'bash is started for each call, in the box' },
    node: describeNodeStart(session, box),
  };
}

const onDemand = (why) => ({ from: 'on demand', why });
const cold = (why) => ({ from: 'cold', why });

function describeBoxStart({ settings, cgroups }) {
  const { memoryMb, pids } = settings;
  const isSmall = memoryMb !== null && memoryMb < smallMemoryMb;
  const isLarge = pids === null || pids > readyPids;
  if (!settings.warm) return onDemand('warm is false');
  if (settings.trace)
    return onDemand('a box that is traced is made for its call');
  if (cgroups && !settings.enforceLimits) {
    return onDemand('enforceLimits is false, and boxes that wait have cgroups');
  }
  if (cgroups && isSmall) {
    return onDemand(`a box below ${smallMemoryMb} MiB gets a new cgroup`);
  }
  if (!cgroups && isLarge) {
    return onDemand(`boxes that wait are made for ${readyPids} processes`);
  }
  return { from: 'ready', why: 'boxes of this root wait for calls' };
}

/** What speaks against an interpreter of `runtime` that was started before. */
function whyCold({ image, settings, environment }, runtime) {
  const { executable, lacksCtypes } = image.runtimes[runtime];
  if (!executable) return 'there is no such interpreter: a call is refused';
  if (!settings.warm) return 'warm is false';
  if (settings.trace) return 'an interpreter that is traced starts in its box';
  if (lacksCtypes) return `${executable} has no module ctypes`;
  const variables = variablesOf(environment);
  const started = standbyEnvironment(runtime, {
    preload: settings.preload,
    variables,
  });
  return canComeLate(variables, started)
    ? undefined
    : 'env has what is read when an interpreter starts';
}

const cannotWait = (runtime) =>
  `${runtime} was started ahead of calls, and did not come to wait for one`;

function describePythonStart(session, box) {
  const why = whyCold(session, 'python');
  if (why) return cold(why);
  const { settings, givenUp } = session;
  const { preload } = settings;
  const isGivenUp = givenUp.includes('python');
  if (givenUp.includes('zygote')) {
    return isGivenUp ? cold(cannotWait('python')) : describeWaiting(box);
  }
  const which =
    preload.length > 0 ? `one that has imported ${preload.join(', ')}` : 'one';
  return box.from === 'ready' && !isGivenUp
    ? { from: 'ready', why: `interpreters wait, forked from ${which}` }
    : onDemand(`forked from ${which} into a box that is made for the call`);
}

function describeNodeStart(session, box) {
  const why = whyCold(session, 'node');
  if (why) return cold(why);
  if (session.givenUp.includes('node')) return cold(cannotWait('node'));
  return describeWaiting(box);
}

function describeWaiting(box) {
  return box.from === 'ready'
    ? { from: 'ready', why: 'after the first call interpreters wait' }
    : cold(`none can wait: ${box.why}`);
}

// ---- Reading --------------------------------------------------------------------

function specError(place, problem, cause) {
  return new SandboxError(`${place} ${problem}`, {
    code: 'ERR_SANDBOX_INVALID_OPTION',
    option: 'spec',
    cause,
  });
}

/**
 * What a Sandbox needs, from the option `spec`: `{image, settings, environment,
 * cwd}`. `settings` has only what a spec says.
 */
async function readSpec(source) {
  const place = source.file
    ? `The spec file ${quoted(source.file)}`
    : 'The spec';
  const json = source.json ?? (await readFile(source.file, place));
  let read;
  try {
    read = backend.readSpec(json);
  } catch (error) {
    if (error.code !== 'INVALID') throw error;
    throw specError(
      place,
      `is wrong: ${escaped(error.detail)}${hintFor(json)}`,
    );
  }
  const checked = readOptions('new Sandbox()', read.options);
  const names = Object.keys(read.options);
  return {
    image: {
      entries: read.entries,
      runtimes: Object.fromEntries(
        languages.map((name) => [name, runtimeOf(name, read.runtimes[name])]),
      ),
    },
    settings: Object.fromEntries(names.map((name) => [name, checked[name]])),
    environment: new Map(read.env),
    cwd: read.cwd,
  };
}

// `spec: plan.spec` is what the names of both ask for.
function hintFor(json) {
  let given;
  try {
    given = JSON.parse(json);
  } catch {
    return '';
  }
  const isPart =
    isRecord(given) &&
    Object.hasOwn(given, 'entries') &&
    !Object.hasOwn(given, 'spec');
  return isPart
    ? '. This is the part `spec` of a plan: give all that plan() gave'
    : '';
}

function runtimeOf(language, executable) {
  if (executable !== null) return { executable };
  return {
    error: {
      code: 'ERR_SANDBOX_RUNTIME_MISSING',
      message: `The spec names no interpreter for ${language}: spec.runtimes.${language} is null.`,
    },
  };
}

// Not more than there may be, and no waiting for the other end of a pipe.
async function readFile(file, place) {
  const { O_NONBLOCK, O_RDONLY } = fs.constants;
  let handle;
  try {
    handle = await fs.promises.open(file, O_RDONLY | O_NONBLOCK);
    const stat = await handle.stat();
    if (!stat.isFile()) throw specError(place, 'is not a regular file');
    const bytes = Buffer.alloc(largestFile + 1);
    const { bytesRead } = await handle.read(bytes, 0, bytes.length, 0);
    return bytes.subarray(0, bytesRead);
  } catch (error) {
    if (error instanceof SandboxError) throw error;
    throw specError(place, `cannot be read: ${error.message}`, error);
  } finally {
    await handle?.close();
  }
}

module.exports = { makePlan, readSpec };
