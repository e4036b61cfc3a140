// SPDX-License-Identifier: Apache-2.0
'use strict';

// The root that is made of the host, without a box. Interpreters are laid out in
// a temporary folder in the ways that version managers do it.

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, before, describe, test } = require('node:test');
const { prepareHostImage } = require('../../lib/images/host.js');
const {
  findHomes,
  findNodeFolders,
  findPythonFolders,
  findStores,
  isOwn,
} = require('../../lib/images/prefixes.js');
const { addEtc } = require('../../lib/images/system.js');
const { Tree, isWithin } = require('../../lib/images/tree.js');

const isRoot = process.getuid() === 0;
const needsRoot = { skip: !isRoot && 'only root has boxes of another user' };

const systemPython = '/usr/bin/python3';
const mustRun = process.env.GLOVEBOX_MUST_RUN === '1';
const needsPython = {
  skip:
    !fs.existsSync(systemPython) && !mustRun && `there is no ${systemPython}`,
};

// Where a plain system has its programs, for tests that look beyond their own.
const systemPath = '/usr/local/bin:/usr/bin:/bin';

let folder;

before(() => {
  folder = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'gbx-host-')));
});

after(() => fs.rmSync(folder, { recursive: true, force: true }));

function place(...names) {
  const file = path.join(folder, ...names);
  fs.mkdirSync(path.dirname(file), { recursive: true });
  return file;
}

function placeText(file, text, mode = 0o644) {
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, text);
  fs.chmodSync(file, mode);
  return file;
}

function placeScript(file, ...lines) {
  return placeText(file, `${['#!/bin/sh', ...lines].join('\n')}\n`, 0o755);
}

function placeLink(file, text) {
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.symlinkSync(text, file);
  return file;
}

// Node is 100 MB: it is copied once, where it cannot be linked.
function placeNode(file) {
  fs.mkdirSync(path.dirname(file), { recursive: true });
  const copy = path.join(folder, 'node-binary');
  if (!fs.existsSync(copy)) {
    const real = fs.realpathSync(process.execPath);
    try {
      fs.linkSync(real, copy);
    } catch {
      fs.copyFileSync(real, copy, fs.constants.COPYFILE_FICLONE);
    }
  }
  fs.linkSync(copy, file);
  return file;
}

/** A Python of its own: the system's executable, and links to its library. */
function placePython(prefix) {
  const real = fs.realpathSync(systemPython);
  const name = path.basename(real);
  const executable = path.join(prefix, 'bin', name);
  fs.mkdirSync(path.dirname(executable), { recursive: true });
  fs.copyFileSync(real, executable);
  placeLink(path.join(prefix, 'bin/python3'), name);
  placeLink(path.join(prefix, 'lib', name), `/usr/lib/${name}`);
  return path.join(prefix, 'bin/python3');
}

function makeVenv(python, venv) {
  execFileSync(python, ['-m', 'venv', '--without-pip', venv]);
}

function prepare(searchPath, { runtimes, home = place('home') } = {}) {
  return prepareHostImage({ runtimes, env: { PATH: searchPath, HOME: home } });
}

function targetsBelow(image, place) {
  return image.entries
    .map(({ target }) => target)
    .filter((target) => isWithin(target, place));
}

/**
 * The host's path of `file` in a box, found by following the entries alone as
 * the kernel would; undefined if it is not there.
 */
function resolveInBox({ entries }, file) {
  const byTarget = new Map(entries.map((entry) => [entry.target, entry]));
  const rest = file.split('/').filter(Boolean);
  let inBox = '';
  let onHost; // set below a bind
  for (let hops = 0; rest.length > 0; ) {
    const name = rest.shift();
    const entry = byTarget.get(`${inBox}/${name}`);
    const hostFile =
      entry?.kind === 'bind' ? entry.source : `${onHost}/${name}`;
    const isOnHost = entry ? entry.kind === 'bind' : onHost !== undefined;
    let text = entry?.kind === 'symlink' ? entry.source : undefined;
    if (isOnHost) {
      const stat = fs.lstatSync(hostFile, { throwIfNoEntry: false });
      if (!stat) return undefined;
      if (stat.isSymbolicLink()) text = fs.readlinkSync(hostFile);
    }
    if (text === undefined) {
      inBox += `/${name}`;
      onHost = isOnHost ? hostFile : undefined;
      continue;
    }
    assert.ok(++hops < 50, `${file} is a loop`);
    const target = path.resolve(inBox || '/', text);
    rest.unshift(...target.split('/').filter(Boolean));
    inBox = '';
    onHost = undefined;
  }
  return onHost;
}

