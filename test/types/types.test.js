// SPDX-License-Identifier: Apache-2.0
'use strict';

// The types as a project that uses glovebox sees them: found through the
// package's exports, in each module mode, under --strict.

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, before, describe, test } = require('node:test');
const { promisify } = require('node:util');
const ts = require('typescript');
const { builtOptions } = require('../../lib/options.js');
const glovebox = require('../../lib/index.js');
const { readExamples } = require('../lib/documented-examples.js');

const run = promisify(execFile);
const root = path.join(__dirname, '..', '..');
const esModules = ['usage.ts', 'e2b.ts'];
const commonModules = ['require.cts', 'require-e2b.cts'];
const compiler = require.resolve('typescript/bin/tsc');

describe('P33 a project that uses the types compiles', () => {
  let project;

  before(() => {
    project = fs.mkdtempSync(path.join(os.tmpdir(), 'glovebox-types-'));
    const write = (name, text) =>
      fs.writeFileSync(path.join(project, name), text);
    write('package.json', '{"type": "module"}');
    const modules = path.join(project, 'node_modules');
    fs.mkdirSync(modules);
    fs.symlinkSync(root, path.join(modules, 'glovebox'));
    const nodeTypes = path.dirname(require.resolve('@types/node/package.json'));
    fs.mkdirSync(path.join(modules, '@types'));
    fs.symlinkSync(nodeTypes, path.join(modules, '@types', 'node'));
    for (const name of [...esModules, ...commonModules]) {
      fs.copyFileSync(path.join(__dirname, name), path.join(project, name));
    }
    readExamples().forEach(({ code }, index) => {
      write(`example${index}.ts`, code);
    });
  });

  after(() => {
    fs.rmSync(project, { recursive: true });
  });

  async function compile(...args) {
    const options = ['--strict', '--noEmit', '--target', 'es2022'];
    const libraries = ['--lib', 'es2022'];
    try {
      await run(
        process.execPath,
        [compiler, ...options, ...libraries, ...args],
        { cwd: project },
      );
    } catch (error) {
      assert.fail(error.stdout || error.message);
    }
  }

  // Checks the declarations themselves, too; once is enough for that.
  test('with module nodenext', () =>
    compile('--module', 'nodenext', ...esModules, ...commonModules));

  test('with module node16', () =>
    compile(
      '--skipLibCheck',
      '--module',
      'node16',
      ...esModules,
      ...commonModules,
    ));

  test('with module commonjs', () =>
    compile(
      ...['--skipLibCheck', '--module', 'commonjs', '--esModuleInterop'],
      ...esModules,
    ));

  test('with module esnext and a bundler', () =>
    compile(
      ...['--skipLibCheck', '--module', 'esnext'],
      ...['--moduleResolution', 'bundler'],
      ...esModules,
    ));

  test('with the examples of index.d.ts', () =>
    compile(
      ...['--skipLibCheck', '--module', 'nodenext'],
      ...['--moduleDetection', 'force'],
      ...readExamples().map((_, index) => `example${index}.ts`),
    ));
});

