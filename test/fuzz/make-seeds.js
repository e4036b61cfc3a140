// SPDX-License-Identifier: Apache-2.0
'use strict';

// Writes the inputs from which fuzzing starts: corpus/*/seed-*. Run it after a
// change of a format, and commit what it writes.

const fs = require('node:fs');
const path = require('node:path');

const MAGIC = 0x31584247;

const u32 = (...values) => {
  const bytes = Buffer.alloc(4 * values.length);
  values.forEach((value, index) => {
    bytes.writeUInt32LE(value, 4 * index);
  });
  return bytes;
};
const text = (...words) =>
  Buffer.from(words.map((word) => `${word}\0`).join(''));

// ---- wire: struct gbx_msg_head and what follows it

function message(type, body, { size = 16 + body.length, version = 1 } = {}) {
  const bytes = Buffer.concat([u32(MAGIC, 0, size, 7), body]);
  bytes.writeUInt16LE(version, 4);
  bytes.writeUInt16LE(type, 6);
  return bytes;
}

const sent = (fds, bytes) =>
  Buffer.concat([
    Buffer.from([fds, bytes.length & 255, bytes.length >> 8]),
    bytes,
  ]);

const failure = Buffer.alloc(232);
failure.writeInt32LE(4, 0);
failure.writeInt32LE(13, 4);
failure.write('mount', 8);
failure.write('/work', 32);
const largest = message(4, Buffer.alloc(8192 - 16, 'a'));

const wire = {
  empty: sent(0, Buffer.alloc(0)),
  failed: sent(0, message(1, failure)),
  'failed-unterminated': sent(0, message(1, Buffer.alloc(232, 0xff))),
  config: sent(2, message(7, u32(1, 1))),
  'more-fds-than-fit': sent(13, message(11, u32(1, 2, 3))),
  'bad-with-fds': sent(10, message(11, u32(1), { size: 4 })),
  'other-version': sent(1, message(11, u32(1), { version: 2 })),
  largest: sent(1, largest),
  'too-large': sent(3, Buffer.concat([largest, u32(0)])),
  several: Buffer.concat([
    sent(1, message(22, u32(0))),
    sent(0, u32(MAGIC)),
    sent(2, message(13, failure)),
  ]),
};

// ---- control: frames of docs/protocol.md, cut into pieces

const RESULT = 2;
const DONE = 3;
const frame = (type, body, size = body.length) =>
  Buffer.concat([u32(size, type), Buffer.from(body)]);

// In pieces of `step` bytes.
function inPieces(options, step, { small = false } = {}, ...frames) {
  const stream = Buffer.concat(frames);
  const parts = [Buffer.from([options])];
  for (let at = 0; at < stream.length; at += step) {
    const piece = stream.subarray(at, at + step);
    parts.push(Buffer.from([piece.length | (small ? 0x80 : 0)]), piece);
  }
  return Buffer.concat(parts);
}

const plain = frame(RESULT, '{"text/plain":"42"}');
const done = frame(DONE, '{"exitCode":0,"error":null}');

const reset = Buffer.concat([Buffer.alloc(16, 0xff), Buffer.from([0])]);

const control = {
  whole: inPieces(0, 63, {}, plain, done),
  bytewise: inPieces(0, 1, {}, plain, done),
  'small-share': inPieces(0, 7, { small: true }, plain, plain, done),
  'empty-bodies': inPieces(0, 5, {}, frame(RESULT, ''), frame(DONE, '')),
  'over-budget': inPieces(1, 20, {}, plain, plain, plain, plain, done),
  'too-big-for-budget': inPieces(
    1,
    63,
    {},
    frame(RESULT, 'x'.repeat(90)),
    done,
  ),
  'too-many-results': inPieces(1, 9, {}, ...Array(5).fill(frame(RESULT, 'r'))),
  'two-dones': inPieces(0, 30, {}, done, done, plain),
  cells: inPieces(3, 11, {}, done, plain, plain, plain, plain, done, plain),
  'huge-and-missing': inPieces(0, 63, {}, frame(RESULT, 'abc', 64 << 20)),
  'huger-than-allowed': inPieces(0, 63, {}, frame(RESULT, '', (64 << 20) + 1)),
  // Dropped, and larger than what is read away at once.
  'large-and-dropped': Buffer.concat([
    Buffer.from([1, 8]),
    u32(63 * 128, RESULT),
    Buffer.from([0x40 | 63]),
    Buffer.alloc(63 * 128, 'z'),
    Buffer.from([done.length]),
    done,
  ]),
  // Given up in a body, in a header, between frames; and no end of it.
  'reset-in-body': inPieces(0, 10, {}, plain.subarray(0, 15), reset, done),
  'reset-in-done': inPieces(0, 7, {}, done.subarray(0, 20), reset, done, plain),
  'reset-in-header': inPieces(0, 3, {}, plain.subarray(0, 5), reset, done),
  'reset-at-once': inPieces(0, 63, {}, reset, plain, reset, done),
  'reset-of-dropped': inPieces(
    1,
    40,
    {},
    frame(RESULT, 'x'.repeat(90)).subarray(0, 50),
    reset,
    done,
  ),
  'reset-without-end': inPieces(
    0,
    20,
    {},
    plain.subarray(0, 12),
    Buffer.alloc(30, 0xff),
  ),
  'unknown-type': inPieces(0, 63, {}, plain, frame(1, 'x')),
  'large-piece': Buffer.concat([
    Buffer.from([0, 0x40 | 10]),
    frame(RESULT, 'y'.repeat(1280 - 8)),
    Buffer.from([27]),
    done,
  ]),
};

