// SPDX-License-Identifier: Apache-2.0
'use strict';

// Boxes that wait for a call, some with the workspace of the sandbox that made
// the last ones.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const {
  descendants,
  eventually,
  open,
  test,
} = require('../helpers/harness.js');

/** Whether a box has a workspace, while no call runs. */
const isBound = () =>
  descendants().some(({ pid }) => {
    try {
      const mounts = fs.readFileSync(`/proc/${pid}/mountinfo`, 'utf8');
      return mounts.includes(' /workspace ');
    } catch {
      return false; // It ended meanwhile.
    }
  });

test('a box waits with the workspace of calls that follow one another, and one without', async (t) => {
  const sandbox = await open(t);
  await sandbox.writeFile('a', 'first');
  await sandbox.run(['true']);
  await sandbox.run(['true']);
  await eventually(isBound, 'no box was bound');
  // It is the folder itself, not what it was then.
  await sandbox.writeFile('a', 'second');
  const result = await sandbox.run(['cat', 'a']);
  assert.equal(result.stdout, 'second');
  const written = await sandbox.run(['cp', 'a', 'b']);
  assert.deepEqual(
    written.files.map((file) => file.path),
    ['b'],
  );
  assert.equal(await sandbox.readFile('b', { encoding: 'utf8' }), 'second');
});

test('no call gets a box with the workspace of another sandbox', async (t) => {
  const sandboxes = await Promise.all([open(t), open(t), open(t)]);
  for (const [i, sandbox] of sandboxes.entries())
    await sandbox.writeFile('who', String(i));
  for (let round = 0; round < 4; round++)
    for (const [i, sandbox] of sandboxes.entries()) {
      const times = 1 + ((round + i) % 3);
      for (let k = 0; k < times; k++) {
        const seen = await sandbox.run(['cat', 'who']);
        assert.equal(seen.stdout, String(i));
        const read = await sandbox.runCode('print(open("who").read())');
        assert.equal(read.stdout, `${i}\n`);
      }
      if (times > 1) await eventually(isBound, 'no box was bound');
    }
});

test('a call with limits of its own gets a box that has them', async (t) => {
  const sandbox = await open(t);
  await sandbox.run(['true']);
  await sandbox.run(['true']);
  await eventually(isBound, 'no box was bound');
  const size = async (options) => {
    const command = ['df', '--output=size', '-B1M', '/tmp'];
    const { stdout } = await sandbox.run(command, options);
    return Number(stdout.split('\n')[1]);
  };
  const usual = await size();
  assert.equal(await size({ memoryMb: 128 }), usual / 4);
  assert.equal(await size(), usual);
});

test('a box that waits with a workspace that was deleted serves no call', async (t) => {
  const workspace = fs.mkdtempSync(path.join(os.tmpdir(), 'workspace-'));
  t.after(() => fs.rmdirSync(workspace));
  const sandbox = await open(t, { workspace });
  await sandbox.run(['true']);
  await sandbox.run(['true']);
  await eventually(isBound, 'no box was bound');
  fs.rmdirSync(workspace);
  fs.mkdirSync(workspace);
  await assert.rejects(sandbox.run(['touch', 'lost']), {
    code: 'ERR_SANDBOX_WORKSPACE',
    errno: 'ESTALE',
  });
});

test('a workspace is let go by close(), also by boxes that wait', async (t) => {
  const workspace = fs.mkdtempSync(path.join(os.tmpdir(), 'workspace-'));
  const sandbox = await open(t, { workspace });
  await sandbox.run(['true']);
  await sandbox.run(['true']);
  await eventually(isBound, 'no box was bound');
  await sandbox.close();
  await eventually(() => !isBound(), 'a box that waits has it still');
  fs.rmSync(workspace, { recursive: true });
});
