// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rows NET-01 to NET-10 for a box that shares the host's network: what the
// namespace shut is open or not as docs/threat-model.md says, and all other walls
// stand. Twins listen on the host, on loopback and on abstract sockets; what a
// box may not do to the network they do in a network namespace of their own.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const crypto = require('node:crypto');
const dgram = require('node:dgram');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const {
  eventually,
  glovebox,
  isRoot,
  open,
  outside,
  packagedPython,
  skip,
  test,
} = require('../helpers/harness.js');
const { askScript, startHost } = require('../helpers/host-script.js');
const { forms } = require('../helpers/forms.js');
const {
  ask,
  askAndHold,
  askOutside,
  assertFinished,
  compile,
  hasCompiler,
  numbers,
  prelude,
} = require('./attack.js');

const shared = { network: true };
const { ENOSYS, EPERM } = os.constants.errno;
const python = packagedPython ?? 'python3';

/** What this kernel has of Landlock. */
const landlock = askOutside(
  "answer = call('landlock_create_ruleset', 0, 0, 1)",
);
const hasScopes = Number(landlock) >= 6;

/** TCP and UDP servers of the host: `{tcp, udp}` by address. */
async function listen(t, host) {
  const tcp = net.createServer((socket) => socket.end('host'));
  await new Promise((resolve, reject) => {
    tcp.once('error', reject).listen({ host, port: 0 }, resolve);
  });
  t.after(() => tcp.close());
  const udp = dgram.createSocket(net.isIPv6(host) ? 'udp6' : 'udp4');
  udp.on('message', (_, { address, port }) => udp.send('host', port, address));
  await new Promise((resolve) => {
    udp.bind(0, host, resolve);
  });
  t.after(() => udp.close());
  return { host, tcp: tcp.address().port, udp: udp.address().port };
}

