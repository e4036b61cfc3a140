// SPDX-License-Identifier: Apache-2.0
'use strict';

// What Node keeps to itself and kernels need.
//
// process.binding() gives less of it with each version: from Node 24 on neither of
// how signals are handled nor of which callbacks run. --expose-internals gives all
// of it to the code as well, which would then find Node's own modules where it
// looks for a package of its own called `internal`. So the function that gives it
// to Node is taken, once and before there is any code, from where a debugger would
// show it: among the variables that another function of Node's can see.

const process = require('node:process');
const { withoutWarnings } = require('./parse.cjs');

const holderName = '__glovebox_internals__';

let found;

function findInternalBinding() {
  const { Session } = require('node:inspector');
  const session = new Session();
  session.connect();
  const ask = (method, parameters) => {
    let answer;
    // In the same thread it is called before post() returns.
    session.post(method, parameters, (error, result) => {
      if (error) throw new Error(error.message);
      answer = result;
    });
    return answer;
  };
  const list = (objectId) =>
    ask('Runtime.getProperties', { objectId, ownProperties: true });
  try {
    const { result } = ask('Runtime.evaluate', {
      expression: 'process._linkedBinding',
    });
    const { internalProperties } = list(result.objectId);
    const scopes = internalProperties.find(({ name }) => name === '[[Scopes]]');
    for (const scope of list(scopes.value.objectId).result) {
      if (scope.value.description === 'Global') continue;
      const variable = list(scope.value.objectId).result.find(
        ({ name }) => name === 'internalBinding',
      );
      if (variable) return takeOut(ask, variable.value.objectId);
    }
    return undefined;
  } finally {
    session.disconnect();
  }
}

/** An object of the debugger as a value. */
function takeOut(ask, objectId) {
  let value;
  Object.defineProperty(globalThis, holderName, {
    value: (taken) => {
      value = taken;
    },
    configurable: true,
  });
  try {
    ask('Runtime.callFunctionOn', {
      objectId,
      functionDeclaration: `function () { ${holderName}(this); }`,
    });
  } finally {
    delete globalThis[holderName];
  }
  return value;
}

/** To be called before any code runs. */
function find() {
  if (found) return;
  try {
    found = findInternalBinding();
  } catch {
    // A Node without a debugger, or whose permissions forbid it.
  }
  found ??= publicBinding;
}

// What is left of it for all. The code is not to read of what it has not done.
function publicBinding(name) {
  return withoutWarnings(() =>
    name === 'builtins'
      ? { natives: process.binding('natives') }
      : process.binding(name),
  );
}

/** The part of Node's own that is called `name`; throws where there is none. */
function internalBinding(name) {
  find();
  return found(name);
}

module.exports = { find, internalBinding };
