// SPDX-License-Identifier: Apache-2.0
'use strict';

// `result.files` in a workspace that is large enough to be watched from one call
// to the next.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const path = require('node:path');
const { createInterface } = require('node:readline');
const { open, packagedPython, skip, test } = require('../helpers/harness.js');

// More than the engine walks anyway.
const fillers = 600;

/** A sandbox whose workspace is watched by now. */
async function openWatched(t) {
  const sandbox = await open(t);
  fs.mkdirSync(path.join(sandbox.workspace, 'f'));
  for (let i = 0; i < fillers; i++) {
    fs.writeFileSync(path.join(sandbox.workspace, 'f', String(i)), 'x');
  }
  for (let i = 0; i < 2; i++) await sandbox.run(['true']);
  return sandbox;
}

const names = ({ files }) => files.map((file) => file.path);

function told({ files, deletedFiles }) {
  return {
    files: files.map(({ path: name, change }) => [name, change]),
    deleted: deletedFiles,
  };
}

async function shell(sandbox, code) {
  const result = await sandbox.run(['sh', '-c', code]);
  assert.equal(result.exitCode, 0, result.stderr);
  return result;
}

test('P22 call after call is told what it changed, and only that', async (t) => {
  const sandbox = await openWatched(t);
  const expectations = [
    ['echo y > f/1; echo new > new; rm f/2', ['f/1', 'new'], ['f/2']],
    ['cat f/* new > /dev/null', [], []],
    ['touch -d @0 f/3', ['f/3'], []],
    ['mv f/4 moved', ['moved'], ['f/4']],
    ['mkdir d && echo > d/a', ['d/a'], []],
    ['echo >> d/a', ['d/a'], []],
    ['mv d e', ['e/a'], ['d/a']],
    ['ln f/5 g && echo more >> g && rm g', ['f/5'], []],
    ['rm -r e; chmod 600 f/6', ['f/6'], ['e/a']],
    ['ln f/7 g', ['f/7', 'g'], []],
    ['echo more >> g', ['f/7', 'g'], []],
    ['true', [], []],
  ];
  for (const [code, changed, deleted] of expectations) {
    const result = await shell(sandbox, code);
    assert.deepEqual([names(result), result.deletedFiles], [changed, deleted]);
  }
});

test('P22 what the host writes between calls is not told of them', async (t) => {
  const sandbox = await openWatched(t);
  for (const name of ['f/1', 'by-host', 'h/of/host']) {
    await sandbox.writeFile(name, 'host');
    await sandbox.writeFile(name, 'again');
    assert.deepEqual(names(await shell(sandbox, 'cat f/1')), []);
  }
  await sandbox.rename('f/1', 'f/one');
  await sandbox.rm('f/2');
  const result = await shell(sandbox, 'echo x > by-host');
  assert.deepEqual(told(result), {
    files: [['by-host', 'modified']],
    deleted: [],
  });
});

test('P22 calls at the same time tell what each other changed, as ever', async (t) => {
  const sandbox = await openWatched(t);
  const wait = 'touch up; until [ -e go ]; do sleep 0.01; done';
  const first = sandbox.run(['sh', '-c', wait]);
  await sandbox.run(['sh', '-c', 'until [ -e up ]; do sleep 0.01; done']);
  const second = await sandbox.run(['sh', '-c', 'echo x > f/7; touch go']);
  assert.ok(names(second).includes('f/7'));
  assert.deepEqual(names(await first), ['f/7', 'go', 'up']);
  const none = await sandbox.run(['true']);
  assert.deepEqual(names(none), []);
});

test('P22 what a kernel writes through a mapping is told of its cell', async (t) => {
  const sandbox = await openWatched(t);
  const kernel = await sandbox.kernel();
  const opened = await kernel.runCode(`import mmap
f = open('f/1', 'r+b')
m = mmap.mmap(f.fileno(), 1)`);
  assert.deepEqual(names(opened), []);
  const written = await kernel.runCode("m[0:1] = b'k'");
  assert.deepEqual(names(written), ['f/1']);
  // Beside the kernel, and after it, a call is told only what it did.
  await kernel.runCode("m[0:1] = b'l'; f.flush()");
  assert.deepEqual(names(await sandbox.run(['true'])), []);
  await kernel.runCode("import os; os.sync(); m[0:1] = b'n'");
  await kernel.close();
  assert.deepEqual(names(await sandbox.run(['cat', 'f/1'])), []);
});

