// SPDX-License-Identifier: Apache-2.0
'use strict';

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const { test } = require('node:test');
const {
  countSwitches,
  listBelow,
  proportionalBytes,
  tellApart,
} = require('../../bench/lib/processes.js');

const ours = '1:1';
const helper = {
  identity: ours,
  executable: '/x/launcher',
  argv: ['launcher', 'launcher', 'rooted'],
};
const python = {
  identity: '1:2',
  executable: '/usr/bin/python3.11',
  argv: ['python3'],
};
const node = { identity: '1:3', executable: '/usr/bin/node', argv: ['node'] };

const keeper = {
  ...helper,
  argv: ['launcher', 'keeper', '9'],
  pid: 10,
  ppid: 9,
  numbers: [10],
  namespace: 'host',
};
const launcher = {
  ...helper,
  pid: 11,
  ppid: 10,
  numbers: [11, 1],
  namespace: 'all',
};
const zygote = {
  ...python,
  pid: 12,
  ppid: 11,
  numbers: [12, 2],
  namespace: 'all',
};
const argvInit = {
  ...helper,
  pid: 13,
  ppid: 11,
  numbers: [13, 3, 1],
  namespace: 'a',
};
const argvPayload = {
  ...helper,
  pid: 14,
  ppid: 13,
  numbers: [14, 4, 2],
  namespace: 'a',
};
const pythonInit = {
  ...helper,
  pid: 15,
  ppid: 11,
  numbers: [15, 5, 1],
  namespace: 'b',
};
// Forked by the zygote, which need not be in the box.
const pythonPayload = {
  ...python,
  pid: 16,
  ppid: 12,
  numbers: [16, 6, 2],
  namespace: 'b',
};
const nodeInit = {
  ...helper,
  pid: 17,
  ppid: 11,
  numbers: [17, 7, 1],
  namespace: 'c',
};
const nodePayload = {
  ...node,
  pid: 18,
  ppid: 17,
  numbers: [18, 8, 2],
  namespace: 'c',
};
const stranger = {
  ...python,
  pid: 19,
  ppid: 9,
  numbers: [19],
  namespace: 'host',
};

test('keeper, launcher, zygotes and boxes are told apart by what /proc shows', () => {
  const roles = tellApart(
    [
      stranger,
      nodePayload,
      nodeInit,
      pythonPayload,
      pythonInit,
      argvPayload,
      argvInit,
      zygote,
      launcher,
      keeper,
    ],
    ours,
  );
  assert.equal(roles.keeper, keeper);
  assert.equal(roles.launcher, launcher);
  assert.deepEqual(roles.zygotes, [{ kind: 'python', process: zygote }]);
  const boxes = Object.fromEntries(roles.boxes.map((box) => [box.kind, box]));
  assert.deepEqual(boxes, {
    argv: { kind: 'argv', init: argvInit, payloads: [argvPayload] },
    python: { kind: 'python', init: pythonInit, payloads: [pythonPayload] },
    node: { kind: 'node', init: nodeInit, payloads: [nodePayload] },
  });
});

test('without a keeper there is nothing of ours', () => {
  const roles = tellApart([stranger], ours);
  assert.equal(roles.launcher, undefined);
  assert.deepEqual([roles.zygotes, roles.boxes], [[], []]);
});

test('a child is found with its memory and its wake-ups', async (t) => {
  const code = 'setInterval(() => console.log(1), 5)';
  const child = spawn(process.execPath, ['-e', code]);
  t.after(() => child.kill());
  await once(child.stdout, 'data');
  const found = listBelow().find(({ pid }) => pid === child.pid);
  assert.equal(found.ppid, process.pid);
  assert.deepEqual(found.argv, [process.execPath, '-e', code]);
  assert.ok(proportionalBytes(found) > 2 ** 20);
  const roles = [{ role: 'child', pid: child.pid }];
  const count = () => countSwitches(roles).get('child');
  const before = count();
  // What was printed before that may still be on its way.
  while (count() === before) await once(child.stdout, 'data');
});
