// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rows NET-01 to NET-10: a box without network. Twins listen on the host, on
// loopback; nothing is sent anywhere else but from inside boxes.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const {
  eventually,
  isRoot,
  makeFolder,
  open,
  test,
  timeScale,
} = require('../helpers/harness.js');
const { ask, askOutside } = require('./attack.js');

/** A TCP server of the host, closed with the test. */
async function listen(t, options) {
  const server = net.createServer((socket) => socket.end('host'));
  await new Promise((resolve, reject) => {
    server.once('error', reject).listen(options, resolve);
  });
  t.after(() => server.close());
  return server;
}

/** What connecting to an address of the host gives: bytes or an errno. */
function connectHere(options) {
  return new Promise((resolve) => {
    const socket = net.connect(options);
    socket.on('error', ({ code }) => resolve(code));
    socket.on('data', (bytes) => {
      resolve(String(bytes));
      socket.destroy();
    });
  });
}

const connectCode = `
import socket
def connect(family, kind, address):
    """What the first bytes are, or the name of the errno; and how long it took."""
    start = time.monotonic()
    with socket.socket(family, kind) as s:
        s.settimeout(20)
        def run():
            s.connect(address)
            return s.recv(9).decode() if kind == socket.SOCK_STREAM else s.send(b'x')
        answer = attempt(run)
    return [answer, time.monotonic() - start]
`;

test('NET-01 addresses of the world are unreachable at once, and no name resolves', async (t) => {
  const sandbox = await open(t);
  const { calls, raw, names } = await ask(
    sandbox,
    `${connectCode}
T, U = socket.SOCK_STREAM, socket.SOCK_DGRAM
calls = {
    'tcp': connect(socket.AF_INET, T, ('1.1.1.1', 53)),
    'tcp6': connect(socket.AF_INET6, T, ('2606:4700:4700::1111', 443)),
    'udp': connect(socket.AF_INET, U, ('8.8.8.8', 53)),
    'metadata': connect(socket.AF_INET, T, ('169.254.169.254', 80)),
    'private': connect(socket.AF_INET, T, ('10.0.0.1', 80)),
    'broadcast': connect(socket.AF_INET, U, ('255.255.255.255', 9)),
}
def ping():
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP): pass
def ping_as_user():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as s:
        s.sendto(b'\\x08' + bytes(15), ('1.1.1.1', 0))
start = time.monotonic()
try: name = socket.getaddrinfo('example.com', 80)
except socket.gaierror as error: name = 'gaierror'
answer = {'calls': calls, 'raw': [attempt(ping), attempt(ping_as_user)],
          'names': [name, time.monotonic() - start]}`,
  );
  for (const [what, [result, seconds]] of Object.entries(calls)) {
    assert.match(
      String(result),
      /^(ENETUNREACH|EACCES|EADDRNOTAVAIL)$/,
      `${what}: ${result}`,
    );
    assert.ok(seconds < 1 * timeScale, `${what}: ${seconds} s`);
  }
  for (const what of ['tcp', 'tcp6', 'udp', 'metadata', 'private']) {
    assert.equal(calls[what][0], 'ENETUNREACH', what);
  }
  assert.match(String(raw[0]), /^(EPERM|EACCES)$/);
  assert.match(String(raw[1]), /^(EPERM|EACCES|ENETUNREACH)$/);
  assert.equal(names[0], 'gaierror');
  assert.ok(names[1] < 1 * timeScale, `${names[1]} s`);
});

test('NET-02 what the host listens on is not there, and the own loopback works', async (t) => {
  const servers = {
    '127.0.0.1': await listen(t, { host: '127.0.0.1', port: 0 }),
    '0.0.0.0': await listen(t, { host: '0.0.0.0', port: 0 }),
  };
  if (fs.existsSync('/proc/net/if_inet6')) {
    servers['::1'] = await listen(t, { host: '::1', port: 0 }).catch(() => {});
  }
  // Each address of the machine, and each server.
  const addresses = Object.values(os.networkInterfaces())
    .flat()
    .filter(({ family }) => family === 'IPv4')
    .map(({ address }) => address);
  const targets = [];
  for (const [name, server] of Object.entries(servers)) {
    if (!server) continue;
    const { port } = server.address();
    const hosts = name === '0.0.0.0' ? [...addresses, 'localhost'] : [name];
    for (const host of hosts) targets.push([host, port]);
  }
  for (const [host, port] of targets) {
    const twin = await connectHere({ host, port });
    assert.equal(twin, 'host', `the twin: ${host} ${port}`);
  }

  const sandbox = await open(t);
  const { results, own } = await ask(
    sandbox,
    `${connectCode}
import threading
results = []
for host, port in json.loads('${JSON.stringify(targets)}'):
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    results.append(connect(family, socket.SOCK_STREAM, (host, port))[0])
own = []
for family, host in [(socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')]:
    def serve():
        with socket.create_server((host, 0), family=family) as server:
            threading.Thread(target=lambda: server.accept()[0].sendall(b'own')).start()
            return connect(family, socket.SOCK_STREAM, server.getsockname()[:2])[0]
    own.append(attempt(serve))
answer = {'results': results, 'own': own}`,
  );
  for (const [index, result] of results.entries()) {
    assert.match(
      String(result),
      /^(ECONNREFUSED|ENETUNREACH|EADDRNOTAVAIL|EHOSTUNREACH)$/,
      `${targets[index]}: ${result}`,
    );
  }
  assert.equal(own[0], 'own');
  if (servers['::1']) assert.equal(own[1], 'own');
});

