// SPDX-License-Identifier: Apache-2.0
'use strict';

// Scouts (src/join/scout.h), without box or engine: those of join.so, in an
// interpreter that loads it, and those of the python driver.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');

const DRIVER = path.join(__dirname, '../../lib/runtimes/python');
const LIBRARY = path.join(__dirname, '../../build/Release/join.so');
const DEBIAN_PYTHON = '/usr/bin/python3';
const PYTHON =
  process.env.GLOVEBOX_TEST_PYTHON ||
  (fs.existsSync(DEBIAN_PYTHON) ? DEBIAN_PYTHON : 'python3');

/** `wrapper` is a command that executes the one behind it. */
function runPython(code, wrapper = []) {
  const [command, ...args] = [...wrapper, PYTHON, '-c', code, LIBRARY, DRIVER];
  const { stdout, stderr, status } = spawnSync(command, args, {
    encoding: 'utf8',
  });
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout);
}

// Pages of three mappings with a hole between them, and which of them, by
// number, a scout has told of.
const scout = (inScout) => `
import ctypes, json, mmap, os, sys
P, N = mmap.PAGESIZE, 64
library = ctypes.CDLL(sys.argv[1])
written = mmap.mmap(-1, N * P, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
hole = mmap.mmap(-1, N * P)
read = mmap.mmap(-1, N * P, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for i in range(N): written[i * P] = read[i * P] = 1
start = {name: ctypes.addressof(ctypes.c_char.from_buffer(m))
         for name, m in (('written', written), ('read', read))}
hole.close()
spans_fd, fd = os.pipe()
child = os.fork()
if child == 0:
    for i in range(N): read[i * P]
    ${inScout}
    os._exit(-library.gbx_scout_tell(fd, P))
os.close(fd)
told = open(spans_fd, 'rb').read()
assert os.waitpid(child, 0)[1] == 0
number = lambda at: int.from_bytes(told[at:at + 8], sys.byteorder)
pages = set()
for at in range(0, len(told), 16):
    pages.update(range(number(at), number(at) + number(at + 8), P))
print(json.dumps({name: [i for i in range(N) if at + i * P in pages]
                  for name, at in start.items()}))
`;

test('a scout tells of the pages that it has written to, and of no others', () => {
  const code = scout('for i in 0, 5, 6, 7, 63: written[i * P] = 2');
  const { written, read } = runPython(code);
  assert.deepEqual(written, [0, 5, 6, 7, 63]);
  assert.deepEqual(read, []);
});

test('a scout finds its memory where addresses are not random, or limited', () => {
  const code = scout('written[9 * P] = 2');
  for (const wrapper of [
    ['setarch', '--addr-no-randomize'],
    ['prlimit', `--as=${2 ** 30}`],
  ]) {
    const { written, read } = runPython(code, wrapper);
    assert.deepEqual({ written, read }, { written: [9], read: [] });
  }
});

test('a scout that has written to nothing tells of nothing', () => {
  assert.deepEqual(runPython(scout('pass')), { written: [], read: [] });
});

// In a zygote, with a module that was preloaded.
const learn = (module) => `
import json, os, sys
library, folder = sys.argv[1:]
sys.path[:0] = [folder, folder] # it takes the first away
import driver
waiting = driver.load('waiting')
${module}
ahead = waiting.load(library)
spans = driver.load('scouting').learn(
    library, lambda: waiting.arrive((), *ahead))
sizes = [int.from_bytes(spans[at + 8:at + 16], sys.byteorder)
         for at in range(0, len(spans), 16)]
print(json.dumps({'pages': sum(sizes) // os.sysconf('SC_PAGE_SIZE')}))
`;

test('a call that nobody made is played to its end, and told of', () => {
  const { pages } = runPython(learn(''));
  assert.ok(pages > 50 && pages < 5000, `${pages} pages`);
});

test('exit handlers of preloaded modules are not for a scout to run', () => {
  const { pages } = runPython(
    learn(`import atexit
home = os.getpid()
atexit.register(lambda: os.getpid() == home or os._exit(9))`),
  );
  assert.ok(pages > 50, `${pages} pages`);
});

test('a scout that ends early tells of nothing, and holds nothing up', () => {
  const early = 'os.register_at_fork(after_in_child=lambda: os._exit(0))';
  assert.deepEqual(runPython(learn(early)), { pages: 0 });
});
