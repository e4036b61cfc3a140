// SPDX-License-Identifier: Apache-2.0
'use strict';

// Compiles each test/c/*_test.c with what its `sources:` comment names, under
// AddressSanitizer and UndefinedBehaviorSanitizer where the compiler has them,
// and reports each line of its TAP as a test.

const assert = require('node:assert/strict');
const { spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, test } = require('node:test');

const root = path.join(__dirname, '..', '..');
const compiler = process.env.CC || 'gcc';
const baseFlags = [
  '-std=gnu17',
  '-D_GNU_SOURCE',
  '-Wall',
  '-Wextra',
  '-Wshadow',
  '-Werror',
  '-g',
  // The interpreter of the filter runs millions of instructions.
  '-O1',
  '-Isrc',
];
const sanitizerFlags = [
  '-fsanitize=address,undefined',
  '-fno-sanitize-recover=undefined',
];
const programTimeoutMs = 120_000;

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'glovebox-c-units-'));
after(() => fs.rmSync(folder, { recursive: true, force: true }));

const hasCompiler = spawnSync(compiler, ['--version']).status === 0;
const hasSanitizers = hasCompiler && canUseSanitizers();

// Where the library is missing the compiler still takes the flag, so a program
// is linked and run.
function canUseSanitizers() {
  const source = path.join(folder, 'probe.c');
  const binary = path.join(folder, 'probe');
  fs.writeFileSync(source, 'int main(void) { return 0; }\n');
  return (
    spawnSync(compiler, [...sanitizerFlags, source, '-o', binary]).status ===
      0 && spawnSync(binary).status === 0
  );
}

function readHeader(file) {
  const text = fs.readFileSync(path.join(root, file), 'utf8');
  const match = /\/\*\s*sources:(.*?)(?:\blibs:(.*?))?\*\//s.exec(text);
  assert.ok(match, `${file} has no comment "sources: ... libs: ..."`);
  const words = (list = '') =>
    list.split(/\s+/).filter((word) => word !== '' && word !== '*');
  return { sources: words(match[1]), libs: words(match[2]) };
}

function execute(command, args, timeout) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd: root,
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout,
      killSignal: 'SIGKILL',
    });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text) => {
      stdout += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text) => {
      stderr += text;
    });
    child.on('error', reject);
    child.on('close', (status, signal) =>
      resolve({ status, signal, stdout, stderr }),
    );
  });
}

async function compile(file) {
  const { sources, libs } = readHeader(file);
  const binary = path.join(folder, path.basename(file, '.c'));
  const flags = hasSanitizers ? [...baseFlags, ...sanitizerFlags] : baseFlags;
  const args = [...flags, file, ...sources, ...libs, '-o', binary];
  const { status, stderr } = await execute(compiler, args, programTimeoutMs);
  assert.equal(status, 0, `${compiler} ${args.join(' ')}\n${stderr}`);
  return binary;
}

// Lines that begin with "#" say more about the test line that follows.
function parseTap(text) {
  const tests = [];
  let plan = null;
  let notes = [];
  for (const line of text.split('\n')) {
    const test = /^(not )?ok (\d+) - (.*?)(?:\s*# SKIP\b\s*(.*))?$/.exec(line);
    if (test) {
      const [, not, number, title, skip] = test;
      tests.push({ passed: !not, number: Number(number), title, skip, notes });
      notes = [];
    } else if (/^1\.\.\d+$/.test(line)) {
      plan = Number(line.slice('1..'.length));
    } else if (line !== '') {
      notes.push(line);
    }
  }
  return { tests, plan, notes };
}

async function reportTest(t, { title, passed, skip, notes }) {
  const isSkipped = skip !== undefined && process.env.GLOVEBOX_MUST_RUN !== '1';
  await t.test(title, (t2) => {
    for (const note of notes) t2.diagnostic(note);
    if (isSkipped) {
      t2.skip(skip);
      return;
    }
    assert.ok(passed && skip === undefined, notes.join('\n') || title);
  });
}

const files = fs
  .readdirSync(__dirname)
  .filter((name) => name.endsWith('_test.c'))
  .sort()
  .map((name) => `test/c/${name}`);

for (const file of files) {
  const suffix = hasSanitizers ? '' : ' (without sanitizers: not installed)';
  test(`${path.basename(file, '.c')}${suffix}`, async (t) => {
    if (!hasCompiler && process.env.GLOVEBOX_MUST_RUN !== '1') {
      t.skip(`no C compiler: ${compiler}`);
      return;
    }
    const binary = await compile(file);
    const run = await execute(binary, [], programTimeoutMs);
    const { tests, plan, notes } = parseTap(run.stdout);
    for (const entry of tests) await reportTest(t, entry);

    // What no line speaks for: a crash, a sanitizer's report, a lost line.
    const report = [...notes, run.stderr].join('\n');
    assert.deepEqual(
      tests.map(({ number }) => number),
      Array.from({ length: plan ?? 0 }, (_, index) => index + 1),
      `the plan is kept\n${report}`,
    );
    const hasFailed = tests.some(({ passed }) => !passed);
    assert.equal(run.signal, null, report);
    assert.equal(run.status, hasFailed ? 1 : 0, report);
    assert.notEqual(tests.length, 0, report);
  });
}
