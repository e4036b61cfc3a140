// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rich results: from a value to a bundle of MIME types, and off. Loaded with
// the first value that is shown.

const { Buffer } = require('node:buffer');
const util = require('node:util');
const { findSyntaxError } = require('./parse.cjs');
const { findLastExpression } = require('./last-expression.cjs');

// A loop that displays for ever must not fill the host's memory.
const mostResults = 1000;
// Below the 64 MiB of a frame, which the engine takes as a fault.
const mostBytes = 60 * 2 ** 20;
// Data beyond this has its text only, which is abridged.
const mostNodes = 1_000_000;
const mostJson = 8 * 2 ** 20;
const deepest = 100;

const mimeType = /^[\w.+-]+\/[\w.+-]+$/;
const jsonType = /[/+]json$/;
const textType = /^text\/|\+xml$|^application\/(?:javascript|xml)$/;

const { stringify: toJson } = JSON;

// What notebooks for JavaScript ask a value for.
const bundleMethod = Symbol.for('Jupyter.display');

let count = 0;
let sendResult;

/**
 * Gives this file the driver's end of the control socket: the driver is no longer
 * in the module cache when this is loaded.
 */
function setSender(send) {
  sendResult = send;
}

/** What a cell displays counts for this cell alone. */
function startCell() {
  count = 0;
}

function isPlainObject(value) {
  if (typeof value !== 'object' || value === null) return false;
  if (util.types.isProxy(value)) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/**
 * Whether JSON says all of `value` (no Map, no Date, no circle, no NaN), and is
 * not too long. `left` is what may still come.
 */
function isPlainData(value, left, depth = 0) {
  if (--left.nodes < 0 || depth > deepest) return false;
  if (value === null || typeof value === 'boolean') return true;
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value === 'string') {
    left.characters -= value.length;
    return left.characters >= 0;
  }
  const isArray = Array.isArray(value);
  if (!isArray && !isPlainObject(value)) return false;
  if (util.types.isProxy(value) || 'toJSON' in value) return false;
  if (Object.getOwnPropertySymbols(value).length > 0) return false;
  if (isArray) {
    // A list of holes is long at no cost.
    if (value.length > left.nodes) return false;
    return value.every((item) => isPlainData(item, left, depth + 1));
  }
  return Object.keys(value).every((name) => {
    const property = Object.getOwnPropertyDescriptor(value, name);
    // A getter is code: to show a value is not to run it.
    if (property.get || property.set) return false;
    const { value: item } = property;
    return (
      isPlainData(name, left, depth) &&
      // A property without a value is left out, as JSON has it.
      (item === undefined || isPlainData(item, left, depth + 1))
    );
  });
}

/** `value` as JSON; undefined if that would not be all of it. */
function jsonOf(value) {
  const left = { nodes: mostNodes, characters: mostJson };
  if (!isPlainData(value, left)) return undefined;
  const json = toJson(value);
  return json.length <= mostJson ? json : undefined;
}

function textOf(value) {
  try {
    return util.inspect(value);
  } catch (error) {
    return `[${typeof value} that util.inspect fails at: ${nameOf(error)}]`;
  }
}

function nameOf(error) {
  try {
    return String(error?.message ?? error);
  } catch {
    return 'an error without a message';
  }
}

/** One form as protocol text; undefined if there is none. */
function encode(type, data) {
  if (jsonType.test(type)) {
    return typeof data === 'string' ? data : toJson(data);
  }
  if (util.types.isUint8Array(data)) {
    const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    return bytes.toString(textType.test(type) ? 'utf8' : 'base64');
  }
  return typeof data === 'string' ? data : undefined;
}

function encodeBundle(forms) {
  const encoded = Object.entries(forms)
    .map(([type, data]) => [type, encode(type, data)])
    .filter(([type, data]) => mimeType.test(type) && data !== undefined);
  return Object.fromEntries(encoded);
}

/** Whether it is `{mime: data}` and not just some object. */
function isBundle(value) {
  if (!isPlainObject(value)) return false;
  const types = Object.keys(value);
  return types.length > 0 && types.every((type) => mimeType.test(type));
}

function bundleOf(value) {
  const bundle = {};
  try {
    const given = value?.[bundleMethod];
    const forms = typeof given === 'function' ? given.call(value) : undefined;
    if (isPlainObject(forms)) Object.assign(bundle, encodeBundle(forms));
    else {
      const json = jsonOf(value);
      if (json !== undefined) bundle['application/json'] = json;
    }
  } catch {
    // A form that a value fails to give is a form it does not have.
  }
  return bundle;
}

function publish(bundle, isMainResult) {
  if (++count > mostResults + 1) return;
  if (count > mostResults) {
    const text = `[more than ${mostResults} results in one cell: the others are dropped]`;
    sendResult({ 'text/plain': text });
    return;
  }
  const sizes = Object.values(bundle).map((text) => Buffer.byteLength(text));
  const size = sizes.reduce((sum, one) => sum + one, 0);
  if (size > mostBytes) {
    const text = `[a result of ${size} bytes is too large: the limit is ${mostBytes}]`;
    sendResult({ 'text/plain': text });
    return;
  }
  sendResult(isMainResult ? { ...bundle, isMainResult: 'true' } : bundle);
}

// A promise is shown when it has a value. One that is rejected stays unhandled,
// for Node to report.
function show(value, makeBundle, isMainResult) {
  if (util.types.isPromise(value)) {
    Promise.prototype.then.call(value, (settled) => {
      if (isMainResult && settled === undefined) return;
      show(settled, makeBundle, isMainResult);
    });
    return;
  }
  const bundle = makeBundle(value);
  bundle['text/plain'] ??= textOf(value);
  publish(bundle, isMainResult);
}

function display(...values) {
  for (const value of values) {
    show(value, (settled) =>
      isBundle(settled) ? encodeBundle(settled) : bundleOf(settled),
    );
  }
}

// What setTimeout(), listen() and on() return is not what code ends with them for.
function isHandle(value) {
  try {
    return (
      typeof value?.unref === 'function' ||
      (typeof value?.emit === 'function' && typeof value.on === 'function')
    );
  } catch {
    return false;
  }
}

/** Shows what a module's last expression gave. */
function showMain(value) {
  if (value !== undefined && !isHandle(value)) show(value, bundleOf, true);
}

function parsesAsScript(source) {
  return findSyntaxError(source) === null;
}

/**
 * Shows what a script gave, if it ends in an expression: to V8 the value of
 * `for (const x of list) out.push(x)` is one too.
 */
function showScript(source, value) {
  if (findLastExpression(source, parsesAsScript)) showMain(value);
}

module.exports = { display, setSender, showMain, showScript, startCell };
