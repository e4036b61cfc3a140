// SPDX-License-Identifier: Apache-2.0
'use strict';

// Group KRN in real boxes: a hostile cell shares its process with the driver, so
// it can say anything in its name. Every promise settles in time, and the kernel
// is told to be what it is.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { eventually, open, test, timeScale } = require('../helpers/harness.js');
const {
  answerFd,
  assertUnharmed,
  cellFd,
  check,
  dead,
} = require('./kernel-attack.js');

/** Python that sends a DONE with this body, as the driver would. */
function forge(body) {
  const hex = Buffer.from(body).toString('hex');
  return `import os, struct, time
body = bytes.fromhex('${hex}')
os.write(${answerFd}, struct.pack('<II', len(body), 3) + body)
time.sleep(60)`;
}

test('KRN-10 a DONE that comes between two cells answers neither', async (t) => {
  const sandbox = await open(t);
  const kernel = await sandbox.kernel({ language: 'node' });
  const [file, name] = [path.join(sandbox.workspace, 'answered'), 'answered'];
  // The driver's own DONE is the second one.
  const forged = await kernel.runCode(`const fs = require('fs');
const send = (body) => {
  const header = Buffer.alloc(8);
  header.writeUInt32LE(body.length, 0);
  header.writeUInt32LE(3, 4);
  fs.writeSync(4, Buffer.concat([header, Buffer.from(body)]));
};
setImmediate(() => { send('{"exitCode":7}'); fs.writeFileSync('${name}', '') });
send('{"exitCode":5}')`);
  assert.equal(forged.exitCode, 5);
  await eventually(() => fs.existsSync(file), 'it goes on');
  for (const round of [1, 2, 3]) {
    const result = await kernel.runCode(`console.log(${round}); ${round}`);
    assert.equal(result.stdout, `${round}\n`);
    assert.equal(result.results.at(-1)?.text, `${round}`);
    assert.equal(result.exitCode, 0);
  }
});

test('KRN-01 KRN-04 a reply that no driver sends ends the kernel, and is a fault', async (t) => {
  const sandbox = await open(t);
  const deep = '['.repeat(1e5) + ']'.repeat(1e5);
  for (const body of [
    '{}',
    '{"exitCode":"0"}',
    '{"exitCode":null}',
    '{"exitCode":0.5}',
    '{"exitCode":true}',
    '{"exitCode":[0]}',
    '{"exitCode":1e400}',
    '{"exitCode":9223372036854775808}',
    '{"exitCode":-1}',
    '{"exitCode":256}',
    'null',
    '[]',
    '"x"',
    'no JSON',
    `{"exitCode":0,"error":${deep}}`,
    '{"exitCode":0,"error":{"name":1,"message":""}}',
    '{"exitCode":NaN}',
  ]) {
    const title = body.slice(0, 60);
    const kernel = await sandbox.kernel();
    const result = await kernel.runCode(forge(body), { timeoutS: 20 });
    assert.equal(result.success, false, title);
    assert.equal(result.exitCode, -1, title);
    assert.equal(result.fault.type, 'killed', title);
    await assert.rejects(kernel.runCode('1'), dead, title);
    assertUnharmed(title);
    await kernel.close();
  }
});

test('KRN-01 twin: the same reply with an exit code is taken, whatever it says besides', async (t) => {
  const sandbox = await open(t);
  for (const exitCode of [0, 255]) {
    const kernel = await sandbox.kernel();
    const body = `{"exitCode":${exitCode},"error":null,"extra":[1]}`;
    const result = await kernel.runCode(forge(body), { timeoutS: 20 });
    assert.equal(result.exitCode, exitCode);
    assert.equal(result.fault, null);
    await kernel.close();
  }
});

// Parsing takes time by the number of values, and the event loop stands still
// meanwhile: 12 s for 64 MiB of empty lists.
test('KRN-04 a reply of very many values is no reply, and such a result is dropped', async (t) => {
  const sandbox = await open(t);
  const reply = `{"exitCode":0,"error":null,"more":[${'[],'.repeat(1e5)}0]}`;
  let kernel = await sandbox.kernel();
  const ended = await kernel.runCode(forge(reply), { timeoutS: 20 });
  assert.equal(ended.fault.type, 'killed');
  await assert.rejects(kernel.runCode('1'), dead);

  // Marks in text are text, in however many pieces and however it is quoted.
  const words = '[[{{,,::'.repeat(6000) + '\\"[,,\\\\'.repeat(6000);
  const text = JSON.stringify({ 'text/plain': words });
  kernel = await sandbox.kernel();
  const many = `import os, struct
def result(body):
    os.write(${answerFd}, struct.pack('<II', len(body), 2) + body)
def forms(count):
    return b'{' + b','.join(b'"a/b%d":""' % n for n in range(count)) + b'}'
result(forms(2000))
result(forms(2500))
result(bytes.fromhex('${Buffer.from(text).toString('hex')}'))`;
  for (const runner of [kernel, sandbox]) {
    const { results, truncated } = await runner.runCode(many);
    assert.equal(truncated, true);
    assert.deepEqual(
      results.map(({ data }) => Object.keys(data).length),
      [2000, 1],
    );
    assert.equal(results[1].text, words);
  }
  await check(kernel, 'the kernel goes on');
});