// ---- root: struct gbx_wire_entry and what follows it

function entry(kind, target, source = '', data = '') {
  const [to, from] = [text(target), text(source)];
  return Buffer.concat([
    u32(kind, to.length, from.length, data.length),
    to,
    from,
    Buffer.from(data),
  ]);
}

const root = {
  dir: entry(1, '/opt'),
  several: Buffer.concat([
    entry(2, '/usr', '/usr'),
    entry(3, '/bin', 'usr/bin'),
    entry(4, '/etc/passwd', '', 'root:x:0:0::/:/bin/sh\n'),
    entry(2, '/tmp/tool', '/opt/tool'),
    entry(1, '/home/user/.cache'),
  ]),
  mounts: Buffer.concat([
    entry(2, '/usr', '/usr'),
    entry(101, '/data'),
    entry(103, '/data/out'),
    entry(102, '/tmp/file'),
    entry(103, '/tmp/file/x'),
  ]),
  relative: entry(1, 'opt'),
  'cut-off': entry(4, '/etc/hosts', '', 'localhost').subarray(0, -3),
  'no-end-of-target': Buffer.concat([u32(1, 4, 1, 0), Buffer.from('/abcd')]),
  'nul-in-target': Buffer.concat([u32(1, 6, 1, 0), text('/a', 'bc', '')]),
  'target-beyond-the-end': Buffer.concat([u32(1, 9, 1, 0), text('/a')]),
  'source-beyond-the-end': Buffer.concat([u32(2, 3, 64, 0), text('/a', 'b')]),
  'sizes-that-wrap': Buffer.concat([u32(4, 2, 1, 0xffffffff), text('/', '')]),
};

// ---- exec: struct gbx_exec_head, then cwd, argv and env

const blob = (argc, envc, ...words) =>
  Buffer.concat([u32(MAGIC, argc, envc), text(...words)]);

const exec = {
  usual: blob(
    3,
    2,
    '/workspace',
    'sh',
    '-c',
    'exit',
    'PATH=/usr/bin:/bin',
    'A=',
  ),
  absolute: blob(1, 0, '/', '/bin/true'),
  'empty-parts-of-path': blob(1, 1, '', 'x', 'PATH=::/a:'),
  'no-name': blob(1, 0, '/', ''),
  'too-few': blob(4, 0, '/', 'a', 'b'),
  'too-many': blob(0xffffffff, 2, '/', 'a', 'b'),
  'no-argv': blob(0, 1, '/', 'A=b'),
  'no-end': blob(1, 0, '/', 'ab').subarray(0, -1),
};

// ---- spec: a spec file

const wholeSpec = {
  version: 2,
  glovebox: '0.1.0',
  spec: {
    entries: [
      { kind: 'bind', target: '/usr', source: '/usr' },
      { kind: 'symlink', target: '/bin', source: 'usr/bin' },
      { kind: 'file', target: '/etc/motto', data: 'ä\n' },
      { kind: 'dir', target: '/srv' },
    ],
    runtimes: { python: '/usr/bin/python3', bash: null, node: null },
    workspace: null,
    mounts: { '/srv/a': ['/data', 'ro'], '/b': ['/data/b', 'rw'] },
    cwd: '/workspace',
    env: { PATH: '/usr/bin', EMPTY: '' },
    limits: { memoryMb: 512, pids: null, cpus: 0.5, diskMb: 1024 },
    enforceLimits: true,
    requireLimits: false,
    trackFiles: true,
    warm: true,
    network: false,
    preload: ['json', 'xml.dom'],
    timeoutS: 30,
    maxOutputBytes: 1048576,
  },
  box: { anything: [1, [2, { a: 'b' }], null] },
};

function specWith(change) {
  const copy = structuredClone(wholeSpec);
  change(copy);
  return Buffer.from(JSON.stringify(copy));
}

const spec = {
  whole: specWith(() => {}),
  'without-box': specWith((file) => delete file.box),
  'unknown-key': specWith((file) => (file.spec.memory = 5)),
  'wrong-number': specWith((file) => (file.spec.limits.pids = -1e300)),
  'dots-in-target': specWith((file) => (file.spec.entries[3].target = '/a/..')),
  'nul-in-string': specWith((file) => (file.spec.cwd = '/a\0')),
  'no-mount': specWith((file) => (file.spec.mounts['/c'] = ['/x', 'wr'])),
  'mount-of-one': specWith((file) => (file.spec.mounts['/c'] = ['/x'])),
  escapes: specWith((file) => (file.spec.env.A = '\u0001\u{1f600}\\"/')),
  'key-twice': Buffer.from('{"version":2,"spec":{},"spec":{}}'),
  'ends-after-comma': Buffer.from('{"version":2,'),
  'ends-in-escape': Buffer.from('{"version\\'),
  'half-a-pair': Buffer.from('{"version":"\\ud800"}'),
  'no-utf8': Buffer.from([0x22, 0xc0, 0x80, 0x22]),
  'byte-order-mark': Buffer.from('\ufeff{"version":2}'),
  deep: Buffer.from('['.repeat(32)),
  'too-deep': Buffer.from('['.repeat(33)),
};

const targets = { wire, control, root, exec, spec };
for (const [target, seeds] of Object.entries(targets)) {
  const folder = path.join(__dirname, 'corpus', target);
  fs.mkdirSync(folder, { recursive: true });
  for (const [name, bytes] of Object.entries(seeds))
    fs.writeFileSync(path.join(folder, `seed-${name}`), bytes);
}
