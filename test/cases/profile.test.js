// SPDX-License-Identifier: Apache-2.0
'use strict';

// GLOVEBOX_PROFILE: the moments of a call, for the bench.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { makeFolder, test } = require('../helpers/harness.js');
const { askScript } = require('../helpers/host-script.js');

function ringFor(t) {
  const folder = makeFolder(t);
  return path.join(folder, 'ring-of-moments');
}

test('a box has no way to the moments of its call', async (t) => {
  const ring = ringFor(t);
  const { inBoxes, outside } = await askScript(t, 'profiled.js', {
    env: { GLOVEBOX_PROFILE: ring },
  });
  // Its magic, and that something was noted.
  const head = fs.readFileSync(ring);
  assert.equal(head.toString('latin1', 0, 4), 'GBXM');
  assert.ok(head.readBigUInt64LE(8) > 0n);
  assert.equal(fs.statSync(ring).mode & 0o777, 0o600);
  assert.match(outside, /ring-of-moments/);
  for (const seen of inBoxes) {
    assert.match(seen, /\[stack\]/);
    assert.doesNotMatch(seen, /ring-of-moments|GLOVEBOX/);
  }
});

test('nothing is profiled unless asked', async (t) => {
  const { outside } = await askScript(t, 'profiled.js', {
    env: { GLOVEBOX_PROFILE: undefined },
  });
  assert.doesNotMatch(outside, /moments/);
});

test('a profile never writes over a file that is there', async (t) => {
  const ring = ringFor(t);
  fs.writeFileSync(ring, 'mine');
  await assert.rejects(
    askScript(t, 'profiled.js', { env: { GLOVEBOX_PROFILE: ring } }),
    /ring-of-moments, for moments/,
  );
  assert.equal(fs.readFileSync(ring, 'utf8'), 'mine');
});