function assertRuns(image, language) {
  const { executable, error } = image.runtimes[language];
  assert.equal(error, undefined, error?.message);
  const inBox = resolveInBox(image, executable);
  assert.equal(inBox, fs.realpathSync(executable));
  return executable;
}

describe('the root', () => {
  let image;
  before(async () => {
    image = await prepareHostImage();
  });

  test('has parents before children, and each target once', () => {
    const seen = new Set();
    for (const { target } of image.entries) {
      assert.ok(path.isAbsolute(target) && path.normalize(target) === target);
      assert.ok(!seen.has(target), `${target} comes twice`);
      for (const other of seen) {
        assert.ok(!isWithin(other, target), `${target} comes after ${other}`);
      }
      seen.add(target);
    }
  });

  test('binds real paths that exist', () => {
    for (const { kind, source } of image.entries) {
      if (kind === 'bind') assert.equal(fs.realpathSync(source), source);
    }
  });

  test('shows no folder of the host that holds more than software', () => {
    const homes = findHomes();
    const forbidden = [...homes, '/', '/etc', '/home', '/root', '/var', '/tmp'];
    for (const { kind, source, target } of image.entries) {
      if (kind !== 'bind') continue;
      for (const place of forbidden) {
        assert.ok(!isWithin(place, source), `${target} shows ${place}`);
      }
    }
  });

  test('has the programs and libraries of the host', () => {
    for (const file of ['/bin/sh', '/usr/bin/env', '/lib', '/sbin']) {
      assert.equal(resolveInBox(image, file), fs.realpathSync(file));
    }
    const top = image.entries.find(({ target }) => target === '/lib');
    if (fs.lstatSync('/lib').isSymbolicLink()) {
      assert.deepEqual(top, {
        kind: 'symlink',
        target: '/lib',
        source: fs.readlinkSync('/lib'),
      });
    }
  });

  test('has the drivers', () => {
    assert.equal(
      resolveInBox(image, '/run/glovebox/runtimes/node/driver.cjs'),
      fs.realpathSync(
        path.join(__dirname, '../../lib/runtimes/node/driver.cjs'),
      ),
    );
  });

  test('has an /etc of its own, and of the host only what is listed', () => {
    const allowed =
      /^(ld\.so\.(cache|conf|conf\.d)|alternatives|ssl\/(certs|cert\.pem|openssl\.cnf)|ca-certificates(\.conf)?|localtime|mime\.types|fonts|matplotlibrc|python3[\d.]*|java-.*)$/;
    const own = [];
    for (const { kind, target } of image.entries) {
      if (!isWithin(target, '/etc')) continue;
      const name = target.slice('/etc/'.length);
      if (kind === 'file') own.push(name);
      else assert.match(name, allowed);
    }
    assert.deepEqual(own.sort(), [
      'group',
      'hostname',
      'hosts',
      'nsswitch.conf',
      'passwd',
    ]);
  });

  test('knows the user, its groups, and localhost by both addresses', () => {
    const text = (target) =>
      image.entries.find((entry) => entry.target === target).data.toString();
    assert.match(
      text('/etc/passwd'),
      /^user:x:1000:1000:[^:]*:\/home\/user:\/bin\/bash$/m,
    );
    assert.match(text('/etc/passwd'), /^root:x:0:0:/m);
    assert.match(text('/etc/passwd'), /^nobody:x:65534:65534:/m);
    assert.match(text('/etc/group'), /^user:x:1000:$/m);
    assert.match(text('/etc/hosts'), /^127\.0\.0\.1 localhost$/m);
    assert.match(text('/etc/hosts'), /^::1 localhost /m);
    assert.match(text('/etc/hosts'), /^127\.0\.0\.1 glovebox$/m);
    assert.equal(text('/etc/hostname'), 'glovebox\n');
    assert.match(text('/etc/nsswitch.conf'), /^hosts: files dns$/m);
  });

  test('never shows private keys or password hashes', () => {
    for (const file of ['/etc/shadow', '/etc/ssl/private', '/etc/ssh']) {
      assert.equal(resolveInBox(image, file), undefined);
    }
  });
});

