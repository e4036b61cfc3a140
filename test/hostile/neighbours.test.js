// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rows NS: what a box sees of the processes of the host and of other boxes, and
// what of them it can reach.

// Before the engine starts, so that it is in the environment of everything that
// could hand it on.
process.env.GLOVEBOX_HOST_SECRET = require('node:crypto').randomUUID();

const assert = require('node:assert/strict');
const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const {
  descendants,
  isColdPass,
  open,
  outside,
  soak,
  test,
} = require('../helpers/harness.js');
const { ask, askAndHold, askOutside, assertFinished } = require('./attack.js');

const bash = { language: 'bash' };

// ---- Processes -------------------------------------------------------------

test('NS-01 a box lists its own processes and no others', async (t) => {
  const sandbox = await open(t);
  const { parent, ...answer } = await ask(
    sandbox,
    `answer = {
      'pids': sorted(int(name) for name in os.listdir('/proc') if name.isdigit()),
      'self': os.getpid(), 'parent': os.getppid(),
      'group': os.getpgid(0), 'session': os.getsid(0),
    }`,
  );
  assert.deepEqual(answer, {
    pids: [1, 2],
    self: 2,
    group: 2,
    session: 2,
  });
  // What forked a warm one is outside, which is 0 to it.
  assert.ok(parent === 1 || (parent === 0 && !isColdPass), `${parent}`);
  assert.ok(fs.readdirSync('/proc').includes(String(process.pid)));
  assert.ok(descendants().length >= 2, 'keeper and launcher show outside');
});

test('NS-02 no signal reaches a pid outside the box', async (t) => {
  const sandbox = await open(t);
  const ours = [process.pid, ...descendants().map(({ pid }) => pid)];
  const code = `
def signal(pid):
    return attempt(os.kill, pid, 0)
ours = ${JSON.stringify(ours)}
last = ${soak ? 4194304 : 65536}
answer = {
  'reached': [pid for pid in range(1, last + 1) if signal(pid) is None],
  'ours': [signal(pid) for pid in ours],
}`;
  const { reached, ours: answers } = await ask(sandbox, code);
  assert.deepEqual(reached, [1, 2]);
  assert.deepEqual(answers, Array(ours.length).fill('ESRCH'));
  const twin = askOutside(`answer = attempt(os.kill, ${process.pid}, 0)`);
  assert.equal(twin, null);
});

test('NS-13 the payload cannot read the environment, memory, descriptors or executable of pid 1', async (t) => {
  const sandbox = await open(t);
  const { init, own } = await ask(
    sandbox,
    `
def probe(pid):
    folder = '/proc/%s/' % pid
    tries = {name: attempt(os.open, folder + name, os.O_RDONLY) for name in
             ('environ', 'maps', 'smaps', 'auxv', 'io', 'pagemap',
              'map_files', 'ns/mnt')}
    tries['mem'] = attempt(os.open, folder + 'mem', os.O_RDWR)
    for name in ('fd', 'fdinfo', 'map_files', 'ns'):
        tries['list ' + name] = attempt(os.listdir, folder + name)
    for name in ('exe', 'cwd', 'root', 'ns/mnt'):
        tries['link ' + name] = attempt(os.readlink, folder + name)
        tries['follow ' + name] = attempt(os.stat, folder + name)
    return {name: result if isinstance(result, str) and result.isupper()
            else 'works' for name, result in tries.items()}
answer = {'init': probe(1), 'own': probe('self')}`,
  );
  const readable = Object.entries(init).filter(
    // Listing the folder map_files needs nothing; its entries do.
    ([name, result]) => result !== 'EACCES' && name !== 'map_files',
  );
  assert.deepEqual(readable, []);
  const unreadable = Object.entries(own).filter(
    ([, result]) => result !== 'works',
  );
  assert.deepEqual(unreadable, [], 'the same works on itself');
});

test('NS-13 no variable of the host environment is anywhere in /proc', async (t) => {
  const sandbox = await open(t);
  const everything = await sandbox.runCode(
    'cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; env',
    bash,
  );
  const secret = process.env.GLOVEBOX_HOST_SECRET;
  assert.match(everything.stdout, /HOME=\/home\/user/);
  assert.ok(!everything.stdout.includes(secret));
  const twin = outside(['cat', '/proc/self/environ']);
  assert.ok(twin.stdout.includes(secret));
});

