// SPDX-License-Identifier: Apache-2.0
'use strict';

// Checks of what callers pass, before anything starts.

const { describe, isRecord } = require('../option-kinds.js');
const { InvalidArgumentError, notThere } = require('./errors.js');

// Those of the connection to E2B's service, which there is none to.
const connection = [
  'apiKey',
  'validateApiKey',
  'domain',
  'apiUrl',
  'sandboxUrl',
  'debug',
  'requestTimeoutMs',
  'retries',
  'logger',
  'headers',
  'proxy',
  'apiHeaders',
];

/** No time limit: the longest that glovebox takes, a year. */
const longestS = 31536000;

function invalid(name, expected, value) {
  return new InvalidArgumentError(
    `Expected ${expected} for ${name}, received ${describe(value)}`,
  );
}

/**
 * A copy of the options of `call`. `known` are the names that do something;
 * `absent` says of others why they cannot. Null is as good as left out.
 */
function readOptions(call, options, known, absent = {}) {
  if (options === undefined || options === null) return {};
  if (!isRecord(options)) throw invalid(call, 'an object of options', options);
  const read = {};
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null) continue;
    if (Object.hasOwn(absent, name)) {
      throw notThere(`option ${name} of ${call}`, absent[name]);
    }
    if (known.includes(name)) read[name] = value;
    else if (!connection.includes(name)) {
      throw new InvalidArgumentError(
        `${call} has no option ${JSON.stringify(name)}`,
      );
    }
  }
  checkUser(call, read.user);
  return read;
}

function checkUser(call, user) {
  if (user === undefined || user === 'user') return;
  throw notThere(
    `user ${describe(user)} in ${call}`,
    'code is always "user", and never root',
  );
}

/** Seconds for a `timeoutMs`, of which 0 is no limit. */
function secondsOf(timeoutMs, otherwise) {
  const value = timeoutMs ?? otherwise;
  if (typeof value !== 'number' || !(value >= 0)) {
    throw invalid('timeoutMs', 'milliseconds, or 0 for no limit', value);
  }
  if (value === 0) return longestS;
  return Math.min(Math.max(value / 1000, 0.001), longestS);
}

function checkCallbacks(options, names) {
  for (const name of names) {
    const callback = options[name];
    if (callback !== undefined && typeof callback !== 'function') {
      throw invalid(name, 'a function', callback);
    }
  }
}

function checkText(name, value) {
  if (typeof value !== 'string') throw invalid(name, 'a string', value);
}

module.exports = { checkCallbacks, checkText, invalid, readOptions, secondsOf };
