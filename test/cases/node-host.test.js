// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rows I of the public cases: the Node process around the sandbox, and
// JavaScript in it.

const assert = require('node:assert/strict');
const { glovebox, open, test } = require('../helpers/harness.js');
const { askScript, startScript } = require('../helpers/host-script.js');

// ---- P31 -------------------------------------------------------------------

test('P31 thirty calls at the same time on one sandbox do not meet', async (t) => {
  const sandbox = await open(t, { env: { K: 'v' } });
  const results = await Promise.all(
    [...Array(30).keys()].map((i) =>
      sandbox.runCode(
        `import os; open('f${i}', 'w').write('x'); print(${i}, os.environ['K'])`,
      ),
    ),
  );
  for (const [i, result] of results.entries()) {
    assert.equal(result.stdout, `${i} v\n`);
    assert.equal(result.stderr, '');
    assert.equal(result.exitCode, 0);
    assert.equal(result.fault, null);
    const odd = result.files.filter(({ path }) => !/^f\d+$/.test(path));
    assert.deepEqual(odd, []);
    // Its own is among them, whatever others wrote meanwhile.
    assert.ok(result.files.some(({ path }) => path === `f${i}`));
  }
  const listed = await sandbox.listFiles();
  assert.deepEqual(
    listed.map(({ path }) => path).sort(),
    [...Array(30).keys()].map((i) => `f${i}`).sort(),
  );
});

// ---- P32 -------------------------------------------------------------------

for (const [how, title] of Object.entries({
  both: 'after close() of Kernel and session',
  session: "after the session's close(), with the Kernel's forgotten",
  neither: 'with both forgotten: an idle session keeps no process alive',
})) {
  test(`P32 the process ends by itself ${title}`, async (t) => {
    const script = startScript(t, 'ends-by-itself.js', { args: [how] });
    const { before, after } = JSON.parse(await script.line());
    const start = performance.now();
    const { exitCode, stderr } = await script.ended;
    const took = performance.now() - start;
    assert.equal(exitCode, 0);
    assert.doesNotMatch(stderr, /Error/);
    assert.ok(took < 5000, `${took} ms`);
    assert.deepEqual(after, before);
  });
}

test('P32 two hundred sessions leave no descriptor and no process', async (t) => {
  const { before, after } = await askScript(t, 'many-sessions.js');
  assert.ok(before.descendants >= 2, 'keeper and launcher are counted');
  const more = (what) => after[what] - before[what];
  assert.ok(Math.abs(more('descriptors')) <= 2, JSON.stringify(after));
  // After many calls more boxes wait: up to eight of each of two kinds, an init
  // and a payload. One process of each session would be two hundred.
  assert.ok(more('descendants') <= 32, JSON.stringify(after));
});

// ---- P33 -------------------------------------------------------------------
// That the types compile in each module mode is tested in test/types.

test('P33 ES modules import by name, and get what require() gets', async (t) => {
  const answer = await askScript(t, 'named-imports.mjs');
  const { types, names, requiredNames, isSame, text } = answer;
  assert.deepEqual(types, Array(4).fill('function'));
  assert.deepEqual(names, [...requiredNames, 'default'].sort());
  assert.equal(isSame, true);
  assert.equal(text, '42');
});

test('P33 an unknown language is refused by its name', async (t) => {
  const sandbox = await open(t);
  const refusal = {
    name: 'SandboxError',
    code: 'ERR_SANDBOX_INVALID_OPTION',
    option: 'language',
    message:
      'Expected "python", "bash" or "node", for language, received "ruby" (string)',
  };
  await assert.rejects(sandbox.runCode('1', { language: 'ruby' }), refusal);
  await assert.rejects(glovebox.runCode('1', { language: 'ruby' }), refusal);
});

// ---- P34 -------------------------------------------------------------------

const scripts = {
  'top-level await': {
    code: 'const v = await Promise.resolve(41); console.log(v + 1)',
    stdout: '42\n',
  },
  import: {
    code: "import os from 'node:os'; console.log(typeof os.cpus)",
    stdout: 'function\n',
  },
  require: {
    code: "const p = require('path'); console.log(p.basename('/a/b'))",
    stdout: 'b\n',
  },
  'late output': {
    code: "setTimeout(() => console.log('late'), 200); console.log('first')",
    stdout: 'first\nlate\n',
  },
  'much output': {
    code: "process.stdout.write('x'.repeat(3 << 20))",
    stdout: 'x'.repeat(3145728),
  },
};

for (const [what, { code, stdout }] of Object.entries(scripts)) {
  test(`P34 JavaScript has ${what}`, async (t) => {
    const sandbox = await open(t);
    const result = await sandbox.runCode(code, { language: 'node' });
    assert.equal(result.stderr, '');
    assert.equal(result.stdout.length, stdout.length);
    assert.equal(result.stdout, stdout);
    assert.equal(result.exitCode, 0);
  });
}

test('P34 a rejected promise ends JavaScript with exit code 1', async (t) => {
  const sandbox = await open(t);
  const result = await sandbox.runCode("Promise.reject(new Error('boom'))", {
    language: 'node',
  });
  assert.equal(result.exitCode, 1);
  assert.match(result.stderr, /Error: boom/);
  assert.equal(result.fault, null);
});

test('JavaScript reports its exceptions, exit codes and files like other languages', async (t) => {
  const sandbox = await open(t);
  const run = (code) => sandbox.runCode(code, { language: 'node' });
  const thrown = await run("\nthrow new TypeError('no')");
  assert.equal(thrown.exitCode, 1);
  assert.match(thrown.stderr, /TypeError: no/);
  assert.equal(thrown.error.name, 'TypeError');
  assert.equal(thrown.error.message, 'no');
  assert.equal(thrown.error.line, 2);

  const exit = await run("console.log('out'); process.exit(7)");
  assert.equal(exit.exitCode, 7);
  assert.equal(exit.stdout, 'out\n');
  assert.equal(exit.error, null);

  const file = await run("require('fs').writeFileSync('f', process.cwd())");
  assert.deepEqual(file.files, [{ path: 'f', size: 10, change: 'created' }]);
  assert.equal(await sandbox.readFile('f', 'utf8'), '/workspace');
});
