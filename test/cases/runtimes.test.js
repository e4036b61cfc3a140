// SPDX-License-Identifier: Apache-2.0
'use strict';

// Which interpreter runs the code: the first on PATH, or the one that the
// `runtimes` option names, wherever it is installed. Installations of version
// managers are laid out here, of copies of what the host has.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, before } = require('node:test');
const {
  descendants,
  eventually,
  glovebox,
  open,
  outside,
  packagedPython,
  skip,
  test,
} = require('../helpers/harness.js');
const { askScript } = require('../helpers/host-script.js');

const { runCode } = glovebox;

const systemPath = '/usr/local/bin:/usr/bin:/bin';

let folder;

before(() => {
  folder = fs.realpathSync(
    fs.mkdtempSync(path.join(os.tmpdir(), 'cases-runtimes-')),
  );
  // As the folders are in which people install interpreters.
  fs.chmodSync(folder, 0o755);
});

after(() => fs.rmSync(folder, { recursive: true, force: true }));

// ---- Laying out ------------------------------------------------------------

function write(file, text, mode = 0o644) {
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, text);
  fs.chmodSync(file, mode);
  return file;
}

function copyProgram(source, target) {
  fs.mkdirSync(path.dirname(target), { recursive: true });
  fs.copyFileSync(source, target, fs.constants.COPYFILE_FICLONE);
  fs.chmodSync(target, 0o755);
  return target;
}

/** Node in a prefix of its own, with npm's folder: `<prefix>/bin/node`. */
function layOutNode(prefix) {
  write(path.join(prefix, 'lib/node_modules/npm/package.json'), '{}');
  return copyProgram(process.execPath, path.join(prefix, 'bin/node'));
}

/** Python in a prefix of its own, which has the host's standard library. */
function layOutPython(prefix) {
  const real = fs.realpathSync(packagedPython);
  const name = path.basename(real);
  copyProgram(real, path.join(prefix, 'bin', name));
  fs.symlinkSync(name, path.join(prefix, 'bin/python3'));
  fs.mkdirSync(path.join(prefix, 'lib'));
  fs.symlinkSync(`/usr/lib/${name}`, path.join(prefix, 'lib', name));
  return path.join(prefix, 'bin/python3');
}

function hasPython(t) {
  if (packagedPython) return true;
  skip(t, 'there is no /usr/bin/python3');
  return false;
}

// Every interpreter makes another root, for which a process keeps ready boxes
// as long as it lives: so most sessions here are in processes of their own.
function ask(t, { env, ...request }) {
  const args = [JSON.stringify(request)];
  return askScript(t, 'runtimes.js', { args, env });
}

/** Bash that says of each file whether it is there. */
function lookFor(...files) {
  return files
    .map((file) => `[ -e '${file}' ] && echo seen || echo no`)
    .join('\n');
}

// ---- The option ------------------------------------------------------------

test('runtimes names the interpreter of each language, for one session', async (t) => {
  if (!hasPython(t)) return;
  const bash = copyProgram('/bin/bash', path.join(folder, 'own/bin/bash'));
  const node = layOutNode(path.join(folder, 'own-node'));
  const [named, found] = await Promise.all([
    open(t, { runtimes: { python: packagedPython, bash, node } }),
    open(t),
  ]);
  const run = async (sandbox, code, language) =>
    (await sandbox.runCode(code, { language })).stdout.trim();
  const where = {
    python: 'import sys; print(sys.executable)',
    bash: 'echo "$BASH"',
    node: 'console.log(process.execPath)',
  };
  const expected = { python: packagedPython, bash, node };
  for (const [language, code] of Object.entries(where)) {
    assert.equal(await run(named, code, language), expected[language]);
  }
  assert.notEqual(await run(found, where.bash, 'bash'), bash);
  assert.notEqual(await run(found, where.node, 'node'), node);
  const kernel = await named.kernel();
  const cell = await kernel.runCode(where.python);
  assert.equal(cell.stdout.trim(), packagedPython);
});

