// SPDX-License-Identifier: Apache-2.0
'use strict';

// Rows E of the public cases, and what else there is to rich results.

const assert = require('node:assert/strict');
const {
  open,
  outside,
  packagedPython,
  skip,
  test,
} = require('../helpers/harness.js');
const { forms } = require('../helpers/forms.js');

const pngSignature = '89504e470d0a1a0a';

function isPng(result) {
  return result.png?.subarray(0, 8).toString('hex') === pngSignature;
}

// ---- P16 -------------------------------------------------------------------

const lastExpressions = [
  { code: '1+1;  # note', texts: [] },
  { code: '1+1  # ends with ;', texts: ['2'] },
  { code: '1+1;\n\n# tail', texts: [] },
  { code: "'a;'", texts: ["'a;'"] },
  { code: 'x = 1; x + 1', texts: ['2'] },
  { code: 'None', texts: [] },
  { code: 'x = 5', texts: [] },
  { code: '1\n2', texts: ['2'] },
];

for (const { name, begin } of forms) {
  test(`P16 only a semicolon that ends the code suppresses its last expression ${name}`, async (t) => {
    const run = await begin(await open(t));
    for (const { code, texts } of lastExpressions) {
      const result = await run(code);
      assert.deepEqual(
        result.results.map(({ text }) => text),
        texts,
        code,
      );
      assert.equal(result.stdout, '', code);
      assert.equal(result.exitCode, 0, code);
    }
  });
}

// ---- P17 -------------------------------------------------------------------

const mimeBundles = `class R:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {'text/html': '<b>x</b>', 'image/png': b'\\x89PNG\\r\\n\\x1a\\n'}, {'image/png': {'width': 1}}
class S:
    def _repr_png_(self): return b'\\x89PNG', {'width': 1}
display(R())
S()`;

for (const { name, begin } of forms) {
  test(`P17 _repr_mimebundle_ and pairs of data and metadata are understood ${name}`, async (t) => {
    const run = await begin(await open(t));
    const result = await run(mimeBundles);
    assert.equal(result.stderr, '');
    assert.equal(result.stdout, '');
    assert.equal(result.exitCode, 0);
    assert.equal(result.results.length, 2);
    const [bundle, png] = result.results;
    assert.equal(bundle.html, '<b>x</b>');
    assert.equal(bundle.png.toString('hex'), '89504e470d0a1a0a');
    assert.match(bundle.text, /^<__main__\.R object at 0x[0-9a-f]+>$/);
    assert.equal(png.png.toString('hex'), '89504e47');
    assert.match(png.text, /^<__main__\.S object at 0x[0-9a-f]+>$/);
  });

  test(`every form of a value arrives, in the order of display() ${name}`, async (t) => {
    const run = await begin(await open(t));
    const result = await run(`
class Rich:
    def __repr__(self): return 'rich'
    def _repr_html_(self): return '<i>é</i>'
    def _repr_markdown_(self): return '*m*'
    def _repr_svg_(self): return '<svg/>'
    def _repr_latex_(self): return '$x$'
    def _repr_json_(self): return {'a': [1, None]}
    def _repr_jpeg_(self): return b'\\xff\\xd8\\xff'
display('first', 2)
print('between')
Rich()`);
    assert.equal(result.stdout, 'between\n');
    const [first, second, rich, ...others] = result.results;
    assert.deepEqual(others, []);
    assert.equal(first.text, "'first'");
    assert.equal(second.text, '2');
    assert.equal(rich.text, 'rich');
    assert.equal(rich.html, '<i>é</i>');
    assert.equal(rich.markdown, '*m*');
    assert.equal(rich.svg, '<svg/>');
    assert.equal(rich.latex, '$x$');
    assert.deepEqual(JSON.parse(rich.json), { a: [1, null] });
    assert.equal(rich.jpeg.toString('hex'), 'ffd8ff');
    assert.equal(rich.png, null);
  });
}

test('results that were displayed before an exception or a time limit are kept', async (t) => {
  const sandbox = await open(t);
  const failing = await sandbox.runCode("display('kept')\n1/0");
  assert.deepEqual(
    failing.results.map(({ text }) => text),
    ["'kept'"],
  );
  assert.equal(failing.error.name, 'ZeroDivisionError');
  const stopped = await sandbox.runCode("display('kept')\nwhile True: pass", {
    timeoutS: 1,
  });
  assert.equal(stopped.fault.type, 'timeout');
  assert.deepEqual(
    stopped.results.map(({ text }) => text),
    ["'kept'"],
  );
});

// ---- P18 -------------------------------------------------------------------

// matplotlib is Debian's python3-matplotlib, which belongs to its python alone.
async function openWithMatplotlib(t) {
  const has =
    packagedPython &&
    outside([packagedPython, '-c', 'import matplotlib']).exitCode === 0;
  if (!has) {
    skip(t, 'python3-matplotlib is not installed');
    return undefined;
  }
  return open(t, { runtimes: { python: packagedPython } });
}

