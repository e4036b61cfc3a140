// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rows ENV: arguments, variables, numbers and options at and beyond what can be
// carried. That each wrong value is refused by name is in test/cases/misuse.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const {
  canary,
  busyDescendants,
  descendants,
  eventually,
  glovebox,
  open,
  outside,
  skip,
  soak,
  test,
  timeScale,
} = require('../helpers/harness.js');
const { askScript } = require('../helpers/host-script.js');
const { assertFinished, compile, hasCompiler } = require('./attack.js');

const { Sandbox, runCode } = glovebox;
const invalid = { code: 'ERR_SANDBOX_INVALID_OPTION' };
const languages = ['python', 'bash', 'node'];

/** The most that Linux takes for one string of argv or env, with its NUL. */
const longestString = 131072;

function assertTooLong(result) {
  const { exitCode, success, error, fault, stdout } = result;
  assert.deepEqual(
    { exitCode, success, error: error?.name, fault, stdout },
    { exitCode: 126, success: false, error: 'E2BIG', fault: null, stdout: '' },
  );
}

// ---- ENV-01 ----------------------------------------------------------------

test('ENV-01 a hundred thousand arguments arrive, and more than the kernel takes is E2BIG', async (t) => {
  const sandbox = await open(t);
  const many = Array.from({ length: 100000 }, (_, index) => String(index));
  const counted = await sandbox.run([
    'sh',
    '-c',
    'echo $# $1 ${100000}',
    'sh',
    ...many,
  ]);
  assertFinished(counted);
  assert.equal(counted.stdout, '100000 0 99999\n');

  // Each of them can be carried, all together cannot.
  const long = 'x'.repeat(longestString - 1);
  assertTooLong(await sandbox.run(['true', ...Array(64).fill(long)]));
  const most = await sandbox.run(['sh', '-c', 'echo ${#1}', 'sh', long]);
  assert.equal(most.stdout, `${longestString - 1}\n`);

  // The same outside: it is the kernel's limit and not ours.
  assert.equal(outside(['true', long]).exitCode, 0);
  assert.equal(outside(['true', `${long}x`]).exitCode, null);
});

test('ENV-01 a program of any name has itself as its first argument', async (t) => {
  const sandbox = await open(t);
  for (const name of ['two words', 'é😀', '-c', '--', '$(id)', "'", ' ']) {
    await sandbox.writeFile(name, '#!/bin/sh\nprintf "%s|" "$0" "$#" "$@"\n');
    fs.chmodSync(path.join(sandbox.workspace, name), 0o755);
    const result = await sandbox.run([`./${name}`, 'one', '']);
    assertFinished(result, name);
    assert.equal(result.stdout, `./${name}|2|one||`);
  }
  for (const argv of [[], [''], ['', 'x']]) {
    await assert.rejects(sandbox.run(argv), invalid);
  }
});

// ---- ENV-02 ----------------------------------------------------------------

test('ENV-02 ten thousand variables arrive, one called __proto__ too', async (t) => {
  const sandbox = await open(t);
  const env = Object.fromEntries(
    Array.from({ length: 10000 }, (_, index) => [`V${index}`, `${index}`]),
  );
  Object.defineProperty(env, '__proto__', { value: 'own', enumerable: true });
  const result = await sandbox.runCode(
    'import os\nprint(sum(name[0] == "V" for name in os.environ), os.environ["V9999"], os.environ["__proto__"])',
    { env },
  );
  assertFinished(result);
  assert.equal(result.stdout, '10000 9999 own\n');
  assert.equal({}.own, undefined);
});

test('ENV-02 variables that are too much together are E2BIG, in each language', async (t) => {
  const sandbox = await open(t);
  const value = 'x'.repeat(longestString - 10);
  const env = Object.fromEntries(
    Array.from({ length: 64 }, (_, index) => [`V${index}`, value]),
  );
  assertTooLong(await sandbox.run(['true'], { env }));
  for (const language of languages) {
    assertTooLong(await sandbox.runCode('', { language, env }));
  }
});

test('ENV-02 a getter that throws throws at the caller, and nothing starts', async (t) => {
  const sandbox = await open(t);
  const env = {
    get KEY() {
      throw new RangeError('of the getter');
    },
  };
  const mine = { name: 'RangeError', message: 'of the getter' };
  assert.throws(() => new Sandbox({ env }), mine);
  await assert.rejects(sandbox.run(['touch', 'started'], { env }), mine);
  await assert.rejects(sandbox.runCode('open("started", "w")', { env }), mine);
  assert.deepEqual(await sandbox.listFiles(), []);
  // What only a prototype has is not given by the caller.
  const inherited = Object.create(env, { A: { value: '1', enumerable: true } });
  const result = await sandbox.run(['printenv', 'A'], { env: inherited });
  assert.equal(result.stdout, '1\n');
});

