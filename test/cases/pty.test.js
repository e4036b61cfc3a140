// SPDX-License-Identifier: Apache-2.0
'use strict';

// sandbox.spawn() with a terminal: that programs take it for one, and that it
// is the box's own.

const assert = require('node:assert/strict');
const { once } = require('node:events');
const fs = require('node:fs');
const {
  descendants,
  eventually,
  open,
  outside,
  test,
} = require('../helpers/harness.js');

/** A process on a terminal, with `until(pattern)`: what came up to it. */
function start(sandbox, command, pty = {}, options = {}) {
  const child = sandbox.spawn(command, { pty, ...options });
  let seen = '';
  child.stdout.on('data', (chunk) => {
    seen += chunk;
  });
  child.stderr.resume();
  child.until = async (pattern) => {
    await eventually(
      () => pattern.test(seen),
      () => `waited for ${pattern}, got ${JSON.stringify(seen)}`,
      10000,
    );
    const match = pattern.exec(seen);
    const before = seen.slice(0, match.index + match[0].length);
    seen = seen.slice(before.length);
    return match;
  };
  return child;
}

function startBash(sandbox) {
  const env = { PS1: '> ', TERM: 'dumb' };
  return start(sandbox, ['bash', '--norc', '-i'], {}, { env });
}

test('0, 1 and 2 are a terminal of the wanted size, and the controlling one', async (t) => {
  const sandbox = await open(t);
  const child = sandbox.spawn(
    {
      code: `import os, sys, termios
size = os.get_terminal_size()
print([os.isatty(fd) for fd in range(3)], size.columns, size.lines)
print([os.ttyname(fd) for fd in range(3)], os.ctermid())
print(os.tcgetpgrp(0) == os.getpgrp(), os.getsid(0) == os.getpid())
print(os.environ['TERM'])
with open('/dev/tty', 'w') as tty: tty.write('to the terminal\\n')
print('to stderr', file=sys.stderr)
import pty
master, slave = pty.openpty()
print(os.ttyname(slave))`,
    },
    { pty: { cols: 132, rows: 43 } },
  );
  const { stdout, stderr, exitCode } = await child.wait();
  assert.equal(exitCode, 0, stdout);
  assert.equal(stderr, '');
  assert.deepEqual(stdout.split('\r\n'), [
    '[True, True, True] 132 43',
    "['/dev/pts/0', '/dev/pts/0', '/dev/pts/0'] /dev/tty",
    'True True',
    'xterm-256color',
    'to the terminal',
    'to stderr',
    '/dev/pts/1',
    '',
  ]);
});

test('without pty nothing is a terminal, and there is none to open', async (t) => {
  const sandbox = await open(t);
  const child = sandbox.spawn({
    code: `import os
print([os.isatty(fd) for fd in range(3)], os.path.exists('/dev/ptmx'))`,
  });
  child.stdin.end();
  assert.equal((await child.wait()).stdout, '[False, False, False] False\n');
});

test('TERM is what pty.term or env says', async (t) => {
  const sandbox = await open(t);
  const term = async (pty, env) => {
    const child = sandbox.spawn(['printenv', 'TERM'], { pty, env });
    return (await child.wait()).stdout.trim();
  };
  assert.equal(await term({ term: 'dumb' }), 'dumb');
  assert.equal(await term({}, { TERM: 'vt100' }), 'vt100');
});

test('an interactive bash: prompt, echo, history of jobs, exit code', async (t) => {
  const sandbox = await open(t);
  const bash = startBash(sandbox);
  await bash.until(/> $/);
  bash.stdin.write('echo $((6 * 7))\n');
  await bash.until(/\n42\r\n> $/);
  bash.stdin.write('exit 7\n');
  const result = await bash.wait();
  assert.equal(result.exitCode, 7);
});

test('Ctrl-C interrupts what runs, and the shell lives on', async (t) => {
  const sandbox = await open(t);
  const bash = startBash(sandbox);
  await bash.until(/> $/);
  bash.stdin.write('sleep 77\n');
  await eventually(
    () => descendants().some(({ name }) => name === 'sleep'),
    'it sleeps',
  );
  bash.stdin.write('\x03');
  await bash.until(/\^C/);
  bash.stdin.write('echo $?\n');
  await bash.until(/\n130\r\n/);
  bash.stdin.write('exit\n');
  await bash.wait();
});

