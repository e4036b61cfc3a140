// SPDX-License-Identifier: Apache-2.0
'use strict';

// Group WS of the hostile cases: the host's calls on files of a workspace whose
// content is a box's, and changes while they look at it.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const path = require('node:path');
const { Readable } = require('node:stream');
const { pipeline } = require('node:stream/promises');
const {
  canary,
  eventually,
  glovebox,
  isRoot,
  makeFolder,
  open,
  outside,
  packagedPython,
  skip,
  soak,
  test,
  timeScale,
} = require('../helpers/harness.js');

/** Every call that takes a path, by its name. */
function callsOn(sandbox, name) {
  return {
    readFile: () => sandbox.readFile(name),
    writeFile: () => sandbox.writeFile(name, 'x'),
    writeStream: () => pipeline(['x'], sandbox.createWriteStream(name)),
    readStream: () => sandbox.createReadStream(name).toArray(),
    listFiles: () => sandbox.listFiles(name),
    listAll: () => sandbox.listFiles(name, { all: true }),
    stat: () => sandbox.stat(name),
    exists: () => sandbox.exists(name),
    mkdir: () => sandbox.mkdir(name),
    renameFrom: () => sandbox.rename(name, 'renamed'),
    renameTo: () => sandbox.rename('there', name),
    rm: () => sandbox.rm(name, { recursive: true }),
    watch: () => sandbox.watch(name),
  };
}

async function assertAllRefused(sandbox, name, codes) {
  for (const [call, start] of Object.entries(callsOn(sandbox, name))) {
    await assert.rejects(
      async () => start(),
      (error) => {
        assert.ok(error instanceof glovebox.SandboxError, `${call}: ${error}`);
        const found = error.code.replace('ERR_SANDBOX_', '');
        assert.ok(codes.includes(found), `${call}: ${error.stack}`);
        return true;
      },
      `${call}(${JSON.stringify(name).slice(0, 40)})`,
    );
  }
}

test('WS-01 no call takes a path that is absolute, climbs, or names no file', async (t) => {
  const sandbox = await open(t);
  await sandbox.writeFile('there', 'x');
  const wrong = [
    '../x',
    'a/../../x',
    '/etc/passwd',
    'a//../../../x',
    '',
    '.',
    './',
    'a/',
    'a\0b',
    'x'.repeat(5000),
    'x'.repeat(256),
  ];
  for (const name of wrong) {
    await assertAllRefused(sandbox, name, ['PATH']);
    await assertAllRefused(sandbox, Buffer.from(name), ['PATH']);
  }
  for (const name of [undefined, 5, null, ['a'], {}]) {
    await assert.rejects(sandbox.stat(name), {
      code: 'ERR_SANDBOX_INVALID_OPTION',
    });
  }
  for (const whole of ['', '.', '/workspace']) {
    for (const method of ['listFiles', 'watch']) {
      await assert.rejects(sandbox[method](whole), {
        code: 'ERR_SANDBOX_PATH',
        message: / is not a path .*: leave it out to mean all of it$/,
      });
    }
  }
  assert.deepEqual(
    (await sandbox.listFiles()).map((file) => file.path),
    ['there'],
  );
});

test('WS-02 no call goes through a symlink that the code planted', async (t) => {
  const sandbox = await open(t);
  await sandbox.writeFile('there', 'x');
  const planted = await sandbox.runCode(
    `mkdir d; ln -s ${canary.dir} d/esc; ln -s . self; ln -s d/esc twice`,
    { language: 'bash' },
  );
  assert.equal(planted.exitCode, 0);
  for (const name of [
    'd/esc/secret.txt',
    'd/esc/new',
    'twice/new',
    'self/a/b',
  ]) {
    await assertAllRefused(sandbox, name, ['PATH']);
  }
  for (const call of ['listFiles', 'watch']) {
    await assert.rejects(callsOn(sandbox, 'd/esc')[call], {
      code: 'ERR_SANDBOX_PATH',
    });
  }
  // The twin: the same path leads there for who follows links.
  const followed = path.join(sandbox.workspace, 'd/esc/secret.txt');
  assert.equal(fs.readFileSync(followed, 'utf8'), canary.secret);
  // The link itself is a thing like others.
  assert.equal((await sandbox.stat('d/esc')).type, 'symlink');
  await sandbox.rename('d/esc', 'moved');
  await sandbox.rm('moved', { recursive: true });
  assert.equal(await sandbox.exists('moved'), false);
});

