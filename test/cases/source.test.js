// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rows F of the public cases: errors name the code's own lines, and files of
// the workspace are no part of the runner.

const assert = require('node:assert/strict');
const { open, test } = require('../helpers/harness.js');
const { forms } = require('../helpers/forms.js');

// Where the runner's files lie in a box, and what they are called.
const runnerFile = /glovebox|driver|cells\.py|runtimes/;

// ---- P19 -------------------------------------------------------------------

const divides = 'total = 6\nn = 0\n\n(total +\n total / n)';

for (const { name, begin } of forms) {
  test(`P19 an error in the last expression names its own line ${name}`, async (t) => {
    const run = await begin(await open(t));
    const result = await run(divides);
    assert.equal(result.exitCode, 1);
    assert.match(result.stderr, /line 5\b/);
    assert.match(result.stderr, /total \/ n/);
    assert.ok(
      result.stderr.endsWith('ZeroDivisionError: division by zero\n'),
      result.stderr,
    );
    assert.doesNotMatch(result.stderr, runnerFile);
    assert.deepEqual(result.results, []);
    assert.equal(result.error.name, 'ZeroDivisionError');
    assert.equal(result.error.message, 'division by zero');
    assert.equal(result.error.line, 5);
    assert.equal(result.error.traceback, result.stderr);
  });
}

for (const { name, begin } of forms) {
  test(`P19 a coroutine that nobody awaits is warned of with the code's own line ${name}`, async (t) => {
    const run = await begin(await open(t));
    const { stderr, results } = await run('async def f(): pass\n\nf()');
    assert.match(
      stderr,
      /^<cell \d+>:3: RuntimeWarning: coroutine 'f' was never awaited\n {2}f\(\)\n/,
    );
    assert.doesNotMatch(stderr, runnerFile);
    assert.match(results[0].text, /^<coroutine object f/);
  });
}

test('P19 frames of earlier cells keep their source lines', async (t) => {
  const kernel = await (await open(t)).kernel();
  await kernel.runCode('\n\ndef half(n):\n    return 1 / n  # of a cell');
  await kernel.runCode('x = 0\ny = 0\nz = 0\nw = 0');
  const { stderr, error } = await kernel.runCode('\nhalf(0)');
  assert.match(stderr, /line 2\b/);
  assert.match(stderr, /half\(0\)/);
  assert.match(stderr, /line 4, in half\n {4}return 1 \/ n {2}# of a cell\n/);
  assert.doesNotMatch(stderr, runnerFile);
  assert.equal(error.name, 'ZeroDivisionError');
});

// ---- P20 -------------------------------------------------------------------

const neverClosed = 'x = 1\nprint("hi"\ny = 2';

function checkNeverClosed(result) {
  assert.equal(result.exitCode, 1);
  assert.equal(result.stdout, '');
  assert.deepEqual(result.results, []);
  assert.match(result.stderr, /line 2\b/);
  assert.match(result.stderr, /SyntaxError: '\(' was never closed/);
  assert.doesNotMatch(result.stderr, runnerFile);
  assert.equal(result.error.name, 'SyntaxError');
  assert.equal(result.error.line, 2);
}

test('P20 a syntax error runs nothing and repeats no output of the cell before', async (t) => {
  const kernel = await (await open(t)).kernel();
  assert.equal((await kernel.runCode("print('old')")).stdout, 'old\n');
  checkNeverClosed(await kernel.runCode(neverClosed));
  const after = await kernel.runCode('x');
  assert.equal(after.exitCode, 1);
  assert.equal(after.error.name, 'NameError');
  assert.equal(after.stdout, '');
});

test('P20 a syntax error by runCode names its own line', async (t) => {
  const sandbox = await open(t);
  checkNeverClosed(await sandbox.runCode(neverClosed));
});

// ---- P21 -------------------------------------------------------------------

const shadowed =
  'json base64 random ast io traceback code threading linecache'.split(' ');
// What our own drivers import besides.
const alsoShadowed =
  'asyncio inspect codecs socket struct site sitecustomize usercustomize types'.split(
    ' ',
  );

test('P21 workspace files named like standard modules break neither runner nor Kernel', async (t) => {
  const sandbox = await open(t);
  for (const name of [...shadowed, ...alsoShadowed]) {
    await sandbox.writeFile(
      `${name}.py`,
      'raise SystemExit("shadow " + __name__)',
    );
  }
  const kernel = await sandbox.kernel();
  for (const result of [
    await sandbox.runCode('1 + 1'),
    await kernel.runCode('1 + 1'),
  ]) {
    assert.equal(result.stderr, '');
    assert.equal(result.exitCode, 0);
    assert.equal(result.results[0].text, '2');
  }
  for (const result of [
    await sandbox.runCode('1/0'),
    await kernel.runCode('1/0'),
  ]) {
    assert.equal(result.exitCode, 1);
    assert.ok(
      result.stderr.endsWith('ZeroDivisionError: division by zero\n'),
      result.stderr,
    );
  }
  // A module of the workspace can be imported, as in plain Python.
  await sandbox.writeFile('mine.py', 'value = 7');
  const own = await sandbox.runCode('import mine; mine.value');
  assert.equal(own.results[0].text, '7');
});

test('P21 workspace files named like modules of Node do not break JavaScript', async (t) => {
  const sandbox = await open(t);
  for (const name of ['fs', 'net', 'module', 'vm', 'acorn']) {
    await sandbox.writeFile(`${name}.js`, 'throw new Error("shadow")');
    await sandbox.writeFile(
      `node_modules/${name}/index.js`,
      'throw new Error("shadow")',
    );
  }
  await sandbox.writeFile(
    'package.json',
    '{"type": "module", "main": "fs.js"}',
  );
  const result = await sandbox.runCode(
    "console.log(typeof require('fs').readFileSync)",
    { language: 'node' },
  );
  assert.equal(result.stderr, '');
  assert.equal(result.stdout, 'function\n');
});

test('P21 a package.json that is none breaks no JavaScript, as in plain Node', async (t) => {
  for (const warm of [true, false]) {
    const sandbox = await open(t, { warm });
    await sandbox.writeFile('package.json', '{ "type": "module", }');
    const kernel = await sandbox.kernel({ language: 'node' });
    for (const code of [
      "require('path').sep",
      "import path from 'node:path'; path.sep",
    ]) {
      for (const runner of [sandbox, kernel]) {
        const options = runner === kernel ? {} : { language: 'node' };
        const result = await runner.runCode(code, options);
        assert.equal(result.stderr, '');
        assert.equal(result.text, "'/'");
      }
    }
  }
});
