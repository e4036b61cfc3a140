// SPDX-License-Identifier: Apache-2.0
'use strict';

// The one table of options: names, kinds, ranges, defaults. index.d.ts says the
// same to people, and a test compares the names.

const { constants } = require('node:buffer');
const { version } = require('../package.json');
const kinds = require('./option-kinds.js');
const { SandboxError, invalidOption } = require('./errors.js');
const { unknownOption } = require('./option-names.js');
const { defaultMaxBytes } = require('./archive/rules.js');
const { mountsKind } = require('./mounts.js');

const { orNull, describe } = kinds;

const languages = ['python', 'bash', 'node'];

const languageHints = {
  javascript: 'node',
  js: 'node',
  nodejs: 'node',
  py: 'python',
  python3: 'python',
  sh: 'bash',
  shell: 'bash',
};

function meantLanguage(value) {
  if (typeof value !== 'string') return undefined;
  const plain = value.toLowerCase();
  return Object.hasOwn(languageHints, plain) ? languageHints[plain] : plain;
}

function languageKind(choices, reason = '') {
  const choice = kinds.oneOf(...choices);
  return {
    expected: choice.expected,
    read(value, option) {
      if (choices.includes(value)) return value;
      const meant = meantLanguage(value);
      const hint = choices.includes(meant)
        ? `: say ${JSON.stringify(meant)}`
        : reason;
      throw invalidOption(option, choice.expected, describe(value) + hint);
    },
  };
}

const timeout = kinds.number('seconds', 0.001, 31536000);
const mebibytes = kinds.integer('MiB', 1, 2 ** 31);
const cores = kinds.number('cores', 0.01, 1024);
const processes = kinds.integer('processes', 1, 4194304);
const callback = orNull(kinds.callback, 'for none');
const trace = orNull(kinds.oneOf('blocked'), 'for none');
const lifted = 'to lift the limit';

// The longest string of V8: a stream longer than this could not be `stdout`.
const maxOutputBytes = 536870888;

// A row is `{kind, default}`. Where the documentation calls the default by
// another name than its value, that is `said`.
//
// What a later version will do has `unbuilt`: the values that mean "do not",
// which are accepted today; anything else is refused by name, since an option
// that is not obeyed must not look obeyed. `later` are values that the kind does
// not offer and that are not taken for mistakes.
function unbuilt(...accepted) {
  return { kind: undefined, unbuilt: accepted, default: undefined };
}

// What there is not and why, of which people coming from elsewhere may think that
// there is.
const noInputOfCells = {
  ...unbuilt(null),
  refusal:
    "A kernel's cells have no stdin, it is at its end: put what they are to " +
    'read into a variable or a file of the workspace',
};

const inputOfSpawn = {
  ...unbuilt(null),
  refusal:
    'What spawn() returns has a stdin to write to: handle.stdin.end(data)',
};

const sessionOptions = {
  image: { kind: kinds.text, unbuilt: ['host'], default: 'host' },
  spec: { kind: orNull(kinds.specSource, 'for none'), default: null },
  workspace: {
    kind: orNull(kinds.hostFolder, 'for a temporary one'),
    default: null,
  },
  mounts: { kind: orNull(mountsKind, 'for none'), default: null },
  memoryMb: { kind: orNull(mebibytes, lifted), default: 512 },
  cpus: { kind: orNull(cores, lifted), default: null },
  pids: { kind: orNull(processes, lifted), default: 256 },
  diskMb: { kind: orNull(mebibytes, lifted), default: 1024 },
  timeoutS: { kind: timeout, default: 30 },
  env: { kind: kinds.environment, default: new Map() },
  maxOutputBytes: {
    kind: kinds.integer('bytes', 0, maxOutputBytes),
    default: 64 * 2 ** 20,
  },
  enforceLimits: { kind: kinds.boolean, default: true },
  trackFiles: { kind: kinds.boolean, default: true },
  trace: { kind: trace, default: null },
  capDrop: { kind: kinds.listOfStrings, default: ['ALL'] },
  warm: { kind: kinds.boolean, default: true },
  preload: { kind: kinds.moduleNames, default: [] },
  runtimes: {
    kind: kinds.recordOf(languages, kinds.executablePath),
    default: {},
  },
  onStdout: { kind: callback, default: null },
  onStderr: { kind: callback, default: null },
  onResult: { kind: callback, default: null },

  network: { kind: kinds.boolean, default: false },
  requireLimits: { kind: kinds.boolean, default: false },
  depsReadonly: { kind: kinds.boolean, unbuilt: [false], default: false },
  securityProfile: {
    kind: orNull(kinds.oneOf('default'), 'for the same'),
    unbuilt: ['default', null],
    later: ['untrusted'],
    default: 'default',
  },
  setup: unbuilt(null),
  setupTimeoutS: unbuilt(600),
  profiles: unbuilt(null, 'empty'),
  seccompProfile: unbuilt(null),
  apparmor: unbuilt(null),

  // Options of kern-sandbox that have no counterpart yet.
  egressAllow: unbuilt(null),
  name: unbuilt(null),
  persist: unbuilt(false),
  persistTtlS: unbuilt(3600),
  prewarm: unbuilt(0),
  pycCache: unbuilt(true),
  tmpfs: unbuilt(null),
  user: unbuilt(null),
  workspaceMaxBytes: unbuilt(null),
};