const swapper = `
import ctypes, os
libc = ctypes.CDLL(None)
os.makedirs('d/below', exist_ok=True)
open('d/file', 'w').write('box'); open('d/below/file', 'w').write('box')
os.symlink('${canary.dir}', 'link')
print('up', flush=True)
while True:
    for i in range(1000): libc.renameat2(-100, b'd', -100, b'link', 2)
`;

test('WS-04 WS-17 a folder that turns into a symlink and back leads no call to the canary', async (t) => {
  const sandbox = await open(t);
  await sandbox.writeFile('there', 'x');
  let begin;
  const begun = new Promise((resolve) => {
    begin = resolve;
  });
  const swapping = sandbox.runCode(swapper, {
    timeoutS: 120 * timeScale,
    onStdout: () => begin(),
  });
  swapping.catch(() => {}); // It ends with close().
  await begun;
  const reached = { naive: 0, ours: 0 };
  const rounds = soak ? 10_000 : 300;
  for (let i = 0; i < rounds; i++) {
    const calls = [
      sandbox.readFile('d/secret.txt').then((bytes) => {
        if (String(bytes) === canary.secret) reached.ours++;
      }),
      sandbox.readFile('d/file').then((bytes) => {
        assert.equal(String(bytes), 'box');
      }),
      sandbox.writeFile('d/file', 'box'),
      sandbox.writeFile(`d/new/${i % 5}`, 'x'),
      sandbox.listFiles('d', { all: true }).then((files) => {
        assert.ok(files.every((file) => !file.path.includes('secret')));
      }),
      sandbox.listFiles(),
      sandbox.mkdir('d/made'),
      sandbox.rename('d/below/file', 'd/below/other'),
      sandbox.rm('d/new', { recursive: true, force: true }),
      sandbox.stat('d/secret.txt').then(() => reached.ours++),
    ];
    await Promise.allSettled(calls);
    try {
      fs.readFileSync(path.join(sandbox.workspace, 'd/secret.txt'));
      reached.naive++;
    } catch {
      // It is the folder just now.
    }
  }
  await sandbox.close();
  await assert.rejects(swapping, { code: 'ERR_SANDBOX_CLOSED' });
  assert.equal(reached.ours, 0);
  assert.ok(reached.naive > 0, 'who follows links gets there');
});

test('WS-05 a fifo, a socket and a symlink are no files, and nothing waits for them', async (t) => {
  const sandbox = await open(t);
  await sandbox.writeFile('there', 'x');
  const made = await sandbox.runCode(
    "import os, socket; os.mkfifo('fifo'); os.symlink('there', 'link')\n" +
      "socket.socket(socket.AF_UNIX).bind('socket')",
  );
  assert.equal(made.exitCode, 0, made.stderr);
  const begin = performance.now();
  for (const name of ['fifo', 'socket', 'link']) {
    for (const call of ['readFile', 'writeFile', 'readStream', 'writeStream']) {
      await assert.rejects(callsOn(sandbox, name)[call], {
        code: 'ERR_SANDBOX_NOT_REGULAR',
      });
    }
    await assert.rejects(sandbox.listFiles(name), /listFiles/);
    await assert.rejects(sandbox.watch(name), /watch/);
  }
  assert.deepEqual(
    (await sandbox.listFiles()).map((file) => file.path),
    ['there'],
  );
  assert.deepEqual(
    (await sandbox.listFiles({ all: true })).map(({ path: name, type }) => [
      name,
      type,
    ]),
    [
      ['fifo', 'other'],
      ['link', 'symlink'],
      ['socket', 'other'],
      ['there', 'file'],
    ],
  );
  const took = performance.now() - begin;
  assert.ok(took < 2000 * timeScale, `${took} ms`);
});

