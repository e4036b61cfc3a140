// SPDX-License-Identifier: Apache-2.0
'use strict';

// Wrong options and arguments: each is refused by its name, with what was
// expected and what came, before anything has started.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const {
  busyDescendants,
  eventually,
  glovebox,
  open,
  test,
} = require('../helpers/harness.js');

const { Sandbox, SandboxError, runCode, withSandbox } = glovebox;

// `[wrong value, what the message says of it]`.
const notNumbers = [
  ['5', '"5" (string)'],
  [true, 'true (boolean)'],
  [Number.NaN, 'NaN (number)'],
  [{}, 'an object'],
  [[], 'an array of 0'],
  [5n, '5n (bigint)'],
];

function numbers(expected, ...outOfRange) {
  const wrong = outOfRange.map((value) => [value, `${value} (number)`]);
  return { expected, wrong: [...notNumbers, ...wrong] };
}

function wrongValues(expected, ...wrong) {
  return { expected, wrong };
}

const timeouts = [0, 0.0009, -1, 31536001, Number.POSITIVE_INFINITY];
const timeout = numbers('seconds, 0.001–31536000', ...timeouts);
const booleans = wrongValues(
  'true or false',
  [1, '1 (number)'],
  ['true', '"true" (string)'],
  [null, 'null'],
);
const callbacks = wrongValues(
  'a function, or null for none',
  ['log', '"log" (string)'],
  [{}, 'an object'],
  [false, 'false (boolean)'],
);
const trace = wrongValues(
  '"blocked", or null for none',
  ['all', '"all" (string)'],
  [true, 'true (boolean)'],
);
const environment = wrongValues(
  'an object of strings',
  ['A=b', '"A=b" (string)'],
  [null, 'null'],
  [['A=b'], 'an array of 1'],
);

const sessionOptions = {
  timeoutS: {
    ...timeout,
    wrong: [...timeout.wrong, [null, 'null']],
  },
  memoryMb: numbers(
    'MiB, a whole number 1–2147483648, or null to lift the limit',
    ...[0, -1, 1.5, 2 ** 31 + 1, Number.POSITIVE_INFINITY],
  ),
  cpus: numbers(
    'cores, 0.01–1024, or null to lift the limit',
    ...[0, 0.009, 1025, -1],
  ),
  pids: numbers(
    'processes, a whole number 1–4194304, or null to lift the limit',
    ...[0, 1.5, 4194305],
  ),
  maxOutputBytes: numbers(
    'bytes, a whole number 0–536870888',
    ...[-1, 0.5, 536870889],
  ),
  enforceLimits: booleans,
  trace,
  trackFiles: booleans,
  warm: booleans,
  preload: wrongValues(
    'an array of at most 64 names of Python modules',
    ['json', '"json" (string)'],
    [null, 'null'],
    [Array(65).fill('json'), 'an array of 65'],
  ),
  workspace: wrongValues(
    'the path of a folder, without NUL, or null for a temporary one',
    ['', '"" (string)'],
    ['a\0b', '"a\\u0000b" (string)'],
    [5, '5 (number)'],
    [new URL('file:///tmp'), 'an object'],
  ),
  env: environment,
  runtimes: wrongValues(
    'an object with python, bash, node',
    ['/usr/bin/python3', '"/usr/bin/python3" (string)'],
    [null, 'null'],
    [{ ruby: '/usr/bin/ruby' }, 'the key "ruby"'],
  ),
  capDrop: wrongValues(
    'an array of strings',
    ['ALL', '"ALL" (string)'],
    [[1], 'an array of 1'],
  ),
  onStdout: callbacks,
  onStderr: callbacks,
  onResult: callbacks,
};

const callOptions = {
  timeoutS: {
    expected: 'seconds, 0.001–31536000, or null to inherit',
    wrong: timeout.wrong,
  },
  env: environment,
  trace,
  onStdout: callbacks,
  onStderr: callbacks,
  onResult: callbacks,
};

const languages = wrongValues(
  '"python", "bash" or "node"',
  ['ruby', '"ruby" (string)'],
  ['Python', '"Python" (string): say "python"'],
  [null, 'null'],
  [1, '1 (number)'],
);

const unknownNames = [
  // Misspelt, or spelt as elsewhere.
  ['timoutS', 'did you mean timeoutS?'],
  ['timeout_s', 'did you mean timeoutS?'],
  ['onstdout', 'did you mean onStdout?'],
  // Renamed: other units, other sandboxes.
  ['timeout', 'did you mean timeoutS, in seconds?'],
  ['timeoutMs', 'did you mean timeoutS, in seconds (milliseconds / 1000)?'],
  ['envVars', 'did you mean env?'],
  ['maxBuffer', 'did you mean maxOutputBytes, in bytes?'],
  // Nothing like it.
  ['colour', 'Unknown option "colour"'],
  ['a\nb', 'Unknown option "a\\nb"'],
];

