// SPDX-License-Identifier: Apache-2.0
'use strict';

// Evaluates a cell as an ES module that lies in the working folder without
// being a file there: relative and bare specifiers resolve from that folder.

const console = require('node:console');
const Module = require('node:module');
const path = require('node:path');
const process = require('node:process');
const vm = require('node:vm');
const { URL, pathToFileURL } = require('node:url');
const { findLastExpression } = require('./last-expression.cjs');
const { parsesAsModule, withoutWarnings } = require('./parse.cjs');

// What `node` exits with when a module waits for what will never come.
const unsettledExitCode = 13;

/**
 * With Node's own loader, which asks us for the one module that is no file.
 * Everything is then as in a file: live bindings, import.meta, attributes.
 */
function importWithHooks(source, url) {
  const hooks = Module.registerHooks({
    resolve: (specifier, context, next) =>
      specifier === url
        ? { url, format: 'module', shortCircuit: true }
        : next(specifier, context),
    load(loadedUrl, context, next) {
      if (loadedUrl !== url) return next(loadedUrl, context);
      // Node's loader takes shorter ways where there are no hooks.
      hooks.deregister();
      return { format: 'module', source, shortCircuit: true };
    },
  });
  return import(url);
}

/**
 * With vm.SourceTextModule, for a Node before 22.15 that has no such hooks. One
 * difference is left: what another module changes in its exports later is not
 * seen through a static import. (The older module.register would do it right,
 * but starts a thread: half as much again as starting Node takes.)
 *
 * Bound functions and plain promises on purpose: functions of the driver would
 * show in the code's stack traces.
 */
function importWithVm({ source, folder, name, load }, url) {
  const options = {
    identifier: url,
    importModuleDynamically: load,
    initializeImportMeta: (meta) => fillImportMeta(meta, { url, folder, name }),
  };
  let cell;
  try {
    cell = withoutWarnings(() => new vm.SourceTextModule(source, options));
  } catch {
    // Throws the SyntaxError again, with nothing of the driver on the stack.
    process.nextTick(Reflect.construct, vm.SourceTextModule, [source, options]);
    return null;
  }

  // One after the other: a module may count on what those before it did.
  let last = Promise.resolve();
  const link = (specifier, referrer, { attributes, assert } = {}) => {
    last = last
      .then(() => load(specifier, referrer, attributes ?? assert))
      .then((namespace) => wrapNamespace(namespace, specifier));
    return last;
  };
  const evaluation = cell.link(link).then(cell.evaluate.bind(cell));
  return evaluation.then(Reflect.get.bind(null, cell, 'namespace', cell));
}

function wrapNamespace(namespace, identifier) {
  const names = Object.keys(namespace);
  return new vm.SyntheticModule(
    names,
    function fill() {
      for (const name of names) this.setExport(name, namespace[name]);
    },
    { identifier },
  );
}

function fillImportMeta(meta, { url, folder, name }) {
  const { resolve } = Module.createRequire(url);
  meta.dirname = folder;
  meta.filename = path.join(folder, name);
  meta.resolve = (specifier) => {
    if (Module.isBuiltin(specifier)) {
      return specifier.startsWith('node:') ? specifier : `node:${specifier}`;
    }
    if (/^\.{0,2}\//.test(specifier)) return new URL(specifier, url).href;
    return URL.canParse?.(specifier)
      ? specifier
      : pathToFileURL(resolve(specifier)).href;
  };
  meta.url = url;
}

/**
 * Exports the value of the last expression as `default`, which is how a module
 * gives one. Line numbers stay.
 */
function exportLastValue(source) {
  const found = findLastExpression(source, parsesAsModule);
  if (!found) return source;
  const head = source.slice(0, found.start);
  const exported = `${source.slice(found.start, found.end)}\n)`;
  const rest = source.slice(found.end);
  // Begun on the line before, if there is one, columns stay too. Where that line
  // is a comment it does not parse.
  const { index = head.length } = /\r?\n\s*$/.exec(head) ?? {};
  const lead = head.slice(index);
  for (const code of [
    `${head.slice(0, index)};export default (${lead}${exported}${rest}`,
    `${head}export default (${exported}${rest}`,
  ]) {
    if (parsesAsModule(code)) return code;
  }
  return source;
}

/** As `node` does for its main module, which a cell's is not. */
function watchForUnsettled(evaluation, url) {
  let isSettled = false;
  let isDrained = false;
  // Not `then`: a rejection must stay unhandled, so that Node reports it.
  evaluation.finally(() => {
    isSettled = true;
  });
  process.on('beforeExit', () => {
    isDrained = true;
  });
  process.on('exit', () => {
    if (isSettled || !isDrained || process.exitCode !== undefined) return;
    process.exitCode = unsettledExitCode;
    console.error(`Warning: Detected unsettled top-level await at ${url}`);
  });
}

/**
 * Starts evaluating `cell`: {source, folder, name, load, show}, where `load` is an
 * `import()` that resolves from `folder`. `show` gets the last value.
 */
function evaluateModule(cell) {
  // Brackets are not escaped: people meet this URL in stack traces.
  const url = pathToFileURL(path.join(cell.folder, '/')).href + cell.name;
  const source = exportLastValue(cell.source);
  const evaluation = Module.registerHooks
    ? importWithHooks(source, url)
    : importWithVm({ ...cell, source }, url);
  if (!evaluation) return;
  watchForUnsettled(evaluation, url);
  if (source !== cell.source) evaluation.then(cell.show, () => {});
}

module.exports = { evaluateModule };
