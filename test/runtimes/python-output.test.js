// SPDX-License-Identifier: Apache-2.0
'use strict';

// What the python driver makes of output and input.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { describe, test } = require('node:test');
const {
  DEADLINE_MS,
  Driver,
  lines,
  run,
  runCells,
  texts,
} = require('./python-driver.js');

describe('python driver', { concurrency: 2, timeout: 10 * DEADLINE_MS }, () => {
  describe('output', () => {
    test('bytes of a split character arrive as written (P01)', async () => {
      const { stdout, stderr } = await run(
        lines(
          'import os, time',
          "for part in (b'na\\xc3', b'\\xafve \\xf0\\x9f', b'\\x8d\\x89', b' ok\\n'):",
          '    os.write(1, part); os.write(2, part); time.sleep(0.01)',
        ),
      );
      assert.equal(stdout, 'naïve 🍉 ok\n');
      assert.equal(stderr, 'naïve 🍉 ok\n');
    });

    test('50000 characters outside the BMP are printed whole (P01)', async () => {
      const { stdout } = await run("print('a' + '\\U0001F600' * 50000)");
      assert.equal(stdout, `a${'😀'.repeat(50000)}\n`);
    });

    test('a printed line leaves before the code goes on (P04)', async () => {
      const driver = new Driver();
      driver.send(
        lines(
          'import os, sys, time',
          "print('one'); print('two', file=sys.stderr)",
          "while not os.path.exists('go'): time.sleep(0.01)",
        ),
      );
      await driver.prints('stdout', 'one\n');
      await driver.prints('stderr', 'two\n');
      fs.writeFileSync(path.join(driver.cwd, 'go'), '');
      assert.equal((await driver.end()).exitCode, 0);
    });

    test('what a cell printed is flushed before its answer', async () => {
      const driver = new Driver();
      await driver.cell("print('x', end='')");
      await driver.prints('stdout', 'x');
      await driver.end();
    });

    test('stdout and file names are UTF-8 (P25)', async () => {
      const { stdout } = await run(
        "import sys; print('é😀', sys.stdout.encoding, sys.getfilesystemencoding())",
      );
      assert.equal(stdout, 'é😀 utf-8 utf-8\n');
    });

    test('stdin is the real one, at its end (P03)', async () => {
      const { answers, stdout, stderr } = await runCells([
        "input('name? ')",
        '1 + 1',
      ]);
      assert.equal(answers[0].exitCode, 1);
      assert.equal(answers[0].error.name, 'EOFError');
      assert.deepEqual(texts(answers[1].results), ['2']);
      assert.equal(stdout, 'name? ');
      assert.match(stderr, /EOFError: EOF when reading a line\n$/);
    });
  });
});
