// SPDX-License-Identifier: Apache-2.0
'use strict';

// A signature that no line of usage.ts or e2b.ts calls could change without
// anybody noticing, and so could a type that none names.

const assert = require('node:assert/strict');
const path = require('node:path');
const { test } = require('node:test');
const ts = require('typescript');

const root = path.join(__dirname, '..', '..');

const files = [
  {
    types: 'index.d.ts',
    module: 'index.d.mts',
    name: 'glovebox',
    use: 'usage',
  },
  { types: 'e2b.d.ts', module: 'e2b.d.mts', name: 'glovebox/e2b', use: 'e2b' },
];

// Constructors that only the library calls.
function isPrivate(node) {
  const hidden = [ts.SyntaxKind.PrivateKeyword, ts.SyntaxKind.ProtectedKeyword];
  return node.modifiers?.some(({ kind }) => hidden.includes(kind));
}

function isSignature(node) {
  return (
    ts.isFunctionDeclaration(node) ||
    ts.isMethodDeclaration(node) ||
    ts.isMethodSignature(node) ||
    ts.isConstructorDeclaration(node)
  );
}

function isType(node) {
  return (
    ts.isInterfaceDeclaration(node) ||
    ts.isTypeAliasDeclaration(node) ||
    ts.isClassDeclaration(node)
  );
}

/** The nodes of a tree that `accept` takes. */
function findNodes(tree, accept) {
  const found = [];
  const visit = (node) => {
    if (accept(node)) found.push(node);
    ts.forEachChild(node, visit);
  };
  visit(tree);
  return found;
}

/** The declarations that calls and names of `source` lead to. */
function readUses(source, checker) {
  const uses = new Set();
  const isCall = (node) =>
    ts.isCallExpression(node) || ts.isNewExpression(node);
  for (const call of findNodes(source, isCall)) {
    uses.add(checker.getResolvedSignature(call)?.declaration);
  }
  for (const name of findNodes(source, ts.isIdentifier)) {
    const symbol = checker.getSymbolAtLocation(name);
    const isAlias = symbol && symbol.flags & ts.SymbolFlags.Alias;
    const meant = isAlias ? checker.getAliasedSymbol(symbol) : symbol;
    for (const node of meant?.declarations?.filter(isType) ?? [])
      uses.add(node);
  }
  return uses;
}

for (const { types, module, name, use } of files) {
  const user = path.join(__dirname, `${use}.ts`);
  const program = ts.createProgram([user], {
    strict: true,
    noEmit: true,
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    paths: { [name]: [path.join(root, module)] },
    types: ['node'],
  });
  const uses = readUses(program.getSourceFile(user), program.getTypeChecker());

  test(`${use}.ts uses each signature and each type of ${types}`, () => {
    const declared = findNodes(
      program.getSourceFile(path.join(root, types)),
      (node) => (isSignature(node) && !isPrivate(node)) || isType(node),
    );
    const unused = declared
      .filter((node) => !uses.has(node))
      .map((node) => {
        const [line] = node.getText().split('\n');
        return isType(node) ? line : `${node.parent.name?.text}: ${line}`;
      });
    assert.ok(declared.length > 50, `${declared.length} were found`);
    assert.deepEqual(unused, []);
  });
}