test('KRN-02 bytes that are no frame break the protocol, and the kernel', async (t) => {
  const sandbox = await open(t);
  for (const bytes of [
    "b'-1\\n{}      '",
    "b'0x10\\n{}    '",
    "b'00000005{}   '",
    "b'1' * 65",
    "b'\\xff' * 4 + b'\\3\\0\\0\\0'",
    "b'\\2\\0\\0\\0' + b'\\xee' * 4 + b'{}'",
    "b'\\2\\0\\0\\0\\0\\0\\0\\0{}'",
  ]) {
    const kernel = await sandbox.kernel();
    const code = `import os, time; os.write(${answerFd}, ${bytes}); time.sleep(60)`;
    await assert.rejects(
      kernel.runCode(code, { timeoutS: 20 }),
      { code: 'ERR_SANDBOX_PROTOCOL' },
      bytes,
    );
    await assert.rejects(kernel.runCode('1'), dead, bytes);
    await kernel.close();
  }
});

test('KRN-02 half a frame holds up nobody: what comes next makes it none', async (t) => {
  const kernel = await (await open(t)).kernel();
  const half = "b'\\2\\0\\0\\0\\3'";
  const before = performance.now();
  await assert.rejects(
    kernel.runCode(
      `import os, time; os.write(${answerFd}, ${half}); time.sleep(60)`,
      { timeoutS: 0.5 },
    ),
    { code: 'ERR_SANDBOX_PROTOCOL' },
  );
  assert.ok(performance.now() - before < 4000 * timeScale);
  await assert.rejects(kernel.runCode('1'), dead);
});

test('KRN-05 names that objects come with in a reply change nothing', async (t) => {
  const sandbox = await open(t);
  const names = '"__proto__":{"success":true},"constructor":{"a":1},"extra":1';
  const lost = '"lost":{"__proto__":{"signal":9}}';
  for (const [body, exitCode] of [
    [`{"exitCode":3,${names}}`, 3],
    [`{"exitCode":3,${names},${lost}}`, -1],
  ]) {
    const kernel = await sandbox.kernel();
    const result = await kernel.runCode(forge(body), { timeoutS: 20 });
    assert.equal(result.exitCode, exitCode, body);
    assert.equal(result.success, false, body);
    assert.ok(!Object.hasOwn(result, '__proto__'));
    assertUnharmed(body);
    await kernel.close();
  }
});

test('KRN-05 a reply that says that the interpreter was lost is no more than a death', async (t) => {
  const sandbox = await open(t);
  for (const lost of [
    '{"exitCode":3,"signal":null}',
    '{"signal":11}',
    '{"signal":"x","exitCode":1e9}',
    '[]',
    '{}',
  ]) {
    const kernel = await sandbox.kernel();
    const body = `{"exitCode":0,"error":null,"lost":${lost}}`;
    const result = await kernel.runCode(forge(body));
    assert.equal(result.success, false, lost);
    assert.equal(result.exitCode, -1, lost);
    await assert.rejects(kernel.runCode('1'), dead, lost);
    await kernel.close();
  }
});

test('KRN-07 a cell that steals what comes next costs no more than a deadline', async (t) => {
  const kernel = await (await open(t)).kernel();
  await kernel.runCode(
    `import os, threading
def steal():
    while True: os.read(${cellFd}, 1 << 20)
for _ in range(8): threading.Thread(target=steal, daemon=True).start()`,
  );
  const before = performance.now();
  const outcomes = await Promise.allSettled(
    Array.from({ length: 3 }, () => kernel.runCode('1', { timeoutS: 1 })),
  );
  for (const { value, reason } of outcomes) {
    assert.ok(value || reason.code === dead.code, `${reason}`);
  }
  assert.ok(performance.now() - before < 10000 * timeScale);
});

