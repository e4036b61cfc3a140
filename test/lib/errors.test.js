// SPDX-License-Identifier: Apache-2.0
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const {
  MountRefused,
  SandboxError,
  nativeCodes,
  summaries,
  toSandboxError,
} = require('../../lib/errors.js');

const root = path.join(__dirname, '..', '..');
const header = path.join(root, 'src', 'common', 'error.h');

// An installed copy has no sources to compare with.
if (fs.existsSync(header)) {
  test('the table of codes is that of src/common/error.h', () => {
    const source = fs.readFileSync(header, 'utf8');
    const names = [...source.matchAll(/^\s*X\(\d+, (\w+)\)/gm)].map(
      ([, name]) => name,
    );
    assert.ok(names.length >= 20);
    assert.deepEqual(Object.keys(nativeCodes), names);
  });
}

test('the type SandboxErrorCode lists every code', () => {
  const types = fs.readFileSync(path.join(root, 'index.d.ts'), 'utf8');
  const [union] = types.match(/type SandboxErrorCode =.*?';/s);
  const listed = [...union.matchAll(/'(ERR_SANDBOX_\w+)'/g)].map(([, c]) => c);
  assert.deepEqual(listed.sort(), [...summaries.keys()].sort());
});

test('every @throws names codes that exist', () => {
  const types = fs.readFileSync(path.join(root, 'index.d.ts'), 'utf8');
  for (const [code] of types.matchAll(/ERR_SANDBOX_\w+/g)) {
    assert.ok(summaries.has(code), code);
  }
});

test('a native error becomes a SandboxError with step, errno and cause', () => {
  const error = toSandboxError({
    code: 'SETUP',
    errno: 28,
    op: 'clone3',
    detail: 'box',
  });
  assert.ok(error instanceof SandboxError);
  assert.equal(error.name, 'SandboxError');
  assert.equal(error.code, 'ERR_SANDBOX_SETUP');
  assert.equal(error.step, 'clone3');
  assert.equal(error.errno, 'ENOSPC');
  assert.equal(error.cause.errno, -28);
  assert.equal(error.cause.code, 'ENOSPC');
  assert.equal(error.cause.syscall, 'clone3');
  assert.match(
    error.message,
    /^The box could not be set up: clone3 "box": ENOSPC \(no space left on device\)\. /,
  );
});

test('other failures that a person can cure say how', () => {
  const cases = [
    [{ code: 'SETUP', errno: 11, op: 'clone3' }, /ulimit -u/],
    [{ code: 'START', errno: 24, op: 'socketpair' }, /ulimit -n/],
    [{ code: 'START', errno: 13, op: 'posix_spawn' }, /launcher must be exec/],
    [{ code: 'WORKSPACE', errno: 28, op: 'mkdir' }, /disk is full/],
    [{ code: 'WORKSPACE', errno: 13, op: 'open' }, /may write to/],
    [{ code: 'UNSUPPORTED', errno: 95, op: 'pidfd_open' }, /Linux 5\.15/],
    [{ code: 'UNSUPPORTED', errno: 2, op: 'dlopen' }, /install libcjson1/],
    [{ code: 'WORKSPACE', errno: 22, op: 'mount_setattr' }, /idmapped mounts/],
    [{ code: 'TOO_LARGE', errno: 7, op: 'walk' }, /one folder at a time/],
    [{ code: 'IO', errno: 28, op: 'inotify' }, /max_user_watches/],
    [{ code: 'IO', errno: 24, op: 'inotify' }, /max_user_instances/],
    [{ code: 'BUSY', errno: 16, op: 'restore' }, /Wait for the calls/],
    [{ code: 'NOT_REGULAR', errno: 21, op: 'rm' }, /recursive: true/],
    [{ code: 'LIMIT', errno: 30, op: 'make leaf' }, /enforceLimits: false/],
    [{ code: 'BUSY', errno: 11, op: 'open' }, /Try again/],
    [{ code: 'INTERNAL' }, /report this/],
  ];
  for (const [native, message] of cases) {
    const whole = { errno: 0, op: '', detail: '', ...native };
    assert.match(toSandboxError(whole).message, message);
  }
});

test('a failure without errno or remedy has no empty parts', () => {
  const error = toSandboxError({
    code: 'CLOSED',
    errno: 0,
    op: '',
    detail: '',
  });
  assert.equal(error.message, 'The sandbox is closed');
  assert.deepEqual(Object.keys(error), ['code']);
  assert.equal(error.cause, undefined);
});

test('a detail from the box cannot write to the terminal', () => {
  const { message } = toSandboxError({
    code: 'IO',
    errno: 5,
    op: 'read',
    detail: 'a\u001b]0;x\u0007\n',
  });
  assert.doesNotMatch(message, /[\u0000-\u001f]/);
});

test('what is no error of the binding keeps its cause', () => {
  const mine = new TypeError('x is not a function');
  const error = toSandboxError(mine);
  assert.equal(error.code, 'ERR_SANDBOX_INTERNAL');
  assert.equal(error.cause, mine);
  assert.match(error.message, /x is not a function/);
  assert.equal(toSandboxError(error), error);
  for (const odd of [undefined, null, 5, 'x', { code: '__proto__' }]) {
    assert.equal(toSandboxError(odd).code, 'ERR_SANDBOX_INTERNAL');
  }
});

test('MountRefused is a SandboxError', () => {
  const error = new MountRefused('no');
  assert.ok(error instanceof SandboxError);
  assert.equal(error.name, 'MountRefused');
  assert.equal(error.code, 'ERR_SANDBOX_MOUNT_REFUSED');
  assert.equal(new SandboxError('x').code, 'ERR_SANDBOX_INTERNAL');
});
