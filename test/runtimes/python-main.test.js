// SPDX-License-Identifier: Apache-2.0
'use strict';

// The module __main__ in which the python driver runs cells.

const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const {
  DEADLINE_MS,
  bare,
  lines,
  run,
  runCells,
  texts,
  workspace,
} = require('./python-driver.js');

describe('python driver', { concurrency: 2, timeout: 10 * DEADLINE_MS }, () => {
  describe('__main__', () => {
    test('holds the names that python -c has, and no others', async () => {
      const code = lines(
        'import sys',
        'print(sorted(globals()), __name__, __spec__, __loader__, __doc__)',
        'print(sys.argv, repr(sys.path[0]), vars(sys.modules["__main__"]) is globals())',
        'print(sorted(n for n in sys.modules if "glove" in n or n in ("cells", "results", "channel")))',
      );
      assert.equal((await run(code)).stdout, bare(code).stdout);
    });

    const pickling = [
      lines(
        'import pickle',
        'from dataclasses import dataclass',
        '@dataclass',
        'class Pt:',
        '    x: int',
      ),
      'pickle.loads(pickle.dumps(Pt(3)))',
      lines(
        'import __main__',
        '(__main__.Pt is Pt, vars(__main__) is globals())',
      ),
    ];
    test('lets classes of a cell be pickled (P11)', async () => {
      const { answers } = await runCells(pickling);
      assert.deepEqual(
        answers.flatMap(({ results }) => texts(results)),
        ['Pt(x=3)', '(True, True)'],
      );
      const ended = await run(lines(...pickling.slice(0, 2)));
      assert.deepEqual(texts(ended.results), ['Pt(x=3)']);
    });

    const scopes = lines(
      'import re',
      "def parts(v): return re.split(r'[,.]', v)",
      'base = 2',
      "print(parts('1,2.3'), [base * i for i in range(3)])",
      'def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)',
      'fib(10)',
    );
    test('is seen by functions, recursion and comprehensions (P12)', async () => {
      for (const ended of [await run(scopes), await runCells([scopes])]) {
        assert.equal(ended.stdout, "['1', '2', '3'] [0, 2, 4]\n");
        assert.deepEqual(texts(ended.results), ['55']);
        assert.equal(ended.exitCode, 0);
      }
    });

    test('runs unittest and argparse like a script', async () => {
      const ended = await run(
        lines(
          'import unittest',
          'class T(unittest.TestCase):',
          '    def test_it(self): self.assertEqual(1, 2)',
          "if __name__ == '__main__': unittest.main()",
        ),
      );
      assert.equal(ended.exitCode, 1);
      assert.match(ended.stderr, /FAILED \(failures=1\)/);
      assert.match(ended.stderr, /self\.assertEqual\(1, 2\)/);
    });

    test('carries `from __future__` imports on', async () => {
      const { answers } = await runCells([
        'from __future__ import annotations',
        lines('def f(x: nowhere): pass', 'f.__annotations__'),
      ]);
      assert.deepEqual(texts(answers[1].results), ["{'x': 'nowhere'}"]);
      const ended = await run(
        lines('from __future__ import annotations', '(lambda: 0, 1)[1]'),
      );
      assert.deepEqual(texts(ended.results), ['1']);
    });

    test('PYTHONPATH of the user works', async () => {
      const lib = workspace({ 'mine.py': 'V = 5' });
      const ended = await run('import mine; mine.V', {
        env: { PYTHONPATH: lib },
      });
      assert.deepEqual(texts(ended.results), ['5']);
    });
  });
});
