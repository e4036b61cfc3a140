// SPDX-License-Identifier: Apache-2.0
'use strict';

// The driver without a box: it is started as in one, with a socket pair as its
// control socket, in a folder that stands for the workspace.
//
// GLOVEBOX_TEST_NODES names further Node executables, separated by colons.

const assert = require('node:assert/strict');
const { execFileSync, spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, before, describe, test } = require('node:test');
const { nodeArgv } = require('../../lib/runtimes/node/argv.js');

const driverFolder = path.join(__dirname, '../../lib/runtimes/node');
const driver = path.join(driverFolder, 'driver.cjs');

const executables = [
  process.execPath,
  ...(process.env.GLOVEBOX_TEST_NODES ?? '').split(':').filter(Boolean),
];

const files = {
  'counter.mjs': 'export let count = 0;\nexport function add() { count++; }\n',
  'double.cjs': 'module.exports = (n) => 2 * n;\n',
  'first.mjs':
    "import './counter.mjs';\nimport './data.cjs';\nglobalThis.order = ['first'];\n",
  'data.cjs': "require('./data.json');\n",
  'second.mjs': "globalThis.order.push('second');\n",
  'data.json': '{"answer": 42}\n',
  'child.cjs': "process.send('from the child');\n",
  'worker.cjs':
    "require('node:worker_threads').parentPort.postMessage('from the worker');\n",
  'preload.cjs': 'globalThis.preloaded = true;\n',
  'broken.cjs': 'exports.fail = () => {\n  throw new Error("in a file");\n};\n',
  'node_modules/both/package.json': JSON.stringify({
    name: 'both',
    exports: { import: './index.mjs', require: './index.cjs' },
  }),
  'node_modules/both/index.mjs': "export default 'imported';\n",
  'node_modules/both/index.cjs': "module.exports = 'required';\n",
};

let workspace;

before(() => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'gbx-node-'));
  workspace = fs.realpathSync(folder);
  for (const [name, text] of Object.entries(files)) {
    const file = path.join(workspace, name);
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.writeFileSync(file, text);
  }
});

after(() => fs.rmSync(workspace, { recursive: true, force: true }));

function frame(type, body) {
  const header = Buffer.alloc(8);
  header.writeUInt32LE(body.length, 0);
  header.writeUInt32LE(type, 4);
  return Buffer.concat([header, body]);
}

function cellFrame(code) {
  return frame(1, Buffer.from(JSON.stringify({ code })));
}

function collect(stream) {
  const chunks = [];
  stream.on('data', (chunk) => chunks.push(chunk));
  return () => Buffer.concat(chunks);
}

/** What the driver sent: `{results, done}`, with null for no DONE. */
function readAnswers(bytes) {
  const results = [];
  let done = null;
  while (bytes.length > 0) {
    assert.equal(done, null, 'nothing after DONE');
    const end = 8 + bytes.readUInt32LE(0);
    const body = JSON.parse(bytes.subarray(8, end));
    const type = bytes.readUInt32LE(4);
    if (type === 2) results.push(body);
    else {
      assert.equal(type, 3);
      done = body;
    }
    bytes = bytes.subarray(end);
  }
  return { results, done };
}

async function start(executable, input, { env = {}, stdin = '' } = {}) {
  const [command, ...args] = nodeArgv(executable, driver);
  const child = spawn(command, args, {
    cwd: workspace,
    env: { PATH: process.env.PATH, HOME: workspace, ...env },
    stdio: ['pipe', 'pipe', 'pipe', 'pipe', 'pipe'],
    timeout: 60000,
    killSignal: 'SIGKILL',
  });
  const [stdout, stderr, , answers] = child.stdio.slice(1).map(collect);
  // A driver that ended before it read all input is no failure of the test.
  for (const stream of [child.stdin, child.stdio[3]])
    stream.on('error', () => {});
  child.stdin.end(stdin);
  child.stdio[3].end(input);
  const [exitCode, signal] = await once(child, 'close');
  return {
    exitCode,
    signal,
    stdout: stdout().toString(),
    stderr: stderr().toString(),
    ...readAnswers(answers()),
  };
}

