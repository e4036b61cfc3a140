// SPDX-License-Identifier: Apache-2.0
'use strict';

// What cells of node and bash keep, and how they end.

const assert = require('node:assert/strict');
const { open, test } = require('../helpers/harness.js');

/** Runs cells one after the other; each is `[code, expected text or stdout]`. */
async function runAll(kernel, cells) {
  for (const [code, expected] of cells) {
    const result = await kernel.runCode(code);
    assert.equal(result.stderr, '', code);
    assert.equal(result.exitCode, 0, code);
    if (expected === undefined) continue;
    const [last] = result.results.slice(-1);
    assert.equal(last ? last.text : result.stdout, expected, code);
  }
}

test('names of node cells outlive them, and may be declared again', async (t) => {
  const kernel = await (await open(t)).kernel({ language: 'node' });
  await runAll(kernel, [
    ['const a = 1; let b = 2; var c = 3; class D { e() { return a; } }'],
    ['function f() { return a + b + c; }'],
    ['f() + new D().e()', '7'],
    ['const a = 10; let b = 20; class D { e() { return -a; } }'],
    ['f() + new D().e()', '23'],
    [
      'const { x, ...y } = { x: 1, z: 2 }, [g = 5] = []; [x, y, g]',
      '[ 1, { z: 2 }, 5 ]',
    ],
    ['class Last {}\n(3)', '3'],
    ['let unset\nunset = 4\nunset', '4'],
  ]);
});

test('node cells await at the top, and import and require', async (t) => {
  const sandbox = await open(t);
  await sandbox.writeFile(
    'own.mjs',
    'export const own = 7; export default "d"',
  );
  await sandbox.writeFile('data.json', '{"k": 1}');
  const kernel = await sandbox.kernel({ language: 'node' });
  await runAll(kernel, [
    [
      'const one = await Promise.resolve(1)\nfunction two() { return 2 }\nlet three',
    ],
    ['three = one + two(); three', '3'],
    [
      "import d, { own as mine } from './own.mjs'\nimport * as all from './own.mjs'",
    ],
    [
      "import os, { EOL } from 'node:os'\n[d, mine, all.own, EOL === os.EOL]",
      "[ 'd', 7, 7, true ]",
    ],
    ["(await import('./own.mjs')).own", '7'],
    ["require('./data.json').k + require('node:path').sep.length", '2'],
    ['for await (const n of [1, 2]) console.log(n)', '1\n2\n'],
    ['export const exported = 8; exported', '8'],
    [
      'let late; setTimeout(() => { late = 9 }, 1)\nawait new Promise((go) => setTimeout(go, 50)); late',
      '9',
    ],
    ['Promise.resolve(5)', '5'],
    ["'await (1)' + \"import('x')\"", '"await (1)import(\'x\')"'],
  ]);
});

test('node cells find nothing of Node that code elsewhere does not find', async (t) => {
  const sandbox = await open(t);
  // A package of its own, which --expose-internals would hide.
  await sandbox.writeFile(
    'node_modules/internal/util.js',
    'module.exports = 1;',
  );
  const look = `[
  require('internal/util'),
  require('module').isBuiltin('internal/util'),
  require('module').builtinModules.some((name) => /internal/.test(name)),
  Object.getOwnPropertyNames(globalThis).filter((name) => /glovebox/.test(name)),
  require('inspector').url(),
]`;
  const post = `require('worker_threads').parentPort.postMessage(${look})`;
  const code = `console.log(JSON.stringify(${look}));
new (require('worker_threads').Worker)(${JSON.stringify(post)}, { eval: true })
  .on('message', (found) => { console.log(JSON.stringify(found)); go?.(); });`;
  const kernel = await sandbox.kernel({ language: 'node' });
  const cell = `let go; const gone = new Promise((resolve) => { go = resolve; });
${code}
await gone;`;
  const inKernel = await kernel.runCode(cell);
  const once = await sandbox.runCode(`let go;\n${code}`, { language: 'node' });
  const found = '[1,false,false,[],null]\n';
  assert.equal(once.stdout, found + found, once.stderr);
  assert.equal(inKernel.stdout, found + found, inKernel.stderr);
});

