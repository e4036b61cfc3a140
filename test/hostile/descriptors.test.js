// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rows FD: which descriptors a box has, and what it can do with them.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const {
  canary,
  isRoot,
  makeFolder,
  open,
  outside,
  packagedPython,
  soak,
  test,
  timeScale,
} = require('../helpers/harness.js');
const {
  ask,
  askAndHold,
  askOutside,
  assertFinished,
  prelude,
} = require('./attack.js');

const bash = { language: 'bash' };
const hostPython = packagedPython ?? 'python3';

/** From the output of `ls -l /proc/PID/fd`: `{NUMBER: TARGET}`. */
function parseDescriptors(text) {
  const found = {};
  for (const line of text.split('\n')) {
    const match = / (\d+) -> (.*)$/.exec(line);
    if (match) found[match[1]] = match[2];
  }
  return found;
}

// What a program finds open: its own /dev/null and two pipes. The fourth is how
// `ls` looks at them.
function assertOnlyStandard(listing, title) {
  const kinds = Object.entries(parseDescriptors(listing)).map(
    ([number, target]) => [number, target.replaceAll(/\d+/g, 'N')],
  );
  assert.deepEqual(
    Object.fromEntries(kinds),
    { 0: '/dev/null', 1: 'pipe:[N]', 2: 'pipe:[N]', 3: '/proc/N/fd' },
    title,
  );
}

/**
 * Runs fixtures/descriptors-of-box.js by a Python program that prepares its
 * descriptors, and gives its report.
 */
function runWithDescriptors(t, prepare) {
  const folder = makeFolder(t);
  const report = path.join(folder, 'report.json');
  const fixture = path.join(__dirname, 'fixtures', 'descriptors-of-box.js');
  const argv = [process.execPath, '--no-warnings', fixture, report];
  const script = `
import os, resource, select, socket
${prepare}
argv = ${JSON.stringify(argv)}
os.execv(argv[0], argv)`;
  const { exitCode, stderr } = outside([hostPython, '-c', script]);
  assert.equal(exitCode, 0, stderr);
  return JSON.parse(fs.readFileSync(report, 'utf8'));
}

// Inheritable, as any library of the host process may open them.
const openSecrets = `
opened = [os.open(${JSON.stringify(canary.file)}, os.O_RDWR),
          os.open('/', os.O_RDONLY), *os.pipe(), select.epoll().fileno()]
listener = socket.socket()
listener.bind(('127.0.0.1', 0))
listener.listen()
opened.append(listener.fileno())
opened = [os.dup(fd) for fd in opened]
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (2048, hard))
numbers = [3, 100, 101, 102, 1023, 2047]
for source, target in zip(opened, numbers[1:] + numbers[:1]):
    os.dup2(source, target, inheritable=True)
`;

test('FD-01 no descriptor that the host process left open is in a box', (t) => {
  const { inBox, child } = runWithDescriptors(t, openSecrets);
  const targets = Object.values(parseDescriptors(child));
  assert.ok(
    targets.includes(canary.file),
    `an ordinary child has it: ${child}`,
  );
  assert.ok(targets.includes('/'));
  for (const listing of inBox) assertOnlyStandard(listing);
});

test('FD-02 nor one above a limit that was lowered later', (t) => {
  // As many may be on their way between all processes of this user, of which
  // other tests have some: so it is not lower than it has to be.
  const { inBox } = runWithDescriptors(
    t,
    `${openSecrets}
resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))`,
  );
  for (const listing of inBox) assertOnlyStandard(listing);
});