function version(executable) {
  return execFileSync(executable, ['-p', 'process.versions.node'], {
    encoding: 'utf8',
  }).trim();
}

for (const executable of executables) {
  const nodeVersion = version(executable);
  const [major, minor] = nodeVersion.split('.').map(Number);

  const run = (code, options) => start(executable, cellFrame(code), options);

  const prints = async (code, stdout, options, results = []) => {
    const result = await run(code, options);
    assert.deepEqual(result, {
      exitCode: 0,
      signal: null,
      stdout,
      stderr: '',
      results,
      done: null,
    });
  };

  // Node's usual report and nothing of ours.
  const fails = async (code, { stderr, line, name, message }) => {
    const result = await run(code);
    assert.equal(result.exitCode, 1);
    assert.equal(result.stdout, '');
    assert.match(result.stderr, stderr);
    assert.doesNotMatch(result.stderr, /driver|runtimes|glovebox/);
    assert.equal(result.done.exitCode, 1);
    const { error } = result.done;
    assert.equal(error.name, name);
    assert.equal(error.message, message);
    assert.equal(error.line, line);
    assert.doesNotMatch(error.traceback, /driver|runtimes|glovebox/);
    return result;
  };

  describe(`node driver on Node ${nodeVersion}`, () => {
    test('P34 a cell may await at its top level', () =>
      prints(
        'const v = await Promise.resolve(41); console.log(v + 1)',
        '42\n',
      ));

    test('P34 a cell may import built-in modules', () =>
      prints(
        "import os from 'node:os'; console.log(typeof os.cpus)",
        'function\n',
      ));

    test('P34 a cell may require built-in modules', () =>
      prints(
        "const p = require('path'); console.log(p.basename('/a/b'))",
        'b\n',
      ));

    test('P34 a timer keeps the cell alive', () =>
      prints(
        "setTimeout(() => console.log('late'), 200); console.log('first')",
        'first\nlate\n',
      ));

    test('P34 3 MiB written at once arrive whole', async () => {
      const { stdout, exitCode } = await run(
        "process.stdout.write('x'.repeat(3 << 20))",
      );
      assert.equal(stdout.length, 3145728);
      assert.equal(exitCode, 0);
    });

    test('P34 process.exit loses no output', async () => {
      const { stdout, exitCode } = await run(
        "process.stdout.write('x'.repeat(3 << 20)); process.exit(3)",
      );
      assert.equal(stdout.length, 3145728);
      assert.equal(exitCode, 3);
    });

    test('P34 a rejected promise ends the cell with exit code 1', () =>
      fails("Promise.reject(new Error('boom'))", {
        stderr: /^Error: boom\n {4}at \[eval\]:1:16\n/m,
        name: 'Error',
        message: 'boom',
        line: 1,
      }));

    test('a cell sees what node -e shows to code', () =>
      prints(
        `console.log(JSON.stringify([
          process.argv, process.execArgv, __filename, __dirname, module.id,
          module.children, Object.keys(require.cache), typeof exports,
          require.main === undefined, typeof os.cpus, typeof fs.readFileSync,
          this === globalThis, process.cwd() === '${workspace}',
        ]))`,
        `${JSON.stringify([
          [fs.realpathSync(executable)],
          [],
          '[eval]',
          '.',
          '[eval]',
          [],
          [],
          'object',
          true,
          'function',
          'function',
          true,
          true,
        ])}\n`,
      ));

    test('a cell may give the names of node -e to its own constants', () =>
      prints(
        'const require = 1, module = 2, exports = 3, fs = 4;\n' +
          'console.log(require + module + exports + fs)',
        '10\n',
      ));

    test('require finds files and packages of the working folder', () =>
      prints(
        "console.log(require('./double.cjs')(21), require('both'), " +
          "require('./data.json').answer)",
        '42 required 42\n',
      ));

    test('import finds files and packages of the working folder', () =>
      prints(
        "import double from './double.cjs';\nimport both from 'both';\n" +
          "import { add } from './counter.mjs';\n" +
          'console.log(double(21), both, typeof add)',
        '42 imported function\n',
      ));

    test('import() works in a script and in a module', async () => {
      const code =
        "import('./counter.mjs').then((m) => console.log(m.count));\n" +
        "import('both').then((m) => console.log(m.default));\n";
      const { stdout, stderr } = await run(code);
      assert.deepEqual(stdout.trim().split('\n').sort(), ['0', 'imported']);
      assert.equal(stderr, '');
      await prints(
        "console.log((await import('./counter.mjs')).count, " +
          "(await import('both')).default)",
        '0 imported\n',
      );
    });

    test('modules are evaluated in the order of their imports', () =>
      prints(
        "import './first.mjs';\nimport './second.mjs';\n" +
          "console.log(order.join(' '))",
        'first second\n',
      ));

    // The attributes of imports came with 18.20 and 20.10.
    test('a module may import JSON', async () => {
      const { stdout } = await run(
        "import data from './data.json' with { type: 'json' };\n" +
          'console.log(data.answer)',
      );
      assert.equal(stdout, '42\n');
    });

    test(
      'a static import is live',
      {
        skip:
          (major < 22 || (major === 22 && minor < 15)) &&
          'needs module.registerHooks (Node 22.15)',
      },
      () =>
        prints(
          "import { count, add } from './counter.mjs';\nadd();\n" +
            'console.log(count)',
          '1\n',
        ),
    );

    test('import.meta is that of a file in the working folder', () =>
      prints(
        'const { url, resolve } = import.meta;\n' +
          "console.log(url, resolve('./x.mjs'), resolve('node:fs'))",
        `file://${workspace}/[eval1] file://${workspace}/x.mjs node:fs\n`,
      ));

    test('a module may use require too', () =>
      prints(
        "const { EOL } = require('node:os'); console.log(await EOL.length)",
        '1\n',
      ));

    const awaits = {
      'console.log(await 1)': '1',
      'console.log(`${await 1}`)': '1',
      'const [a, b] = [await 1, await 2]; console.log(a + b)': '3',
      'if (await true) console.log(1)': '1',
      'await (async () => console.log(1))()': '1',
      'await [console.log(1)]; undefined': '1',
      'for await (const x of [1]) console.log(x)': '1',
      'await\nconsole.log(1)': '1',
    };
    for (const [code, stdout] of Object.entries(awaits)) {
      test(`awaits: ${JSON.stringify(code)}`, () =>
        prints(code, `${stdout}\n`));
    }

    const scripts = {
      // Sloppy mode shows that it was no module.
      'async function f() { await (1) }; sloppy = 1; console.log(sloppy)': '1',
      'const f = async () => { await [1] }; with ({ x: 1 }) console.log(x)':
        '1',
      'var await = 1; console.log(await)': '1',
      '// await (x)\nconsole.log(010)': '8',
      "console.log('await (1)'.length, 010)": '9 8',
      '': '',
    };
    for (const [code, stdout] of Object.entries(scripts)) {
      test(`stays a script: ${JSON.stringify(code)}`, () =>
        prints(code, stdout && `${stdout}\n`));
    }

    // Text and JSON of the one result, without a word on stdout or stderr.
    const gives = async (code, text, json = text) => {
      const result = await run(code);
      const forms = { 'text/plain': text, isMainResult: 'true' };
      if (json !== null) forms['application/json'] = json;
      assert.deepEqual(
        result,
        {
          exitCode: 0,
          signal: null,
          stdout: '',
          stderr: '',
          results: [forms],
          done: null,
        },
        code,
      );
    };

    const values = {
      '1 + 1': ['2'],
      'let x = 20; x + 1;  // a note; with a semicolon': ['21'],
      "'a;'": ["'a;'", '"a;"'],
      '({ a: [1, undefined] });': ['{ a: [ 1, undefined ] }', null],
      '[{ a: null, b: undefined }]': [
        '[ { a: null, b: undefined } ]',
        '[{"a":null}]',
      ],
      NaN: ['NaN', null],
      '10n': ['10n', null],
      null: ['null'],
      'new Map([[1, 2]])': ['Map(1) { 1 => 2 }', null],
      'const list = [3]\nlist\n  .map((x) => x * 2)': ['[ 6 ]', '[6]'],
      'const a = 1;\n[a, 2]': ['[ 1, 2 ]', '[1,2]'],
      'if (true) { 5 }\n6': ['6'],
      'Promise.resolve(7)': ['7'],
      '(async () => ({ b: 8 }))()': ['{ b: 8 }', '{"b":8}'],
      'const v = await 41; v + 1': ['42'],
      'await Promise.resolve([43])': ['[ 43 ]', '[43]'],
      "import os from 'node:os';\n// typeof\ntypeof os.cpus\n": [
        "'function'",
        '"function"',
      ],
      "import os from 'node:os';\nos.EOL;\n/* the end */": ["'\\n'", '"\\n"'],
      'const b = await 1;\n[b, Promise.resolve(2)].length': ['2'],
      'export const c = 3;\n-c': ['-3'],
    };
    for (const [code, expected] of Object.entries(values)) {
      test(`the value of the last expression: ${JSON.stringify(code)}`, () =>
        gives(code, ...expected));
    }

    const valueless = [
      'undefined',
      'let x = 5',
      'globalThis.x = 5',
      'const list = []; for (const x of [1, 2]) list.push(x)',
      'let n = 0;\nwhile (n < 3) n++',
      '5; function f() {}',
      '5\nclass C {}',
      '5\n{ 6 }',
      'if (true) {\n  5;\n}',
      'try { 5 } finally {}',
      'Promise.resolve()',
      'setTimeout(() => {}, 1)',
      "process.on('exit', () => {})",
      '// 5',
      'const y = await 1;\nif (y) Math.abs(y)',
      'export default 5',
      'await 1;\nexport const z = 5',
    ];
    for (const code of valueless) {
      test(`no value: ${JSON.stringify(code)}`, () => prints(code, ''));
    }

    test('to look for a last expression changes no code', async () => {
      // As one statement, though the last line would parse by itself.
      for (const [statement, expected] of [
        ['const v = 1\n+ 2', '3'],
        ['const v = [5]\n[0]', '5'],
        ['const v = ((x) => x)\n(4)', '4'],
        ['const v = 8\n/ 2 / 1', '4'],
        ['const v = String.raw\n`6`', '6'],
        ['let v = 1; if (v > 1)\nv', '1'],
      ]) {
        const note = "process.on('exit', () => console.log(String(v)));\n";
        await prints(`await 1;\n${note}${statement}`, `${expected}\n`);
      }
    });

    test('an error in the last expression has its place', async () => {
      for (const [code, place] of [
        ['null.x', /^\[eval\]:1\nnull\.x\n {5}\^\n/],
        ['await 1;\nnull.x', /\[eval1\]:2\nnull\.x\n {5}\^\n/],
        ['await 1; // one\n\n  null.x;\n', /\[eval1\]:3\n/],
      ]) {
        const { exitCode, stderr, results } = await run(code);
        assert.equal(exitCode, 1);
        assert.match(stderr, place);
        assert.doesNotMatch(stderr, /driver|runtimes/);
        assert.deepEqual(results, []);
      }
    });

    test('a promise that is rejected fails the cell, shown or not', async () => {
      for (const code of [
        "const p = Promise.reject(new Error('late')); p",
        "const p = (async () => { throw new Error('late') })(); await 1; p",
        "display(Promise.reject(new Error('late')))",
      ]) {
        const { exitCode, stderr, done, results } = await run(code);
        assert.equal(exitCode, 1, code);
        assert.match(stderr, /Error: late/);
        assert.equal(done.error.message, 'late');
        assert.deepEqual(results, []);
      }
    });

    test('display() shows values and bundles as they come', async () => {
      for (const start of ['', 'await 1;\n']) {
        const { results, stdout, stderr } = await run(
          `${start}display(1, 'two');
          display({
            'text/html': '<b>é</b>',
            'text/plain': 'b',
            'image/png': Buffer.from([137, 80]),
            'image/svg+xml': new TextEncoder().encode('<svg/>'),
            'application/json': { a: [1] },
            'text/latex': 5,
          });
          display({ a: 1 }, undefined);
          display({
            [Symbol.for('Jupyter.display')]: () => ({ 'text/markdown': '*m*' }),
            [Symbol.for('nodejs.util.inspect.custom')]: () => 'm',
          });
          setTimeout(() => display(Promise.resolve('late')), 10);
          console.log('out');`,
        );
        assert.equal(stdout, 'out\n');
        assert.equal(stderr, '');
        assert.deepEqual(results, [
          { 'text/plain': '1', 'application/json': '1' },
          { 'text/plain': "'two'", 'application/json': '"two"' },
          {
            'text/html': '<b>é</b>',
            'text/plain': 'b',
            'image/png': 'iVA=',
            'image/svg+xml': '<svg/>',
            'application/json': '{"a":[1]}',
          },
          { 'text/plain': '{ a: 1 }', 'application/json': '{"a":1}' },
          { 'text/plain': 'undefined' },
          { 'text/plain': 'm', 'text/markdown': '*m*' },
          { 'text/plain': "'late'", 'application/json': '"late"' },
        ]);
      }
    });

    test('values that cannot be looked at do no harm', async () => {
      const { results, exitCode, stderr } = await run(
        `display(new Proxy({}, { get() { throw new Error('trap') } }));
        display({ get a() { throw new Error('getter') } });
        display({ [Symbol.for('nodejs.util.inspect.custom')]() { throw 5 } });
        const circle = {}; circle.circle = circle; display(circle);
        let deep = 1; for (let i = 0; i < 1e5; i++) deep = [deep]; display(deep);
        display(new Array(2 ** 32 - 1));
        display(new Error('shown'));`,
      );
      assert.equal(stderr, '');
      assert.equal(exitCode, 0);
      assert.equal(results.length, 7);
      for (const result of results) {
        assert.deepEqual(Object.keys(result), ['text/plain']);
      }
      assert.match(results[6]['text/plain'], /^Error: shown\n/);
      assert.doesNotMatch(results[6]['text/plain'], /driver|runtimes/);
    });

    test('results are bounded in number and in size', async () => {
      const many = await run('for (let i = 0; i < 5000; i++) display(i)');
      assert.equal(many.results.length, 1001);
      assert.match(
        many.results[1000]['text/plain'],
        /^\[more than 1000 results/,
      );
      const large = await run(
        "display({ 'text/html': 'x'.repeat(61 << 20) }); 'y'.repeat(9 << 20)",
      );
      assert.match(
        large.results[0]['text/plain'],
        /^\[a result of 639\d+ bytes/,
      );
      assert.equal(large.results[1]['application/json'], undefined);
      assert.match(large.results[1]['text/plain'], /more characters$/);
    });

    test('display is an ordinary global that code may replace', async () => {
      await prints('const display = console.log; display(1)', '1\n');
      await prints('function display() {}; display(1)', '');
      await prints(
        'display(1); console.log(Object.keys(globalThis).includes("display"),' +
          'Object.keys(require.cache))',
        'false []\n',
        {},
        [{ 'text/plain': '1', 'application/json': '1' }],
      );
    });

    test('results are dropped where the pipe is gone', () =>
      prints('fs.closeSync(4); display(1); 2', ''));

    test('TypeScript runs where node -e runs it', {
      skip:
        (major < 22 || (major === 22 && minor < 18)) &&
        'this Node runs no TypeScript',
    }, async () => {
      await prints('const x: number = 1; console.log(x)', '1\n');
      await prints(
        "import os from 'node:os';\nconst x: number = await 1;\n" +
          'console.log(x, typeof os)',
        '1 object\n',
      );
    });

    test('an uncaught error names its line and nothing of the driver', () =>
      fails("console.error('on stderr');\n\nthrow new TypeError('bad')", {
        stderr: /^on stderr\n\[eval\]:3\nthrow new TypeError\('bad'\)\n\^\n/,
        name: 'TypeError',
        message: 'bad',
        line: 3,
      }));

    test('an uncaught error of a module names its line', () =>
      fails("await 1;\nthrow new RangeError('bad')", {
        stderr: /\/\[eval1\]:2\nthrow new RangeError\('bad'\)\n +\^\n/,
        name: 'RangeError',
        message: 'bad',
        line: 2,
      }));

    test('the error of a file names the line that called it', () =>
      fails("const { fail } = require('./broken.cjs');\nfail();", {
        stderr: /broken\.cjs:2\n/,
        name: 'Error',
        message: 'in a file',
        line: 2,
      }));

    test('a syntax error names its line and nothing of the driver', () =>
      fails('let x = 1;\nlet y = ;', {
        stderr: /^\[eval\]:2\nlet y = ;\n {8}\^\n\nSyntaxError: /,
        name: 'SyntaxError',
        message: "Unexpected token ';'",
        line: 2,
      }));

    test('a syntax error of a module names its line', async () => {
      const { exitCode, stderr } = await run("import 'node:os';\nlet y = ;");
      assert.equal(exitCode, 1);
      assert.match(stderr, /\/\[eval1\]:2\nlet y = ;\n {8}\^\n\nSyntaxError: /);
      assert.doesNotMatch(stderr, /driver|runtimes/);
    });

    test('a missing package is an error of the cell', async () => {
      for (const code of [
        "require('no-such-package')",
        "import 'no-such-package'",
        "Error.stackTraceLimit = 100; import('no-such-package')",
        "Error.stackTraceLimit = 100; await import('no-such-package')",
      ]) {
        const { exitCode, stderr } = await run(code);
        assert.equal(exitCode, 1, code);
        assert.match(stderr, /Cannot find (package|module) 'no-such-package'/);
        assert.doesNotMatch(stderr, /driver|runtimes/, code);
      }
    });

    test('anything can be thrown', async () => {
      const { done } = await run("throw 'text'");
      assert.deepEqual(done.error, {
        name: 'string',
        message: 'text',
        traceback: "Uncaught 'text'",
        line: null,
      });
      const trap = await run(
        "throw new Proxy({}, { get() { throw new Error('trap') } })",
      );
      assert.equal(trap.exitCode, 1);
      const getter = await run(
        "throw Object.defineProperty(new Error(), 'stack', " +
          "{ get() { throw new Error('trap') } })",
      );
      assert.equal(getter.exitCode, 1);
    });

    test('an enormous message is cut on the way to the host', async () => {
      const { done, exitCode } = await run("throw new Error('x'.repeat(5e6))");
      assert.equal(exitCode, 1);
      assert.equal(done.error.message.length, 32768);
    });

    test('a handled error is none', async () => {
      await prints(
        "process.on('uncaughtException', (e) => console.log(e.message));\n" +
          "setTimeout(() => console.log('on'), 10);\nthrow new Error('x')",
        'x\non\n',
      );
      await prints(
        "process.on('unhandledRejection', (e) => console.log(e.message));\n" +
          "Promise.reject(new Error('x'))",
        'x\n',
      );
    });

    test('exit codes are the ones that the code chose', async () => {
      for (const [code, exitCode] of [
        ['process.exit(7)', 7],
        ['process.exitCode = 8', 8],
        ['await 1; process.exit(9)', 9],
        ["process.on('exit', () => { process.exitCode = 10 })", 10],
        ['process.exit(); await 1', 0],
      ]) {
        const result = await run(code);
        assert.equal(result.exitCode, exitCode, code);
        assert.equal(result.done, null, code);
        assert.equal(result.stderr, '', code);
      }
    });

    test('a module that waits for nothing exits with 13, as node does', async () => {
      const { exitCode, stderr } = await run('await new Promise(() => {})');
      assert.equal(exitCode, 13);
      assert.match(stderr, /^Warning: Detected unsettled top-level await/);
    });

    test('beforeExit and exit fire', () =>
      prints(
        "process.once('beforeExit', () => console.log('before'));\n" +
          "process.on('exit', (code) => console.log('exit', code))",
        'before\nexit 0\n',
      ));

    test('ten exit listeners of the code give no warning', () =>
      prints(
        'for (let i = 0; i < 10; i++) {\n' +
          "  for (const name of ['exit', 'beforeExit', 'uncaughtException'])\n" +
          '    process.on(name, () => {});\n}',
        '',
      ));

    test('descriptor 0 is the real stdin', () =>
      prints("console.log(fs.readFileSync(0, 'utf8'))", 'line 1\nline 2\n', {
        stdin: 'line 1\nline 2',
      }));

    test('the control socket reaches no child', () =>
      prints(
        "const { execFileSync } = require('node:child_process');\n" +
          "const control = fs.readlinkSync('/proc/self/fd/3');\n" +
          "const list = execFileSync('ls', ['-l', '/proc/self/fd']).toString();\n" +
          "console.log(control.startsWith('socket:'), list.includes(control))",
        'true false\n',
      ));

    test('the driver leaves a file alone that took its descriptor', async () => {
      const { exitCode, stderr, done } = await run(
        "fs.closeSync(4);\nconst fd = fs.openSync('taken', 'w+');\n" +
          "if (fd !== 4) process.exit(99);\nthrow new Error('x')",
      );
      assert.equal(exitCode, 1);
      assert.match(stderr, /Error: x/);
      assert.equal(done, null);
      assert.equal(fs.readFileSync(path.join(workspace, 'taken'), 'utf8'), '');
    });

    test('fork() and Worker run files', async () => {
      await prints(
        "const { fork } = require('node:child_process');\n" +
          "fork('./child.cjs').on('message', (m) => console.log(m));",
        'from the child\n',
      );
      await prints(
        "const { Worker } = require('node:worker_threads');\n" +
          "new Worker('./worker.cjs').on('message', (m) => console.log(m));",
        'from the worker\n',
      );
    });

    test('NODE_OPTIONS means what it means for node -e', async () => {
      await prints('console.log(preloaded)', 'true\n', {
        env: { NODE_OPTIONS: '--require ./preload.cjs' },
      });
      await prints(
        'console.log(typeof require, typeof import.meta.url, this)',
        'undefined string undefined\n',
        { env: { NODE_OPTIONS: '--input-type=module' } },
      );
    });

    test('P30 code may be of any length', async () => {
      const pad = `/*${'a'.repeat(300000)}*/ console.log("ok")`;
      await prints(pad, 'ok\n');
      const end = ' console.log("ok")';
      for (const size of [131071, 131072, 131073, 8 << 20]) {
        await prints(`/*${'a'.repeat(size - 4 - end.length)}*/${end}`, 'ok\n');
      }
    });

    test('P30 a line number is right behind long code', () =>
      fails(`${'x = 1;\n'.repeat(60000)}throw new Error('end')`, {
        stderr: /^\[eval\]:60001\n/,
        name: 'Error',
        message: 'end',
        line: 60001,
      }));

    test('non-ASCII code and output are kept', () =>
      prints("console.log('é😀', '\\u{1F600}'.length)", 'é😀 2\n'));

    test('the end of input without a cell ends the driver', async () => {
      const { exitCode, stderr } = await start(executable, '');
      assert.equal(exitCode, 0);
      assert.equal(stderr, '');
    });

    test('half a frame is an error', async () => {
      const whole = cellFrame('console.log(1)');
      for (const size of [4, 8, whole.length - 1]) {
        const { exitCode, stdout, stderr } = await start(
          executable,
          whole.subarray(0, size),
        );
        assert.equal(exitCode, 1);
        assert.equal(stdout, '');
        assert.match(stderr, /the control socket ended inside a frame/);
      }
      const { stderr } = await start(executable, frame(9, Buffer.from('{}')));
      assert.match(stderr, /a frame 9 of 2 bytes/);
    });
  });
}
