// SPDX-License-Identifier: Apache-2.0
'use strict';

// Finds the expression that code ends with. Node has no parser to offer but
// V8's, which says yes or no: so places where a statement may begin are tried,
// from the end on. What is in doubt is no expression: a value that is not shown
// is a smaller fault than code that does something else.

// Each place takes a parse or two. Where the first few are none, most often a long
// block is at the end, and what is not in balance need not be parsed.
const mostPlaces = 200;
const placesAtOnce = 10;
const mostCharacters = 64 * 1024;

const depthOf = { ')': 1, ']': 1, '}': 1, '(': -1, '[': -1, '{': -1 };

const wordsOfDeclarations = /^(?:\{|(?:async\s+)?function\b|class\b)/;

// A bare operand: neither a statement, nor an assignment (whose value nobody
// asked for, as in Python), nor several expressions with semicolons.
function isExpression(text, parses) {
  return (
    !wordsOfDeclarations.test(withoutComments(text)) &&
    parses(`(void ${text}\n)`)
  );
}

/** `text` from its first token on. */
function withoutComments(text) {
  return text.replace(/^(?:\s|\/\/.*|\/\*[\s\S]*?\*\/)+/, '');
}

/**
 * Whether `tail`, on a line of its own, goes on with what `head` left open, as
 * in `a\n+ b`: no semicolon is inserted where the next token fits.
 */
function continues(head, tail, parses) {
  const first = withoutComments(tail)[0];
  if ('([`'.includes(first)) return parses(`${head}\n.x`);
  if ('+-/'.includes(first)) return parses(`${head}\n* 2`);
  return false;
}

/** The length of `source` without the semicolon and comments at its end. */
function findEnd(source) {
  let end = source.trimEnd().length;
  let from = end;
  for (let tries = 0; tries < 20; tries++) {
    const at = source.lastIndexOf(';', from - 1);
    if (at < 0 || from === 0) break;
    from = at;
    if (withoutComments(source.slice(at + 1)) === '') end = at;
  }
  return end;
}

/**
 * `{start, end}` of the expression in `source`, or null. `parses(code)` says
 * whether code is right, as a script or as a module; of `source` that is known.
 */
function findLastExpression(source, parses) {
  const end = findEnd(source);
  const least = Math.max(0, end - mostCharacters);
  let places = 0;
  // How many brackets are closed and not opened between `start` and `end`.
  // Roughly: one in a string counts too.
  let depth = 0;
  for (let start = end; start >= least; start--) {
    if (start < end) depth += depthOf[source[start]] ?? 0;
    if (start > 0 && !';}\n'.includes(source[start - 1])) continue;
    if (depth !== 0 && places > placesAtOnce) continue;
    const text = source.slice(start, end);
    if (withoutComments(text) === '') continue;
    if (++places > mostPlaces) return null;
    if (!isExpression(text, parses)) continue;
    const head = source.slice(0, start);
    if (parses(head) && !continues(head, text, parses)) return { start, end };
  }
  return null;
}

module.exports = { findLastExpression };
