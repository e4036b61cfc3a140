// SPDX-License-Identifier: Apache-2.0
'use strict';

// Makes of a cell a script whose names outlive it. In a script, `const` and `let`
// can be declared once and for all, and neither `await` nor `import` may stand
// outside of functions; in a notebook people run a cell again, and await in it. So
//
//   const a = 1; class C {}        var   a = 1; var C = class C {};
//   import { b } from 'm'          var { b } = await import('m');
//   await f(); const c = 2; c      var c; (async () => {await f(); void (c = 2); return (c)})()
//
// The places are found by the parser that Node has for its own REPL. Lines stay
// as they are, and columns but on lines with a class or an import.

const { internalBinding } = require('./internals.cjs');
const {
  findErrorOfModule,
  findSyntaxError,
  withoutTypes,
} = require('./parse.cjs');
const { findLastExpression } = require('./last-expression.cjs');

const options = {
  ecmaVersion: 'latest',
  sourceType: 'script',
  allowAwaitOutsideFunction: true,
  allowImportExportEverywhere: true,
  allowHashBang: true,
};

let parser;

/** Node's copy of acorn; null where it has none. */
function loadParser() {
  if (parser !== undefined) return parser;
  parser = null;
  try {
    const { compileFunction } = require('node:vm');
    const { natives } = internalBinding('builtins');
    const source = natives['internal/deps/acorn/acorn/dist/acorn'];
    const loaded = { exports: {} };
    compileFunction(source, ['exports', 'module'])(loaded.exports, loaded);
    parser = loaded.exports;
  } catch {
    // Then cells are plain scripts.
  }
  return parser;
}

function tryParse(source) {
  try {
    return loadParser()?.parse(source, options);
  } catch {
    return undefined;
  }
}

/**
 * `{text, columns, isAsync, hasValue}`: the script, how many characters stand
 * before the first of the code, whether it gives a promise, and whether what it
 * gives is the value of an expression that the cell ends in. Throws what is wrong
 * with code that is meant as a module; `name` is where that is.
 */
function prepareCell(code, name) {
  for (const source of [code, withoutTypes(code)]) {
    const tree = tryParse(source);
    if (!tree) continue;
    try {
      return rewrite(source, tree);
    } catch {
      // Too deep to walk through, say.
    }
  }
  const parses = (text) => findSyntaxError(text) === null;
  const error = findErrorOfModule(code, name);
  if (error) throw error;
  const hasValue = parses(code) && findLastExpression(code, parses) !== null;
  return { text: code, columns: 0, isAsync: false, hasValue };
}

function rewrite(source, tree) {
  const isAsync = tree.body.some(
    (node) =>
      node.type === 'ImportDeclaration' || isReexport(node) || awaits(node),
  );
  const script = { source, edits: [], names: [], functions: [], isAsync };
  for (const node of tree.body) rewriteStatement(script, node);
  const last = tree.body.at(-1);
  const isValue = isValueOfCell(last);
  const hasValue =
    isValue ||
    (last?.type === 'ExportDefaultDeclaration' &&
      !isDeclaration(last.declaration));
  if (isAsync && isValue) {
    edit(script, last.start, last.start, 'return (');
    const end = source[last.end - 1] === ';' ? last.end - 1 : last.end;
    edit(script, end, end, '\n)');
  }
  const text = apply(script);
  if (!isAsync) return { text, columns: 0, isAsync, hasValue };
  const names = [...new Set([...script.names, ...script.functions])];
  const lead =
    (names.length > 0 ? `var ${names.join(', ')}; ` : '') +
    `(async () => {${script.functions.map((name) => `globalThis.${name} = ${name}; `).join('')}`;
  return {
    text: `${lead}${text}\n})()`,
    columns: lead.length,
    isAsync,
    hasValue,
  };
}

/** An assignment is none: nobody asked for its value (last-expression.cjs). */
function isValueOfCell(node) {
  if (node?.type !== 'ExpressionStatement') return false;
  const { type, start } = node.expression;
  const isInParentheses = start > node.start;
  return type !== 'AssignmentExpression' || isInParentheses;
}

function isDeclaration(node) {
  return /^(?:Function|Class)Declaration$/.test(node.type);
}

function isReexport(node) {
  return (
    /^Export(?:Named|All)Declaration$/.test(node.type) && Boolean(node.source)
  );
}

function rewriteStatement(script, node) {
  switch (node.type) {
    case 'VariableDeclaration':
      rewriteVariables(script, node);
      break;
    case 'ClassDeclaration':
      rewriteClass(script, node);
      break;
    case 'FunctionDeclaration':
      script.functions.push(node.id.name);
      break;
    case 'ImportDeclaration':
      rewriteImport(script, node);
      break;
    case 'ExportNamedDeclaration':
    case 'ExportAllDeclaration':
      rewriteExport(script, node);
      break;
    case 'ExportDefaultDeclaration':
      rewriteDefault(script, node);
      break;
    default:
  }
}

function edit(script, start, end, text) {
  script.edits.push({ start, end, text });
}

/** Puts `text` in the place of code and keeps the number of lines. */
function replaceWhole(script, node, text) {
  const code = script.source.slice(node.start, node.end);
  const lines = code.split('\n').length - 1;
  edit(script, node.start, node.end, text + '\n'.repeat(lines));
}