for (const network of [false, true]) {
  const title = network ? ' with network: true either' : '';
  test(`NET-04 sockets of the host in the file system are not in a box${title}`, async (t) => {
    const folder = makeFolder(t);
    fs.chmodSync(folder, 0o755);
    const own = path.join(folder, 'socket');
    await listen(t, { path: own });
    fs.chmodSync(own, 0o777);
    assert.equal(await connectHere({ path: own }), 'host', 'the twin');

    const paths = [
      own,
      '/run/docker.sock',
      '/var/run/docker.sock',
      '/run/containerd/containerd.sock',
      `/run/user/${process.getuid()}/bus`,
      '/run/user/1000/bus',
      '/run/dbus/system_bus_socket',
      '/run/systemd/private',
      '/run/systemd/journal/socket',
      '/run/nscd/socket',
      '/var/run/nscd/socket',
      '/dev/log',
      '/tmp/.X11-unix/X0',
    ];
    const sandbox = await open(t, { network });
    const { results, found } = await ask(
      sandbox,
      `${connectCode}
import stat
results = {path: connect(socket.AF_UNIX, socket.SOCK_STREAM, path)[0]
           for path in json.loads('${JSON.stringify(paths)}')}
found = []
for folder, below, names in os.walk('/'):
    # What is installed is much, and a socket lies nowhere in it.
    if folder == '/': below[:] = set(below) - {'proc', 'usr', 'opt'}
    for name in names:
        path = os.path.join(folder, name)
        if stat.S_ISSOCK(os.lstat(path).st_mode): found.append(path)
answer = {'results': results, 'found': found}`,
    );
    for (const [name, result] of Object.entries(results)) {
      assert.equal(result, 'ENOENT', name);
    }
    assert.deepEqual(found, []);
  });
}

test('NET-05 there is no AF_VSOCK', async (t) => {
  const code = `import socket
def vsock():
    with socket.socket(40, socket.SOCK_STREAM) as s: return 'made'
answer = attempt(vsock)`;
  const sandbox = await open(t);
  assert.equal(await ask(sandbox, code), 'EAFNOSUPPORT');
  const twin = askOutside(code);
  // EAFNOSUPPORT there: a kernel that was built without.
  assert.match(twin, /^(made|EAFNOSUPPORT)$/);
  if (twin !== 'made') t.diagnostic('no twin: this kernel has no AF_VSOCK');
});

// What a box gets of each [type, protocol].
const internet = {
  tcp: [1, 0, 'made'],
  'tcp by number': [1, 6, 'made'],
  udp: [2, 0, 'made'],
  'udp by number': [2, 17, 'made'],
  udplite: [2, 136, 'EPROTONOSUPPORT'],
  mptcp: [1, 262, 'EPROTONOSUPPORT'],
  'mptcp and SOCK_CLOEXEC': [0x80001, 262, 'EPROTONOSUPPORT'],
  l2tp: [2, 115, 'EPROTONOSUPPORT'],
  smc: [1, 256, 'EPROTONOSUPPORT'],
  sctp: [1, 132, 'EPROTONOSUPPORT'],
  'sctp in packets': [5, 132, 'ESOCKTNOSUPPORT'],
  'sctp by its type': [5, 0, 'ESOCKTNOSUPPORT'],
  dccp: [6, 33, 'ESOCKTNOSUPPORT'],
  'dccp by its type': [6, 0, 'ESOCKTNOSUPPORT'],
};

function socketsCode(names) {
  const wanted = names.map((name) => [name, ...internet[name].slice(0, 2)]);
  return `import socket
def make(family, kind, protocol):
    with socket.socket(family, kind, protocol) as s: return 'made'
answer = [{name: attempt(make, family, kind, protocol)
           for name, kind, protocol in json.loads('${JSON.stringify(wanted)}')}
          for family in (socket.AF_INET, socket.AF_INET6)]
pings = [attempt(make, socket.AF_INET, 2, 1), attempt(make, socket.AF_INET6, 2, 58)]`;
}