describe('/etc of the host', () => {
  const laidOut = {
    shadow: 'secret',
    hosts: '10.0.0.1 intranet',
    'ssl/private/key.pem': 'secret',
    'ssl/certs/ca.pem': 'certificate',
    'python3.12/sitecustomize.py': '',
    'java-21-openjdk/security/java.security': '',
    'mime.types': 'text/plain txt',
  };
  let tree;

  before(() => {
    const etc = place('etc');
    for (const [name, text] of Object.entries(laidOut)) {
      placeText(path.join(etc, name), text);
    }
    placeLink(path.join(etc, 'localtime'), '/usr/share/zoneinfo/Etc/UTC');
    placeLink(path.join(etc, 'matplotlibrc'), 'mime.types');
    placeLink(path.join(etc, 'ld.so.conf'), 'nowhere');
    tree = new Tree();
    addEtc(tree, etc);
  });

  const find = (target) => tree.entries.find((e) => e.target === target);

  test('is shown file by file', () => {
    assert.equal(find('/etc/ssl/certs').source, place('etc/ssl/certs'));
    assert.equal(find('/etc/python3.12').kind, 'bind');
    assert.equal(find('/etc/java-21-openjdk').kind, 'bind');
    assert.equal(find('/etc/hosts').kind, 'file');
    for (const target of ['/etc', '/etc/shadow', '/etc/ssl']) {
      assert.equal(find(target), undefined);
    }
  });

  test('keeps symlinks into /usr and follows others', {
    skip:
      !fs.existsSync('/usr/share/zoneinfo/Etc/UTC') &&
      !mustRun &&
      'there is no time zone database',
  }, () => {
    assert.deepEqual(find('/etc/localtime'), {
      kind: 'symlink',
      target: '/etc/localtime',
      source: '/usr/share/zoneinfo/Etc/UTC',
    });
    assert.deepEqual(find('/etc/matplotlibrc'), {
      kind: 'bind',
      target: '/etc/matplotlibrc',
      source: place('etc/mime.types'),
    });
  });

  test('is passed over where a symlink leads nowhere', () =>
    assert.equal(find('/etc/ld.so.conf'), undefined));
});

