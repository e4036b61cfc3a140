// SPDX-License-Identifier: Apache-2.0
'use strict';

// What of a host's /etc comes into a box with its network, with hosts laid out
// in a temporary folder; and what is said of it.

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { afterEach, beforeEach, describe, test } = require('node:test');
const { withHostNetwork } = require('../../lib/network/host-files.js');
const {
  describeNetwork,
  warnOfOpenSockets,
} = require('../../lib/network/isolation.js');

let folder;

beforeEach(() => {
  folder = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'network-')));
  fs.mkdirSync(path.join(folder, 'etc'));
});

afterEach(() => fs.rmSync(folder, { recursive: true }));

function place(name, text) {
  const file = path.join(folder, name);
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, text);
  return file;
}

const usual = [
  { kind: 'bind', target: '/usr', source: '/usr' },
  { kind: 'file', target: '/etc/hosts', data: Buffer.from('usual') },
];

/** By target; texts of files. */
function shown() {
  const entries = withHostNetwork(usual, path.join(folder, 'etc'));
  assert.equal(
    new Set(entries.map(({ target }) => target)).size,
    entries.length,
    'each target once',
  );
  return Object.fromEntries(
    entries.map(({ target, data, source }) => [
      target,
      data === undefined ? source : data.toString('latin1'),
    ]),
  );
}

describe('the host network in a root', () => {
  test('resolv.conf comes by content, also through a link to where a box has nothing', () => {
    place('run/systemd/resolve/stub-resolv.conf', 'nameserver 127.0.0.53\n');
    fs.symlinkSync(
      '../run/systemd/resolve/stub-resolv.conf',
      path.join(folder, 'etc/resolv.conf'),
    );
    assert.equal(shown()['/etc/resolv.conf'], 'nameserver 127.0.0.53\n');
    // What replaces it is seen by the next Sandbox that opens.
    fs.rmSync(path.join(folder, 'etc/resolv.conf'));
    place('etc/resolv.conf', 'nameserver 192.0.2.1\n');
    assert.equal(shown()['/etc/resolv.conf'], 'nameserver 192.0.2.1\n');
  });

  test('a host without resolv.conf, or with a link that leads nowhere, gives none', () => {
    assert.ok(!('/etc/resolv.conf' in shown()));
    fs.symlinkSync('/no/such/file', path.join(folder, 'etc/resolv.conf'));
    assert.ok(!('/etc/resolv.conf' in shown()));
  });

  test("hosts are the host's, with the box's own name", () => {
    place('etc/hosts', '127.0.0.1 localhost # me\n192.0.2.7 db db.test');
    assert.equal(
      shown()['/etc/hosts'],
      '127.0.0.1 localhost # me\n192.0.2.7 db db.test\n127.0.0.1 glovebox\n',
    );
  });

  test('bytes that are no UTF-8 stay as they are', () => {
    place(
      'etc/hosts',
      Buffer.from('127.0.0.1 localhost glovebox # \xe4', 'latin1'),
    );
    assert.equal(shown()['/etc/hosts'], '127.0.0.1 localhost glovebox # \xe4');
  });

  test('localhost and the own name are there whatever the host has', () => {
    for (const text of [undefined, '', '# 127.0.0.1 localhost\n']) {
      if (text !== undefined) place('etc/hosts', text);
      const hosts = shown()['/etc/hosts'];
      for (const line of [
        '127.0.0.1 localhost',
        '::1 localhost ip6-localhost ip6-loopback',
        '127.0.0.1 glovebox',
      ]) {
        assert.ok(hosts.split('\n').includes(line), hosts);
      }
    }
  });

  test('what is no file, or is huge, is refused by name', () => {
    execFileSync('mkfifo', [path.join(folder, 'etc/resolv.conf')]);
    const refusal = (problem) => ({
      code: 'ERR_SANDBOX_SETUP',
      step: 'network',
      message: new RegExp(
        `etc/resolv\\.conf ${problem}.*leave network: true out`,
      ),
    });
    assert.throws(shown, refusal('is no regular file'));
    fs.rmSync(path.join(folder, 'etc/resolv.conf'));
    place('etc/resolv.conf', '#'.repeat(8 * 2 ** 20));
    assert.equal(shown()['/etc/resolv.conf'].length, 8 * 2 ** 20);
    place('etc/resolv.conf', '#'.repeat(8 * 2 ** 20 + 1));
    assert.throws(shown, refusal('is larger than 8 MiB'));
  });

  test('services and the certificates of Fedora come too, and no private key', () => {
    const bundle = place(
      'etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem',
      '',
    );
    place('etc/pki/tls/private/localhost.key', '');
    fs.mkdirSync(path.join(folder, 'etc/pki/tls/certs'));
    for (const name of ['certs/ca-bundle.crt', 'cert.pem']) {
      fs.symlinkSync(bundle, path.join(folder, 'etc/pki/tls', name));
    }
    place('etc/services', 'https 443/tcp\n');
    place('etc/shadow', '');
    place('etc/nsswitch.conf', 'hosts: resolve\n');
    const found = shown();
    const at = (name) => path.join(folder, 'etc', name);
    assert.equal(found['/etc/pki/tls/certs'], at('pki/tls/certs'));
    assert.equal(found['/etc/pki/tls/cert.pem'], bundle);
    assert.equal(
      found['/etc/pki/ca-trust/extracted'],
      at('pki/ca-trust/extracted'),
    );
    assert.equal(found['/etc/services'], at('services'));
    assert.equal(found['/usr'], '/usr');
    const targets = Object.keys(found);
    for (const target of [
      '/etc',
      '/etc/pki',
      '/etc/pki/tls',
      '/etc/shadow',
      '/etc/nsswitch.conf',
    ]) {
      assert.ok(!targets.includes(target), target);
    }
    assert.ok(!targets.some((target) => target.includes('private')));
  });
});

test('what a shared network opens is said, and more without scopes', () => {
  const off = describeNetwork(false, false);
  assert.deepEqual(off, { network: 'loopback', scopes: [], relaxes: [] });
  const scoped = describeNetwork(true, true);
  const open = describeNetwork(true, false);
  assert.equal(scoped.scopes.length, 2);
  assert.deepEqual(open.scopes, []);
  assert.deepEqual(open.relaxes.slice(0, -1), scoped.relaxes);
  assert.match(open.relaxes.at(-1), /abstract unix sockets.*Linux 6\.12/);
});

test('a warning comes once, and where abstract sockets are open only', async () => {
  const warnings = [];
  const listener = ({ name, code }) => warnings.push({ name, code });
  process.on('warning', listener);
  warnOfOpenSockets(false, false);
  warnOfOpenSockets(true, true);
  await new Promise(setImmediate);
  assert.deepEqual(warnings, []);
  const warned = once(process, 'warning');
  warnOfOpenSockets(true, false);
  warnOfOpenSockets(true, false);
  await warned;
  await new Promise(setImmediate);
  process.removeListener('warning', listener);
  const expected = { name: 'GloveboxWarning', code: 'GLOVEBOX_NETWORK' };
  assert.deepEqual(warnings, [expected]);
});
