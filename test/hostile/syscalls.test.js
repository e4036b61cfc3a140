// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rows SYS: what the calls fail with that a box may not make. The whole table is
// in test/c/filter_test.c; here the calls are made, in boxes.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const {
  isRoot,
  makeFolder,
  open,
  outside,
  test,
} = require('../helpers/harness.js');
const {
  ask,
  askOutside,
  assertFinished,
  hasCompiler,
  placeCaller,
} = require('./attack.js');

// A group of the host process that boxes must not inherit. Set before the
// engine starts.
const sharedGroup = 4343;
if (isRoot) process.setgroups([...process.getgroups(), sharedGroup]);

const needsCompiler = { skip: !hasCompiler() && 'there is no C compiler' };

test('SYS-01 no process can be traced, and none read by another', async (t) => {
  const code = `
import signal
child = os.fork()
if child == 0:
    signal.pause()
TRACEME, ATTACH, SEIZE = 0, 16, 0x4206
def calls(pid):
    pidfd = os.pidfd_open(pid)
    return {
      'attach': call('ptrace', ATTACH, pid, 0, 0),
      'seize': call('ptrace', SEIZE, pid, 0, 0),
      'read': call('process_vm_readv', pid, 0, 0, 0, 0, 0),
      'write': call('process_vm_writev', pid, 0, 0, 0, 0, 0),
      'compare': call('kcmp', pid, os.getpid(), 1, 0, 0),
      'take': call('pidfd_getfd', pidfd, 0, 0),
      'advise': call('process_madvise', pidfd, 0, 0, 0, 0),
      'release': call('process_mrelease', pidfd, 0),
    }
`;
  const answer = await ask(
    await open(t),
    `${code}
answer = [calls(1), calls(child), call('ptrace', TRACEME, 0, 0, 0)]`,
  );
  const refused = Object.fromEntries(
    `attach seize read write compare take advise release`
      .split(' ')
      .map((name) => [name, 'EPERM']),
  );
  assert.deepEqual(answer, [refused, refused, 'EPERM']);
  const twin = askOutside(`${code}
answer = [call('ptrace', ATTACH, child, 0, 0),
          call('process_vm_readv', child, 0, 0, 0, 0, 0)]
os.kill(child, 9)`);
  assert.deepEqual(twin, [0, 0]);
});

test('SYS-04 an unknown number is ENOSYS', needsCompiler, async (t) => {
  const caller = await placeCaller(await open(t));
  const ENOSYS = 38;
  const result = await caller.inside(998);
  assertFinished(result);
  assert.equal(result.stdout, `-1 ${ENOSYS}\n`);
  assert.equal(caller.outside(998), `-1 ${ENOSYS}`);
});

test('SYS-23 what is newer than the filter is ENOSYS, so that programs fall back', async (t) => {
  const code = `
buffer = ctypes.create_string_buffer(256)
answer = {
  'newest': sorted({str(call(number, *[-1] * 6)) for number in range(470, 600)}),
  'left out': {name: call(name, *[-1] * 6) for name in '''clone3 io_uring_setup
    io_uring_enter io_uring_register io_setup userfaultfd perf_event_open keyctl
    add_key request_key syslog open_by_handle_at name_to_handle_at memfd_secret
    landlock_create_ruleset'''.split()},
  'statx': call('statx', -100, b'/', 0, 0x7ff, buffer),
  'faccessat2': call('faccessat2', -100, b'/', 4, 0),
}`;
  const answer = await ask(await open(t), code);
  assert.deepEqual(answer.newest, ['ENOSYS']);
  const others = Object.entries(answer['left out']).filter(
    ([, result]) => result !== 'ENOSYS',
  );
  assert.deepEqual(others, []);
  assert.deepEqual([answer.statx, answer.faccessat2], [0, 0]);
  const twin = askOutside(`answer = [call(name, *[-1] * 6) for name in
    ('clone3', 'keyctl', 'io_setup', 'name_to_handle_at')]`);
  assert.ok(!twin.includes('ENOSYS'), `outside: ${twin}`);
});

