// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rows SYS: system calls, and the filter in front of them. The whole table is
// in test/c/filter_test.c; here the calls are made, in boxes.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const {
  isRoot,
  makeFolder,
  open,
  outside,
  soak,
  test,
} = require('../helpers/harness.js');
const {
  ask,
  askOutside,
  assertBlocked,
  assertFinished,
  compile,
  hasCompiler,
  isX64,
  numbers,
  place,
  placeCaller,
  prelude,
} = require('./attack.js');

// A group of the host process that boxes must not inherit. Set before the
// engine starts.
const sharedGroup = 4343;
if (isRoot) process.setgroups([...process.getgroups(), sharedGroup]);

const needsCompiler = { skip: !hasCompiler() && 'there is no C compiler' };
const needsX64 = {
  skip:
    needsCompiler.skip || (!isX64 && 'these ways into the kernel are x86 only'),
};
const bash = { language: 'bash' };
const mount = numbers.mount;
// As arguments they make every call fail that gets through.
const minusOnes = [-1, -1, -1, -1, -1, -1];

// ---- The kill set ----------------------------------------------------------

test(
  'SYS-02 calls that change the running kernel end the box',
  needsCompiler,
  async (t) => {
    const caller = await placeCaller(await open(t));
    const names = `kexec_load kexec_file_load init_module finit_module
    delete_module reboot swapon swapoff bpf acct iopl ioperm`.split(/\s+/);
    for (const name of names.filter((name) => name in numbers)) {
      const result = await caller.inside(name, ...minusOnes);
      assertBlocked(result, name);
      assert.equal(result.fault.syscall, name);
      assert.match(caller.outside(name, ...minusOnes), /^-1 \d+$/, name);
    }
  },
);

test('SYS-07 the i386 entry ends the box', needsX64, async (t) => {
  const sandbox = await open(t);
  const program = await place(sandbox, 'int80');
  const calls = { getpid: 20, mount: 21, socketcall: 102 };
  for (const [name, number] of Object.entries(calls)) {
    const result = await sandbox.run([program, String(number)]);
    assertBlocked(result, `int 0x80, ${name}`);
    assert.equal(result.fault.syscall, name);
    assert.equal(result.stdout, '');
  }
  const twin = outside([compile('int80'), String(calls.getpid)]);
  assert.match(twin.stdout, /^[1-9]\d*\n$/, 'this kernel serves it');
});

test('SYS-08 x32 calls end the box', needsX64, async (t) => {
  const caller = await placeCaller(await open(t));
  const [x32, getpid, x32Execve] = [0x40000000, 39, 520];
  for (const number of [mount, getpid, x32Execve]) {
    const result = await caller.inside(x32 | number, ...minusOnes);
    assertBlocked(result, `x32 ${number}`);
    assert.equal(result.stdout, '');
  }
  assert.match(caller.outside(x32 | getpid), /^(-1 38|[1-9]\d* 0)$/);
});

test(
  'SYS-10 a forbidden call of a second thread ends the box at once',
  needsCompiler,
  async (t) => {
    const sandbox = await open(t);
    const program = await place(sandbox, 'thread');
    const result = await sandbox.run([program, String(mount)]);
    assertBlocked(result, 'while the main thread sleeps');
    assert.equal(result.stdout, '');
    assert.ok(result.durationMs < 5000, `${result.durationMs} ms`);

    const python = await sandbox.runCode(`${prelude}
import threading
threading.Thread(target=call, args=('mount', 0, 0, 0, 0, 0)).start()
time.sleep(1000)`);
    assertBlocked(python, 'of Python');

    const twin = outside([compile('thread'), String(mount)], { timeout: 500 });
    assert.deepEqual(
      [twin.signal, twin.stdout],
      ['SIGTERM', 'the call returned\n'],
    );
  },
);

test(
  'ATK a thread that makes a forbidden call while another executes gets nowhere',
  needsCompiler,
  async (t) => {
    const sandbox = await open(t);
    const program = await place(sandbox, 'thread');
    for (let i = 0; i < (soak ? 1000 : 30); i++) {
      const result = await sandbox.run([program, String(mount), 'exec']);
      // Who comes first is open; the call never comes back.
      if (result.fault) assertBlocked(result, 'the call first');
      else assertFinished(result, 'exec first');
      assert.equal(result.stdout, '');
    }
  },
);

test(
  'ATK a forbidden call of any descendant ends the box',
  needsCompiler,
  async (t) => {
    const sandbox = await open(t);
    const caller = await place(sandbox, 'call');
    const call = `${caller} ${mount} -1 -1 -1 -1 -1`;
    const scripts = {
      'a grandchild in a session of its own': `(setsid ${call} &); sleep 1000`,
      'sixty at the same time': `for i in $(seq 60); do ${call} & done; wait; echo survived`,
      'behind a pipe': `echo x | (${call}; cat) | cat; echo survived`,
    };
    for (const [title, script] of Object.entries(scripts)) {
      const result = await sandbox.runCode(script, bash);
      assertBlocked(result, title);
      assert.ok(!result.stdout.includes('survived'), title);
    }
  },
);

