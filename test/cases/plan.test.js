// SPDX-License-Identifier: Apache-2.0
'use strict';

// plan() says what a box gets; the box is asked whether it is so. And as a spec
// it makes the same box again.

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const {
  busyDescendants,
  descendants,
  eventually,
  glovebox,
  makeFolder,
  open,
  test,
  timeScale,
} = require('../helpers/harness.js');

const { Sandbox, SandboxError, runCode, withSandbox } = glovebox;

async function readInBox(sandbox, file) {
  const { stdout, exitCode } = await sandbox.run(['cat', file]);
  assert.equal(exitCode, 0, file);
  return stdout;
}

/** By target: how the box's last mount there is. */
function parseMounts(mountinfo) {
  const lines = mountinfo.trim().split('\n');
  return new Map(
    lines.map((line) => {
      const [left, right] = line.split(' - ').map((part) => part.split(' '));
      const target = left[4].replaceAll(/\\(\d{3})/g, (_, octal) =>
        String.fromCharCode(Number.parseInt(octal, 8)),
      );
      const access = left[5].split(',')[0];
      return [target, { access, type: right[0], options: right[2] }];
    }),
  );
}

/** What of a box can be compared with that of another. */
async function lookInside(sandbox) {
  const mounts = parseMounts(await readInBox(sandbox, '/proc/self/mountinfo'));
  const [env, list] = await Promise.all([
    sandbox.run(['env']),
    sandbox.run(['sh', '-c', 'pwd; ulimit -a; ls /; ls -l /etc /dev']),
  ]);
  const status = await readInBox(sandbox, '/proc/self/status');
  // Times, process numbers and counters are each box's own.
  const steady = /^(Uid|Gid|Groups|Cap\w+|NoNewPrivs|Seccomp\w*):.*$/gm;
  return {
    mounts: [...mounts].map(([target, facts]) => ({ target, ...facts })),
    env: env.stdout.split('\n').sort(),
    list: list.stdout.replaceAll(/\w{3} +\d+ +\d\d:\d\d/g, ''),
    status: status.match(steady),
    limits: sandbox.limits,
  };
}

test('the mounts of plan() are those of a box, no less and no more', async (t) => {
  const folder = makeFolder(t);
  const sandbox = await open(t, {
    memoryMb: 320,
    mounts: { [folder]: ['/data', 'rw'], '/usr/share': '/tmp/share' },
  });
  const { box } = await sandbox.plan();
  const real = parseMounts(await readInBox(sandbox, '/proc/self/mountinfo'));

  for (const { target, type, access, sizeBytes } of box.mounts) {
    const found = real.get(target);
    assert.ok(found, `${target} is mounted`);
    if (access !== 'none') assert.equal(found.access, access, target);
    if (type === 'tmpfs' || type === 'proc') {
      assert.equal(found.type, type, target);
    }
    if (sizeBytes) {
      const size = `size=${sizeBytes / 1024}k`;
      assert.ok(found.options.split(',').includes(size), found.options);
    }
  }
  // What is mounted below a folder of the host comes with it.
  const binds = box.mounts.filter(({ type }) => type === 'bind');
  const extra = [...real.keys()].filter(
    (target) =>
      !box.mounts.some((mount) => mount.target === target) &&
      !binds.some((bind) => target.startsWith(`${bind.target}/`)),
  );
  assert.deepEqual(extra, []);
  const hidden = box.mounts.filter(({ type }) => type === 'hidden');
  const shown = await sandbox.run([
    'sh',
    '-c',
    'for f; do if [ -d "$f" ]; then ls -A "$f"; else cat "$f"; fi; done',
    'sh',
    ...hidden.map(({ target }) => target),
  ]);
  assert.notEqual(hidden.length, 0);
  assert.deepEqual([shown.stdout, shown.exitCode], ['', 0], shown.stderr);
});

