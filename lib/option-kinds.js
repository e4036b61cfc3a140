// SPDX-License-Identifier: Apache-2.0
'use strict';

// The kinds of values that options have. A kind says in words what it expects
// and has `read(value, option)`, which returns the value to use or throws.
//
// Whatever is an object is copied here, once: a caller who changes it later, or
// a getter that answers differently the second time, changes nothing.

const path = require('node:path');
const { types } = require('node:util');
const { invalidOption } = require('./errors.js');

// The kernel takes at most 32 pages for one string of argv or env, its NUL
// included. Pages of 4 KiB are the smallest, so this fits everywhere.
const maxStringBytes = 131071;

/** A short description of a wrong value, safe to print. */
function describe(value) {
  switch (typeof value) {
    case 'string': {
      const text = value.length > 60 ? `${value.slice(0, 60)}…` : value;
      return `${JSON.stringify(text)} (string)`;
    }
    case 'number':
    case 'boolean':
      return `${Object.is(value, -0) ? '-0' : value} (${typeof value})`;
    case 'bigint':
      return `${value}n (bigint)`;
    case 'undefined':
      return 'undefined';
    case 'function':
      return 'a function';
    case 'symbol':
      return 'a symbol';
    default:
      if (value === null) return 'null';
      if (Array.isArray(value)) return `an array of ${value.length}`;
      if (types.isUint8Array(value)) return 'bytes';
      if (ArrayBuffer.isView(value)) return `a ${value[Symbol.toStringTag]}`;
      if (types.isMap(value)) return 'a Map';
      if (types.isSet(value)) return 'a Set';
      if (types.isPromise(value)) return 'a promise (await it)';
      return 'an object';
  }
}

function kind(expected, accepts, convert = (value) => value) {
  return {
    expected,
    read(value, option) {
      if (!accepts(value)) {
        throw invalidOption(option, expected, describe(value));
      }
      return convert(value, option);
    },
  };
}

/** `kind`, or null with the meaning that `words` give. */
function orNull(inner, words) {
  const expected = `${inner.expected}, or null ${words}`;
  return {
    expected,
    read(value, option) {
      if (value === null) return null;
      try {
        return inner.read(value, option);
      } catch (error) {
        if (error.option !== option || error.expected !== inner.expected) {
          throw error;
        }
        throw invalidOption(option, expected, error.received);
      }
    },
  };
}

function number(unit, min, max) {
  return kind(
    `${unit}, ${min}–${max}`,
    (value) => typeof value === 'number' && value >= min && value <= max,
  );
}

function integer(unit, min, max) {
  return kind(
    `${unit}, a whole number ${min}–${max}`,
    (value) => Number.isInteger(value) && value >= min && value <= max,
  );
}

const boolean = kind('true or false', (value) => typeof value === 'boolean');

const callback = kind('a function', (value) => typeof value === 'function');

function oneOf(...choices) {
  const quoted = choices.map((choice) => JSON.stringify(choice));
  const last = quoted.pop();
  return kind(
    quoted.length > 0 ? `${quoted.join(', ')} or ${last}` : last,
    (value) => choices.includes(value),
  );
}

// Strings that become C strings: a NUL would cut them, and half a surrogate
// pair has no bytes in UTF-8, so it would arrive as another character.
function isPlainString(value) {
  return (
    typeof value === 'string' && !value.includes('\0') && value.isWellFormed()
  );
}

const text = kind(
  'a string without NUL',
  (value) => isPlainString(value) && value !== '',
);

const anyString = kind('a string', (value) => typeof value === 'string');

const encoding = kind(
  'an encoding such as "utf8"',
  (value) => typeof value === 'string' && Buffer.isEncoding(value),
);

// Relative paths mean the folder that the process is in now, not later.
const hostFolder = kind(
  'the path of a folder, without NUL',
  (value) => isPlainString(value) && value !== '',
  (value) => path.resolve(value),
);

const hostFile = kind(
  'the path of a file, without NUL',
  (value) => isPlainString(value) && value !== '' && !value.endsWith('/'),
  (value) => path.resolve(value),
);

const maxPathBytes = 4095;

// A path in the box, which alone can say what is there. Relative ones start at
// the workspace, as for the code.
const boxFolder = kind(
  `the path of a folder in the box, at most ${maxPathBytes} bytes without NUL`,
  (value) =>
    isPlainString(value) &&
    value !== '' &&
    Buffer.byteLength(inBox(value)) <= maxPathBytes,
  inBox,
);

function inBox(folder) {
  return folder.startsWith('/') ? folder : `/workspace/${folder}`;
}

const inputSource = kind(
  'a string, bytes, or a stream or other async iterable of them',
  (value) =>
    typeof value === 'string' ||
    types.isUint8Array(value) ||
    (typeof value === 'object' &&
      typeof value?.[Symbol.asyncIterator] === 'function'),
);