describe('an interpreter', () => {
  test('in /usr needs nothing more', needsPython, async () => {
    const image = await prepare('/usr/bin', {
      runtimes: { python: systemPython },
    });
    assert.equal(assertRuns(image, 'python'), systemPython);
    assert.deepEqual(image.path, []);
    assert.deepEqual(
      image.entries.filter(
        ({ kind, target }) =>
          kind === 'bind' && !/^\/(usr|etc|run|nix|s?bin|lib)/.test(target),
      ),
      [],
    );
  });

  test(
    'behind a shim of pyenv is found with its prefix',
    needsPython,
    async () => {
      const root = place('pyenv');
      const real = placePython(path.join(root, 'versions/3.99.1'));
      // Needs the variables that a shim needs, and prints what shims print.
      placeScript(
        path.join(root, 'shims/python3'),
        'echo "switching to 3.99.1"',
        '[ -z "$SECRET" ] || exit 1',
        '[ -z "$PYTHONHOME" ] || exit 1',
        'exec "$PYENV_ROOT/versions/3.99.1/bin/python3" "$@"',
      );
      const image = await prepareHostImage({
        env: {
          PATH: `${root}/shims:${systemPath}`,
          PYENV_ROOT: root,
          SECRET: 's3',
          PYTHONHOME: '/nope',
        },
      });
      assert.equal(assertRuns(image, 'python'), real);
      assert.deepEqual(targetsBelow(image, folder), [
        `${root}/versions/3.99.1`,
      ]);
      assert.deepEqual(image.path, [`${root}/versions/3.99.1/bin`]);
    },
  );

  test('of conda is found with its prefix', needsPython, async () => {
    const prefix = place('miniconda3');
    const python = placePython(prefix);
    placeText(path.join(prefix, 'conda-meta/history'), '');
    const image = await prepare(`${prefix}/bin:${systemPath}`);
    assert.equal(assertRuns(image, 'python'), python);
    assert.deepEqual(targetsBelow(image, folder), [prefix]);
    assert.deepEqual(image.path, [`${prefix}/bin`]);
  });

  test('of a venv is found with the Python below it', needsPython, async () => {
    const base = place('opt/python');
    placePython(base);
    // As `uv` does it: the venv names the Python by another path.
    placeLink(place('opt/python-3'), base);
    const venv = place('work/.venv');
    makeVenv(place('opt/python-3/bin/python3'), venv);
    const image = await prepare(`${venv}/bin:${systemPath}`);
    assert.equal(assertRuns(image, 'python'), `${venv}/bin/python3`);
    const home = /^home = (.*)$/m.exec(
      fs.readFileSync(path.join(venv, 'pyvenv.cfg'), 'utf8'),
    )[1];
    for (const file of [`${venv}/pyvenv.cfg`, `${home}/python3`]) {
      assert.equal(resolveInBox(image, file), fs.realpathSync(file));
    }
    assert.deepEqual(image.path, [`${venv}/bin`]);
  });

  test('of a venv of the system needs the venv only', needsPython, async () => {
    const venv = place('venv');
    makeVenv(systemPython, venv);
    const image = await prepare(`${venv}/bin:${systemPath}`);
    assert.equal(assertRuns(image, 'python'), `${venv}/bin/python3`);
    assert.deepEqual(targetsBelow(image, folder), [venv]);
  });

  test(
    'of a venv in a project shows nothing of the project',
    needsPython,
    async () => {
      const project = place('project');
      makeVenv(systemPython, project);
      placeText(path.join(project, '.env'), 'SECRET=s3');
      placeText(path.join(project, 'src/app.py'), '');
      const image = await prepare(`${project}/bin:${systemPath}`);
      assertRuns(image, 'python');
      for (const name of ['.env', 'src/app.py']) {
        assert.equal(resolveInBox(image, `${project}/${name}`), undefined);
      }
      assert.ok(resolveInBox(image, `${project}/pyvenv.cfg`));
      assert.ok(resolveInBox(image, `${project}/lib`));
    },
  );

  test('of nvm is found with its prefix', async () => {
    const prefix = place('home/.nvm/versions/node/v99.0.0');
    const node = placeNode(path.join(prefix, 'bin/node'));
    placeText(path.join(prefix, 'lib/node_modules/npm/package.json'), '{}');
    const image = await prepare(`${prefix}/bin:${systemPath}`);
    assert.equal(assertRuns(image, 'node'), node);
    assert.deepEqual(targetsBelow(image, folder), [prefix]);
    assert.equal(image.path[0], `${prefix}/bin`);
  });

  test('behind a shim of volta is asked where it lies', async () => {
    const root = place('volta');
    const node = placeNode(path.join(root, 'tools/image/node/99.0.0/bin/node'));
    placeScript(path.join(root, 'bin/volta-shim'), `exec "${node}" "$@"`);
    placeLink(path.join(root, 'bin/node'), 'volta-shim');
    const image = await prepare(`${root}/bin:${systemPath}`);
    assert.equal(assertRuns(image, 'node'), node);
  });

  test('in $HOME shows nothing else of it', async () => {
    const home = place('house');
    const node = placeNode(path.join(home, 'bin/node'));
    placeText(path.join(home, '.ssh/id_rsa'), 'secret');
    placeText(path.join(home, 'lib/node_modules/npm/package.json'), '{}');
    const image = await prepare(`${home}/bin:${systemPath}`, { home });
    assert.equal(assertRuns(image, 'node'), node);
    assert.deepEqual(targetsBelow(image, folder), [node]);
    assert.deepEqual(image.path, [`${home}/bin`]);
  });

  test(
    'with $HOME as its prefix shows its library only',
    needsPython,
    async () => {
      const home = place('prefix-home');
      const python = placePython(home);
      placeText(path.join(home, 'lib/libpython3.99.so.1.0'), '');
      placeText(path.join(home, 'lib/secret'), '');
      const image = await prepare(`${home}/bin:${systemPath}`, { home });
      assert.equal(assertRuns(image, 'python'), python);
      for (const name of ['lib', 'lib/secret', 'bin']) {
        assert.ok(!targetsBelow(image, folder).includes(path.join(home, name)));
      }
      const library = path.basename(fs.realpathSync(systemPython));
      assert.equal(
        resolveInBox(image, `${home}/lib/${library}/os.py`),
        fs.realpathSync(`/usr/lib/${library}/os.py`),
      );
      assert.ok(resolveInBox(image, `${home}/lib/libpython3.99.so.1.0`));
    },
  );

  test('behind symlinks outside of its prefix is reached', async () => {
    const prefix = place('far/node-99');
    const node = placeNode(path.join(prefix, 'bin/node'));
    placeText(path.join(prefix, 'include/node/node_version.h'), '');
    placeLink(place('near/current'), '../far/node-99');
    placeLink(place('near/bin/node'), '../current/bin/node');
    const image = await prepare(`${place('near/bin')}:${systemPath}`);
    assert.equal(assertRuns(image, 'node'), node);
  });

  test('is looked for where PATH has holes', async () => {
    const home = place('locked');
    placeNode(path.join(home, 'bin/node'));
    fs.chmodSync(home, 0);
    try {
      const searchPath = `/nonexistent:${home}/bin::.:relative:${folder}/node-binary:${systemPath}`;
      const image = await prepare(searchPath, { home });
      assertRuns(image, 'bash');
      assert.ok(!image.path.includes('.'));
      assert.ok(!targetsBelow(image, folder).includes(home));
      // Root enters every folder.
      if (!isRoot) assert.deepEqual(targetsBelow(image, folder), []);
    } finally {
      fs.chmodSync(home, 0o755);
    }
  });

  test('is found without HOME', async () => {
    const image = await prepareHostImage({ env: { PATH: systemPath } });
    assertRuns(image, 'bash');
  });

  test('that does not work is passed over', needsPython, async () => {
    const shims = place('broken');
    placeScript(
      path.join(shims, 'python3'),
      'echo "pyenv: python3: command not found" >&2',
      'exit 127',
    );
    const image = await prepare(`${shims}:${systemPath}`);
    assert.ok(!isWithin(assertRuns(image, 'python'), folder));
    const alone = await prepare(shims);
    assert.equal(
      alone.runtimes.python.error.code,
      'ERR_SANDBOX_RUNTIME_MISSING',
    );
    assert.match(
      alone.runtimes.python.error.message,
      /tried .*\/broken\/python3: pyenv: python3: command not found/,
    );
  });

  test('of Python 2 is no Python', async () => {
    const bin = place('python2');
    placeScript(
      path.join(bin, 'python'),
      'echo "Unknown option: -I" >&2',
      'exit 2',
    );
    const { runtimes } = await prepare(bin);
    assert.match(runtimes.python.error.message, /Unknown option: -I/);
  });

  test(
    'of Python before 3.8 is passed over, and said to be why',
    needsPython,
    async () => {
      for (const version of [
        [3, 7, 16],
        [2, 7, 18],
      ]) {
        const bin = place(`python-${version.join('.')}`);
        const answer = JSON.stringify({ executable: bin, version });
        placeScript(path.join(bin, 'python3'), `echo '${answer}'`);
        const alone = await prepare(bin);
        assert.match(
          alone.runtimes.python.error.message,
          new RegExp(
            `it is Python ${version[0]}.${version[1]}; 3.8 is the oldest`,
          ),
        );
        const image = await prepare(`${bin}:${systemPath}`);
        assert.ok(!isWithin(assertRuns(image, 'python'), folder));
      }
      const named = path.join(place('python-named'), 'python3.6');
      placeScript(named, 'exit 1');
      const { runtimes } = await prepare('', { runtimes: { python: named } });
      assert.match(runtimes.python.error.message, /it is Python 3\.6; 3\.8 is/);
    },
  );

  test('that is missing is said to be, with the way to get it', async () => {
    const empty = place('empty/bin');
    const { runtimes, path: folders } = await prepare(empty);
    for (const [language, names, debian] of [
      ['python', 'python3, python', 'python3'],
      ['node', 'node, nodejs', 'nodejs'],
      ['bash', 'bash', 'bash'],
    ]) {
      const { code, message } = runtimes[language].error;
      assert.equal(code, 'ERR_SANDBOX_RUNTIME_MISSING');
      for (const part of [
        `No interpreter for ${language}`,
        `Looked for ${names} on PATH (${empty})`,
        `apt-get install ${debian}`,
        `runtimes: { ${language}: '/path/to/`,
      ]) {
        assert.ok(message.includes(part), `${message} lacks ${part}`);
      }
    }
    assert.deepEqual(folders, []);
  });

  test('that the runtimes option names comes before PATH', async () => {
    const node = placeNode(place('chosen/node'));
    const image = await prepare(systemPath, { runtimes: { node } });
    assert.equal(assertRuns(image, 'node'), node);
    assert.deepEqual(targetsBelow(image, folder), [node]);
    const byName = await prepare(place('chosen'), {
      runtimes: { node: 'node' },
    });
    assert.equal(assertRuns(byName, 'node'), node);
  });

  test('that the runtimes option names wrongly is no other one', async () => {
    const file = placeText(place('not-executable'), '#!/bin/sh\n');
    for (const wanted of ['/nonexistent/python3', file, folder, 'a/b']) {
      const { runtimes } = await prepare(systemPath, {
        runtimes: { python: wanted },
      });
      assert.match(runtimes.python.error.message, /no executable file/);
      assert.ok(runtimes.python.error.message.includes(wanted));
    }
    const { runtimes } = await prepare(systemPath, {
      runtimes: { python: 'python9' },
    });
    assert.match(runtimes.python.error.message, /Looked for python9 on PATH/);
  });

  test(
    "that only root may read is refused for root's boxes",
    needsRoot,
    async () => {
      const prefix = place('closed');
      const node = placeNode(path.join(prefix, 'bin/node'));
      placeText(path.join(prefix, 'lib/node_modules/npm/package.json'), '{}');
      fs.chmodSync(path.join(prefix, 'bin'), 0o700);
      const { runtimes } = await prepare(systemPath, { runtimes: { node } });
      assert.match(
        runtimes.node.error.message,
        /closed\/bin has the mode 0700/,
      );
    },
  );

  test('in a workspace is refused', () => {
    const tree = new Tree();
    assert.equal(tree.reach('/workspace/venv/bin/python3'), false);
    assert.equal(tree.reach('/proc/self/exe'), false);
  });
});