test('what else plan() says of a box is so', async (t) => {
  const sandbox = await open(t, { pids: 99, env: { COLOR: 'blue' } });
  const { box, spec } = await sandbox.plan();
  const ask = async (...argv) => (await sandbox.run(argv)).stdout.trim();

  assert.equal(await ask('id', '-u'), String(box.user.uid));
  assert.equal(await ask('id', '-g'), String(box.user.gid));
  assert.equal(await ask('id', '-un'), box.user.name);
  assert.equal(await ask('hostname'), box.hostname);
  assert.equal(await ask('pwd'), spec.cwd);
  const env = Object.entries(spec.env).map(
    ([name, value]) => `${name}=${value}`,
  );
  const found = (await ask('sh', '-c', 'exec env')).split('\n');
  const own = /^(PWD|SHLVL|_|OLDPWD)=/; // the shell's
  assert.deepEqual(found.filter((line) => !own.test(line)).sort(), env.sort());

  const status = await ask('cat', '/proc/self/status');
  assert.match(status, /^Seccomp:\s*2$/m);
  for (const set of ['CapEff', 'CapPrm', 'CapBnd', 'CapAmb', 'CapInh']) {
    assert.match(status, new RegExp(`^${set}:\\s*0+$`, 'm'));
  }
  assert.deepEqual(box.capabilities, []);
  const namespaces = { network: 'net', mount: 'mnt' };
  for (const name of box.namespaces) {
    const file = `/proc/self/ns/${namespaces[name] ?? name}`;
    assert.notEqual(await ask('readlink', file), fs.readlinkSync(file), file);
  }
  // Not find(1): to it they are the files that they are bound to.
  const deviceList =
    'for f in /dev/*; do [ -c "$f" ] && ! [ -L "$f" ] && echo "$f"; done';
  const links = fs.readdirSync('/sys/class/net');
  assert.ok(links.length > 0, 'the host has links');
  assert.equal(
    await ask('sh', '-c', 'tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d " "'),
    'lo',
  );
  assert.deepEqual(
    (await ask('sh', '-c', deviceList)).split('\n'),
    [...box.devices].sort(),
  );
  for (const [name, { value, force }] of Object.entries(box.limits)) {
    assert.equal(force, sandbox.limits[name]);
    assert.equal(value, spec.limits[name]);
  }
  assert.equal(box.limits.pids.value, 99);
});

test('the filter of plan() is that of a box', async (t) => {
  const sandbox = await open(t);
  const { filter } = (await sandbox.plan()).box;
  const call = (number) =>
    sandbox.runCode(`
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
result = libc.syscall(${number}, 0, 0, 0, 0)
print(errno.errorcode[ctypes.get_errno()] if result < 0 else 'ok', end='')`);
  const numbers =
    process.arch === 'x64'
      ? { mount: 165, chroot: 161, getpid: 39 }
      : { mount: 40, chroot: 51, getpid: 172 };
  assert.ok(filter.kill.includes('mount'));
  const killed = await call(numbers.mount);
  assert.equal(killed.fault?.type, 'escape_blocked');
  assert.ok(filter.EPERM.includes('chroot'));
  assert.equal((await call(numbers.chroot)).stdout, 'EPERM');
  assert.ok(filter.allow.includes('getpid'));
  assert.equal((await call(numbers.getpid)).stdout, 'ok');
  // io_uring_setup is in no list.
  assert.ok(!JSON.stringify(filter).includes('io_uring'));
  assert.equal((await call(425)).stdout, filter.otherwise);
  assert.ok(filter.arguments.includes('clone'));
  assert.match(filter.sha256, /^[0-9a-f]{64}$/);
  assert.ok(filter.instructions > 100);
});