// What is no matter of the box.
const besideSpec = ['spec', 'onStdout', 'onStderr', 'onResult', 'trace'];

// Left out means: as the session has it. A null callback means none.
function inherited(kind) {
  return { kind, default: undefined, said: "the session's" };
}

const inheritedByCells = {
  timeoutS: inherited(orNull(timeout, 'to inherit')),
  onStdout: inherited(callback),
  onStderr: inherited(callback),
  onResult: inherited(callback),
};

const callOptions = {
  ...inheritedByCells,
  env: { kind: kinds.environment, default: new Map() },
  trace: inherited(trace),
  cwd: {
    kind: orNull(kinds.boxFolder, 'for /workspace'),
    default: undefined,
    said: '"/workspace"',
  },
  stdin: { kind: orNull(kinds.inputSource, 'for none'), default: null },
  signal: { kind: orNull(kinds.abortSignal, 'for none'), default: null },
  memoryMb: inherited(orNull(mebibytes, lifted)),
  cpus: inherited(orNull(cores, lifted)),
  pids: inherited(orNull(processes, lifted)),
};

const { stdin: _, ...optionsWithoutStdin } = callOptions;

const cells = kinds.integer('characters', 1, 65535);
const terminalSize = {
  cols: { kind: cells, default: 80 },
  rows: { kind: cells, default: 24 },
};
const terminalOptions = {
  ...terminalSize,
  term: { kind: kinds.text, default: 'xterm-256color' },
};

const terminal = {
  expected: 'an object such as { cols: 80, rows: 24 }',
  read(value, option) {
    if (kinds.isRecord(value)) {
      return readOptions('pty of sandbox.spawn()', value);
    }
    throw invalidOption(option, terminal.expected, describe(value));
  },
};

const spawnOptions = {
  ...optionsWithoutStdin,
  stdin: inputOfSpawn,
  pty: { kind: orNull(terminal, 'for none'), default: null },
};

const codeOptions = {
  ...callOptions,
  language: { kind: languageKind(languages), default: 'python' },
};

// Code to spawn, in the place of an argv.
const codeToSpawn = {
  code: { kind: kinds.anyString },
  language: codeOptions.language,
};

const kernelOptions = {
  ...optionsWithoutStdin,
  stdin: noInputOfCells,
  checkpoint: {
    kind: orNull(kinds.oneOf('each'), 'for none but those of checkpoint()'),
    default: null,
  },
  language: codeOptions.language,
};

const cellOptions = {
  ...inheritedByCells,
  stdin: noInputOfCells,
  signal: callOptions.signal,
};

// A box can make a sparse file of any size for nothing: without a limit, reading
// it would fill the memory of the host.
const readFileOptions = {
  maxBytes: {
    kind: kinds.integer('bytes', 0, constants.MAX_LENGTH),
    default: 2 ** 30,
  },
  encoding: { kind: orNull(kinds.encoding, 'for a Buffer'), default: null },
};

const writeFileOptions = {
  encoding: { kind: kinds.encoding, default: 'utf8' },
};

const highWaterMark = {
  kind: kinds.integer('bytes', 1, 16 * 2 ** 20),
  default: 64 * 2 ** 10,
};

// As those of node:fs: both ends are read.
const offset = kinds.integer('bytes', 0, Number.MAX_SAFE_INTEGER);
const readStreamOptions = {
  start: { kind: offset, default: 0 },
  end: {
    kind: offset,
    default: Number.MAX_SAFE_INTEGER,
    said: 'the end of the file',
  },
  encoding: readFileOptions.encoding,
  highWaterMark,
};

const listFilesOptions = {
  recursive: { kind: kinds.boolean, default: true },
  all: { kind: kinds.boolean, default: false },
};

const rmOptions = {
  recursive: { kind: kinds.boolean, default: false },
  force: { kind: kinds.boolean, default: false },
};

const archiveOptions = {
  maxBytes: {
    kind: kinds.integer('bytes', 0, Number.MAX_SAFE_INTEGER),
    default: defaultMaxBytes,
  },
};

const oneShotOptions = {
  ...sessionOptions,
  timeoutS: { kind: orNull(timeout, 'for the default'), default: 30 },
  cwd: callOptions.cwd,
  stdin: callOptions.stdin,
  signal: callOptions.signal,
  language: codeOptions.language,
};

// Keys are how the functions call themselves in messages. In this order they
// are searched for an option that was given to the wrong one.
const tables = {
  'new Sandbox()': sessionOptions,
  'sandbox.runCode()': codeOptions,
  'sandbox.run()': callOptions,
  'sandbox.spawn()': spawnOptions,
  'sandbox.kernel()': kernelOptions,
  'kernel.runCode()': cellOptions,
  'sandbox.writeFile()': writeFileOptions,
  'sandbox.readFile()': readFileOptions,
  'sandbox.createReadStream()': readStreamOptions,
  'sandbox.createWriteStream()': { highWaterMark },
  'sandbox.listFiles()': listFilesOptions,
  'sandbox.rm()': rmOptions,
  'sandbox.snapshot()': archiveOptions,
  'sandbox.restore()': archiveOptions,
  'runCode()': oneShotOptions,
  'the code of sandbox.spawn()': codeToSpawn,
  'pty of sandbox.spawn()': terminalOptions,
  'process.resize()': terminalSize,
};