test('FD-04 opening standard streams anew reaches the same pipes and no file', async (t) => {
  const code = `
import stat
flags = {'read': os.O_RDONLY, 'write': os.O_WRONLY, 'both': os.O_RDWR,
         'truncate': os.O_RDWR | os.O_TRUNC}
def reopen(number):
    found = {}
    for name, flag in flags.items():
        path = '/proc/self/fd/%d' % number
        fd = attempt(os.open, path, flag | os.O_NONBLOCK)
        if isinstance(fd, str):
            found[name] = fd
            continue
        mode = os.fstat(fd).st_mode
        same = os.path.samestat(os.fstat(fd), os.fstat(number))
        found[name] = (stat.filemode(mode)[0], same)
        os.close(fd)
    return found
`;
  const answer = await ask(
    await open(t),
    `${code}
control = max(int(name) for name in os.listdir('/proc/self/fd'))
answer = {'streams': [reopen(number) for number in (0, 1, 2)],
          'null': os.fstat(0).st_rdev == os.makedev(1, 3),
          'control': reopen(control)}`,
  );
  const both = (kind) => ({
    read: [kind, true],
    write: [kind, true],
    both: [kind, true],
    truncate: [kind, true],
  });
  assert.deepEqual(answer.streams, [both('c'), both('p'), both('p')]);
  assert.equal(answer.null, true);
  for (const outcome of Object.values(answer.control)) {
    assert.equal(outcome, 'EACCES', "the driver's pipe cannot be opened");
  }
  // With a file as stdin, opened for reading, it can be overwritten.
  const folder = makeFolder(t);
  const file = path.join(folder, 'file');
  fs.writeFileSync(file, 'text');
  const stdin = fs.openSync(file, 'r');
  const twin = askOutside(`${code}\nanswer = reopen(0)`, {
    stdio: [stdin, 'pipe', 'pipe'],
  });
  fs.closeSync(stdin);
  assert.deepEqual(twin.write, ['-', true]);
  assert.equal(fs.readFileSync(file, 'utf8'), '');
});

test('FD-05 a host process without standard streams gives boxes proper ones', (t) => {
  for (const closed of [[0], [1], [2], [0, 1, 2]]) {
    const { inBox, echo } = runWithDescriptors(
      t,
      closed.map((descriptor) => `os.close(${descriptor})`).join('\n'),
    );
    assert.deepEqual(echo, [0, 'out\n', 'err\n'], `without ${closed}`);
    for (const listing of inBox) assertOnlyStandard(listing, `${closed}`);
  }
});

test('FD-07 a daemon that holds stdout does not hold the call', async (t) => {
  const sandbox = await open(t);
  for (const [code, options] of [
    ['setsid sleep 1000 & echo done', bash],
    [
      'import subprocess\nsubprocess.Popen(["sleep", "1000"], start_new_session=True)\nprint("done")',
      {},
    ],
  ]) {
    const result = await sandbox.runCode(code, options);
    assertFinished(result);
    assert.equal(result.stdout, 'done\n');
    assert.ok(result.durationMs < 5000 * timeScale, `${result.durationMs} ms`);
  }
});

test('FD-08 what a box sets on its pipe does not disturb the reader', async (t) => {
  const sandbox = await open(t);
  const size = 4 << 20;
  for (const setting of [
    'fcntl.fcntl(1, fcntl.F_SETFL, os.O_NONBLOCK)',
    'fcntl.fcntl(1, 1031, 1 << 20)', // F_SETPIPE_SZ
    'fcntl.fcntl(1, 1031, 4096)',
    'fcntl.fcntl(1, fcntl.F_SETOWN, 1)',
    'fcntl.fcntl(1, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)',
    'fcntl.fcntl(1, 10, 9)', // F_SETSIG, SIGKILL
    'fcntl.fcntl(1, fcntl.F_SETFL, os.O_DIRECT)', // one write, one packet
    'fcntl.flock(1, fcntl.LOCK_EX)',
  ]) {
    const chunks = [];
    const result = await sandbox.runCode(
      `${prelude}
import fcntl, select
attempt(lambda: ${setting})
data = memoryview(bytes(range(256)) * ${size / 256})
while data:
    select.select([], [1], [])
    written = attempt(os.write, 1, data[:4096])
    if written != 'EAGAIN':
        data = data[written:]`,
      { onStdout: (chunk) => chunks.push(chunk) },
    );
    assertFinished(result, setting);
    assert.equal(result.stdoutBuffer.length, size, setting);
    const wanted = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    for (let at = 0; at < size; at += 256) {
      if (result.stdoutBuffer.compare(wanted, 0, 256, at, at + 256) !== 0) {
        assert.fail(`${setting}: other bytes at ${at}`);
      }
    }
    assert.ok(Buffer.concat(chunks).equals(result.stdoutBuffer), setting);
  }
});

