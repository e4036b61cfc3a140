// SPDX-License-Identifier: Apache-2.0
'use strict';

// One run of the test machine: an emulated computer without a network. What the tests
// in it report comes over a port of its own, which is qemu's standard output;
// the console goes to a file.

const { spawn, spawnSync } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const readline = require('node:readline');
const { architectures } = require('./architectures.js');

const kernelArguments = (console) => [
  'root=/dev/vda',
  'rw',
  `console=${console}`,
  'quiet',
  'mitigations=off',
  // On a busy host the emulated timer may come too late for the kernel's test of
  // it, which panics; and a machine that panics must end.
  'no_timer_check',
  'panic=1',
  'systemd.default_timeout_start_sec=1200',
  `systemd.mask=serial-getty@${console}.service`,
];

function qemuArguments({
  architecture,
  kernel,
  initrd,
  disk,
  checkout,
  consoleFile,
}) {
  const { machine, console } = architectures[architecture];
  return [
    ...machine,
    ...['-nodefaults', '-no-user-config', '-no-reboot'],
    ...['-display', 'none', '-monitor', 'none'],
    ...['-smp', '2', '-m', '2048'],
    ...['-kernel', kernel, '-initrd', initrd],
    ...['-append', kernelArguments(console).join(' ')],
    // What is written to the disks is gone with qemu.
    ...['-drive', `file=${disk},if=virtio,format=raw,snapshot=on`],
    ...['-drive', `file=${checkout},if=virtio,format=raw,snapshot=on`],
    ...['-device', 'virtio-rng-pci'],
    ...['-serial', `file:${consoleFile}`],
    ...['-chardev', 'stdio,id=results,signal=off'],
    ...['-device', 'virtio-serial-pci'],
    ...['-device', 'virtserialport,chardev=results,name=glovebox'],
  ];
}

function requirePrograms(qemu) {
  for (const program of [qemu, 'mke2fs', 'setpriv']) {
    if (spawnSync(program, ['--version']).error) {
      throw new Error(`${program} is not installed: see run.js`);
    }
  }
}

class Machine {
  #child;
  #lines;
  #ended;
  #consoleFile;
  #isLate = false;
  #isOver = false;

  /** Starts it. It ends by itself, or at `timeoutS`, or with this process. */
  constructor({ timeoutS, ...parts }) {
    const { qemu } = architectures[parts.architecture];
    requirePrograms(qemu);
    this.#consoleFile = parts.consoleFile;
    // A qemu that outlives a killed test run would eat a processor for ever.
    const command = ['--pdeathsig', 'KILL', '--', qemu];
    // Its standard input stays open: at the end of it qemu would take the port's
    // reader for gone, and let the machine's writes wait for ever.
    this.#child = spawn('setpriv', [...command, ...qemuArguments(parts)], {
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    let stderr = '';
    this.#child.stderr.setEncoding('utf8').on('data', (text) => {
      stderr += text;
    });
    const deadline = setTimeout(() => {
      this.#isLate = true;
      this.kill();
    }, timeoutS * 1000);
    this.#ended = once(this.#child, 'close').then(([exitCode, signal]) => {
      clearTimeout(deadline);
      return { exitCode, signal, stderr };
    });
    this.#lines = readline
      .createInterface({ input: this.#child.stdout })
      [Symbol.asyncIterator]();
  }

  /** The next event; rejects if the machine ended. */
  async next() {
    if (this.#isOver) throw new Error('the machine has ended');
    const { value, done } = await this.#lines.next();
    if (!done) {
      const event = JSON.parse(value);
      if (event.type === 'broken') throw new Error(event.error);
      return event;
    }
    // Once is enough: those who still wait need not hear the reason again.
    this.#isOver = true;
    const { exitCode, signal, stderr } = await this.#ended;
    const why = this.#isLate
      ? 'did not end in time'
      : `ended too early (${exitCode ?? signal})`;
    throw new Error(
      `the machine ${why}. ${stderr}\n` +
        `Its console ended with:\n${this.consoleTail()}`,
    );
  }

  consoleTail() {
    return fs.readFileSync(this.#consoleFile, 'utf8').slice(-3000);
  }

  /** Resolves when it has powered itself off. */
  async powerOff() {
    const { exitCode, signal, stderr } = await this.#ended;
    if (exitCode !== 0) {
      throw new Error(`qemu ended with ${exitCode ?? signal}: ${stderr}`);
    }
  }

  kill() {
    this.#child.kill('SIGKILL');
  }
}

module.exports = { Machine };