test('an interpreter that is installed later is found by the next Sandbox', async (t) => {
  if (!hasPython(t)) return;
  const python = path.join(folder, 'late', 'bin', 'python3');
  const sandbox = await open(t, { runtimes: { python } });
  const missing = { code: 'ERR_SANDBOX_RUNTIME_MISSING' };
  await assert.rejects(sandbox.runCode('1'), missing);
  layOutPython(path.join(folder, 'late'));
  const result = await runCode('6 * 7', { runtimes: { python } });
  assert.equal(result.text, '42');
  // What an open one has stays as it is.
  await assert.rejects(sandbox.runCode('1'), missing);
});

test('a missing interpreter is an error that says which and how to get it', async (t) => {
  const empty = path.join(folder, 'empty');
  fs.mkdirSync(empty);
  const answer = await ask(t, { env: { PATH: empty } });
  const packages = { python: 'python3', node: 'nodejs', bash: 'bash' };
  for (const [language, name] of Object.entries(packages)) {
    const { code, message } = answer[language];
    assert.equal(code, 'ERR_SANDBOX_RUNTIME_MISSING');
    for (const part of [
      `No interpreter for ${language} was found`,
      empty,
      `apt-get install ${name}`,
      `runtimes: { ${language}: `,
    ]) {
      assert.ok(message.includes(part), message);
    }
  }
  // Other programs need no interpreter.
  assert.equal(answer.command.stdout, 'runs\n');
});

test('a named interpreter that is none is an error that names it, and hurts no other', async (t) => {
  const text = write(path.join(folder, 'text/python3'), 'no program', 0o755);
  const fails = write(
    path.join(folder, 'fails/python3'),
    '#!/bin/sh\necho "version 3.9 is not installed" >&2\nexit 127\n',
    0o755,
  );
  const plain = write(path.join(folder, 'plain/python3'), '#!/bin/sh\n');
  const expectations = [
    [path.join(folder, 'none/python3'), 'which is no executable file'],
    [plain, 'which is no executable file'],
    [folder, 'which is no executable file'],
    [text, 'tried'],
    [fails, 'version 3.9 is not installed'],
  ];
  for (const [python, words] of expectations) {
    const sandbox = await open(t, { runtimes: { python } });
    for (const call of [() => sandbox.runCode('1'), () => sandbox.kernel()]) {
      await assert.rejects(call, (error) => {
        assert.equal(error.code, 'ERR_SANDBOX_RUNTIME_MISSING');
        assert.ok(error.message.includes(python), error.message);
        assert.ok(error.message.includes(words), error.message);
        return true;
      });
    }
    const other = await sandbox.runCode('echo ok', { language: 'bash' });
    assert.equal(other.stdout, 'ok\n');
  }
});

// ---- Version managers ------------------------------------------------------

test("Node of nvm runs with its prefix, and nothing else of nvm's folder is there", async (t) => {
  const nvm = path.join(folder, 'home/.nvm');
  const prefix = path.join(nvm, 'versions/node/v20.1.2');
  const node = layOutNode(prefix);
  const secret = write(path.join(nvm, 'secret'), 's3');
  const aside = write(path.join(nvm, 'versions/node/v18.0.0/README'), 'x');
  write(
    path.join(prefix, 'bin/tool'),
    '#!/usr/bin/env node\nconsole.log(process.execPath, require("fs").existsSync(__filename))\n',
    0o755,
  );
  const npm = path.join(prefix, 'lib/node_modules/npm/package.json');
  const answer = await ask(t, {
    options: { runtimes: { node } },
    node: 'console.log(process.execPath, process.version)',
    // It is the first on the PATH of the box, with the commands beside it.
    bash: `command -v node; tool; ${lookFor(secret, aside, npm)}; echo x > ${prefix}/bin/x`,
  });
  assert.equal(answer.node.stdout, `${node} ${process.version}\n`);
  assert.equal(answer.bash.stdout, `${node}\n${node} true\nno\nno\nseen\n`);
  assert.match(answer.bash.stderr, /bin\/x: Read-only file system\n$/);
});