test('P22 cells are told what they changed, also without opening a file', async (t) => {
  const sandbox = await open(t);
  await sandbox.writeFile('a', 'a');
  await sandbox.writeFile('d/b', 'b');
  const kernel = await sandbox.kernel();
  const told = async (code) => {
    const { files, stderr } = await kernel.runCode(code);
    assert.equal(stderr, '', code);
    return files.map(({ path: name, change }) => `${change} ${name}`);
  };
  assert.deepEqual(await told('import os'), []);
  for (const [code, changes] of [
    ["os.rename('a', 'c')", ['created c']],
    ['1', []],
    ["os.truncate('c', 5)", ['modified c']],
    ["os.chmod('c', 0o600)", ['modified c']],
    ["os.utime('d/b', (1, 1))", ['modified d/b']],
    ["os.mkdir('e'); os.link('c', 'e/c')", ['modified c', 'created e/c']],
    ['1', []],
    ["os.truncate('e/c', 6)", ['modified c', 'modified e/c']],
    ["os.unlink('c'); os.unlink('e/c')", []],
    ["os.rename('d', 'g')", ['created g/b']],
    ['1', []],
    ["open('g/b', 'w').close(); os.listdir('.')", ['modified g/b']],
    ['1', []],
    ["open('new', 'w').close()", ['created new']],
    ["os.remove('new')", []],
    ['1', []],
  ]) {
    assert.deepEqual((await told(code)).sort(), changes.sort(), code);
  }
  // Nor of what others did meanwhile.
  await sandbox.writeFile('host', 'host');
  assert.deepEqual(await told('1'), []);
  await kernel.close();
});

test('P22 a call that is stopped is told what it wrote through a mapping', async (t) => {
  const sandbox = await openWatched(t);
  const result = await sandbox.runCode(
    `import mmap
f = open('f/1', 'r+b')
m = mmap.mmap(f.fileno(), 1)
f.close()
m[0:1] = b'k'
while True: pass`,
    { timeoutS: 2 },
  );
  assert.equal(result.fault?.type, 'timeout');
  assert.deepEqual(names(result), ['f/1']);
  assert.deepEqual(names(await sandbox.run(['true'])), []);
});

test('P22 a restore between two calls is no change of the second', async (t) => {
  const sandbox = await openWatched(t);
  const archive = `${sandbox.workspace}.tar.gz`;
  t.after(() => fs.rmSync(archive, { force: true }));
  await sandbox.snapshot(archive);
  await sandbox.restore(archive);
  assert.deepEqual(told(await sandbox.run(['true'])), {
    files: [],
    deleted: [],
  });
  const after = await sandbox.run(['sh', '-c', 'echo y > f/3; rm f/4']);
  assert.deepEqual(told(after), {
    files: [['f/3', 'modified']],
    deleted: ['f/4'],
  });
});

// ---- Without ---------------------------------------------------------------

/** A function that says how often the folders were opened since its last call. */
async function watchLooks(t, folders) {
  const script = path.join(__dirname, 'fixtures', 'looks-into.py');
  const watcher = spawn(packagedPython, [script, ...folders], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  t.after(() => watcher.kill('SIGKILL'));
  const lines = createInterface({ input: watcher.stdout });
  await once(lines, 'line');
  return async () => {
    watcher.stdin.write('\n');
    const [line] = await once(lines, 'line');
    return Number(line);
  };
}

test('without trackFiles no call looks into the workspace, whatever is there', async (t) => {
  if (!packagedPython) return skip(t, 'there is no python to watch with');
  for (const trackFiles of [true, false]) {
    // diskMb counts what is there, whether or not it is tracked.
    const sandbox = await open(t, { trackFiles, diskMb: null });
    const folders = [sandbox.workspace, path.join(sandbox.workspace, 'f')];
    fs.mkdirSync(folders[1]);
    for (let i = 0; i < fillers; i++) {
      fs.writeFileSync(path.join(folders[1], String(i)), 'x');
    }
    const looks = await watchLooks(t, folders);
    await sandbox.run(['true']);
    assert.equal((await looks()) > 0, trackFiles, 'run()');
    await sandbox.runCode("open('f/new', 'w')");
    await sandbox.spawn(['touch', 'f/spawned']).wait();
    const kernel = await sandbox.kernel();
    await kernel.runCode("open('f/cell', 'w')");
    await kernel.close();
    assert.equal((await looks()) > 0, trackFiles, 'all others');
  }
});
