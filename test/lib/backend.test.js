// SPDX-License-Identifier: Apache-2.0
'use strict';

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { rememberPromises } = require('../../lib/backend.js');

test('work is done once for each distinct argument', async () => {
  const calls = [];
  const remembered = rememberPromises(async (argument) => {
    calls.push(argument);
    return calls.length;
  });
  const both = { python: '/a', node: '/b' };
  const turned = { node: '/b', python: '/a' };
  assert.deepEqual(
    await Promise.all([remembered({}), remembered({}), remembered(both)]),
    [1, 1, 2],
  );
  assert.equal(await remembered(turned), 2);
  assert.equal(await remembered({ python: '/c' }), 3);
  assert.equal(calls.length, 3);
});

test('what somebody found lacking is looked for again', async () => {
  let installed = 0;
  const remembered = rememberPromises(async ({ name }) => ({
    name,
    installed,
  }));
  const [one, two] = [{ name: 'one' }, { name: 'two' }];
  const lacking = await remembered(one);
  await remembered(two);
  installed = 1;
  assert.equal(await remembered(one), lacking);
  remembered.forget((result) => result === lacking);
  assert.equal((await remembered(two)).installed, 0);
  assert.equal((await remembered(one)).installed, 1);
});

test('a failure is forgotten', async () => {
  let fails = true;
  const remembered = rememberPromises(async () => {
    if (fails) throw new Error('not yet');
    return 5;
  });
  await assert.rejects(remembered({}), /not yet/);
  fails = false;
  assert.equal(await remembered({}), 5);
});