// Everything that takes options: the way to call it, its options and a good
// first argument.
const places = {
  'new Sandbox()': {
    call: (_, options) => new Sandbox(options),
    options: sessionOptions,
  },
  'withSandbox()': {
    call: (_, options) => withSandbox(options, () => assert.fail('called')),
    options: sessionOptions,
  },
  'runCode()': {
    call: (_, options) => runCode('1', options),
    options: {
      ...sessionOptions,
      timeoutS: {
        expected: 'seconds, 0.001–31536000, or null for the default',
        wrong: timeout.wrong,
      },
      language: languages,
    },
  },
  'sandbox.runCode()': {
    call: ({ sandbox }, options) => sandbox.runCode('1', options),
    options: { ...callOptions, language: languages },
  },
  'sandbox.run()': {
    call: ({ sandbox }, options) => sandbox.run(['true'], options),
    options: callOptions,
  },
  'sandbox.kernel()': {
    call: ({ sandbox }, options) => sandbox.kernel(options),
    options: callOptions,
  },
  'kernel.runCode()': {
    call: ({ kernel }, options) => kernel.runCode('1', options),
    options: {
      timeoutS: callOptions.timeoutS,
      onStdout: callbacks,
      onStderr: callbacks,
      onResult: callbacks,
    },
  },
};

/** The error of a call that throws or rejects. */
async function refusal(call) {
  try {
    await call();
  } catch (error) {
    assert.ok(error instanceof SandboxError, error.stack);
    assert.equal(error.code, 'ERR_SANDBOX_INVALID_OPTION', error.message);
    return error;
  }
  return assert.fail('nothing was refused');
}

/** A sandbox and a kernel that idle, and a check that nothing else started. */
async function openIdle(t) {
  const sandbox = await open(t);
  const kernel = await sandbox.kernel();
  // Boxes that are made ahead of need are there by then, or made meanwhile:
  // what must not appear is a program or an interpreter.
  const programs = () =>
    busyDescendants()
      .map(({ pid, name }) => `${pid} ${name}`)
      .sort();
  // The kernel's interpreter, and the one that watches it. One that will wait is
  // named so when it is up.
  await eventually(
    () => programs().length === 2,
    () => `${programs()}`,
  );
  const before = programs();
  return {
    sandbox,
    kernel,
    async checkNothingStarted() {
      assert.deepEqual(programs(), before);
      assert.deepEqual(await sandbox.listFiles(), []);
      assert.equal((await kernel.runCode('1 + 1')).results[0].text, '2');
    },
  };
}

for (const [place, { call, options }] of Object.entries(places)) {
  test(`${place} refuses a wrong value of each option by name, and starts nothing`, async (t) => {
    const idle = await openIdle(t);
    for (const [option, { expected, wrong }] of Object.entries(options)) {
      for (const [value, received] of wrong) {
        const error = await refusal(() => call(idle, { [option]: value }));
        const label = `${option}: ${received}: ${error.message}`;
        assert.equal(error.option, option, label);
        assert.equal(error.expected, expected, label);
        assert.equal(error.received, received, label);
        for (const part of [option, expected, received]) {
          assert.ok(error.message.includes(part), label);
        }
      }
    }
    await idle.checkNothingStarted();
  });

  test(`${place} refuses a misspelt, renamed or unknown option by name`, async (t) => {
    const idle = await openIdle(t);
    for (const [name, hint] of unknownNames) {
      const meant = /did you mean (\w+)/.exec(hint)?.[1];
      const isPossible = meant === undefined || Object.hasOwn(options, meant);
      const error = await refusal(() => call(idle, { [name]: 1 }));
      assert.equal(error.option, name);
      assert.ok(error.message.includes(JSON.stringify(name)), error.message);
      if (isPossible) assert.ok(error.message.includes(hint), error.message);
    }
    for (const options of [null, 5, 'python', [], true]) {
      const error = await refusal(() => call(idle, options));
      assert.match(error.message, /^Expected .* for (options|fn), received /);
    }
    await idle.checkNothingStarted();
  });

  if (!options.env) continue;
  test(`${place} refuses an environment variable that no process can have, by its name`, async (t) => {
    const idle = await openIdle(t);
    const wrong = [
      [
        { SECRET_KEY: 'hush\0hush' },
        'env["SECRET_KEY"]',
        'a string with a NUL',
      ],
      [{ SECRET_KEY: 5 }, 'env["SECRET_KEY"]', 'a value of type number'],
      [
        { SECRET_KEY: undefined },
        'env["SECRET_KEY"]',
        'a value of type undefined',
      ],
      [{ 'A=B': 'hush' }, 'env["A=B"]', '"A=B" (string)'],
      [{ '': 'hush' }, 'env[""]', '"" (string)'],
      [{ 'A\0': 'hush' }, 'env["A\\u0000"]', '"A\\u0000" (string)'],
      [{ A: '\ud800' }, 'env["A"]', 'a string with an unpaired surrogate'],
      [{ A: 'hush'.repeat(40000) }, 'env["A"]', '160002 bytes'],
    ];
    for (const [env, option, received] of wrong) {
      const error = await refusal(() => call(idle, { env }));
      assert.equal(error.option, option);
      assert.equal(error.received, received);
      // Where people keep secrets.
      assert.ok(!error.message.includes('hush'), error.message);
    }
    await idle.checkNothingStarted();
  });
}