const plot = `import matplotlib.pyplot as plt
fig, ax = plt.subplots(); ax.plot([1, 3, 2])
plt.show()`;

test('P18 a figure comes once, with the cell that made or named it', async (t) => {
  const sandbox = await openWithMatplotlib(t);
  if (!sandbox) return;
  const kernel = await sandbox.kernel();

  const shown = await kernel.runCode(plot);
  assert.equal(shown.stderr, '');
  assert.equal(shown.exitCode, 0);
  assert.deepEqual(shown.results.map(isPng), [true]);

  const other = await kernel.runCode('1 + 1');
  assert.deepEqual(
    other.results.map(({ text, png }) => [text, png]),
    [['2', null]],
  );

  const named = await kernel.runCode('fig');
  assert.deepEqual(named.results.map(isPng), [true]);

  const both = await kernel.runCode('fig, ax = plt.subplots(); fig');
  assert.deepEqual(both.results.map(isPng), [true]);
  assert.equal(both.stderr, '');
});

test('P18 runCode gives a figure once, shown or not', async (t) => {
  const sandbox = await openWithMatplotlib(t);
  if (!sandbox) return;
  for (const code of [plot, plot.replace('plt.show()', '')]) {
    const { stderr, exitCode, results } = await sandbox.runCode(code);
    assert.equal(stderr, '', code);
    assert.equal(exitCode, 0, code);
    assert.deepEqual(results.filter(isPng).length, 1, code);
  }
});

// ---- onResult, and which result is the code's value --------------------------

for (const { name, begin } of forms) {
  test(`a result arrives while the code runs; the last value is the main one ${name}`, async (t) => {
    const sandbox = await open(t);
    const run = await begin(sandbox);
    const seen = [];
    // The code waits for a file that only the callback makes.
    const result = await run(
      "import os, time\ndisplay('early')\n" +
        "while not os.path.exists('seen'): time.sleep(0.01)\n6 * 7",
      {
        async onResult(one) {
          seen.push(one.text);
          await sandbox.writeFile('seen', '');
        },
      },
    );
    assert.deepEqual(seen, ["'early'", '42']);
    assert.deepEqual(
      result.results.map(({ isMainResult }) => isMainResult),
      [false, true],
    );
    assert.equal(result.text, '42');
    assert.equal((await run('x = display(1)')).text, undefined);
  });

  test(`what was printed before a result comes before it ${name}`, async (t) => {
    const run = await begin(await open(t));
    const seen = [];
    const result = await run(
      "import sys\nprint('line')\ndisplay(1)\nprint('part', end='')\n" +
        "print('error', file=sys.stderr)\ndisplay(2)\nprint('end', end='')\n3",
      {
        onStdout: (chunk) => seen.push(String(chunk)),
        onStderr: (chunk) => seen.push(String(chunk)),
        onResult: ({ text }) => seen.push(text),
      },
    );
    // Two pieces may come as one, but none after a result that followed it.
    const all = seen.join('');
    const places = ['line\n', '1', 'part', '2', 'end', '3'].map((one) =>
      all.indexOf(one),
    );
    const [line, first, part, second, end, third] = places;
    assert.ok(line >= 0 && line < first, all);
    assert.ok(part >= 0 && part < second, all);
    assert.ok(all.indexOf('error') < second, all);
    assert.ok(end >= 0 && end < third, all);
    assert.equal(result.stdout, 'line\npartend');
  });

  test(`what onResult throws rejects the call ${name}`, async (t) => {
    const run = await begin(await open(t));
    const thrown = new Error('callback');
    const onResult = () => {
      throw thrown;
    };
    await assert.rejects(run('1', { onResult }), (error) => error === thrown);
    assert.equal((await run('2')).text, '2');
  });
}

// ---- Data frames -----------------------------------------------------------

test('the rows of a data frame come as JSON, all or none', async (t) => {
  const has =
    packagedPython &&
    outside([packagedPython, '-c', 'import pandas']).exitCode === 0;
  if (!has) {
    skip(t, 'python3-pandas is not installed');
    return;
  }
  const sandbox = await open(t, { runtimes: { python: packagedPython } });
  const kernel = await sandbox.kernel();
  const value = async (code) => {
    const { results, stderr } = await kernel.runCode(code);
    assert.equal(stderr, '');
    return results[0];
  };
  const small = await value(
    "import pandas as pd\npd.DataFrame({'a': [1, 2], 'é': ['x', None]})",
  );
  assert.deepEqual(JSON.parse(small.json), [
    { a: 1, é: 'x' },
    { a: 2, é: null },
  ]);
  assert.match(small.html, /<table/);
  const digits = await value("pd.DataFrame({'a': [1 / 3, float('nan')]})");
  assert.match(digits.json, /^\[\{"a":0\.3{15}\},\{"a":null\}\]$/);
  const most = await value("pd.DataFrame({'a': range(100_000)})");
  assert.equal(JSON.parse(most.json).length, 100000);
  for (const code of [
    "pd.DataFrame({'a': range(100_001)})",
    "pd.DataFrame({'a': ['x' * (9 << 20)]})",
    "pd.DataFrame([[1, 2]], columns=['a', 'a'])",
    "pd.DataFrame([[1, 2]], columns=[1, '1'])",
  ]) {
    const none = await value(code);
    assert.equal(none.json, undefined, code);
    assert.match(none.html, /<table/);
  }
});