test('NS-14 no executable can be overwritten through /proc while boxes start', async (t) => {
  const files = [
    process.execPath,
    require.resolve('../../build/Release/glovebox.node'),
    require.resolve('../../build/Release/launcher'),
  ];
  const hash = () =>
    files.map((file) =>
      crypto.createHash('sha256').update(fs.readFileSync(file)).digest('hex'),
    );
  const before = hash();
  const sandbox = await open(t);
  const held = askAndHold(
    sandbox,
    `
outcomes, links, tries = set(), set(), 0
print('READY', flush=True)
while not os.path.exists('/workspace/release'):
    for name in os.listdir('/proc'):
        if name.isdigit() or name in ('self', 'thread-self'):
            path = '/proc/%s/exe' % name
            links.add(attempt(os.readlink, path))
            for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC):
                outcomes.add(attempt(os.open, path, flags))
                tries += 1
links.discard(os.readlink('/proc/self/exe'))
answer = {'outcomes': sorted(map(str, outcomes)), 'links': sorted(links),
          'tries': tries}`,
  );
  await held.ready;
  const others = await open(t);
  for (let i = 0; i < 20; i++) assertFinished(await others.run(['true']));
  await held.release();
  const { outcomes, links, tries } = await held.answer;
  assert.ok(tries > 20, `${tries} tries`);
  // pid 1's is out of reach; its own is not its to write, read-only or running.
  for (const outcome of outcomes) {
    assert.ok(['EACCES', 'EROFS', 'ETXTBSY'].includes(outcome), outcome);
  }
  assert.deepEqual(links, ['EACCES'], 'no other executable shows');
  assert.deepEqual(hash(), before);
});

test('NS-14 a script whose interpreter is /proc/self/exe runs nothing of the host', async (t) => {
  const launcher = require.resolve('../../build/Release/launcher');
  const before = fs.readFileSync(launcher);
  const sandbox = await open(t);
  // The kernel resolves it while the launcher's image is still the payload's.
  for (const role of ['', ' keeper', ' launcher']) {
    await sandbox.writeFile('script', `#!/proc/self/exe${role}\n`);
    fs.chmodSync(path.join(sandbox.workspace, 'script'), 0o755);
    const result = await sandbox.run(['./script'], { timeoutS: 5 });
    assert.equal(result.success, false, role);
    assert.equal(result.stdout, '', role);
    assert.notEqual(result.fault?.type, 'timeout', role);
  }
  assert.deepEqual(fs.readFileSync(launcher), before);
});

test('ATK pid 1 is deaf to every signal, and kill(-1) ends only siblings', async (t) => {
  const sandbox = await open(t);
  const answer = await ask(
    sandbox,
    `
import signal
child = os.fork()
if child == 0:
    signal.pause()
for number in range(1, 65):
    os.kill(1, number)
pidfd = os.pidfd_open(1)
signal.pidfd_send_signal(pidfd, signal.SIGKILL)
os.kill(-1, signal.SIGKILL)
answer = {'child': os.waitpid(child, 0)[1], 'init': attempt(os.kill, 1, 0),
          'state': read('/proc/1/stat').split(') ')[1][0]}`,
  );
  assert.deepEqual(answer, { child: 9, init: null, state: 'S' });
});

// ---- Other boxes -----------------------------------------------------------

// What a box can see of files and processes that might be another's.
const lookAround = `
def list_files():
    found = []
    for folder in ('/tmp', '/home/user', '/dev/shm'):
        for parent, folders, files in os.walk(folder):
            found += [os.path.join(parent, name) for name in files]
    return sorted(found)
def look_around():
    pids = [name for name in os.listdir('/proc') if name.isdigit()]
    texts = [read('/proc/%s/%s' % (pid, name)) for pid in pids
             for name in ('cmdline', 'environ')]
    return {
        'text': ''.join(texts + [read(name) for name in list_files()]),
        'files': list_files(), 'pids': sorted(map(int, pids)),
        'pipes': [os.readlink('/proc/self/fd/%d' % fd) for fd in (1, 2)],
    }
`;

