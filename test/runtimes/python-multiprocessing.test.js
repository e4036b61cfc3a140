// SPDX-License-Identifier: Apache-2.0
'use strict';

// Children that code of the python driver spawns and forks.

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
  workspace,
} = require('./python-driver.js');

describe('python driver', { concurrency: 2, timeout: 10 * DEADLINE_MS }, () => {
  describe('multiprocessing', () => {
    const pool = (method) =>
      lines(
        'from concurrent.futures import ProcessPoolExecutor',
        'import multiprocessing as mp',
        'def inc(n): return n + 1',
        "if __name__ == '__main__':",
        `    with mp.Lock(), ProcessPoolExecutor(2, mp.get_context('${method}')) as ex: print(list(ex.map(inc, [1, 2, 3])))`,
      );
    for (const method of ['fork', 'spawn', 'forkserver']) {
      test(`runs functions of a cell by ${method} (P10, KRN-11)`, async () => {
        for (const ended of [
          await run(pool(method)),
          await runCells([pool(method)]),
        ]) {
          assert.equal(ended.stderr, '');
          assert.equal(ended.stdout, '[2, 3, 4]\n');
          assert.equal(ended.exitCode, 0);
          assert.equal(ended.cells.length, 1);
        }
      });
    }

    test('spawned children know earlier cells, without their effects', async () => {
      const { stdout, stderr, cwd } = await runCells([
        lines(
          'from __future__ import annotations',
          'import multiprocessing as mp, re, os',
          "print('effect')",
          'class Num:',
          '    def __init__(self, n: later): self.n = n',
          "PATTERN = re.compile('b+')",
        ),
        lines(
          'def f(text): return Num(len(PATTERN.search(text).group()))',
          'open("count", "a").write("x")',
          '1/0',
        ),
        lines(
          "with mp.get_context('spawn').Pool(2) as pool:",
          "    print([each.n for each in pool.map(f, ['abbc', 'b'])])",
          "print(os.path.getsize('count'))",
        ),
      ]);
      assert.equal(stdout, 'effect\n[2, 1]\n1\n', cwd);
      assert.match(
        stderr,
        /^Traceback[\s\S]*ZeroDivisionError: division by zero\n$/,
      );
    });

    test('spawn without a __main__ guard ends where the parent is', async () => {
      const ended = await run(
        lines(
          'import multiprocessing as mp, sys',
          "sys.path.insert(0, 'lib')",
          'import helper',
          'def f(x): return x * helper.FACTOR',
          "pool = mp.get_context('spawn').Pool(1)",
          'print(pool.map(f, [1, 2]))',
          'pool.close(); pool.join()',
          "print('once')",
        ),
        {
          cwd: (() => {
            const made = workspace();
            fs.mkdirSync(path.join(made, 'lib'));
            fs.writeFileSync(path.join(made, 'lib/helper.py'), 'FACTOR = 10');
            return made;
          })(),
        },
      );
      assert.equal(ended.stderr, '');
      assert.equal(ended.stdout, '[10, 20]\nonce\n');
    });

    test("an error in a spawned child shows the cell's line", async () => {
      const ended = await run(
        lines(
          'import multiprocessing as mp',
          'def f(x):',
          '    return 1 / x  # here',
          "if __name__ == '__main__':",
          "    with mp.get_context('spawn').Pool(1) as pool: pool.map(f, [0])",
        ),
      );
      assert.match(
        ended.stderr,
        /File "<cell 1>", line 3, in f\n {4}return 1 \/ x {2}# here\n/,
      );
      assert.equal(ended.exitCode, 1);
    });

    test('nothing of a spawn is left in the workspace', async () => {
      const cwd = workspace();
      await run(pool('spawn'), { cwd });
      assert.deepEqual(fs.readdirSync(cwd), []);
    });

    test('a forked child that runs out of code ends alone (KRN-10)', async () => {
      const driver = new Driver();
      const first = await driver.cell(
        lines(
          'import os, atexit',
          "atexit.register(lambda: print('exit', os.getpid() == parent))",
          'parent = os.getpid()',
          'pid = os.fork()',
          'if pid == 0:',
          "    print('child'); display('shown')",
          'else:',
          '    status = os.waitpid(pid, 0)[1]',
          'os.getpid() == parent',
        ),
      );
      assert.deepEqual(texts(first.results), ['True']);
      const second = await driver.cell('status');
      assert.deepEqual(texts(second.results), ['0']);
      const ended = await driver.end();
      assert.equal(
        ended.stdout,
        "child\n'shown'\nFalse\nexit False\nexit True\n",
      );
      assert.equal(ended.cells.length, 2);
    });

    test("a forked child's error is its own (KRN-10)", async () => {
      const { answers, stderr } = await runCells([
        lines(
          'import os',
          'pid = os.fork()',
          'if pid == 0: 1/0',
          'os.waitpid(pid, 0)[1] >> 8',
        ),
        '2',
      ]);
      assert.deepEqual(
        answers.flatMap(({ results }) => texts(results)),
        ['1', '2'],
      );
      assert.match(stderr, /ZeroDivisionError/);
    });

    test('a child does not keep the socket or read the next cell (KRN-11)', async () => {
      const driver = new Driver();
      const code = lines(
        'import os, subprocess',
        "ls = subprocess.run(['ls', '/proc/self/fd'], close_fds=False, stdout=subprocess.PIPE).stdout",
        "print([subprocess.run(['cat'], stdout=subprocess.PIPE).stdout, os.path.exists('/proc/self/fd/3'), ls])",
      );
      await driver.cell(code);
      await driver.prints('stdout', bare(code).stdout);
      const { results } = await driver.cell(
        lines(
          'pid = os.fork()',
          'if pid == 0:',
          '    os.closerange(0, 3); import time; time.sleep(60)',
          'pid',
        ),
      );
      // The child still sleeps: only its copy of the socket could hold this up.
      driver.child.kill('SIGKILL');
      await new Promise((resolve) => driver.control.once('close', resolve));
      await driver.closed;
      process.kill(Number(results[0]['text/plain']), 'SIGKILL');
    });
  });
});
