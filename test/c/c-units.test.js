// SPDX-License-Identifier: Apache-2.0
'use strict';

// Compiles each test/c/*_test.c, under AddressSanitizer and
// UndefinedBehaviorSanitizer where the compiler has them, and reports each line of
// its TAP as a test. Where GLOVEBOX_C_UNITS names a folder they are there already,
// compiled on another machine.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, test } = require('node:test');
const {
  compileUnit,
  execute,
  sanitizerFlags,
  unitFiles,
} = require('./units.js');

const compiler = process.env.CC || 'gcc';
const compiled = process.env.GLOVEBOX_C_UNITS;

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'glovebox-c-units-'));
after(() => fs.rmSync(folder, { recursive: true, force: true }));

const hasCompiler = spawnSync(compiler, ['--version']).status === 0;
const hasSanitizers = compiled || (hasCompiler && canUseSanitizers());

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

function prepare(file) {
  if (compiled) return path.join(compiled, path.basename(file, '.c'));
  const flags = hasSanitizers ? sanitizerFlags : [];
  return compileUnit(file, folder, [compiler, ...flags]);
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

for (const file of unitFiles) {
  const suffix = hasSanitizers ? '' : ' (without sanitizers: not installed)';
  test(`${path.basename(file, '.c')}${suffix}`, async (t) => {
    if (!compiled && !hasCompiler && process.env.GLOVEBOX_MUST_RUN !== '1') {
      t.skip(`no C compiler: ${compiler}`);
      return;
    }
    const run = await execute(await prepare(file), []);
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
