// SPDX-License-Identifier: Apache-2.0
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const {
  errorCodes,
  libraryCodes,
  nativeCodes,
} = require('../../lib/error-codes.js');
const {
  MountRefused,
  SandboxError,
  toSandboxError,
} = require('../../lib/errors.js');

const root = path.join(__dirname, '..', '..');
const sources = path.join(root, 'src');

const read = (...names) => fs.readFileSync(path.join(root, ...names), 'utf8');

const codePattern = /\bERR_SANDBOX_[A-Z_]+/g;

function filesOf(folder, pattern) {
  return fs
    .readdirSync(folder, { recursive: true })
    .filter((name) => pattern.test(name))
    .map((name) => path.join(folder, name));
}

/** Calls of gbx_fail() in the C sources, as `{step, format}` where both are literals. */
function readFailures() {
  const call =
    /\bgbx_fail\(\s*[^;"]*?"((?:[^"\\]|\\.)*)",\s*((?:"(?:[^"\\]|\\.)*"\s*)+)/g;
  return filesOf(sources, /\.(c|cc)$/).flatMap((file) =>
    Array.from(
      fs.readFileSync(file, 'utf8').matchAll(call),
      ([, step, format]) => ({
        step,
        format: format.replaceAll(/"\s*"/g, '').trim().slice(1, -1),
      }),
    ),
  );
}

// An installed copy has no sources to compare with.
const skip = fs.existsSync(sources) ? false : 'no sources here';

test('each code of src/common/error.h is one of the registry', { skip }, () => {
  const source = read('src', 'common', 'error.h');
  const names = [...source.matchAll(/^\s*X\(\d+, (\w+)\)/gm)].map(
    ([, name]) => name,
  );
  assert.ok(names.length >= 20);
  assert.deepEqual(Object.keys(nativeCodes), names);
});

test('each code has a meaning, a cause and a remedy', () => {
  assert.equal(
    errorCodes.size,
    Object.keys(nativeCodes).length + Object.keys(libraryCodes).length,
  );
  for (const [code, row] of errorCodes) {
    assert.match(code, /^ERR_SANDBOX_[A-Z]+(_[A-Z]+)*$/);
    assert.deepEqual(Object.keys(row), ['meaning', 'cause', 'remedy'], code);
    // It goes on in a message.
    assert.match(row.meaning, /^[A-Za-z].*[^.]$/, code);
    for (const text of [row.cause, row.remedy]) {
      assert.match(text, /^[A-Z`].*\.$/, code);
      assert.ok(text.length <= 200, `${code} is short enough to be read`);
    }
  }
});

test('docs/errors.md says the same of each code, and has no other', () => {
  const [, ...sections] = read('docs', 'errors.md').split(/^## /m);
  const written = new Map(
    sections.map((section) => {
      const [code, ...lines] = section.split('\n');
      return [code, lines.join(' ').trim().replaceAll(/\s+/g, ' ')];
    }),
  );
  assert.deepEqual([...written.keys()], [...errorCodes.keys()].sort());
  for (const [code, { meaning, cause, remedy }] of errorCodes) {
    assert.equal(
      written.get(code),
      `${meaning}. - **Cause:** ${cause} - **Remedy:** ${remedy}`,
      code,
    );
  }
});

test('the type SandboxErrorCode lists each code with its meaning', () => {
  const [union] = read('index.d.ts').match(/type SandboxErrorCode =.*?;/s);
  const listed = union.matchAll(/\/\*\* (.*?)\. \*\/\s*\| '(\w+)'/gs);
  assert.deepEqual(
    Array.from(listed, ([, meaning, code]) => [code, meaning]),
    Array.from(errorCodes, ([code, { meaning }]) => [code, meaning]),
  );
});

test('every code that a text names exists', () => {
  const files = [
    path.join(root, 'index.d.ts'),
    // Not in every copy.
    ...[path.join(root, 'README.md')].filter(fs.existsSync),
    ...filesOf(path.join(root, 'docs'), /\.md$/),
    ...filesOf(path.join(root, 'lib'), /\.js$/),
  ];
  for (const file of files) {
    for (const [code] of fs.readFileSync(file, 'utf8').matchAll(codePattern)) {
      // "ERR_SANDBOX_" alone begins one that is put together.
      if (code === 'ERR_SANDBOX_') continue;
      assert.ok(errorCodes.has(code), `${file}: ${code}`);
    }
  }
});

test('every code is in a @throws of index.d.ts, or may come from any call', () => {
  const anywhere = ['INTERNAL', 'INVALID', 'NO_MEMORY'];
  const never = ['EXEC'];
  const text = read('index.d.ts').replace(/type SandboxErrorCode =.*?;/s, '');
  const tags = text.match(/@throws[^@]*?(?=\n\s*\*\s*(@|\n|\/)|\*\/)/g);
  const thrown = new Set(tags.flatMap((tag) => tag.match(codePattern) ?? []));
  const others = [...anywhere, ...never].map((name) => `ERR_SANDBOX_${name}`);
  assert.deepEqual(
    [...thrown, ...others].sort(),
    [...errorCodes.keys()].sort(),
  );
});

test('every code of the library is one that the library throws', () => {
  const text = filesOf(path.join(root, 'lib'), /\.js$/)
    .filter((file) => path.basename(file) !== 'error-codes.js')
    .map((file) => fs.readFileSync(file, 'utf8'))
    .join();
  for (const name of Object.keys(libraryCodes)) {
    assert.ok(text.includes(`'ERR_SANDBOX_${name}'`), name);
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
    [{ code: 'WORKSPACE', errno: 2, op: 'open' }, /folder that TMPDIR names/],
    [{ code: 'UNSUPPORTED', errno: 95, op: 'pidfd_open' }, /Linux 5\.15/],
    [{ code: 'UNSUPPORTED', errno: 2, op: 'dlopen' }, /install libcjson1/],
    [{ code: 'WORKSPACE', errno: 22, op: 'mount_setattr' }, /idmapped mounts/],
    [{ code: 'TOO_LARGE', errno: 7, op: 'walk' }, /one folder at a time/],
    [{ code: 'TOO_LARGE', errno: 36, op: 'walk' }, /Remove a folder above it/],
    [{ code: 'IO', errno: 28, op: 'inotify' }, /max_user_watches/],
    [{ code: 'IO', errno: 24, op: 'inotify' }, /max_user_instances/],
    [{ code: 'BUSY', errno: 16, op: 'restore' }, /Wait for the calls/],
    [{ code: 'NOT_REGULAR', errno: 21, op: 'rm' }, /recursive: true/],
    [{ code: 'NOT_REGULAR', errno: 22, op: 'read' }, /A folder, .* `stat\(\)`/],
    [{ code: 'NOT_REGULAR', errno: 40, op: 'openat2' }, /none is followed/],
    [{ code: 'NOT_REGULAR', errno: 20, op: 'folder' }, /\(not a directory\)$/],
    [{ code: 'TOO_LARGE', errno: 27, op: 'read' }, /maxBytes.*createReadStr/],
    [{ code: 'PATH', errno: 40, op: 'openat2' }, /none is followed/],
    [{ code: 'EXISTS', errno: 17, op: 'mkdir' }, /with `rm\(\)`/],
    [{ code: 'PATH', errno: 22, op: 'rename' }, /moved into itself/],
    [{ code: 'LIMIT', errno: 30, op: 'make leaf' }, /enforceLimits: false/],
    [{ code: 'BUSY', errno: 11, op: 'open' }, /Try again/],
    [{ code: 'INTERNAL' }, /report this/],
  ];
  for (const [native, message] of cases) {
    const whole = { errno: 0, op: '', detail: '', ...native };
    assert.match(toSandboxError(whole).message, message);
  }
});

test('an errno without words is its name alone', () => {
  const said = (errno) => {
    const native = { code: 'IO', errno, op: 'read', detail: '' };
    return toSandboxError(native).message.split(': ').at(-1);
  };
  assert.equal(said(74), 'EBADMSG');
  assert.equal(said(116), 'ESTALE (no longer the same file)');
  assert.equal(said(9999), 'errno 9999');
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

/** What a message says between its meaning and the errno. */
function said(op, detail, code = 'IO') {
  const { message } = toSandboxError({ code, errno: 5, op, detail });
  const meaning = nativeCodes[code].meaning;
  assert.ok(message.startsWith(`${meaning}: `), message);
  return message.slice(meaning.length + 2, message.indexOf(': EIO ('));
}

test('what glovebox says itself is not in quotes, and names are', () => {
  const texts = [
    ['workspace', 'not a folder: /a/b', 'not a folder: "/a/b"'],
    [
      'workspace',
      'is /usr, or lies in it: /usr/x',
      'workspace is /usr, or lies in it: "/usr/x"',
    ],
    [
      'workspace',
      'it grew by more than diskMb 8',
      'it grew by more than diskMb 8',
    ],
    ['workspace', '/a: b was replaced', 'workspace "/a: b was replaced"'],
    ['path', 'has "..": a/../b', 'path has "..": "a/../b"'],
    ['path', 'has "..": ../c: d', 'path has "..": "../c: d"'],
    ['folder', 'not a folder: f', 'not a folder: "f"'],
    ['mount target', 'cannot be made: /a', '"/a" cannot be made'],
    ['mount target', '/a: b', 'mount target "/a: b"'],
    ['folder', 'f', 'folder "f"'],
    ['folder', 'a folder: b', 'folder "a folder: b"'],
    ['read', 'more than 5 bytes: f', 'more than 5 bytes: "f"'],
    ['read', 'f', 'read "f"'],
    ['read', 'a file below a', 'a file below "a"'],
    [
      'read',
      'a file shrank while it was read, below a',
      'a file shrank while it was read, below "a"',
    ],
    [
      'walk',
      'a path longer than 9 bytes, in a',
      'a path longer than 9 bytes, in "a"',
    ],
    [
      'workspace',
      'another folder is in its place: /a',
      'another folder is in its place: "/a"',
    ],
    ['walk', 'more than 9 files and folders', 'more than 9 files and folders'],
    ['list', '3 files with 9 bytes of paths', '3 files with 9 bytes of paths'],
    ['list', '3 files', 'list "3 files"'],
    ['watch', 'more than 8192 folders', 'more than 8192 folders'],
    ['launcher', 'ended at once', 'launcher ended at once'],
    ['run', 'was aborted', 'run was aborted'],
    ['clone3', 'box', 'clone3 "box"'],
    ['constructor', 'x', 'constructor "x"'],
    ['', 'x', '"x"'],
    ['fork', '', 'fork'],
  ];
  for (const [step, detail, text] of texts) {
    assert.equal(said(step, detail), text);
  }
});

test('the steps whose words are not in quotes hold no name', { skip }, () => {
  const failures = readFailures();
  assert.ok(failures.length > 200, `${failures.length} were found`);
  const bare = failures
    .map(({ step, format }) => {
      const detail = format
        .replaceAll('\\"', '"')
        .replaceAll('%s', '/NAME')
        .replaceAll(/%(?:ll|z|l)?[ud]/g, '5');
      return { step, format, text: said(step, detail) };
    })
    // What is in quotes may hold anything.
    .filter(({ text }) =>
      text.replaceAll(/"(?:[^"\\]|\\.)*"/g, '').includes('NAME'),
    )
    .map(({ step, format }) => `${step}: ${format}`);
  assert.deepEqual(bare.sort(), [
    // "memory" or "cpu time".
    'cgroup: this session was opened with limits of %s by the kernel, which it no longer has',
    // A rule, and then the path.
    'path: %s: %s',
  ]);
});

test('no text from the box can write to the terminal', () => {
  const odd = 'a\u001b]0;x\u0007\n\u007f\u009b1m\u2028\u202e\u2066';
  const steps = ['', 'read', 'workspace', 'path', 'folder', 'launcher', odd];
  for (const step of steps) {
    for (const lead of ['', 'not a folder: ', `${odd}: `]) {
      const { message } = toSandboxError({
        code: 'IO',
        errno: 5,
        op: step,
        detail: lead + odd,
      });
      assert.doesNotMatch(message, /[\p{Cc}\p{Zl}\u202e\u2066]/u);
    }
  }
  const { message } = toSandboxError({
    code: 'IO',
    errno: 5,
    op: 'read',
    detail: 'a" b\n',
  });
  assert.match(message, /: read "a\\" b\\n": EIO/);
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
