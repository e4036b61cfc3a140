// SPDX-License-Identifier: Apache-2.0
'use strict';

// Calls of interpreters that waited for them: what code can see is what it sees
// in an interpreter that was started for it (`warm: false`).

const assert = require('node:assert/strict');
const fs = require('node:fs');
const { compileLibrary, hasCompiler } = require('../hostile/attack.js');
const {
  eventuallyWarm,
  open,
  packagedPython,
  skip,
  test,
  timeScale,
} = require('../helpers/harness.js');

/** Two sandboxes alike, but that calls of the second are warm. */
async function openBoth(t, options) {
  const cold = await open(t, { ...options, warm: false });
  const warm = await open(t, { ...options, warm: true });
  return { cold, warm };
}

/** All of a result that does not differ from run to run. */
function describe({ exitCode, signal, fault, truncated, ...result }) {
  const { stdout, stderr, error, results } = result;
  const text = JSON.stringify({ stdout, stderr, error, results });
  return {
    exitCode,
    signal,
    fault,
    truncated,
    ...JSON.parse(
      text
        .replaceAll(/0x[0-9a-f]+/g, '0x…')
        // How Node calls one listener, or several: the driver has some too.
        .replaceAll(/node:events:\d+:\d+/g, 'node:events'),
    ),
  };
}

/** Runs each row in both; a row is code, or [code, options]. */
async function compare({ cold, warm }, rows, language) {
  for (const [name, row] of Object.entries(rows)) {
    const [code, options] = Array.isArray(row) ? row : [row];
    const [expected, actual] = await Promise.all(
      [cold, warm].map((one) => one.runCode(code, { language, ...options })),
    );
    assert.deepEqual(describe(actual), describe(expected), name);
  }
}

// ---- Which interpreter ------------------------------------------------------

const command = 'print(open("/proc/self/cmdline").read().split("\\0")[2:-1])';

test('a call of python is served by a fork of an interpreter that waits, unless warm is false', async (t) => {
  const { cold, warm } = await openBoth(t);
  await eventuallyWarm(warm);
  assert.equal(
    (await warm.runCode(command)).stdout,
    "['zygote', '/run/glovebox/join.so']\n",
  );
  assert.equal((await cold.runCode(command)).stdout, '[]\n');
});

test('variables that an interpreter reads when it starts are not too late', async (t) => {
  const { warm } = await openBoth(t);
  await eventuallyWarm(warm);
  const seen = async (code, env) => (await warm.runCode(code, { env })).stdout;
  const show = `import sys, time; print(sys.flags.optimize, time.tzname[0]); ${command}`;
  assert.equal(await seen(show, { PYTHONOPTIMIZE: '2' }), '2 UTC\n[]\n');
  assert.equal(await seen(show, { TZ: 'EST5' }), '0 EST\n[]\n');
  // Too much for any program is too much for one that is there already.
  const much = Object.fromEntries(
    Array.from({ length: 40 }, (_, i) => [`V${i}`, 'x'.repeat(1000)]),
  );
  assert.match(await seen(show, much), /\n\[\]\n/);
});

// ---- As in a new process -----------------------------------------------------

const A = `class A:
    def __init__(self, name): self.name = name
    def __del__(self): print('end of', self.name, tail)
tail = 'here'
`;