for (const network of [false, true]) {
  const title = network ? ', with network: true as well' : '';
  test(`NET-05 of the internet a box has TCP, UDP and ping, and no protocol that loads a module${title}`, async (t) => {
    const sandbox = await open(t, { network });
    const code = socketsCode(Object.keys(internet));
    const { answer, pings } = await ask(
      sandbox,
      `${code}\nanswer = {'answer': answer, 'pings': pings}`,
    );
    // Those that are no modules: the twin is to load none.
    const twins = askOutside(socketsCode(['tcp', 'udplite', 'mptcp']));
    for (const [index, twin] of twins.entries()) {
      if (twin.tcp !== 'made') continue; // a host without IPv6
      const expected = Object.entries(internet);
      assert.deepEqual(
        answer[index],
        Object.fromEntries(
          expected.map(([name, [, , result]]) => [name, result]),
        ),
      );
      // Who may send echo requests is a setting of the network namespace.
      assert.match(pings[index], /^(made|EACCES)$/);
      if (twin.udplite !== 'made' && twin.mptcp !== 'made')
        t.diagnostic('no twin: this kernel has neither UDP-Lite nor MPTCP');
    }
  });
}

test('NET-05 no request of a socket loads the module of bridges or VLANs', async (t) => {
  // On no descriptor, so that the twin loads none either.
  const code = `
answer = {request: call('ioctl', -1, request, 0)
          for request in (0x8940, 0x8941, 0x8982, 0x8983, 0x89a0, 0x89a1)}`;
  const results = Object.values(await ask(await open(t), code));
  assert.deepEqual(results, Array(6).fill('EPERM'));
  assert.deepEqual(
    Object.values(askOutside(code)),
    Array(6).fill('EBADF'),
    'the twin',
  );
});

test('NET-07 there is no /dev/net/tun', async (t) => {
  const sandbox = await open(t);
  const code = "answer = attempt(os.open, '/dev/net/tun', os.O_RDWR)";
  assert.equal(await ask(sandbox, code), 'ENOENT');
  // The twin, where the host has one.
  if (fs.existsSync('/dev/net/tun')) {
    assert.notEqual(askOutside(code), 'ENOENT');
  }
});

test('NET-08 the only interface is loopback, in every list that there is', async (t) => {
  const code = `import socket
def table(name):
    text = read('/proc/net/' + name)
    return text if text.startswith('E') else text.splitlines()[1:]
def names(name): return sorted(line.split(':')[0].strip() for line in table(name)
                               if ':' in line)
answer = {'dev': names('dev'), 'index': [name for _, name in socket.if_nameindex()],
          'route': table('route'), 'arp': table('arp'), 'tcp': table('tcp'),
          'udp': table('udp'), 'unix': table('unix'),
          'netns': attempt(os.listdir, '/run/netns')}`;
  const sandbox = await open(t);
  const inBox = await ask(sandbox, code);
  assert.deepEqual(inBox.dev, ['lo']);
  assert.deepEqual(inBox.index, ['lo']);
  for (const list of ['route', 'arp', 'tcp', 'udp']) {
    assert.deepEqual(inBox[list], [], list);
  }
  assert.equal(inBox.netns, 'ENOENT');
  // Its own driver's pair of sockets has no name.
  for (const line of inBox.unix) assert.doesNotMatch(line, /[@/]/);

  // The host has connections, so the tables are no dead files.
  await listen(t, { host: '127.0.0.1', port: 0 });
  const twin = askOutside(code);
  assert.ok(twin.tcp.length >= 1, JSON.stringify(twin.tcp));
});

test('NET-10 netlink tells a box nothing of the host', async (t) => {
  // 15: uevents; 9: audit; 0: routes, of which there are the own ones only.
  const code = `import socket
def hear(protocol, groups):
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as s:
        s.bind((0, groups))
        s.settimeout(0.3)
        try: return s.recv(4096).decode('latin1')
        except socket.timeout: return 'silent'
answer = {'uevent': attempt(hear, 15, 1), 'audit': attempt(hear, 9, 1),
          'own': attempt(hear, 0, 0)}`;
  const sandbox = await open(t);
  // Only root can make something happen that there is to tell.
  const source = '/sys/devices/virtual/mem/null/uevent';
  if (isRoot) {
    const again = `while echo change > ${source}; do sleep 0.02; done`;
    const events = spawn('sh', ['-c', again], { stdio: 'ignore' });
    t.after(() => events.kill('SIGKILL'));
  }
  const { uevent, audit, own } = await ask(sandbox, code);
  const silent =
    /^(EPERM|EACCES|EAFNOSUPPORT|EPROTONOSUPPORT|ECONNREFUSED|silent)$/;
  assert.match(uevent, silent);
  assert.match(audit, silent);
  assert.equal(own, 'silent', 'NETLINK_ROUTE is there, for getifaddrs()');
  if (isRoot) {
    // The twin: out here they are told.
    await eventually(
      () => /^(libudev|change@)/.test(askOutside(code).uevent),
      'nothing is told',
    );
  }
});