test('WS-07 code cannot take a lease, and one that is held makes calls fail at once', async (t) => {
  const sandbox = await open(t);
  await sandbox.writeFile('f', 'x');
  const whole = path.join(makeFolder(t), 'whole.tgz');
  await sandbox.snapshot(whole);
  const lease = `import fcntl, sys
f = open(sys.argv[1], 'r+')
fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)
import signal; signal.signal(signal.SIGIO, signal.SIG_IGN)
print('held', flush=True); sys.stdin.read()`;
  const inside = await sandbox.run(['python3', '-c', lease, 'f']);
  assert.match(inside.stderr, /Permission/);

  const file = path.join(sandbox.workspace, 'f');
  const holder = spawn(packagedPython ?? 'python3', ['-c', lease, file], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  t.after(() => holder.kill('SIGKILL'));
  await once(holder.stdout, 'data');
  const begin = performance.now();
  const archive = path.join(makeFolder(t), 'a.tgz');
  for (const call of [
    () => sandbox.readFile('f'),
    () => sandbox.createReadStream('f').toArray(),
    () => sandbox.snapshot(archive),
    () => sandbox.restore(file),
  ]) {
    await assert.rejects(call, { code: 'ERR_SANDBOX_BUSY' });
  }
  // Another file takes its place, and so does a whole workspace.
  await sandbox.restore(whole);
  assert.equal(await sandbox.readFile('f', 'utf8'), 'x');
  await sandbox.writeFile('f', 'new');
  assert.equal(await sandbox.readFile('f', 'utf8'), 'new');
  const took = performance.now() - begin;
  assert.ok(took < 5000 * timeScale, `${took} ms`);
  holder.stdin.end();
  await once(holder, 'exit');
});

test('WS-08 locks that the code holds hold up nobody', async (t) => {
  const sandbox = await open(t);
  await sandbox.writeFile('f', 'x');
  const locking = sandbox.runCode(
    `import fcntl, time
f = open('f', 'r+'); fcntl.flock(f, fcntl.LOCK_EX); fcntl.lockf(f, fcntl.LOCK_EX)
print('held', flush=True); time.sleep(60)`,
    {
      onStdout: () => held(),
    },
  );
  locking.catch(() => {}); // It ends with close().
  let held;
  await new Promise((resolve) => {
    held = resolve;
  });
  assert.equal(await sandbox.readFile('f', 'utf8'), 'x');
  await sandbox.writeFile('f', 'y');
  await sandbox.rename('f', 'g');
  await sandbox.rm('g');
  await sandbox.close();
  await assert.rejects(locking, { code: 'ERR_SANDBOX_CLOSED' });
});

test('WS-10 a hard link leads no write out, and the code cannot make one in', async (t) => {
  const folder = makeFolder(t);
  const workspace = path.join(folder, 'workspace');
  fs.mkdirSync(workspace);
  const host = path.join(folder, 'of-the-host');
  fs.writeFileSync(host, 'host');
  fs.linkSync(host, path.join(workspace, 'a'));
  fs.linkSync(host, path.join(workspace, 'b'));
  const sandbox = await open(t, { workspace });
  await sandbox.writeFile('a', 'new');
  await pipeline(['new'], sandbox.createWriteStream('b'));
  assert.equal(fs.readFileSync(host, 'utf8'), 'host');
  assert.equal(await sandbox.readFile('b', 'utf8'), 'new');

  const result = await sandbox.runCode(
    "import os, shutil; os.link(shutil.which('env'), 'c')",
  );
  assert.match(result.error?.message ?? '', /cross-device|not permitted/i);
});

test('WS-10 code links no file of a mount into the workspace, nor the other way', async (t) => {
  const folder = makeFolder(t);
  fs.chmodSync(folder, 0o755);
  const source = path.join(folder, 'source');
  fs.mkdirSync(source);
  const file = path.join(source, 'file');
  fs.writeFileSync(file, 'of the mount');
  if (isRoot) for (const it of [source, file]) fs.chownSync(it, 65000, 65000);
  const sandbox = await open(t, { mounts: { [source]: ['/data', 'rw'] } });
  await sandbox.writeFile('own', 'x');
  const result = await sandbox.runCode(`import os
for pair in ('/data/file', 'in'), ('own', '/data/out'), ('/data/file', '/data/same'):
    try: os.link(*pair); print('made')
    except OSError as error: print(error.errno)`);
  // EXDEV, though it is one file system; within a mount there is no border.
  assert.equal(result.stdout, '18\n18\nmade\n', result.stderr);
  const twin = path.join(sandbox.workspace, 'twin');
  fs.linkSync(file, twin);
  assert.equal(fs.statSync(twin).ino, fs.statSync(file).ino);
});

test('WS-11 a host that is killed in the middle of a write leaves the old content', async (t) => {
  const workspace = makeFolder(t);
  fs.writeFileSync(path.join(workspace, 'f'), 'old');
  const script = `
    const { Sandbox } = require(${JSON.stringify(path.join(__dirname, '../..'))});
    (async () => {
      const sandbox = await new Sandbox({ workspace: process.argv[1] }).open();
      let pieces = 0;
      await sandbox.writeFile('f', (async function* () {
        for (;;) {
          yield Buffer.alloc(2 ** 20, 'n');
          if (++pieces === 20) console.log('writing');
        }
      })());
    })();`;
  const host = spawn(process.execPath, ['-e', script, workspace], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(host.stdout, 'data');
  host.kill('SIGKILL');
  await once(host, 'exit');
  assert.equal(fs.readFileSync(path.join(workspace, 'f'), 'utf8'), 'old');
  const sandbox = await open(t, { workspace });
  assert.deepEqual(
    (await sandbox.listFiles()).map((file) => file.path),
    ['f'],
  );
});

const oddNames = [
  'new\nline',
  Buffer.from([0xff, 0xfe]),
  Buffer.from([0xff, 0xfd]), // the same text as the one before
  '\u202egnp.exe',
  '-rf',
  'con',
  '.kern-env.x',
  'x'.repeat(255),
  'trailing ',
  ' ',
  'é',
  'e\u0301',
  '\x01\x1b[31m',
  '__proto__',
  'back\\slash',
  '\ufffd',
];

test('WS-13 names are bytes: each comes back, opens, moves and goes', async (t) => {
  const sandbox = await open(t);
  for (const name of oddNames) await sandbox.writeFile(name, 'x');
  const bytesOf = (file) => file.pathBuffer ?? Buffer.from(file.path);
  const hex = (list) => list.map((one) => one.toString('hex')).sort();
  const listed = await sandbox.listFiles();
  const expected = hex(oddNames.map((name) => Buffer.from(name)));
  assert.deepEqual(hex(listed.map(bytesOf)), expected);
  assert.equal(listed.filter((file) => file.pathBuffer).length, 2);
  assert.ok(!JSON.stringify(listed).includes('pathBuffer'));

  const result = await sandbox.runCode(
    "import os\nfor n in os.listdir(b'.'): open(n, 'a').write('y')",
  );
  assert.deepEqual(hex(result.files.map(bytesOf)), expected);
  assert.ok(result.files.every(({ size }) => size === 2));
  for (const file of listed) {
    const name = bytesOf(file);
    assert.equal(await sandbox.readFile(name, 'utf8'), 'xy');
    const next = Buffer.concat([Buffer.from('d/'), name]);
    await sandbox.rename(name, next);
    assert.equal((await sandbox.stat(next)).size, 2);
    await sandbox.rm(next);
  }
  assert.deepEqual(await sandbox.listFiles(), []);

  for (const name of oddNames) await sandbox.writeFile(name, 'x');
  const { deletedFiles, deletedFileBuffers } = await sandbox.runCode(
    "import os\nfor n in os.listdir(b'.'):\n  if n != b'd': os.remove(n)",
  );
  assert.deepEqual(hex(deletedFileBuffers), expected);
  assert.deepEqual(deletedFiles, deletedFileBuffers.map(String));
  assert.deepEqual(await sandbox.listFiles(), []);
});

test('WS-14 a tree deeper than any path is listed as far as paths go, and all of it goes', async (t) => {
  const sandbox = await open(t);
  const made = await sandbox.runCode(
    "import os\nfor i in range(3000):\n  os.mkdir('d' * 200); os.chdir('d' * 200)\n" +
      "open('f', 'w').write('x')",
    { timeoutS: 30 * timeScale },
  );
  assert.equal(made.exitCode, 0, made.stderr);
  assert.deepEqual(await sandbox.listFiles(), []);
  const all = await sandbox.listFiles({ all: true });
  assert.equal(all.length, 20);
  await assert.rejects(
    sandbox.snapshot(path.join(makeFolder(t), 'a.tgz')),
    (error) => error.code === 'ERR_SANDBOX_TOO_LARGE',
  );
  await sandbox.rm('d'.repeat(200), { recursive: true });
  assert.deepEqual(await sandbox.listFiles({ all: true }), []);
});

test('WS-16 code that empties and closes its workspace stops no later call, nor close()', async (t) => {
  const sandbox = await open(t);
  const calls = [
    () => sandbox.run(['true']),
    () => sandbox.runCode('1'),
    () => sandbox.runCode('1', { language: 'node' }),
    () => sandbox.runCode(':', { language: 'bash' }),
    () => sandbox.run(['true'], { cwd: 'sub' }),
    () => sandbox.kernel().then((kernel) => kernel.close()),
    () => sandbox.listFiles(),
    () => sandbox.writeFile('g', 'x'),
    () => sandbox.stat('sub'),
    () => sandbox.mkdir('sub/e'),
  ];
  await sandbox.mkdir('sub');
  for (const call of calls) {
    await sandbox.writeFile('d/f', 'x');
    const { exitCode } = await sandbox.runCode('mv d /tmp; chmod 0 .', {
      language: 'bash',
    });
    assert.equal(exitCode, 0);
    const mode = fs.statSync(sandbox.workspace).mode & 0o777;
    assert.equal(mode, 0, 'it is closed');
    const result = await call();
    assert.equal(result?.exitCode ?? 0, 0, call);
  }
  // What lies in it is as the code left it.
  await sandbox.run(['chmod', '0', 'sub']);
  await assert.rejects(sandbox.run(['true'], { cwd: 'sub' }), {
    code: 'ERR_SANDBOX_SETUP',
    errno: 'EACCES',
  });
  await sandbox.close();
  assert.equal(fs.existsSync(sandbox.workspace), false);
});

test('WS-17 what a living box swaps while a folder is removed is not followed', async (t) => {
  const sandbox = await open(t);
  let begin;
  const begun = new Promise((resolve) => {
    begin = resolve;
  });
  const swapping = sandbox.runCode(
    `import os
os.symlink('${canary.dir}', 'link')
print('up', flush=True)
while True:
    try:
        os.makedirs('d/e', exist_ok=True)
        os.rename('d/e', 'd/x'); os.rename('link', 'd/e')
        os.rename('d/e', 'link'); os.rename('d/x', 'd/e')
    except OSError: 
        if not os.path.islink('link'):
            try: os.symlink('${canary.dir}', 'link')
            except OSError: pass`,
    { timeoutS: 60 * timeScale, onStdout: () => begin() },
  );
  swapping.catch(() => {}); // It ends with close().
  await begun;
  for (let i = 0; i < (soak ? 5000 : 200); i++) {
    await sandbox.rm('d', { recursive: true, force: true }).catch(() => {});
  }
  await sandbox.close();
  await assert.rejects(swapping, { code: 'ERR_SANDBOX_CLOSED' });
  assert.ok(fs.existsSync(canary.file));
});

test('WS-19 files that look like an answer of ours are files of the code', async (t) => {
  const sandbox = await open(t);
  const names = ['.res-1.json', '.glovebox.json', 'result.json', '.kern-env.1'];
  const forged =
    '{"exitCode":7,"success":true,"results":[{"text/plain":"forged"}],"files":[]}';
  const code = `import os
forged = ${JSON.stringify(forged)}
for folder in '/workspace', '/tmp', '/home/user', '/dev/shm':
    for name in ${JSON.stringify(names)}:
        open(folder + '/' + name, 'w').write(forged)
open('.res-2.json', 'w').write('[' * (10 << 20))
1 + 1`;
  const expected = [...names, '.res-2.json'].sort();
  for (const who of [sandbox, await sandbox.kernel()]) {
    const result = await who.runCode(code);
    assert.equal(result.exitCode, 0, result.stderr);
    assert.deepEqual(
      result.results.map(({ text }) => text),
      ['2'],
    );
    assert.equal(result.stdout, '');
    const listed = await sandbox.listFiles();
    assert.deepEqual(listed.map((file) => file.path).sort(), expected);
    assert.equal(await sandbox.readFile('result.json', 'utf8'), forged);
  }
});

test('WS-20 a workspace may have any name', async (t) => {
  const folder = makeFolder(t);
  for (const name of ['a:b', 'a,b', 'a b', 'a\nb', 'é', 'a\'"$x']) {
    const workspace = path.join(folder, name);
    const sandbox = await open(t, { workspace });
    await sandbox.writeFile('f', 'x');
    assert.equal((await sandbox.run(['cat', 'f'])).stdout, 'x', name);
    assert.equal(fs.readFileSync(path.join(workspace, 'f'), 'utf8'), 'x');
    await sandbox.close();
  }
});

test('WS-20 in a workspace that is full writes fail, and leave the old content and no rest', async (t) => {
  if (!isRoot) return t.skip('by design: only root may mount');
  const workspace = makeFolder(t);
  const options = ['-o', 'size=1m,nr_inodes=64'];
  const mounting = ['mount', '-t', 'tmpfs', ...options, 'none', workspace];
  if (outside(mounting).exitCode !== 0) {
    return skip(t, 'nothing can be mounted here');
  }
  try {
    const sandbox = await open(t, { workspace });
    await sandbox.writeFile('f', 'old');
    const source = () => Readable.from(Array(20).fill(Buffer.alloc(2 ** 17)));
    const full = { code: 'ERR_SANDBOX_IO', errno: 'ENOSPC' };
    for (const write of [
      () => sandbox.writeFile('f', Buffer.alloc(2 ** 21)),
      () => sandbox.writeFile('f', source()),
      () => pipeline(source(), sandbox.createWriteStream('f')),
    ]) {
      await assert.rejects(write, full);
      assert.deepEqual(fs.readdirSync(workspace), ['f']);
    }
    const result = await sandbox.runCode(
      'i=0; while : > $i; do i=$((i+1)); done',
      { language: 'bash' },
    );
    assert.match(result.stderr, /No space left/);
    assert.ok(result.files.length > 50);
    await assert.rejects(sandbox.writeFile('f', 'new'), full);
    await assert.rejects(sandbox.mkdir('d/e'), full);
    assert.equal(await sandbox.readFile('f', 'utf8'), 'old');
    await sandbox.rm('0');
    await sandbox.writeFile('f', 'new');
    await sandbox.close();
  } finally {
    outside(['umount', '--lazy', workspace]);
  }
});

test('WS-22 nothing that the code leaves in its workspace is run or read as ours on the host', async (t) => {
  const sandbox = await open(t);
  const marker = path.join(makeFolder(t), 'ran');
  const script = `#!/bin/sh\ntouch ${marker}\n`;
  const files = {
    '.git/hooks/post-checkout': script,
    'package.json': `{"scripts": {"preinstall": "touch ${marker}"}}`,
    'kern.toml': `[box]\nsetup = "touch ${marker}"\n`,
    '.npmrc': 'script-shell=/workspace/evil\n',
    'sitecustomize.py': `open(${JSON.stringify(marker)}, 'w')`,
    'x.pth': `import os; os.system('touch ${marker}')`,
    'node_modules/glovebox/index.js': `require('fs').writeFileSync(${JSON.stringify(marker)}, '')`,
  };
  for (const [name, text] of Object.entries(files)) {
    await sandbox.writeFile(name, text);
  }
  await sandbox.runCode('chmod -R 755 .', { language: 'bash' });
  const archive = path.join(makeFolder(t), 'a.tgz');
  await sandbox.listFiles({ all: true });
  await sandbox.snapshot(archive);
  await sandbox.restore(archive);
  await sandbox.runCode('1');
  await sandbox.runCode('1', { language: 'node' });
  await sandbox.kernel();
  await sandbox.close();
  assert.equal(fs.existsSync(marker), false);
  // The twin: outside, the hook does run.
  const hook = path.join(makeFolder(t), 'hook');
  fs.writeFileSync(hook, script, { mode: 0o755 });
  outside([hook]);
  assert.equal(fs.existsSync(marker), true);
});

test('WS-23 times that lie hide no change', async (t) => {
  const sandbox = await open(t);
  await sandbox.runCode(
    'touch -d 1900-01-01 old; touch -d 2446-01-01 new; touch zero',
    { language: 'bash' },
  );
  const listed = await sandbox.listFiles();
  assert.equal(listed.length, 3);
  assert.ok(listed.every(({ mtimeMs }) => Number.isFinite(mtimeMs)));
  const result = await sandbox.runCode(
    'for f in old new zero; do t=$(stat -c %y $f); echo x > $f; touch -d "$t" $f; done; touch -d @0 made',
    { language: 'bash' },
  );
  assert.deepEqual(
    result.files.map(({ path: name, change }) => `${name} ${change}`),
    ['made created', 'new modified', 'old modified', 'zero modified'],
  );
});

// ---- Streams ---------------------------------------------------------------

test('a stream of a gigabyte takes no more memory than its buffers', async (t) => {
  const sandbox = await open(t);
  const piece = Buffer.alloc(2 ** 20, 'x');
  const count = soak ? 1024 : 200;
  let most = process.memoryUsage().rss;
  const before = most;
  const look = () => {
    most = Math.max(most, process.memoryUsage().rss);
  };
  await sandbox.writeFile(
    'big',
    (async function* () {
      for (let i = 0; i < count; i++) {
        look();
        yield piece;
      }
    })(),
  );
  let bytes = 0;
  for await (const part of sandbox.createReadStream('big')) {
    bytes += part.length;
    look();
  }
  assert.equal(bytes, count * 2 ** 20);
  const grown = (most - before) / 2 ** 20;
  assert.ok(grown < 150, `${grown} MiB more`);
});

test('a stream that fails or is destroyed leaves what was there', async (t) => {
  const sandbox = await open(t);
  await sandbox.writeFile('f', 'old');
  const failure = new Error('of the source');
  const source = async function* () {
    yield 'new';
    throw failure;
  };
  await assert.rejects(sandbox.writeFile('f', source()), failure);
  await assert.rejects(
    pipeline(source(), sandbox.createWriteStream('f')),
    failure,
  );
  const stream = sandbox.createWriteStream('f');
  stream.write('new');
  stream.destroy();
  await once(stream, 'close');
  await assert.rejects(
    sandbox.writeFile(
      'f',
      (async function* () {
        yield 5;
      })(),
    ),
    { code: 'ERR_SANDBOX_INVALID_OPTION', option: 'data' },
  );
  assert.equal(await sandbox.readFile('f', 'utf8'), 'old');
  assert.deepEqual(fs.readdirSync(sandbox.workspace), ['f']);
});

test('close() ends streams and watchers', async (t) => {
  const sandbox = await open(t, { workspace: makeFolder(t) });
  await sandbox.writeFile('f', Buffer.alloc(10 * 2 ** 20));
  const reading = sandbox.createReadStream('f');
  await once(reading, 'readable');
  const writing = sandbox.createWriteStream('g');
  writing.write('x');
  writing.on('error', () => {});
  await eventually(
    () => fs.readdirSync(sandbox.workspace).length === 2,
    'open',
  );
  const watcher = await sandbox.watch();
  const next = watcher.next();
  await sandbox.close();
  assert.deepEqual(await next, { value: undefined, done: true });
  await assert.rejects(reading.toArray(), { code: 'ERR_SANDBOX_CLOSED' });
  writing.end();
  await eventually(() => writing.destroyed, 'the write stream ends');
  assert.deepEqual(fs.readdirSync(sandbox.workspace), ['f']);
});
