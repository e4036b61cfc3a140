// SPDX-License-Identifier: Apache-2.0
'use strict';

// Mounts, for what they are made for. Those that are refused are in
// test/hostile/mounts.test.js.

const assert = require('node:assert/strict');
const { execFileSync, spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const {
  descendants,
  eventually,
  glovebox,
  isRoot,
  makeFolder,
  open,
  skip,
  test,
} = require('../helpers/harness.js');

/** A folder with "in/data.csv", "out" and "settings.ini". */
function makeFolders(t) {
  const folder = makeFolder(t);
  fs.chmodSync(folder, 0o755);
  const at = (name) => path.join(folder, name);
  fs.mkdirSync(at('in'));
  fs.mkdirSync(at('out'));
  fs.writeFileSync(at('in/data.csv'), '1\n2\n3\n');
  fs.writeFileSync(at('settings.ini'), 'key = value\n');
  return at;
}

test('code reads one folder and writes another', async (t) => {
  const at = makeFolders(t);
  const sandbox = await open(t, {
    mounts: { [at('in')]: '/data', [at('out')]: ['/out', 'rw'] },
  });
  const result = await sandbox.runCode(`
numbers = [int(line) for line in open('/data/data.csv')]
open('/out/sum.txt', 'w').write(str(sum(numbers)))
try:
    open('/data/new', 'w')
except OSError as error:
    print(error.strerror)
`);
  assert.equal(result.stdout, 'Read-only file system\n', result.stderr);
  assert.equal(fs.readFileSync(at('out/sum.txt'), 'utf8'), '6');
  assert.deepEqual(fs.readdirSync(at('in')), ['data.csv']);
  // Only the workspace is tracked.
  assert.deepEqual(result.files, []);
});

test('JavaScript finds npm packages in a /node_modules', async (t) => {
  const at = makeFolders(t);
  const write = (name, text) => {
    fs.mkdirSync(path.dirname(at(name)), { recursive: true });
    fs.writeFileSync(at(name), text);
  };
  write('in/common/index.js', 'exports.n = 40');
  write('in/modern/package.json', '{"type": "module", "exports": "./a.js"}');
  write('in/modern/a.js', 'export const n = 2');
  const sandbox = await open(t, { mounts: { [at('in')]: '/node_modules' } });
  const required = 'require("common").n';
  const imported =
    'import { n } from "modern"; import common from "common"; n + common.n';
  const call = (code) => sandbox.runCode(code, { language: 'node' });
  assert.equal((await call(required)).text, '40');
  assert.equal((await call(imported)).text, '42');
  const kernel = await sandbox.kernel({ language: 'node' });
  assert.equal((await kernel.runCode(required)).text, '40');
  assert.equal((await kernel.runCode(imported)).text, '42');
});

test('what code writes belongs to the owner of the source', async (t) => {
  const at = makeFolders(t);
  const [uid, gid] = isRoot
    ? [12345, 54321]
    : [process.getuid(), process.getgid()];
  fs.chownSync(at('out'), uid, gid);
  fs.writeFileSync(at('out/private'), 'mine');
  fs.chmodSync(at('out/private'), 0o600);
  fs.chownSync(at('out/private'), uid, gid);
  const sandbox = await open(t, { mounts: { [at('out')]: ['/out', 'rw'] } });
  const result = await sandbox.run([
    'sh',
    '-c',
    'cat /out/private; mkdir /out/made; touch /out/made/file; ' +
      'stat -c " %U" /out/private /out/made/file',
  ]);
  assert.equal(result.stdout, 'mine user\n user\n');
  for (const name of ['out/made', 'out/made/file']) {
    const stat = fs.statSync(at(name));
    assert.deepEqual([stat.uid, stat.gid], [uid, gid], name);
  }
});

test('a file is mounted as a file, anywhere', async (t) => {
  const at = makeFolders(t);
  const targets = [
    '/etc/app.ini',
    '/settings',
    '/home/user/.apprc',
    '/opt/a/b',
  ];
  for (const target of targets) {
    const sandbox = await open(t, { mounts: { [at('settings.ini')]: target } });
    const { stdout } = await sandbox.run(['cat', target]);
    assert.equal(stdout, 'key = value\n', target);
  }
  // Written in place, since a mount cannot be renamed over.
  const sandbox = await open(t, {
    mounts: { [at('settings.ini')]: ['/settings', 'rw'] },
  });
  await sandbox.run(['sh', '-c', 'echo "key = new" > /settings']);
  assert.equal(fs.readFileSync(at('settings.ini'), 'utf8'), 'key = new\n');
});

test('a writable folder goes into a read-only one', async (t) => {
  const at = makeFolders(t);
  fs.mkdirSync(at('in/build'));
  const mounts = {
    [at('out')]: ['/project/build', 'rw'],
    [at('in')]: '/project',
  };
  const sandbox = await open(t, { mounts });
  const result = await sandbox.run(
    ['sh', '-c', 'cat data.csv > build/copy; touch new'],
    { cwd: '/project' },
  );
  assert.match(result.stderr, /new.*Read-only file system/);
  assert.equal(fs.readFileSync(at('out/copy'), 'utf8'), '1\n2\n3\n');
  assert.deepEqual(fs.readdirSync(at('in/build')), []);
  // Nothing is made for it on the host.
  fs.rmdirSync(at('in/build'));
  await assert.rejects(new glovebox.Sandbox({ mounts }).open(), {
    code: 'ERR_SANDBOX_MOUNT',
    errno: 'ENOENT',
    message: /needs such a place in the mount that its target is in/,
  });
});

test('every kind of call has them', async (t) => {
  const at = makeFolders(t);
  const mounts = { [at('in')]: '/data' };
  const sandbox = await open(t, { mounts });
  const file = '/data/data.csv';
  const child = sandbox.spawn(['cat', file]);
  assert.equal((await child.wait()).stdout, '1\n2\n3\n');
  const terminal = sandbox.spawn(['cat', file], {
    pty: { cols: 80, rows: 24 },
  });
  assert.equal((await terminal.wait()).stdout, '1\r\n2\r\n3\r\n');
  const kernel = await sandbox.kernel();
  const cell = await kernel.runCode(`open('${file}').read()`);
  assert.equal(cell.results[0].text, "'1\\n2\\n3\\n'");
  const node = await sandbox.runCode(
    `console.log(require('fs').readFileSync('${file}').length)`,
    { language: 'node' },
  );
  assert.equal(node.stdout, '6\n');
  // With limits of its own, without a cgroup, and traced.
  const others = [{ memoryMb: 64 }, { pids: 8 }, { trace: 'blocked' }];
  for (const options of others) {
    const { stdout } = await sandbox.run(['cat', file], options);
    assert.equal(stdout, '1\n2\n3\n', JSON.stringify(options));
  }
  const oneShot = await glovebox.runCode(`cat ${file}`, {
    language: 'bash',
    mounts,
  });
  assert.equal(oneShot.stdout, '1\n2\n3\n');
  await sandbox.close();
});

test('sessions with the same targets share a root, and each has its own sources', async (t) => {
  const at = makeFolders(t);
  const sandboxes = await Promise.all(
    [0, 1, 2].map((i) => {
      fs.mkdirSync(at(`own${i}`));
      fs.writeFileSync(at(`own${i}/file`), `${i}`);
      return open(t, { mounts: { [at(`own${i}`)]: '/data' } });
    }),
  );
  for (let round = 0; round < 10; round++) {
    const results = await Promise.all(
      sandboxes.map((sandbox) => sandbox.run(['cat', '/data/file'])),
    );
    assert.deepEqual(
      results.map(({ stdout }) => stdout),
      ['0', '1', '2'],
    );
  }
  const none = await open(t);
  assert.notEqual((await none.run(['ls', '/data'])).exitCode, 0);
});

test('what is mounted on the host later is not in a box', async (t) => {
  const at = makeFolders(t);
  const sandbox = await open(t, { mounts: { [at('in')]: '/data' } });
  fs.writeFileSync(at('in/later'), 'seen'); // A file is.
  assert.equal((await sandbox.run(['cat', '/data/later'])).stdout, 'seen');
  if (!isRoot) return;
  execFileSync('mount', ['-t', 'tmpfs', 'none', at('in')]);
  try {
    fs.writeFileSync(at('in/hidden'), 'not seen');
    const list = await sandbox.run(['ls', '/data']);
    assert.equal(list.stdout, 'data.csv\nlater\n');
  } finally {
    execFileSync('umount', [at('in')]);
  }
});

test('NET-04: who listens on a socket in a mount can be talked to, also one that comes later: FACT', async (t) => {
  const at = makeFolders(t);
  const sandbox = await open(t, { mounts: { [at('in')]: '/data' } });
  const server = net.createServer((socket) => socket.end('host'));
  server.listen(at('in/socket'));
  await once(server, 'listening');
  t.after(() => server.close());
  const code = `import socket
with socket.socket(socket.AF_UNIX) as s:
    s.connect('/data/socket')
    print(s.recv(9).decode())`;
  assert.equal((await sandbox.runCode(code)).stdout, 'host\n');
});

test('a source that is deleted or replaced fails the next call, which says so', async (t) => {
  const at = makeFolders(t);
  const replace = {
    deleted: (name) => fs.rmSync(at(name), { recursive: true }),
    'made anew': (name) => {
      fs.rmSync(at(name), { recursive: true });
      fs.mkdirSync(at(name));
    },
    // As editors save.
    saved: (name) => {
      fs.writeFileSync(at('aside'), 'key = new\n');
      fs.renameSync(at('aside'), at(name));
    },
  };
  for (const [how, name] of [
    ['saved', 'settings.ini'],
    ['deleted', 'settings.ini'],
    ['made anew', 'in'],
    ['deleted', 'in'],
  ]) {
    const mounts = { [at(name)]: '/lost', [at('out')]: '/out' };
    const sandbox = await open(t, { mounts });
    const kernel = await sandbox.kernel();
    assert.equal((await sandbox.run(['ls', '/lost'])).exitCode, 0);
    replace[how](name);
    const lost = {
      code: 'ERR_SANDBOX_MOUNT',
      errno: 'ESTALE',
      message:
        /: "\/lost" has lost its source, which was deleted or replaced: .*Make a new Sandbox/,
    };
    await assert.rejects(sandbox.run(['ls', '/']), lost, `${name} ${how}`);
    await assert.rejects(sandbox.runCode('1'), lost, `${name} ${how}`);
    // A box that runs has what it had.
    const look = `import os; os.path.exists('/lost')`;
    assert.equal((await kernel.runCode(look)).text, 'True');
    await sandbox.close();
    if (how === 'deleted') continue;
    const again = await open(t, { mounts });
    const shown = await again.run(['cat', '/lost']);
    assert.equal(shown.stdout, how === 'saved' ? 'key = new\n' : '');
  }
});

test('MNT-01 a source that only another mount namespace has cannot be judged, nor one that was deleted', async (t) => {
  const at = makeFolders(t);
  const fd = fs.openSync(at('in'));
  t.after(() => fs.closeSync(fd));
  const mounts = { [`/proc/self/fd/${fd}`]: '/data' };
  const sandbox = await open(t, { mounts });
  assert.equal((await sandbox.run(['ls', '/data'])).stdout, 'data.csv\n');
  fs.rmSync(at('in'), { recursive: true });
  await assert.rejects(new glovebox.Sandbox({ mounts }).open(), {
    code: 'ERR_SANDBOX_MOUNT',
    errno: 'ESTALE',
    message: /was deleted or replaced meanwhile: /,
  });

  const child = spawn('unshare', [
    isRoot ? '-m' : '-rm',
    ...['sh', '-c', 'echo $$; exec sleep 300'],
  ]);
  t.after(() => child.kill('SIGKILL'));
  const [pid] = await Promise.race([
    once(child.stdout, 'data'),
    once(child, 'close'),
  ]);
  if (!Number(pid)) return skip(t, 'no mount namespaces here');
  const there = `/proc/${Number(pid)}/root${at('out')}`;
  assert.deepEqual(fs.readdirSync(there), []);
  await assert.rejects(
    new glovebox.Sandbox({ mounts: { [there]: '/data' } }).open(),
    {
      code: 'ERR_SANDBOX_MOUNT',
      errno: 'ESTALE',
      message: /has no name among the mounts of this process: /,
    },
  );
});

test('after the sandbox processes died, the mounts are there again', async (t) => {
  const at = makeFolders(t);
  const sandbox = await open(t, {
    mounts: { [at('in')]: '/data', [at('settings.ini')]: '/tmp/settings' },
  });
  const cat = () => sandbox.run(['cat', '/data/data.csv', '/tmp/settings']);
  assert.equal((await cat()).stdout, '1\n2\n3\nkey = value\n');
  const [keeper] = descendants().filter(({ ppid }) => ppid === process.pid);
  const [launcher] = descendants(keeper.pid).filter(
    ({ ppid }) => ppid === keeper.pid,
  );
  process.kill(launcher.pid, 'SIGKILL');
  let result;
  await eventually(async () => {
    result = await cat().catch(() => undefined);
    return result !== undefined;
  }, 'the next call works');
  assert.equal(result.stdout, '1\n2\n3\nkey = value\n');
});

test('plan() tells of mounts', async (t) => {
  const at = makeFolders(t);
  const sandbox = await open(t, {
    mounts: { [at('in')]: '/data', [at('out')]: ['/out', 'rw'] },
  });
  const { spec, box } = await sandbox.plan();
  assert.deepEqual(spec.mounts, {
    [at('in')]: ['/data', 'ro'],
    [at('out')]: ['/out', 'rw'],
  });
  assert.deepEqual(
    box.mounts.filter(({ target }) => /^\/(data|out)$/.test(target)),
    [
      { target: '/data', type: 'bind', source: at('in'), access: 'ro' },
      { target: '/out', type: 'bind', source: at('out'), access: 'rw' },
    ],
  );
});