test(
  'ATK a forbidden call of a grandchild, when the main process ends, gets nowhere',
  needsCompiler,
  async (t) => {
    const sandbox = await open(t);
    const caller = await place(sandbox, 'call');
    for (let i = 0; i < (soak ? 1000 : 30); i++) {
      const result = await sandbox.runCode(
        `for i in 1 2 3; do (setsid ${caller} ${mount} -1 &); done; exit 0`,
        bash,
      );
      if (result.fault) assertBlocked(result, 'the call first');
      else assertFinished(result, 'the end first');
      assert.equal(result.stdout, '');
    }
  },
);

test('ATK SIGSYS can be neither caught, ignored nor blocked', async (t) => {
  const sandbox = await open(t);
  const ways = [
    'signal.signal(signal.SIGSYS, signal.SIG_IGN)',
    'signal.signal(signal.SIGSYS, lambda *_: None)',
    'signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))',
  ];
  for (const way of ways) {
    const result = await sandbox.runCode(`${prelude}
import signal
${way}
call('mount', 0, 0, 0, 0, 0)
print('survived')`);
    assertBlocked(result, way);
    assert.equal(result.stdout, '');
  }
});

test(
  'ATK signals that interrupt a forbidden call make it neither succeed nor pass',
  needsCompiler,
  async (t) => {
    const sandbox = await open(t);
    const program = await place(sandbox, 'signals');
    // A storm may take back some before anybody has looked; it is no way through.
    for (const words of [['10000'], ['1000000000', 'storm']]) {
      for (let i = 0; i < (soak ? 200 : 5); i++) {
        const result = await sandbox.run([program, String(mount), ...words]);
        assertBlocked(result, `${words}`);
        assert.equal(result.stdout, 'begin\n');
      }
    }
    const twin = outside([compile('signals'), String(mount), '1']);
    assert.match(twin.stdout, /^begin\nreturned -1 \d+\n$/);
  },
);

// ---- Filters on top of it --------------------------------------------------

test('SYS-13 filters of its own lift nothing', needsCompiler, async (t) => {
  const sandbox = await open(t);
  const program = await place(sandbox, 'filters');
  const allow = await sandbox.run([program, 'allow', String(mount)]);
  assertBlocked(allow, 'one that allows everything');
  assert.equal(allow.stdout, '');
  const many = await sandbox.run([program, 'many', String(mount)]);
  assertBlocked(many, 'as many as fit');
  const ENOMEM = 12;
  assert.match(
    many.stdout,
    new RegExp(`^[1-9]\\d* filters, then ${ENOMEM}\n$`),
  );

  const EFAULT = 14;
  const twin = outside([compile('filters'), 'allow', String(mount)]);
  assert.match(twin.stdout, new RegExp(`^-1 (${EFAULT}|1|22)\n$`));
});

test(
  'SYS-13 a filter of its own may answer in place of the kill, never allow',
  needsCompiler,
  async (t) => {
    const sandbox = await open(t);
    const program = await place(sandbox, 'filters');
    // To the kernel an errno is the stricter answer than a listener's.
    const result = await sandbox.run([program, 'errno', String(mount)]);
    const EXDEV = 18;
    if (result.fault) assertBlocked(result, 'errno');
    else assert.equal(result.stdout, `-1 ${EXDEV}\n`);
  },
);

test(
  'ATK no listener can be had, so none can answer "continue"',
  needsCompiler,
  async (t) => {
    const sandbox = await open(t);
    const program = await place(sandbox, 'filters');
    const [tsync, log, esrch, killable] = [1, 2, 16, 32];
    const EPERM = 1;
    for (const flags of [
      0,
      tsync | esrch,
      log,
      killable,
      tsync,
      '0x100000000',
    ]) {
      const result = await sandbox.run([program, 'listener', String(flags)]);
      assertFinished(result, `flags ${flags}`);
      assert.equal(result.stdout, `-1 ${EPERM}\n`, `flags ${flags}`);
    }
    const twin = outside([compile('filters'), 'listener', '0']);
    assert.match(twin.stdout, /^[1-9]\d* 0\n$/);
  },
);