test('Python behind a shim of pyenv runs from its own prefix', async (t) => {
  if (!hasPython(t)) return;
  const root = path.join(folder, 'pyenv');
  const prefix = path.join(root, 'versions/3.99.1');
  const python = layOutPython(prefix);
  const shim = write(
    path.join(root, 'shims/python3'),
    `#!/bin/sh\nexec "$PYENV_ROOT/versions/3.99.1/bin/python3" "$@"\n`,
    0o755,
  );
  const secret = write(path.join(root, 'secret'), 's3');
  const answer = await ask(t, {
    bash: lookFor(shim, secret, python),
    env: { PATH: `${root}/shims:${systemPath}`, PYENV_ROOT: root },
  });
  assert.equal(answer.python.stdout, `${python}\n${prefix}\n`);
  assert.equal(answer.bash.stdout, 'no\nno\nseen\n');
});

test('an environment of conda gives both its interpreters', async (t) => {
  if (!hasPython(t)) return;
  const conda = path.join(folder, 'miniconda3');
  const prefix = path.join(conda, 'envs/work');
  const python = layOutPython(prefix);
  const node = layOutNode(prefix);
  write(path.join(prefix, 'conda-meta/history'), '');
  const secret = write(path.join(conda, 'pkgs/secret'), 's3');
  const answer = await ask(t, {
    bash: lookFor(secret),
    env: {
      PATH: `${prefix}/bin:${systemPath}`,
      CONDA_PREFIX: prefix,
      CONDA_DEFAULT_ENV: 'work',
    },
  });
  assert.equal(answer.python.stdout, `${python}\n${prefix}\n`);
  assert.equal(answer.node.stdout, `${node}\n`);
  assert.equal(answer.bash.stdout, 'no\n');
});

test('Python of a venv has its packages, also in its child processes', async (t) => {
  if (!hasPython(t)) return;
  // In the folder of a project, as people have it.
  const project = path.join(folder, 'project');
  const venv = path.join(project, '.venv');
  const made = outside([packagedPython, '-m', 'venv', '--without-pip', venv]);
  assert.equal(made.exitCode, 0, made.stdout + made.stderr);
  const [version] = fs.readdirSync(path.join(venv, 'lib'));
  const packages = path.join(venv, 'lib', version, 'site-packages');
  write(path.join(packages, 'only_here.py'), 'value = 41');
  const secret = write(path.join(project, '.env'), 'TOKEN=s3');

  const python = path.join(venv, 'bin/python');
  const answer = await ask(t, {
    options: { runtimes: { python } },
    python: `import os, subprocess, sys
import multiprocessing as mp
import only_here
def value(_): return only_here.value
if __name__ == '__main__':
    print(sys.prefix, sys.executable, os.path.exists('${secret}'))
    child = [sys.executable, '-c', 'import only_here; print(only_here.value + 1)']
    print(subprocess.run(child, capture_output=True, text=True).stdout.strip())
    with mp.get_context('spawn').Pool(1) as pool: print(pool.map(value, [0]))`,
  });
  assert.equal(answer.python.stderr, '');
  assert.equal(answer.python.stdout, `${venv} ${python} False\n42\n[41]\n`);
});

test('a venv made right in a project does not show the project', async (t) => {
  if (!hasPython(t)) return;
  const project = path.join(folder, 'venv-project');
  const made = outside([
    packagedPython,
    '-m',
    'venv',
    '--without-pip',
    project,
  ]);
  assert.equal(made.exitCode, 0, made.stdout + made.stderr);
  const secret = write(path.join(project, 'secret.txt'), 's3');
  const python = path.join(project, 'bin/python');
  const answer = await ask(t, {
    options: { runtimes: { python } },
    python: `import os, sys; print(sys.prefix, os.path.exists('${secret}'))`,
  });
  assert.equal(answer.python.stdout, `${project} False\n`);
});

// ---- PATH ------------------------------------------------------------------

