// SPDX-License-Identifier: Apache-2.0
'use strict';

// `await` outside of functions, as the python driver runs it.

const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const {
  DEADLINE_MS,
  lines,
  run,
  runCells,
  texts,
} = require('./python-driver.js');

describe('python driver', { concurrency: 2, timeout: 10 * DEADLINE_MS }, () => {
  describe('top-level await', () => {
    test('and asyncio.run() work next to each other (P15)', async () => {
      const go = lines('import asyncio', "async def go(): return 'ok'", '');
      const { answers } = await runCells([
        `${go}asyncio.run(go())`,
        'asyncio.run(go())',
        'await go()',
        'asyncio.run(go())',
      ]);
      assert.deepEqual(
        answers.map(({ results }) => texts(results)),
        Array(4).fill(["'ok'"]),
      );
      for (const last of ['asyncio.run(go())', 'await go()']) {
        assert.deepEqual(texts((await run(go + last)).results), ["'ok'"]);
      }
    });

    test('takes async for, async with and comprehensions', async () => {
      const { results, stderr } = await run(
        lines(
          'import asyncio',
          'from contextlib import asynccontextmanager',
          'async def each():',
          '    for i in range(3): yield i',
          '@asynccontextmanager',
          'async def held(): yield 7',
          'total = 0',
          'async for i in each(): total += i',
          'async with held() as v: total += v',
          '[total, *[i async for i in each()]]',
        ),
      );
      assert.equal(stderr, '');
      assert.deepEqual(texts(results), ['[10, 0, 1, 2]']);
    });

    test('keeps tasks for the next cell and cancels them at the end', async () => {
      const { answers, stdout, stderr } = await runCells([
        lines(
          'import asyncio',
          'async def later():',
          '    await asyncio.sleep(0.01); return 6',
          'async def never():',
          '    try: await asyncio.sleep(999)',
          "    finally: print('cancelled')",
          'a = asyncio.ensure_future(later()); b = asyncio.ensure_future(never())',
          'await asyncio.sleep(0)',
        ),
        'await a',
      ]);
      assert.deepEqual(texts(answers[1].results), ['6']);
      assert.equal(stdout, 'cancelled\n');
      assert.equal(stderr, '');
    });

    test('is not disturbed by a forked child (KRN-10)', async () => {
      const { answers, stderr } = await runCells([
        'import asyncio, os, threading\nawait asyncio.sleep(0)',
        'pid = os.fork()\nif pid: os.waitpid(pid, 0)',
        lines(
          'f = asyncio.get_running_loop().create_future()',
          'def later(loop): loop.call_soon_threadsafe(f.set_result, 4)',
          'threading.Timer(0.05, later, [asyncio.get_running_loop()]).start()',
          'await asyncio.wait_for(f, 5)',
        ),
      ]);
      assert.equal(stderr, '');
      assert.deepEqual(texts(answers[2].results), ['4']);
    });

    test('fails, exits and is interrupted like other code', async () => {
      const { answers, stderr } = await runCells([
        'import asyncio, sys\nawait asyncio.sleep(0)\n1/0',
        'await asyncio.sleep(0)\nsys.exit(4)',
        'await asyncio.sleep(0)\nraise KeyboardInterrupt',
        'await asyncio.sleep(0, 8)',
      ]);
      assert.deepEqual(
        answers.map(({ exitCode }) => exitCode),
        [1, 4, 130, 0],
      );
      assert.equal(answers[0].error.line, 3);
      assert.equal(
        stderr.split('\n')[1],
        '  File "<cell 1>", line 3, in <module>',
      );
      assert.doesNotMatch(stderr, /asyncio\/|never retrieved/);
      assert.deepEqual(texts(answers[3].results), ['8']);
    });
  });
});
