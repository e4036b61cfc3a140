// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rows SYS: what ordinary programs need of the kernel, they have.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const { open, test } = require('../helpers/harness.js');
const { ask, assertFinished } = require('./attack.js');

const bash = { language: 'bash' };

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