test('node cells read of no warning that Node has for the driver', async (t) => {
  const env = { NODE_OPTIONS: '--pending-deprecation' };
  const sandbox = await open(t);
  const kernel = await sandbox.kernel({ language: 'node', env });
  for (const code of ['let x = await 41', 'process.nextTick(() => {}); x']) {
    assert.equal((await kernel.runCode(code)).stderr, '', code);
  }
  const once = await sandbox.runCode('module.id', { language: 'node', env });
  assert.equal(once.stderr, '');
});

test('node cells fail with the name, the message and the line, and the state stays', async (t) => {
  const kernel = await (await open(t)).kernel({ language: 'node' });
  await kernel.runCode('const x = 41');
  for (const [code, name, line] of [
    ['\nthrow new TypeError("bad")', 'TypeError', 2],
    ['await null\n\nnope', 'ReferenceError', 3],
    ['let = = 1', 'SyntaxError', 1],
    ['await Promise.reject(new RangeError("r"))', 'RangeError', 1],
    [
      'setTimeout(() => { throw new URIError("u") }, 1); await new Promise(() => {})',
      'URIError',
      1,
    ],
    ['throw 5', 'number', null],
  ]) {
    const result = await kernel.runCode(code, { timeoutS: 10 });
    assert.equal(result.exitCode, 1, code);
    assert.equal(result.error.name, name, code);
    assert.equal(result.error.line, line, code);
    assert.match(result.stderr, /^Uncaught /, code);
    assert.doesNotMatch(result.stderr, /glovebox|node:vm|kernel\.cjs/, code);
  }
  const result = await kernel.runCode('console.log("out"); process.exit(3)');
  assert.equal(result.exitCode, 3);
  assert.equal(result.stdout, 'out\n');
  await runAll(kernel, [['x + 1', '42']]);
});

test('a node cell that lets nothing be added to globalThis ends no later one', async (t) => {
  const kernel = await (await open(t)).kernel({ language: 'node' });
  await runAll(kernel, [
    ['var kept = 41'],
    ['Object.preventExtensions(globalThis); 1', '1'],
    ['kept + 1', '42'],
    ['await Promise.resolve(kept + 2)', '43'],
  ]);
});

