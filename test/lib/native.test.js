// SPDX-License-Identifier: Apache-2.0
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { afterEach, beforeEach, describe, test } = require('node:test');
const {
  adviseToBuild,
  checkPlatform,
  isSupported,
  load,
} = require('../../lib/native.js');
const { version } = require('../../package.json');

let folder;

beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'glovebox-native-'));
});

afterEach(() => {
  fs.rmSync(folder, { recursive: true });
});

function write(name, content, mode) {
  const file = path.join(folder, name);
  fs.writeFileSync(file, content, { mode });
  return file;
}

function loadError() {
  try {
    load(folder);
  } catch (error) {
    assert.equal(error.code, 'ERR_SANDBOX_LOAD');
    assert.match(error.message, /Run `npm run build`/);
    return error;
  }
  throw new Error('it loaded');
}

describe('loading', () => {
  test('without a build lists each path and the remedy', () => {
    const { message } = loadError();
    for (const name of ['glovebox.node', 'launcher', 'join.so']) {
      const line = `${path.join(folder, name)}: there is no such file`;
      assert.ok(message.includes(line), message);
    }
  });

  test('tells why an addon does not load', () => {
    write('glovebox.node', 'not a library', 0o644);
    write('launcher', '#!/bin/true', 0o755);
    const error = loadError();
    assert.match(error.message, /glovebox\.node: .*(ELF|short|invalid)/);
    assert.equal(error.cause.code, 'ERR_DLOPEN_FAILED');
    assert.doesNotMatch(error.message, /launcher/);
  });

  test('tells of an addon for another processor that it is', () => {
    const built = path.join(__dirname, '../../build/Release/glovebox.node');
    const addon = fs.readFileSync(built);
    const isArm = process.arch === 'arm64';
    addon.writeUInt16LE(isArm ? 62 : 183, 18); // in ELF, the machine
    write('glovebox.node', addon, 0o644);
    write('launcher', '#!/bin/true', 0o755);
    const other = isArm ? 'x64' : 'arm64';
    assert.ok(
      loadError().message.includes(
        `this was built for ${other}, and this Node is of ${process.arch}`,
      ),
    );
  });

  test('never makes a launcher executable', () => {
    const launcher = write('launcher', 'x', 0o644);
    assert.match(
      loadError().message,
      /launcher: .*not executable \(`chmod 755`/,
    );
    assert.equal(fs.statSync(launcher).mode & 0o777, 0o644);
    fs.rmSync(launcher);
    fs.mkdirSync(launcher);
    assert.match(loadError().message, /launcher: this is not a file/);
  });

  // A module with the name of the addon takes its place: what counts is what
  // the loader does with its version.
  test('refuses a build of another version', () => {
    const addon = write('glovebox.node', '', 0o644);
    write('launcher', 'x', 0o755);
    write('join.so', '', 0o644);
    const fake = (exports) => {
      require.cache[addon] = {
        id: addon,
        filename: addon,
        loaded: true,
        exports,
      };
    };
    fake({ version: '0.0.1' });
    assert.match(
      loadError().message,
      new RegExp(`is of version 0\\.0\\.1, not ${version}`),
    );
    const current = { version };
    fake(current);
    assert.deepEqual(load(folder), {
      native: current,
      launcher: path.join(folder, 'launcher'),
    });
    delete require.cache[addon];
  });
});

test('who has the sources is told where to build, others to install anew', () => {
  assert.match(adviseToBuild(folder), /in a checkout of glovebox.*install it/);
  write('binding.gyp', '{}', 0o644);
  assert.equal(
    adviseToBuild(folder),
    `Run \`npm run build\` in ${folder} to compile it.`,
  );
});

test('other platforms are refused by name, before anything is loaded', () => {
  const refusal = (platform, versions) => {
    try {
      checkPlatform({ platform, versions });
      return undefined;
    } catch (error) {
      assert.equal(error.code, 'ERR_SANDBOX_UNSUPPORTED_PLATFORM');
      return error.message;
    }
  };
  assert.match(refusal('darwin', {}), /Linux only, and this is darwin/);
  assert.match(refusal('win32', {}), /WSL 2/);
  assert.match(refusal('linux', { bun: '1.4.5' }), /does not run on Bun yet/);
  assert.match(refusal('linux', { deno: '2.9.6' }), /does not run on Deno yet/);
  assert.equal(refusal('linux', { node: '20.0.0' }), undefined);
});

test('isSupported answers without throwing', () => {
  assert.equal(typeof isSupported(), 'boolean');
});
