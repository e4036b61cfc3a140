// SPDX-License-Identifier: Apache-2.0
'use strict';

// How a process of the python driver ends, and with which exit code.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { describe, test } = require('node:test');
const {
  DEADLINE_MS,
  Driver,
  bare,
  lines,
  run,
  runCells,
  texts,
} = require('./python-driver.js');

describe('python driver', { concurrency: 2, timeout: 10 * DEADLINE_MS }, () => {
  describe('end of the process', () => {
    const exits = [
      ["import sys; sys.exit('bad input')", 1, 'bad input\n'],
      ['import sys; sys.exit(3)', 3, ''],
      ['import sys; sys.exit(256)', 0, ''],
      ['import sys; sys.exit(-1)', 255, ''],
      ['import sys; sys.exit(True)', 1, ''],
      ['import sys; sys.exit(None)', 0, ''],
      ['import sys; sys.exit(2.5)', 1, '2.5\n'],
      ['import sys; sys.exit((1, 2))', 1, '(1, 2)\n'],
      ['raise SystemExit', 0, ''],
      ['exit(3)', 3, ''],
      ['quit()', 0, ''],
    ];
    for (const [code, exitCode, message] of exits) {
      test(`\`${code}\` exits with ${exitCode} (P07)`, async () => {
        const plain = bare(code);
        assert.equal(plain.status, exitCode, 'as plain Python does');
        assert.equal(plain.stderr, message);
        const ended = await run(code);
        assert.equal(ended.exitCode, exitCode);
        assert.equal(ended.stderr, message);
        assert.deepEqual(ended.cells, [{ exitCode, error: null }]);
      });
    }

    test('a kernel outlives exit() and gives its code (P07)', async () => {
      const { answers, stderr, exitCode } = await runCells([
        "a = 1; import sys; sys.exit('bad input')",
        'exit(3)',
        'sys.exit(True)',
        'a',
        'input()',
      ]);
      assert.deepEqual(
        answers.map((each) => each.exitCode),
        [1, 3, 1, 0, 1],
      );
      assert.deepEqual(texts(answers[3].results), ['1']);
      assert.match(stderr, /^bad input\nTraceback/);
      // exit() closes sys.stdin; it must not stay closed.
      assert.equal(answers[4].error.name, 'EOFError');
      assert.equal(exitCode, 1);
    });

    test("the exit code is the last cell's", async () => {
      assert.equal((await runCells(['1/0', '1'])).exitCode, 0);
      assert.equal((await runCells(['1', '1/0'])).exitCode, 1);
    });

    test('an end without any cell is an ordinary end', async () => {
      const ended = await runCells([]);
      assert.equal(ended.exitCode, 0);
      assert.equal(ended.stdout + ended.stderr, '');
    });

    test('exit handlers, finalizers and unflushed output come at the end', async () => {
      const code = lines(
        'import atexit, threading, time',
        "atexit.register(print, 'handler')",
        'class Last:',
        "    def __del__(self): print('finalizer', __name__)",
        'last = Last()',
        'def late():',
        "    time.sleep(0.1); print('thread')",
        'threading.Thread(target=late).start()',
        "print('main', end=' ')",
      );
      const ended = await run(code);
      assert.equal(ended.stdout, 'main thread\nhandler\nfinalizer __main__\n');
      assert.equal(ended.stdout, bare(code).stdout);
      assert.equal(ended.stderr, '');
      assert.equal(ended.exitCode, 0);
    });

    test('os._exit() ends at once, without an answer', async () => {
      const ended = await run("import os; print('x'); os._exit(7)");
      assert.equal(ended.exitCode, 7);
      assert.deepEqual(ended.cells, []);
      assert.equal(ended.stdout, 'x\n');
    });

    test('sys.exit() in a thread ends that thread only', async () => {
      const ended = await run(
        lines(
          'import sys, threading',
          't = threading.Thread(target=sys.exit, args=(9,)); t.start(); t.join()',
          "'alive'",
        ),
      );
      assert.equal(ended.exitCode, 0);
      assert.deepEqual(texts(ended.results), ["'alive'"]);
    });

    test('death by a signal is not covered up (P06)', async () => {
      const ended = await run('import os; os.kill(os.getpid(), 15)');
      assert.equal(ended.signal, 'SIGTERM');
    });

    test('code that closes all descriptors keeps its exit code', async () => {
      const ended = await run(
        "import os, sys; print('x'); os.closerange(3, 65536); display(1); sys.exit(7)",
      );
      assert.equal(ended.exitCode, 7);
      assert.equal(ended.stdout, 'x\n');
      assert.equal(ended.stderr, '');
    });

    test('a host that has gone changes nothing for the code', async () => {
      const driver = new Driver();
      driver.send(
        lines(
          'import os, sys, time',
          "print('up')",
          "while not os.path.exists('go'): time.sleep(0.01)",
          "display('x'); display('y'); print('down'); sys.exit(5)",
        ),
      );
      await driver.prints('stdout', 'up\n');
      driver.control.destroy();
      fs.writeFileSync(path.join(driver.cwd, 'go'), '');
      const ended = await driver.closed;
      assert.equal(ended.exitCode, 5);
      assert.match(driver.text('stdout'), /down\n$/);
      assert.equal(driver.text('stderr'), '');
    });
  });
});