/** Whether the box of a call was there before it: "ready", or "on demand". */
async function whereFrom(sandbox) {
  const before = descendants().map(({ pid }) => pid);
  const child = sandbox.spawn(['sleep', '1000']);
  await once(child, 'spawn');
  const sleeper = () => busyDescendants().find(({ name }) => name === 'sleep');
  await eventually(sleeper, 'the program does not run');
  const { pid } = sleeper();
  child.kill('SIGKILL');
  await child.wait();
  return before.includes(pid) ? 'ready' : 'on demand';
}

test('where plan() says that boxes come from is where the launcher takes them from', async (t) => {
  const usual = await open(t);
  const awaitReady = (sandbox, what) =>
    eventually(
      async () => (await whereFrom(sandbox)) === 'ready',
      `no box is ready: ${what}`,
      15000,
    );
  const seen = new Set();
  for (const options of [
    {},
    { pids: 256 },
    { pids: 257 },
    { pids: null },
    { memoryMb: 7 },
    { memoryMb: 8 },
    { memoryMb: null },
    { enforceLimits: false },
    { trace: 'blocked' },
    { warm: false },
  ]) {
    const sandbox = await open(t, options);
    const { from, why } = (await sandbox.plan()).box.start.box;
    seen.add(from);
    const what = `${JSON.stringify(options)}: ${why}`;
    // It has the same root, so that boxes wait which the other might get.
    await awaitReady(usual, 'the usual one');
    if (from === 'ready') await awaitReady(sandbox, what);
    else assert.equal(await whereFrom(sandbox), from, what);
  }
  assert.deepEqual([...seen].sort(), ['on demand', 'ready']);
});

test('plan() is plain data, and the same each time', async (t) => {
  const sandbox = await open(t);
  const plan = await sandbox.plan();
  assert.deepEqual(JSON.parse(JSON.stringify(plan)), plan);
  assert.deepEqual(await sandbox.plan(), plan);
  assert.equal(plan.version, 2);
  assert.equal(plan.glovebox, glovebox.version);
});

test('plan() before open() rejects, and after close() still tells', async () => {
  const sandbox = new Sandbox();
  await assert.rejects(sandbox.plan(), { code: 'ERR_SANDBOX_NOT_OPEN' });
  await sandbox.open();
  const plan = await sandbox.plan();
  await sandbox.close();
  assert.deepEqual(await sandbox.plan(), plan);
});

test('a plan given back, as an object or a file, makes the same box', async (t) => {
  const shown = makeFolder(t);
  fs.chmodSync(shown, 0o755);
  fs.mkdirSync(path.join(shown, 'out'));
  fs.writeFileSync(path.join(shown, 'file'), 'shown');
  const options = {
    mounts: {
      [shown]: '/data',
      [path.join(shown, 'out')]: ['/data/out', 'rw'],
      [path.join(shown, 'file')]: '/tmp/deep/file',
    },
    memoryMb: 200,
    pids: 77,
    timeoutS: 21.5,
    maxOutputBytes: 12345,
    env: { ONE: 'a b', TWO: 'ä\n"\\\u0001', __proto__: null },
    trackFiles: false,
  };
  const sandbox = await open(t, options);
  const plan = await sandbox.plan();
  const expected = await lookInside(sandbox);
  const file = path.join(makeFolder(t), 'plan.json');
  fs.writeFileSync(file, JSON.stringify(plan, null, 2));
  const { spec } = plan;
  const withoutBox = { version: 2, spec };
  for (const source of [plan, file, withoutBox]) {
    const again = await open(t, { spec: source });
    assert.deepEqual(await lookInside(again), expected);
    const second = await again.plan();
    assert.deepEqual(second.spec, spec);
    // A temporary workspace is another each time.
    const steady = ({ box }) => ({
      ...box,
      mounts: box.mounts.filter(({ target }) => target !== '/workspace'),
    });
    assert.deepEqual(steady(second), steady(plan));
  }
});

