// SPDX-License-Identifier: Apache-2.0
'use strict';

// What `watch()` tells of a workspace whose content is a box's.

const assert = require('node:assert/strict');
const {
  canary,
  open,
  soak,
  test,
  timeScale,
} = require('../helpers/harness.js');

test('a watch tells what the code and the host do, in folders made meanwhile too', async (t) => {
  const sandbox = await open(t);
  await sandbox.writeFile('a/f', 'x');
  const watcher = await sandbox.watch();
  await sandbox.runCode('echo y >> a/f; mkdir -p b/c; echo z > b/c/g; rm a/f', {
    language: 'bash',
  });
  await sandbox.run(['ln', '-s', canary.dir, 'link']);
  await sandbox.writeFile('last', 'x');
  const seen = new Set();
  for await (const { change, path: name } of watcher) {
    seen.add(`${change} ${name}`);
    if (name === 'last') break;
  }
  for (const wanted of [
    'modified a/f',
    'created b',
    'created b/c',
    'created b/c/g',
    'deleted a/f',
    'created link',
    'created last',
  ]) {
    assert.ok(seen.has(wanted), `${wanted}, in ${[...seen].join(', ')}`);
  }
  assert.ok(![...seen].some((one) => /secret|glovebox/.test(one)));
  assert.deepEqual(await watcher.next(), { value: undefined, done: true });
});

test('next() of a watch may be called again while it waits', async (t) => {
  const sandbox = await open(t);
  const watcher = await sandbox.watch();
  const waiting = [watcher.next(), watcher.next(), watcher.next()];
  for (const name of ['a', 'b']) {
    await sandbox.mkdir(name);
    const { value } = await waiting.shift();
    assert.deepEqual(value, {
      change: 'created',
      path: name,
      type: 'directory',
    });
  }
  await watcher.close();
  assert.deepEqual(await waiting.shift(), { value: undefined, done: true });
});

test('a watch of a folder ends with it, and one that is not taken loses changes and says so', async (t) => {
  const sandbox = await open(t);
  await sandbox.mkdir('d');
  const short = await sandbox.watch('d');
  const flooded = await sandbox.watch();
  await sandbox.runCode(
    "for i in range(9000): open(f'f{i % 7}', 'w').write('x')",
    { timeoutS: 60 * timeScale },
  );
  await sandbox.rm('d', { recursive: true });
  for await (const change of short) assert.fail(JSON.stringify(change));
  let lost = false;
  for await (const { change } of flooded) {
    lost = change === 'lost';
    if (lost) break;
  }
  assert.ok(lost);
});

test('a watch ends with its folder, also when the last events are lost', async (t) => {
  const sandbox = await open(t);
  // More events than the kernel keeps are those of the second.
  for (const count of [3, 20_000]) {
    await sandbox.runCode(
      `import os\nos.mkdir("d")\nfor i in range(${count}): open(f"d/{i}", "w")`,
      { timeoutS: 60 * timeScale },
    );
    const watcher = await sandbox.watch('d');
    await sandbox.rm('d', { recursive: true });
    let told = 0;
    for await (const { change } of watcher) {
      assert.ok(change === 'deleted' || change === 'lost');
      told++;
    }
    assert.ok(told >= 3);
  }
});

test('a watch ends when its folder moves, be it with one that it lies in', async (t) => {
  const sandbox = await open(t);
  for (const [watched, from, to, now] of [
    ['a', 'a', 'new-a', 'new-a'],
    ['b/c/d', 'b/c/d', 'b/d', 'b/d'],
    ['e/f', 'e', 'new-e', 'new-e/f'],
    ['g/h/i', 'g/h', 'new-h', 'new-h/i'],
  ]) {
    await sandbox.mkdir(watched);
    const watcher = await sandbox.watch(watched);
    await sandbox.writeFile(`${watched}/before`, '');
    await sandbox.run(['mv', from, to]);
    await sandbox.writeFile(`${now}/after`, '');
    const told = [];
    for await (const { change, path } of watcher) {
      told.push(`${change} ${path}`);
      if (path.endsWith('after')) break;
    }
    assert.deepEqual(told, [`created ${watched}/before`], from);
  }
});

test('a folder whose coming was lost is watched all the same', async (t) => {
  const sandbox = await open(t);
  const watcher = await sandbox.watch();
  await sandbox.runCode(
    'import os\nfor i in range(9000): open(f"f{i % 7}", "w").write("x")\nos.mkdir("new")',
    { timeoutS: 60 * timeScale },
  );
  let change;
  while (change?.change !== 'lost') change = (await watcher.next()).value;
  await sandbox.writeFile('new/f', '');
  while (change.path !== 'new/f') change = (await watcher.next()).value;
  assert.equal(change.change, 'created');
});

test('a large folder that comes and goes fills no memory of who watches', async (t) => {
  const sandbox = await open(t, { timeoutS: 60 * timeScale });
  await sandbox.mkdir('in');
  const watcher = await sandbox.watch('in');
  const result = await sandbox.runCode(`
import os
os.makedirs("out/d")
for i in range(4000):
    open("out/d/" + "x" * 200 + str(i), "w").close()
for _ in range(60):
    os.rename("out/d", "in/d")
    os.rename("in/d", "out/d")
os.rename("out/d", "in/d")
`);
  assert.equal(result.exitCode, 0, result.stderr);
  // All of it would be 140 MB.
  const before = process.memoryUsage.rss();
  assert.deepEqual((await watcher.next()).value, {
    change: 'created',
    path: 'in/d',
    type: 'directory',
  });
  assert.ok(process.memoryUsage.rss() - before < 60e6);
  // What comes after is told all the same, in the folder that came, too.
  await sandbox.writeFile('in/d/last', '');
  const told = [];
  for await (const { change, path } of watcher) {
    if (!path.includes('xxx')) told.push(change);
    if (path === 'in/d/last') break;
  }
  assert.ok(
    told.includes('lost') || told.filter((c) => c === 'deleted').length === 60,
    told.join(),
  );
});

test('a watch has bounds', async (t) => {
  if (!soak) return t.skip('only with GLOVEBOX_SOAK=1');
  const sandbox = await open(t);
  const result = await sandbox.runCode(
    "import os\nfor i in range(8200): os.mkdir(f'd{i}')",
  );
  assert.equal(result.exitCode, 0, result.stderr);
  await assert.rejects(sandbox.watch(), { code: 'ERR_SANDBOX_TOO_LARGE' });
  const one = await sandbox.watch('d1');
  await one.close();
  await one.close();
  assert.deepEqual(await one.next(), { value: undefined, done: true });
});
