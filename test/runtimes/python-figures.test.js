// SPDX-License-Identifier: Apache-2.0
'use strict';

// Figures of matplotlib that the python driver shows.

const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const {
  DEADLINE_MS,
  assertClean,
  lines,
  run,
  runCells,
  skipWithout,
} = require('./python-driver.js');

describe('python driver', { concurrency: 2, timeout: 10 * DEADLINE_MS }, () => {
  describe('figures', { skip: skipWithout('matplotlib') }, () => {
    const kinds = ({ results }) =>
      results.map((result) =>
        result['image/png'] ? 'png' : result['text/plain'],
      );
    const isPng = (result) =>
      Buffer.from(result['image/png'], 'base64')
        .subarray(0, 8)
        .equals(Buffer.from('89504e470d0a1a0a', 'hex'));
    // DISPLAY: matplotlib warns of show() only where a window could be.
    const options = { env: { DISPLAY: ':9' } };
    const shown = lines(
      'import matplotlib.pyplot as plt',
      'fig, ax = plt.subplots(); ax.plot([1, 3, 2])',
      'plt.show()',
    );

    test('come once each, without savefig and without warnings (P18)', async () => {
      const { answers, stderr } = await runCells(
        [
          shown,
          '1 + 1',
          'fig',
          'fig, ax = plt.subplots(); fig',
          'plt.plot([1, 2])\nplt.figure(); plt.plot([2, 1]);',
          'plt.get_fignums()',
        ],
        options,
      );
      assert.deepEqual(answers.map(kinds).slice(0, 4), [
        ['png'],
        ['2'],
        ['png'],
        ['png'],
      ]);
      assert.deepEqual(kinds(answers[4]), ['png', 'png']);
      assert.deepEqual(kinds(answers[5]), ['[]']);
      assert.ok(isPng(answers[0].results[0]));
      assert.match(answers[2].results[0]['text/plain'], /^<Figure size/);
      assert.equal(stderr, '');
      const once = await run(shown, options);
      assert.deepEqual(kinds(once), ['png']);
      assert.equal(once.stderr, '');
    });

    test('are shown by fig.show(), display(fig) and a chosen backend', async () => {
      const { answers, stderr } = await runCells(
        [
          'import matplotlib; matplotlib.use("svg"); import matplotlib.pyplot as plt\nfig = plt.figure(); fig.text(0, 0, "x"); fig.show()',
          'fig = plt.figure(); fig.text(0, 0, "x"); display(fig); fig.number',
          'from matplotlib.pyplot import *; plot([1, 2]); show(block=False)',
        ],
        options,
      );
      assert.deepEqual(answers.map(kinds), [['png'], ['png', '1'], ['png']]);
      assert.equal(stderr, '');
    });

    test('of a failed cell are shown; an empty one is not', async () => {
      const { answers } = await runCells(
        [
          'import matplotlib.pyplot as plt; plt.plot([1, 2]); 1/0',
          'plt.plot([1, 2]); plt.savefig("a.png"); plt.show(); plt.savefig("b.png")',
        ],
        options,
      );
      assert.deepEqual(answers.map(kinds), [['png'], ['png']]);
      assert.equal(answers[0].exitCode, 1);
    });

    test("that cannot be drawn fail the cell with matplotlib's reason", async () => {
      const { answers, stderr } = await runCells(
        ['import matplotlib.pyplot as plt; plt.title("$\\\\frac$");', '1'],
        options,
      );
      assert.equal(answers[0].exitCode, 1);
      assert.equal(answers[0].error.name, 'ValueError');
      assert.deepEqual(kinds(answers[1]), ['1']);
      assertClean(stderr);
    });

    test("warn in nobody's name but their own", async () => {
      const { results, stderr } = await run(
        'import matplotlib.pyplot as plt; plt.title("\\u4e2d");',
        options,
      );
      assert.equal(results.length, 1);
      assert.match(stderr, /Glyph/);
      assertClean(stderr);
    });

    test('leave the environment alone', async () => {
      const { stdout } = await run(
        'import matplotlib.pyplot, os; print([k for k in os.environ if "MPL" in k], matplotlib.get_backend().lower())',
      );
      assert.equal(stdout, '[] agg\n');
    });
  });
});