const ends = {
  'exit handlers, the last first': `import atexit
for i in range(3): atexit.register(print, i)`,
  'an exit handler that raises': `import atexit
atexit.register(print, 'later')
def bad(): raise ValueError('bad')
atexit.register(bad); 0`,
  'an exit handler that exits': `import atexit, os
atexit.register(lambda: os._exit(9))
print('lost', end='')`,
  'threads that are waited for, and then exit handlers': `import atexit, threading, time
atexit.register(print, 'handler')
threading.Thread(target=lambda: (time.sleep(.1), print('thread'))).start()`,
  'daemon threads that are not': `import threading, time
threading.Thread(target=lambda: (time.sleep(9), print('late')), daemon=True).start()`,
  'daemon threads that use what the end takes away': `import threading
names = []
def use():
    while True: names.append(1); names.pop()
for _ in range(4): threading.Thread(target=use, daemon=True).start()
kept = [{'x': i} for i in range(100000)]`,
  'a daemon thread that never pauses': `import threading
def spin():
    while True: pass
threading.Thread(target=spin, daemon=True).start()`,
  'a daemon thread while objects end': `import threading, time
_count = [0]
class A:
    def __del__(self): time.sleep(.1); print('end')
a = A()
def count():
    while True: _count[0] += 1; time.sleep(0)
threading.Thread(target=count, daemon=True).start()`,
  'a daemon thread of an exit handler': `import atexit, threading, time
_count = [0]
class A:
    def __del__(self): time.sleep(.1); print('end')
a = A()
def count():
    while True: _count[0] += 1; time.sleep(0)
atexit.register(threading.Thread(target=count, daemon=True).start); 0`,
  'a thread that fails': `import threading
threading.Thread(target=lambda: 1 / 0).start()`,
  'a thread that exits': `import sys, threading
threading.Thread(target=lambda: sys.exit(3)).start()`,
  'objects of the main module': `${A}a, b = A('a'), A('b')`,
  'objects in a circle': `${A}a = A('a'); a.a = a`,
  'objects in the builtins': `${A}import builtins; builtins.a = A('a')`,
  'objects in a module of the library': `${A}import json; json.a = A('a')`,
  'objects in a module of its own': `${A}import sys, types
m = types.ModuleType('m'); m.a = A('a'); sys.modules['m'] = m; del m`,
  'objects that a signal handler holds': `${A}import signal
a = A('a'); signal.signal(signal.SIGUSR1, lambda *ignored: a); 0`,
  'objects without collection': `${A}import gc; gc.disable(); a = A('a'); a.a = a`,
  'an object whose end fails': `class A:
    def __del__(self): raise ValueError('end')
a = A()`,
  'an object whose end imports': `class A:
    def __del__(self): import json
a = A()`,
  'a generator': `def g():
    try: yield 1
    finally: print('finally')
x = g(); next(x)`,
  'weak references': `import weakref
class A: pass
a, b = A(), A()
weakref.finalize(a, print, 'a'); weakref.finalize(b, print, 'b')
r = weakref.ref(a, lambda gone: print('gone'))`,
  'a file that is not closed': [
    `f = open('file', 'w'); f.write('text'); f.flush; 0`,
  ],
  'and what it has then': `print(open('file').read())`,
  'a file that a hook holds': `import sys
f = open('file', 'w'); f.write('more'); sys.excepthook = lambda *ignored: f; 0`,
  'and what that has': `print(open('file').read())`,
  'files that what was there before holds': `import contextvars, logging, math, os
files = [open(str(n), 'w') for n in range(5)]
for file in files: file.write('held')
os.held, math.held, logging.Logger.held = files[:3]
contextvars.ContextVar('held').set(files[3])
import codecs; codecs.register(lambda name, file=files[4]: None)`,
  'and what they have': 'print([open(str(n)).read() for n in range(5)])',
  'objects that what was there before holds': `${A}import math, os, time
os.a, math.a, time.a = A('os'), A('math'), A('time')`,
  'an await': 'import asyncio\nawait asyncio.sleep(0)\nprint(1)',
  'a temporary folder': `import tempfile
t = tempfile.TemporaryDirectory(dir='/workspace')`,
  'and what is left of it': `import os; print(sorted(os.listdir('/workspace')))`,
  'output of C': `import ctypes
libc = ctypes.CDLL(None)
libc.printf(b'of C\\n'); print('of Python')`,
  'output without a line end': `import sys; sys.stdout.write('x'); 0`,
  'much output at the end': `import atexit
atexit.register(lambda: print('x' * 300000)); 0`,
  'stdout that is replaced': `import io, sys
sys.stdout = io.StringIO(); print('lost')`,
  'stdout that is wrapped': `import io, sys
sys.stdout = io.TextIOWrapper(open(1, 'wb', closefd=False)); sys.stdout.write('x'); 0`,
  'stdout that is swapped at the end': `import atexit, io, sys
old = sys.stdout; atexit.register(lambda: old.write('to the old'))
sys.stdout = io.StringIO()`,
  'no stdout': 'import sys; del sys.stdout',
  'stdout that is closed early': 'import os; print("x"); os.close(1)',
  'stdout that cannot be written to': `import os
os.dup2(os.open('/dev/full', os.O_WRONLY), 1); print('x')`,
  'stdout that fails': `import sys
class Out:
    closed = False
    def write(self, text): pass
    def flush(self): raise ValueError('flush')
sys.stdout = Out()`,
  'stderr that fails': `import sys
class Out:
    closed = False
    def write(self, text): pass
    def flush(self): raise ValueError('flush')
sys.stderr = Out()`,
  'a coroutine that nobody awaits': 'async def c(): pass\nx = c()',
  'a patched end': `import atexit, gc, os
gc.collect = atexit._run_exitfuncs = os._exit = lambda *ignored: print('patched')`,
  'no builtins': `import builtins
for name in 'getattr', 'set', 'vars', 'print', 'type': delattr(builtins, name)`,
  'no modules': 'import sys; sys.modules.clear()',
  'no list of modules': 'import sys; sys.modules = None',
  'no main module': 'import sys; del sys.modules["__main__"]',
  'a hook for what is ignored': `import sys
sys.unraisablehook = lambda seen: print(seen.exc_type.__name__, seen.object)
class A:
    def __del__(self): 1 / 0
a = A(); del a`,
  'a hook for exceptions': `import sys
sys.excepthook = lambda *seen: print(seen[0].__name__)
1 / 0`,
};