test('job control: Ctrl-Z stops a job, bg and fg go on with it', async (t) => {
  const sandbox = await open(t);
  const bash = startBash(sandbox);
  await bash.until(/> $/);
  bash.stdin.write('cat\n');
  await eventually(
    () => descendants().some(({ name }) => name === 'cat'),
    'cat runs',
  );
  bash.stdin.write('\x1a');
  await bash.until(/Stopped\s+cat/);
  bash.stdin.write('jobs\n');
  await bash.until(/\[1\]\+\s+Stopped\s+cat/);
  bash.stdin.write('fg\n');
  await bash.until(/\ncat\r\n/);
  bash.stdin.write('echoed by cat\n');
  await bash.until(/echoed by cat\r\nechoed by cat\r\n/);
  bash.stdin.write('\x04');
  await bash.until(/> $/);
  bash.stdin.write('exit 0\n');
  assert.equal((await bash.wait()).exitCode, 0);
});

test('resize() is SIGWINCH and the new size', async (t) => {
  const sandbox = await open(t);
  const child = start(sandbox, {
    code: `import os, signal
def resized(*_):
    os.write(1, b'resized %d %d;' % os.get_terminal_size())
signal.signal(signal.SIGWINCH, resized)
os.write(1, b'ready %d %d;' % os.get_terminal_size())
while True: signal.pause()`,
  });
  await child.until(/ready 80 24;/);
  child.resize({ cols: 200, rows: 50 });
  await child.until(/resized 200 50;/);
  child.resize({ cols: 10 });
  await child.until(/resized 10 24;/);
  assert.throws(() => child.resize({ cols: 0 }), {
    code: 'ERR_SANDBOX_INVALID_OPTION',
  });
  child.kill('SIGKILL');
  await child.wait();
  child.resize({ cols: 5, rows: 5 });
});

test('resize() before the start counts, and without a terminal is refused', async (t) => {
  const sandbox = await open(t);
  const child = sandbox.spawn(['sh', '-c', 'sleep 0.2; stty size'], {
    pty: {},
  });
  child.resize({ cols: 99, rows: 33 });
  assert.equal((await child.wait()).stdout, '33 99\r\n');
  const plain = sandbox.spawn(['cat']);
  assert.throws(() => plain.resize({ cols: 5, rows: 5 }), /needs a terminal/);
  plain.stdin.end();
  await plain.wait();
});

test('end() of stdin types Ctrl-D', async (t) => {
  const sandbox = await open(t);
  const cat = sandbox.spawn(['cat'], { pty: {} });
  cat.stdin.end('line\n');
  const { stdout, exitCode } = await cat.wait();
  assert.equal(stdout, 'line\r\nline\r\n');
  assert.equal(exitCode, 0);
});

test('end() types it once', async (t) => {
  const sandbox = await open(t);
  const child = start(sandbox, ['sh', '-c', 'cat; echo between; cat']);
  child.stdin.end('line\n');
  await child.until(/between/);
  await eventually(() => child.stdin.destroyed, 'stdin is closed');
  await new Promise((resolve) => setTimeout(resolve, 200));
  assert.equal(child.exitCode, null);
  child.kill('SIGKILL');
  await child.wait();
});

test('all that was written is there, however fast it came and ended', async (t) => {
  const sandbox = await open(t);
  for (let i = 0; i < 10; i++) {
    const child = sandbox.spawn(['seq', '20000'], { pty: {} });
    const { stdoutBuffer } = await child.wait();
    assert.equal(stdoutBuffer.length, 108894 + 20000);
  }
});

test('what nobody reads of a terminal holds the program, not this process', async (t) => {
  const sandbox = await open(t);
  const child = sandbox.spawn(['sh', '-c', 'seq 100000; echo > done'], {
    pty: {},
  });
  await once(child, 'spawn');
  await new Promise((resolve) => setTimeout(resolve, 300));
  assert.deepEqual(await sandbox.listFiles(), []);
  const { stdoutBuffer } = await child.wait();
  assert.equal(stdoutBuffer.length, 588895 + 100000);
});

test('input that nobody reads is no deadlock', async (t) => {
  const sandbox = await open(t);
  const child = sandbox.spawn(['sleep', '0.5'], { pty: {} });
  child.stdout.resume();
  child.stdin.on('error', () => {});
  child.stdin.write(Buffer.alloc(4 * 2 ** 20, 'x\n'));
  assert.equal((await child.wait()).exitCode, 0);
});

// ---- The wall --------------------------------------------------------------

