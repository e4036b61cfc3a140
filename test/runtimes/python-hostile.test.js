// SPDX-License-Identifier: Apache-2.0
'use strict';

// Code that the python driver must not fall to.

const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const {
  DEADLINE_MS,
  Driver,
  assertClean,
  bare,
  lines,
  run,
  runCells,
  texts,
  workspace,
} = require('./python-driver.js');

describe('python driver', { concurrency: 2, timeout: 10 * DEADLINE_MS }, () => {
  describe('hostile code', () => {
    const SHADOWS = [
      'json',
      'base64',
      'random',
      'ast',
      'io',
      'traceback',
      'code',
      'threading',
      'linecache',
      're',
      'enum',
      'types',
      'tokenize',
      'functools',
      'contextlib',
      'asyncio',
      'cells',
      'channel',
      'results',
      'failures',
      'binascii',
      'fcntl',
      '_json',
      'warnings',
      'matplotlib',
      'inspect',
    ];
    const shadowed = (text) =>
      workspace(
        Object.fromEntries(SHADOWS.map((name) => [`${name}.py`, text])),
      );

    test("workspace files named like modules are never the driver's (P21)", async () => {
      const cwd = shadowed('raise SystemExit("shadow " + __name__)');
      for (const env of [{}, { PYTHONPATH: cwd }]) {
        const bare3 = bare('pass', env);
        if (bare3.status !== 0) continue; // site itself falls for it
        const once = await run('1 + 1', { cwd, env });
        assert.deepEqual(texts(once.results), ['2'], once.stderr);
        assert.equal(once.exitCode, 0);
        const { answers, stderr } = await runCells(['1/0', '1 + 1'], {
          cwd,
          env,
        });
        assert.equal(answers[0].exitCode, 1);
        assert.match(stderr, /^ {4}1\/0$/m);
        assert.match(stderr, /ZeroDivisionError: division by zero\n$/);
        assert.deepEqual(texts(answers[1].results), ['2']);
        assert.deepEqual(
          texts(
            (await run('async def f(): return 3\nawait f()', { cwd, env }))
              .results,
          ),
          ['3'],
        );
      }
    });

    test('imported shadows of modules are looked past (P21)', async () => {
      const cwd = shadowed('mine = True');
      const { answers, stderr } = await runCells(
        [
          'import traceback, linecache, inspect, json, results; (traceback.mine, results.mine)',
          "display({'application/json': [1]}, raw=True)\n1/0",
          'import traceback, linecache; (traceback.mine, linecache.mine)',
        ],
        { cwd },
      );
      assert.deepEqual(texts(answers[0].results), ['(True, True)']);
      assert.equal(answers[1].results[0]['application/json'], '[1]');
      assert.match(stderr, /line 2, in <module>\n {4}1\/0\n/);
      assert.deepEqual(texts(answers[2].results), ['(True, True)']);
    });

    const attacks = {
      'json.dumps':
        'import json; json.dumps = json.loads = lambda *a, **k: "{}"',
      _json: 'import _json; _json.encode_basestring_ascii = None',
      'builtins.compile':
        'import builtins; builtins.compile = builtins.eval = builtins.exec = builtins.open = None',
      'builtins.*':
        'import builtins\nfor n in ("len", "str", "isinstance", "getattr", "int", "vars", "dict", "type", "repr", "__build_class__"): delattr(builtins, n)',
      __import__: 'import builtins; del builtins.__import__',
      display: 'import builtins; del builtins.display',
      'sys.stdout': 'import sys; sys.stdout = None',
      'sys.stdout.close': 'import sys; sys.stdout.close(); sys.stderr.close()',
      'streams for good':
        'import os, sys; os.close(0); os.close(2); sys.stdin.close(); sys.stderr.close()',
      'sys.stderr': 'import sys; sys.stderr = None',
      'io.StringIO': 'import io; io.StringIO = io.BytesIO = None',
      threading:
        'import threading; threading.Thread.start = threading.Lock = None',
      traceback:
        'import traceback; traceback.TracebackException = None; traceback.format_exception = None',
      'traceback.format':
        'import traceback; traceback.TracebackException.format = None',
      linecache:
        'import linecache; linecache.cache = None; linecache.getline = None',
      settrace:
        'import sys\ndef t(*a): raise ValueError("traced")\nsys.settrace(t); sys.setprofile(t)',
      'settrace loop':
        'import sys\ndef t(*a):\n    while True: pass\nsys.settrace(t)',
      recursion: 'import sys; sys.setrecursionlimit(20)',
      gc: 'import gc; gc.set_threshold(1); gc.freeze()',
      signals:
        'import signal\nfor s in (1, 2, 15, 13): signal.signal(s, signal.SIG_IGN)',
      os: 'import os; os.read = os.write = os.close = os.getpid = None',
      sys: 'import sys; sys.exit = sys.modules = sys.path = sys.meta_path = None',
      'sys.modules': 'import sys; sys.modules.clear()',
      meta_path: 'import sys; sys.meta_path.clear(); sys.path_hooks.clear()',
      'error truth':
        'class E(Exception):\n    def __len__(self): return 0\nraise E',
      main: 'import sys; del sys.modules["__main__"]; globals().clear()',
      displayhook: 'import sys; sys.displayhook = None; sys.argv = None',
      cwd: 'import os; os.mkdir("gone"); os.chdir("gone"); os.rmdir("../gone")',
      descriptors:
        'import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))',
    };
    for (const [name, code] of Object.entries(attacks)) {
      test(`spoiling ${name} costs no later cell (KRN-14)`, async () => {
        const { answers, stdout, exitCode } = await runCells([
          code,
          "print('out', end='')\n6 * 7",
          '1/0',
          "'end'",
        ]);
        assert.deepEqual(
          texts(answers[1].results),
          ['42'],
          JSON.stringify(answers),
        );
        assert.equal(stdout, 'out');
        assert.equal(answers[1].exitCode, 0);
        assert.equal(answers[2].error.name, 'ZeroDivisionError');
        assert.match(answers[2].error.traceback, /line 1, in <module>/);
        assert.deepEqual(texts(answers[3].results), ["'end'"]);
        assert.equal(exitCode, 0);
      });
    }

    test('a signal handler that raises between cells is shown and survived', async () => {
      const driver = new Driver();
      await driver.cell(
        lines(
          'import signal',
          'def ring(*a): raise TimeoutError("rang")',
          'signal.signal(signal.SIGALRM, ring)',
          'signal.setitimer(signal.ITIMER_REAL, 0.05)',
        ),
      );
      await driver.prints('stderr', 'TimeoutError: rang\n');
      assert.deepEqual(texts((await driver.cell('1')).results), ['1']);
      driver.child.kill('SIGINT');
      assert.deepEqual(texts((await driver.cell('2')).results), ['2']);
      const { stderr, exitCode } = await driver.end();
      assertClean(stderr);
      assert.equal(exitCode, 0);
    });

    test('an exception that calls itself false fails its cell', async () => {
      const ended = await run(
        'class E(Exception):\n    def __len__(self): return 0\nraise E',
      );
      assert.equal(ended.exitCode, 1);
    });

    test("emptied globals come back with the code's own imports", async () => {
      const cwd = workspace({ 'results.py': 'mine = 1' });
      const { answers } = await runCells(
        ['globals().clear()', 'import results; (results.mine, __name__)'],
        { cwd },
      );
      assert.deepEqual(texts(answers[1].results), ["(1, '__main__')"]);
    });

    test('SIGINT interrupts a cell and leaves the state', async () => {
      const driver = new Driver();
      for (const code of [
        "x = 7\nprint('up')\nwhile True: pass",
        lines(
          'import asyncio',
          'x = 7',
          "asyncio.get_running_loop().call_soon(print, 'up')",
          'try: await asyncio.sleep(99)',
          "finally: print('undone')",
        ),
      ]) {
        const answer = driver.cell(code);
        await driver.prints('stdout', 'up\n');
        driver.output.stdout.length = 0;
        driver.child.kill('SIGINT');
        const { exitCode, error } = await answer;
        assert.equal(exitCode, 130);
        assert.equal(error.name, 'KeyboardInterrupt');
        if (code.includes('undone')) await driver.prints('stdout', 'undone\n');
        assert.deepEqual(texts((await driver.cell('x')).results), ['7']);
      }
      assertClean((await driver.end()).stderr);
    });

    test('the stack shows no path of the driver', async () => {
      const { stdout } = await run(
        lines(
          'import inspect, warnings',
          'for f in inspect.stack(): print(f.filename, f.code_context)',
        ),
      );
      assert.match(stdout, /^<cell 1>/);
    });
  });
});