const exitCodes = [
  ['sys.exit()', 'None', '3', '-1', '256', '2 ** 70', 'True', '"why"', '[1]'],
]
  .flat()
  .map((value) => (value.endsWith(')') ? value : `sys.exit(${value})`));

for (const code of [
  ...exitCodes,
  'raise SystemExit(1, 2)',
  'os._exit(7)',
  'os.abort()',
  'os.kill(os.getpid(), 9)',
  'os.kill(os.getpid(), 15)',
  'raise KeyboardInterrupt',
  'import ctypes; ctypes.string_at(0)',
  '1 / 0',
]) {
  ends[code] = `import os, sys\nprint('before')\n${code}`;
}

test('a warm call of python ends as a cold one does', {
  timeout: 240000 * timeScale,
}, async (t) => {
  const both = await openBoth(t);
  await eventuallyWarm(both.warm);
  await compare(both, ends);
});

const stdin = 'one\ntwo\nthree';
const surroundings = {
  'its arguments': `import sys
print(sys.argv, sys.orig_argv if hasattr(sys, 'orig_argv') else '', sys.flags)
print(sys.path, sys.executable, __name__, sorted(globals()))`,
  'its variables': [
    `import ctypes, os, subprocess
libc = ctypes.CDLL(None); libc.getenv.restype = ctypes.c_char_p
print(os.environ, os.environb, [libc.getenv(name) for name in os.environb])
print(subprocess.check_output('env | sort', shell=True))`,
    { env: { A: '1', B: 'x=y', C: '', D: 'ünï' } },
  ],
  'its folder': ['import os; print(os.getcwd())', { cwd: '/tmp' }],
  'its streams': `import os, stat, sys
for stream in sys.stdin, sys.stdout, sys.stderr:
    print(stream.name, stream.mode, stream.encoding, stream.errors,
          stream.line_buffering, stat.filemode(os.fstat(stream.fileno()).st_mode))`,
  'its descriptors': 'import os; print(sorted(os.listdir("/proc/self/fd")))',
  'its threads': `import threading
print(threading.enumerate() == [threading.main_thread()],
      threading.main_thread().ident == threading.get_ident())`,
  'its stack': `import inspect
print([(frame.filename, frame.function) for frame in inspect.stack()])`,
  'its clocks': `import os, time
print(time.process_time() < 2, time.thread_time() < 2, os.times()[2:4],
      time.monotonic() > 0, time.perf_counter() > 0)`,
  'its hooks': `import sys
for name in 'excepthook', 'displayhook', 'unraisablehook', 'breakpointhook':
    print(getattr(sys, name) is getattr(sys, f'__{name}__'))`,
  'its handlers': `import signal
print([(int(s), str(signal.getsignal(s))) for s in signal.valid_signals()])`,
  'what it reads': ['print(input(), input())', { stdin }],
  'all that it reads': [
    'import sys; print(sys.stdin.buffer.read())',
    { stdin },
  ],
  'lines that it reads': [
    'import sys\nfor line in sys.stdin: print(repr(line))',
    { stdin },
  ],
  'nothing to read': 'input()',
  'a module in the workspace': `open('own.py', 'w').write('x = 5')
import own; print(own.x, own.__file__)`,
};
for (const name of ['ctypes', 'struct', 'types', 'random', 'threading']) {
  surroundings[`its own ${name}`] = `
open('${name}.py', 'w').write('x = 99')
import ${name}, os; os.remove('${name}.py'); print(getattr(${name}, 'x', None))`;
}

