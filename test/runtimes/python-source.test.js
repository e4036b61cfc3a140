// SPDX-License-Identifier: Apache-2.0
'use strict';

// The source of cells, for whoever asks the python driver for it.

const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const {
  DEADLINE_MS,
  Driver,
  lines,
  run,
  runCells,
  since,
  texts,
} = require('./python-driver.js');

describe('python driver', { concurrency: 2, timeout: 10 * DEADLINE_MS }, () => {
  describe('source', () => {
    test('of functions and classes is found by inspect', async () => {
      const { answers } = await runCells([
        lines('import inspect, linecache', 'def f():', '    return 1  # f'),
        lines('', 'class C:', '    x = 1  # first'),
        lines(
          'class C:',
          '    x = 2  # second',
          '',
          'class D:',
          '    class E:',
          '        def m(self): pass',
          '        k = 1',
        ),
        'linecache.checkcache(); print(inspect.getsource(f))',
        'print(inspect.getsource(C), inspect.getsource(D.E), inspect.getsource(D.E.m), sep="|")',
        'inspect.getsource(int)',
      ]);
      assert.equal(answers[5].error.name, 'TypeError');
      const once = await run(
        lines(
          'import inspect',
          'from dataclasses import dataclass',
          '@dataclass',
          'class P:',
          '    x: int',
          'if True:',
          '    class Q: pass',
          'print(inspect.getsource(P), inspect.getsource(Q), inspect.getsource(lambda: 0), sep="|")',
        ),
      );
      assert.equal(once.stderr, '');
      const decorator = since(9) ? '@dataclass\n' : '';
      assert.equal(
        once.stdout.split('|').slice(0, 2).join('|'),
        `${decorator}class P:\n    x: int\n|    class Q: pass\n`,
      );
    });

    test('lines of cells are shown by warnings, each time', async () => {
      const warn = 'import warnings\nwarnings.warn("careful")';
      const { stderr } = await runCells([warn, warn]);
      assert.equal(
        stderr,
        [1, 2]
          .map(
            (n) =>
              `<cell ${n}>:2: UserWarning: careful\n  warnings.warn("careful")\n`,
          )
          .join(''),
      );
    });

    test('that warns when compiled warns once', async () => {
      const { stderr } = await run('x = 1\nx is 1');
      assert.equal(stderr.match(/SyntaxWarning/g).length, 1);
      assert.match(stderr, /^<cell 1>:2: SyntaxWarning/);
    });

    test('may have any line ends, a mark, a cookie, tabs or nothing', async () => {
      const { answers } = await runCells([
        'x = 1\r\nif x:\r\n\ty = """a\r\nb"""\r\ny',
        '\ufeffx + 1',
        '# -*- coding: latin-1 -*-\n"é"',
        '\fx\f',
        'if x:\n\tx = 5\nx',
        '',
        '# only a comment',
        '"\u2028\x1c" + "a"\n1/0',
        'x\r1/0',
      ]);
      assert.deepEqual(
        answers.slice(0, 7).map(({ results }) => texts(results)),
        [["'a\\nb'"], ['2'], ["'é'"], ['1'], ['5'], [], []],
      );
      assert.match(
        answers[7].error.traceback,
        /line 2, in <module>\n {4}1\/0\n/,
      );
      assert.equal(answers[8].error.line, 2);
    });

    test('that is no text is an error of the cell', async () => {
      const { answers } = await runCells(['x = "\0"', 'y = "\ud800"', '"ok"']);
      assert.ok(['ValueError', 'SyntaxError'].includes(answers[0].error.name));
      assert.equal(answers[1].error.name, 'UnicodeEncodeError');
      assert.deepEqual(texts(answers[2].results), ["'ok'"]);
    });

    test('may be large, long or deep (P30)', async () => {
      const large = await run(`x = '${'a'.repeat(10 << 20)}'\nlen(x)`);
      assert.deepEqual(texts(large.results), [String(10 << 20)]);
      const long = await run(`x = 0\n${'x += 1\n'.repeat(60000)}print(x)`);
      assert.equal(long.stdout, '60000\n');
      for (const code of [`x = ${'('.repeat(5000)}`, `${'-'.repeat(50000)}1`]) {
        const deep = await run(code);
        assert.equal(deep.cells.length, 1, deep.stderr);
        assert.equal(deep.exitCode, 1);
      }
    });

    test('may be named by the host', async () => {
      const driver = new Driver();
      const { error } = await driver.cell('1/0', 'analysis.py');
      assert.match(
        error.traceback,
        /File "analysis.py", line 1, in <module>\n {4}1\/0\n/,
      );
      await driver.end();
    });
  });
});
