// SPDX-License-Identifier: Apache-2.0
'use strict';

// What the python driver shows of values: the last one, and what is displayed.

const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const {
  DEADLINE_MS,
  lines,
  run,
  runCells,
  skipWithout,
  texts,
} = require('./python-driver.js');

describe('python driver', { concurrency: 2, timeout: 10 * DEADLINE_MS }, () => {
  describe('results', () => {
    const semicolons = [
      ['1+1;  # note', []],
      ['1+1  # ends with ;', ['2']],
      ['1+1;\n\n# tail', []],
      ["'a;'", ["'a;'"]],
      ['x = 1; x + 1', ['2']],
      ['(1 +\n 1)  # ;', ['2']],
      ['(1 +\n 1) ; # é', []],
      ["'é' + 'ü';", []],
      ["'é' + 'ü'", ["'éü'"]],
      ['1 \\\n;', []],
      ['"""\n;\n"""', ["'\\n;\\n'"]],
      ['None', []],
      ['def f(): 1\n', []],
      ['if True: 5', []],
    ];
    test('a final semicolon suppresses the last value (P16)', async () => {
      for (const [code, expected] of semicolons) {
        const ended = await run(code);
        assert.deepEqual(texts(ended.results), expected, code);
        assert.equal(ended.stdout + ended.stderr, '', code);
        assert.equal(ended.exitCode, 0);
      }
      const { answers } = await runCells(semicolons.map(([code]) => code));
      assert.deepEqual(
        answers.map(({ results }) => texts(results)),
        semicolons.map(([, expected]) => expected),
      );
    });

    const bundles = lines(
      'class R:',
      '    def _repr_mimebundle_(self, include=None, exclude=None):',
      "        return {'text/html': '<b>x</b>', 'image/png': b'\\x89PNG\\r\\n\\x1a\\n'}, {'image/png': {'width': 1}}",
      'class S:',
      "    def _repr_png_(self): return b'\\x89PNG', {'width': 1}",
      'display(R())',
      'S()',
    );
    test('mime bundles and pairs with metadata are understood (P17)', async () => {
      for (const { results, stdout } of [
        await run(bundles),
        await runCells([bundles]),
      ]) {
        assert.equal(results.length, 2);
        assert.equal(results[0]['text/html'], '<b>x</b>');
        assert.deepEqual(
          Buffer.from(results[0]['image/png'], 'base64'),
          Buffer.from('89504e470d0a1a0a', 'hex'),
        );
        assert.deepEqual(
          Buffer.from(results[1]['image/png'], 'base64'),
          Buffer.from('89504e47', 'hex'),
        );
        assert.match(results[0]['text/plain'], /^<__main__\.R object/);
        assert.match(results[1]['text/plain'], /^<__main__\.S object/);
        assert.equal(stdout, '');
      }
    });

    test('each _repr_ method gives its form', async () => {
      const { results } = await run(
        lines(
          'class All:',
          "    def __repr__(self): return 'all'",
          "    def _repr_html_(self): return '<i>'",
          "    def _repr_markdown_(self): return '*m*'",
          "    def _repr_svg_(self): return '<svg/>'",
          "    def _repr_latex_(self): return '$l$'",
          "    def _repr_json_(self): return {'a': [1, None, 'é']}",
          "    def _repr_jpeg_(self): return b'\\xff\\xd8'",
          "    def _repr_pdf_(self): return b'%PDF' * 40",
          '    def _repr_png_(self): raise ValueError',
          'All()',
        ),
      );
      assert.deepEqual(results, [
        {
          'text/html': '<i>',
          'text/markdown': '*m*',
          'image/svg+xml': '<svg/>',
          'text/latex': '$l$',
          'application/json': '{"a": [1, null, "é"]}',
          'image/jpeg': '/9g=',
          'application/pdf': Buffer.from('%PDF'.repeat(40)).toString('base64'),
          'text/plain': 'all',
          isMainResult: 'true',
        },
      ]);
    });

    test('display() takes raw bundles and a choice of forms', async () => {
      const { results } = await run(
        lines(
          'class H:',
          "    def __repr__(self): return 'h'",
          "    def _repr_html_(self): return '<i>'",
          "    def _repr_latex_(self): return '$l$'",
          "display({'text/html': '<b>', 'text/plain': 'b', 'application/vnd.x+json': [1]}, raw=True)",
          "display(H(), include=['text/html'])",
          "display(H(), exclude=['text/html'], display_id='x')",
          "display(1, 'two')",
        ),
      );
      assert.deepEqual(results, [
        {
          'text/html': '<b>',
          'text/plain': 'b',
          'application/vnd.x+json': '[1]',
        },
        { 'text/html': '<i>', 'text/plain': 'h' },
        { 'text/latex': '$l$', 'text/plain': 'h' },
        { 'text/plain': '1' },
        { 'text/plain': "'two'" },
      ]);
    });

    test('classes, mocks and failing reprs have a plain text', async () => {
      const { results, exitCode, stderr } = await run(
        lines(
          'from unittest.mock import MagicMock',
          'class Bad:',
          "    def __repr__(self): raise ValueError('no')",
          "    def _repr_html_(self): return '<i>'",
          'class Worse:',
          '    def __getattr__(self, name): raise OSError(name)',
          "    def __repr__(self): return 'worse'",
          'display(Bad); display(MagicMock(name="m")); display(Worse())',
          'Bad()',
        ),
      );
      assert.equal(results[0]['text/plain'], "<class '__main__.Bad'>");
      assert.equal(results[0]['text/html'], undefined);
      assert.match(results[1]['text/plain'], /^<MagicMock name='m'/);
      assert.deepEqual(Object.keys(results[1]), ['text/plain']);
      assert.deepEqual(results[2], { 'text/plain': 'worse' });
      assert.deepEqual(results[3], {
        'text/html': '<i>',
        'text/plain': '<Bad object: repr raised ValueError: no>',
        isMainResult: 'true',
      });
      assert.equal(exitCode, 0);
      assert.equal(stderr, '');
    });

    test('KeyboardInterrupt out of a repr fails the cell', async () => {
      const { answers } = await runCells([
        lines(
          'class I:',
          '    def __repr__(self): raise KeyboardInterrupt',
          'I()',
        ),
      ]);
      assert.equal(answers[0].exitCode, 130);
      assert.equal(answers[0].error.line, 2);
    });

    test('text with lone surrogates and control characters is carried', async () => {
      const { results } = await run(
        "display({'text/plain': 'a\\ud800\\x00\\u2028😀'}, raw=True)",
      );
      assert.deepEqual(texts(results), ['a\ud800\0\u2028😀']);
    });

    test('display in an endless loop is cut off, per cell (KRN-16)', async () => {
      const { answers } = await runCells([
        'for i in range(5000): display(i)',
        '1',
      ]);
      assert.equal(answers[0].results.length, 1001);
      assert.equal(answers[0].results[999]['text/plain'], '999');
      assert.match(
        answers[0].results[1000]['text/plain'],
        /more than 1000 results/,
      );
      assert.deepEqual(texts(answers[1].results), ['1']);
    });

    test('a result too large for a frame is replaced by a note (KRN-17)', async () => {
      const { results, exitCode } = await run("'x' * (62 << 20)");
      assert.equal(results.length, 1);
      assert.match(results[0]['text/plain'], /too large/);
      assert.equal(exitCode, 0);
    });

    test('threads display at the same time without mixing frames', async () => {
      const { results, cells } = await run(
        lines(
          'from threading import Thread',
          "ts = [Thread(target=lambda c=c: [display(c * 50000) for _ in range(20)]) for c in 'abcdefgh']",
          'for t in ts: t.start()',
          'for t in ts: t.join()',
        ),
      );
      assert.equal(cells.length, 1);
      assert.equal(results.length, 160);
      for (const text of texts(results))
        assert.match(text, /^'([a-h])\1{49999}'$/);
    });

    test('a pandas table has HTML', {
      skip: skipWithout('pandas'),
    }, async () => {
      const { results, stderr } = await run(
        "import pandas as pd; pd.DataFrame({'a': [1, 2]})",
      );
      assert.match(results[0]['text/html'], /<table/);
      assert.match(results[0]['text/plain'], / a\n0 {2}1\n/);
      assert.equal(stderr, '');
    });
  });
});
