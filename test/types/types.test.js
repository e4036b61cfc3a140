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
const {
  describeOptions,
  optionPlaces,
  readOptions,
  sessionOptionNames,
} = require('../../lib/options.js');
const glovebox = require('../../lib/index.js');
const {
  readExamples,
  readReadmeExamples,
} = require('../lib/documented-examples.js');

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
    readReadmeExamples().forEach((code, index) => {
      write(`readme${index}.ts`, code);
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

  test('with the examples of the README', () =>
    compile(
      ...['--skipLibCheck', '--module', 'nodenext'],
      ...['--moduleDetection', 'force'],
      ...readReadmeExamples().map((_, index) => `readme${index}.ts`),
    ));

  test('with the examples of index.d.ts', () =>
    compile(
      ...['--skipLibCheck', '--module', 'nodenext'],
      ...['--moduleDetection', 'force'],
      ...readExamples().map((_, index) => `example${index}.ts`),
    ));
});

// The places whose options a type has; the code of spawn() has them in its
// signature.
const optionTypes = {
  SandboxOptions: ['new Sandbox()'],
  PerCallOptions: ['sandbox.run()'],
  RunCodeOptions: ['sandbox.runCode()'],
  SpawnOptions: ['sandbox.spawn()'],
  TerminalOptions: ['pty of sandbox.spawn()'],
  TerminalSize: ['process.resize()'],
  KernelOptions: ['sandbox.kernel()'],
  CellOptions: ['kernel.runCode()'],
  WriteFileOptions: ['sandbox.writeFile()'],
  ReadFileOptions: ['sandbox.readFile()'],
  ReadStreamOptions: ['sandbox.createReadStream()'],
  WriteStreamOptions: ['sandbox.createWriteStream()'],
  ListFilesOptions: ['sandbox.listFiles()'],
  RmOptions: ['sandbox.rm()'],
  ArchiveOptions: ['sandbox.snapshot()', 'sandbox.restore()'],
  OneShotOptions: ['runCode()'],
};

const signatureOptions = ['the code of sandbox.spawn()'];

/** Whether `place` takes the value; what is wrong beside it does not count. */
function accepts(place, name, value) {
  try {
    readOptions(place, { [name]: value });
    return true;
  } catch {
    return false;
  }
}

/** What a file of typings at the root exports, and how to ask for it. */
function readTypings(name) {
  const file = path.join(root, name);
  const program = ts.createProgram([file], { strict: true });
  const checker = program.getTypeChecker();
  const module = checker.getSymbolAtLocation(program.getSourceFile(file));
  const exported = checker.getExportsOfModule(module);

  function membersOf(type) {
    const symbol = exported.find((one) => one.name === type);
    return checker.getPropertiesOfType(checker.getDeclaredTypeOfSymbol(symbol));
  }

  /** But for those that a symbol names. */
  function memberNames(type) {
    return membersOf(type)
      .map((property) => property.name)
      .filter((member) => !member.startsWith('__@'))
      .sort();
  }

  function testExports(values) {
    test('about the exports', () => {
      assert.deepEqual(
        exported
          .filter((symbol) => symbol.flags & ts.SymbolFlags.Value)
          .map((symbol) => symbol.name)
          .sort(),
        Object.keys(values).sort(),
      );
    });
  }

  return { checker, memberNames, membersOf, testExports };
}