test('FD-10 a box finds no pipe of another that runs', async (t) => {
  const [first, second] = [await open(t), await open(t)];
  const list = `
def links():
    found = []
    for parent in ['/proc/' + name for name in os.listdir('/proc') if name.isdigit()]:
        for name in attempt(os.listdir, parent + '/fd'):
            link = attempt(os.readlink, parent + '/fd/' + name)
            found.append(link)
    return sorted(link for link in found if link[:4] in ('pipe', 'sock'))
`;
  const held = askAndHold(first, `${list}\nhold()\nanswer = links()`);
  await held.ready;
  // The reading ends are ours.
  const ours = fs
    .readdirSync('/proc/self/fd')
    .map((fd) => {
      try {
        return fs.readlinkSync(`/proc/self/fd/${fd}`);
      } catch {
        return '';
      }
    })
    .filter(Boolean);
  const seen = await ask(second, `${list}\nanswer = links()`);
  const beside = await ask(first, `${list}\nanswer = links()`);
  await held.release();
  const own = await held.answer;
  assert.equal(own.length, 4);
  const pipes = own.filter((link) => link.startsWith('pipe'));
  assert.deepEqual(
    pipes.filter((link) => !ours.includes(link)),
    [],
  );
  for (const others of [seen, beside]) {
    assert.equal(others.length, 4);
    assert.deepEqual(
      others.filter((link) => own.includes(link)),
      [],
    );
  }
});

test('FD-11 open files are limited, below what the host process may have', async (t) => {
  const answer = await ask(
    await open(t),
    `
import resource
def fill():
    made = []
    while True:
        fd = attempt(os.dup, 0)
        if isinstance(fd, str):
            break
        made.append(fd)
    for each in made:
        os.close(each)
    return [fd, made[-1]]
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
first = fill()
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
answer = [soft, hard, first, fill()]`,
  );
  const [soft, hard] = answer;
  assert.ok(soft <= 1024 && hard <= 4096, `${soft}, ${hard}`);
  assert.deepEqual(answer.slice(2), [
    ['EMFILE', soft - 1],
    ['EMFILE', hard - 1],
  ]);
});

// ---- Descriptors of the product's own --------------------------------------

test('ATK the driver keeps its socket to itself', async (t) => {
  const sandbox = await open(t);
  const answer = await ask(
    sandbox,
    `
import subprocess
def listed(*argv, **options):
    return subprocess.run(argv, capture_output=True, text=True, **options).stdout
def by_child(fork):
    reader, writer = os.pipe()
    pid = fork()
    if pid == 0:
        links = [attempt(os.readlink, '/proc/self/fd/' + name)
                 for name in os.listdir('/proc/self/fd')]
        os.write(writer, json.dumps(links).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)
    return json.loads(os.read(reader, 65536))
listing = 'import os; print(os.listdir("/proc/self/fd"))'
answer = {
  'three': attempt(os.fstat, 3),
  'executed': listed(sys.executable, '-c', listing),
  'executed, all': listed(sys.executable, '-c', listing, close_fds=False),
  'forked': by_child(os.fork),
  'own': [attempt(os.readlink, '/proc/self/fd/' + name)
          for name in os.listdir('/proc/self/fd')],
}`,
  );
  const sockets = (links) => links.filter((link) => link.startsWith('socket'));
  assert.equal(answer.three, 'EBADF');
  for (const name of ['executed', 'executed, all']) {
    // 3 is the listing's own.
    assert.equal(answer[name], "['0', '1', '2', '3']\n", name);
  }
  assert.deepEqual(sockets(answer.forked), []);
  assert.equal(sockets(answer.own).length, 1, 'the driver has one');

  const node = await sandbox.runCode(
    `
const { execFileSync } = require('node:child_process');
const listed = execFileSync('ls', ['/proc/self/fd']).toString();
console.log(JSON.stringify(listed.trim().split('\\n')));`,
    { language: 'node' },
  );
  assertFinished(node);
  assert.deepEqual(JSON.parse(node.stdout), ['0', '1', '2', '3']);
});