test('SYS-05 sockets of other families do not exist, whatever the upper half says', async (t) => {
  const families = `
def families(call_name, high):
    found = {}
    for family in range(46):
        buffer = ctypes.create_string_buffer(8)
        result = call(call_name, family | high, 1, 0, buffer)
        if result != 'EAFNOSUPPORT':
            found[family] = result if isinstance(result, str) else 'works'
    return found
`;
  const answer = await ask(
    await open(t),
    `${families}
answer = {
  'socket': families('socket', 0),
  'bit 32': families('socket', 1 << 32), 'bit 63': families('socket', 1 << 63),
  'pair': families('socketpair', 0), 'pair, bit 32': families('socketpair', 1 << 32),
  'raw': sorted({call('socket', family | high, kind, 0) for family in (2, 10)
                 for high in (0, 1 << 32) for kind in (3, 10, 3 | 0o2000000)}),
  'netlink': call('socket', 16, 3, 0) > 0,
}`,
  );
  // UNIX, INET, INET6 and NETLINK, whose sockets are no streams.
  const sockets = {
    1: 'works',
    2: 'works',
    10: 'works',
    16: 'ESOCKTNOSUPPORT',
  };
  const pairs = {
    1: 'works',
    2: 'ENOTSUP',
    10: 'ENOTSUP',
    16: 'ESOCKTNOSUPPORT',
  };
  assert.deepEqual(answer, {
    socket: sockets,
    'bit 32': sockets,
    'bit 63': sockets,
    pair: pairs,
    'pair, bit 32': pairs,
    raw: ['EPERM'],
    netlink: true,
  });

  const [vsock, truncated, unix] = askOutside(`
answer = [call('socket', 40, 1, 0), call('socket', 40 | 1 << 32, 1, 0),
          call('socket', 1 | 1 << 32, 1, 0)]`);
  assert.equal(typeof unix, 'number', 'the kernel does not look at bit 32');
  assert.equal(typeof truncated, typeof vsock);
});

test('SYS-11 no input can be put into a terminal', async (t) => {
  const code = `
TIOCSTI, TIOCLINUX = 0x5412, 0x541c
answer = [call('ioctl', 0, request | high, b'x') for request in
          (TIOCSTI, TIOCLINUX) for high in (0, 1 << 32, 1 << 63)]`;
  const answer = await ask(await open(t), code);
  assert.deepEqual(answer, Array(6).fill('EPERM'));
  assert.deepEqual(askOutside(code), Array(6).fill('ENOTTY'));
});

test('SYS-14 no process of a box has a capability, nor can it get new privileges', async (t) => {
  const names = `NoNewPrivs Seccomp CapInh CapPrm CapEff CapBnd CapAmb Uid Gid
    Groups`.split(/\s+/);
  const status = `
def status(pid):
    lines = [line.split(':') for line in read('/proc/%s/status' % pid).split('\\n')]
    return {line[0]: ' '.join(line[1].split()) for line in lines if line[0] in
            ${JSON.stringify(names)}}
`;
  const { processes, prctl, raise } = await ask(
    await open(t),
    `${status}
PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, RAISE, NET_RAW = 38, 47, 2, 13
answer = {'processes': [status(pid) for pid in (1, 'self')],
          'prctl': call('prctl', PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0),
          'raise': call('prctl', PR_CAP_AMBIENT, RAISE, NET_RAW, 0, 0)}`,
  );
  const none = '0000000000000000';
  for (const process of processes) {
    assert.deepEqual(
      { ...process, Groups: '' },
      {
        NoNewPrivs: '1',
        Seccomp: '2',
        CapInh: none,
        CapPrm: none,
        CapEff: none,
        CapBnd: none,
        CapAmb: none,
        Uid: '1000 1000 1000 1000',
        Gid: '1000 1000 1000 1000',
        Groups: '',
      },
    );
    if (isRoot) assert.equal(process.Groups, '');
  }
  assert.equal(prctl, 'EINVAL');
  assert.equal(raise, 'EPERM');
  if (isRoot) {
    const twin = askOutside(`${status}\nanswer = status('self')`);
    assert.notEqual(twin.CapEff, none);
    assert.ok(twin.Groups.split(' ').includes(String(sharedGroup)));
  }
});

