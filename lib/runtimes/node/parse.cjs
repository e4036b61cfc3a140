// SPDX-License-Identifier: Apache-2.0
'use strict';

// Decides what a cell is: a script, as `node -e` runs it, or a module. V8 does
// the parsing; nothing here runs the code.

const process = require('node:process');
const vm = require('node:vm');

// What V8 says of code that is right in a module only.
const moduleOnly =
  /^Cannot use (import statement|'import\.meta') outside a module|^Unexpected token 'export'/;

const misplacedAwait = /^await is only valid in async functions/;

/** The SyntaxError of `source` as a script, or null. */
function findSyntaxError(source) {
  try {
    new vm.Script(source);
    return null;
  } catch (error) {
    return error;
  }
}

// `return` is allowed there too, but then the module does not parse either.
function insideAsyncFunction(source, directive = '') {
  return `(async () => {${directive}\n${source}\n})`;
}

// `await (x)`, `await [x]` and the like parse as a script, in which `await` is
// just a name: the script would end in "await is not defined". A class's static
// block is where neither meaning of a bare `await` is allowed, while functions
// in it may be async; so V8 complains there exactly if the code awaits outside
// of functions.
function awaitsAtTopLevel(source) {
  const error = findSyntaxError(`class Cell { static {\n${source}\n} }`);
  return (
    error?.message === 'Unexpected reserved word' &&
    !findSyntaxError(insideAsyncFunction(source, '"use strict";'))
  );
}

function isModule(source, syntaxError) {
  const mayAwait = /\bawait\b/.test(source);
  if (!syntaxError) return mayAwait && awaitsAtTopLevel(source);
  if (moduleOnly.test(syntaxError.message)) return true;
  if (!mayAwait) return false;
  // The message does not tell: of `f(await x)` V8 says that a parenthesis is
  // missing.
  const error = findSyntaxError(insideAsyncFunction(source));
  if (!error || moduleOnly.test(error.message)) return true;
  // It awaits where a module may, and something else is wrong.
  return (
    misplacedAwait.test(syntaxError.message) &&
    !misplacedAwait.test(error.message)
  );
}

/** The SyntaxError of `source` as a module called `identifier`, or null. */
function findModuleError(source, identifier) {
  try {
    withoutWarnings(() => new vm.SourceTextModule(source, { identifier }));
    return null;
  } catch (error) {
    return error;
  }
}

function parsesAsModule(source) {
  return findModuleError(source) === null;
}

/**
 * What is wrong with `source` if it is meant as a module, which V8 does not look at
 * where it parses a script; null if it is not, or if nothing is.
 */
function findErrorOfModule(source, name) {
  const error = findSyntaxError(source);
  if (!error || !isModule(source, error)) return null;
  return findModuleError(source, name);
}

/** Runs `action` without "... is an experimental feature" on stderr. */
function withoutWarnings(action) {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return action();
  } finally {
    process.emitWarning = emitWarning;
  }
}

// Where this Node runs TypeScript, `node -e` takes the types out of code that
// is no JavaScript.
function withoutTypes(source) {
  if (!process.features.typescript) return source;
  const { stripTypeScriptTypes } = require('node:module');
  try {
    return withoutWarnings(() => stripTypeScriptTypes(source));
  } catch {
    return source;
  }
}

function classify(source, compile) {
  let script = null;
  let syntaxError = null;
  try {
    script = compile(source);
  } catch (error) {
    syntaxError = error;
  }
  return isModule(source, syntaxError)
    ? { source, script: null, isModule: true }
    : { source, script, isModule: false };
}

/**
 * `{source, script, isModule}`: what `compile` made of the code if it is a
 * script, else null. Neither a script nor a module is what does not parse.
 */
function parse(source, compile) {
  const cell = classify(source, compile);
  if (cell.script) return cell;
  if (cell.isModule && !process.features.typescript) return cell;
  if (cell.isModule && parsesAsModule(source)) return cell;

  const stripped = withoutTypes(source);
  return stripped === source ? cell : classify(stripped, compile);
}

module.exports = {
  findErrorOfModule,
  findSyntaxError,
  parse,
  parsesAsModule,
  withoutTypes,
  withoutWarnings,
};
