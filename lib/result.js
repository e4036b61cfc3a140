// SPDX-License-Identifier: Apache-2.0
'use strict';

// What a call gives back. Plain data: JSON.stringify of a result has all of it
// but the raw bytes.

/** One rich value in its several forms. */
class Result {
  #images;

  constructor(data, isMainResult = false) {
    this.data = data;
    this.isMainResult = isMainResult;
  }

  get text() {
    return this.#get('text/plain');
  }

  get html() {
    return this.#get('text/html');
  }

  get markdown() {
    return this.#get('text/markdown');
  }

  get svg() {
    return this.#get('image/svg+xml');
  }

  get latex() {
    return this.#get('text/latex');
  }

  get json() {
    return this.#get('application/json');
  }

  get javascript() {
    return this.#get('application/javascript');
  }

  get png() {
    return this.#decode('image/png');
  }

  get jpeg() {
    return this.#decode('image/jpeg');
  }

  get pdf() {
    return this.#decode('application/pdf');
  }

  formats() {
    return Object.keys(this.data);
  }

  #get(type) {
    return Object.hasOwn(this.data, type) ? this.data[type] : undefined;
  }

  // Decoded when first asked for: most callers look at one form only.
  #decode(type) {
    const base64 = this.#get(type);
    if (base64 === undefined) return null;
    this.#images ??= new Map();
    if (!this.#images.has(type)) {
      this.#images.set(type, Buffer.from(base64, 'base64'));
    }
    return this.#images.get(type);
  }
}

// A byte order mark is part of what the code wrote, so it is kept.
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** Decoded as a whole, so that a character which two writes shared is one. */
function textOf(output) {
  return typeof output === 'string' ? output : decoder.decode(output);
}

function bytesOf(output) {
  return typeof output === 'string' ? Buffer.from(output) : output;
}

/** How a call ended. Built by outcome.js. */
class ExecutionResult {
  #facts;

  /** `ending` is `{exitCode, signal}`; the facts are those of commonFacts(). */
  constructor(facts, ending, fault, error) {
    this.stdout = textOf(facts.stdout);
    this.stderr = textOf(facts.stderr);
    this.exitCode = ending.exitCode;
    this.signal = ending.signal;
    this.durationMs = facts.durationMs;
    this.fault = fault;
    this.files = facts.files;
    this.deletedFiles = facts.deleted.map(({ path }) => path);
    this.results = facts.results;
    this.truncated = facts.truncated;
    this.success = ending.exitCode === 0 && fault === null;
    this.error = error;
    this.usage = facts.usage;
    this.limits = facts.limits;
    // There only if somebody asked: [] says that nothing was refused.
    if (facts.blocked) this.blocked = facts.blocked;
    // For what is hidden from JSON and console.log, which would print every byte.
    this.#facts = facts;
  }

  get stdoutBuffer() {
    const facts = this.#facts;
    facts.stdout = bytesOf(facts.stdout);
    return facts.stdout;
  }

  get stderrBuffer() {
    const facts = this.#facts;
    facts.stderr = bytesOf(facts.stderr);
    return facts.stderr;
  }

  get deletedFileBuffers() {
    const facts = this.#facts;
    facts.deletedBytes ??= facts.deleted.map(
      ({ path, pathBuffer }) => pathBuffer ?? Buffer.from(path),
    );
    return facts.deletedBytes;
  }

  // It is in `results` too.
  get text() {
    return this.#facts.text;
  }
}

module.exports = { ExecutionResult, Result };