// ---- ENV-04, ENV-05 --------------------------------------------------------

const showEnvironments = `
import glob, os
for file in ['/proc/self/environ', *glob.glob('/proc/*/environ'), *glob.glob('/proc/*/task/*/environ')]:
    try: print(open(file, 'rb').read())
    except OSError as error: print(file, type(error).__name__)
print(dict(os.environ))`;

test('ENV-04 a secret in the environment of the host is in no environment of a box', async (t) => {
  process.env.AWS_SECRET_ACCESS_KEY = canary.secret;
  t.after(() => delete process.env.AWS_SECRET_ACCESS_KEY);
  assert.ok(outside(['env']).stdout.includes(canary.secret), 'a child has it');

  // One that starts keeper and launcher with the secret in the environment.
  const answer = await askScript(t, 'environment-of-box.js', {
    folder: path.join(__dirname, 'fixtures'),
    args: [showEnvironments],
  });
  assert.equal(answer.secret, canary.secret, 'the host process has it');
  for (const [name, output] of Object.entries(answer.outputs)) {
    assert.ok(output.includes('HOME'), `${name}: ${output}`);
    assert.ok(!output.includes(canary.secret), name);
    assert.ok(!output.includes('AWS_SECRET'), name);
  }
});

test('ENV-05 a secret given to a box is in no command line of the host', async (t) => {
  const sandbox = await open(t);
  const secret = `secret-${canary.secret.slice(0, 8)}`;
  const env = { TOKEN: secret };
  const kernel = await sandbox.kernel({ env });
  const held = [
    ['run', sandbox.run(['sleep', '300'], { env })],
    ...languages.map((language) => [
      language,
      sandbox.runCode(
        { python: 'import time; time.sleep(300)', bash: 'sleep 300' }[
          language
        ] ?? 'setTimeout(() => {}, 300000)',
        { language, env },
      ),
    ]),
  ];
  const outcomes = held.map(([, call]) =>
    assert.rejects(call, { code: 'ERR_SANDBOX_CLOSED' }),
  );
  const names = () => busyDescendants().map(({ name }) => name);
  const count = (part) => names().filter((name) => name.includes(part)).length;
  // Two of the three pythons are the kernel's.
  await eventually(
    () => count('sleep') === 2 && count('python') === 3 && count('node') === 1,
    () => `not all run: ${names()}`,
  );
  const seen = await kernel.runCode('import os; os.environ["TOKEN"]');
  assert.equal(seen.results[0].text, `'${secret}'`);

  const commandLines = descendants().map(({ pid }) => {
    try {
      return fs.readFileSync(`/proc/${pid}/cmdline`, 'latin1');
    } catch {
      return ''; // It ended meanwhile.
    }
  });
  assert.ok(!commandLines.join().includes(secret));
  assert.match(commandLines.join(), /sleep\x00300/, 'they can be read');
  await sandbox.close();
  await Promise.all(outcomes);
});

// ---- ENV-07, ENV-08 --------------------------------------------------------

test('ENV-07 a time limit beyond 31 bits of milliseconds is a long one', async (t) => {
  // Node's own timers fire after 1 ms instead.
  const sandbox = await open(t, { timeoutS: 2147484 });
  const slept = await sandbox.run(['sleep', '0.3']);
  assertFinished(slept);
  assert.ok(slept.durationMs >= 300, `${slept.durationMs} ms`);
  for (const timeoutS of [2147483.648, 4294967.296, 4294968, 31536000]) {
    assertFinished(await sandbox.run(['sleep', '0.05'], { timeoutS }));
  }
  const kernel = await sandbox.kernel({ timeoutS: 4294967.297 });
  const cell = await kernel.runCode('import time; time.sleep(0.3); 1');
  assert.equal(cell.results[0]?.text, '1');
});

