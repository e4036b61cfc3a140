// SPDX-License-Identifier: Apache-2.0
'use strict';

// Nothing of a call is there in the next one: two hundred times, one after the
// other, each call looks for whatever the one before it could leave, and leaves
// it. In the end nothing of them all is left on the host.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const {
  eventually,
  eventuallyWarm,
  open,
  processes,
  soak,
  test,
  timeScale,
} = require('../helpers/harness.js');
const {
  descriptorsOfLeaf,
  eventuallyAsBefore,
  slack,
  takeStock,
} = require('../helpers/stock.js');
const { assertFinished } = require('./attack.js');

const readProgram = (name) =>
  fs.readFileSync(path.join(__dirname, 'programs', name), 'utf8');

const isWarm = `'join.so' in open('/proc/self/cmdline').read()`;

// Whatever a process may change, of itself and of its box.
const pollute = `
import builtins, ctypes, gc, json, locale, os, random, resource, signal, socket
import sys, threading, time, types
assert ${isWarm}
libc = ctypes.CDLL(None)
def attempt(function, *arguments):
    try: function(*arguments)
    except Exception: pass
for folder in '/tmp', '/home/user', '/dev/shm', '/run', '/':
    attempt(lambda: open(folder + '/left', 'w').write('left'))
libc.shmget(1234, 4096, 0o1666), libc.semget(1234, 1, 0o1666), libc.msgget(1234, 0o1666)
left = socket.socket(socket.AF_UNIX); left.bind('\\0left'); left.listen()
tcp = socket.socket(); tcp.bind(('127.0.0.1', 4321)); tcp.listen()
if os.fork() == 0:
    os.setsid()
    for number in range(1, 32): attempt(signal.signal, number, signal.SIG_IGN)
    if os.fork() == 0: time.sleep(1000)
    os._exit(0)
os.environ['LEFT'] = 'left'
builtins.print = builtins.left = os.getcwd = os.listdir = len
json.dumps = lambda *ignored: 'left'
sys.modules['left'] = types.ModuleType('left')
sys.path.append('/left'); sys.argv.append('left')
os.open('/etc', os.O_RDONLY); os.dup2(1, 77)
os.umask(0o777); os.chdir('/tmp')
for number in range(1, 32):
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))
signal.setitimer(signal.ITIMER_REAL, 1000)
for name in 'NOFILE', 'NPROC', 'FSIZE', 'STACK', 'CORE', 'AS':
    attempt(resource.setrlimit, getattr(resource, 'RLIMIT_' + name), (1 << 30, 1 << 30))
attempt(resource.setrlimit, resource.RLIMIT_NOFILE, (100, 100))
os.environ['TZ'] = 'EST5'; time.tzset(); locale.setlocale(locale.LC_ALL, 'C')
random.seed(1); gc.disable(); sys.setrecursionlimit(77); sys.setswitchinterval(1)
libc.prctl(15, b'left'), libc.prctl(4, 0), libc.prctl(36, 1), libc.prctl(41, 1)
libc.prctl(29, 77777), libc.prctl(1, 9)
attempt(os.nice, 5); attempt(os.sched_setaffinity, 0, [0])
for name, value in ('oom_score_adj', '1000'), ('coredump_filter', '0'), ('comm', 'left'):
    attempt(lambda: open('/proc/self/' + name, 'w').write(value))
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
libc.mlock(ctypes.create_string_buffer(4096), 4096)
sys.settrace(lambda *ignored: None); sys.excepthook = sys.unraisablehook = None
os.write(1, b'polluted')`;

const look = `
import builtins, gc, hashlib, random, sys
assert ${isWarm}
${readProgram('itself.py').replace('print(json.dumps(seen))', '')}
seen['environ'] = dict(os.environ)
seen['builtins'] = sorted(vars(builtins))
seen['modules'] = sorted(sys.modules)
seen['library'] = [str(os.getcwd.__name__), str(os.listdir.__name__), json.dumps.__name__]
seen['interpreter'] = [gc.isenabled(), sys.getrecursionlimit(), sys.getswitchinterval(),
                       sys.path, sys.argv, sys.gettrace() is None, time.tzname]
seen['state of chance'] = random.getstate() == random.Random(1).getstate()
import socket
for address in '\\0left', ('127.0.0.1', 4321):
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    seen[repr(address)] = socket.socket(family).connect_ex(address)
print(json.dumps(seen, default=str))`;

// More boxes may wait after more calls, but not one for each of two hundred.
const allowed = {
  ...slack,
  processes: 40,
  boxes: 24,
  leaves: 16,
  namespaces: 80,
  'descriptors of the launcher': 100,
  'descriptors of the keeper': 16 * descriptorsOfLeaf,
  // The heap of the test itself, between two collections.
  MiB: slack.MiB + 28,
};