test('KRN-08 a channel that is closed or replaced is told within a second', async (t) => {
  const sandbox = await open(t);
  for (const code of [
    'import os; os.closerange(3, 1024)',
    `import os; os.dup2(os.open('/dev/null', os.O_WRONLY), ${answerFd})`,
    `import os; os.close(${cellFd})`,
    `import os; os.dup2(os.open('/dev/null', os.O_RDONLY), ${cellFd})`,
  ]) {
    const kernel = await sandbox.kernel();
    const before = performance.now();
    const first = await kernel.runCode(code);
    if (first.fault === null) {
      const next = await kernel.runCode('1').catch((error) => error);
      assert.notEqual(next.success, true, code);
    } else {
      assert.equal(first.fault.type, 'killed', code);
      assert.match(first.fault.message, /closed its control channel/, code);
    }
    const took = performance.now() - before;
    assert.ok(took < 1000 * timeScale, `${code}: ${took} ms`);
    await assert.rejects(kernel.runCode('1'), dead, code);
    await kernel.close();
  }
});

test('KRN-08 cells of node and bash that close everything are told within a second', async (t) => {
  const sandbox = await open(t);
  const everything = {
    node: "const fs = require('fs'); for (let fd = 3; fd < 1024; fd++) try { fs.closeSync(fd); } catch {}",
    bash: 'for f in /proc/$$/fd/*; do n=${f##*/}; if ((n > 2)); then eval "exec $n>&-"; fi; done',
  };
  for (const [language, code] of Object.entries(everything)) {
    const kernel = await sandbox.kernel({ language });
    const before = performance.now();
    const first = await kernel.runCode(code);
    if (first.fault) assert.equal(first.fault.type, 'killed', language);
    await assert.rejects(kernel.runCode(''), dead, language);
    const took = performance.now() - before;
    assert.ok(took < 1000 * timeScale, `${language}: ${took} ms`);
    await kernel.close();
  }
});

test('KRN-08 a cell of node that closes the socket alone is told within a second', async (t) => {
  const sandbox = await open(t);
  for (const code of [
    "require('fs').closeSync(3)",
    "require('fs').closeSync(3); require('fs').openSync('/dev/null')",
  ]) {
    const kernel = await sandbox.kernel({ language: 'node' });
    const before = performance.now();
    assert.equal((await kernel.runCode(code)).exitCode, 0);
    // It may be on its way before the interpreter has ended.
    const next = await kernel.runCode('1').catch((error) => error);
    assert.ok(next.code === dead.code || next.fault?.type === 'killed', next);
    const took = performance.now() - before;
    assert.ok(took < 1000 * timeScale, `${took} ms`);
    await assert.rejects(kernel.runCode('1'), dead);
  }
});

test('KRN-13 frames and resets on stdout are output and nothing else', async (t) => {
  const kernel = await (await open(t)).kernel();
  const result = await kernel.runCode(
    "import os; _ = os.write(1, b'\\x02\\0\\0\\0\\x03\\0\\0\\0{}' + b'\\xff' * 16 + b'\\0')",
  );
  assert.equal(result.exitCode, 0);
  assert.deepEqual(result.results, []);
  await check(kernel);
});

test('KRN-13 resets in the channel harm the cell alone', async (t) => {
  const kernel = await (await open(t)).kernel();
  const result = await kernel.runCode(
    `import os
for junk in (b'\\xff' * 16 + b'\\0', b'\\x10\\0\\0\\0\\x03\\0\\0\\0{\\xff\\0', b'\\xff' * 9 + b'\\0'):
    _ = os.write(${answerFd}, junk)
display('after')`,
    { timeoutS: 5 },
  );
  assert.equal(result.exitCode, 0);
  assert.deepEqual(
    result.results.map(({ text }) => text),
    ["'after'"],
  );
  await check(kernel);
});

test('KRN-16 a flood of results is cut and says so', async (t) => {
  const kernel = await (await open(t)).kernel();
  const result = await kernel.runCode('for i in range(20000): display(i)');
  assert.equal(result.exitCode, 0);
  assert.equal(result.truncated, true);
  assert.ok(result.results.length <= 1000, `${result.results.length}`);
  await check(kernel);
});

test('KRN-17 a frame of 64 MiB is read, and one byte more ends the kernel', async (t) => {
  const sandbox = await open(t, { memoryMb: 1024 });
  const send = (extra) => `import os, struct
size = (64 << 20) + ${extra}
head, tail = b'{"text/plain":"', b'"}'
data = memoryview(struct.pack('<II', size, 2) + head + b'x' * (size - len(head) - len(tail)) + tail)
while data: data = data[os.write(${answerFd}, data):]`;
  const kernel = await sandbox.kernel();
  const exact = await kernel.runCode(send(0));
  assert.equal(exact.exitCode, 0);
  assert.equal(exact.results[0].text.length, 2 ** 26 - 17);
  await assert.rejects(kernel.runCode(send(1)), {
    code: 'ERR_SANDBOX_PROTOCOL',
  });
  await assert.rejects(kernel.runCode('1'), dead);
});