test('ENV-08 a call ends once, as a success or at its time limit, however close they are', async (t) => {
  const sandbox = await open(t, { trackFiles: false });
  const shortest = await sandbox.run(['sleep', '60'], { timeoutS: 0.001 });
  assert.equal(shortest.fault?.type, 'timeout');
  assert.ok(shortest.durationMs < 5000 * timeScale);

  // Limits from below the time that the call sleeps to above what it takes.
  const { durationMs } = await sandbox.run(['sleep', '0.02']);
  const [from, to] = [15, durationMs * 1.3];
  const rounds = soak ? 2000 : 40;
  const seen = { success: 0, timeout: 0 };
  for (let i = 0; i < rounds; i++) {
    const timeoutMs = from + ((to - from) * i) / rounds;
    const result = await sandbox.run(['sleep', '0.02'], {
      timeoutS: timeoutMs / 1000,
    });
    const kind = result.fault?.type ?? 'success';
    seen[kind]++;
    const wanted = kind === 'success' ? [0, null] : [137, 'SIGKILL'];
    assert.deepEqual([result.exitCode, result.signal], wanted, kind);
    assert.equal(result.success, kind === 'success');
  }
  assert.ok(seen.timeout > 0, JSON.stringify(seen));
  assert.equal(seen.success + seen.timeout, rounds);
});

test('ENV-08 a clock that jumps by hours ends no call and makes no duration wrong', async (t) => {
  if (!hasCompiler()) return skip(t, 'there is no compiler');
  // The host's clock is not ours to set: in this process what asks for the time
  // of day gets another hour each time.
  const answer = await askScript(t, 'jumping-clock.js', {
    folder: path.join(__dirname, 'fixtures'),
    env: {
      LD_PRELOAD: compile('jumping-clock', ['-shared', '-fPIC']),
    },
  });
  assert.ok(Math.abs(answer.jumpMs) > 3000000, `${answer.jumpMs} ms`);
  const [slept, late, inKernel, lateInKernel] = answer.results;
  assert.deepEqual([slept.exitCode, slept.fault], [0, null]);
  assert.ok(slept.durationMs >= 300, JSON.stringify(slept));
  assert.equal(late.fault, 'timeout');
  assert.deepEqual([inKernel.exitCode, inKernel.fault], [0, null]);
  assert.equal(lateInKernel.fault, 'timeout');
  for (const { durationMs } of answer.results) {
    assert.ok(
      durationMs >= 300 && durationMs < 20000 * timeScale,
      JSON.stringify(answer.results),
    );
  }
});

// ---- ENV-10 ----------------------------------------------------------------

test('ENV-10 what a caller changes after the call, or answers twice, changes nothing', async (t) => {
  const env = { A: 'first' };
  const runtimes = {};
  const given = { env, runtimes, timeoutS: 30, trackFiles: false };
  const sandbox = await open(t, given);
  env.A = 'second';
  given.timeoutS = 0.001;
  runtimes.python = '/nowhere';
  assert.equal((await sandbox.runCode('print(1)')).stdout, '1\n');

  const argv = ['printenv', 'A', 'B'];
  const call = { env: { B: 'first' }, timeoutS: 30 };
  const running = sandbox.run(argv, call);
  argv.length = 0;
  call.env.B = 'second';
  call.timeoutS = 0.001;
  assert.equal((await running).stdout, 'first\nfirst\n');

  // Each property is read once, by whatever means it answers.
  const reads = {};
  const count = (target) =>
    new Proxy(target, {
      get(object, key, receiver) {
        reads[key] = (reads[key] ?? 0) + 1;
        return reads[key] === 1 ? Reflect.get(object, key, receiver) : 5;
      },
    });
  const proxied = await sandbox.run(
    ['printenv', 'B'],
    count({ env: count({ B: 'once' }), timeoutS: 30 }),
  );
  assert.equal(proxied.stdout, 'once\n');
  assert.deepEqual(reads, { env: 1, B: 1, timeoutS: 1 });

  const frozen = Object.freeze({ env: Object.freeze({ B: 'frozen' }) });
  const ended = await sandbox.run(Object.freeze(['printenv', 'B']), frozen);
  assert.equal(ended.stdout, 'frozen\n');
});

// ---- ENV-11 ----------------------------------------------------------------

// None of them a program: what matters is that it was taken for one.
const oddCode = [
  '-c',
  '-x',
  '-i',
  '-',
  '--',
  '--version',
  '--help',
  '+x',
  '@file',
  '/dev/stdin',
];