test('ATK neither long bash code nor argv and environment stay behind as descriptors', async (t) => {
  const sandbox = await open(t);
  const list = 'ls -l /proc/self/fd; ls -l /proc/$$/fd; cat /proc/$$/maps';
  const short = await sandbox.runCode(list, bash);
  const padding = `# ${'x'.repeat(200_000)}\n`;
  const long = await sandbox.runCode(padding + list, bash);
  for (const result of [short, long]) {
    assertFinished(result);
    const [child, shell, ...maps] = result.stdout.split(/^total 0$/m).slice(1);
    assertOnlyStandard(child);
    const { 0: stdin, 1: stdout, 2: stderr, ...rest } = parseDescriptors(shell);
    assert.match([stdin, stdout, stderr].join(), /^\/dev\/null,pipe:.*,pipe:/);
    // bash keeps the one that it read the code from until the end of it.
    for (const [number, target] of Object.entries(rest)) {
      assert.ok(Number(number) >= 10, `${number} ${target}`);
      assert.match(target, /^\/memfd:script \(deleted\)$/);
    }
    assert.ok(!`${shell}${maps}`.includes('memfd:exec'));
  }
});

/** Python: `control`, the driver's socket. */
const findControl = `
import array, socket, struct
control = socket.socket(fileno=os.dup(max(map(int, os.listdir('/proc/self/fd'))) - 1))
`;

test('ATK a box can send nothing over the control socket, descriptors least of all', async (t) => {
  const answer = await ask(
    await open(t),
    `${findControl}
reader, writer = os.pipe()
rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [writer] * 10))]
left, right = socket.socketpair()
answer = {'family': control.family == socket.AF_UNIX,
          'bytes': attempt(control.send, b'x'),
          'urgent': attempt(control.send, b'x', socket.MSG_OOB),
          'rights': attempt(control.sendmsg, [b'x'], rights),
          'twin': attempt(left.sendmsg, [b'x'], rights)}`,
  );
  assert.deepEqual(answer, {
    family: true,
    bytes: 'EPIPE',
    urgent: 'EPIPE',
    rights: 'EPIPE',
    twin: 1,
  });
});

// Who reads a message with descriptors that it does not want closes them, and
// the last to close such a connection waits until its peer has read all.
const lingers = `
import threading
listener = socket.socket()
listener.bind(('127.0.0.1', 0))
listener.listen(1)
client = socket.socket()
client.connect(listener.getsockname())
peer, _ = listener.accept()
client.setblocking(False)
while attempt(client.send, bytes(65536)) != 'EAGAIN':
    pass
client.setblocking(True)
client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 60))
rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [client.fileno()]))]
`;

test('ATK-LINGER a connection that lingers, sent to the host process, holds up nobody', async (t) => {
  const [hostile, other] = [
    await open(t, { timeoutS: 3 }),
    await open(t, { timeoutS: 60 }),
  ];
  let tell;
  const hasSent = new Promise((resolve) => {
    tell = resolve;
  });
  const end = hostile.runCode(
    `${prelude}${findControl}${lingers}
# A frame that is read for a while, so that ours is the first to close.
attempt(control.send, struct.pack('<II', 60 << 20, 2) + bytes(8 << 20))
print(attempt(control.sendmsg, [bytes(1000)], rights), flush=True)
threading.Thread(target=client.close).start()
time.sleep(60)`,
    { onStdout: tell },
  );
  await Promise.race([hasSent, end]);
  const start = Date.now();
  assertFinished(await other.run(['true']));
  const result = await end;
  assert.ok(Date.now() - start < 10000 * timeScale, `${Date.now() - start} ms`);
  assert.equal(result.fault?.type, 'timeout', result.stderr);
  assert.equal(result.stdout, 'EPIPE\n');
  // The twin: here it does wait.
  const twin = await hostile.runCode(
    `${prelude}${findControl}${lingers}
left, right = socket.socketpair()
left.sendmsg([b'x'], rights)
client.close()
right.recv(1)
print('it did not linger')`,
  );
  assert.equal(twin.fault?.type, 'timeout', twin.stdout + twin.stderr);
});

