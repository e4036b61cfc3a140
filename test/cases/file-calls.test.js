// SPDX-License-Identifier: Apache-2.0
'use strict';

// What each call on a file of the workspace gives, and with which code and errno
// it refuses: those that who knows node:fs expects.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { Readable } = require('node:stream');
const vm = require('node:vm');
const { open, test } = require('../helpers/harness.js');

async function openWith(t, files) {
  const sandbox = await open(t);
  for (const [name, data] of Object.entries(files)) {
    await sandbox.writeFile(name, data);
  }
  return sandbox;
}

/** Each call, by its words, rejects with `"CODE ERRNO"`. */
async function assertRefusals(refusals) {
  for (const [expected, call] of refusals) {
    await assert.rejects(
      call,
      ({ code, errno }) => {
        assert.equal(`${code} ${errno}`, `ERR_SANDBOX_${expected}`, `${call}`);
        return true;
      },
      `${call}`,
    );
  }
}

test('a wrong place is refused by each call with a code and an errno', async (t) => {
  const sandbox = await openWith(t, { file: 'text', 'd/f': '' });
  await sandbox.run(['ln', '-s', 'file', 'link']);
  await assertRefusals([
    ['NOT_FOUND ENOENT', () => sandbox.readFile('none')],
    ['NOT_FOUND ENOTDIR', () => sandbox.readFile('file/below')],
    ['NOT_REGULAR EISDIR', () => sandbox.readFile('d')],
    ['NOT_REGULAR ELOOP', () => sandbox.readFile('link')],
    ['NOT_FOUND ENOENT', () => sandbox.createReadStream('none').toArray()],
    ['NOT_REGULAR EISDIR', () => sandbox.createReadStream('d').toArray()],
    ['NOT_REGULAR EISDIR', () => sandbox.writeFile('d', '')],
    ['NOT_REGULAR ELOOP', () => sandbox.writeFile('link', '')],
    ['NOT_REGULAR ENOTDIR', () => sandbox.writeFile('file/below', '')],
    ['NOT_REGULAR EISDIR', () => sandbox.writeFile('d', Readable.from(['']))],
    ['NOT_FOUND ENOENT', () => sandbox.listFiles('none')],
    ['NOT_FOUND ENOTDIR', () => sandbox.listFiles('file')],
    ['NOT_FOUND ENOENT', () => sandbox.watch('none')],
    ['NOT_FOUND ENOTDIR', () => sandbox.watch('file')],
    ['NOT_FOUND ENOENT', () => sandbox.stat('none')],
    ['EXISTS EEXIST', () => sandbox.mkdir('file')],
    ['EXISTS EEXIST', () => sandbox.mkdir('file/below')],
    ['NOT_FOUND ENOENT', () => sandbox.rename('none', 'new/name')],
    ['EXISTS EEXIST', () => sandbox.rename('file', 'd')],
    ['EXISTS EEXIST', () => sandbox.rename('d', 'file')],
    ['NOT_REGULAR ENOTDIR', () => sandbox.rename('d', 'file/below')],
    ['PATH EINVAL', () => sandbox.rename('d', 'd/new/name')],
    ['NOT_FOUND ENOENT', () => sandbox.rm('none')],
    ['NOT_FOUND ENOENT', () => sandbox.rm('none', { recursive: true })],
    ['NOT_REGULAR EISDIR', () => sandbox.rm('d')],
    ['NOT_REGULAR EISDIR', () => sandbox.rm('d', { force: true })],
  ]);
  await assert.rejects(sandbox.rename('d', 'd/below'), {
    message: /: lies below what is to be moved: "d\/below".*moved into itself/s,
  });
  // None of them left anything behind.
  const paths = (await sandbox.listFiles({ all: true })).map(
    (entry) => entry.path,
  );
  assert.deepEqual(paths, ['d', 'd/f', 'file', 'link']);
  assert.equal(await sandbox.readFile('file', 'utf8'), 'text');
});

test('what is there already, or is not, is no error where it need not be', async (t) => {
  const sandbox = await openWith(t, { 'd/f': 'f', g: 'g' });
  await sandbox.mkdir('d');
  await sandbox.mkdir('d/e/./f');
  await sandbox.rm('none', { force: true });
  await sandbox.rm('g/below', { force: true });
  assert.equal(await sandbox.exists('g/below'), false);
  await sandbox.rename('d', './d');
  await sandbox.rename('d/f', 'g');
  assert.equal(await sandbox.readFile('g', 'utf8'), 'f');
  await sandbox.rename('d', 'new/place');
  assert.equal((await sandbox.stat('new/place/e/f')).type, 'directory');
  assert.equal(await sandbox.exists('d'), false);
});