// By its shape: there are others than Node's own.
const abortSignal = kind(
  'an AbortSignal',
  (value) =>
    typeof value === 'object' &&
    typeof value?.aborted === 'boolean' &&
    typeof value.addEventListener === 'function' &&
    typeof value.removeEventListener === 'function',
);

const executablePath = kind(
  'the absolute path of an executable, without NUL',
  (value) => isPlainString(value) && path.isAbsolute(value),
);

// Copied as text, since text is what the engine reads. A path is read when the
// Sandbox opens.
const specSource = kind(
  'the path of a spec file, or what plan() gave',
  (value) => isRecord(value) || (isPlainString(value) && value !== ''),
  (value, option) => {
    if (typeof value === 'string') return { file: path.resolve(value) };
    try {
      return { json: Buffer.from(JSON.stringify(value)) };
    } catch (error) {
      throw invalidOption(option, 'plain data', describeProblem(error));
    }
  },
);

// What cannot be JSON, or a getter's own exception, which may be anything.
function describeProblem(error) {
  return `what JSON.stringify refuses (${error?.message ?? typeof error})`;
}

const listOfStrings = kind(
  'an array of strings',
  (value) =>
    Array.isArray(value) && value.every((item) => typeof item === 'string'),
  (value) => [...value],
);

const maxModules = 64;

// Only names: an argument of the interpreter that looked like anything else
// would be read as that.
function isModuleName(value) {
  return (
    typeof value === 'string' &&
    value.length <= 200 &&
    /^[\p{ID_Start}_][\p{ID_Continue}]*(?:\.[\p{ID_Start}_][\p{ID_Continue}]*)*$/u.test(
      value,
    )
  );
}

const moduleNames = kind(
  `an array of at most ${maxModules} names of Python modules`,
  (value) => Array.isArray(value) && value.length <= maxModules,
  (names, option) =>
    [...new Set(names)].map((name, index) => {
      if (isModuleName(name)) return name;
      throw invalidOption(
        `${option}[${index}]`,
        'the name of a Python module such as "os.path"',
        describe(name),
      );
    }),
);

// What has its content elsewhere would read as empty: options that look obeyed.
function isRecord(value) {
  return (
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    !ArrayBuffer.isView(value) &&
    !types.isMap(value) &&
    !types.isSet(value) &&
    !types.isPromise(value)
  );
}

/** Own enumerable entries, each read once. */
function ownEntries(record) {
  return Object.keys(record).map((key) => [key, record[key]]);
}

// A Map, in which "__proto__" is a name like any other.
const environment = kind(
  'an object of strings',
  isRecord,
  (record, option) =>
    new Map(
      ownEntries(record).map(([name, value]) => {
        checkVariable(option, name, value);
        return [name, value];
      }),
    ),
);

// Values are never printed: they are where people put secrets.
function checkVariable(option, name, value) {
  const where = `${option}[${describeKey(name)}]`;
  if (name === '' || name.includes('=') || !isPlainString(name)) {
    throw invalidOption(
      where,
      'a name that is not empty and has no "=", NUL or unpaired surrogate',
      describe(name),
    );
  }
  const expected = 'a string without NUL or unpaired surrogate';
  if (typeof value !== 'string') {
    throw invalidOption(where, expected, `a value of type ${typeof value}`);
  }
  if (!isPlainString(value)) {
    const has = value.includes('\0') ? 'a NUL' : 'an unpaired surrogate';
    throw invalidOption(where, expected, `a string with ${has}`);
  }
  const bytes = Buffer.byteLength(name) + 1 + Buffer.byteLength(value);
  if (bytes > maxStringBytes) {
    throw invalidOption(
      where,
      `at most ${maxStringBytes} bytes for "name=value" (Linux takes no more)`,
      `${bytes} bytes`,
    );
  }
}

function describeKey(key) {
  return JSON.stringify(key.length > 60 ? `${key.slice(0, 60)}…` : key);
}

/** An object with some of `names` as keys; null and undefined are left out. */
function recordOf(names, valueKind) {
  return kind(
    `an object with ${names.join(', ')}`,
    isRecord,
    (record, option) => {
      const copy = {};
      for (const [name, value] of ownEntries(record)) {
        if (!names.includes(name)) {
          throw invalidOption(
            option,
            `an object with ${names.join(', ')}`,
            `the key ${describeKey(name)}`,
          );
        }
        if (value === undefined || value === null) continue;
        copy[name] = valueKind.read(value, `${option}.${name}`);
      }
      return copy;
    },
  );
}

module.exports = {
  abortSignal,
  describeKey,
  anyString,
  boolean,
  boxFolder,
  callback,
  describe,
  environment,
  encoding,
  executablePath,
  hostFile,
  hostFolder,
  inputSource,
  integer,
  isPlainString,
  isRecord,
  listOfStrings,
  maxPathBytes,
  maxStringBytes,
  moduleNames,
  number,
  oneOf,
  orNull,
  ownEntries,
  recordOf,
  specSource,
  text,
};