test('SYS-16 a box stays who it is', async (t) => {
  const answer = await ask(
    await open(t),
    `
ids = (0, 1, 999, 4242, 65000, 65534)
answer = {
  'groups': [call('setgroups', 0, 0), call('setgroups', 1, (ctypes.c_uint * 1)(0))],
  'user': sorted({call('setuid', id) for id in ids}),
  'users': sorted({call('setresuid', id, id, id) for id in ids}),
  'group': sorted({call('setresgid', id, id, id) for id in ids}),
  'itself': [call('setuid', 1000), call('setresgid', 1000, 1000, 1000)],
}`,
  );
  assert.deepEqual(answer.groups, ['EPERM', 'EPERM']);
  for (const results of [answer.user, answer.users, answer.group]) {
    for (const result of results) assert.match(result, /^(EPERM|EINVAL)$/);
  }
  assert.deepEqual(answer.itself, [0, 0]);
});

test('SYS-16 groups of the host process open no file to a box', {
  skip: !isRoot && 'only root can drop its groups (docs/threat-model.md)',
}, async (t) => {
  const workspace = makeFolder(t);
  fs.chmodSync(workspace, 0o755);
  const modes = { 'group.txt': 0o640, 'everybody.txt': 0o644 };
  for (const [name, mode] of Object.entries(modes)) {
    const file = path.join(workspace, name);
    fs.writeFileSync(file, 'text');
    fs.chmodSync(file, mode);
    fs.chownSync(file, 4242, sharedGroup);
  }
  const sandbox = await open(t, { workspace });
  const answer = await ask(
    sandbox,
    "answer = [read('group.txt'), read('everybody.txt')]",
  );
  assert.deepEqual(answer, ['EACCES', 'text']);
  const twin = outside([
    ...['setpriv', '--reuid=65000', '--regid=65000', `--groups=${sharedGroup}`],
    ...['cat', path.join(workspace, 'group.txt')],
  ]);
  assert.equal(twin.stdout, 'text');
});

test('SYS-17 the clock cannot be set', async (t) => {
  // Nanoseconds that no second has: where it is allowed to, the kernel refuses
  // them, and this host keeps its time.
  const code = `
never = (ctypes.c_long * 2)(0, 10**9)
class Timex(ctypes.Structure):
    _fields_ = [('modes', ctypes.c_uint), ('rest', ctypes.c_byte * 252)]
def adjust(name, *first):
    ADJ_FREQUENCY = 2
    return [call(name, *first, Timex(ADJ_FREQUENCY)), call(name, *first, Timex(0))]
answer = {'set': call('clock_settime', 0, never),
          'set day': call('settimeofday', never, 0)}
`;
  const adjustments = `
answer['adjust'] = adjust('adjtimex') + adjust('clock_adjtime', 0)
answer['adjust'] = [result if isinstance(result, str) else 'works'
                    for result in answer['adjust']]`;
  const [wall, monotonic] = [Date.now(), performance.now()];
  const answer = await ask(await open(t), code + adjustments);
  assert.deepEqual(answer, {
    set: 'EPERM',
    'set day': 'EPERM',
    adjust: ['EPERM', 'works', 'EPERM', 'works'],
  });
  const drift = Date.now() - wall - (performance.now() - monotonic);
  assert.ok(Math.abs(drift) < 1000, `the clock moved by ${drift} ms`);
  const twin = askOutside(code);
  assert.deepEqual(twin, { set: 'EINVAL', 'set day': 'EINVAL' });
});