test('a call that the file system refuses names itself', async (t) => {
  const sandbox = await open(t);
  await sandbox.run(['ln', '-s', '.', 'link']);
  for (const call of ['stat', 'exists', 'readFile', 'mkdir', 'rm']) {
    await assert.rejects(sandbox[call]('link/x'), {
      message: new RegExp(`^${call}\\("link/x"\\): `),
    });
  }
});

test('a list has sizes and types, of one folder or of all below', async (t) => {
  const sandbox = await openWith(t, { 'b/c/f': 'abc', 'b/g': '', a: 'a' });
  await sandbox.run(['ln', '-s', 'nowhere', 'b/l']);
  const list = async (...args) =>
    (await sandbox.listFiles(...args)).map(
      ({ path: name, size, type }) => `${name} ${size} ${type}`,
    );
  assert.deepEqual(await list(), [
    'a 1 undefined',
    'b/c/f 3 undefined',
    'b/g 0 undefined',
  ]);
  assert.deepEqual(await list({ recursive: false }), ['a 1 undefined']);
  assert.deepEqual(await list('b', { recursive: false }), ['b/g 0 undefined']);
  assert.deepEqual(await list('b', { all: true }), [
    'b/c 0 directory',
    'b/c/f 3 file',
    'b/g 0 file',
    'b/l 7 symlink',
  ]);
  assert.deepEqual(await list({ all: true, recursive: false }), [
    'a 1 file',
    'b 0 directory',
  ]);
  const { type, size, mode } = await sandbox.stat('a');
  assert.deepEqual(
    { type, size, mode },
    { type: 'file', size: 1, mode: 0o644 },
  );
});

test('times are those that node:fs tells, to the last digit', async (t) => {
  const sandbox = await open(t);
  const times = ['@1796048635.747597001', '@0', '@-1.5', '@-2000000000.1'];
  for (const [i, time] of times.entries()) {
    await sandbox.run(['touch', '-d', time, `${i}`]);
  }
  for (const { path: name, mtimeMs } of await sandbox.listFiles()) {
    const ofHost = fs.statSync(path.join(sandbox.workspace, name)).mtimeMs;
    assert.equal(mtimeMs, ofHost, times[name]);
    assert.equal((await sandbox.stat(name)).mtimeMs, ofHost, times[name]);
  }
});

test('a file is read whole, as bytes or text, or not at all', async (t) => {
  const sandbox = await openWith(t, { f: 'é', empty: '' });
  assert.deepEqual(await sandbox.readFile('f'), Buffer.from('é'));
  assert.equal(await sandbox.readFile('f', 'latin1'), 'Ã©');
  assert.equal(await sandbox.readFile('f', { encoding: 'hex' }), 'c3a9');
  assert.equal((await sandbox.readFile('empty', { maxBytes: 0 })).length, 0);
  assert.equal((await sandbox.readFile('f', { maxBytes: 2 })).length, 2);
  await assertRefusals([
    ['TOO_LARGE EFBIG', () => sandbox.readFile('f', { maxBytes: 1 })],
    ['INVALID_OPTION undefined', () => sandbox.readFile('f', 'utf9')],
    ['INVALID_OPTION undefined', () => sandbox.readFile('f', { flag: 'r' })],
  ]);
});

test('a stream of a file reads the part that was asked for', async (t) => {
  const sandbox = await openWith(t, { f: '0123456789' });
  const part = async (options) =>
    (await sandbox.createReadStream('f', options).toArray()).join('');
  assert.equal(await part(), '0123456789');
  assert.equal(await part({ start: 3, end: 5 }), '345');
  assert.equal(await part({ end: 0 }), '0');
  assert.equal(await part({ start: 10 }), '');
  assert.equal(await part({ start: 8, end: 99, encoding: 'hex' }), '3839');
  assert.equal(await part({ highWaterMark: 1 }), '0123456789');
});

