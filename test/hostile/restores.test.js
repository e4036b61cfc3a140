// SPDX-License-Identifier: Apache-2.0
'use strict';

// Group TAR of the hostile cases: what else happens while an archive is restored.

const assert = require('node:assert/strict');
const { execFileSync, spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const zlib = require('node:zlib');
const {
  canary,
  isRoot,
  open,
  soak,
  test,
  timeScale,
} = require('../helpers/harness.js');
const { archive, end, member } = require('../helpers/tar.js');
const { contents, hostFile, openWithFile } = require('./archive-files.js');

test('TAR-17 an archive in the workspace is read beneath it, once', async (t) => {
  const sandbox = await open(t);
  const inside = (name) => path.join(sandbox.workspace, name);
  const bytes = archive(member({ name: 'good', body: 'x' }));
  await sandbox.writeFile('a.tgz', bytes);
  await sandbox.run(['ln', '-s', canary.file, 'link.tgz']);
  await sandbox.run(['mkfifo', 'fifo.tgz']);
  await assert.rejects(sandbox.restore(inside('link.tgz')), {
    code: 'ERR_SANDBOX_NOT_REGULAR',
  });
  // Whether that is known before or after the engine is ready to unpack.
  for (let i = 0; i < 50; i++) {
    await assert.rejects(sandbox.restore(inside('fifo.tgz')), {
      code: 'ERR_SANDBOX_NOT_REGULAR',
    });
  }
  // Nor does a link on the way lead out, whoever laid the one that leads in.
  const elsewhere = hostFile(t);
  fs.mkdirSync(elsewhere);
  fs.writeFileSync(path.join(elsewhere, 'a.tgz'), bytes);
  await sandbox.run(['ln', '-s', elsewhere, 'd']);
  const way = hostFile(t);
  fs.symlinkSync(inside('d/a.tgz'), way);
  for (const src of [inside('d/a.tgz'), way]) {
    await assert.rejects(sandbox.restore(src), { code: 'ERR_SANDBOX_PATH' });
  }
  fs.rmSync(way);
  fs.symlinkSync(inside('a.tgz'), way);
  await sandbox.restore(way);
  assert.deepEqual(
    (await sandbox.listFiles()).map((one) => one.path),
    ['good'],
  );
  const links = hostFile(t);
  fs.symlinkSync(links, links);
  await assert.rejects(sandbox.restore(links), {
    code: 'ERR_SANDBOX_HOST_FILE',
    errno: 'ELOOP',
  });
  const fifo = hostFile(t);
  execFileSync('mkfifo', [fifo]);
  await assert.rejects(sandbox.restore(fifo), {
    code: 'ERR_SANDBOX_NOT_REGULAR',
  });
  await assert.rejects(sandbox.restore('/nowhere/a.tgz'), {
    code: 'ERR_SANDBOX_HOST_FILE',
    errno: 'ENOENT',
  });
});

test('TAR-17 an archive that code rewrites while it is read is refused or restored whole', async (t) => {
  const sandbox = await open(t);
  const names = Array.from({ length: 40 }, (_, i) => `d/${i}`);
  const filled = (letter) =>
    zlib.gzipSync(
      Buffer.concat([
        ...names.map((name) => member({ name, body: letter.repeat(20_000) })),
        end,
      ]),
      { level: 0 },
    );
  // The first half of it is as that of the others.
  const evil = zlib.gzipSync(
    Buffer.concat([
      ...names
        .slice(20)
        .map((name) => member({ name, body: 'A'.repeat(20_000) })),
      member({ name: 'out', type: '2', target: canary.dir }),
      member({ name: 'out/evil', body: 'x' }),
      end,
    ]),
    { level: 0 },
  );
  const bytes = { A: filled('A'), B: filled('B'), evil };
  for (const [name, content] of Object.entries(bytes)) {
    await sandbox.writeFile(name, content);
  }
  // Its box lives on between cells, so that a restore does not wait for it.
  const kernel = await sandbox.kernel();
  const started = await kernel.runCode(`import os, threading
contents = [open(name, 'rb').read() for name in ('A', 'B', 'evil')]
def rewrite():
    while True:
        for content in contents:
            try:
                fd = os.open('a.tgz', os.O_RDWR | os.O_CREAT)
                for at in range(0, len(content), 1 << 16):
                    os.pwrite(fd, content[at:at + (1 << 16)], at)
                os.ftruncate(fd, len(content))
                os.close(fd)
                open('b.tgz', 'wb').write(content)
                os.replace('b.tgz', 'a.tgz')
            except OSError: pass
threading.Thread(target=rewrite, daemon=True).start()`);
  assert.equal(started.exitCode, 0, started.stderr);
  const seen = { whole: 0, refused: 0 };
  const rounds = soak ? 2000 : 150;
  const src = path.join(sandbox.workspace, 'a.tgz');
  for (let i = 0; i < rounds; i++) {
    try {
      await sandbox.restore(src);
    } catch (error) {
      assert.match(
        error.code,
        /^ERR_SANDBOX_(ARCHIVE|NOT_FOUND)$/,
        error.stack,
      );
      seen.refused++;
      continue;
    }
    const folder = path.join(sandbox.workspace, 'd');
    const letters = new Set(
      names.map((name) => {
        const text = fs.readFileSync(path.join(folder, '..', name), 'utf8');
        assert.equal(text.length, 20_000);
        return text.replace(/(.)\1*/g, '$1');
      }),
    );
    assert.equal(letters.size, 1, `${[...letters]}`);
    assert.match([...letters][0], /^[AB]$/);
    seen.whole++;
  }
  t.diagnostic(`${seen.whole} whole, ${seen.refused} refused`);
  assert.ok(seen.whole > 0 && seen.refused > 0, JSON.stringify(seen));
});

test('TAR-19 a restore replaces all, what the code closed and hid too', async (t) => {
  const sandbox = await open(t);
  await sandbox.writeFile('a/b', 'first');
  const file = hostFile(t);
  await sandbox.snapshot(file);
  const messy = await sandbox.runCode(
    'mkdir -p c/d .deps; echo x > c/d/e; chmod 0 c/d; chmod 500 c; ' +
      'echo x > .deps/p; ln -s / l; rm -r a; mkfifo f; ' +
      // As what the engine hides from lists.
      'mkdir .glovebox-0123456789abcdef.tmp; ' +
      'echo x > .glovebox-0123456789abcdef.tmp/f; ' +
      'echo x > .glovebox-fedcba9876543210.tmp',
    { language: 'bash' },
  );
  assert.equal(messy.exitCode, 0, messy.stderr);
  await sandbox.restore(file);
  assert.deepEqual(
    contents(sandbox).map(([name]) => name),
    ['a', 'a/b'],
  );
  const read = await sandbox.run(['cat', 'a/b']);
  assert.equal(read.stdout, 'first');
});

test('TAR-19 what cannot be moved leaves the old content as it was', async (t) => {
  if (!isRoot) return t.skip('by design: only root can mount in the way');
  const sandbox = await openWithFile(t);
  // In whatever order they come, some come before the one that stays.
  for (let i = 0; i < 40; i++) await sandbox.writeFile(`f${i}`, 'x');
  await sandbox.mkdir('mounted');
  const file = hostFile(t, archive(member({ name: 'new', body: 'new' })));
  const mounted = path.join(sandbox.workspace, 'mounted');
  execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', mounted]);
  try {
    const before = contents(sandbox);
    await assert.rejects(sandbox.restore(file), { code: 'ERR_SANDBOX_IO' });
    assert.deepEqual(contents(sandbox), before);
  } finally {
    execFileSync('umount', [mounted]);
  }
  await sandbox.restore(file);
  assert.deepEqual(
    contents(sandbox).map(([name]) => name),
    ['new'],
  );
});

test('TAR-19 a full disk leaves the old content, and nothing of the new one', async (t) => {
  if (!isRoot) return t.skip('by design: only root can mount a small disk');
  const folder = hostFile(t);
  fs.mkdirSync(folder);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', folder]);
  try {
    const sandbox = await open(t, { workspace: path.join(folder, 'ws') });
    await sandbox.writeFile('old/kept.txt', 'kept');
    const before = contents(sandbox);
    const small = member({ name: 'small', body: 'x' });
    const large = member({ name: 'large', body: Buffer.alloc(2 * 2 ** 20) });
    await assert.rejects(sandbox.restore(hostFile(t, archive(small, large))), {
      code: 'ERR_SANDBOX_IO',
      errno: 'ENOSPC',
    });
    assert.deepEqual(contents(sandbox), before);
    await sandbox.restore(hostFile(t, archive(small)));
    assert.deepEqual(
      contents(sandbox).map(([name]) => name),
      ['small'],
    );
    await sandbox.close();
  } finally {
    execFileSync('umount', [folder]);
  }
});

const restoring = `
const { Sandbox } = require(${JSON.stringify(require.resolve('../../lib/index.js'))});
const [workspace, file] = process.argv.slice(1);
(async () => {
  const sandbox = new Sandbox({ workspace });
  await sandbox.open();
  await sandbox.restore(file);
  console.log('restored');
  process.stdin.resume(); // until it is killed
})();
`;

/** Kills a host that restores `file` when it has made a folder `name` for that. */
async function killAt(name, workspace, file) {
  const child = spawn(process.execPath, ['-e', restoring, workspace, file], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = new Promise((resolve) => child.on('exit', resolve));
  const watchers = [];
  const watch = (folder, tell) => {
    try {
      watchers.push(fs.watch(folder, (_, seen) => tell(seen)));
      for (const seen of fs.readdirSync(folder)) tell(seen);
    } catch (error) {
      assert.equal(error.code, 'ENOENT'); // Its place is taken already.
    }
  };
  const begun = new Set();
  watch(workspace, (hidden) => {
    if (!/^\.glovebox-.*\.tmp$/.test(hidden) || begun.has(hidden)) return;
    begun.add(hidden);
    watch(path.join(workspace, hidden), (seen) => {
      if (seen === name) child.kill('SIGKILL');
    });
  });
  child.stdout.on('data', () => child.kill('SIGKILL')); // We were too slow.
  await ended;
  for (const watcher of watchers) watcher.close();
}

test('TAR-19 after a host that was killed in a restore the next one finds all of the old or of the new', async (t) => {
  const count = 300;
  const named = (prefix) =>
    Array.from({ length: count }, (_, i) => `${prefix}${i}`).sort();
  const file = hostFile(
    t,
    archive(...named('new').map((name) => member({ name, body: 'new' }))),
  );
  for (const name of ['new', 'old', 'gone']) {
    const workspace = hostFile(t);
    fs.mkdirSync(workspace);
    for (const name of named('old')) {
      fs.writeFileSync(path.join(workspace, name), 'old');
    }
    await killAt(name, workspace, file);
    t.diagnostic(`killed with ${fs.readdirSync(workspace).length} names there`);
    const sandbox = await open(t, { workspace });
    const found = fs.readdirSync(workspace).sort();
    assert.deepEqual(found, named(found[0].slice(0, 3)), name);
    await sandbox.close();
  }
  // The same where it can only be the one.
  const workspace = hostFile(t);
  const hidden = path.join(workspace, '.glovebox-0123456789abcdef.tmp');
  for (const name of ['new', 'gone']) {
    fs.mkdirSync(path.join(hidden, name), { recursive: true, mode: 0o700 });
    fs.writeFileSync(path.join(hidden, name, name), name);
  }
  const sandbox = await open(t, { workspace });
  assert.deepEqual(
    contents(sandbox).map(([name]) => name),
    ['new'],
  );
});

test('TAR-20 a restore is refused while a call runs and after close(), and one at a time goes on', async (t) => {
  const sandbox = await openWithFile(t);
  const file = hostFile(
    t,
    archive(member({ name: 'new', body: 'x'.repeat(100000) })),
  );
  const ended = sandbox.runCode(
    'import time; print(1, flush=True); time.sleep(60)',
    {
      timeoutS: 3 * timeScale,
      onStdout: async () => {
        seen(await sandbox.restore(file).catch((error) => error));
      },
    },
  );
  let seen;
  const error = await new Promise((resolve) => {
    seen = resolve;
  });
  assert.equal(error.code, 'ERR_SANDBOX_BUSY');
  assert.match(error.message, /a call runs/);
  await ended;
  assert.equal(await sandbox.readFile('old/kept.txt', 'utf8'), 'kept');

  const both = await Promise.allSettled([
    sandbox.restore(file),
    sandbox.restore(file),
    sandbox.run(['ls']),
  ]);
  assert.equal(
    both.filter(({ status }) => status === 'fulfilled').length >= 1,
    true,
  );
  for (const { reason } of both) {
    if (reason) assert.equal(reason.code, 'ERR_SANDBOX_BUSY');
  }

  // An idle kernel does not stand in the way, and goes on with the new files.
  const kernel = await sandbox.kernel();
  await sandbox.restore(file);
  const cell = await kernel.runCode('import os; sorted(os.listdir("."))');
  assert.equal(cell.results[0]?.text, "['new']");
  await sandbox.close();
  await assert.rejects(sandbox.restore(file), { code: 'ERR_SANDBOX_CLOSED' });
  await assert.rejects(sandbox.snapshot(file), { code: 'ERR_SANDBOX_CLOSED' });
});

test('TAR-20 close() during a restore and a snapshot ends both', async (t) => {
  const folder = hostFile(t);
  fs.mkdirSync(folder);
  const workspace = path.join(folder, 'ws');
  const sandbox = await open(t, { workspace });
  await sandbox.writeFile('kept', Buffer.alloc(30 * 2 ** 20, 'x'));
  const file = hostFile(t);
  await sandbox.snapshot(file);
  const restoring = sandbox.restore(file);
  const saving = sandbox.snapshot(path.join(folder, 'b.tgz'));
  const settled = Promise.allSettled([restoring, saving]);
  await sandbox.close();
  for (const { reason } of await settled) {
    if (reason) assert.equal(reason.code, 'ERR_SANDBOX_CLOSED', reason.stack);
  }
  assert.deepEqual(fs.readdirSync(workspace), ['kept']);
  const left = fs.readdirSync(folder).filter((name) => /tmp/.test(name));
  assert.deepEqual(left, []);
});
