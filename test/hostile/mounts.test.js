// SPDX-License-Identifier: Apache-2.0
'use strict';

// Group MNT of the hostile cases: what no box may have of the host, however it
// is named, and what code can make of a mount that it has. The same rules for
// a workspace. Sources that are mounts themselves: mounted-sources.test.js.

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const {
  canary,
  descendants,
  eventually,
  glovebox,
  isRoot,
  open,
  refusal,
  test,
} = require('../helpers/harness.js');
const { startHost } = require('../helpers/host-script.js');

const { MountRefused, Sandbox, SandboxError } = glovebox;

function scratchFolder(t) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'mounts-'));
  fs.chmodSync(folder, 0o755);
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function makeFolder(...parts) {
  const folder = path.join(...parts);
  fs.mkdirSync(folder, { recursive: true });
  return folder;
}

function setHome(t, home) {
  const before = process.env.HOME;
  process.env.HOME = home;
  t.after(() => {
    process.env.HOME = before;
  });
}

async function assertRefused(source, rule) {
  for (const access of ['ro', 'rw']) {
    const error = await refusal({ mounts: { [source]: ['/data', access] } });
    const what = `${source} ${access}: ${error}`;
    assert.ok(error instanceof MountRefused, what);
    assert.ok(error instanceof SandboxError, what);
    assert.equal(error.rule, rule, what);
    assert.equal(error.source, path.resolve(source), what);
    assert.equal(error.target, '/data');
    assert.match(error.message, /^The mount is refused: "/);
    assert.ok(error.remedy, what);
  }
}

async function assertShown(t, source, text) {
  const sandbox = await open(t, { mounts: { [source]: '/data' } });
  const shown = await sandbox.run(['cat', '/data/file']);
  assert.equal(shown.stdout, text, `${source}: ${shown.stderr}`);
  await sandbox.close();
}

const uses = {
  async mount(source) {
    return refusal({ mounts: { [source]: ['/data', 'rw'] } });
  },
  async workspace(source) {
    return refusal({ workspace: source });
  },
};

// ---- What is refused -----------------------------------------------------------

test('MNT-01 folders of the system are refused, by any name', async (t) => {
  const folder = scratchFolder(t);
  const links = { etc: '/etc', deep: '/etc/ssl', up: '../../../../../etc' };
  for (const [name, target] of Object.entries(links)) {
    fs.symlinkSync(target, path.join(folder, name));
  }
  const cases = [
    ...['/etc', '/etc/', '/etc/../etc', '//etc', '/./etc/.'].map((source) => [
      source,
      'system',
    ]),
    ...['/etc/ssl', '/etc/passwd', '/boot', '/var', '/var/lib'].map(
      (source) => [source, 'system'],
    ),
    ...Object.keys(links).map((name) => [path.join(folder, name), 'system']),
    ...['/', '//', '/..', '/proc/self/root'].map((source) => [source, 'root']),
    ...['/proc', '/proc/1', '/proc/self/fd', '/sys', '/sys/kernel'].map(
      (source) => [source, 'kernel'],
    ),
    ...['/dev', '/dev/shm', '/dev/pts'].map((source) => [source, 'kernel']),
    ['/run', 'run'],
    ['/var/run', 'run'],
    ['/tmp', 'temp'],
    [os.tmpdir(), 'temp'],
    ['/home', 'home'],
    ['/root', 'home'],
  ];
  for (const [source, rule] of cases) {
    if (!fs.existsSync(source)) continue;
    await assertRefused(source, rule);
  }
  // The twin: the same folder, where it is nobody's.
  fs.mkdirSync(path.join(folder, 'mine'));
  fs.writeFileSync(path.join(folder, 'mine', 'file'), 'seen');
  fs.symlinkSync('mine', path.join(folder, 'link'));
  for (const name of ['mine', 'link', './mine/../mine//']) {
    await assertShown(t, `${folder}/${name}`, 'seen');
  }
});

test('MNT-01 what is not there is refused where it would be', async (t) => {
  const folder = scratchFolder(t);
  setHome(t, folder);
  for (const [source, rule] of [
    ['/etc/none', 'system'],
    ['/etc/none/deep/er', 'system'],
    ['/etc/passwd/none', 'system'],
    ['/run/none.sock', 'run'],
    ['/proc/none', 'kernel'],
    [path.join(folder, '.ssh'), 'hidden'],
    [path.join(folder, '.none', 'deep'), 'hidden'],
  ]) {
    await assertRefused(source, rule);
  }
  assert.deepEqual(fs.readdirSync(folder), []);
});

test('MNT-01 programs of the system may be read, as in every box, and not written', async (t) => {
  const sandbox = await open(t, { mounts: { '/usr/share': '/shared' } });
  const list = await sandbox.run(['ls', '/shared']);
  assert.equal(list.exitCode, 0);
  for (const source of ['/usr/share', '/usr', '/bin', '/lib']) {
    const error = await refusal({ mounts: { [source]: ['/x', 'rw'] } });
    assert.equal(error.rule, 'system', source);
  }
});

test('MNT-01 the home folder, what holds it and what is hidden in it are refused', async (t) => {
  const folder = scratchFolder(t);
  const home = makeFolder(folder, 'users', 'me');
  makeFolder(home, '.ssh', 'keys');
  makeFolder(home, '.local', 'share');
  makeFolder(home, 'project', '.git');
  fs.writeFileSync(path.join(home, 'project', 'file'), 'mine');
  fs.writeFileSync(path.join(home, '.netrc'), 'password');
  fs.symlinkSync(home, path.join(folder, 'link'));
  setHome(t, path.join(folder, 'link'));

  await assertRefused(home, 'home');
  await assertRefused(path.join(folder, 'link'), 'home');
  await assertRefused(path.join(folder, 'users'), 'home');
  await assertRefused(folder, 'home');
  for (const hidden of ['.ssh', '.ssh/keys', '.local/share', '.netrc']) {
    await assertRefused(path.join(home, hidden), 'hidden');
    await assertRefused(path.join(folder, 'link', hidden), 'hidden');
  }
  // Dots further down are nobody's settings.
  await assertShown(t, path.join(home, 'project'), 'mine');
  const sandbox = await open(t, {
    mounts: { [path.join(home, 'project', '.git')]: '/git' },
  });
  assert.equal((await sandbox.run(['ls', '/git'])).exitCode, 0);
  // And so are other homes.
  setHome(t, '/nowhere');
  await assertShown(t, path.join(home, 'project'), 'mine');
});

test('MNT-01 settings that lie elsewhere are found by their link', async (t) => {
  const folder = scratchFolder(t);
  const home = makeFolder(folder, 'me');
  const real = makeFolder(folder, 'dotfiles', 'aws');
  fs.writeFileSync(path.join(folder, 'dotfiles', 'file'), 'shown');
  setHome(t, home);
  await assertShown(t, path.join(folder, 'dotfiles'), 'shown');
  fs.symlinkSync(real, path.join(home, '.aws'));
  await assertRefused(real, 'hidden');
  await assertRefused(path.join(folder, 'dotfiles'), 'hidden');
});

test('MNT-01 homes of others are refused as well', async (t) => {
  setHome(t, '/nowhere');
  await assertRefused('/root', 'home');
  if (!isRoot) return; // To others they are closed.
  const ssh = '/root/.glovebox-test';
  fs.mkdirSync(ssh);
  t.after(() => fs.rmdirSync(ssh));
  await assertRefused(ssh, 'hidden');
});

test('MNT-01 sockets, pipes and devices are refused, and so is a file with two names', async (t) => {
  const folder = scratchFolder(t);
  const socket = path.join(folder, 'docker.sock');
  const server = net.createServer().listen(socket);
  await once(server, 'listening');
  t.after(() => server.close());
  const fifo = path.join(folder, 'fifo');
  execFileSync('mkfifo', [fifo]);
  fs.symlinkSync(socket, path.join(folder, 'link'));
  for (const source of [socket, fifo, '/dev/null', path.join(folder, 'link')]) {
    await assertRefused(source, 'special-file');
  }
  const file = path.join(folder, 'file');
  fs.writeFileSync(file, 'text');
  const sandbox = await open(t, { mounts: { [file]: '/data/file' } });
  assert.equal((await sandbox.run(['cat', '/data/file'])).stdout, 'text');
  fs.linkSync(file, path.join(folder, 'other'));
  await assertRefused(file, 'hard-link');
});

test('MNT-01 a temporary workspace is no mount of another session', async (t) => {
  const folder = scratchFolder(t);
  fs.writeFileSync(path.join(folder, 'file'), 'shared');
  const temporary = await open(t);
  await temporary.writeFile('file', 'private');
  await assertRefused(temporary.workspace, 'own');
  await assertRefused(path.join(temporary.workspace, 'file'), 'own');
  // A workspace of one's own is, and what calls write there is seen.
  const owner = await open(t, { workspace: folder });
  const reader = await open(t, { mounts: { [folder]: '/data' } });
  await owner.writeFile('file', 'changed');
  assert.equal((await reader.run(['cat', '/data/file'])).stdout, 'changed');
});

test('MNT-01 what is refused as a writable mount is refused as a workspace', async (t) => {
  const folder = scratchFolder(t);
  const home = makeFolder(folder, 'me');
  makeFolder(home, '.ssh');
  setHome(t, home);
  const refused = [
    ...['/', '/etc', '/etc/ssl', '/proc/self', '/sys', '/dev/shm', '/run'],
    ...['/usr/share', '/home', '/root', '/tmp', '/var', os.tmpdir()],
    ...[home, folder, `${home}/.ssh`, `${home}/.ssh/../.ssh`],
  ];
  for (const source of refused) {
    if (!fs.existsSync(source)) continue;
    for (const [use, ask] of Object.entries(uses)) {
      const error = await ask(source);
      const code = use === 'mount' ? 'MOUNT_REFUSED' : 'WORKSPACE';
      assert.equal(error.code, `ERR_SANDBOX_${code}`, `${use}: ${error}`);
    }
  }
  // Nothing was made to find that out.
  const error = await uses.workspace(`${home}/.config/new/deep`);
  assert.equal(error.code, 'ERR_SANDBOX_WORKSPACE');
  assert.match(error.message, /is \.config of \$HOME/);
  assert.deepEqual(fs.readdirSync(home), ['.ssh']);
  const fine = await open(t, { workspace: path.join(home, 'work') });
  assert.equal((await fine.run(['touch', 'made'])).exitCode, 0);
});

// ---- Races ------------------------------------------------------------------------

test('MNT-05 a source that turns into a link to the canary and back shows no canary', async (t) => {
  const folder = scratchFolder(t);
  const source = makeFolder(folder, 'source');
  fs.writeFileSync(path.join(source, 'file'), 'mine');
  const home = makeFolder(folder, 'home');
  const secret = makeFolder(home, '.ssh');
  fs.writeFileSync(path.join(secret, 'file'), canary.secret);
  setHome(t, home);
  // Renamed over each other at full speed, by a process of its own.
  const link = path.join(folder, 'link');
  fs.symlinkSync(secret, link);
  const swapper = startHost(t);
  const swapping = swapper.ask(
    async ({ fs: files }, from, to, stop) => {
      let swaps = 0;
      const aside = `${from}.aside`;
      while (!files.existsSync(stop)) {
        files.renameSync(from, aside);
        files.renameSync(to, from);
        files.renameSync(from, to);
        files.renameSync(aside, from);
        swaps++;
      }
      return swaps;
    },
    source,
    link,
    path.join(folder, 'stop'),
  );
  const seen = { mine: 0, refused: 0, failed: 0 };
  for (let i = 0; i < 200; i++) {
    const sandbox = new Sandbox({ mounts: { [source]: '/data' } });
    try {
      await sandbox.open();
      const { stdout } = await sandbox.run(['cat', '/data/file']);
      assert.equal(stdout, 'mine');
      seen.mine++;
    } catch (error) {
      assert.match(error.code, /^ERR_SANDBOX_MOUNT/, String(error));
      if (error instanceof MountRefused) seen.refused++;
      else seen.failed++;
    }
    await sandbox.close();
  }
  fs.writeFileSync(path.join(folder, 'stop'), '');
  assert.ok((await swapping) > 100);
  await swapper.end();
  // It was met in more than one state, or nothing was tried.
  assert.ok(
    seen.mine > 0 && seen.refused + seen.failed > 0,
    `${[seen.mine, seen.refused, seen.failed]}`,
  );
});

test('MNT-05 a source that was replaced since the opening is not mounted anew', async (t) => {
  const folder = scratchFolder(t);
  const source = makeFolder(folder, 'source');
  fs.writeFileSync(path.join(source, 'file'), 'first');
  const host = startHost(t);
  const answers = await host.ask(
    async ({ glovebox: { Sandbox: There }, fs: files, childProcess }, from) => {
      const sandbox = new There({ mounts: { [from]: '/data' } });
      await sandbox.open();
      const cat = async () => {
        try {
          return (await sandbox.run(['cat', '/data/file'])).stdout;
        } catch ({ code, message }) {
          return `${code} ${message}`;
        }
      };
      const said = [await cat()];
      files.renameSync(from, `${from}.old`);
      files.mkdirSync(from);
      files.writeFileSync(`${from}/file`, 'second');
      said.push(await cat()); // The first is mounted still.
      // The launcher dies: whatever comes next is a new one.
      const [keeper] = childProcess
        .execFileSync('pgrep', ['-P', String(process.pid)], {
          encoding: 'utf8',
        })
        .split('\n');
      process.kill(Number(keeper), 'SIGKILL');
      let last = await cat();
      while (last.startsWith('ERR_SANDBOX_DIED')) last = await cat();
      said.push(last);
      await sandbox.close();
      return said;
    },
    source,
  );
  assert.deepEqual(answers.slice(0, 2), ['first', 'first']);
  assert.match(answers[2], /^ERR_SANDBOX_MOUNT .*was replaced/);
  assert.equal((await host.end()).exitCode, 0);
});

test('MNT-05 what came to be refused since the opening is not mounted anew', async (t) => {
  const folder = scratchFolder(t);
  const home = makeFolder(folder, 'me');
  const source = makeFolder(folder, 'source');
  setHome(t, home);
  const sandbox = await open(t, { mounts: { [source]: '/data' } });
  assert.equal((await sandbox.run(['ls', '/data'])).exitCode, 0);
  fs.symlinkSync(source, path.join(home, '.aws'));
  // Only who mounts it could find out.
  const [keeper] = descendants().filter(({ ppid }) => ppid === process.pid);
  const [launcher] = descendants(keeper.pid).filter(
    ({ ppid }) => ppid === keeper.pid,
  );
  process.kill(launcher.pid, 'SIGKILL');
  let error;
  await eventually(async () => {
    error = await sandbox.run(['ls', '/data']).then(
      () => undefined,
      (reason) => reason,
    );
    return error?.code !== 'ERR_SANDBOX_DIED';
  }, 'a new launcher is asked');
  assert.ok(error instanceof MountRefused, String(error));
  assert.equal(error.rule, 'hidden');
  assert.equal(error.source, source);
  fs.unlinkSync(path.join(home, '.aws'));
  assert.equal((await sandbox.run(['ls', '/data'])).exitCode, 0);
});

// ---- Places -----------------------------------------------------------------------

test('MNT-02 a target that is a symlink in the root is not followed', async (t) => {
  const folder = scratchFolder(t);
  for (const target of ['/bin/x', '/lib64/x', '/var/tmp', '/var/tmp/x']) {
    const error = await refusal({ mounts: { [folder]: target } });
    assert.equal(error.code, 'ERR_SANDBOX_MOUNT', `${target}: ${error}`);
    assert.ok(error.message.includes(`: "${target}" `), error.message);
  }
  const sandbox = await open(t, { mounts: { [folder]: '/var/other' } });
  assert.equal((await sandbox.run(['ls', '/var/other'])).exitCode, 0);
});

test('MNT-02 what code makes of the place of a nested mount leads nowhere', async (t) => {
  const folder = scratchFolder(t);
  const outer = makeFolder(folder, 'outer');
  const inner = makeFolder(folder, 'inner');
  makeFolder(outer, 'place');
  fs.writeFileSync(path.join(inner, 'file'), 'inner');
  fs.chmodSync(outer, 0o777);
  const mounts = { [outer]: ['/data', 'rw'], [inner]: '/data/place' };
  const sandbox = await open(t, { mounts });
  const first = await sandbox.run(['cat', '/data/place/file']);
  assert.equal(first.stdout, 'inner');
  // A mount keeps its place from being moved, from inside a box.
  const moved = await sandbox.run(['mv', '/data/place', '/data/other']);
  assert.notEqual(moved.exitCode, 0);
  for (const make of [
    () => fs.symlinkSync('/etc', path.join(outer, 'place')),
    () => fs.symlinkSync('../../../../etc', path.join(outer, 'place')),
    () => fs.writeFileSync(path.join(outer, 'place'), ''),
    () => {},
  ]) {
    fs.rmSync(path.join(outer, 'place'), { recursive: true, force: true });
    make();
    await assert.rejects(sandbox.run(['ls', '/etc']), {
      code: 'ERR_SANDBOX_MOUNT',
      message: /mount target/,
    });
    const error = await refusal({ mounts });
    assert.equal(error.code, 'ERR_SANDBOX_MOUNT', String(error));
  }
  fs.rmSync(path.join(outer, 'place'), { force: true });
  makeFolder(outer, 'place');
  const again = await sandbox.run(['cat', '/data/place/file']);
  assert.equal(again.stdout, 'inner');
});

test('MNT-07 a place is made in the root and never on the host, or refused', async (t) => {
  const folder = scratchFolder(t);
  const source = makeFolder(folder, 'source');
  const file = path.join(folder, 'file');
  fs.writeFileSync(file, 'content');
  fs.writeFileSync(path.join(source, 'file'), 'in it');
  const usr = fs.readdirSync('/usr').join();

  const sandbox = await open(t, {
    mounts: { [file]: '/a/b/c.txt', [source]: '/tmp/deep/er' },
  });
  const seen = await sandbox.run(['cat', '/a/b/c.txt', '/tmp/deep/er/file']);
  assert.equal(seen.stdout, 'contentin it', seen.stderr);

  const cannot = [
    [source, '/usr/glovebox-test/x'], // read-only, and the host's
    [file, '/usr/glovebox-test'],
    [file, '/etc/ssl'], // a folder is there
    [source, '/etc/passwd'], // a file is there
    [source, '/etc/passwd/x'],
  ];
  for (const [from, to] of cannot) {
    const error = await refusal({ mounts: { [from]: to } });
    assert.equal(error.code, 'ERR_SANDBOX_MOUNT', `${to}: ${error}`);
    assert.ok(error.remedy, to);
  }
  assert.equal(fs.readdirSync('/usr').join(), usr);
  // Over what the box has of the host, of the same kind.
  const over = await open(t, {
    mounts: { [file]: '/etc/passwd', [source]: '/usr/share' },
  });
  const hidden = await over.run(['cat', '/etc/passwd', '/usr/share/file']);
  assert.equal(hidden.stdout, 'contentin it');
  assert.notEqual(fs.readFileSync('/etc/passwd', 'utf8'), 'content');
  // Other boxes have no such places.
  const plain = await open(t);
  const bare = await plain.run(['ls', '-d', '/a', '/tmp/deep', '/glovebox']);
  assert.equal(bare.stdout, '');
});

test('MNT-07 a missing source is an error, and is not made', async (t) => {
  const folder = scratchFolder(t);
  for (const name of ['missing', 'missing/too']) {
    const source = path.join(folder, name);
    const error = await refusal({ mounts: { [source]: ['/data', 'rw'] } });
    assert.equal(error.code, 'ERR_SANDBOX_MOUNT');
    assert.equal(error.errno, 'ENOENT');
    assert.match(error.message, /cannot be opened: ENOENT .*Make it first/);
    assert.ok(!(error instanceof MountRefused));
  }
  assert.deepEqual(fs.readdirSync(folder), []);
});

// ---- What code does with it -------------------------------------------------------

test('MNT-08 what code leaves in a writable mount has no power on the way', async (t) => {
  const folder = scratchFolder(t);
  const source = makeFolder(folder, 'source');
  if (isRoot) fs.chownSync(source, 65000, 65000);
  const sandbox = await open(t, { mounts: { [source]: ['/data', 'rw'] } });
  const result = await sandbox.runCode(
    `
import os, stat
os.chdir('/data')
open('suid', 'w').close()
os.chmod('suid', 0o6755)
os.mkfifo('fifo')
os.mkdir('closed', 0)
os.symlink('/etc/passwd', 'link')
for kind in (stat.S_IFCHR, stat.S_IFBLK):
    try:
        os.mknod('device', kind | 0o666, os.makedev(1, 3))
        print('made')
    except OSError as error:
        print(error.errno)
print([l.split()[5] for l in open('/proc/self/mountinfo') if ' /data ' in l])
`,
  );
  assert.match(result.stdout, /^1\n1\n\['rw,nosuid,nodev/, result.stderr);
  const stat = (name) => fs.lstatSync(path.join(source, name));
  const owner = isRoot ? 65000 : process.getuid();
  for (const name of ['suid', 'fifo', 'closed', 'link']) {
    assert.equal(stat(name).uid, owner, name);
  }
  // On the host it has the bits: docs/threat-model.md says so.
  assert.equal(stat('suid').mode & 0o7777, 0o6755);
  assert.ok(stat('fifo').isFIFO());
  assert.ok(!fs.existsSync(path.join(source, 'device')));
  await sandbox.close(); // Leaves all of it where it is.
  assert.equal(stat('closed').mode & 0o777, 0);
  fs.rmdirSync(path.join(source, 'closed'));
});

test('MNT-08 a read-only mount cannot be written by any way', async (t) => {
  const folder = scratchFolder(t);
  const source = makeFolder(folder, 'source');
  const file = path.join(source, 'file');
  fs.writeFileSync(file, 'as it was');
  fs.chmodSync(source, 0o777);
  fs.chmodSync(file, 0o666);
  const before = fs.lstatSync(file, { bigint: true });
  const attack = `
import ctypes, os
def attempt(name, *args, **more):
    try:
        getattr(os, name)(*args, **more)
        print(name, 'worked')
    except OSError as error:
        print(name, error.errno)
f = '/data/file'
attempt('open', f, os.O_WRONLY)
attempt('open', f, os.O_RDWR | os.O_TRUNC)
attempt('open', f'/proc/self/fd/{os.open(f, os.O_RDONLY)}', os.O_RDWR)
attempt('truncate', f, 0)
attempt('chmod', f, 0o600)
attempt('utime', f, (1, 1))
attempt('mkdir', '/data/folder')
attempt('symlink', 'x', '/data/symlink')
attempt('link', f, '/data/link')
attempt('rename', '/data/file', '/data/file')
attempt('setxattr', f, 'user.x', b'1')
attempt('unlink', f)
`;
  for (const access of ['ro', 'rw']) {
    const sandbox = await open(t, { mounts: { [source]: ['/data', access] } });
    const { stdout } = await sandbox.runCode(attack);
    const worked = stdout.split('\n').filter((line) => /worked/.test(line));
    if (access === 'ro') {
      assert.deepEqual(worked, []);
      assert.equal(stdout.match(/ 30$/gm).length, 12, stdout);
      const after = fs.lstatSync(file, { bigint: true });
      assert.deepEqual(
        [after.mtimeNs, after.ctimeNs, after.size, after.mode],
        [before.mtimeNs, before.ctimeNs, before.size, before.mode],
      );
    } else {
      assert.ok(worked.length > 8, `the twin: ${stdout}`);
    }
  }
});

test('MNT-11 64 mounts work, and a session that has them leaves nothing behind', async (t) => {
  const folder = scratchFolder(t);
  const mounts = {};
  for (let i = 0; i < 64; i++) {
    const source = makeFolder(folder, String(i));
    fs.writeFileSync(path.join(source, 'file'), `${i} `);
    mounts[source] = [`/data/${i}`, i % 2 ? 'rw' : 'ro'];
  }
  const sandbox = await open(t, { mounts });
  const cat = [
    'sh',
    '-c',
    'cat $(ls -d /data/* | sort -t/ -nk3 | sed s,$,/file,)',
  ];
  const expected = Array.from({ length: 64 }, (_, i) => `${i} `).join('');
  const results = await Promise.all(
    Array.from({ length: 4 }, () => sandbox.run(cat)),
  );
  for (const { stdout } of results) assert.equal(stdout, expected);
  await sandbox.close();
});