test('each language and a kernel run in a box from a spec', async (t) => {
  const plan = await withSandbox(async (sandbox) => sandbox.plan());
  const sandbox = await open(t, { spec: plan });
  const codes = {
    python: 'print(6 * 7)',
    bash: 'echo 42',
    node: 'console.log(42)',
  };
  for (const [language, code] of Object.entries(codes)) {
    const result = await sandbox.runCode(code, { language });
    assert.equal(result.stdout, '42\n', language);
  }
  const kernel = await sandbox.kernel();
  const cell = await kernel.runCode('6 * 7');
  assert.equal(cell.results[0].text, '42');
  const oneShot = await runCode('echo 42', { spec: plan, language: 'bash' });
  assert.equal(oneShot.stdout, '42\n');
});

test('what is changed in a spec is changed in the box', async (t) => {
  const plan = await withSandbox(async (sandbox) => sandbox.plan());
  const workspace = path.join(makeFolder(t), 'kept');
  const { spec } = plan;
  spec.entries.push({ kind: 'file', target: '/etc/motto', data: 'be strict' });
  spec.entries.push({ kind: 'dir', target: '/srv/empty' });
  spec.env = { PATH: spec.env.PATH, ONLY: 'this' };
  spec.cwd = '/etc';
  spec.limits.memoryMb = 64;
  spec.workspace = workspace;
  spec.runtimes.node = null;
  const sandbox = await open(t, { spec: plan });
  const ask = async (script) =>
    (await sandbox.run(['bash', '-c', script])).stdout.trim();
  assert.equal(
    await ask('cat motto; echo; pwd; ls -A /srv'),
    'be strict\n/etc\nempty',
  );
  assert.equal(await ask('echo $HOME$ONLY'), 'this');
  assert.equal(await ask('df -k --output=size /tmp | tail -1'), '32768');
  await ask('echo hi > /workspace/greeting');
  assert.equal(
    fs.readFileSync(path.join(workspace, 'greeting'), 'utf8'),
    'hi\n',
  );
  await assert.rejects(sandbox.runCode('1', { language: 'node' }), {
    code: 'ERR_SANDBOX_RUNTIME_MISSING',
    message: /spec\.runtimes\.node is null/,
  });
  const hasty = { ...plan, spec: { ...spec, timeoutS: 0.5 } };
  const slow = await (await open(t, { spec: hasty })).run(['sleep', '20']);
  assert.equal(slow.fault?.type, 'timeout');
  // A call's own variables still come on top.
  const more = await sandbox.run(['sh', '-c', 'echo $ONLY$MORE'], {
    env: { MORE: ' and that' },
  });
  assert.equal(more.stdout, 'this and that\n');
});

test('a spec has the targets of mounts that an option has', async () => {
  const plan = await withSandbox(async (sandbox) => sandbox.plan());
  plan.spec.mounts = { '/srv': ['/proc', 'ro'] };
  await assert.rejects(new Sandbox({ spec: plan }).open(), {
    code: 'ERR_SANDBOX_MOUNT_REFUSED',
    rule: 'target',
  });
  plan.spec.mounts = { '/etc': ['/data', 'ro'] };
  await assert.rejects(new Sandbox({ spec: plan }).open(), {
    code: 'ERR_SANDBOX_MOUNT_REFUSED',
    rule: 'system',
    source: '/etc',
  });
});

test('ATK-KEYS a spec of very many wrong keys is refused at the first', async () => {
  const keys = Array.from({ length: 50_000 }, (_, i) => [i.toString(36), 1]);
  const start = Date.now();
  await assert.rejects(
    new Sandbox({
      spec: { version: 2, spec: Object.fromEntries(keys) },
    }).open(),
    /spec\.0: expected no such key/,
  );
  // All compared with all would be half a minute.
  assert.ok(Date.now() - start < 8000 * timeScale, `${Date.now() - start} ms`);
});

