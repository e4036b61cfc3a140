// SPDX-License-Identifier: Apache-2.0
'use strict';

// In a workspace that is large enough to be watched, `result.files` is what two
// looks at every file tell, whatever code and host do to them.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const fc = require('fast-check');
const { open, test } = require('../helpers/harness.js');

// More than the engine walks anyway.
const fillers = 600;

const program = `
import ctypes, json, mmap, os, sys
libc = ctypes.CDLL(None)
def exchange(a, b): libc.renameat2(-100, a.encode(), -100, b.encode(), 2)
def write(a, text='w', mode='w'):
    with open(a, mode) as f: f.write(text)
def keep_times(a):
    st = os.stat(a)
    with open(a, 'r+') as f: f.write('k')
    os.utime(a, ns=(st.st_atime_ns, st.st_mtime_ns))
def by_mapping(a):
    with open(a, 'r+b') as f: m = mmap.mmap(f.fileno(), 1)
    m[0:1] = b'm'
    if len(a) % 2: m.close() # or the end of the process does
def by_alias(a, b):
    os.link(a, b)
    write(b, 'alias')
    os.remove(b)
def by_folder(a, b):
    os.mkdir('n')
    os.link(a, 'n/f')
    write('n/f', 'folder')
    os.remove('n/f')
    os.rmdir('n')
def replace(a, b):
    write(a + '.tmp', 'replaced')
    os.rename(a + '.tmp', a)
for kind, a, b in json.loads(sys.argv[1]):
    try:
        if kind == 'write': write(a, b)
        elif kind == 'append': write(a, '', 'a')
        elif kind == 'read': open(a).read()
        elif kind == 'remove': os.remove(a)
        elif kind == 'rename': os.rename(a, b)
        elif kind == 'exchange': exchange(a, b)
        elif kind == 'link': os.link(a, b)
        elif kind == 'symlink': os.symlink(b, a)
        elif kind == 'mkdir': os.mkdir(a)
        elif kind == 'rmdir': os.rmdir(a)
        elif kind == 'chmod': os.chmod(a, 0o640)
        elif kind == 'truncate': os.truncate(a, 1)
        elif kind == 'keepTimes': keep_times(a)
        elif kind == 'mapping': by_mapping(a)
        elif kind == 'alias': by_alias(a, b)
        elif kind == 'folder': by_folder(a, b)
        elif kind == 'replace': replace(a, b)
    except OSError: pass
    except ValueError: pass
`;

const files = ['a', 'b', 'f/0', 'f/1', 'f/2', 'd/a', 'd/b'];
const kinds = [
  ...['write', 'append', 'read', 'remove', 'rename', 'exchange', 'chmod'],
  ...['truncate', 'keepTimes', 'mapping', 'alias', 'folder', 'replace'],
  ...['write', 'replace', 'mapping', 'symlink'],
];
const operation = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.tuple(
      fc.constantFrom(...kinds),
      fc.constantFrom(...files),
      fc.constantFrom(...files),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(
      fc.constantFrom('mkdir', 'rmdir', 'rename'),
      fc.constantFrom('d', 'e'),
      fc.constantFrom('d', 'e'),
    ),
  },
);

/** What differs if a file was touched, by the path of each. */
function look(folder, prefix = '', found = new Map()) {
  for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
    const file = path.join(folder, entry.name);
    if (entry.isDirectory()) look(file, `${prefix}${entry.name}/`, found);
    if (!entry.isFile()) continue;
    const { ino, size, mtimeNs, ctimeNs } = fs.lstatSync(file, {
      bigint: true,
    });
    found.set(`${prefix}${entry.name}`, `${[ino, size, mtimeNs, ctimeNs]}`);
  }
  return found;
}

function differences(before, after) {
  const differing = [...after].filter(([name, facts]) => {
    return before.get(name) !== facts;
  });
  return {
    files: differing
      .map(([name]) => [name, before.has(name) ? 'modified' : 'created'])
      .sort(),
    deleted: [...before.keys()].filter((name) => !after.has(name)).sort(),
  };
}

function told({ files: changed, deletedFiles }) {
  return {
    files: changed.map(({ path: name, change }) => [name, change]).sort(),
    deleted: deletedFiles.map((file) => file.path ?? file).sort(),
  };
}

function fill(workspace) {
  fs.mkdirSync(path.join(workspace, 'f'));
  for (let i = 0; i < fillers; i++) {
    fs.writeFileSync(path.join(workspace, 'f', String(i)), 'x');
  }
}

/** What the host does between two calls. */
function meddle(workspace, name, text) {
  const file = path.join(workspace, name);
  try {
    if (text === 'b') fs.rmSync(file);
    else fs.writeFileSync(file, text);
  } catch {} // It is a folder, or its folder is not there.
}

test('P22 in a watched workspace the lists are those of two looks at all files', async (t) => {
  const sandbox = await open(t);
  const { workspace } = sandbox;
  fill(workspace);
  await sandbox.run(['true']);
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(...[fc.constantFrom(...files), fc.string()]), {
        maxLength: 2,
      }),
      fc.array(operation, { minLength: 0, maxLength: 6 }),
      async (byHost, operations) => {
        for (const [name, text] of byHost) meddle(workspace, name, text);
        const before = look(workspace);
        const result = await sandbox.run([
          'python3',
          '-c',
          program,
          JSON.stringify(operations),
        ]);
        assert.equal(result.exitCode, 0, result.stderr);
        assert.deepEqual(
          told(result),
          differences(before, look(workspace)),
          JSON.stringify(operations),
        );
      },
    ),
    { numRuns: 50 },
  );
});