test('SYS-25 without seccomp nothing runs', needsCompiler, async () => {
  const script = `
    const glovebox = require(${JSON.stringify(path.join(__dirname, '../..'))});
    glovebox.withSandbox((sandbox) => sandbox.run(['true'])).then(
      ({ exitCode }) => console.log('ran', exitCode),
      ({ code }) => console.log(code),
    );`;
  const tryWithout = (...words) =>
    outside([
      compile('without-seccomp'),
      ...words.map(String),
      process.execPath,
      '--no-warnings',
      '-e',
      script,
    ]).stdout.trim();
  const [setFilter, getAction, unknown] = [1, 2, 99];
  const listenerFlag = 8;
  const [EPERM, EINVAL, ENOSYS] = [1, 22, 38];
  assert.equal(tryWithout(unknown, 0, ENOSYS), 'ran 0');
  assert.equal(tryWithout(-1, 0, ENOSYS), 'ERR_SANDBOX_UNSUPPORTED');
  assert.equal(tryWithout(-1, 0, EPERM), 'ERR_SANDBOX_UNSUPPORTED');
  assert.equal(tryWithout(getAction, 0, EINVAL), 'ERR_SANDBOX_UNSUPPORTED');
  // Refused only when it is to be loaded, in the box.
  for (const errno of [EPERM, EINVAL]) {
    assert.equal(tryWithout(setFilter, 0, errno), 'ERR_SANDBOX_SETUP');
  }
  assert.equal(tryWithout(setFilter, 0, ENOSYS), 'ERR_SANDBOX_UNSUPPORTED');
  // That it has no listener is no reason: the filter then kills by itself.
  assert.equal(tryWithout(setFilter, listenerFlag, EINVAL), 'ran 0');
});

test(
  'SYS-25 where there can be no listener forbidden calls are not made either',
  needsCompiler,
  async () => {
    const script = `
    const glovebox = require(${JSON.stringify(path.join(__dirname, '../..'))});
    glovebox.withSandbox(async (sandbox) => {
      const code = ${JSON.stringify(prelude)} + \`
print('begin', flush=True)
call('mount', 0, 0, 0, 0, 0)
print('survived')\`;
      const { exitCode, signal, success, stdout } = await sandbox.runCode(code);
      console.log(JSON.stringify({ exitCode, signal, success, stdout }));
    });`;
    const [setFilter, getSizes, listenerFlag, EINVAL] = [1, 3, 8, 22];
    const without = compile('without-seccomp');
    for (const words of [
      [without, getSizes, 0, EINVAL],
      [without, setFilter, listenerFlag, EINVAL],
      [compile('listened')],
    ]) {
      const { stdout } = outside([
        ...words.map(String),
        ...[process.execPath, '--no-warnings', '-e', script],
      ]);
      assert.deepEqual(
        JSON.parse(stdout),
        {
          exitCode: 159,
          signal: 'SIGSYS',
          success: false,
          stdout: 'begin\n',
        },
        words.join(' '),
      );
    }
  },
);

// ---- Errnos ----------------------------------------------------------------

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

// ---- What ordinary programs need -------------------------------------------

