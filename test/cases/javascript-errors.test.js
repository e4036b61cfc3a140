// SPDX-License-Identifier: Apache-2.0
'use strict';

// What JavaScript throws, and where; and that it need not mind the driver.

const assert = require('node:assert/strict');
const { open, test } = require('../helpers/harness.js');

/** Each way in which a session runs JavaScript, as in helpers/forms.js. */
const forms = [
  {
    name: 'by runCode',
    begin: async (sandbox) => (code) =>
      sandbox.runCode(code, { language: 'node' }),
  },
  {
    name: 'cold',
    begin: async (sandbox) => (code) =>
      sandbox.runCode(code, { language: 'node' }),
    options: { warm: false },
  },
  {
    name: 'in a Kernel',
    async begin(sandbox) {
      const kernel = await sandbox.kernel({ language: 'node' });
      return (code) => kernel.runCode(code);
    },
  },
];

for (const { name, begin, options } of forms) {
  test(`an error that is no native one has its name, message and line ${name}`, async (t) => {
    const run = await begin(await open(t, options));
    const cases = [
      ['\nthrow new DOMException("d", "AbortError")', 'AbortError', 'd', 2],
      ['1;\nstructuredClone(() => 1)', 'DataCloneError', null, 2],
      [
        'function Old(message) { this.message = message; }\n' +
          'Old.prototype = Object.create(Error.prototype);\n' +
          'Old.prototype.name = "Old";\nthrow new Old("o")',
        'Old',
        'o',
        null,
      ],
    ];
    for (const [code, errorName, message, line] of cases) {
      const { error, exitCode } = await run(code);
      assert.equal(exitCode, 1, code);
      assert.equal(error.name, errorName, code);
      if (message) assert.equal(error.message, message, code);
      assert.equal(error.line, line, code);
    }
  });

  test(`what a thrown error was caused by is in its traceback ${name}`, async (t) => {
    const run = await begin(await open(t, options));
    const cases = [
      'throw new Error("outer", { cause: new TypeError("inner") })',
      'throw new AggregateError([new TypeError("inner")], "outer")',
      'await 0; throw new Error("outer", { cause: new TypeError("inner") })',
    ];
    for (const code of cases) {
      const { error, stderr } = await run(code);
      assert.equal(error.message, 'outer', code);
      assert.match(
        error.traceback,
        /Error: outer[\s\S]*TypeError: inner/,
        code,
      );
      assert.match(stderr, /Error: outer[\s\S]*TypeError: inner/, code);
      assert.doesNotMatch(error.traceback, /runtimes|\.cjs/, code);
    }
  });

  test(`a wrong line is named in code that imports, exports or awaits ${name}`, async (t) => {
    const run = await begin(await open(t, options));
    for (const code of [
      'import os from "node:os";\n\nlet wrong = ;',
      'const x = await 1;\n\nlet wrong = ;',
      'export const x = 1;\n\nlet wrong = ;',
    ]) {
      const { error, stderr } = await run(code);
      assert.equal(error.name, 'SyntaxError', code);
      assert.equal(error.message, "Unexpected token ';'", code);
      assert.equal(error.line, 3, code);
      assert.match(error.traceback, /:3\nlet wrong = ;\n/, code);
      assert.match(stderr, /let wrong = ;/, code);
    }
    const nested = await run('function f() {\n  await 1;\n}');
    assert.match(nested.error.message, /^await is only valid/);
    assert.equal(nested.error.line, 2);
  });

  test(`an error in a module of the workspace says where it is ${name}`, async (t) => {
    const sandbox = await open(t, options);
    await sandbox.writeFile('wrong.mjs', 'let fine;\nlet wrong = ;\n');
    await sandbox.writeFile('wrong.cjs', 'let fine;\nlet wrong = ;\n');
    await sandbox.writeFile(
      'throws.mjs',
      'export function f() {\n  throw new URIError("u");\n}\n',
    );
    const run = await begin(sandbox);
    for (const code of [
      'import "./wrong.mjs"',
      'await import("./wrong.mjs")',
      'require("./wrong.cjs")',
    ]) {
      const { error, stderr } = await run(code);
      assert.equal(error.name, 'SyntaxError', code);
      assert.match(error.traceback, /\/workspace\/wrong\..js:2\n/, code);
      assert.match(stderr, /\/workspace\/wrong\..js:2\n/, code);
    }
    const missing = await run('import { f, g } from "./throws.mjs";\n\ng');
    assert.equal(missing.error.name, 'SyntaxError');
    assert.match(
      missing.error.message,
      /^The requested module '\.\/throws\.mjs' does not provide an export named 'g'$/,
    );
    const { error } = await run('import { f } from "./throws.mjs";\n\nf()');
    assert.equal(error.name, 'URIError');
    assert.equal(error.line, 3);
    assert.match(error.traceback, /at f \(file:\/\/\/workspace\/throws.mjs:2/);
  });

  test(`an error that cannot be read is an error all the same ${name}`, async (t) => {
    const run = await begin(await open(t, options));
    for (const property of ['name', 'message', 'stack']) {
      const { error, exitCode } = await run(
        `{ const mine = new RangeError("r"); Object.defineProperty(mine,
          ${JSON.stringify(property)}, { get() { throw 1; } }); throw mine; }`,
      );
      assert.equal(exitCode, 1);
      assert.equal(error.name, property === 'name' ? 'Error' : 'RangeError');
      assert.equal(error.message, property === 'message' ? '' : 'r');
    }
    const { error } = await run(
      'throw { [require("util").inspect.custom]() { throw 1; } }',
    );
    assert.equal(error.name, 'object');
  });
}

// Names that Node has too.
const ownNames = [
  ['function process(items) { return items.length; }\nprocess([1, 2])', '2'],
  ['let process = 5;\nprocess', '5'],
  ['class Buffer {}\n[new Buffer()].length', '1'],
  ['var console = { log: () => 6 };\nconsole.log()', '6'],
  ['const setImmediate = 7;\nsetImmediate', '7'],
  ['const URL = "https://localhost";\nURL.length', '17'],
  ['const { setTimeout } = require("timers/promises");\n8', '8'],
  ['var JSON = 9;\nJSON', '9'],
];

for (const { name, begin, options } of forms) {
  test(`code may give its own things the names of Node's ${name}`, async (t) => {
    const sandbox = await open(t, options);
    for (const [code, text] of ownNames) {
      const run = await begin(sandbox);
      const result = await run(code);
      assert.equal(result.stderr, '', code);
      assert.equal(result.exitCode, 0, code);
      assert.equal(result.text, text, code);
      const failed = await run(
        `${code.split('\n')[0]}\nthrow new RangeError()`,
      );
      assert.equal(failed.exitCode, 1, code);
      assert.equal(failed.error.name, 'RangeError', code);
      assert.equal(failed.error.line, 2, code);
      const next = await run('[40 + 2]');
      assert.equal(next.text, '[ 42 ]', code);
    }
  });
}

test('an assignment at the end of a cell gives no result', async (t) => {
  const kernel = await (await open(t)).kernel({ language: 'node' });
  for (const code of [
    'x = 1',
    'x += 1; x = 2',
    'await 0; x = 3',
    'module.exports = { x }',
    'var list; [list] = [[1]]',
  ]) {
    const { results, exitCode } = await kernel.runCode(code);
    assert.equal(exitCode, 0, code);
    assert.deepEqual(results, [], code);
  }
  assert.equal((await kernel.runCode('({ x } = { x: 4 })')).text, '{ x: 4 }');
  assert.equal((await kernel.runCode('await 0; x')).text, '4');
});
