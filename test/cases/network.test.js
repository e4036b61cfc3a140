// SPDX-License-Identifier: Apache-2.0
'use strict';

// `network: true`: names, services and certificates are the host's, and all else
// of a box is as it is without. Servers are the test's own, on loopback.

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const dgram = require('node:dgram');
const fs = require('node:fs');
const http = require('node:http');
const https = require('node:https');
const path = require('node:path');
const {
  glovebox,
  isRoot,
  makeFolder,
  open,
  outside,
  packagedPython,
  skip,
  test,
} = require('../helpers/harness.js');

const { Sandbox, runCode } = glovebox;
const shared = { network: true };
const python = packagedPython ?? 'python3';

async function listen(t, server) {
  await new Promise((resolve, reject) => {
    server.once('error', reject).listen(0, '127.0.0.1', resolve);
  });
  t.after(() => server.close());
  return server.address().port;
}

/** What the code prints as JSON in the box. */
async function answerOf(sandbox, code, options) {
  const { stdout, stderr, fault } = await sandbox.runCode(code, options);
  assert.deepEqual({ stderr, fault }, { stderr: '', fault: null });
  return JSON.parse(stdout);
}

function outsideAnswer(code) {
  // Variables such as SSL_CERT_FILE say otherwise what a box does not get.
  const env = { PATH: process.env.PATH };
  const { stdout, stderr } = outside([python, '-c', code], { env });
  assert.equal(stderr, '');
  return JSON.parse(stdout);
}

// ---- The box -------------------------------------------------------------------

test('the network is the only namespace that a box with network: true shares', async (t) => {
  const sandbox = await open(t, shared);
  const { box, spec } = await sandbox.plan();
  assert.equal(spec.network, true);
  assert.equal(box.network, 'host');
  assert.ok(!box.namespaces.includes('network'));
  assert.ok(
    box.relaxes.some((text) => /loopback/.test(text)),
    box.relaxes,
  );
  for (const name of ['net', 'user', 'mnt', 'pid', 'ipc', 'uts', 'cgroup']) {
    const file = `/proc/self/ns/${name}`;
    const { stdout } = await sandbox.run(['readlink', file]);
    const isShared = stdout.trim() === fs.readlinkSync(file);
    assert.equal(isShared, name === 'net', name);
  }
});

test('without network: true nothing is relaxed, and plan() says so', async (t) => {
  const { box, spec } = await (await open(t)).plan();
  assert.equal(spec.network, false);
  assert.equal(box.network, 'loopback');
  assert.ok(box.namespaces.includes('network'));
  assert.deepEqual([box.scopes, box.relaxes], [[], []]);
});

test('user, capabilities, filter, limits and mounts are as without a network', async (t) => {
  const look = async (options) => {
    const sandbox = await open(t, options);
    const { stdout } = await sandbox.run([
      'sh',
      '-c',
      'id; grep -E "^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp:)" /proc/self/status; ' +
        'ulimit -a; ls /; ls /run /dev; env | sort; hostname',
    ]);
    const { box } = await sandbox.plan();
    const etc = /^\/etc\//;
    return {
      stdout,
      limits: sandbox.limits,
      filter: box.filter,
      mounts: box.mounts
        .filter(({ target }) => !etc.test(target) && target !== '/workspace')
        .map(({ target, access }) => `${target} ${access}`),
    };
  };
  assert.deepEqual(await look(shared), await look({}));
});

test('files move between folders, and children take signals, with network: true', async (t) => {
  // A Landlock domain with rules for files would say EXDEV, as to no other box.
  const sandbox = await open(t, shared);
  const code = `import json, os, signal, subprocess
os.makedirs('/tmp/a'); os.makedirs('/tmp/b')
open('/tmp/a/x', 'w').close()
os.rename('/tmp/a/x', '/tmp/b/x')
os.link('/tmp/b/x', '/tmp/a/y')
child = subprocess.Popen(['sleep', '100'])
child.send_signal(signal.SIGTERM)
print(json.dumps([os.listdir('/tmp/a'), os.listdir('/tmp/b'), child.wait()]))`;
  assert.deepEqual(await answerOf(sandbox, code), [['y'], ['x'], -15]);
});

test('every kind of call has the network: one-shot, argv, process, kernel, all languages', async (t) => {
  const server = http.createServer((_, response) => response.end('hello'));
  const url = `http://localhost:${await listen(t, server)}/`;
  const fetchIt = `import urllib.request\nprint(urllib.request.urlopen('${url}').read().decode())`;
  const sandbox = await open(t, shared);
  const kernel = await sandbox.kernel();
  const child = sandbox.spawn({ code: fetchIt, language: 'python' });
  let text = '';
  for await (const chunk of child.stdout) text += chunk;
  const node = `fetch('${url}').then((r) => r.text()).then(console.log)`;
  const bash = `exec 3<>/dev/tcp/localhost/${server.address().port}; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; tail -n 1 <&3; echo`;
  const results = await Promise.all([
    runCode(fetchIt, shared),
    sandbox.run([python, '-c', fetchIt]),
    kernel.runCode(fetchIt),
    sandbox.runCode(node, { language: 'node' }),
    sandbox.runCode(bash, { language: 'bash' }),
  ]);
  for (const { stdout, stderr } of results) {
    assert.equal(stdout, 'hello\n', stderr);
  }
  assert.equal(text, 'hello\n');
  const without = await runCode(fetchIt);
  assert.match(without.error?.message ?? '', /refused/i);
});