test('ATK a box that keeps descriptors on their way keeps no other from starting', {
  // The kernel counts them per user.
  skip: !isRoot && 'the quota is that of all who run as this user',
}, async (t) => {
  const [first, second] = [await open(t), await open(t)];
  const held = askAndHold(
    first,
    `
import array, resource, socket
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
kept, sent, error = [], 0, None
rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0] * 250))]
while error in (None, 'EAGAIN'):
    if error == 'EAGAIN' or not kept:
        kept += socket.socketpair()
        kept[-2].setblocking(False)
    error = attempt(kept[-2].sendmsg, [b'x'], rights)
    if isinstance(error, int):
        sent, error = sent + 250, None
hold()
answer = [error, sent >= hard]`,
  );
  await held.ready;
  for (let i = 0; i < 5; i++) {
    // More than were made ahead of need.
    const results = await Promise.all(
      [first, second].map((sandbox) => sandbox.runCode('print(1)')),
    );
    for (const result of results) assert.equal(result.stdout, '1\n');
  }
  await held.release();
  assert.deepEqual(await held.answer, ['ETOOMANYREFS', true]);
});

test('ATK a box that watches as many files as its user may keeps no other from starting', {
  skip:
    (!isRoot && 'the quota is that of all who run as this user') ||
    (!soak && 'takes 2 GiB of memory (GLOVEBOX_SOAK=1)'),
}, async (t) => {
  const [first, second] = [await open(t, { memoryMb: null }), await open(t)];
  const held = askAndHold(
    first,
    `
import resource, select
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
events = [os.eventfd(0) for i in range(hard // 2)]
main, epolls = os.getpid(), []
def fill():
    """Whether there is no watch left; else there is no descriptor left."""
    while True:
        epoll = attempt(select.epoll)
        if epoll == 'EMFILE':
            return False
        epolls.append(epoll)
        for event in events:
            if attempt(epoll.register, event, select.EPOLLIN) == 'ENOSPC':
                return True
while not fill():
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        break
    for epoll in epolls:
        epoll.close()
else:
    hold()
if os.getpid() != main:
    os._exit(0)
answer = 'full'`,
    { timeoutS: 300 },
  );
  await held.ready;
  const results = await Promise.all(
    Array.from({ length: 20 }, () => second.run(['true'])),
  );
  for (const result of results) assertFinished(result);
  await held.release();
  assert.equal(await held.answer, 'full');
});

test('ATK the host process behind the control socket is out of reach', async (t) => {
  const answer = await ask(
    await open(t),
    `
import fcntl, signal, socket, struct
SO_PEERCRED, SO_PEERPIDFD = 17, 77
control = socket.socket(fileno=os.dup(max(map(int, os.listdir('/proc/self/fd'))) - 1))
peer = struct.unpack('iii', control.getsockopt(socket.SOL_SOCKET, SO_PEERCRED, 12))
pidfd = attempt(control.getsockopt, socket.SOL_SOCKET, SO_PEERPIDFD, 4)
answer = {'pid': peer[0], 'has pidfd': not isinstance(pidfd, str)}
if answer['has pidfd']:
    pidfd = struct.unpack('i', pidfd)[0]
    answer['signals'] = sorted({attempt(signal.pidfd_send_signal, pidfd, number)
                                for number in (0, 9, 15, 19)})
    answer['take'] = call('pidfd_getfd', pidfd, 0, 0)
    answer['namespaces'] = sorted({attempt(fcntl.ioctl, pidfd, 0xff00 + number)
                                   for number in range(1, 11)})
    answer['shown'] = read('/proc/self/fdinfo/%d' % pidfd).split('Pid:')[1].split()[0]
child = os.fork()
if child == 0:
    signal.pause()
answer['twin'] = attempt(signal.pidfd_send_signal, os.pidfd_open(child), 9)`,
  );
  assert.equal(answer.pid, 0, 'no pid of this box');
  assert.equal(answer.twin, null);
  // Kernels before 6.5 do not tell.
  if (answer['has pidfd']) {
    assert.deepEqual(answer.signals, ['EINVAL']);
    assert.equal(answer.take, 'EPERM');
    assert.equal(answer.shown, '0');
    for (const result of answer.namespaces) {
      assert.match(
        String(result),
        /^(EACCES|EPERM|ENOTTY|EINVAL|EREMOTE|ESRCH)$/,
      );
    }
  }
});
