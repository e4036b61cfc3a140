// SPDX-License-Identifier: Apache-2.0
'use strict';

// A driver's frames, as hostile code would forge them.

const assert = require('node:assert/strict');
const { test } = require('node:test');
const {
  FrameCollector,
  maxResults,
  readDone,
  readResult,
} = require('../../lib/frames.js');

const json = (value) => Buffer.from(JSON.stringify(value));

test('a result is what the driver sent', () => {
  const data = { 'text/plain': '5', 'application/vnd.x+json; v=1': '{}' };
  assert.deepEqual({ ...readResult(json(data)).data }, data);
});

test('KRN-04 a result that is not an object of strings is dropped', () => {
  const bodies = [
    '',
    'not json',
    'null',
    '[]',
    '"x"',
    '1',
    '{}',
    '{"text/plain":5}',
    '{"text/plain":null}',
    '{"text/plain":["x"]}',
    '{"text/plain":"x","text/html":{}}',
    '{"text/plain":NaN}',
    `${'['.repeat(1e5)}${']'.repeat(1e5)}`,
    `{"text/plain":${'['.repeat(1e5)}${']'.repeat(1e5)}}`,
  ];
  for (const body of bodies) {
    assert.equal(readResult(Buffer.from(body)), undefined, body.slice(0, 40));
  }
});

test('KRN-04 invalid UTF-8 and lone surrogates are read as text', () => {
  const body = Buffer.concat([
    Buffer.from('{"text/plain":"\\ud800'),
    Buffer.from([0xff]),
    Buffer.from('"}'),
  ]);
  assert.equal(readResult(body).text, '\ud800\ufffd');
});

test('KRN-05 names that objects come with do no harm', () => {
  const body =
    '{"__proto__":"x","constructor":"x","toString":"x","text/plain":"ok"}';
  const result = readResult(Buffer.from(body));
  assert.deepEqual(Object.keys(result.data), ['text/plain']);
  assert.equal(Object.getPrototypeOf(result.data), Object.prototype);

  assert.equal(readResult(Buffer.from('{"toString":1}')), undefined);
  assert.equal(
    readResult(Buffer.from('{"__proto__":{"success":true}}')),
    undefined,
  );
  assert.equal({}.success, undefined);
});

test('KRN-01 only an integer 0..255 is an exit code', () => {
  const wrong = ['"0"', 'null', '0.5', 'true', '[0]', '1e400', '-1', '256'];
  for (const exitCode of [...wrong, String(2 ** 63)]) {
    const body = Buffer.from(`{"exitCode":${exitCode},"error":null}`);
    assert.equal(readDone(body), undefined, exitCode);
  }
  assert.equal(readDone(Buffer.from('{"error":null}')), undefined);
  assert.equal(
    readDone(Buffer.from('{"__proto__":{"exitCode":0}}')),
    undefined,
  );
  for (const exitCode of [0, 1, 255]) {
    const body = json({ exitCode, error: null, extra: 1 });
    assert.deepEqual(readDone(body), { exitCode, error: null });
  }
});

test('an exception is read with its four parts', () => {
  const error = {
    name: 'ZeroDivisionError',
    message: 'division by zero',
    traceback: 'Traceback ...',
    line: 5,
  };
  const done = readDone(json({ exitCode: 1, error: { ...error, more: 1 } }));
  assert.deepEqual(done, { exitCode: 1, error });
  const short = { name: 'E', message: '' };
  assert.deepEqual(readDone(json({ exitCode: 1, error: short })).error, {
    ...short,
    traceback: '',
    line: null,
  });
});

test('KRN-01 an exception of wrong shape makes the reply unusable', () => {
  const good = { name: 'E', message: 'm', traceback: 't', line: 1 };
  const wrong = [
    'text',
    5,
    [],
    {},
    { ...good, name: 5 },
    { ...good, message: null },
    { ...good, traceback: {} },
    { ...good, line: '1' },
    { ...good, line: -1 },
    { ...good, line: 1.5 },
  ];
  for (const error of wrong) {
    assert.equal(readDone(json({ exitCode: 1, error })), undefined);
  }
});

test('KRN-16 results beyond the cap are dropped and reported', () => {
  const frames = new FrameCollector();
  for (let i = 0; i < maxResults; i++) {
    frames.add(2, json({ 'text/plain': String(i) }));
  }
  assert.equal(frames.isTruncated, false);
  frames.add(2, json({ 'text/plain': 'one more' }));
  assert.equal(frames.isTruncated, true);
  assert.equal(frames.results.length, maxResults);
  assert.equal(frames.results.at(-1).text, String(maxResults - 1));
});

test('the first DONE counts, unknown types do not', () => {
  const frames = new FrameCollector();
  frames.add(9, json({ exitCode: 7, error: null }));
  frames.add(3, Buffer.from('rubbish'));
  frames.add(3, json({ exitCode: 3, error: null }));
  frames.add(3, json({ exitCode: 0, error: null }));
  assert.equal(frames.done.exitCode, 3);
});

test('KRN-04 a frame of the largest size is read in bounded time', () => {
  const body = json({ 'text/plain': 'x'.repeat(2 ** 24) });
  const start = process.hrtime.bigint();
  assert.equal(readResult(body).text.length, 2 ** 24);
  const elapsedMs = Number(process.hrtime.bigint() - start) / 1e6;
  assert.ok(elapsedMs < 10000, `${elapsedMs} ms`);
});
