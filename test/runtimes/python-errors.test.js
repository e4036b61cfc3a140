// SPDX-License-Identifier: Apache-2.0
'use strict';

// Errors of code that the python driver runs: where they are, how they read.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const { describe, test } = require('node:test');
const {
  DEADLINE_MS,
  Driver,
  PYTHON,
  assertClean,
  lines,
  run,
  runCells,
  since,
  texts,
  workspace,
} = require('./python-driver.js');

describe('python driver', { concurrency: 2, timeout: 10 * DEADLINE_MS }, () => {
  describe('errors', () => {
    const division = lines('total = 6', 'n = 0', '', '(total +', ' total / n)');
    test('in the last expression have the right line (P19)', async () => {
      for (const ended of [await run(division), await runCells([division])]) {
        assert.equal(ended.exitCode, 1);
        assert.match(
          ended.stderr,
          /File "<cell 1>", line 5, in <module>\n {4,}total \/ n/,
        );
        assert.match(ended.stderr, /ZeroDivisionError: division by zero\n$/);
        assertClean(ended.stderr);
        assert.deepEqual(ended.results, []);
        assert.deepEqual(ended.cells[0].error, {
          name: 'ZeroDivisionError',
          message: 'division by zero',
          traceback: ended.stderr,
          line: 5,
        });
      }
    });

    const unclosed = lines('x = 1', 'print("hi"', 'y = 2');
    test('of syntax run nothing and name the line (P20)', async () => {
      const { answers, stdout, stderr } = await runCells([
        "print('old')",
        unclosed,
        'x',
      ]);
      assert.equal(stdout, 'old\n');
      assert.equal(answers[1].exitCode, 1);
      assert.deepEqual(answers[1].results, []);
      assert.equal(answers[2].error.name, 'NameError');
      assert.match(stderr, /^ {2}File "<cell 2>", line [23]\n/);
      const ended = await run(unclosed);
      assert.equal(ended.stdout, '');
      assert.deepEqual(ended.results, []);
      assert.equal(ended.exitCode, 1);
      assertClean(ended.stderr);
      if (since(10)) {
        assert.match(
          ended.stderr,
          /line 2[\s\S]*SyntaxError: '\(' was never closed/,
        );
        assert.equal(ended.cells[0].error.line, 2);
      }
    });

    test('that Python finds only when it compiles run nothing either', async () => {
      const ended = await run("print('no')\nreturn 5");
      assert.equal(ended.stdout, '');
      assert.match(ended.stderr, /SyntaxError: 'return' outside function\n$/);
      assert.equal(ended.cells[0].error.line, 2);
    });

    test('read as those of a script', async () => {
      // The same code as a file: the same text, but for the name of the file.
      const cases = [
        'def f(x):\n    return g(x)\ndef g(x):\n    return x["k"]\nf({})',
        'try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise KeyError("k") from e',
        'try:\n    1/0\nexcept ZeroDivisionError:\n    int("x")',
        'raise Exception("é\\ud800\\n2")',
        'eval("1 +")',
        'exec("x = 1\\n1/0")',
        'import json\njson.loads("{")',
        'import asyncio\nasync def f():\n    1/0\nasyncio.run(f())',
        'assert 1 == 2, "sum"',
        'x = 1\n  y = 2',
        'print "x"',
        'import nowhere',
        'raise',
        'from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor().submit(lambda: 1/0).result()',
      ];
      if (since(10)) cases.push('f(');
      if (since(11)) {
        // Before, the interpreter and its traceback module differ in this.
        cases.push(
          'class E(Exception):\n    def __str__(self): raise SystemExit(3)\nraise E',
          'class E(Exception):\n    def __str__(self): raise ValueError\nraise E',
        );
        cases.push(
          'raise ExceptionGroup("g", [ValueError(1), ExceptionGroup("h", [TypeError(2)])])',
          'e = ValueError("v")\ne.add_note("note")\nraise e',
        );
      }
      for (const code of cases) {
        const cwd = workspace({ 'script.py': code });
        const plain = spawnSync(PYTHON, ['script.py'], {
          cwd,
          encoding: 'utf8',
          env: { PATH: process.env.PATH, LANG: 'C.UTF-8' },
        });
        const expected = plain.stderr
          .replaceAll(`${cwd}/`, '')
          .replaceAll('"script.py"', '"<cell 1>"');
        const ended = await run(code);
        assert.equal(ended.stderr, expected, code);
        assert.equal(ended.exitCode, plain.status);
      }
    });

    test('KeyboardInterrupt and endless recursion leave the state (P13)', async () => {
      const driver = new Driver();
      await driver.cell('x = 41');
      const interrupted = await driver.cell("raise KeyboardInterrupt('stop')");
      assert.equal(interrupted.exitCode, 130);
      assert.match(interrupted.error.traceback, /KeyboardInterrupt: stop\n$/);
      const endless = await driver.cell(lines('def f(): return f()', 'f()'));
      assert.equal(endless.exitCode, 1);
      assert.match(
        endless.error.traceback.trimEnd().split('\n').pop(),
        /^RecursionError: maximum recursion depth exceeded/,
      );
      const after = await driver.cell('x + 1');
      assert.deepEqual(texts(after.results), ['42']);
      const { stderr } = await driver.end();
      assert.ok(stderr.length < 20_000);
      assertClean(stderr);
    });

    test("go through the code's own sys.excepthook", async () => {
      const { answers, stdout, stderr } = await runCells([
        lines(
          'import sys, traceback',
          'def hook(kind, value, tb):',
          "    print('hook', kind.__name__, value, [f.lineno for f in traceback.extract_tb(tb)])",
          'sys.excepthook = hook',
          "raise ValueError('v')",
        ),
        lines(
          'def hook(*a): raise KeyError("in hook")',
          'sys.excepthook = hook',
          '1/0',
        ),
        lines('sys.excepthook = lambda *a: sys.exit(7)', '1/0'),
        lines('del sys.excepthook', '1/0'),
      ]);
      assert.equal(stdout, 'hook ValueError v [5]\n');
      assert.match(
        stderr,
        new RegExp(
          '^Error in sys.excepthook:\nTraceback[\\s\\S]*' +
            "KeyError: 'in hook'\n\nOriginal exception was:\nTraceback[\\s\\S]*ZeroDivisionError",
        ),
      );
      assert.deepEqual(
        answers.map(({ exitCode }) => exitCode),
        [1, 1, 7, 1],
      );
      assert.equal(answers[0].error.message, 'v');
      assertClean(stderr);
    });

    test('reach stderr though the code took sys.stderr away', async () => {
      for (const taken of [
        'sys.stderr = None',
        'del sys.stderr',
        'sys.stderr.close()',
        'sys.stderr = 5',
      ]) {
        const ended = await run(`import sys; ${taken}; 1/0`);
        assert.match(
          ended.stderr,
          /ZeroDivisionError: division by zero\n$/,
          taken,
        );
        assert.equal(ended.cells[0].exitCode, 1);
      }
      const replaced = await run(
        'import sys, io; sys.stderr = io.StringIO(); 1/0',
      );
      assert.equal(replaced.stderr, '');
      assert.match(replaced.cells[0].error.traceback, /ZeroDivisionError/);
    });

    test('with huge messages are cut in the answer, not on stderr', async () => {
      const ended = await run("raise ValueError('x' * (8 << 20))");
      assert.ok(ended.stderr.length > 8 << 20);
      assert.ok(ended.cells[0].error.message.length < 70_000);
      assert.ok(ended.cells[0].error.traceback.length < 2 << 20);
    });

    test('raised in a module have the line of the cell', async () => {
      const ended = await run(
        'x = 1\nimport textwrap\ntextwrap.indent(None, "")',
      );
      assert.equal(ended.cells[0].error.line, 3);
    });
  });
});