test('ATK two boxes at the same time see nothing of each other', async (t) => {
  const secret = crypto.randomUUID();
  const first = await open(t);
  const held = askAndHold(
    first,
    `
import subprocess
secret = os.environ['MARK']
for folder in ('/tmp', '/home/user', '/dev/shm'):
    with open(folder + '/mark', 'w') as file:
        file.write(secret)
subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)', secret])
${lookAround}
answer = look_around()
hold()`,
    { env: { MARK: secret } },
  );
  await held.ready;
  const others = [];
  // Another call of the same session, and one of another session.
  for (const sandbox of [first, await open(t)]) {
    others.push(await ask(sandbox, `${lookAround}\nanswer = look_around()`));
  }
  await held.release();
  const own = await held.answer;

  assert.ok(own.text.split(secret).length > 3, 'it sees its own');
  assert.equal(own.pids.length, 3);
  assert.deepEqual(own.files, [
    '/dev/shm/mark',
    '/home/user/mark',
    '/tmp/mark',
  ]);
  for (const other of others) {
    assert.ok(!other.text.includes(secret));
    assert.deepEqual(other.files, []);
    assert.deepEqual(other.pids, [1, 2]);
    for (const pipe of other.pipes) assert.ok(!own.pipes.includes(pipe));
  }
});

test('ATK a box made ahead of need has no trace of an earlier call', async (t) => {
  const sandbox = await open(t);
  const leave = `
import socket, subprocess
for folder in ('/tmp', '/home/user', '/dev/shm'):
    os.makedirs(folder + '/left')
    open(folder + '/left/behind', 'w').close()
subprocess.Popen(['sleep', '1000'], start_new_session=True)
listener = socket.socket(socket.AF_UNIX)
listener.bind('\\0left-behind')
listener.listen()
${lookAround}
answer = [list_files(), call('shmget', 0x1234, 4096, 0o1600)]`;
  const find = `
import socket
${lookAround}
answer = [list_files(), look_around()['pids'], call('shmget', 0x1234, 0, 0),
          attempt(socket.socket(socket.AF_UNIX).connect, '\\0left-behind')]`;
  for (let i = 0; i < 5; i++) {
    const [files, segment] = await ask(sandbox, leave);
    assert.equal(files.length, 3);
    assert.equal(typeof segment, 'number');
    assert.deepEqual(await ask(sandbox, find), [
      [],
      [1, 2],
      'ENOENT',
      'ECONNREFUSED',
    ]);
  }
});

test('NS-31 shared memory and queues of one box are not in another, nor on the host', async (t) => {
  const sandbox = await open(t);
  // Where a box shares them, what a broken run leaves must not be found later.
  const key = crypto.randomInt(1, 2 ** 31);
  const queue = `b'hostile-${key}'`;
  const make = `
O_CREAT_RDWR = 0o102
answer = {'made': [call('shmget', ${key}, 4096, 0o1600),
                   call('mq_open', ${queue}, O_CREAT_RDWR, 0o600, 0)]}
open('/dev/shm/hostile', 'w').close()`;
  const find = `[
  call('shmget', ${key}, 0, 0), call('mq_open', ${queue}, 2, 0, 0),
  os.path.exists('/dev/shm/hostile'), os.path.exists('/dev/mqueue')]`;
  const held = askAndHold(
    sandbox,
    `${make}\nanswer['found'] = ${find}\nhold()`,
  );
  await held.ready;
  const beside = await ask(sandbox, `answer = ${find}`);
  const host = askOutside(`answer = ${find}[:3]`);
  await held.release();
  const { made, found } = await held.answer;
  assert.deepEqual(
    made.map((id) => typeof id),
    ['number', 'number'],
  );
  assert.deepEqual(found.slice(2), [true, false]);
  assert.equal(found[0], made[0]);
  assert.equal(typeof found[1], 'number');
  assert.deepEqual(beside, ['ENOENT', 'ENOENT', false, false]);
  assert.deepEqual(host, ['ENOENT', 'ENOENT', false]);
  assert.deepEqual(await ask(sandbox, `answer = ${find}`), beside, 'the next');
});