test('the first interpreter on PATH that works wins', async (t) => {
  if (!hasPython(t)) return;
  const first = layOutPython(path.join(folder, 'first'));
  layOutPython(path.join(folder, 'second'));
  const broken = path.join(folder, 'broken');
  write(`${broken}/python3`, '#!/bin/sh\nexit 1\n', 0o755);
  write(`${broken}/node`, '#!/no/such/interpreter\n', 0o755);
  const found = [
    'relative/bin',
    '',
    broken,
    path.join(folder, 'no-such-folder'),
    path.dirname(first),
    path.join(folder, 'second/bin'),
    path.dirname(process.execPath),
    systemPath,
  ].join(':');
  const answer = await ask(t, { env: { PATH: found } });
  assert.equal(answer.python.stdout.split('\n')[0], first);
  assert.equal(answer.node.stdout, `${fs.realpathSync(process.execPath)}\n`);
  assert.match(answer.bash.stdout, /\/bash\n$/);
});

// ---- Homes -----------------------------------------------------------------

test('interpreters in a home that is closed to others run, and the home is not shown', async (t) => {
  if (!hasPython(t)) return;
  const home = path.join(folder, 'private-home');
  const node = layOutNode(path.join(home, '.nvm/versions/node/v20.1.2'));
  const python = layOutPython(path.join(home, '.pyenv/versions/3.99.1'));
  const secret = write(path.join(home, '.ssh/id'), 's3');
  fs.chmodSync(home, 0o700);
  const answer = await ask(t, {
    bash: `${lookFor(secret)}\nls -A '${home}'`,
    env: {
      HOME: home,
      PATH: `${path.dirname(node)}:${path.dirname(python)}:${systemPath}`,
    },
  });
  assert.equal(answer.node.stdout, `${node}\n`);
  assert.equal(answer.python.stdout.split('\n')[0], python);
  assert.equal(answer.bash.stdout, 'no\n.nvm\n.pyenv\n');
});

for (const [what, environment] of Object.entries({
  'a $HOME that nobody may read': () => {
    const home = path.join(folder, 'closed-home');
    fs.mkdirSync(home, { mode: 0 });
    return { HOME: home };
  },
  'a $HOME that does not exist': () => ({ HOME: path.join(folder, 'gone') }),
  'no $HOME at all': () => ({ HOME: undefined }),
})) {
  test(`all languages run for a user with ${what}`, async (t) => {
    if (!hasPython(t)) return;
    const answer = await ask(t, {
      env: {
        ...environment(),
        PATH: `${path.dirname(process.execPath)}:${systemPath}`,
      },
    });
    assert.match(answer.python.stdout, /^\/usr\S*\/python3\S*\n\/usr\n$/);
    assert.equal(answer.node.stdout, `${fs.realpathSync(process.execPath)}\n`);
    assert.match(answer.bash.stdout, /bash\n$/);
    assert.equal(answer.command.stdout, 'runs\n');
  });
}

test("the host's folder may be gone or closed: boxes start all the same", async (t) => {
  const gone = path.join(folder, 'gone-cwd');
  fs.mkdirSync(gone);
  const answer = await askScript(t, 'gone-folder.js', { cwd: gone });
  assert.deepEqual(answer, { stdout: '/workspace\n', exists: false });
});

test('the module says its version', () => {
  const { version } = require('../../package.json');
  assert.equal(glovebox.version, version);
  assert.equal(glovebox.isSupported(), true);
});

test('interpreters that no sandbox uses any more keep no ready boxes', async () => {
  for (let i = 0; i < 8; i++) {
    const bash = copyProgram('/bin/bash', path.join(folder, `${i}/bash`));
    const options = { language: 'bash', runtimes: { bash } };
    const result = await glovebox.runCode('echo $BASH', options);
    assert.equal(result.stdout, `${bash}\n`);
  }
  // Keeper and launcher, and for each of the last four roots a zygote and six
  // boxes of an init and a payload that waits.
  await eventually(
    () => descendants().length <= 2 + 4 * (3 * 2 * 2 + 1),
    () => `${descendants().length} processes`,
  );
});