test('network is true or false, and of a Sandbox', async (t) => {
  for (const network of ['host', 'none', 1, 0, null, {}, []]) {
    assert.throws(() => new Sandbox({ network }), {
      code: 'ERR_SANDBOX_INVALID_OPTION',
      option: 'network',
      message: /^Expected true or false for network, received /,
    });
  }
  const sandbox = await open(t);
  await assert.rejects(sandbox.run(['true'], { network: true }), {
    code: 'ERR_SANDBOX_INVALID_OPTION',
    message: /network is an option of new Sandbox\(\)/,
  });
  assert.throws(() => new Sandbox({ network: true, egressAllow: ['a.test'] }), {
    option: 'egressAllow',
    message: /egressAllow is not built yet/,
  });
});

test('a plan with the network makes such a box again', async (t) => {
  const plan = await (await open(t, shared)).plan();
  const again = await open(t, { spec: JSON.parse(JSON.stringify(plan)) });
  const host = fs.readlinkSync('/proc/self/ns/net');
  const { stdout } = await again.run(['readlink', '/proc/self/ns/net']);
  assert.equal(stdout.trim(), host);
  assert.deepEqual((await again.plan()).spec, plan.spec);
});

// ---- Names ---------------------------------------------------------------------

test('resolv.conf has the content of the host, and each name of its hosts is found', async (t) => {
  const sandbox = await open(t, shared);
  if (fs.existsSync('/etc/resolv.conf')) {
    const { stdout } = await sandbox.run(['cat', '/etc/resolv.conf']);
    assert.equal(stdout, fs.readFileSync('/etc/resolv.conf', 'utf8'));
  }
  const names = fs
    .readFileSync('/etc/hosts', 'utf8')
    .split('\n')
    .flatMap((line) => line.replace(/#.*/, '').trim().split(/\s+/).slice(1));
  assert.ok(names.length > 0, 'the host has names');
  const code = `import json, socket
names = json.loads('${JSON.stringify(names)}')
print(json.dumps({name: sorted({info[4][0] for info in socket.getaddrinfo(name, 80)})
                  for name in names}))`;
  assert.deepEqual(await answerOf(sandbox, code), outsideAnswer(code));
});

test("the box's own name, localhost and the names of services are found", async (t) => {
  const sandbox = await open(t, shared);
  const code = `import json, socket
print(json.dumps([socket.gethostbyname(socket.gethostname()),
                  socket.gethostbyname('localhost'),
                  socket.getaddrinfo('127.0.0.1', 'https')[0][4][1],
                  socket.getprotobyname('tcp')]))`;
  if (!fs.existsSync('/etc/services')) return skip(t, 'no /etc/services');
  const found = await answerOf(sandbox, code);
  assert.deepEqual(found, ['127.0.0.1', '127.0.0.1', 443, 6]);
});

/** Answers each question for an A record with 127.1.2.3. */
async function startResolver(t, address) {
  const resolver = dgram.createSocket('udp4');
  resolver.on('message', (query, { address, port }) => {
    const end = query.indexOf(0, 12) + 5;
    const isA = query.readUInt16BE(end - 4) === 1;
    const head = Buffer.from(query.subarray(0, 12));
    head.writeUInt16BE(0x8180, 2);
    head.writeUInt16BE(isA ? 1 : 0, 6);
    head.fill(0, 8, 12);
    const record = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 1, 2, 3];
    const parts = [head, query.subarray(12, end)];
    if (isA) parts.push(Buffer.from(record));
    resolver.send(Buffer.concat(parts), port, address);
  });
  await new Promise((resolve, reject) => {
    resolver.once('error', reject).bind(53, address, resolve);
  });
  t.after(() => resolver.close());
}

test('a resolver that listens on loopback is asked, as that of systemd is', async (t) => {
  // Port 53 is root's.
  if (!isRoot) return t.diagnostic('nobody else may listen on port 53');
  const address = `127.77.${(process.pid >> 8) & 255}.${process.pid & 255}`;
  await startResolver(t, address);
  const plan = await (await open(t, shared)).plan();
  const entries = plan.spec.entries.filter(
    ({ target }) => target !== '/etc/resolv.conf',
  );
  const data = `nameserver ${address}\noptions timeout:5\n`;
  entries.push({ kind: 'file', target: '/etc/resolv.conf', data });
  const code = `import json, socket
print(json.dumps(socket.gethostbyname('some.test')))`;
  const spec = { ...plan.spec, entries };
  const sandbox = await open(t, { spec: { ...plan, spec } });
  assert.equal(await answerOf(sandbox, code), '127.1.2.3');
  const node = `require('node:dns').lookup('other.test', (_, a) => console.log(JSON.stringify(a)))`;
  const seen = await answerOf(sandbox, node, { language: 'node' });
  assert.equal(seen, '127.1.2.3');
  // The twin: without the network nobody answers.
  const off = { ...plan, spec: { ...spec, network: false } };
  const alone = await open(t, { spec: off });
  const { error } = await alone.runCode(code);
  assert.equal(error?.name, 'gaierror');
});

// ---- Certificates -----------------------------------------------------------------

/** A certificate of `localhost` by an authority of the test's own. */
function makeCertificate(t) {
  const folder = makeFolder(t);
  const file = (name) => path.join(folder, name);
  const openssl = (...args) =>
    execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'] });
  const request = ['req', '-newkey', 'ec', '-pkeyopt'];
  request.push('ec_paramgen_curve:prime256v1', '-nodes', '-batch');
  openssl(
    ...[...request, '-x509', '-subj', '/CN=glovebox test authority'],
    ...['-keyout', file('ca.key'), '-out', file('ca.pem'), '-days', '2'],
  );
  openssl(
    ...[...request, '-subj', '/CN=localhost', '-keyout', file('key.pem')],
    ...['-out', file('request.pem')],
  );
  fs.writeFileSync(file('san'), 'subjectAltName=DNS:localhost\n');
  openssl(
    ...['x509', '-req', '-in', file('request.pem'), '-CA', file('ca.pem')],
    ...['-CAkey', file('ca.key'), '-CAcreateserial', '-days', '2'],
    ...['-extfile', file('san'), '-out', file('cert.pem')],
  );
  const read = (name) => fs.readFileSync(file(name));
  return { ca: read('ca.pem'), key: read('key.pem'), cert: read('cert.pem') };
}

test('python, node and curl check the certificate of a server', async (t) => {
  const { ca, key, cert } = makeCertificate(t);
  const server = https.createServer({ key, cert }, (_, response) => {
    response.end('secret');
  });
  const url = `https://localhost:${await listen(t, server)}/`;
  const sandbox = await open(t, shared);
  await sandbox.writeFile('ca.pem', ca);
  const programs = {
    python: [
      python,
      '-c',
      `import urllib.request; print(urllib.request.urlopen('${url}').read().decode())`,
    ],
    node: [
      process.execPath,
      '-e',
      `fetch('${url}').then((r) => r.text()).then(console.log, (e) => { console.error(e.cause?.code); process.exit(1); })`,
    ],
  };
  if (fs.existsSync('/usr/bin/curl')) {
    programs.curl = ['/usr/bin/curl', '-sS', url];
  }
  const trust = {
    SSL_CERT_FILE: '/workspace/ca.pem',
    NODE_EXTRA_CA_CERTS: '/workspace/ca.pem',
    CURL_CA_BUNDLE: '/workspace/ca.pem',
  };
  for (const [name, argv] of Object.entries(programs)) {
    const unknown = await sandbox.run(argv);
    assert.notEqual(unknown.exitCode, 0, name);
    assert.match(unknown.stderr, /certificate|SELF_SIGNED|UNABLE_TO/i, name);
    const known = await sandbox.run(argv, { env: trust });
    assert.deepEqual([known.stdout.trim(), known.stderr], ['secret', ''], name);
  }
});

test("the certificates that programs look for are the host's", async (t) => {
  const sandbox = await open(t, shared);
  const code = `import hashlib, json, os, ssl
paths = ssl.get_default_verify_paths()
def digest(path):
    if path is None or not os.path.exists(path): return None
    with open(path, 'rb') as file: return hashlib.sha256(file.read()).hexdigest()
def names(path):
    if path is None or not os.path.isdir(path): return None
    # What is there and can be read, through all links.
    return sorted(name for name in os.listdir(path)
                  if os.path.exists(os.path.join(path, name)))
bundles = ['/etc/ssl/certs/ca-certificates.crt', '/etc/ssl/cert.pem', '/etc/ssl/ca-bundle.pem',
           '/etc/pki/tls/certs/ca-bundle.crt', '/etc/pki/tls/cert.pem', '/etc/ssl/openssl.cnf']
print(json.dumps({
    'where': list(paths), 'file': digest(paths.cafile), 'folder': names(paths.capath),
    'bundles': [digest(path) for path in bundles],
    'store': ssl.create_default_context().cert_store_stats()}))`;
  const argv = [python, '-c', code];
  const { stdout, stderr } = await sandbox.run(argv);
  assert.equal(stderr, '');
  const found = JSON.parse(stdout);
  assert.deepEqual(found, outsideAnswer(code));
  const authorities = found.folder?.length ?? found.store.x509_ca;
  assert.ok(authorities > 0, 'there are authorities');
});