describe('index.d.ts says what lib/ does', () => {
  const { checker, memberNames, membersOf, testExports } =
    readTypings('index.d.ts');

  testExports(glovebox);

  const places = Object.entries(optionTypes).flatMap(([type, ofType]) =>
    ofType.map((place) => [type, place]),
  );

  /** Calls `check(member, row, label)` for each option of each place. */
  function forEachOption(check) {
    for (const [type, place] of places) {
      const rows = describeOptions(place);
      for (const member of membersOf(type)) {
        const row = rows.find(({ name }) => name === member.name);
        check(member, { ...row, place }, `${type}.${member.name}`);
      }
    }
  }

  test('about the names of the options', () => {
    const checked = [...places.map(([, place]) => place), ...signatureOptions];
    assert.deepEqual(checked.sort(), [...optionPlaces].sort());
    for (const [type, place] of places) {
      // What is not built has a type only where it has a kind.
      const names = describeOptions(place)
        .filter(({ expected }) => expected)
        .map(({ name }) => name);
      assert.deepEqual(memberNames(type), names.sort(), type);
    }
  });

  test('about their defaults', () => {
    let count = 0;
    forEachOption((member, row, label) => {
      const tags = member
        .getJsDocTags(checker)
        .filter(({ name }) => name === 'default');
      const [said] = tags.map(({ text }) => ts.displayPartsToString(text));
      assert.equal(tags.length, 1, `${label} has one @default`);
      assert.equal(said, row.default, label);
      count += 1;
    });
    assert.ok(count > 100, `${count} were compared`);
  });

  test('that every option may be left out, or be undefined', () => {
    forEachOption((member, { place, name }, label) => {
      assert.ok(member.flags & ts.SymbolFlags.Optional, label);
      assert.ok(accepts(place, name, undefined), label);
    });
  });

  test('about null, and about each value that a type lists', () => {
    let count = 0;
    forEachOption((member, { place, name }, label) => {
      const type = checker.getTypeOfSymbol(member);
      const parts = type.isUnion() ? type.types : [type];
      const has = (flag) => parts.some((part) => part.flags & flag);
      const takesNull = Boolean(has(ts.TypeFlags.Null));
      // Old code says null for the default, and the type does not invite it.
      assert.equal(accepts(place, name, null), takesNull, `${label}: null`);
      for (const part of parts) {
        const value =
          part.flags & ts.TypeFlags.BooleanLiteral
            ? checker.typeToString(part) === 'true'
            : part.isLiteral()
              ? part.value
              : undefined;
        if (value === undefined) continue;
        assert.ok(accepts(place, name, value), `${label}: ${value}`);
        count += 1;
      }
      if (has(ts.TypeFlags.Number)) {
        assert.ok(accepts(place, name, 100), `${label}: a number`);
      }
      // A wider type than the table's would let tsc pass what is refused.
      if (!has(ts.TypeFlags.BooleanLike)) {
        assert.ok(!accepts(place, name, true), `${label}: true`);
      }
      const takesText = Boolean(has(ts.TypeFlags.String));
      assert.equal(accepts(place, name, '/a'), takesText, `${label}: "/a"`);
      if (!has(ts.TypeFlags.NumberLike)) {
        assert.ok(!accepts(place, name, 100), `${label}: 100`);
      }
    });
    assert.ok(count > 50, `${count} values were tried`);
  });

  test('about the ranges of numbers', () => {
    const range = /\d[\d.]*–\d+/;
    forEachOption((member, { name, expected }, label) => {
      const wanted = expected.match(range)?.[0];
      const text = ts.displayPartsToString(
        member.getDocumentationComment(checker),
      );
      const said = text.match(range)?.[0];
      if (said) assert.equal(said, wanted, label);
      // The others say whose range they have.
      const isFirst = label.startsWith('SandboxOptions.');
      if (wanted && isFirst) assert.ok(said, `${label} says its range`);
      assert.equal(name, member.name);
    });
  });

  test('about the methods of the classes', () => {
    for (const name of ['Sandbox', 'Kernel', 'Result']) {
      const written = Object.getOwnPropertyNames(
        glovebox[name].prototype,
      ).filter((member) => member !== 'constructor');
      const typed = memberNames(name).filter(
        (member) => member !== 'data' && member !== 'isMainResult',
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
      (member) => !(member in EventEmitter.prototype),
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
    const hidden = Object.getOwnPropertyNames(
      Object.getPrototypeOf(result),
    ).filter((member) => member !== 'constructor');
    assert.deepEqual(
      memberNames('ExecutionResult'),
      [...Object.getOwnPropertyNames(result), ...hidden].sort(),
    );
    assert.deepEqual(memberNames('Usage'), Object.keys(result.usage).sort());
  });
});

describe('e2b.d.ts says what lib/e2b.js does', () => {
  const e2b = require('../../lib/e2b.js');
  const { memberNames, testExports } = readTypings('e2b.d.ts');

  testExports(e2b);

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

describe('README.md says what lib/ does', () => {
  const text = fs.readFileSync(path.join(root, 'README.md'), 'utf8');
  const [, section] = text.match(/^### Options\n(.*?)^## /ms);
  const rows = Array.from(section.matchAll(/^\| `.*$/gm), ([line]) =>
    line.slice(2, -2).split(' | '),
  );

  const builtOptions = (place) =>
    describeOptions(place).filter(
      ({ expected, unbuilt }) => expected && !unbuilt,
    );
  const ofSession = builtOptions('new Sandbox()');
  const ofCall = builtOptions('sandbox.runCode()');
  const isIn = (list, { name }) => list.some((row) => row.name === name);

  test('about every option: what it takes, its default, and whose it is', () => {
    const wanted = [
      ...ofSession.map((row) => [row, isIn(ofCall, row) ? 'both' : 'Sandbox']),
      ...ofCall
        .filter((row) => !isIn(ofSession, row))
        .map((row) => [row, 'call']),
    ];
    assert.deepEqual(
      rows,
      wanted.map(([row, owner]) => [
        `\`${row.name}\``,
        row.expected,
        `\`${row.default}\``,
        owner,
      ]),
    );
  });

  test('about what a one-shot takes', () => {
    const names = rows.map(([name]) => name.slice(1, -1));
    const taken = builtOptions('runCode()').map(({ name }) => name);
    assert.deepEqual(names.sort(), taken.sort());
  });

  test('about which calls take the options of a call', () => {
    const shared = ofCall
      .map(({ name }) => name)
      .filter((name) => !['language', 'stdin'].includes(name));
    for (const place of [
      'sandbox.run()',
      'sandbox.spawn()',
      'sandbox.kernel()',
    ]) {
      const taken = builtOptions(place).map(({ name }) => name);
      for (const name of shared) assert.ok(taken.includes(name), place + name);
    }
  });
});

describe('docs/from-kern-sandbox.md says what lib/ does', () => {
  const text = fs.readFileSync(
    path.join(root, 'docs', 'from-kern-sandbox.md'),
    'utf8',
  );

  /** The rows of the first table below a heading, as lists of cells. */
  function readTable(heading) {
    const start = text.indexOf(`\n${heading}\n`);
    assert.notEqual(start, -1, heading);
    const [table] = text.slice(start).match(/(?:^\|.*\n)+/m);
    return table
      .trim()
      .split('\n')
      .slice(2)
      .map((line) => line.slice(1, -1).split(' | '))
      .map((cells) => cells.map((cell) => cell.trim().replace(/^\| /, '')));
  }

  const quotedNames = (cell) =>
    Array.from(cell.matchAll(/`(\w+)`/g), ([, name]) => name);

  // Names of glovebox for what is not built, which kern-sandbox does not have.
  const unknownThere = ['seccompProfile', 'setupTimeoutS'];

  const rows = readTable('## Options of a Sandbox').map(
    ([names, theirs, status, remark]) => ({
      names: quotedNames(names),
      theirs,
      status: status.replaceAll('*', ''),
      remark,
    }),
  );
  const [onlyHere] = text.match(/^Only here: `runtimes`.*?\n\n/ms);
  const ours = quotedNames(onlyHere).filter((name) =>
    sessionOptionNames.includes(name),
  );
  const table = new Map(
    describeOptions('new Sandbox()').map((row) => [row.name, row]),
  );

  test('about the names of the options', () => {
    const written = [...rows.flatMap(({ names }) => names), ...ours];
    assert.deepEqual(
      written.sort(),
      sessionOptionNames.filter((name) => !unknownThere.includes(name)).sort(),
    );
  });

  test('about what is built', () => {
    for (const { names, status } of rows) {
      for (const name of names) {
        const { unbuilt } = table.get(name);
        if (status === 'not built yet') assert.ok(unbuilt, name);
        if (status === 'same') assert.ok(!unbuilt, name);
      }
    }
    for (const name of ours) assert.ok(!table.get(name).unbuilt, name);
  });

  test('about the values that are accepted for what is not built', () => {
    for (const { names, status, remark } of rows) {
      if (status !== 'not built yet') continue;
      const [said] = remark.match(/^.*?accepted/);
      const values = Array.from(said.matchAll(/`(.*?)`/g), ([, value]) =>
        JSON.parse(value),
      );
      assert.ok(values.length > 0, names.join());
      names.forEach((name, index) => {
        // One value for each of several names, or all for one.
        for (const value of names.length > 1 ? [values[index]] : values) {
          assert.ok(
            accepts('new Sandbox()', name, value),
            `${name}: ${JSON.stringify(value)}`,
          );
        }
      });
    }
  });

  test('about the defaults that are the same', () => {
    const same = rows.filter(({ status }) => status === 'same');
    for (const { names, theirs } of same) {
      const mebibytes = theirs.match(/^(\d+) MiB each$/);
      const value = mebibytes
        ? String(Number(mebibytes[1]) * 2 ** 20)
        : theirs.match(/^`(.*?)`/)[1];
      assert.equal(table.get(names[0]).default, value, names[0]);
    }
    assert.ok(same.length >= 4);
  });

  test('about the options of one call', () => {
    const written = readTable('### Options of one call').flatMap(([names]) =>
      quotedNames(names),
    );
    assert.deepEqual(
      written.sort(),
      describeOptions('sandbox.runCode()')
        .map(({ name }) => name)
        .sort(),
    );
  });
});