/** Abstract sockets of the host, of each type, under random names. */
async function listenAbstract(t) {
  const name = `gbx-${crypto.randomBytes(8).toString('hex')}-`;
  const program = `
import select, socket, sys
servers = []
for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
    server = socket.socket(socket.AF_UNIX, kind)
    server.bind('\\0' + sys.argv[1] + str(int(kind)))
    if kind != socket.SOCK_DGRAM: server.listen()
    servers.append(server)
print('up', flush=True)
while True:
    ready, _, _ = select.select([*servers, sys.stdin], [], [])
    if sys.stdin in ready: break
    for server in ready:
        if server.type == socket.SOCK_DGRAM: server.recv(9)
        else: server.accept()[0].send(b'host')`;
  const child = spawn(python, ['-c', program, name], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  t.after(() => child.kill('SIGKILL'));
  await new Promise((resolve) => {
    child.stdout.once('data', resolve);
  });
  return name;
}

/** Python that talks to them: stream and seqpacket get bytes, dgram sends. */
const reachAbstract = (name) => `
import socket
def reach(kind):
    with socket.socket(socket.AF_UNIX, kind) as s:
        s.settimeout(20)
        address = '\\0${name}' + str(int(kind))
        if kind == socket.SOCK_DGRAM: return s.sendto(b'x', address)
        s.connect(address)
        return s.recv(9).decode()
def reach_all():
    return [attempt(reach, kind) for kind in
            (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM)]`;

const all = ['host', 'host', 1];
const refused = Array(3).fill('EPERM');
const nobody = Array(3).fill('ECONNREFUSED');
/** What is promised here: see docs/threat-model.md of kernels without. */
const held = hasScopes ? refused : all;

test('NET-02: with network: true code reaches what the host listens on, and only then', async (t) => {
  const servers = [await listen(t, '127.0.0.1')];
  if (fs.existsSync('/proc/net/if_inet6')) {
    const server = await listen(t, '::1').catch(() => {});
    if (server) servers.push(server);
  }
  const code = `
import socket
def tcp(host, port):
    with socket.create_connection((host, port), 20) as s: return s.recv(9).decode()
def udp(host, port):
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(20)
        s.connect((host, port))
        s.send(b'x')
        return s.recv(9).decode()
servers = json.loads('${JSON.stringify(servers)}')
answer = [[attempt(tcp, s['host'], s['tcp']), attempt(udp, s['host'], s['udp'])]
          for s in servers]`;
  const sandbox = await open(t, shared);
  const reached = servers.map(() => ['host', 'host']);
  assert.deepEqual(await ask(sandbox, code), reached);
  const alone = await open(t);
  for (const answers of await ask(alone, code)) {
    for (const answer of answers) {
      assert.match(answer, /^(ECONNREFUSED|ENETUNREACH|EADDRNOTAVAIL)$/);
    }
  }
});

test('NET-02: what a box with network: true listens on is reached from the host and from another', async (t) => {
  const [one, other] = [await open(t, shared), await open(t, shared)];
  const server = askAndHold(
    one,
    `import socket, threading
server = socket.create_server(('127.0.0.1', 0))
def serve():
    while True: server.accept()[0].sendall(b'box')
threading.Thread(target=serve, daemon=True).start()
with open('/workspace/port', 'w') as file: file.write(str(server.getsockname()[1]))
hold()
answer = 'served'`,
  );
  await server.ready;
  const port = Number(await one.readFile('port', 'utf8'));
  const code = `import socket
def reach():
    with socket.create_connection(('127.0.0.1', ${port}), 20) as s: return s.recv(9).decode()
answer = attempt(reach)`;
  assert.equal(askOutside(code), 'box');
  assert.equal(await ask(other, code), 'box');
  assert.equal(await ask(await open(t), code), 'ECONNREFUSED');
  await server.release();
  assert.equal(await server.answer, 'served');
});

test('NET-02: with network: true a port of the host is taken only by SO_REUSEPORT of its own user: FACT', async (t) => {
  const serve = (reuse, port) => `
import socket, sys
server = socket.socket()
if ${reuse}: server.setsockopt(socket.SOL_SOCKET, 15, 1)
answer = attempt(server.bind, ('127.0.0.1', ${port}))
if answer is None: server.listen()`;
  const sandbox = await open(t, shared);
  for (const [reuse, expected] of [
    ['True', isRoot ? 'EADDRINUSE' : null],
    ['False', 'EADDRINUSE'],
  ]) {
    const child = spawn(
      python,
      [
        '-c',
        `${prelude}${serve(reuse, 0)}
print(server.getsockname()[1], flush=True)
sys.stdin.read()`,
      ],
      { stdio: ['pipe', 'pipe', 'inherit'] },
    );
    t.after(() => child.kill('SIGKILL'));
    const port = await new Promise((resolve) => {
      child.stdout.once('data', (text) => resolve(Number(text)));
    });
    assert.equal(await ask(sandbox, serve('True', port)), expected, reuse);
  }
});

for (const { name: form, begin } of forms) {
  test(`NET-04: abstract sockets of the host are out of reach with network: true ${form}`, async (t) => {
    const name = await listenAbstract(t);
    const code = `${reachAbstract(name)}\nanswer = reach_all()`;
    assert.deepEqual(askOutside(code), all, 'the twin');
    const run = await begin(await open(t, shared));
    const result = await run(`${prelude}\n${code}\nprint(json.dumps(answer))`);
    assertFinished(result);
    assert.deepEqual(JSON.parse(result.stdout), held);
    // Where they are not at all, another errno says so: the one above is ours.
    assert.deepEqual(await ask(await open(t), code), nobody);
  });
}

test('NET-04: nor are they for a child of the code, a program of spawn() or on a terminal', async (t) => {
  const name = await listenAbstract(t);
  const script = `${prelude}${reachAbstract(name)}\nprint(json.dumps(reach_all()))`;
  const sandbox = await open(t, shared);
  const child = `import subprocess
out = subprocess.run([sys.executable, '-c', ${JSON.stringify(script)}],
                     capture_output=True, start_new_session=True)
answer = json.loads(out.stdout)`;
  assert.deepEqual(await ask(sandbox, child), held);
  for (const pty of [null, { cols: 80, rows: 24 }]) {
    const process = sandbox.spawn([python, '-c', script], { pty });
    let text = '';
    for await (const chunk of process.stdout) text += chunk;
    await process.wait();
    assert.deepEqual(JSON.parse(text), held);
  }
});

test('NET-04: nor are they for interpreters that waited for their call', async (t) => {
  const name = await listenAbstract(t);
  const sandbox = await open(t, { ...shared, warm: true });
  const host = fs.readlinkSync('/proc/self/ns/net');
  const code = `${reachAbstract(name)}
answer = [os.getppid(), os.readlink('/proc/self/ns/net'), reach_all()]`;
  // One that was forked into its box has no parent there; init is that of others.
  await eventually(
    async () => {
      const [parent, network, reached] = await ask(sandbox, code);
      assert.deepEqual([network, reached], [host, held], `parent ${parent}`);
      return parent === 0;
    },
    'no call got a Python that waited',
    15000,
  );
  const cold = await open(t, { ...shared, warm: false });
  assert.deepEqual(await ask(cold, code), [1, host, held]);
  // Node has no abstract sockets of its own on all versions: by a child.
  const node = `require('node:child_process').execFileSync('${python}',
    ['-c', ${JSON.stringify(`${prelude}${reachAbstract(name)}\nprint(json.dumps(reach_all()))`)}],
    { stdio: ['ignore', 'inherit', 'inherit'] })`;
  for (let i = 0; i < 3; i++) {
    const result = await sandbox.runCode(node, { language: 'node' });
    assert.deepEqual(JSON.parse(result.stdout), held, result.stderr);
  }
});

test('NET-04: a box with network: true has abstract sockets of its own, which another cannot reach', async (t) => {
  const [one, other] = [await open(t, shared), await open(t, shared)];
  const name = `gbx-${crypto.randomBytes(8).toString('hex')}`;
  const reach = `
import socket
def reach():
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(20)
        s.connect('\\0${name}')
        return s.recv(9).decode()`;
  const server = askAndHold(
    one,
    `${reach}
import multiprocessing, threading
server = socket.socket(socket.AF_UNIX)
server.bind('\\0${name}')
server.listen()
def serve():
    while True: server.accept()[0].sendall(b'own')
threading.Thread(target=serve, daemon=True).start()
hold()
with multiprocessing.Pool(1) as pool: child = pool.apply(reach)
answer = [reach(), child]`,
  );
  await server.ready;
  const code = `${reach}\nanswer = attempt(reach)`;
  assert.equal(askOutside(code), 'own', 'the host reaches it');
  assert.equal(await ask(other, code), hasScopes ? 'EPERM' : 'own');
  await server.release();
  assert.deepEqual(await server.answer, ['own', 'own']);
});

test('NET-04: where the kernel has no scopes it is said, and abstract sockets are open', async (t) => {
  if (!hasCompiler()) return skip(t, 'no C compiler');
  const name = await listenAbstract(t);
  const code = `${prelude}${reachAbstract(name)}\nprint(json.dumps(reach_all()))`;
  // As of a kernel without Landlock.
  const rules = [numbers.landlock_create_ruleset].map(String);
  const wrapper = [compile('filtered'), String(ENOSYS), ...rules, '--'];
  const run = (options) =>
    askScript(t, 'open-network.js', { args: [code], ...options });

  const without = await run({ wrapper });
  assert.deepEqual(without.reached, all);
  assert.deepEqual(without.box.scopes, []);
  assert.match(without.box.relaxes.at(-1), /abstract unix sockets/);
  assert.deepEqual(
    without.warnings.filter(({ code }) => code === 'GLOVEBOX_NETWORK').length,
    1,
    'it warns once, of two Sandboxes',
  );
  assert.match(without.features, /without .*Landlock scopes/);
  if (!hasScopes) return;
  const having = await run();
  assert.deepEqual(having.reached, refused);
  assert.deepEqual(having.box.scopes, ['abstract unix sockets', 'signals']);
  const named = having.warnings.map(({ code }) => code);
  assert.ok(!named.includes('GLOVEBOX_NETWORK'), String(named));
  assert.doesNotMatch(having.features, /without .*Landlock scopes/);
});

test('NET-04: where the kernel has scopes and they cannot be set, nothing runs', async (t) => {
  if (!hasScopes) return skip(t, 'no Landlock scopes');
  if (!hasCompiler()) return skip(t, 'no C compiler');
  const restrictSelf = numbers.landlock_create_ruleset + 2;
  const rules = [EPERM, restrictSelf].map(String);
  const host = startHost(t, { wrapper: [compile('filtered'), ...rules, '--'] });
  const [withNetwork, without] = await host.ask(
    async ({ glovebox: { Sandbox: There } }) => {
      const answers = [];
      for (const network of [true, false]) {
        const sandbox = await new There({ network }).open();
        const say = (code, language) => sandbox.runCode(code, { language });
        const calls = [
          sandbox.run(['echo', 'ran']),
          say('print("ran")', 'python'),
          say('console.log("ran")', 'node'),
          say('echo ran', 'bash'),
          sandbox.kernel().then((kernel) => kernel.runCode('print("ran")')),
        ].map((call) =>
          call.then(
            ({ stdout }) => stdout,
            ({ code, step }) => `${code} ${step}`,
          ),
        );
        answers.push(await Promise.all(calls));
        await sandbox.close();
      }
      return answers;
    },
  );
  const failed = 'ERR_SANDBOX_SETUP landlock_restrict_self';
  assert.deepEqual(withNetwork, Array(5).fill(failed));
  assert.deepEqual(without, Array(5).fill('ran\n'));
});

/** Python as root of a network namespace of its own: the twin of a box. */
function askInOwnNetwork(code) {
  const result = outside([
    ...['unshare', '--user', '--map-root-user', '--net'],
    ...[python, '-c', `${prelude}\n${code}\nprint(json.dumps(answer))`],
  ]);
  assert.equal(result.exitCode, 0, result.stderr);
  return JSON.parse(result.stdout);
}

test('NET-10: with network: true code changes no address, route, link or neighbour', async (t) => {
  const code = `
import fcntl, socket, struct
def change(kind, body, flags=0x605):
    """Sends one request to rtnetlink and gives what the kernel answers."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s:
        s.bind((0, 0))
        s.send(struct.pack('=IHHII', 16 + len(body), kind, flags, 1, 0) + body)
        number = -struct.unpack('=i', s.recv(4096)[16:20])[0]
        return errno.errorcode[number] if number else 'done'
def attribute(kind, value): return struct.pack('=HH', 4 + len(value), kind) + value
address = attribute(2, socket.inet_aton('127.9.9.9'))
def ioctl(request, flags):
    with socket.socket() as s:
        fcntl.ioctl(s, request, struct.pack('16sH14x', b'lo', flags))
        return 'done'
answer = {
    'link': change(19, struct.pack('=BxHiII', 0, 0, 1, 1, 1), 5),
    'address': change(20, struct.pack('=BBBBi', 2, 32, 0, 0, 1) + address),
    'route': change(24, struct.pack('=BBBBBBBBI', 2, 32, 0, 0, 254, 3, 253, 1, 0)
                    + attribute(1, socket.inet_aton('127.9.9.8')) + attribute(4, struct.pack('=i', 1))),
    'flags': attempt(ioctl, 0x8914, 0x49),
}`;
  const twin = askInOwnNetwork(code);
  const done = { link: 'done', address: 'done', route: 'done', flags: 'done' };
  assert.deepEqual(twin, done);
  const inBox = await ask(await open(t, shared), code);
  for (const [what, answer] of Object.entries(inBox)) {
    assert.equal(answer, 'EPERM', what);
  }
});

test('NET-10: with network: true netlink tells of addresses and of nothing else', async (t) => {
  const code = `import socket
def kind(protocol, bits=0):
    result = call('socket', 16, 3, protocol | bits)
    return result if isinstance(result, str) else 'made'
answer = [[kind(protocol), kind(protocol, 1 << 32)] for protocol in range(23)]`;
  const inBox = await ask(await open(t, shared), code);
  assert.deepEqual(inBox[0], ['made', 'made'], 'getifaddrs() works');
  for (const [protocol, answers] of inBox.entries()) {
    if (protocol === 0) continue;
    assert.deepEqual(answers, ['EAFNOSUPPORT', 'EAFNOSUPPORT'], `${protocol}`);
  }
  // Kinds that many kernels have: user sockets, and what lists all sockets.
  const twin = askOutside(code);
  assert.ok(twin.slice(1).flat().includes('made'), JSON.stringify(twin));
});

test('NET-05: with network: true there are no raw, packet and vsock sockets and no low ports', async (t) => {
  const code = `import socket
def made(*arguments):
    with socket.socket(*arguments): return 'made'
def bind(port):
    with socket.socket() as s:
        s.bind(('127.0.0.1', port))
        return 'bound'
def option(level, name, value):
    with socket.socket() as s:
        s.setsockopt(level, name, value)
        return 'set'
answer = {
    'raw': attempt(made, socket.AF_INET, socket.SOCK_RAW, 1),
    'raw6': attempt(made, socket.AF_INET6, socket.SOCK_RAW, 58),
    'packet': attempt(made, socket.AF_PACKET, socket.SOCK_RAW, 3),
    'old packet': attempt(made, socket.AF_INET, 10, 3),
    'vsock': attempt(made, 40, socket.SOCK_STREAM),
    'port': attempt(bind, 81),
    'mark': attempt(option, socket.SOL_SOCKET, 36, 7),
    'transparent': attempt(option, socket.SOL_IP, 19, 1),
    'repair': attempt(option, socket.IPPROTO_TCP, 19, 1),
    'tun': attempt(os.open, '/dev/net/tun', os.O_RDWR),
    'io_uring': call('io_uring_setup', 8, (ctypes.c_char * 120)()),
}`;
  const inBox = await ask(await open(t, shared), code);
  assert.deepEqual(inBox, {
    raw: 'EPERM',
    raw6: 'EPERM',
    packet: 'EAFNOSUPPORT',
    'old packet': 'EPERM',
    vsock: 'EAFNOSUPPORT',
    port: 'EACCES',
    mark: 'EPERM',
    transparent: 'EPERM',
    repair: 'EPERM',
    tun: 'ENOENT',
    io_uring: 'ENOSYS',
  });
  const twin = askInOwnNetwork(code);
  for (const what of ['raw', 'packet']) assert.equal(twin[what], 'made', what);
  for (const what of ['mark', 'transparent', 'repair']) {
    assert.equal(twin[what], 'set', what);
  }
  assert.match(twin.port, /^(bound|EADDRNOTAVAIL)$/);
});

test('NET-08: with network: true a box sees the interfaces and sockets of the host: FACT', async (t) => {
  const server = await listen(t, '127.0.0.1');
  const code = `import socket
tcp = read('/proc/net/tcp')
answer = {'names': [name for _, name in socket.if_nameindex()],
          'sees': ':%04X ' % ${server.tcp} in tcp,
          'netns': attempt(os.listdir, '/run/netns')}`;
  const names = Object.values(askOutside(code).names);
  const inBox = await ask(await open(t, shared), code);
  assert.deepEqual(inBox, { names, sees: true, netns: 'ENOENT' });
  const alone = await ask(await open(t), code);
  assert.deepEqual(alone, { names: ['lo'], sees: false, netns: 'ENOENT' });
});

test('NS-02: with network: true a signal reaches the children of the code and nobody else', async (t) => {
  const code = `import signal, subprocess
child = subprocess.Popen(['sleep', '100'])
answer = {'init': attempt(os.kill, 1, 0), 'host': attempt(os.kill, ${process.pid}, 0),
          'child': attempt(child.send_signal, signal.SIGTERM), 'end': child.wait()}`;
  const inBox = await ask(await open(t, shared), code);
  // Of pid 1 the scope says so; without, the kernel drops the signal in silence.
  const init = hasScopes ? 'EPERM' : null;
  assert.deepEqual(inBox, { init, host: 'ESRCH', child: null, end: -15 });
});

test('NS-04: with network: true the way to another namespace is shut as ever', async (t) => {
  const sandbox = await open(t, shared);
  for (const code of [
    "call('setns', os.open('/proc/self/ns/net', os.O_RDONLY), 0x40000000)",
    "call('unshare', 0x40000000)",
    "call('unshare', 0x10000000)",
  ]) {
    const { fault } = await sandbox.runCode(`${prelude}\n${code}`);
    assert.equal(fault?.type, 'escape_blocked', code);
  }
});

test('boxes with and without the network are never mixed up, with one root for both', async (t) => {
  // The same entries, so that nothing but the network makes the difference.
  const plan = await glovebox.withSandbox(shared, async (s) => s.plan());
  const host = fs.readlinkSync('/proc/self/ns/net');
  const sandboxes = await Promise.all(
    [true, false].map((network) =>
      open(t, { spec: { ...plan, spec: { ...plan.spec, network } } }),
    ),
  );
  for (let round = 0; round < 10; round++) {
    const seen = await Promise.all(
      sandboxes.map((sandbox) =>
        sandbox.run(['readlink', '/proc/self/ns/net']),
      ),
    );
    const isHost = seen.map(({ stdout }) => stdout.trim() === host);
    assert.deepEqual(isHost, [true, false], `round ${round}`);
  }
});
