// SPDX-License-Identifier: Apache-2.0
'use strict';

// The python driver alone: `python3 driver.py` with a socket at descriptor 3,
// without box or engine. GLOVEBOX_TEST_PYTHON names the interpreter.

const assert = require('node:assert/strict');
const { spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, before, describe, test } = require('node:test');

const DRIVER = path.join(__dirname, '../../lib/runtimes/python/driver.py');
const DEBIAN_PYTHON = '/usr/bin/python3';
const PYTHON =
  process.env.GLOVEBOX_TEST_PYTHON ||
  (fs.existsSync(DEBIAN_PYTHON) ? DEBIAN_PYTHON : 'python3');

const CELL = 1;
const RESULT = 2;
const DONE = 3;
const DEADLINE_MS = 60_000;

const bare = (code, env = {}) =>
  spawnSync(PYTHON, ['-c', code], {
    encoding: 'utf8',
    env: { PATH: process.env.PATH, LANG: 'C.UTF-8', ...env },
  });
const [MAJOR, MINOR] = bare('import sys; print(*sys.version_info[:2])')
  .stdout.split(' ')
  .map(Number);
const since = (minor) => MAJOR > 3 || MINOR >= minor;
const skipWithout = (module) => {
  // matplotlib fails where it finds no home for its settings.
  const home = { HOME: os.tmpdir() };
  if (bare(`import ${module}`, home).status === 0) return false;
  assert.ok(!process.env.GLOVEBOX_MUST_RUN, `${PYTHON} has no ${module}`);
  return `${PYTHON} has no ${module}`;
};

const live = new Set();
let folder;

before(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'gbx-driver-'));
});
after(() => {
  for (const child of live) child.kill('SIGKILL');
  fs.rmSync(folder, { recursive: true });
});

const workspace = (files = {}) => {
  const made = fs.mkdtempSync(path.join(folder, 'w-'));
  for (const [name, text] of Object.entries(files)) {
    fs.writeFileSync(path.join(made, name), text);
  }
  return made;
};

/** One driver process; cells are sent in order, as a Kernel does. */
class Driver {
  constructor({ cwd = workspace(), env = {} } = {}) {
    this.cwd = cwd;
    this.child = spawn(PYTHON, [DRIVER], {
      cwd,
      env: { PATH: process.env.PATH, HOME: cwd, LANG: 'C.UTF-8', ...env },
      stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'],
      timeout: DEADLINE_MS,
      killSignal: 'SIGKILL',
    });
    live.add(this.child);
    this.control = this.child.stdio[3];
    this.control.on('error', () => {});
    this.control.resume();
    this.frames = [];
    this.waiting = [];
    this.input = Buffer.alloc(0);
    this.child.stdio[4].on('data', (data) => this.#receive(data));
    this.output = { stdout: [], stderr: [] };
    for (const name of ['stdout', 'stderr']) {
      this.child[name].on('data', (data) => this.output[name].push(data));
    }
    this.closed = new Promise((resolve) => {
      this.child.on('close', (exitCode, signal) => {
        live.delete(this.child);
        for (const { reject } of this.waiting) {
          reject(
            new Error(
              `driver ended: ${exitCode} ${signal} ${this.text('stderr')}`,
            ),
          );
        }
        resolve({ exitCode, signal });
      });
    });
  }

  #receive(data) {
    this.input = Buffer.concat([this.input, data]);
    while (this.input.length >= 8) {
      const size = this.input.readUInt32LE(0);
      if (this.input.length < 8 + size) break;
      const type = this.input.readUInt32LE(4);
      const body = JSON.parse(this.input.toString('utf8', 8, 8 + size));
      this.input = this.input.subarray(8 + size);
      this.frames.push({ type, body });
      if (type === DONE && this.waiting.length > 0) {
        this.waiting.shift().resolve();
      }
    }
  }

  text(name) {
    return Buffer.concat(this.output[name]).toString('utf8');
  }

  send(code, name) {
    const body = Buffer.from(JSON.stringify({ code, name }));
    const header = Buffer.alloc(8);
    header.writeUInt32LE(body.length, 0);
    header.writeUInt32LE(CELL, 4);
    this.control.write(Buffer.concat([header, body]));
  }

  /** Runs one cell: {results, exitCode, error}. */
  async cell(code, name) {
    const from = this.frames.length;
    const done = new Promise((resolve, reject) => {
      this.waiting.push({ resolve, reject });
    });
    this.send(code, name);
    await done;
    const frames = this.frames.slice(from);
    return {
      results: frames
        .filter(({ type }) => type === RESULT)
        .map(({ body }) => body),
      ...frames.find(({ type }) => type === DONE).body,
    };
  }

  async prints(name, text) {
    while (!this.text(name).includes(text)) {
      const more = new Promise((resolve) =>
        this.child[name].once('data', resolve),
      );
      const ended = await Promise.race([more.then(() => null), this.closed]);
      assert.equal(
        ended,
        null,
        `ended without "${text}": ${this.text('stderr')}`,
      );
    }
  }

  async end() {
    this.control.end();
    const { exitCode, signal } = await this.closed;
    return {
      stdout: this.text('stdout'),
      stderr: this.text('stderr'),
      exitCode,
      signal,
      cells: this.frames
        .filter(({ type }) => type === DONE)
        .map(({ body }) => body),
      results: this.frames
        .filter(({ type }) => type === RESULT)
        .map(({ body }) => body),
    };
  }
}

const lines = (...each) => each.join('\n');
const texts = (results) => results.map((result) => result['text/plain']);

/** Like runCode: one cell, then the end of the input. */
const run = async (code, options) => {
  const driver = new Driver(options);
  driver.send(code);
  return driver.end();
};

/** Like a Kernel: cells after one another; answers and the end's output. */
const runCells = async (codes, options) => {
  const driver = new Driver(options);
  const answers = [];
  for (const code of codes) answers.push(await driver.cell(code));
  return { answers, ...(await driver.end()) };
};

const assertClean = (stderr) => {
  assert.doesNotMatch(stderr, /glovebox|driver\.py|runtimes/);
};

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
