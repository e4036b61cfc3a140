// SPDX-License-Identifier: Apache-2.0
'use strict';

// The option `preload`: modules that calls find imported, what an import may
// not leave behind, and what plan() says of how calls start.

const assert = require('node:assert/strict');
const { execFileSync, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const {
  busyDescendants,
  descendants,
  eventually,
  glovebox,
  hasCgroups,
  open,
  refusal,
  skip,
  test,
} = require('../helpers/harness.js');

const { Sandbox, withSandbox } = glovebox;

/** A spec of a box that has Python modules of ours, by name. */
async function specWith(modules, preload, change = () => {}) {
  const plan = await withSandbox((sandbox) => sandbox.plan());
  const { spec } = plan;
  spec.preload = preload;
  spec.env.PYTHONPATH = '/opt/modules';
  spec.entries.push({ kind: 'dir', target: '/opt/modules' });
  for (const [name, data] of Object.entries(modules)) {
    spec.entries.push({
      kind: 'file',
      target: `/opt/modules/${name}.py`,
      data,
    });
  }
  change(spec);
  return plan;
}

/** What the code prints, of a call that goes well. */
async function prints(sandbox, code, options) {
  const { stdout, stderr, exitCode } = await sandbox.runCode(code, options);
  assert.equal(exitCode, 0, stderr);
  return stdout.trim();
}

const isLoaded = (name) =>
  `import sys; print(${JSON.stringify(name)} in sys.modules)`;

test('each call finds the modules of preload imported, and a kernel too', async (t) => {
  const preload = ['xml.dom.minidom', 'sqlite3', 'asyncio'];
  const sandbox = await open(t, { preload });
  const plain = await open(t);

  for (const name of preload) {
    assert.equal(await prints(plain, isLoaded(name)), 'False');
    // A burst too, which no two boxes that wait can serve.
    const calls = Array.from({ length: 4 }, () =>
      prints(sandbox, isLoaded(name)),
    );
    assert.deepEqual([...new Set(await Promise.all(calls))], ['True'], name);
  }
  const kernel = await sandbox.kernel();
  const cell = await kernel.runCode(isLoaded('sqlite3'));
  assert.equal(cell.stdout, 'True\n');
  assert.equal(
    await prints(
      sandbox,
      'import asyncio, sqlite3\n' +
        'print(sqlite3.connect(":memory:").execute("select 6*7").fetchone()[0])\n' +
        'async def f(): return 1\nprint(await f())',
    ),
    '42\n1',
  );
});

test('what one call does to a preloaded module the next does not see', async (t) => {
  const sandbox = await open(t, { preload: ['decimal'] });
  const code =
    'import decimal\nprint(getattr(decimal, "mark", "clean"))\ndecimal.mark = "left"';
  for (let i = 0; i < 5; i++)
    assert.equal(await prints(sandbox, code), 'clean');
});

test('open() says which module of preload cannot be imported, and why', async () => {
  const error = await refusal({
    preload: ['json', 'no_such_module', 'decimal'],
  });

  assert.equal(error.code, 'ERR_SANDBOX_PRELOAD');
  assert.equal(
    error.message,
    'The modules of `preload` could not be imported: import no_such_module: ' +
      `ModuleNotFoundError: No module named 'no_such_module'. ${error.remedy}`,
  );
  assert.match(
    error.remedy,
    /^Install it for \/\S*python\S*, or name an interpreter that has it: `runtimes: /,
  );
  assert.equal(error.step, 'import');
});

test('an import that ends, prints, reads or leaves something behind is dealt with', async (t) => {
  const modules = {
    ends: 'import sys\nsys.exit(3)',
    ends_hard: 'import os\nos._exit(3)',
    crashes: 'import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)',
    fails: 'raise ValueError("line 1\\nline 2")',
    long: 'raise ValueError("x" * 5000)',
    starts:
      'import threading, time\n' +
      'threading.Thread(target=time.sleep, args=(9,), name="beat", daemon=True).start()',
    opens: 'file = open("/etc/hostname")',
    maps: 'import mmap\npage = mmap.mmap(-1, 4096)',
    maps_read_only:
      'import mmap\npage = mmap.mmap(-1, 4096, prot=mmap.PROT_READ)',
    maps_a_file:
      'import mmap\nwith open("/etc/passwd", "rb") as file:\n' +
      '    page = mmap.mmap(file.fileno(), 1, prot=mmap.PROT_READ)',
    locks: 'import multiprocessing\nlock = multiprocessing.Lock()',
    attaches:
      'import ctypes\nlibc = ctypes.CDLL(None)\n' +
      'libc.shmat.restype = ctypes.c_void_p\n' +
      'libc.shmat(libc.shmget(0, 4096, 0o1600), None, 0)',
    speaks:
      'import os, sys\nprint("printed")\nsys.stderr.write("written")\n' +
      'os.write(1, b"raw" * 100000)\nread = sys.stdin.read()',
    writes:
      'import os, tempfile\nfolder = tempfile.mkdtemp()\n' +
      'open(os.path.expanduser("~/cache"), "w").close()',
    looks: 'import os\nseen = os.environ.get("SEEN")',
  };
  const expected = {
    ends: /: import ends: SystemExit: 3$/,
    ends_hard: /: interpreter has ended in an import with exit code 3$/,
    crashes: /: interpreter was ended in an import by signal 11$/,
    fails: /: import fails: ValueError: line 1 line 2$/,
    long: /: import long: ValueError: x{100,}$/,
    starts:
      /: import starts: the import starts a thread \(beat\), which no call/,
    maps: /: interpreter has mapped memory in an import that all calls would share \(\/dev\/zero/,
    maps_read_only: /memory .* that all calls would share/,
    maps_a_file: /: descriptor \d+ is left open by the import/,
    locks: /memory .* that all calls would share \(\/dev\/shm\/sem/,
    attaches: /memory .* that all calls would share/,
    opens: /: import opens: descriptor \d+ is left open by the import/,
  };
  for (const [name, message] of Object.entries(expected)) {
    const error = await refusal({ spec: await specWith(modules, [name]) });
    assert.equal(error.code, 'ERR_SANDBOX_PRELOAD', name);
    assert.match(error.message, message);
  }
  const spec = await specWith(
    modules,
    ['speaks', 'writes', 'looks'],
    (made) => {
      made.env.SEEN = 'yes';
    },
  );
  const sandbox = await open(t, { spec });
  const result = await sandbox.runCode(
    'import looks, speaks, writes, os\n' +
      'print(repr(speaks.read), looks.seen, os.path.exists(writes.folder), os.listdir("/home/user"))',
  );
  assert.equal(result.stdout, "'' yes False []\n");
  assert.equal(result.stderr, '');
});

test('an import that hangs is given up, by Python or else by its watchdog', async (t) => {
  const driver = path.join(__dirname, '../../lib/runtimes/python');
  const folder = fs.mkdtempSync(path.join(process.env.TMPDIR, 'modules-'));
  t.after(() => fs.rmSync(folder, { recursive: true }));
  fs.writeFileSync(`${folder}/sleeps.py`, 'import time\ntime.sleep(600)');
  fs.writeFileSync(
    `${folder}/stuck.py`,
    'import ctypes, signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\n' +
      'ctypes.CDLL(None).sleep(600)',
  );
  const importModule = (name) =>
    spawnSync('python3', [
      '-c',
      `import sys\nsys.argv = ["driver.py"]\nsys.path[:0] = [${JSON.stringify(folder)}, "x"]\n` +
        `source = open("${driver}/driver.py").read()\n` +
        `scope = {"__name__": "driver", "__file__": "${driver}/driver.py"}\n` +
        'sys.path.insert(0, "")\nexec(source, scope)\n' +
        'preloading = scope["load"]("preloading")\npreloading.GRACE_S = 0.3\n' +
        `try:\n    preloading.preload(["${name}"], 0.3)\n` +
        'except preloading.PreloadError as error:\n    print(error.module, error)',
    ]);
  const sleeps = importModule('sleeps');
  assert.equal(
    String(sleeps.stdout),
    'sleeps it takes too long\n',
    String(sleeps.stderr),
  );
  const stuck = importModule('stuck');
  assert.deepEqual(
    [stuck.status, String(stuck.stdout)],
    [1, ''],
    String(stuck.stderr),
  );
});

test('modules of the workspace are not preloaded', async (t) => {
  const workspace = fs.mkdtempSync(path.join(process.env.TMPDIR, 'work-'));
  t.after(() => fs.rmSync(workspace, { recursive: true }));
  fs.chmodSync(workspace, 0o777);
  fs.writeFileSync(`${workspace}/own.py`, 'print("imported")');
  const error = await refusal({ preload: ['own'], workspace });
  assert.match(error.message, /: import own: ModuleNotFoundError: /);

  // A call finds it.
  const sandbox = await open(t, { preload: ['json'], workspace });
  assert.equal(await prints(sandbox, 'import own'), 'imported');
});

test('what is random differs from call to call with preloaded modules', async (t) => {
  const preload = ['multiprocessing', 'random', 'tempfile', 'uuid'];
  const sandbox = await open(t, { preload });
  const seen = new Set();
  for (let i = 0; i < 8; i++) {
    const line = await prints(
      sandbox,
      'import multiprocessing, random, tempfile, uuid\n' +
        'print(random.random(), tempfile.mkdtemp(), uuid.uuid4(), uuid.uuid1(),\n' +
        '      multiprocessing.current_process().authkey.hex())',
    );
    for (const part of line.split(' ')) seen.add(part);
  }
  assert.equal(seen.size, 8 * 5);
});

test('libraries that the driver mends are mended when they are preloaded', async (t) => {
  const preload = ['inspect', 'linecache', 'multiprocessing.spawn'];
  const sandbox = await open(t, { preload });
  assert.equal(
    await prints(
      sandbox,
      'import inspect\nclass A:\n    x = 1\nprint(inspect.getsource(A))',
    ),
    'class A:\n    x = 1',
  );
});

/** A Python with numpy, if any is there. */
function pythonWithNumpy() {
  return ['python3', '/usr/bin/python3']
    .map((name) =>
      spawnSync(name, ['-c', 'import numpy, sys; print(sys.executable)']),
    )
    .filter(({ status }) => status === 0)
    .map(({ stdout }) => String(stdout).trim())[0];
}

const python = pythonWithNumpy();

test('numpy is preloaded, calculates in threads, and is seeded anew', async (t) => {
  if (python === undefined) return skip(t, 'no Python here has numpy');
  const sandbox = await open(t, { preload: ['numpy'], runtimes: { python } });
  const code =
    'import sys\nprint("numpy" in sys.modules)\nimport numpy\n' +
    'a = numpy.random.rand(200, 200)\nprint(abs((a @ numpy.linalg.inv(a)).trace() - 200) < 1)\n' +
    'print(a[0, 0])';
  const firsts = new Set();
  for (let i = 0; i < 4; i++) {
    const [loaded, right, first] = (await prints(sandbox, code)).split('\n');
    assert.deepEqual([loaded, right], ['True', 'True']);
    firsts.add(first);
  }
  assert.equal(firsts.size, 4);
});

test('sessions that open at once with one preload share it, or its error', async (t) => {
  const preload = ['csv', 'decimal'];
  const both = await Promise.all([open(t, { preload }), open(t, { preload })]);
  for (const sandbox of both) {
    assert.equal(await prints(sandbox, isLoaded('csv')), 'True');
  }
  const errors = await Promise.all([
    refusal({ preload: ['no_such_module'] }),
    refusal({ preload: ['no_such_module'] }),
  ]);
  for (const error of errors) assert.equal(error.code, 'ERR_SANDBOX_PRELOAD');
});

test('a session with preload is closed while it opens', async () => {
  const sandbox = new Sandbox({ preload: ['asyncio', 'sqlite3'] });
  const opening = sandbox.open();
  await sandbox.close();
  await assert.rejects(opening, { code: 'ERR_SANDBOX_CLOSED' });
});

function commandLine(pid) {
  try {
    return fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return []; // It ended meanwhile.
  }
}

test('where the preloaded interpreter is killed the next one imports again', async (t) => {
  const sandbox = await open(t, { preload: ['zipfile'] });
  assert.equal(await prints(sandbox, isLoaded('zipfile')), 'True');
  const zygotes = () =>
    descendants().filter(({ pid }) => {
      const line = commandLine(pid);
      return line.includes('zipfile') && line.includes('zygote');
    });
  const named = () =>
    zygotes()
      .filter(({ name }) => name === 'glovebox-zygote')
      .map(({ pid }) => pid);
  // What it forks has its name at first.
  let old;
  await eventually(() => {
    const found = named();
    [old] = found;
    return found.length === 1;
  });
  process.kill(old, 'SIGKILL');
  // Boxes that it had forked still serve calls; then they are cold until another
  // has imported.
  await eventually(async () => {
    await prints(sandbox, 'print()');
    return named().some((pid) => pid !== old);
  });
  await eventually(
    async () => (await prints(sandbox, isLoaded('zipfile'))) === 'True',
  );
});

test('wrong values of preload are refused by name', () => {
  const refused = [
    [['json', '-c'], /for preload\[1\], received "-c" \(string\)$/],
    [[''], /for preload\[0\]/],
    [['a b'], /for preload\[0\]/],
    [['a..b'], /for preload\[0\]/],
    [['.a'], /for preload\[0\]/],
    [['a\0b'], /for preload\[0\]/],
    [[5], /received 5 \(number\)/],
  ];
  for (const [preload, message] of refused) {
    assert.throws(() => new Sandbox({ preload }), {
      code: 'ERR_SANDBOX_INVALID_OPTION',
      message,
    });
  }
  assert.throws(() => new Sandbox({ preload: ['json'], warm: false }), {
    code: 'ERR_SANDBOX_INVALID_OPTION',
    message: /^Expected no preload with warm: false, /,
  });
});

test('a spec keeps preload', async (t) => {
  const first = await open(t, { preload: ['csv'] });
  const plan = await first.plan();
  assert.deepEqual(plan.spec.preload, ['csv']);

  const second = await open(t, { spec: JSON.parse(JSON.stringify(plan)) });
  assert.equal(await prints(second, isLoaded('csv')), 'True');
  assert.deepEqual((await second.plan()).spec, plan.spec);
  plan.spec.preload = ['-c'];
  assert.match((await refusal({ spec: plan })).message, /for preload\[0\], /);
});

// ---- plan() -------------------------------------------------------------------

const howItStarted = {
  // Python's forks have the command line of the interpreter that was forked.
  python: `print({"zygote": "forked", "standby": "waited"}.get(open("/proc/self/cmdline").read().split("\\0")[2], "cold"))`,
  node: `console.log(require('fs').readFileSync('/proc/self/cmdline', 'utf8').includes('waiting.cjs') ? 'waited' : 'cold')`,
};

/** How calls of the language start once those before have been replaced. */
async function settledStart(sandbox, language, wanted) {
  let found;
  await eventually(
    async () => {
      found = await prints(sandbox, howItStarted[language], { language });
      return found === wanted;
    },
    () => `${language} was ${found}, not ${wanted}`,
  );
}

test('plan() says how calls start, and so they do', async (t) => {
  const rows = [
    [{}, 'ready', 'ready', 'forked', 'waited'],
    [{ preload: ['csv'] }, 'ready', 'ready', 'forked', 'waited'],
    [{ warm: false }, 'on demand', 'cold', 'cold', 'cold'],
    // Elsewhere boxes that wait have no cgroup either, and a limit of processes
    // that cannot be raised.
    ...(hasCgroups
      ? [
          [
            { enforceLimits: false },
            'on demand',
            'on demand',
            'forked',
            'cold',
          ],
          [
            { memoryMb: null, pids: null },
            'ready',
            'ready',
            'forked',
            'waited',
          ],
        ]
      : [
          [{ enforceLimits: false }, 'ready', 'ready', 'forked', 'waited'],
          [{ pids: null }, 'on demand', 'on demand', 'forked', 'cold'],
        ]),
    [{ env: { LANG: 'C' } }, 'ready', 'cold', 'cold', 'cold'],
    [{ env: { PLAIN: '1' } }, 'ready', 'ready', 'forked', 'waited'],
    [
      { env: { PYTHONUTF8: '1' }, preload: ['csv'] },
      'ready',
      'ready',
      'forked',
      'cold',
    ],
  ];
  for (const [options, box, from, pythonStart, nodeStart] of rows) {
    const sandbox = await open(t, options);
    const { start } = (await sandbox.plan()).box;
    const said = JSON.stringify([options, start]);
    assert.equal(start.box.from, box, said);
    assert.equal(start.python.from, from, said);
    assert.equal(start.bash.from, 'cold', said);
    assert.equal(
      start.node.from,
      nodeStart === 'waited' ? 'ready' : 'cold',
      said,
    );
    await settledStart(sandbox, 'python', pythonStart);
    await settledStart(sandbox, 'node', nodeStart);
    await sandbox.close();
  }
});

test('an interpreter without ctypes is cold by plan(), and refused for preload', async (t) => {
  const folder = fs.mkdtempSync(path.join(process.env.TMPDIR, 'python-'));
  t.after(() => fs.rmSync(folder, { recursive: true }));
  fs.chmodSync(folder, 0o755);
  const real = execFileSync('python3', [
    '-c',
    'import sys; print(sys.executable)',
  ])
    .toString()
    .trim();
  // A shim of one, which answers as such an interpreter does.
  const file = `${folder}/python3`;
  fs.writeFileSync(
    file,
    `#!/bin/sh\nshift 2\nexec ${real} -I -c "import sys; sys.modules['ctypes'] = None\n$1"\n`,
    { mode: 0o755 },
  );
  const runtimes = { python: file };
  const error = await refusal({ runtimes, preload: ['json'] });
  assert.equal(error.code, 'ERR_SANDBOX_PRELOAD');
  assert.match(error.message, /has no module ctypes/);

  const sandbox = await open(t, { runtimes });
  const { start } = (await sandbox.plan()).box;
  assert.equal(start.python.from, 'cold');
  assert.match(start.python.why, /has no module ctypes$/);
  assert.equal(await prints(sandbox, howItStarted.python), 'cold');
  await eventually(
    () => busyDescendants().length === 0,
    () => JSON.stringify(busyDescendants()),
  );
});
