// SPDX-License-Identifier: Apache-2.0
'use strict';

// What a box leaves in a workspace, and what that does to the host.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const {
  canary,
  isRoot,
  makeFolder,
  open,
  outside,
  test,
} = require('../helpers/harness.js');
const { ask } = require('./attack.js');

test('ATK what a box writes into a workspace belongs to its owner', async (t) => {
  const workspace = makeFolder(t);
  const owner = isRoot
    ? { uid: 4242, gid: 4343 }
    : { uid: process.getuid(), gid: process.getgid() };
  fs.chownSync(workspace, owner.uid, owner.gid);
  const sandbox = await open(t, { workspace });
  const answer = await ask(
    sandbox,
    `
open('file', 'w').close()
os.mkdir('folder')
os.symlink('/', 'link')
os.mkfifo('fifo')
os.chmod('file', 0o6755)
info = os.stat('file')
answer = {
  'owner': [info.st_uid, info.st_gid],
  'chown': sorted({attempt(os.chown, 'file', uid, -1) for uid in
                   (0, 1, 4242, 65534)}),
  'capability': attempt(os.setxattr, 'file', 'security.capability',
                        bytes.fromhex('0100000200000000' + '00' * 12)),
  'trusted': attempt(os.setxattr, 'file', 'trusted.x', b''),
}`,
  );
  assert.deepEqual(answer.owner, [1000, 1000]);
  assert.ok(answer.chown.every((result) => /^(EPERM|EINVAL)$/.test(result)));
  assert.match(answer.capability, /^(EPERM|EINVAL)$/);
  assert.equal(answer.trusted, 'EPERM');
  for (const name of ['file', 'folder', 'link', 'fifo']) {
    const { uid, gid } = fs.lstatSync(path.join(workspace, name));
    assert.deepEqual({ uid, gid }, owner, name);
  }
  // On the host it has the bits: docs/threat-model.md says so.
  assert.equal(fs.statSync(path.join(workspace, 'file')).mode & 0o7777, 0o6755);
});

test('ATK a setuid program in the workspace gives a box nothing', {
  skip: !isRoot && 'only root can make one that would',
}, async (t) => {
  const workspace = makeFolder(t);
  fs.chmodSync(workspace, 0o755);
  const program = path.join(workspace, 'id');
  fs.copyFileSync('/usr/bin/id', program);
  fs.chmodSync(program, 0o4755);
  fs.chownSync(workspace, 4242, 4343);
  const sandbox = await open(t, { workspace });
  const result = await sandbox.run(['./id', '-u']);
  assert.equal(result.stdout, '1000\n', result.stderr);
  const twin = outside([
    ...['setpriv', '--reuid=65000', '--regid=65000', '--clear-groups'],
    ...[program, '-u'],
  ]);
  assert.equal(twin.stdout, '0\n', twin.stderr);
});

test('ATK a link that a box planted leads the host nowhere (WS-02)', async (t) => {
  const sandbox = await open(t);
  const links = {
    file: canary.file,
    folder: canary.dir,
    root: '/',
    up: '../..',
    proc: '/proc/self/cwd',
    loop: 'loop',
  };
  await ask(
    sandbox,
    `
for name, target in json.loads(${JSON.stringify(JSON.stringify(links))}).items():
    os.symlink(target, name)
answer = None`,
  );
  const secret = path.basename(canary.file);
  const outsidePath = { name: 'SandboxError', code: 'ERR_SANDBOX_PATH' };
  const noFile = { name: 'SandboxError', code: 'ERR_SANDBOX_NOT_REGULAR' };
  for (const [name, refused] of Object.entries({
    file: noFile,
    loop: noFile,
    [`folder/${secret}`]: outsidePath,
    [`root${canary.file}`]: outsidePath,
    [`up/${path.relative(os.tmpdir(), canary.file)}`]: outsidePath,
    'proc/x': outsidePath,
  })) {
    await assert.rejects(sandbox.readFile(name), refused, `read ${name}`);
    await assert.rejects(
      sandbox.writeFile(name, 'x'),
      refused,
      `write ${name}`,
    );
  }
  for (const name of ['folder', 'root', 'up', 'root/etc']) {
    await assert.rejects(sandbox.listFiles(name), outsidePath, `list ${name}`);
  }
  assert.deepEqual(await sandbox.listFiles(), []);
  assert.equal(
    fs.readFileSync(path.join(sandbox.workspace, 'file'), 'utf8'),
    canary.secret,
    'an open that follows links reads it',
  );
});

test('ATK what is no regular file holds up no call of the host (WS-05)', async (t) => {
  const sandbox = await open(t);
  await ask(
    sandbox,
    `
import socket
os.mkfifo('fifo')
socket.socket(socket.AF_UNIX).bind('socket')
os.mkdir('folder')
answer = None`,
  );
  const notRegular = { name: 'SandboxError', code: 'ERR_SANDBOX_NOT_REGULAR' };
  for (const name of ['fifo', 'socket', 'folder']) {
    await assert.rejects(sandbox.readFile(name), notRegular, `read ${name}`);
    await assert.rejects(
      sandbox.writeFile(name, 'x'),
      notRegular,
      `write ${name}`,
    );
  }
  assert.deepEqual(await sandbox.listFiles(), []);
});
