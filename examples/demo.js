// SPDX-License-Identifier: Apache-2.0
'use strict';

// What glovebox does, in five pieces of code: three that do honest work and two
// that do not. Ends with status 1 if a box did not hold.

const { withSandbox } = require('..');

const table = `
class Table:
    def __init__(self, rows):
        self.rows = rows

    def __repr__(self):
        return "\\n".join(f"{name:<8}{value:>6}" for name, value in self.rows)

    def _repr_html_(self):
        cells = "".join(f"<tr><td>{n}<td>{v}" for n, v in self.rows)
        return f"<table>{cells}</table>"

print("counting words")
text = "the box holds what the code in the box does"
Table([(word, text.split().count(word)) for word in ("the", "box", "code")])
`;

const whereAmI = `
echo "$(id -un) on $(uname -n), in $PWD"
echo "$(ls /proc | grep -c '^[0-9]') processes, $(ls -A ~ | wc -l) files in ~"
`;

const breakOut = `
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print("about to leave the box", flush=True)
libc.unshare(0x10000000)  # CLONE_NEWUSER: the first step of many break-outs
print("free")
`;

const steps = [
  {
    title: 'Python, with a rich result',
    code: table,
    options: { language: 'python' },
    held: ({ success, results }) => success && results[0]?.html !== undefined,
  },
  {
    title: 'bash: who and where the code is',
    code: whereAmI,
    options: { language: 'bash' },
    held: ({ success, stdout }) => success && stdout.startsWith('user on '),
  },
  {
    title: 'JavaScript',
    code: 'console.log([3, 1, 2].sort().join(" < "), "on node", process.version)',
    options: { language: 'node' },
    held: ({ success, stdout }) => success && stdout.startsWith('1 < 2 < 3'),
  },
  {
    title: 'an endless loop, with half a second to run',
    code: 'while True: pass',
    options: { language: 'python', timeoutS: 0.5 },
    held: ({ fault }) => fault?.type === 'timeout',
  },
  {
    title: 'an attempt to leave the box',
    code: breakOut,
    options: { language: 'python' },
    held: ({ fault, stdout }) =>
      fault?.type === 'escape_blocked' && !stdout.includes('free'),
  },
];

function indent(text) {
  return text.trimEnd().replace(/^/gm, '    ');
}

function describe(result) {
  const lines = [];
  if (result.stdout) lines.push(indent(result.stdout));
  for (const rich of result.results) {
    lines.push(`  result as ${rich.formats().join(', ')}:`);
    lines.push(indent(rich.html ?? rich.text));
  }
  if (result.stderr) lines.push('  stderr:', indent(result.stderr));
  lines.push(
    result.fault
      ? `  stopped (${result.fault.type}): ${result.fault.message}`
      : `  ended with exit code ${result.exitCode}`,
  );
  return lines.join('\n');
}

async function main() {
  let failed = 0;
  await withSandbox(async (sandbox) => {
    for (const [index, { title, code, options, held }] of steps.entries()) {
      const start = performance.now();
      const result = await sandbox.runCode(code, options);
      const wallMs = performance.now() - start;
      const ok = held(result);
      if (!ok) failed += 1;
      console.log(`\n${index + 1}. ${title}`);
      console.log(describe(result));
      console.log(
        `  ${ok ? 'as it must be' : 'WRONG'}, ${wallMs.toFixed(1)} ms`,
      );
    }
    console.log(
      '\nLimits of these boxes, and who enforces them (null: none set):',
    );
    console.log(indent(JSON.stringify(sandbox.limits)));
  });
  console.log(
    failed === 0
      ? '\nAll five did what they must: three worked, two were stopped.'
      : `\n${failed} of 5 went wrong: run no code you do not trust here.`,
  );
  process.exitCode = failed === 0 ? 0 : 1;
}

main().catch((error) => {
  console.error(`\n${error.stack}`);
  process.exitCode = 1;
});