test('the part `spec` of a plan is refused with what to give instead', async () => {
  const { spec } = await withSandbox(async (sandbox) => sandbox.plan());
  const file = path.join(os.tmpdir(), `plan-part-${process.pid}.json`);
  fs.writeFileSync(file, JSON.stringify(spec));
  try {
    for (const source of [spec, file]) {
      await assert.rejects(new Sandbox({ spec: source }).open(), {
        code: 'ERR_SANDBOX_INVALID_OPTION',
        message:
          /is wrong: .*\. This is the part `spec` of a plan: give all that/,
      });
    }
  } finally {
    fs.rmSync(file);
  }
  // Nobody else is told so.
  for (const source of [{}, { version: 2 }, { spec }, { entries: 1, spec }]) {
    await assert.rejects(
      new Sandbox({ spec: source }).open(),
      ({ message }) => !message.includes('the part'),
    );
  }
});

test('a spec that is wrong is refused with the place in it', async () => {
  const good = await withSandbox(async (sandbox) => sandbox.plan());
  const before = fs.readdirSync(os.tmpdir());
  const cases = [
    [(plan) => delete plan.version, /version: expected 2.*received nothing/],
    [(plan) => (plan.version = 1), /version: expected 2.*received 1/],
    [(plan) => (plan.glovebox = 5), /glovebox: expected a string, received 5/],
    [(plan) => (plan.specs = 1), / specs: expected no such key/],
    [(plan) => delete plan.spec, / spec: expected an object, received nothing/],
    [({ spec }) => (spec.memoryMb = 5), /spec\.memoryMb: expected no such key/],
    [({ spec }) => delete spec.env, /spec\.env: expected an object of strings/],
    [
      ({ spec }) => (spec.limits.memoryMb = 'much'),
      /spec\.limits\.memoryMb: expected a whole number 1 to 2147483648, or null, received a string/,
    ],
    [({ spec }) => (spec.limits.memoryMb = 0), /memoryMb: .* received 0/],
    [({ spec }) => (spec.limits.pids = 1.5), /pids: .* received 1\.5/],
    [({ spec }) => delete spec.limits.cpus, /cpus: .* received nothing/],
    [({ spec }) => (spec.timeoutS = null), /timeoutS: .* received null/],
    [({ spec }) => (spec.warm = 1), /spec\.warm: expected true or false/],
    [({ spec }) => delete spec.network, /spec\.network: .* received nothing/],
    [({ spec }) => delete spec.preload, /spec\.preload: expected an array of/],
    [({ spec }) => (spec.preload = [5]), /spec\.preload\[0\]: expected a str/],
    [({ spec }) => (spec.workspace = 'x'), /spec\.workspace: expected an abs/],
    [({ spec }) => delete spec.mounts, /spec\.mounts: expected an object of/],
    [({ spec }) => (spec.mounts = []), /spec\.mounts: .* received an array/],
    [
      ({ spec }) => (spec.mounts = { '/a': '/b' }),
      /spec\.mounts\.\/a: expected an array of a target and "ro" or "rw", rec/,
    ],
    [
      ({ spec }) => (spec.mounts = { '/a': ['/b', 'wr'] }),
      /spec\.mounts\.\/a: expected "ro" or "rw"/,
    ],
    [
      ({ spec }) => (spec.mounts = { a: ['/b', 'ro'] }),
      /spec\.mounts\.a: expected an absolute path as the key/,
    ],
    [
      ({ spec }) => (spec.mounts = { '/a': ['/b/../c', 'ro'] }),
      /spec\.mounts\.\/a: expected an absolute path without/,
    ],
    [({ spec }) => (spec.cwd = ''), /spec\.cwd: .* received an empty string/],
    [({ spec }) => (spec.runtimes.ruby = null), /spec\.runtimes\.ruby: /],
    [
      ({ spec }) => (spec.entries = []),
      /spec\.entries: expected an array that/,
    ],
    [
      ({ spec }) => (spec.entries[2] = { kind: 'bind', target: '/a' }),
      /spec\.entries\[2\]\.source: expected an absolute path, received nothing/,
    ],
    [({ spec }) => (spec.entries[0].kind = 'link'), /entries\[0\]\.kind: exp/],
    [({ spec }) => (spec.entries[0] = null), /entries\[0\]: expected an obj/],
    [
      ({ spec }) => spec.entries.push({ kind: 'dir', target: '/a/../b' }),
      /target: expected an absolute path without "\." and "\.\."/,
    ],
    [({ spec }) => (spec.env['A=B'] = ''), /spec\.env\.A=B: expected a name/],
    [({ spec }) => (spec.env.A = 5), /spec\.env\.A: expected a string/],
    [
      ({ spec }) => (spec.env.A = 'a\0b'),
      /byte \d+: expected text without NUL/,
    ],
  ];
  for (const [change, message] of cases) {
    const plan = structuredClone(good);
    change(plan);
    await assert.rejects(
      new Sandbox({ spec: plan }).open(),
      { code: 'ERR_SANDBOX_INVALID_OPTION', option: 'spec', message },
      String(message),
    );
  }
  assert.deepEqual(fs.readdirSync(os.tmpdir()), before);
});