// All that they import. With it in the zygote calls take half as long, and spoil
// what all of them share.
const preloaded = [
  ...['builtins', 'ctypes', 'gc', 'hashlib', 'json', 'locale', 'os', 'random'],
  ...['resource', 'signal', 'socket', 'sys', 'threading', 'time', 'types'],
];

for (const [preload, rounds] of [
  [[], soak ? 200 : 12],
  [preloaded, 200],
]) {
  test(`a warm call finds nothing of the one before it, ${rounds} times, with ${preload.length} modules preloaded`, {
    timeout: 600 * 1000 * timeScale,
  }, async (t) => {
    const sandbox = await open(t, { preload });
    await eventuallyWarm(sandbox);
    const state = async () => {
      const result = await sandbox.runCode(look);
      assertFinished(result);
      return JSON.parse(result.stdout);
    };
    const fresh = await state();
    assert.equal(fresh.interpreter[0], true);
    let before;
    for (let round = 0; round < rounds; round++) {
      const polluted = await sandbox.runCode(pollute);
      assert.equal(polluted.stdout, 'polluted', polluted.stderr);
      assert.deepEqual(await state(), fresh);
      // What is made once is made by then.
      if (round === Math.min(rounds - 1, 30)) before = takeStock();
    }
    await eventually(
      () => !processes().some(({ name }) => name === 'left'),
      'its processes are left',
    );
    assert.deepEqual(await sandbox.listFiles(), []);
    await eventuallyAsBefore(t, before, allowed);
  });
}

test('a ready box finds nothing of the one before it, 200 times, of bash', {
  timeout: 600 * 1000 * timeScale,
}, async (t) => {
  const sandbox = await open(t);
  const code = `
ls /tmp /dev/shm /home/user /workspace | grep left; umask; echo $LEFT $OLDPWD
cat /proc/self/oom_score_adj; ulimit -n; pwd
touch /tmp/left /home/user/left /dev/shm/left; export LEFT=left; umask 777
echo 1000 > /proc/self/oom_score_adj; ulimit -n 100; cd /tmp
(setsid sleep 1000 &) >/dev/null 2>&1
ls /proc | grep -c "^[0-9]"`;
  let first;
  let before;
  for (let round = 0; round < 200; round++) {
    const { stdout, stderr } = await sandbox.runCode(code, {
      language: 'bash',
    });
    const at = stdout.lastIndexOf('\n', stdout.length - 2) + 1;
    const [seen, count] = [stdout.slice(0, at), Number(stdout.slice(at))];
    first ??= seen;
    assert.equal(seen, first, stderr);
    // Itself, init, ls, grep, what sleeps, and what starts that for a moment.
    assert.ok(count >= 4 && count <= 6, stdout);
    if (round === 0) assert.match(seen, /^0022\n\n-?\d+\n\d+\n\/workspace\n$/);
    if (round === 30) before = takeStock();
  }
  assert.deepEqual(await sandbox.listFiles(), []);
  await eventuallyAsBefore(t, before, allowed);
});

test('a ready box finds nothing of the one before it, 200 times, of node', {
  timeout: 600 * 1000 * timeScale,
}, async (t) => {
  const sandbox = await open(t);
  const code = `
const fs = require('fs');
const seen = [fs.readdirSync('/tmp'), fs.readdirSync('/dev/shm'), fs.readdirSync('/home/user'),
  fs.readdirSync('/proc').filter((n) => n > 0 && n != process.pid).sort(),
  globalThis.left, process.env.LEFT, Object.keys(require.cache).filter((n) => n.includes('left')),
  Array.prototype.left, process.umask()];
for (const folder of ['/tmp', '/dev/shm', '/home/user']) fs.writeFileSync(folder + '/left', '');
globalThis.left = Array.prototype.left = process.env.LEFT = process.title = 'left'; process.umask(0o77);
fs.writeSync(1, JSON.stringify(seen)); process.reallyExit(0)`;
  // A process takes longer than all the rest.
  const andProcess = `
require('child_process').spawn('setsid', ['sleep', '1000'], { detached: true }).unref();${code}`;
  let before;
  for (let round = 0; round < 200; round++) {
    const { stdout, stderr } = await sandbox.runCode(
      round % 10 === 0 ? andProcess : code,
      { language: 'node' },
    );
    const [tmp, shm, home, pids, ...others] = JSON.parse(stdout);
    assert.deepEqual([tmp, shm, home], [[], [], []], stderr);
    assert.ok(pids.length <= (round % 10 === 0 ? 3 : 1), `${pids}`);
    assert.deepEqual(others, [null, null, [], null, 0o22]);
    if (round === 30) before = takeStock();
  }
  assert.deepEqual(await sandbox.listFiles(), []);
  await eventuallyAsBefore(t, before, allowed);
});