test('drivers that only root may read are an error', needsRoot, async () => {
  const copy = place('package/lib');
  fs.cpSync(path.join(__dirname, '../../lib'), copy, { recursive: true });
  fs.chmodSync(path.join(copy, 'runtimes/node/driver.cjs'), 0o600);
  const { prepareHostImage: prepareCopy } = require(`${copy}/images/host.js`);
  await assert.rejects(prepareCopy(), (error) => {
    assert.equal(error.code, 'ERR_SANDBOX_SETUP');
    assert.match(error.message, /driver\.cjs has the mode 0600/);
    assert.match(error.message, /chmod -R o\+rX/);
    return true;
  });
});

test('a home folder, what holds it and what many things share are not own', () => {
  const homes = ['/home/ann', '/data/people/bob'];
  for (const shared of [
    ...['/', '/home', '/etc', '/root', '/var', '/proc', '/sys', '/dev', '/tmp'],
    ...['/opt', '/usr', '/home/ann', '/home/other', '/data/people', '/data'],
    ...['/data/people/bob', '/home/ann/.local', '/home/ann/.local/share'],
  ]) {
    assert.equal(isOwn(shared, homes), false, shared);
  }
  for (const own of [
    ...['/opt/python', '/venv', '/home/ann/.pyenv/versions/3.12.1'],
    ...['/home/ann/miniconda3', '/home/linuxbrew/.linuxbrew', '/root/venv'],
    ...['/home/ann/.local/share/uv/python/cpython-3.12', '/tmp/venv'],
  ]) {
    assert.equal(isOwn(own, homes), true, own);
  }
});

