// SPDX-License-Identifier: Apache-2.0
'use strict';

// Reads what a driver said over its control socket. The code that ran shares
// the driver's process and can say anything in its name, so nothing here is
// believed: shapes are checked, everything is copied into objects of ours, and
// what does not fit is dropped or reported as no answer at all.

const { Result } = require('./result.js');

const frameTypes = { result: 2, done: 3 };

// Enough for any notebook. A loop around display() must not fill the host.
const maxResults = 1000;

// "image/svg+xml", "application/vnd.x+json; v=1". Also keeps out the names that
// objects come with, such as "__proto__".
const mimeType = /^[\w.+-]{1,127}\/[\w.+-]{1,127}(?:;[\x20-\x7e]{1,256})?$/;

/** The parsed object, or undefined for anything else. */
function parseObject(body) {
  let value;
  try {
    value = JSON.parse(body.toString('utf8'));
  } catch {
    return undefined;
  }
  const isObject =
    typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? value : undefined;
}

/** A Result, or undefined if the body is not one. */
function readResult(body) {
  const object = parseObject(body);
  if (!object) return undefined;
  const data = {};
  let isEmpty = true;
  for (const type of Object.keys(object)) {
    const form = object[type];
    if (typeof form !== 'string') return undefined;
    if (!mimeType.test(type)) continue;
    data[type] = form;
    isEmpty = false;
  }
  if (isEmpty) return undefined;
  return new Result(data, own(object, 'isMainResult') === 'true');
}

function own(object, name) {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

/**
 * `{exitCode, error}`, and of a kernel `isSupervised` and `lost`; undefined if
 * the body is not one.
 */
function readDone(body) {
  const object = parseObject(body);
  if (!object) return undefined;
  const exitCode = own(object, 'exitCode');
  if (!Number.isInteger(exitCode) || exitCode < 0 || exitCode > 255) {
    return undefined;
  }
  const done = { exitCode, error: own(object, 'error') ?? null };
  if (done.error !== null) {
    done.error = readException(done.error);
    if (!done.error) return undefined;
  }
  if (own(object, 'supervised') === 1) done.isSupervised = true;
  const lost = readLost(own(object, 'lost'));
  if (lost) done.lost = lost;
  return done;
}

/** How an interpreter ended: what its supervisor says; undefined if it lives. */
function readLost(value) {
  if (typeof value !== 'object' || value === null) return undefined;
  const numberOf = (name) => {
    const number = own(value, name);
    return Number.isInteger(number) && number >= 0 && number < 256
      ? number
      : null;
  };
  return {
    exitCode: numberOf('exitCode'),
    signal: numberOf('signal') ?? 0,
    isClosed: own(value, 'closed') === 1,
  };
}

function readException(value) {
  if (typeof value !== 'object' || Array.isArray(value)) return undefined;
  const name = own(value, 'name');
  const message = own(value, 'message');
  const traceback = own(value, 'traceback') ?? '';
  const line = own(value, 'line') ?? null;
  const fits =
    typeof name === 'string' &&
    typeof message === 'string' &&
    typeof traceback === 'string' &&
    (line === null || (Number.isSafeInteger(line) && line > 0));
  return fits ? { name, message, traceback, line } : undefined;
}

/** Gathers the frames of one run or one cell. */
class FrameCollector {
  results = [];
  isTruncated = false;
  done;
  #relay;

  /** `relay`, if any, gets each result as it arrives. */
  constructor(relay) {
    this.#relay = relay;
  }

  add(type, body) {
    if (type === frameTypes.done) {
      // The first one is the driver's: a second is a forgery.
      this.done ??= readDone(body);
      return;
    }
    if (type !== frameTypes.result) return;
    if (this.results.length >= maxResults) {
      this.isTruncated = true;
      return;
    }
    const result = readResult(body);
    if (!result) return;
    this.results.push(result);
    this.#relay?.deliver('result', result);
  }
}

module.exports = { FrameCollector, maxResults, readDone, readResult };
