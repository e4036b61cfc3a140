// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rows H of the public cases: environment variables, shell, folders, network,
// and code of any length. The limits have a file of their own.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const {
  glovebox,
  open,
  outside,
  packagedPython,
  skip,
  test,
} = require('../helpers/harness.js');
const { forms } = require('../helpers/forms.js');
const { askScript } = require('../helpers/host-script.js');

// ---- P25 -------------------------------------------------------------------

test('P25 values arrive unchanged, and nothing of the host environment does', async (t) => {
  const answer = await askScript(t, 'environment.js', {
    env: {
      LC_ALL: 'C',
      PYTHONIOENCODING: 'ascii',
      PYTHONPATH: '/nope',
      PYTHONSTARTUP: '/nope',
      PYTHONUNBUFFERED: '1',
      SECRET_X: 's3',
    },
  });
  for (const form of ['runCode', 'kernel']) {
    const [values, encodings, ...others] = answer[form].split('\n');
    assert.deepEqual(JSON.parse(values), answer.given, form);
    assert.equal(encodings, 'é😀 utf-8 utf-8 None', form);
    assert.deepEqual(others, [''], form);
  }
  const given = Object.values(answer.given);
  assert.deepEqual(answer.bash.split('\0'), [...given, 'unset']);
  assert.deepEqual(JSON.parse(answer.node), {
    ...answer.given,
    SECRET_X: null,
  });

  // All that a program gets, to the last variable.
  const { PATH, ...rest } = Object.fromEntries(
    answer.all
      .split('\0')
      .filter(Boolean)
      .map((entry) => /^([^=]*)=(.*)$/s.exec(entry).slice(1)),
  );
  assert.deepEqual(rest, {
    ...answer.given,
    HOME: '/home/user',
    USER: 'user',
    LOGNAME: 'user',
    LANG: 'C.UTF-8',
  });
  assert.match(PATH, /(^|:)\/usr\/bin(:|$)/);
});

test('P25 a value that cannot be carried is refused by the name of its variable', async (t) => {
  const sandbox = await open(t);
  const { Sandbox } = glovebox;
  for (const value of ['a\0b', '\ud800', 'x'.repeat(131072), 5, null]) {
    const refusal = {
      code: 'ERR_SANDBOX_INVALID_OPTION',
      message: /env\["KEY"\]/,
    };
    assert.throws(() => new Sandbox({ env: { KEY: value } }), refusal);
    await assert.rejects(
      sandbox.run(['env'], { env: { KEY: value } }),
      refusal,
    );
  }
  // The longest that Linux takes: 131071 bytes with name and "=".
  const longest = 'x'.repeat(131071 - 'KEY='.length);
  const result = await sandbox.runCode('printf %s "$KEY"', {
    language: 'bash',
    env: { KEY: longest },
  });
  assert.equal(result.stdout, longest);
});

test("a call's env is merged over the session's, for this call", async (t) => {
  const sandbox = await open(t, {
    env: { A: 'session', B: 'session', HOME: '/tmp' },
  });
  const show = (env) =>
    sandbox.runCode('echo "$A $B $C $HOME"; cd; pwd', {
      language: 'bash',
      env,
    });
  const merged = await show({ B: 'call', C: 'call' });
  assert.equal(merged.stdout, 'session call call /tmp\n/tmp\n');
  assert.equal((await show()).stdout, 'session session  /tmp\n/tmp\n');
  assert.equal((await show({})).stdout, 'session session  /tmp\n/tmp\n');
});

test('PATH of the call is where run() looks for the program', async (t) => {
  const sandbox = await open(t);
  await sandbox.runCode(
    "mkdir bin; printf '#!/bin/sh\\necho mine\\n' > bin/true; chmod +x bin/true",
    { language: 'bash' },
  );
  const mine = await sandbox.run(['true'], {
    env: { PATH: '/workspace/bin:/usr/bin:/bin' },
  });
  assert.equal(mine.stdout, 'mine\n');
  const missing = await sandbox.run(['true'], { env: { PATH: '/nowhere' } });
  assert.equal(missing.exitCode, 127);
  assert.equal(missing.error.name, 'ENOENT');
});

// ---- P27 -------------------------------------------------------------------

const bashOnly = `n=0; while read -r l; do n=$((n+1)); done < <(printf 'a\\nb\\n'); echo "n=$n"
a=(1 2 3); [[ abc == a* ]] && echo "\${#a[@]}"
echo err > /dev/stderr; echo out > /dev/stdout
head -c 4 /dev/urandom | wc -c; echo x > /dev/null`;

test('P27 bash is bash, with /dev/fd, /dev/stdout, /dev/stderr, /dev/urandom and /dev/null', async (t) => {
  const sandbox = await open(t);
  const result = await sandbox.runCode(bashOnly, { language: 'bash' });
  assert.equal(result.stdout, 'n=2\n3\nout\n4\n');
  assert.equal(result.stderr, 'err\n');
  assert.equal(result.exitCode, 0);
});

for (const { name, begin } of forms) {
  test(`P27 /dev/stdout, /dev/stderr and /dev/stdin can be opened ${name}`, async (t) => {
    const run = await begin(await open(t));
    const result = await run(`
with open('/dev/stdout', 'w') as f: f.write('out')
with open('/dev/stderr', 'w') as f: f.write('err')
open('/dev/stdin').read()`);
    assert.equal(result.stdout, 'out');
    assert.equal(result.stderr, 'err');
    assert.equal(result.results[0].text, "''");
  });
}