test('SYS-19 neither priority nor locked memory beyond the limit can be had', async (t) => {
  const code = `
FIFO, RR, BATCH = 1, 2, 3
priority = (ctypes.c_int * 1)(99)
none = (ctypes.c_int * 1)(0)
REALTIME_CLASS = 1 << 13
`;
  const answer = await ask(
    await open(t),
    `${code}
memory = ctypes.create_string_buffer(16 << 20)
address = ctypes.addressof(memory)
answer = {
  'scheduler': [call('sched_setscheduler', 0, policy, priority) for policy in (FIFO, RR)],
  'batch': call('sched_setscheduler', 0, BATCH, none),
  'nice': call('setpriority', 0, 0, -20),
  'io': call('ioprio_set', 1, 0, REALTIME_CLASS),
  'lock': call('mlock', address, 16 << 20), 'lock all': call('mlockall', 3),
  'page': call('mlock', address, 4096),
}`,
  );
  assert.deepEqual(answer, {
    scheduler: ['EPERM', 'EPERM'],
    batch: 0,
    // The kernel's answer to this one question.
    nice: 'EACCES',
    io: 'EPERM',
    lock: 'ENOMEM',
    'lock all': 'ENOMEM',
    page: 0,
  });
  if (isRoot) {
    const twin = askOutside(
      `${code}\nanswer = call('sched_setscheduler', 0, FIFO, priority)`,
    );
    assert.equal(twin, 0);
  }
});

test('SYS-20 no limit can be raised, and those of pid 1 not touched', async (t) => {
  const code = `
import resource
class Limit(ctypes.Structure):
    _fields_ = [('soft', ctypes.c_ulong), ('hard', ctypes.c_ulong)]
def raise_all():
    outcomes = set()
    for kind in range(16):
        soft, hard = resource.getrlimit(kind)
        if hard != resource.RLIM_INFINITY:
            outcomes.add(call('prlimit64', 0, kind, Limit(hard, hard + 1), 0))
    return sorted(outcomes)
NOFILE = resource.RLIMIT_NOFILE
limit = Limit(20, 20)
`;
  const answer = await ask(
    await open(t),
    `${code}
answer = {
  'raise': raise_all(),
  'init': [call('prlimit64', 1 | high, NOFILE, new, old) for high in (0, 1 << 32)
           for new, old in ((0, limit), (limit, 0))],
  'self': [call('prlimit64', pid, NOFILE, 0, limit) for pid in (0, os.getpid())],
  'lower': [call('setrlimit', NOFILE, Limit(20, 20)), call('setrlimit', NOFILE, Limit(20, 21))],
}`,
  );
  assert.deepEqual(answer, {
    raise: ['EPERM'],
    init: Array(4).fill('EPERM'),
    self: [0, 0],
    lower: [0, 'EPERM'],
  });
  const twin = askOutside(
    `${code}\nanswer = call('prlimit64', os.getppid(), NOFILE, 0, limit)`,
  );
  assert.equal(twin, 0, 'between processes of one user the kernel allows it');
});

test('ATK calls that reach for more than a box has are EPERM', async (t) => {
  const code = `
file = os.open('.file', os.O_CREAT | os.O_RDONLY)
F_SETLEASE, F_SETDELEG, F_RDLCK, F_UNLCK = 1024, 1040, 0, 2
ADDR_NO_RANDOMIZE, READ_IMPLIES_EXEC, QUERY = 0x40000, 0x400000, 0xffffffff
`;
  const answer = await ask(
    await open(t),
    `${code}
answer = {
  'calls': {name: call(name, *[-1] * 6) for name in '''chroot sethostname
    setdomainname vhangup quotactl fanotify_init'''.split()},
  'lease': [call('fcntl', file, command | high, F_RDLCK) for command in
            (F_SETLEASE, F_SETDELEG) for high in (0, 1 << 32)],
  'personality': [call('personality', which) for which in
                  (ADDR_NO_RANDOMIZE, READ_IMPLIES_EXEC, 1 << 32 | ADDR_NO_RANDOMIZE)],
  'query': call('personality', QUERY),
}`,
  );
  assert.deepEqual(
    Object.entries(answer.calls).filter(([, result]) => result !== 'EPERM'),
    [],
  );
  assert.deepEqual(answer.lease, Array(4).fill('EPERM'));
  assert.deepEqual(answer.personality, Array(3).fill('EPERM'));
  assert.equal(answer.query, 0);

  const cwd = makeFolder(t);
  const twin = askOutside(
    `${code}
answer = [call('fcntl', file, F_SETLEASE, F_RDLCK),
          call('personality', ADDR_NO_RANDOMIZE)]`,
    { cwd },
  );
  assert.deepEqual(twin, [0, 0]);
});