test('SYS-22 Python does all that it does elsewhere', async (t) => {
  const parts = `
import asyncio, fcntl, importlib.util, mmap, multiprocessing, select, signal
import socket, sqlite3, ssl, subprocess, tempfile, threading

def threads():
    done = []
    group = [threading.Thread(target=done.append, args=(i,)) for i in range(20)]
    for thread in group: thread.start()
    for thread in group: thread.join()
    assert len(done) == 20
def subprocesses():
    assert subprocess.run(['tr', 'a', 'b'], input=b'aa', capture_output=True,
                          check=True).stdout == b'bb'
    assert subprocess.getoutput('echo $((1 + 1))') == '2'
    shell = subprocess.run('exit 3', shell=True, preexec_fn=os.setpgrp, cwd='/')
    assert shell.returncode == 3
def double(n):
    return n * 2
def processes():
    for method in ('fork', 'spawn'):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(double, range(5)) == [0, 2, 4, 6, 8]
def loop():
    async def main():
        server = await asyncio.start_server(lambda r, w: w.close(), '127.0.0.1')
        reader, writer = await asyncio.open_connection(
            *server.sockets[0].getsockname())
        assert await reader.read() == b''
        child = await asyncio.create_subprocess_exec('true')
        return await child.wait()
    assert asyncio.run(main()) == 0
def database():
    with sqlite3.connect('/workspace/x.db') as connection:
        connection.execute('PRAGMA journal_mode=WAL')
        connection.execute('create table t (n)')
        connection.execute('insert into t values (1)')
    assert connection.execute('select n from t').fetchall() == [(1,)]
def tls():
    ssl.create_default_context()
    assert len(ssl.RAND_bytes(4)) == 4
def memory():
    with tempfile.TemporaryFile() as file:
        file.truncate(8192)
        with mmap.mmap(file.fileno(), 8192) as map:
            map[0] = 7
            map.flush()
    fd = os.memfd_create('x')
    os.ftruncate(fd, 4096)
    with mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC):
        pass
def pidfds():
    child = os.fork()
    if child == 0:
        signal.pause()
    pidfd = os.pidfd_open(child)
    signal.pidfd_send_signal(pidfd, signal.SIGTERM)
    select.select([pidfd], [], [])
    assert os.waitpid(child, 0)[1] == signal.SIGTERM
def events():
    reader, writer = os.pipe()
    with select.epoll() as epoll:
        epoll.register(reader, select.EPOLLIN)
        os.write(writer, b'x')
        assert epoll.poll()[0][0] == reader
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    assert signal.sigwait([signal.SIGALRM]) == signal.SIGALRM
def files():
    with open('/workspace/lock', 'w') as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        fcntl.lockf(file, fcntl.LOCK_EX)
        os.posix_fallocate(file.fileno(), 0, 4096)
        os.setxattr(file.fileno(), 'user.x', b'1')
        os.utime(file.fileno(), (1, 1))
    os.chmod('/workspace/lock', 0o600)
    os.sendfile(os.open('/workspace/copy', os.O_CREAT | os.O_WRONLY),
                os.open('/etc/passwd', os.O_RDONLY), 0, 10)
def sockets():
    left, right = socket.socketpair()
    socket.send_fds(left, [b'x'], [0])
    assert socket.recv_fds(right, 1, 1)[1]
    with socket.socket(socket.AF_INET6) as server:
        server.bind(('::1', 0))
        server.listen()
        socket.create_connection(server.getsockname()[:2]).close()
def pip():
    if importlib.util.find_spec('pip'):
        subprocess.run([sys.executable, '-m', 'pip', '--version'], check=True,
                       stdout=subprocess.DEVNULL)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
`;
  const names = [...parts.matchAll(/^def (\w+)\(\):/gm)].map(
    ([, name]) => name,
  );
  const code = `${parts}
answer = {}
for name in ${JSON.stringify(names)}:
    try:
        globals()[name]()
        answer[name] = 'works'
    except BaseException as error:
        answer[name] = repr(error)`;
  const answer = await ask(await open(t), code);
  assert.ok(names.length > 10);
  const broken = Object.entries(answer).filter(
    ([, result]) => result !== 'works',
  );
  assert.deepEqual(broken, []);
});

test('SYS-22 Node does all that it does elsewhere', async (t) => {
  const result = await (await open(t)).runCode(
    `
const { Worker } = require('node:worker_threads');
const { once } = require('node:events');
const { execFileSync, fork } = require('node:child_process');
const { gzipSync, gunzipSync } = require('node:zlib');
const http = require('node:http');
const fs = require('node:fs');

const worker = new Worker(
  "require('node:worker_threads').parentPort.postMessage(6 * 7)", { eval: true });
const [message] = await once(worker, 'message');

const server = http.createServer((_, response) => response.end('hello'));
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const response = await fetch('http://127.0.0.1:' + server.address().port);
const body = await response.text();
server.close();

const watcher = fs.watch('/workspace');
const event = once(watcher, 'change');
await fs.promises.writeFile('/workspace/file', 'x');
await event;
watcher.close();
console.log(message, body, execFileSync('echo', ['child']).toString().trim(),
  gunzipSync(gzipSync('zip')).toString());
process.exit(0);
`,
    { language: 'node' },
  );
  assertFinished(result);
  assert.equal(result.stdout, '42 hello child zip\n');
});

test('SYS-22 the tools of a shell do all that they do elsewhere', async (t) => {
  const result = await (await open(t)).runCode(
    `set -euo pipefail
seq 1000 | sort -rn | head -n 1
mkdir -p a/b
for i in 1 2 3; do echo "$i" > "a/b/$i"; done
find a -type f | xargs cat | wc -l
tar czf a.tar.gz a
tar xzf a.tar.gz -C /tmp
diff -r a /tmp/a && echo same
gzip -k a/b/1 && gunzip -c a/b/1.gz
ps -e -o comm= | sort | uniq | grep -c bash
cp -a a c && mv c d && rm -r d
mktemp -d > /dev/null
touch -d @1 a && stat -c %Y a
test -r a && test -w /workspace && test ! -w /usr && echo tests
(sleep 1000 & kill $!; wait $! || echo "killed $?")
cat <(echo substitution)
mkfifo f && (echo fifo > f & cat f; wait)
df . > /dev/null && du -s a > /dev/null && id -un && nproc > /dev/null
timeout 5 date +%Y > /dev/null && ls -la / /proc/self/fd > /dev/null && nice true
`,
    bash,
  );
  assertFinished(result);
  assert.deepEqual(result.stdout.split('\n'), [
    '1000',
    '3',
    'same',
    '1',
    '1',
    '1',
    'tests',
    'killed 143',
    'substitution',
    'fifo',
    'user',
    '',
  ]);
  assert.equal(spawnSync('tar', ['--version']).status, 0);
});
