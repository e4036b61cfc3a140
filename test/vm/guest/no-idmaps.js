// SPDX-License-Identifier: Apache-2.0
'use strict';

// As root, with os.tmpdir() on a file system that cannot map ids: tmpfs, before
// Linux 6.3.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { glovebox, open, test } = require('../../helpers/harness.js');

const tmpfsMagic = 0x01021994;

test('the temporary folder is on a tmpfs', () => {
  assert.equal(fs.statfsSync(os.tmpdir()).type, tmpfsMagic);
});

test('a temporary workspace works, in both directions', async (t) => {
  const sandbox = await open(t);
  await sandbox.writeFile('from-host', 'x');
  await sandbox.writeFile('folder/from-host', 'y');
  const result = await sandbox.runCode(
    'cat from-host folder/from-host; echo z > from-box; echo >> from-host; echo > folder/new',
    { language: 'bash' },
  );
  assert.equal(result.stderr, '');
  assert.equal(result.stdout, 'xy');
  assert.equal(await sandbox.readFile('from-box', 'utf8'), 'z\n');
  assert.equal(await sandbox.readFile('from-host', 'utf8'), 'x\n');
});

test('a workspace that is to stay is refused with the reason', async (t) => {
  const workspace = path.join(os.tmpdir(), 'persistent');
  fs.mkdirSync(workspace);
  t.after(() => fs.rmSync(workspace, { recursive: true }));
  const sandbox = new glovebox.Sandbox({ workspace });
  await assert.rejects(sandbox.open(), (error) => {
    t.diagnostic(`${error.code}: ${error.message}`);
    assert.equal(error.code, 'ERR_SANDBOX_WORKSPACE');
    assert.match(error.message, /idmapped mounts/);
    return true;
  });
  assert.deepEqual(fs.readdirSync(workspace), []);
});