test('what node throws between cells ends nothing', async (t) => {
  const kernel = await (await open(t)).kernel({ language: 'node' });
  // A cell that takes long gets it itself.
  let { stderr } = await kernel.runCode(
    'setTimeout(() => { throw new Error("late") }, 20); Promise.reject(1); 0',
  );
  for (let cell = 0; cell < 50 && !stderr.includes('late'); cell++) {
    const result = await kernel.runCode('6 * 7');
    assert.equal(result.results[0].text, '42');
    stderr += result.stderr;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.match(stderr, /Error: late/);
});

test('node cells show values and displays live, each cell its own', async (t) => {
  const kernel = await (await open(t)).kernel({ language: 'node' });
  const seen = [];
  const first = await kernel.runCode('display({ a: 1 }); [2]', {
    onResult: (result) => seen.push(result.json),
  });
  assert.deepEqual(seen, ['{"a":1}', '[2]']);
  assert.deepEqual(
    first.results.map(({ isMainResult }) => isMainResult),
    [false, true],
  );
  const flood = await kernel.runCode(
    'for (let i = 0; i < 3000; i++) display(i)',
  );
  assert.ok(flood.results.length <= 1000);
  const next = await kernel.runCode('display(1)');
  assert.deepEqual(
    next.results.map(({ text }) => text),
    ['1'],
  );
});

test('bash cells share variables, functions, folder and options', async (t) => {
  const kernel = await (await open(t)).kernel({ language: 'bash' });
  await runAll(kernel, [
    [
      'x=1; declare -A map=([key]=value); f() { echo "f$x"; }; cd /tmp; export y=2',
    ],
    ['f; pwd; echo ${map[key]}; printenv y', 'f1\n/tmp\nvalue\n2\n'],
    ['set -u; shopt -s nullglob; alias ll=ls'],
    ['[[ $- == *u* ]] && shopt -q nullglob && echo kept', 'kept\n'],
    ['exec 5<<<five'],
    ['cat <&5', 'five\n'],
    ['cat <<END\nhere $x\nEND', 'here 1\n'],
    ['echo "$0 $#"', 'bash 0\n'],
    [
      'read() { echo mine; }; printf() { echo mine; }; eval() { :; }; f',
      'f1\n',
    ],
    ['read; IFS=x LC_ALL=C; TMOUT=1', 'mine\n'],
    ['sleep 1.2; f', 'f1\n'],
  ]);
});

test('bash cells give their exit code, and a wrong one is its own error only', async (t) => {
  const kernel = await (await open(t)).kernel({ language: 'bash' });
  await kernel.runCode('x=41');
  for (const [code, exitCode, stderr] of [
    ['false', 1, /^$/],
    ['(exit 7)', 7, /^$/],
    ['\nnosuch', 127, /^bash: line 2: nosuch: command not found\n$/],
    ['echo "open', 2, /unexpected EOF/],
    ["echo 'open", 2, /unexpected EOF/],
    ['if true; then', 2, /syntax error/],
    [')', 2, /syntax error/],
    ['$(', 2, /unexpected EOF|syntax error/],
    ['cat <<END\nnever', 0, /here-document/],
  ]) {
    const result = await kernel.runCode(code);
    assert.equal(result.exitCode, exitCode, code);
    assert.match(result.stderr, stderr, code);
    assert.equal(result.fault, null, code);
    await runAll(kernel, [['echo $((x + 1))', '42\n']]);
  }
});

test('exit of a bash cell ends the kernel with that code', async (t) => {
  const sandbox = await open(t);
  for (const [code, exitCode] of [
    ['echo bye; exit 3', 3],
    ['set -e; false; echo not', 1],
    ['exec sh -c "exit 4"', 4],
  ]) {
    const kernel = await sandbox.kernel({ language: 'bash' });
    const result = await kernel.runCode(code);
    assert.equal(result.exitCode, exitCode, code);
    assert.equal(result.fault, null, code);
    assert.equal(kernel.isAlive, false, code);
    await assert.rejects(kernel.runCode(':'), {
      code: 'ERR_SANDBOX_KERNEL_DEAD',
      message: new RegExp(`the shell ended with exit code ${exitCode}`),
    });
  }
  const kernel = await sandbox.kernel({ language: 'bash' });
  const killed = await kernel.runCode('kill -SEGV $$; sleep 5');
  assert.equal(killed.exitCode, -1);
  assert.equal(killed.signal, 'SIGSEGV');
  assert.equal(killed.fault.type, 'killed');
});

test('P01 bytes and P21 names of the workspace harm no kernel', async (t) => {
  const sandbox = await open(t);
  for (const name of ['net', 'fs', 'vm', 'util']) {
    await sandbox.writeFile(`${name}.js`, 'throw new Error("shadow")');
    await sandbox.writeFile(`node_modules/${name}/index.js`, 'throw 1');
  }
  for (const name of ['kernel', 'supervisor', 'channel', 'ctypes', 'termios']) {
    await sandbox.writeFile(`${name}.py`, 'raise SystemExit("shadow")');
  }
  const cells = {
    python: "print('naïve 🍉')",
    node: "console.log('naïve 🍉')",
    bash: "echo 'naïve 🍉'",
  };
  for (const [language, code] of Object.entries(cells)) {
    const kernel = await sandbox.kernel({ language });
    await runAll(kernel, [[code, 'naïve 🍉\n']]);
    if (language === 'python') await kernel.rollback(await kernel.checkpoint());
    await kernel.close();
  }
});