test("SYS-11: the terminal is no way to the host's", async (t) => {
  const sandbox = await open(t);
  // Here a terminal may be pushed input into, or the row would say nothing.
  const attack = `import errno, fcntl, os, struct, termios
def tried(request, argument):
    try:
        fcntl.ioctl(0, request, argument)
        return 'done'
    except OSError as error:
        return errno.errorcode[error.errno]
print(tried(termios.TIOCSTI, b'x'))
print(tried(0x541C, b'\\x02'))
for discipline in range(1, 31):
    if tried(0x5423, struct.pack('i', discipline)) != 'EPERM': print(discipline)
print(tried(0x541D, 0))
print(tried(0x5437, 0))`;
  const { stdout } = await sandbox.spawn({ code: attack }, { pty: {} }).wait();
  assert.deepEqual(stdout.trim().split('\r\n'), [
    'EPERM', // TIOCSTI
    'EPERM', // TIOCLINUX
    // TIOCSETD: none of the disciplines was printed.
    'EPERM', // TIOCCONS
    'EPERM', // TIOCVHANGUP
  ]);
});

test('a terminal belongs to one box: its devpts shows no other', async (t) => {
  const sandbox = await open(t);
  const pair = [0, 1].map(() => sandbox.spawn(['cat'], { pty: {} }));
  await Promise.all(pair.map((child) => once(child, 'spawn')));
  const { stdout } = await sandbox
    .spawn(
      [
        'sh',
        '-c',
        'ls /dev/pts | xargs; stat -f -c %T /dev/pts; tty; ls -la /dev/pts/0; stat -c %d /dev/pts',
      ],
      { pty: {} },
    )
    .wait();
  const [names, type, name, mode, device] = stdout.split('\r\n');
  assert.equal(names, '0 ptmx');
  assert.equal(type, 'devpts');
  assert.equal(name, '/dev/pts/0');
  assert.match(mode, /^crw--w----\s+1 user user 136, 0/);
  // Which is a file system of its own: the host's has none of these in it.
  assert.match(device, /^\d+$/);
  assert.notEqual(Number(device), fs.statSync('/dev/pts').dev);
  for (const child of pair) child.kill('SIGKILL');
  await Promise.all(pair.map((child) => child.wait()));
});

test('a box cannot use up the terminals of the host', async (t) => {
  const sandbox = await open(t);
  const { stdout } = await sandbox
    .spawn(
      {
        code: `import errno, os
kept = []
try:
    while len(kept) < 200: kept.append(os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY))
except OSError as error:
    print(errno.errorcode[error.errno])
print(len(kept))`,
      },
      { pty: {} },
    )
    .wait();
  assert.equal(stdout, 'ENOSPC\r\n31\r\n');
  assert.equal(
    outside(['python3', '-c', 'import os; os.openpty()']).exitCode,
    0,
  );
});

test('NS-20: /dev of a box with a terminal has no device more than it takes', async (t) => {
  const sandbox = await open(t);
  const { stdout } = await sandbox
    .spawn(
      [
        'sh',
        '-c',
        'ls /dev | xargs; touch /dev/x || echo read-only; mknod /tmp/x c 1 1',
      ],
      {
        pty: {},
      },
    )
    .wait();
  const [names, touched, , made] = stdout.split('\r\n');
  assert.equal(
    names,
    'fd full null ptmx pts random shm stderr stdin stdout tty urandom zero',
  );
  assert.match(touched, /Read-only file system/);
  assert.match(made, /not permitted/);
});

test('descriptors of a process on a terminal are its three', async (t) => {
  const sandbox = await open(t);
  const { stdout } = await sandbox
    .spawn(['sh', '-c', 'for f in /proc/$$/fd/*; do readlink $f; done'], {
      pty: {},
    })
    .wait();
  const links = stdout.trim().split('\r\n');
  assert.ok(links.length >= 3);
  for (const link of links) assert.match(link, /^\/dev\/(pts\/0|tty)$/);
});

test('a program that takes its time to end after the terminal is gone is ended', async (t) => {
  const sandbox = await open(t);
  const child = sandbox.spawn(
    ['bash', '-c', 'trap "" HUP INT TERM; echo up; while :; do sleep 1; done'],
    { pty: {} },
  );
  await once(child.stdout, 'data');
  await child[Symbol.asyncDispose]();
  assert.ok(!descendants().some(({ name }) => name === 'sleep'));
});
