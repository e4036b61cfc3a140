// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rows SYS: filters that code puts on top of its box's, and hosts that take none.

const assert = require('node:assert/strict');
const path = require('node:path');
const { open, outside, test } = require('../helpers/harness.js');
const {
  assertBlocked,
  assertFinished,
  compile,
  hasCompiler,
  numbers,
  place,
  prelude,
} = require('./attack.js');

const needsCompiler = { skip: !hasCompiler() && 'there is no C compiler' };
const mount = numbers.mount;

test('SYS-13 filters of its own lift nothing', needsCompiler, async (t) => {
  const sandbox = await open(t);
  const program = await place(sandbox, 'filters');
  const allow = await sandbox.run([program, 'allow', String(mount)]);
  assertBlocked(allow, 'one that allows everything');
  assert.equal(allow.stdout, '');
  const many = await sandbox.run([program, 'many', String(mount)]);
  assertBlocked(many, 'as many as fit');
  const ENOMEM = 12;
  assert.match(
    many.stdout,
    new RegExp(`^[1-9]\\d* filters, then ${ENOMEM}\n$`),
  );

  const EFAULT = 14;
  const twin = outside([compile('filters'), 'allow', String(mount)]);
  assert.match(twin.stdout, new RegExp(`^-1 (${EFAULT}|1|22)\n$`));
});

test(
  'SYS-13 a filter of its own may answer in place of the kill, never allow',
  needsCompiler,
  async (t) => {
    const sandbox = await open(t);
    const program = await place(sandbox, 'filters');
    // To the kernel an errno is the stricter answer than a listener's.
    const result = await sandbox.run([program, 'errno', String(mount)]);
    const EXDEV = 18;
    if (result.fault) assertBlocked(result, 'errno');
    else assert.equal(result.stdout, `-1 ${EXDEV}\n`);
  },
);

test(
  'ATK no listener can be had, so none can answer "continue"',
  needsCompiler,
  async (t) => {
    const sandbox = await open(t);
    const program = await place(sandbox, 'filters');
    const [tsync, log, esrch, killable] = [1, 2, 16, 32];
    const EPERM = 1;
    for (const flags of [
      0,
      tsync | esrch,
      log,
      killable,
      tsync,
      '0x100000000',
    ]) {
      const result = await sandbox.run([program, 'listener', String(flags)]);
      assertFinished(result, `flags ${flags}`);
      assert.equal(result.stdout, `-1 ${EPERM}\n`, `flags ${flags}`);
    }
    const twin = outside([compile('filters'), 'listener', '0']);
    assert.match(twin.stdout, /^[1-9]\d* 0\n$/);
  },
);

test('SYS-25 without seccomp nothing runs', needsCompiler, async () => {
  const script = `
    const glovebox = require(${JSON.stringify(path.join(__dirname, '../..'))});
    glovebox.withSandbox((sandbox) => sandbox.run(['true'])).then(
      ({ exitCode }) => console.log('ran', exitCode),
      ({ code }) => console.log(code),
    );`;
  const tryWithout = (...words) =>
    outside([
      compile('without-seccomp'),
      ...words.map(String),
      process.execPath,
      '--no-warnings',
      '-e',
      script,
    ]).stdout.trim();
  const [setFilter, getAction, unknown] = [1, 2, 99];
  const listenerFlag = 8;
  const [EPERM, EINVAL, ENOSYS] = [1, 22, 38];
  assert.equal(tryWithout(unknown, 0, ENOSYS), 'ran 0');
  assert.equal(tryWithout(-1, 0, ENOSYS), 'ERR_SANDBOX_UNSUPPORTED');
  assert.equal(tryWithout(-1, 0, EPERM), 'ERR_SANDBOX_UNSUPPORTED');
  assert.equal(tryWithout(getAction, 0, EINVAL), 'ERR_SANDBOX_UNSUPPORTED');
  // Refused only when it is to be loaded, in the box.
  for (const errno of [EPERM, EINVAL]) {
    assert.equal(tryWithout(setFilter, 0, errno), 'ERR_SANDBOX_SETUP');
  }
  assert.equal(tryWithout(setFilter, 0, ENOSYS), 'ERR_SANDBOX_UNSUPPORTED');
  // That it has no listener is no reason: the filter then kills by itself.
  assert.equal(tryWithout(setFilter, listenerFlag, EINVAL), 'ran 0');
});

test(
  'SYS-25 where there can be no listener forbidden calls are not made either',
  needsCompiler,
  async () => {
    const script = `
    const glovebox = require(${JSON.stringify(path.join(__dirname, '../..'))});
    glovebox.withSandbox(async (sandbox) => {
      const code = ${JSON.stringify(prelude)} + \`
print('begin', flush=True)
call('mount', 0, 0, 0, 0, 0)
print('survived')\`;
      const { exitCode, signal, success, stdout } = await sandbox.runCode(code);
      console.log(JSON.stringify({ exitCode, signal, success, stdout }));
    });`;
    const [setFilter, getSizes, listenerFlag, EINVAL] = [1, 3, 8, 22];
    const without = compile('without-seccomp');
    for (const words of [
      [without, getSizes, 0, EINVAL],
      [without, setFilter, listenerFlag, EINVAL],
      [compile('listened')],
    ]) {
      const { stdout } = outside([
        ...words.map(String),
        ...[process.execPath, '--no-warnings', '-e', script],
      ]);
      assert.deepEqual(
        JSON.parse(stdout),
        {
          exitCode: 159,
          signal: 'SIGSYS',
          success: false,
          stdout: 'begin\n',
        },
        words.join(' '),
      );
    }
  },
);
