// SPDX-License-Identifier: Apache-2.0
'use strict';

// What runCode() gives, in E2B's shapes.

const { StringDecoder } = require('node:string_decoder');

class OutputMessage {
  /** `timestamp` is in nanoseconds since 1970. */
  constructor(line, timestamp, error) {
    this.line = line;
    this.timestamp = timestamp;
    this.error = error;
  }

  toString() {
    return this.line;
  }
}

class ExecutionError {
  constructor(name, value, traceback) {
    this.name = name;
    this.value = value;
    this.traceback = traceback;
  }
}

const formatOfType = new Map([
  ['text/plain', 'text'],
  ['text/html', 'html'],
  ['text/markdown', 'markdown'],
  ['image/svg+xml', 'svg'],
  ['image/png', 'png'],
  ['image/jpeg', 'jpeg'],
  ['application/pdf', 'pdf'],
  ['text/latex', 'latex'],
  ['application/json', 'json'],
  ['application/javascript', 'javascript'],
]);

const formatNames = [...formatOfType.values()];

/** One rich value. Images and PDF are base64 here. */
class Result {
  constructor(raw, isMainResult) {
    this.isMainResult = isMainResult;
    this.raw = raw;
    this.extra = {};
    for (const name of formatNames) this[name] = undefined;
    for (const [name, value] of Object.entries(raw)) {
      if (formatNames.includes(name)) this[name] = value;
      else this.extra[name] = value;
    }
  }

  /** Without the text, which every result has, as E2B does. */
  formats() {
    const known = formatNames.filter((name) => name !== 'text' && this[name]);
    return [...known, ...Object.keys(this.extra)];
  }

  toJSON() {
    const { isMainResult, raw, extra, ...forms } = this;
    return Object.keys(extra).length > 0 ? { ...forms, extra } : forms;
  }
}

class Execution {
  constructor(
    results = [],
    logs = { stdout: [], stderr: [] },
    error = undefined,
    executionCount = undefined,
  ) {
    this.results = results;
    this.logs = logs;
    this.error = error;
    this.executionCount = executionCount;
  }

  get text() {
    return this.results.find(({ isMainResult }) => isMainResult)?.text;
  }

  toJSON() {
    const { results, logs, error } = this;
    return { results, logs, error };
  }
}

// E2B's own server does so: the text of a string is the string.
function unquoted(text) {
  const isQuoted =
    text.length > 1 && text.startsWith("'") && text.endsWith("'");
  return isQuoted ? text.slice(1, -1) : text;
}

// A null prototype is not needed: the names have been through frames.js, which
// takes MIME types only.
function rawOf(data) {
  return Object.fromEntries(
    Object.entries(data).map(([type, value]) => [
      formatOfType.get(type) ?? type,
      type === 'text/plain' ? unquoted(value) : value,
    ]),
  );
}

/** The exception that ended the code, or what else did; undefined for none. */
function errorOf({ error, fault, exitCode, success }) {
  if (success) return undefined;
  if (fault) return new ExecutionError(fault.type, fault.message, '');
  if (error) {
    return new ExecutionError(error.name, error.message, error.traceback);
  }
  return new ExecutionError('ExitCode', String(exitCode), '');
}

/** Turns the bytes of one stream into messages as they come. */
class LogStream {
  pieces = [];
  #decoder = new StringDecoder('utf8');
  #isError;
  #callback;

  constructor(callback, isError) {
    this.#callback = callback;
    this.#isError = isError;
  }

  /** What the user's callback returned: a promise of it may be rejected. */
  add(chunk) {
    return this.#deliver(this.#decoder.write(chunk));
  }

  end() {
    return this.#deliver(this.#decoder.end());
  }

  #deliver(text) {
    if (text === '') return undefined;
    this.pieces.push(text);
    const now = Date.now() * 1e6;
    return this.#callback?.(new OutputMessage(text, now, this.#isError));
  }
}

/** Turns results into E2B's as they come. */
class ResultStream {
  results = [];
  #callback;

  constructor(callback) {
    this.#callback = callback;
  }

  /** What the user's callback returned. */
  add({ data, isMainResult }) {
    const result = new Result(rawOf(data), isMainResult);
    this.results.push(result);
    return this.#callback?.(result);
  }
}

module.exports = {
  Execution,
  ExecutionError,
  LogStream,
  OutputMessage,
  Result,
  ResultStream,
  errorOf,
};