test('a spec file that is none is refused, whatever it is', async (t) => {
  const folder = makeFolder(t);
  const file = path.join(folder, 'spec.json');
  const deep = '['.repeat(100000);
  const texts = [
    ['', /byte 0: expected JSON/],
    ['{"version": 2,', /expected JSON/],
    ['{"version": 2} {}', /byte 14: expected the end of the file/],
    ['[]', /the file: expected an object, received an array/],
    ['{"version":2,"spec":{},"spec":{}}', / spec: expected the key once/],
    [deep, /byte 32: expected at most 32 levels/],
    [Buffer.from([0x7b, 0xff]), /byte 1: expected UTF-8/],
    ['{}\0', /byte 2: expected text without NUL/],
    [' '.repeat(2 ** 20 + 1), /the file: expected at most 1 MiB/],
  ];
  for (const [text, message] of texts) {
    fs.writeFileSync(file, text);
    await assert.rejects(new Sandbox({ spec: file }).open(), (error) => {
      assert.ok(error instanceof SandboxError);
      assert.equal(error.code, 'ERR_SANDBOX_INVALID_OPTION');
      assert.match(error.message, message);
      assert.ok(error.message.includes(JSON.stringify(file)), error.message);
      return true;
    });
  }
  execFileSync('mkfifo', [path.join(folder, 'pipe')]);
  const others = [
    ['missing', /cannot be read: ENOENT/],
    ['pipe', /is not a regular file/],
    ['.', /is not a regular file/],
  ];
  for (const [name, message] of others) {
    const spec = path.join(folder, name);
    await assert.rejects(new Sandbox({ spec }).open(), { message });
  }
});

test('an option beside a spec is refused, and a callback is not', async (t) => {
  const plan = await withSandbox(async (sandbox) => sandbox.plan());
  for (const other of [{ memoryMb: 5 }, { env: {} }, { workspace: null }]) {
    const [name] = Object.keys(other);
    assert.throws(() => new Sandbox({ spec: plan, ...other }), {
      code: 'ERR_SANDBOX_INVALID_OPTION',
      option: name,
      message: new RegExp(
        `^Expected no ${name} beside spec, received .*: change it in the spec$`,
      ),
    });
  }
  for (const spec of ['', 5, [], 'a\0', () => {}]) {
    assert.throws(() => new Sandbox({ spec }), { option: 'spec' });
  }
  const cycle = {};
  cycle.self = cycle;
  assert.throws(() => new Sandbox({ spec: cycle }), /plain data/);
  let seen = '';
  const sandbox = await open(t, {
    spec: plan,
    pids: undefined,
    trace: null,
    onStdout: (chunk) => {
      seen += chunk;
    },
  });
  await sandbox.run(['echo', 'live']);
  assert.equal(seen, 'live\n');
});