// ---- Code of notebooks -------------------------------------------------------

// What the installed one does where no shell of IPython runs.
const ipython = {
  '__init__.py': '',
  'core/__init__.py': '',
  'core/display_functions.py': `__all__ = ['display', 'publish_display_data', 'clear_output']
def display(*objs, **options): print(*objs)
def publish_display_data(data, metadata=None): print(data)
def clear_output(wait=False): print('\\033[2K\\r', end='')
`,
  'display.py': 'from IPython.core.display_functions import *\n',
};

const notebookCode = `from IPython.display import clear_output, display
class Page:
    def _repr_html_(self): return '<b>page</b>'
display(Page(), 'text')
clear_output(wait=True)
display({'text/html': '<i>raw</i>', 'text/plain': 'raw'}, raw=True)
import IPython.core.display_functions as functions
functions.publish_display_data({'text/html': '<u>data</u>'})`;

for (const { name, begin } of forms) {
  test(`IPython.display shows rich results ${name}`, async (t) => {
    const sandbox = await open(t);
    for (const [path, text] of Object.entries(ipython)) {
      await sandbox.writeFile(`IPython/${path}`, text);
    }
    const run = await begin(sandbox);
    const result = await run(notebookCode);
    assert.equal(result.stderr, '');
    assert.equal(result.stdout, '');
    assert.deepEqual(
      result.results.map(({ html, text }) => html ?? text),
      ['<b>page</b>', "'text'", '<i>raw</i>', '<u>data</u>'],
    );
  });

  test(`commands of IPython are syntax errors that say whose they are ${name}`, async (t) => {
    const run = await begin(await open(t));
    for (const code of [
      '%matplotlib inline',
      '%%time\nx = 1',
      '!pip install x',
      'x = 1\nfiles = !ls',
      'print?',
    ]) {
      const { exitCode, stderr, error } = await run(code);
      assert.equal(exitCode, 1, code);
      assert.match(
        stderr,
        /SyntaxError: .*\n\(commands with %, ! and \?.*\)\n$/,
      );
      assert.equal(error.traceback, stderr);
    }
    for (const code of ['x = 1 +', 'a = b !', 'x == !y', 'print("%d %', '"x']) {
      const { stderr } = await run(code);
      assert.ok(!stderr.includes('IPython'), stderr);
    }
  });
}

// ---- JavaScript --------------------------------------------------------------

test('JavaScript gives its last value and what it displays, as script and as module', async (t) => {
  const sandbox = await open(t);
  for (const start of ['', "import 'node:os';\n"]) {
    const seen = [];
    const result = await sandbox.runCode(
      `${start}display({ 'text/html': '<i>é</i>', 'image/png': Buffer.from([1]) });
      console.log('out');
      Promise.resolve({ a: [1] });`,
      { language: 'node', onResult: (one) => seen.push(one) },
    );
    assert.equal(result.stdout, 'out\n');
    assert.equal(result.stderr, '');
    assert.equal(result.exitCode, 0);
    assert.equal(result.text, '{ a: [ 1 ] }');
    const [displayed, main, ...others] = result.results;
    assert.deepEqual(others, []);
    assert.equal(displayed.html, '<i>é</i>');
    assert.equal(displayed.png.toString('hex'), '01');
    assert.equal(displayed.isMainResult, false);
    assert.equal(main.json, '{"a":[1]}');
    assert.equal(main.isMainResult, true);
    assert.deepEqual(seen, result.results);
  }
});

test('JavaScript shows an object without running its getters', async (t) => {
  const sandbox = await open(t);
  const kernel = await sandbox.kernel({ language: 'node' });
  const code = '({ a: 1, get b() { console.log("run"); return 2; } })';
  for (const runner of [sandbox, kernel]) {
    const options = runner === kernel ? {} : { language: 'node' };
    const result = await runner.runCode(code, options);
    assert.equal(result.text, '{ a: 1, b: [Getter] }');
    assert.equal(result.results[0].json, undefined);
    assert.equal(result.stdout, '');
  }
});

test('a flood of results of JavaScript is cut', async (t) => {
  const sandbox = await open(t);
  const { results, truncated, stdout, exitCode } = await sandbox.runCode(
    'for (let i = 0; i < 5000; i++) display(i)',
    { language: 'node' },
  );
  assert.equal(results.length, 1000);
  assert.equal(truncated, true);
  assert.equal(stdout, '');
  assert.equal(exitCode, 0);
});