// ---- P28 -------------------------------------------------------------------

const writesEverywhere = `import os, tempfile, pathlib                 # run twice in one sandbox
t = tempfile.gettempdir()
with tempfile.NamedTemporaryFile() as f: f.write(b'x')
p = pathlib.Path.home() / '.cache' / 'app'; p.mkdir(parents=True, exist_ok=True); (p / 'f').write_text('x')
print('keep' in os.listdir(t)); pathlib.Path(t, 'keep').write_text('1');`;

test('P28 /tmp and home are writable, and each call has its own', async (t) => {
  const sandbox = await open(t);
  for (const turn of ['first', 'second']) {
    const result = await sandbox.runCode(writesEverywhere);
    assert.equal(result.stdout, 'False\n', turn);
    assert.equal(result.stderr, '', turn);
    assert.equal(result.exitCode, 0, turn);
  }
  assert.ok(!fs.existsSync('/tmp/keep'));
  assert.ok(!fs.existsSync(path.join(os.tmpdir(), 'keep')));
  const variable = await sandbox.runCode('echo "${TMPDIR-unset}"', {
    language: 'bash',
  });
  assert.equal(variable.stdout, 'unset\n');
});

test('P28 importing matplotlib warns of nothing', async (t) => {
  const has =
    packagedPython &&
    outside([packagedPython, '-c', 'import matplotlib']).exitCode === 0;
  if (!has) return skip(t, 'python3-matplotlib is not installed');
  const sandbox = await open(t, { runtimes: { python: packagedPython } });
  const result = await sandbox.runCode('import matplotlib');
  assert.equal(result.stderr, '');
  assert.equal(result.stdout, '');
  assert.equal(result.exitCode, 0);
});

// ---- P29 -------------------------------------------------------------------

const loopback = `import socket, threading, time
s = socket.create_server(('127.0.0.1', 0))
threading.Thread(target=lambda: s.accept()[0].sendall(b'hi'), daemon=True).start()
print(socket.create_connection(('localhost', s.getsockname()[1]), 2).recv(2))
t = time.time()
try: socket.create_connection(('example.com', 80), 20)
except OSError: print('blocked', time.time() - t < 5)`;

for (const { name, begin } of forms) {
  test(`P29 loopback works and the network fails at once ${name}`, async (t) => {
    const run = await begin(await open(t));
    const result = await run(loopback);
    assert.equal(result.stderr, '');
    assert.equal(result.stdout, "b'hi'\nblocked True\n");
    assert.equal(result.exitCode, 0);
  });
}

// ---- P30 -------------------------------------------------------------------

const borders = [131071, 131072, 131073];

/** `code` made exactly `size` bytes long by a comment. */
function pad(code, open, close, size) {
  const room = size - Buffer.byteLength(`${code}${open}${close}`);
  return `${code}${open}${'a'.repeat(room)}${close}`;
}

const longCodes = {
  python: {
    long: `x = 0\n${'x += 1\n'.repeat(60000)}print(x)`,
    stdout: '60000\n',
    border: (size) => pad('print("ok")', ' # ', '', size),
  },
  bash: {
    long: `: ${'a'.repeat(300000)}\necho ok`,
    stdout: 'ok\n',
    border: (size) => pad('echo ok', ' # ', '', size),
  },
  node: {
    long: `/*${'a'.repeat(300000)}*/ console.log("ok")`,
    stdout: 'ok\n',
    border: (size) => pad('console.log("ok")', ' /*', '*/', size),
  },
};

for (const [language, { long, stdout, border }] of Object.entries(longCodes)) {
  test(`P30 ${language} code of any length runs, and no file of the runner shows`, async (t) => {
    const sandbox = await open(t);
    const codes = [
      { code: long, stdout },
      ...borders.map((size) => ({ code: border(size), stdout: 'ok\n' })),
    ];
    for (const [index, size] of borders.entries()) {
      assert.equal(Buffer.byteLength(codes[index + 1].code), size);
    }
    for (const { code, stdout } of codes) {
      const result = await sandbox.runCode(code, { language });
      const label = `${Buffer.byteLength(code)} bytes`;
      assert.equal(result.stderr, '', label);
      assert.equal(result.stdout, stdout, label);
      assert.equal(result.exitCode, 0, label);
      assert.deepEqual(result.files, [], label);
    }
    assert.deepEqual(await sandbox.listFiles(), []);
  });
}

test('P30 a cell of any length runs in a Kernel', async (t) => {
  const kernel = await (await open(t)).kernel();
  const { long, border } = longCodes.python;
  assert.equal((await kernel.runCode(long)).stdout, '60000\n');
  for (const size of borders) {
    assert.equal((await kernel.runCode(border(size))).stdout, 'ok\n');
  }
});

test('P30 long bash code sees no descriptor of the runner, and short code neither', async (t) => {
  const sandbox = await open(t);
  // "ls" has the fourth for the folder that it reads.
  const code = 'ls /proc/self/fd; echo "$#" "$0"';
  for (const size of [0, 200000]) {
    const { stdout } = await sandbox.runCode(`${code}\n: ${'a'.repeat(size)}`, {
      language: 'bash',
    });
    assert.equal(stdout, '0\n1\n2\n3\n0 bash\n', `${size}`);
  }
});