test('python code finds the same around it, warm and cold', async (t) => {
  const both = await openBoth(t);
  await eventuallyWarm(both.warm);
  await compare(both, surroundings);
});

const others = {
  'a subprocess': `import subprocess, sys
print(subprocess.run([sys.executable, '-c', 'print(1 + 1)'], capture_output=True))`,
  'a fork that ends as a script does': `import os, sys
pid = os.fork()
if pid == 0: print('child'); sys.exit(3)
print(os.WEXITSTATUS(os.waitpid(pid, 0)[1]))`,
  'an interpreter in its place': `import os, sys
os.execv(sys.executable, [sys.executable, '-c', 'print(7)'])`,
  'processes by fork': `import multiprocessing
context = multiprocessing.get_context('fork')
def f(x): return x * x
with context.Pool(2) as pool: print(pool.map(f, range(5)))`,
  'processes by spawn': `import multiprocessing
def f(x): return x * x
if __name__ == '__main__':
    with multiprocessing.get_context('spawn').Pool(1) as pool:
        print(pool.map(f, range(5)))`,
  'processes by forkserver': `import multiprocessing
def f(queue): queue.put(5)
if __name__ == '__main__':
    context = multiprocessing.get_context('forkserver')
    queue = context.Queue()
    process = context.Process(target=f, args=(queue,))
    process.start(); print(queue.get()); process.join(); print(process.exitcode)`,
  'a manager': `import multiprocessing
with multiprocessing.Manager() as manager:
    d = manager.dict(); d['a'] = 1; print(dict(d))`,
  'shared memory': `from multiprocessing import shared_memory
memory = shared_memory.SharedMemory(create=True, size=10)
memory.buf[0] = 7; print(memory.buf[0]); memory.close(); memory.unlink()`,
  executors: `from concurrent import futures
with futures.ThreadPoolExecutor(2) as pool: print(list(pool.map(abs, [-1, -2])))
with futures.ProcessPoolExecutor(1) as pool: print(list(pool.map(abs, [-1, -2])))`,
  'an event loop': `import asyncio
async def main():
    process = await asyncio.create_subprocess_exec('echo', 'x', stdout=-1)
    print(await process.communicate())
asyncio.run(main())`,
  signals: `import os, signal, time
signal.signal(signal.SIGUSR1, lambda *seen: print('usr1'))
signal.signal(signal.SIGALRM, lambda *seen: print('alarm'))
os.kill(os.getpid(), signal.SIGUSR1)
signal.setitimer(signal.ITIMER_REAL, .05); time.sleep(.2)`,
  'no child of another': `import os
try: print(os.wait())
except ChildProcessError: print('none')`,
};

test('python code starts threads and processes alike, warm and cold', {
  timeout: 120000 * timeScale,
}, async (t) => {
  const both = await openBoth(t);
  await eventuallyWarm(both.warm);
  await compare(both, others);
});

test('chance differs between warm calls, also of modules that were there before', async (t) => {
  const { warm } = await openBoth(t);
  await eventuallyWarm(warm);
  const code = `import json, os, random, secrets, tempfile, uuid
print(json.dumps({
    'random': random.random(), 'Random': random.Random().random(),
    'secrets': secrets.token_hex(8), 'urandom': os.urandom(8).hex(),
    'uuid1': str(uuid.uuid1()), 'uuid4': str(uuid.uuid4()),
    'tempfile': tempfile.mktemp(), 'mkstemp': tempfile.mkstemp()[1]}))`;
  const results = await Promise.all(
    Array.from({ length: 6 }, () => warm.runCode(code)),
  );
  const answers = results.map(({ stdout }) => JSON.parse(stdout));
  for (const name of Object.keys(answers[0])) {
    const values = new Set(answers.map((answer) => answer[name]));
    assert.equal(values.size, answers.length, name);
  }
});