describe('index.d.ts says what lib/ does', () => {
  const file = path.join(root, 'index.d.ts');
  const program = ts.createProgram([file], { strict: true });
  const checker = program.getTypeChecker();
  const module = checker.getSymbolAtLocation(program.getSourceFile(file));
  const exported = checker.getExportsOfModule(module);

  function memberNames(name) {
    const symbol = exported.find((one) => one.name === name);
    const type = checker.getDeclaredTypeOfSymbol(symbol);
    return checker
      .getPropertiesOfType(type)
      .map((property) => property.name)
      .sort();
  }

  test('about the exports', () => {
    const values = exported.filter(
      (symbol) => symbol.flags & ts.SymbolFlags.Value,
    );
    assert.deepEqual(
      values.map((symbol) => symbol.name).sort(),
      Object.keys(glovebox).sort(),
    );
  });

  test('about the options', () => {
    const places = {
      SandboxOptions: 'new Sandbox()',
      PerCallOptions: 'sandbox.run()',
      RunCodeOptions: 'sandbox.runCode()',
      SpawnOptions: 'sandbox.spawn()',
      TerminalOptions: 'pty of sandbox.spawn()',
      TerminalSize: 'process.resize()',
      KernelOptions: 'sandbox.kernel()',
      CellOptions: 'kernel.runCode()',
      ReadFileOptions: 'sandbox.readFile()',
      ReadStreamOptions: 'sandbox.createReadStream()',
      WriteStreamOptions: 'sandbox.createWriteStream()',
      ListFilesOptions: 'sandbox.listFiles()',
      RmOptions: 'sandbox.rm()',
      ArchiveOptions: 'sandbox.snapshot()',
      OneShotOptions: 'runCode()',
    };
    for (const [type, place] of Object.entries(places)) {
      assert.deepEqual(memberNames(type), builtOptions(place).sort(), type);
    }
  });

  test('about the methods of the classes', () => {
    for (const name of ['Sandbox', 'Kernel', 'Result']) {
      const written = Object.getOwnPropertyNames(
        glovebox[name].prototype,
      ).filter((member) => member !== 'constructor');
      const typed = memberNames(name).filter(
        (member) => !member.startsWith('__@') && member !== 'data',
      );
      assert.deepEqual(typed, written.sort(), name);
    }
  });

  test('about a process', () => {
    const { EventEmitter } = require('node:events');
    const { prototype } = glovebox.SandboxProcess;
    const written = Object.getOwnPropertyNames(prototype).filter(
      (member) => member !== 'constructor',
    );
    const typed = memberNames('SandboxProcess').filter(
      (member) =>
        !member.startsWith('__@') && !(member in EventEmitter.prototype),
    );
    const streams = ['stderr', 'stdin', 'stdout'];
    assert.deepEqual(typed, [...written, ...streams].sort());
  });

  test('about the properties of a result', () => {
    const { runOutcome } = require('../../lib/outcome.js');
    const { FrameCollector } = require('../../lib/frames.js');
    const { runResult } = require('../lib/fake-engine.js');
    const frames = new FrameCollector();
    const native = runResult({ blocked: [] });
    const result = runOutcome(native, frames, {}, ['x']);
    assert.deepEqual(
      memberNames('ExecutionResult'),
      Object.getOwnPropertyNames(result).sort(),
    );
    assert.deepEqual(memberNames('Usage'), Object.keys(result.usage).sort());
  });
});

describe('e2b.d.ts says what lib/e2b.js does', () => {
  const e2b = require('../../lib/e2b.js');
  const file = path.join(root, 'e2b.d.ts');
  const program = ts.createProgram([file], { strict: true });
  const checker = program.getTypeChecker();
  const module = checker.getSymbolAtLocation(program.getSourceFile(file));
  const exported = checker.getExportsOfModule(module);

  function memberNames(name) {
    const symbol = exported.find((one) => one.name === name);
    return checker
      .getPropertiesOfType(checker.getDeclaredTypeOfSymbol(symbol))
      .map((property) => property.name)
      .filter((member) => !member.startsWith('__@'))
      .sort();
  }

  test('about the exports', () => {
    const values = exported.filter(
      (symbol) => symbol.flags & ts.SymbolFlags.Value,
    );
    assert.deepEqual(
      values.map((symbol) => symbol.name).sort(),
      Object.keys(e2b).sort(),
    );
  });

  // What is not there is not typed, but it answers: its property is not one
  // that a loop finds.
  test('about the methods of the classes', () => {
    const { Commands } = require('../../lib/e2b/commands.js');
    const { Filesystem } = require('../../lib/e2b/filesystem.js');
    const classes = { Sandbox: e2b.Sandbox, Commands, Filesystem };
    for (const [name, { prototype }] of Object.entries(classes)) {
      const written = Object.getOwnPropertyNames(prototype);
      const properties = ['commands', 'files', 'sandboxId'];
      for (const member of memberNames(name)) {
        if (name === 'Sandbox' && properties.includes(member)) continue;
        assert.ok(written.includes(member), `${name}.${member}`);
      }
    }
  });
});