// What a place has where nothing is given, which is most calls.
const defaults = Object.fromEntries(
  Object.entries(tables).map(([place, table]) => [
    place,
    Object.freeze(
      Object.fromEntries(
        Object.entries(table).map(([name, row]) => [name, row.default]),
      ),
    ),
  ]),
);

/**
 * The options of `place`, a key of `tables`: checked, copied, with defaults. Not
 * to be changed: where nothing is given, all calls have the same object.
 * Throws a SandboxError for the first that is wrong.
 */
function readOptions(place, options) {
  if (options === undefined) return defaults[place];
  const read = { ...defaults[place] };
  if (!kinds.isRecord(options)) {
    throw invalidOption(
      'options',
      `an object with options of ${place}`,
      describe(options),
    );
  }
  const table = tables[place];
  const given = new Map(kinds.ownEntries(options));
  for (const name of given.keys()) {
    if (!Object.hasOwn(table, name)) throw unknownOption(name, place, tables);
  }
  for (const [name, row] of Object.entries(table)) {
    const value = given.get(name);
    if (value !== undefined) read[name] = readOption(name, row, value);
  }
  if (read.spec) refuseBesideSpec(given);
  if (read.preload) refuseUselessPreload(read);
  return read;
}

// A spec says all of what makes a box: nothing is left to say, and whoever says
// it should not have to guess which of the two holds.
function refuseBesideSpec(given) {
  for (const [name, value] of given) {
    const isOfSession = Object.hasOwn(sessionOptions, name);
    if (!isOfSession || besideSpec.includes(name) || value === undefined) {
      continue;
    }
    const received = describe(value);
    throw new SandboxError(
      `Expected no ${name} beside spec, received ${received}: ` +
        'change it in the spec',
      {
        code: 'ERR_SANDBOX_INVALID_OPTION',
        option: name,
        expected: `no ${name} beside spec`,
        received,
      },
    );
  }
}

// Every call would import the modules itself, or not at all.
function refuseUselessPreload({ preload, warm }) {
  if (warm || preload.length === 0) return;
  const expected = 'no preload with warm: false';
  const received = `preload of ${preload.length} and warm: false`;
  throw new SandboxError(
    `Expected ${expected}, received ${received}: modules are imported ahead of ` +
      'calls only where interpreters are started ahead of them',
    {
      code: 'ERR_SANDBOX_INVALID_OPTION',
      option: 'preload',
      expected,
      received,
    },
  );
}

function readOption(name, row, value) {
  if (row.unbuilt && !isAccepted(row.unbuilt, value)) {
    // A wrong type is the first thing to say, where there is a right one.
    if (!row.later?.includes(value)) row.kind?.read(value, name);
    throw notBuilt(name, row, value);
  }
  return row.kind ? row.kind.read(value, name) : row.default;
}

function isAccepted(accepted, value) {
  if (accepted.includes(value)) return true;
  if (!accepted.includes('empty')) return false;
  return (
    typeof value === 'object' &&
    value !== null &&
    Object.keys(value).length === 0
  );
}

function notBuilt(name, row, value) {
  const received = describe(value);
  if (row.refusal) {
    return new SandboxError(`${row.refusal}. Received ${received}`, {
      code: 'ERR_SANDBOX_INVALID_OPTION',
      option: name,
      received,
    });
  }
  const other =
    row.default === undefined ? '' : ` or say ${JSON.stringify(row.default)}`;
  // Some work for a session and not yet for one call.
  const what =
    sessionOptions[name]?.kind && !sessionOptions[name].unbuilt
      ? `${name} of a single call`
      : name;
  return new SandboxError(
    `${what} is not built yet in glovebox ${version}: ` +
      `leave it out${other}, received ${received}`,
    { code: 'ERR_SANDBOX_INVALID_OPTION', option: name, received },
  );
}

/** The absolute path of a file of the host, given as argument `name`. */
function readHostPath(name, value) {
  return kinds.hostFile.read(value, name);
}

/**
 * What `place` takes, for the tests of what is written about it: the default as
 * documentation says it, `expected` where the option has a kind, and `unbuilt`
 * where only those values are accepted.
 */
function describeOptions(place) {
  return Object.entries(tables[place]).map(([name, row]) => ({
    name,
    expected: row.kind?.expected,
    default: row.said ?? sayDefault(row.default),
    unbuilt: row.unbuilt,
  }));
}

function sayDefault(value) {
  return JSON.stringify(
    value instanceof Map ? Object.fromEntries(value) : value,
  );
}

module.exports = {
  describeOptions,
  languages,
  maxOutputBytes,
  optionPlaces: Object.keys(tables),
  readHostPath,
  readOptions,
  sessionOptionNames: Object.keys(sessionOptions),
  version,
};