test('a symlink to a home folder is not own', () => {
  const home = place('real-home');
  fs.mkdirSync(home);
  const link = placeLink(place('link-home'), home);
  assert.equal(isOwn(link, [home]), false);
});

test('stores are shown as a whole', () => {
  assert.deepEqual(findStores('/nix/store/abc-nodejs-20/bin/node'), [
    '/nix/store',
  ]);
  assert.deepEqual(
    findStores('/home/linuxbrew/.linuxbrew/Cellar/node/22/bin/node'),
    ['/home/linuxbrew/.linuxbrew'],
  );
  assert.deepEqual(findStores('/usr/bin/node'), []);
});

test('a folder named bin does not make what holds it a Node prefix', () => {
  const node = placeText(place('app/bin/node'), '');
  placeText(place('app/.env'), 'SECRET=s3');
  assert.deepEqual(findNodeFolders(node, []), []);
});

test('folders that Python names and that do not exist are left out', () => {
  const prefix = place('gone');
  assert.deepEqual(
    findPythonFolders(
      {
        executable: `${prefix}/bin/python3`,
        prefixes: [prefix, prefix],
        basePrefixes: [prefix],
        libraries: [null, `${prefix}/lib`].filter(Boolean),
      },
      [],
    ),
    [],
  );
});