test('any Uint8Array is bytes, any stream of them a source', async (t) => {
  const sandbox = await open(t);
  const foreign = vm.runInNewContext('Uint8Array.of(104, 105)');
  const shared = new Uint8Array(new SharedArrayBuffer(2));
  shared.set(foreign);
  for (const data of [
    'hi',
    Buffer.from('hi'),
    Buffer.from('ahia').subarray(1, 3),
    foreign,
    shared,
    Readable.from(['h', Buffer.from('i')]),
    Readable.from([foreign]),
    new Blob(['hi']).stream(),
    (async function* () {
      yield 'h';
      yield shared.subarray(1);
    })(),
  ]) {
    await sandbox.writeFile('f', data);
    assert.equal(await sandbox.readFile(Buffer.from('f'), 'utf8'), 'hi');
  }
  await sandbox.writeFile('none', Readable.from([]));
  assert.equal((await sandbox.stat(vm.runInNewContext('"none"'))).size, 0);
  assert.equal(await sandbox.exists(foreign), false);

  for (const [data, received] of [
    [new DataView(new ArrayBuffer(2)), 'a DataView'],
    [new Uint16Array(2), 'a Uint16Array'],
    [new ArrayBuffer(2), 'an object'],
    [['hi'], 'an array of 1'],
    [undefined, 'undefined'],
  ]) {
    await assert.rejects(sandbox.writeFile('f', data), {
      code: 'ERR_SANDBOX_INVALID_OPTION',
      option: 'data',
      received,
    });
  }
});

test('writeFile() decodes text, also that of a stream, and misreads no option of node:fs', async (t) => {
  const sandbox = await openWith(t, { f: 'old' });
  for (const [data, options, written] of [
    ['bmV3', 'base64', 'new'],
    [Readable.from(['6e65', '77']), { encoding: 'hex' }, 'new'],
    ['\xe9', 'latin1', '\ufffd'],
    ['\xe9', 'utf8', '\xe9'],
    [Buffer.from('bmV3'), 'base64', 'bmV3'],
  ]) {
    await sandbox.writeFile('g', data, options);
    assert.equal(await sandbox.readFile('g', 'utf8'), written);
  }
  for (const [options, option] of [
    ['base-64', 'encoding'],
    [{ flag: 'a' }, 'flag'],
    [{ mode: 0o600 }, 'mode'],
  ]) {
    await assert.rejects(sandbox.writeFile('f', 'bmV3', options), {
      code: 'ERR_SANDBOX_INVALID_OPTION',
      option,
    });
  }
  await sandbox.writeFile('g', 'new', undefined);
  assert.equal(await sandbox.readFile('f', 'utf8'), 'old');
});

test('writers of one file leave the bytes of one of them, and none of their own', async (t) => {
  const sandbox = await open(t);
  const warnings = [];
  const onWarning = (warning) => warnings.push(warning);
  process.on('warning', onWarning);
  t.after(() => process.off('warning', onWarning));
  const size = 100_000;
  await Promise.all(
    Array.from({ length: 50 }, (_, i) => {
      const bytes = Buffer.alloc(size, i);
      return i % 2 === 0
        ? sandbox.writeFile('d/e/f', bytes)
        : sandbox.writeFile('d/e/f', Readable.from([bytes]));
    }),
  );
  const bytes = await sandbox.readFile('d/e/f');
  assert.ok(bytes.equals(Buffer.alloc(size, bytes[0])));
  const folder = path.join(sandbox.workspace, 'd', 'e');
  assert.deepEqual(fs.readdirSync(folder), ['f']);
  // More than ten that listen are a leak for Node, if each listens for itself.
  const ofLeaks = warnings.filter(({ name }) =>
    name.startsWith('MaxListeners'),
  );
  assert.deepEqual(ofLeaks, []);
});

test('a path may be as long as the kernel takes one', async (t) => {
  const sandbox = await open(t);
  const name = 'n'.repeat(255);
  const longest = Array(16).fill(name).join('/');
  assert.equal(longest.length, 4095);
  await sandbox.writeFile(longest, 'x');
  assert.equal((await sandbox.listFiles())[0].path, longest);
  const result = await sandbox.run(['sh', '-c', `echo > ${longest}`]);
  assert.deepEqual(
    result.files.map((file) => file.path),
    [longest],
  );
  await sandbox.rename(longest, 'short');
  await sandbox.rename('short', longest);
  assert.equal(await sandbox.readFile(longest, 'utf8'), '\n');
  await sandbox.rm(longest);
  assert.equal(await sandbox.exists(longest), false);
});
