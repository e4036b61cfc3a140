// SPDX-License-Identifier: Apache-2.0
'use strict';

// A property of `result.files`: whatever code does to files, in whatever order,
// the lists say what differs between before and after.

const assert = require('node:assert/strict');
const fc = require('fast-check');
const { open, test } = require('../helpers/harness.js');

const program = `
import base64, json, os, shutil, sys
def look():
    found = {}
    for folder, _, names in os.walk(b'.'):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.islink(path) or not os.path.isfile(path): continue
            with open(path, 'rb') as f: data = f.read()
            found[path[2:].decode('latin1')] = [os.stat(path).st_ino, data.decode('latin1')]
    return found
before = look()
for kind, a, b in json.loads(sys.argv[1]):
    a, b = a.encode('latin1'), b.encode('latin1')
    try:
        if kind == 'write': open(a, 'wb').write(b)
        elif kind == 'same': open(a, 'r+b').write(open(a, 'rb').read())
        elif kind == 'remove': os.remove(a)
        elif kind == 'rename': os.rename(a, b)
        elif kind == 'mkdir': os.mkdir(a)
        elif kind == 'rmtree': shutil.rmtree(a)
        elif kind == 'symlink': os.symlink(b, a)
        elif kind == 'backdate': os.utime(a, (0, 0))
        elif kind == 'copy': shutil.copy2(a, b)
    except OSError: pass
print(json.dumps([before, look()]))
`;

const name = fc.constantFrom(
  ...['a', 'b', 'd', 'd/a', 'd/b', 'd/e', 'd/e/a', '\xff\xfe', 'n\nl', 'd\xe9'],
);
const operation = fc.tuple(
  fc.constantFrom(
    ...['write', 'write', 'mkdir', 'rename', 'remove', 'same', 'rmtree'],
    ...['symlink', 'backdate', 'copy'],
  ),
  name,
  name,
);

test('P22 the lists of changes say what differs, whatever the code does', async (t) => {
  const sandbox = await open(t);
  await fc.assert(
    fc.asyncProperty(
      fc.array(operation, { minLength: 1, maxLength: 12 }),
      async (operations) => {
        const result = await sandbox.run([
          'python3',
          '-c',
          program,
          JSON.stringify(operations),
        ]);
        assert.equal(result.exitCode, 0, result.stderr);
        const [before, after] = JSON.parse(result.stdout);
        const text = (file) =>
          (file.pathBuffer ?? Buffer.from(file.path)).toString('latin1');
        const told = new Map(
          result.files.map((file) => [text(file), file.change]),
        );
        for (const [path, [inode, data]] of Object.entries(after)) {
          const old = before[path];
          if (!old) assert.equal(told.get(path), 'created', path);
          else if (old[0] !== inode || old[1] !== data) {
            assert.equal(told.get(path), 'modified', path);
          }
          // A write of the same bytes, or a new time, may be told as well.
          if (old) assert.notEqual(told.get(path), 'created', path);
        }
        for (const path of told.keys()) assert.ok(after[path], path);
        const gone = Object.keys(before).filter((path) => !after[path]);
        assert.deepEqual(
          result.deletedFileBuffers.map((name) => name.toString('latin1')),
          gone.sort(),
        );
      },
    ),
    { numRuns: 40 },
  );
});