describe('Tree', () => {
  test('says where a path ends', () => {
    const tree = new Tree();
    tree.bind('/usr');
    tree.symlink('/bin', 'usr/bin');
    tree.file('/etc/hosts', '');
    assert.equal(tree.findMissing('/bin/sh'), undefined);
    assert.equal(tree.findMissing('/etc/hosts'), undefined);
    assert.deepEqual(tree.findMissing('/etc'), { missing: '/etc', rest: [] });
    assert.equal(tree.findMissing('/usr/bin/../lib'), undefined);
    assert.deepEqual(tree.findMissing('/opt/x/y'), {
      missing: '/opt',
      rest: ['x', 'y'],
    });
    assert.deepEqual(tree.findMissing('/bin/no-such-file/x'), {
      missing: '/usr/bin/no-such-file',
      rest: ['x'],
    });
  });

  test('adds each hop of a chain of symlinks', () => {
    const real = placeText(place('chain/c/real'), '');
    placeLink(place('chain/a/first'), '../b/second');
    placeLink(place('chain/b/second'), real);
    const tree = new Tree();
    tree.bind(place('chain/a'));
    assert.equal(tree.reach(place('chain/a/first')), true);
    assert.deepEqual(tree.entries, [
      { kind: 'bind', target: place('chain/a'), source: place('chain/a') },
      { kind: 'symlink', target: place('chain/b/second'), source: real },
      { kind: 'bind', target: real, source: real },
    ]);
  });

  test('gives up on loops and on what the host lacks', () => {
    placeLink(place('loop/a'), 'b');
    placeLink(place('loop/b'), 'a');
    const tree = new Tree();
    assert.equal(tree.reach(place('loop/a')), false);
    assert.equal(tree.reach(place('loop/none')), false);
    tree.bind(place('loop'));
    assert.equal(tree.reach(place('loop/a')), false);
    assert.equal(tree.entries.length, 1);
  });

  test('drops what a folder that is bound later brings', () => {
    const file = placeText(place('later/bin/tool'), '');
    const link = placeLink(place('later/bin/link'), 'tool');
    const tree = new Tree();
    assert.equal(tree.reach(link), true);
    assert.equal(tree.entries.length, 2);
    assert.equal(tree.reach(place('later')), true);
    assert.deepEqual(
      tree.entries.map(({ target }) => target),
      [place('later')],
    );
    assert.equal(tree.findMissing(file), undefined);
  });

  test('adds nothing for what is there', () => {
    const tree = new Tree();
    tree.bind('/usr');
    assert.equal(tree.reach('/usr/bin/env'), true);
    assert.equal(tree.entries.length, 1);
  });
});