test('each python here runs warm calls', async (t) => {
  if (!packagedPython) return skip(t, 'there is no /usr/bin/python3');
  const both = await openBoth(t, { runtimes: { python: packagedPython } });
  await eventuallyWarm(both.warm);
  const { 'a file that is not closed': write, 'and what it has then': read } =
    ends;
  const objects = ends['objects in a circle'];
  const held = ends['objects that what was there before holds'];
  await compare(both, { write, read, objects, held });
});

// ---- Node ---------------------------------------------------------------------

const nodeRows = {
  'its process': [
    `console.log(process.argv, process.execArgv, process.cwd(), process.title);
console.log(Object.entries(process.env).sort(), process.stdin.isTTY)`,
    { env: { A: '1', B: 'ü' } },
  ],
  'its folder': [
    'console.log(process.cwd(), module.paths, __filename, __dirname)',
    { cwd: '/tmp' },
  ],
  'a module of the workspace': `const fs = require('fs');
fs.mkdirSync('node_modules/own', { recursive: true });
fs.writeFileSync('node_modules/own/index.js', 'module.exports = 5');
console.log(require('own'), require.resolve('own'))`,
  'an import': `const { join } = await import('node:path');
console.log(join('a', 'b'), (await import('own')).default)`,
  'a worker': `const { Worker } = require('worker_threads');
new Worker('console.log("worker", process.argv.length)', { eval: true })`,
  'a child': `require('fs').writeFileSync('child.js', 'process.send(process.argv.length)');
require('child_process').fork('child.js').on('message', (m) => console.log(m))`,
  'what it reads': [
    "process.stdin.on('data', (data) => console.log(String(data)))",
    { stdin },
  ],
  'nothing to read':
    "process.stdin.on('end', () => console.log('end')).resume()",
  timers: 'setTimeout(() => console.log("late"), 50)',
  'exit handlers': `process.on('exit', (code) => console.log('exit', code));
process.on('beforeExit', () => console.log('before'))`,
  'an exit handler that is added last': `process.on('beforeExit', () => {
  process.on('exit', (code) => { console.log('last', code); process.exitCode = 5; });
})`,
  'an exit handler of the last moment': `process.on('exit', () => {
  process.on('exit', () => console.log('never'));
  process.once('exit', () => console.log('never'));
})`,
  'work that comes before the end': `let n = 0;
process.on('beforeExit', () => { if (n++ < 3) setTimeout(() => console.log(n), 5); });
process.on('exit', (code) => console.log('exit', code, process.exitCode))`,
  'an exception before the end': `let n = 0;
process.on('exit', (code) => console.log('exit', code));
process.on('beforeExit', () => { setTimeout(() => { if (n++ === 1) throw new Error('late'); }, 5); })`,
  'an exception in an exit handler': `process.on('exit', () => { throw new Error('end'); })`,
  'an exception that is caught, and then the end': `process.on('uncaughtException', (e) => console.log(e.message));
setTimeout(() => { throw new Error('caught'); }, 5)`,
  'a promise that stays open': 'await new Promise(() => {})',
  'no exit handlers at all': `process.on('exit', () => console.log('never'));
process.removeAllListeners(); 0`,
  'a promise of an exit handler': `process.on('exit', () => {
  Promise.resolve().then(() => console.log('then'));
  Promise.reject(new Error('refused'));
}); 0`,
  'a promise of an exit handler, and an exit': `process.on('exit', () => {
  Promise.resolve().then(() => console.log('never'));
  Promise.reject(new Error('never'));
});
process.exit(3)`,
  'an exit event that the code makes': `process.on('beforeExit', () => {
  process.emit('exit', 0);
  console.log('after');
}); 0`,
  'an exit code that is a string': "process.exit('5')",
  'an exit code for later that is a string':
    "process.exitCode = '9'; process.exit()",
  'an exit code that is an object': 'process.reallyExit({ valueOf: () => 4 })',
  'an exit code that has no reading': "process.exit('abc')",
  'an exit code that is large': 'process.exit(2 ** 32 + 3)',
  'an exit with functions of its own': `process.on = process.off = process.listeners = () => { throw new Error('on'); };
process.getActiveResourcesInfo = Reflect.apply = Number.isInteger = process.on;
Object.keys = Array.prototype.includes = Array.prototype.at = process.on;
globalThis.Number = () => 77;
process.exitCode = 3; void 0`,
  'an exit at once with functions of its own': `Object.keys = Reflect.apply = Number.isInteger = () => { throw new Error('on'); };
process.getActiveResourcesInfo = Object.keys;
process.exit(3)`,
  'an exit whose last step cannot be read': `Object.defineProperty(process, 'reallyExit', {
  get() { throw new Error('read'); },
}); 0`,
  'an exit while files are written': `const fs = require('fs');
const file = fs.openSync('left', 'w');
fs.write(file, 'x'.repeat(1000), () => {});
fs.writeFileSync('old', '');
fs.promises.rename('old', 'new');
for (let i = 0; i < 20; i++) fs.mkdir('folder' + i, () => {});
process.exit(0)`,
  'and what is written then': `const fs = require('fs');
console.log(fs.statSync('left').size, fs.existsSync('old'), fs.existsSync('new'));
console.log(fs.readdirSync('.').filter((name) => name.startsWith('folder')).length)`,
  'a log of events': `require('trace_events').createTracing({ categories: ['node.perf'] }).enable();
performance.mark('marked'); 0`,
  'and what it says then': `const { traceEvents } = JSON.parse(require('fs').readFileSync('node_trace.1.log'));
console.log(traceEvents.some(({ name }) => name === 'marked'))`,
  'an exit of its own making': `const { reallyExit } = process;
process.reallyExit = (code) => { console.log('really', code); reallyExit.call(process, 7); };
process.exit(2)`,
  'output before the end': `process.stdout.write('x'.repeat(300000)); process.stderr.write('y'.repeat(300000)); 0`,
  'output before an exit': `process.stdout.write('x'.repeat(300000)); process.exit(1)`,
  'a file that is written to': `const file = require('fs').createWriteStream('written');
file.write('z'.repeat(200000)); file.end(() => console.log(require('fs').statSync('written').size))`,
  'an exit code': 'console.log(1); process.exit(3)',
  'an exit code for later': 'process.exitCode = 4',
  'an exception': 'throw new TypeError("x")',
  'a rejection': 'Promise.reject(new Error("x")); 0',
  'an abort': 'process.abort()',
  'a signal':
    'process.kill(process.pid, "SIGTERM"); setTimeout(() => {}, 5000)',
  'its clocks': 'console.log(process.uptime() < 60, performance.now() > 0)',
  'a result': '[1, { a: 2 }]',
};

