// SPDX-License-Identifier: Apache-2.0
'use strict';

// What a process has from the one that started it, and a box must not have from
// Node: signals, priority, personality, names.

const assert = require('node:assert/strict');
const {
  isRoot,
  outside,
  packagedPython,
  test,
} = require('../helpers/harness.js');

const facts = `
import json, os
def line(path, name=''):
    with open(path) as file:
        return next(one[len(name):].strip() for one in file
                    if one.startswith(name))
def mask():
    value = os.umask(0)
    os.umask(value)
    return oct(value)
print(json.dumps({
    'ignored': line('/proc/self/status', 'SigIgn:'),
    'blocked': line('/proc/self/status', 'SigBlk:'),
    'umask': mask(),
    'personality': line('/proc/self/personality'),
    'nice': os.getpriority(os.PRIO_PROCESS, 0),
    'policy': os.sched_getscheduler(0),
    'ioprio': __import__('ctypes').CDLL(None).syscall(IOPRIO_GET, 1, 0) >> 13,
    'domain': line('/proc/sys/kernel/domainname'),
}))`.replace('IOPRIO_GET', process.arch === 'x64' ? '252' : '31');

// Python's -I and -S keep it from changing what it was started with.
const python = [packagedPython ?? 'python3', '-I', '-S', '-c'];

/**
 * Starts Node after the Python code \`before\`; gives what a program that it
 * starts has, and what a box has.
 */
function startAfter(before) {
  const script = `
    const { spawnSync } = require('node:child_process');
    const { withSandbox } = require('./lib/index.js');
    const argv = ${JSON.stringify([...python, facts])};
    withSandbox({ enforceLimits: ${isRoot} }, (sandbox) => sandbox.run(argv))
      .then(({ stdout, stderr }) => {
        const twin = spawnSync(argv[0], argv.slice(1), { encoding: 'utf8' });
        console.log(JSON.stringify([twin.stdout, stdout || stderr]));
      });`;
  const start = `
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
def attempt(function, *arguments):
    try:
        function(*arguments)
    except OSError:
        pass  # not for this user: the twin shows it
${before}
os.execv(${JSON.stringify(process.execPath)},
         ['node', '--no-warnings', '-e', ${JSON.stringify(script)}])`;
  const { stdout, stderr, exitCode } = outside([...python, start]);
  assert.equal(exitCode, 0, stderr);
  return JSON.parse(stdout).map((text) => JSON.parse(text));
}

const fresh = {
  // Python itself ignores SIGPIPE and SIGXFSZ, and nobody else's.
  ignored: '0000000001001000',
  blocked: '0000000000000000',
  umask: '0o22',
  personality: '00000000',
  nice: 0,
  policy: 0,
  ioprio: 0,
  domain: '(none)',
};

test('PRC-13 a box has neither signals nor umask nor personality of Node', () => {
  const [host, box] = startAfter(`
numbers = (signal.SIGHUP, signal.SIGUSR2, signal.SIGTERM, 32, 33, 40)
class Action(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulong) for name in
                ('handler', 'flags', 'restorer', 'mask')]
ignore = ctypes.byref(Action(handler=1))
for number in numbers:  # past the libc, which keeps 32 and 33 for itself
    libc.syscall(${process.arch === 'x64' ? 13 : 134}, number, ignore, None, 8)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGALRM])
os.umask(0o077)
ADDR_NO_RANDOMIZE = 0x0040000
libc.personality(ADDR_NO_RANDOMIZE)`);
  assert.deepEqual(box, fresh);
  // Node and its libc have handlers for some of them.
  const ignored = BigInt(`0x${host.ignored}`);
  assert.ok(ignored & (1n << 31n), `32 in ${host.ignored}`);
  assert.equal(host.umask, '0o77');
  assert.equal(host.personality, '00040000');
});

test('a box has no priority over others from Node, nor its domain', (t) => {
  const [host, box] = startAfter(`
CLONE_NEWUTS = 0x04000000
if libc.unshare(CLONE_NEWUTS) == 0: libc.setdomainname(b'host.test', 9)
attempt(os.setpriority, os.PRIO_PROCESS, 0, -10)
libc.syscall(${process.arch === 'x64' ? 251 : 30}, 1, 0, 1 << 13)`);
  assert.deepEqual(box, fresh);
  if (!isRoot) t.diagnostic(`a plain user has none of it: ${host.nice}`);
  else assert.deepEqual([host.nice, host.domain], [-10, 'host.test']);
});

test('boxes work where Node has real-time priority, and have none', (t) => {
  const [host, box] = startAfter(
    'attempt(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1))',
  );
  assert.deepEqual(box, fresh);
  if (host.policy === 0) t.diagnostic('this user may not have it');
});

test('a box keeps it if Node steps back behind others', () => {
  const [host, box] = startAfter('os.setpriority(os.PRIO_PROCESS, 0, 5)');
  assert.equal(host.nice, 5);
  assert.deepEqual(box, { ...fresh, nice: 5 });
});