function apply({ source, edits }) {
  let text = '';
  let at = 0;
  // A sort is stable: what stands at one place keeps its order.
  for (const { start, end, text: inserted } of edits.sort(
    (a, b) => a.start - b.start,
  )) {
    text += source.slice(at, start) + inserted;
    at = end;
  }
  return text + source.slice(at);
}

function rewriteVariables(script, node) {
  if (!/^(?:var|let|const)$/.test(node.kind)) return;
  if (!script.isAsync) {
    const keyword = 'var'.padEnd(node.kind.length);
    edit(script, node.start, node.start + node.kind.length, keyword);
    return;
  }
  const [first] = node.declarations;
  edit(script, node.start, first.start, 'void (');
  for (const { id, init, end } of node.declarations) {
    script.names.push(...namesOf(id));
    if (!init)
      edit(script, end, end, node.kind === 'var' ? '' : ' = undefined');
  }
  const last = node.declarations.at(-1).end;
  edit(script, last, node.end, ');');
}

function rewriteClass(script, node) {
  const { name } = node.id;
  script.names.push(name);
  const [lead, end] = script.isAsync
    ? [`void (${name} = `, ');']
    : [`var ${name} = `, ';'];
  edit(script, node.start, node.start, lead);
  edit(script, node.end, node.end, end);
}

function rewriteImport(script, node) {
  const from = script.source.slice(node.source.start, node.source.end);
  const attributes = (node.attributes ?? []).map(
    ({ key, value }) => `${key.name ?? key.raw}: ${value.raw}`,
  );
  const more =
    attributes.length > 0 ? `, { with: { ${attributes.join(', ')} } }` : '';
  const needed = JSON.stringify(
    node.specifiers.map(importedName).filter((name) => name !== undefined),
  );
  const loaded = `await import(${from}${more})${needed === '[]' ? '' : checkedFor(needed, from)}`;
  const named = [];
  let whole;
  for (const { type, local, imported } of node.specifiers) {
    script.names.push(local.name);
    if (type === 'ImportNamespaceSpecifier') whole = local.name;
    else if (type === 'ImportDefaultSpecifier')
      named.push(`default: ${local.name}`);
    else named.push(`${imported.name ?? imported.raw}: ${local.name}`);
  }
  const parts = whole ? [`${whole} = ${loaded}`] : [];
  if (named.length > 0) {
    parts.push(`{ ${named.join(', ')} } = ${whole ?? loaded}`);
  }
  const text = parts.length > 0 ? `void (${parts.join(', ')});` : `${loaded};`;
  replaceWhole(script, node, text);
}

/** What a specifier asks the module for; undefined for all of it. */
function importedName({ type, imported }) {
  if (type === 'ImportNamespaceSpecifier') return undefined;
  if (type === 'ImportDefaultSpecifier') return 'default';
  return imported.name ?? imported.value;
}

/** Code after an import() that fails as a static import of `names` would. */
function checkedFor(names, from) {
  return (
    `.then((m) => { for (const n of ${names}) if (!(n in m)) throw new SyntaxError(` +
    `"The requested module '" + ${from} + "' does not provide an export named '" + n + "'"); return m; })`
  );
}

// Nobody imports a cell: what it exports it only declares.
function rewriteExport(script, node) {
  if (node.declaration) {
    const { declaration } = node;
    edit(
      script,
      node.start,
      declaration.start,
      script.source.slice(node.start, declaration.start).replace(/\S/g, ' '),
    );
    rewriteStatement(script, declaration);
    return;
  }
  const { source } = node;
  const from = source && script.source.slice(source.start, source.end);
  replaceWhole(script, node, from ? `await import(${from});` : ';');
}

function rewriteDefault(script, node) {
  const { declaration } = node;
  const lead = script.source.slice(node.start, declaration.start);
  const blank = lead.replace(/\S/g, ' ');
  if (isDeclaration(declaration) && declaration.id) {
    edit(script, node.start, declaration.start, blank);
    rewriteStatement(script, declaration);
    return;
  }
  edit(
    script,
    node.start,
    declaration.start,
    `${script.isAsync ? 'return' : ''}${blank}(`,
  );
  edit(script, declaration.end, declaration.end, ')');
}

/** The names that a pattern declares. */
function namesOf(pattern) {
  switch (pattern?.type) {
    case 'Identifier':
      return [pattern.name];
    case 'ObjectPattern':
      return pattern.properties.flatMap(({ value, argument }) =>
        namesOf(value ?? argument),
      );
    case 'ArrayPattern':
      return pattern.elements.flatMap(namesOf);
    case 'AssignmentPattern':
      return namesOf(pattern.left);
    case 'RestElement':
      return namesOf(pattern.argument);
    default:
      return [];
  }
}

/** Whether `node` awaits something outside of functions. */
function awaits(node) {
  if (Array.isArray(node)) return node.some(awaits);
  if (typeof node?.type !== 'string') return false;
  if (node.type === 'AwaitExpression') return true;
  if (node.type === 'ForOfStatement' && node.await) return true;
  if (/Function/.test(node.type)) return false;
  return Object.values(node).some(
    (value) => typeof value === 'object' && value !== null && awaits(value),
  );
}

module.exports = { prepareCell };
