// SPDX-License-Identifier: Apache-2.0
'use strict';

// How fast 1 GiB comes out of a box, and goes in and out, beside a bare pipe.

const assert = require('node:assert');
const { execFile } = require('node:child_process');
const { Readable } = require('node:stream');
const { pipeline } = require('node:stream/promises');
const { promisify } = require('node:util');
const { timeFunction } = require('./measure.js');

const execFileAsync = promisify(execFile);

const bytes = 2 ** 30;
const writer = ['head', '-c', String(bytes), '/dev/zero'];

const names = {
  pipe: 'bare pipe: head -c 1G /dev/zero, cat > /dev/null',
  spawn: 'spawn(["head", "-c", "1G", "/dev/zero"]), stdout read',
  run: 'run(["head", "-c", "1G", "/dev/zero"]), 64 MiB kept',
  pipes: 'two pipes: cat /dev/zero, head -c 1G, cat > /dev/null',
  both: 'spawn(["cat"]), 1 GiB written and read',
};

// name → the name it is divided by
const denominators = {
  [names.spawn]: names.pipe,
  [names.run]: names.pipe,
  [names.both]: names.pipes,
};

function shell(name, line) {
  return timeFunction(name, () => execFileAsync('/bin/sh', ['-c', line]));
}

async function count(stream) {
  let size = 0;
  for await (const chunk of stream) size += chunk.length;
  assert.strictEqual(size, bytes);
}

function* pieces() {
  const piece = Buffer.alloc(2 ** 16);
  for (let size = 0; size < bytes; size += piece.length) yield piece;
}

function defineStreams(sandbox) {
  return [
    shell(names.pipe, `${writer.join(' ')} | cat > /dev/null`),
    timeFunction(names.spawn, async () => {
      const child = sandbox.spawn(writer);
      await count(child.stdout);
      await child.wait();
    }),
    timeFunction(names.run, async () => {
      const { truncated } = await sandbox.run(writer);
      assert.strictEqual(truncated, true);
    }),
    shell(names.pipes, `cat /dev/zero | head -c ${bytes} | cat > /dev/null`),
    timeFunction(names.both, async () => {
      const child = sandbox.spawn(['cat']);
      const written = pipeline(Readable.from(pieces()), child.stdin);
      await Promise.all([written, count(child.stdout)]);
      await child.wait();
    }),
  ];
}

module.exports = { defineStreams, denominators, names };