const load = `process.dlopen({ exports: {} }, '/workspace/farewell.node')`;
const addonRows = {
  'an addon': 'require("./farewell.node"); 0',
  'an addon that is not remembered': `require('./farewell.node');
delete require.cache[require.resolve('./farewell.node')]; 0`,
  'an addon that was not required': `${load}; 0`,
  'an addon, and an exit': `${load}; process.exit(2)`,
  'an addon of a worker': `const { Worker } = require('worker_threads');
new Worker(${JSON.stringify(load)}, { eval: true })`,
};

test('a warm call of node sees and does what a cold one does', async (t) => {
  const node = { language: 'node' };
  const both = await openBoth(t);
  const code = 'require("fs").readFileSync("/proc/self/cmdline", "latin1")';
  let isWarm = false;
  for (let tries = 0; !isWarm && tries < 50; tries++) {
    const { results } = await both.warm.runCode(code, node);
    isWarm = results[0].text.includes('join.so');
    if (!isWarm) await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.ok(isWarm, 'calls of node become warm');
  await compare(both, nodeRows, 'node');

  if (!hasCompiler()) return skip(t, 'no C compiler');
  for (const sandbox of [both.cold, both.warm]) {
    const addon = fs.readFileSync(compileLibrary('farewell'));
    await sandbox.writeFile('farewell.node', addon);
  }
  await compare(both, addonRows, 'node');
});