test('ENV-11 code that looks like an option is code', async (t) => {
  const sandbox = await open(t, { trackFiles: false });
  // Beyond what an argument holds bash gets it in another way.
  const filler = `\n#${'x'.repeat(longestString)}`;
  const kernel = await sandbox.kernel({ language: 'bash' });
  for (const code of oddCode) {
    for (const [runner, source] of [
      [sandbox, code],
      [sandbox, code + filler],
      [kernel, code],
    ]) {
      const options = runner === kernel ? {} : { language: 'bash' };
      const bash = await runner.runCode(source, options);
      assert.ok(bash.stderr.startsWith(`bash: line 1: ${code}: `), bash.stderr);
      assert.equal(bash.stderr.split('\n').length, 2, bash.stderr);
      assert.ok([126, 127].includes(bash.exitCode), `${code}: ${bash.stderr}`);
    }
  }
  for (const code of ['-c', '--version', '-', '@file', '-m/x']) {
    for (const language of ['python', 'node']) {
      const { exitCode, error, fault } = await sandbox.runCode(code, {
        language,
      });
      assert.equal(exitCode, 1, `${language}: ${code}`);
      assert.match(error.name, /Error$/, `${language}: ${code}`);
      assert.equal(fault, null);
    }
  }
});

test('ENV-11 code arrives byte by byte: empty, with NUL, separators, and what a shell would read', async (t) => {
  const sandbox = await open(t);
  for (const language of languages) {
    const empty = await sandbox.runCode('', { language });
    assertFinished(empty, language);
    assert.equal(empty.stdout, '');
  }
  const text = 'a\u2028b\u2029c $HOME `id` $(id) ; | & > x * ~ ! \\ " é😀';
  for (const [language, code] of [
    ['python', `print('''${text.replaceAll('\\', '\\\\')}''', end='')`],
    [
      'node',
      `process.stdout.write(String.raw\`${text.replaceAll('`', '${"`"}').replaceAll('$HOME', '${"$"}HOME').replaceAll('$(', '${"$"}(')}\`)`,
    ],
    ['bash', `printf %s '${text}'`],
  ]) {
    const result = await sandbox.runCode(code, { language });
    assertFinished(result, language);
    assert.equal(result.stdout, text, language);
  }
  // A NUL is a character of the code; bash can have none.
  const python = await sandbox.runCode('print(len("a\0b"))');
  assert.equal(python.exitCode, 1);
  assert.match(python.error.name, /Error$/);
  const node = await sandbox.runCode('console.log("a\0b".length)', {
    language: 'node',
  });
  assert.equal(node.stdout, '3\n');
  await assert.rejects(
    sandbox.runCode('echo a\0b', { language: 'bash' }),
    invalid,
  );
  // Nothing of it was a redirection.
  assert.deepEqual(await sandbox.listFiles(), []);
});

test('ENV-11 code up to 64 MiB runs, and more is refused', async (t) => {
  const sandbox = await open(t, { memoryMb: 2048 });
  const mib = soak ? 63 : 2;
  const code = `x = "${'x'.repeat(mib << 20)}"\nprint(len(x))`;
  const result = await sandbox.runCode(code);
  assertFinished(result);
  assert.equal(result.stdout, `${mib << 20}\n`);
  const huge = 'x'.repeat(100 << 20);
  for (const language of languages) {
    const kernel = await sandbox.kernel({ language });
    for (const runner of [sandbox, kernel]) {
      const options = runner === kernel ? {} : { language };
      await assert.rejects(runner.runCode(huge, options), {
        ...invalid,
        message: /at most 67108864 bytes of code/,
      });
    }
  }
});

// ---- ENV-13, ENV-14 --------------------------------------------------------

/** Each call that takes options, with those given. */
function callsOf(sandbox, kernel) {
  return {
    'sandbox.run()': (options) => sandbox.run(['true'], options),
    'sandbox.runCode()': (options) => sandbox.runCode('1', options),
    'sandbox.kernel()': (options) => sandbox.kernel(options),
    'kernel.runCode()': (options) => kernel.runCode('1', options),
    'runCode()': (options) => runCode('1', options),
  };
}

test('ENV-13 there is no hostname, user or group to choose: each is refused by name', async (t) => {
  const sandbox = await open(t);
  const calls = callsOf(sandbox, await sandbox.kernel());
  const values = ['x'.repeat(65), 'a\nb', '', -1, 0, 4294967295, 'root'];
  for (const option of ['hostname', 'uid', 'gid', 'user', 'group']) {
    const refusal = { ...invalid, option };
    for (const value of values) {
      assert.throws(() => new Sandbox({ [option]: value }), refusal);
    }
    // kern-sandbox has an option `user`, whose null is what happens here.
    if (option !== 'user') {
      assert.throws(() => new Sandbox({ [option]: null }), refusal);
    }
    for (const call of Object.values(calls)) {
      await assert.rejects(call({ [option]: 'root' }), refusal);
    }
  }
  // They are what they are for every box.
  const who = await sandbox.run(['sh', '-c', 'id -u; id -g; uname -n']);
  assert.equal(who.stdout, '1000\n1000\nglovebox\n');
});