test('an option that is not built yet is refused by name, its idle value accepted', async () => {
  const unbuilt = {
    depsReadonly: { idle: false, wanted: true },
    securityProfile: { idle: 'default', wanted: 'untrusted' },
    image: { idle: 'host', wanted: 'python:3.12-slim' },
    setup: { idle: null, wanted: 'pip install x' },
    egressAllow: { idle: null, wanted: ['example.com'] },
    seccompProfile: { idle: null, wanted: '/x.json' },
  };
  for (const [option, { idle, wanted }] of Object.entries(unbuilt)) {
    const error = await refusal(() => new Sandbox({ [option]: wanted }));
    assert.equal(error.option, option);
    assert.match(
      error.message,
      new RegExp(`^${option}( of a single call)? is not built yet`),
    );
    new Sandbox({ [option]: idle });
  }
});

test('an option of another place is refused with the place that has it', async (t) => {
  const { sandbox, kernel, checkNothingStarted } = await openIdle(t);
  const misplaced = [
    [() => sandbox.runCode('1', { workspace: '/tmp' }), 'new Sandbox()'],
    [() => sandbox.run(['true'], { language: 'bash' }), 'sandbox.runCode()'],
    [() => kernel.runCode('1', { env: {} }), 'sandbox.kernel()'],
    [() => new Sandbox({ language: 'bash' }), 'sandbox.runCode()'],
  ];
  for (const [call, place] of misplaced) {
    const error = await refusal(call);
    assert.ok(
      error.message.includes(`is an option of ${place}, not of `),
      error.message,
    );
  }
  await checkNothingStarted();
});

test('wrong arguments are refused by name', async (t) => {
  const { sandbox, kernel, checkNothingStarted } = await openIdle(t);
  const code = [undefined, null, 5, Buffer.from('1'), ['1']];
  const wrong = [
    ...code.flatMap((value) => [
      [() => runCode(value), 'code'],
      [() => sandbox.runCode(value), 'code'],
      [() => kernel.runCode(value), 'code'],
    ]),
    [() => sandbox.runCode('a\0b', { language: 'bash' }), 'code'],
    [() => sandbox.runCode('\ud800', { language: 'bash' }), 'code'],
    [() => sandbox.run(), 'argv'],
    [() => sandbox.run('ls -l'), 'argv'],
    [() => sandbox.run([]), 'argv'],
    [() => sandbox.run(['']), 'argv[0]'],
    [() => sandbox.run(['echo', 5]), 'argv[1]'],
    [() => sandbox.run(['echo', 'a\0b']), 'argv[1]'],
    [() => sandbox.run(['echo', 'x'.repeat(131072)]), 'argv[1]'],
    [() => sandbox.run(['echo', '\udc00']), 'argv[1]'],
    // biome-ignore lint/suspicious/noSparseArray: a hole is the wrong value
    [() => sandbox.run(['echo', , 'x']), 'argv[1]'],
    [() => sandbox.writeFile(5, 'x'), 'path'],
    [() => sandbox.writeFile('f', 5), 'data'],
    [() => sandbox.writeFile('f'), 'data'],
    [() => sandbox.writeFile('f', [1, 2]), 'data'],
    [() => sandbox.writeFile('f', new ArrayBuffer(4)), 'data'],
    [() => sandbox.readFile(), 'path'],
    [() => sandbox.readFile('f', { maxBytes: -1 }), 'maxBytes'],
    [() => sandbox.readFile('f', { encoding: 'utf-9' }), 'encoding'],
    [() => sandbox.readFile('f', 'utf-9'), 'encoding'],
    [() => sandbox.readFile('f', { maxbytes: 1 }), 'maxbytes'],
    [() => sandbox.listFiles(5), 'path'],
    [() => withSandbox(), 'fn'],
    [() => withSandbox({}, 'fn'), 'fn'],
    [() => new glovebox.Kernel(), 'new Kernel()'],
  ];
  for (const [call, option] of wrong) {
    const error = await refusal(call);
    assert.equal(error.option, option, `${call}: ${error.message}`);
    assert.ok(error.message.includes(option), error.message);
  }
  await checkNothingStarted();
});

test('what is wrong about a session is known before its workspace is made', async () => {
  const workspace = path.join(os.tmpdir(), `cases-misuse-${process.pid}`);
  await refusal(() => runCode('1', { workspace, language: 'ruby' }));
  await refusal(() => runCode(5, { workspace }));
  await refusal(() => withSandbox({ workspace, pids: 0 }, () => {}));
  assert.ok(!fs.existsSync(workspace));
});

test('options are read once: to change them later changes nothing', async (t) => {
  const env = { A: 'first' };
  const options = { env, timeoutS: 30 };
  const sandbox = await open(t, options);
  env.A = 'second';
  options.timeoutS = 0.001;
  const argv = ['printenv', 'A'];
  const call = sandbox.run(argv);
  argv[1] = 'HOME';
  assert.equal((await call).stdout, 'first\n');
});
