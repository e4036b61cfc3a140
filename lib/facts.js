// SPDX-License-Identifier: Apache-2.0
'use strict';

// What this host says of itself, for the text of a failure and for doctor().
// Nothing is read before it is asked for, and nothing while all is well.

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { launcherPath } = require('./paths.js');

const probeTimeoutMs = 5000;

const cgroupNames = [
  [/kubepods/, 'kubernetes'],
  [/libpod/, 'podman'],
  [/docker/, 'docker'],
  [/\/lxc/, 'lxc'],
];

class Facts {
  #root;
  #env;
  #runProbe;
  #probed;

  /**
   * `root` is the folder that stands for "/", `runProbe` what gives the lines
   * of the launcher's probe: tests have others.
   */
  constructor({
    root = '/',
    env = process.env,
    uid = process.getuid?.(),
    launcher = launcherPath(),
    runProbe = () => runLauncherProbe(launcher),
  } = {}) {
    this.#root = root;
    this.#env = env;
    this.#runProbe = runProbe;
    this.uid = uid;
    this.launcher = launcher;
  }

  /** The text of a file without spaces around it; undefined if unreadable. */
  read(file) {
    try {
      return fs.readFileSync(this.#at(file), 'utf8').trim();
    } catch {
      return undefined;
    }
  }

  exists(file) {
    return fs.existsSync(this.#at(file));
  }

  /** "1" for `kernel.some_switch`; undefined where the kernel has none. */
  sysctl(name) {
    return this.read(`/proc/sys/${name.replaceAll('.', '/')}`);
  }

  /** `{name, value}` of each limit of namespaces. */
  get namespaceLimits() {
    const folder = '/proc/sys/user';
    let names = [];
    try {
      names = fs.readdirSync(this.#at(folder));
    } catch {
      // A /proc without them.
    }
    return names
      .filter((name) => /^max_\w+_namespaces$/.test(name))
      .sort()
      .map((name) => ({
        name: `user.${name}`,
        value: Number(this.read(`${folder}/${name}`)),
      }));
  }

  /** What kind of container this is in, as far as it shows. */
  get container() {
    if (this.#env.KUBERNETES_SERVICE_HOST) return 'kubernetes';
    if (this.exists('/run/.containerenv')) return 'podman';
    if (this.exists('/.dockerenv')) return 'docker';
    const cgroup = this.read('/proc/self/cgroup') ?? '';
    const named = cgroupNames.find(([pattern]) => pattern.test(cgroup));
    if (named) return named[1];
    // Only root may read it, and only a container manager sets it.
    const manager = /(?:^|\0)container=([^\0]+)/.exec(
      this.read('/proc/1/environ') ?? '',
    );
    return manager?.[1] ?? this.read('/run/systemd/container');
  }

  /** Whether a system call filter was put on this process from outside. */
  get isFiltered() {
    return /^Seccomp:\s*2/m.test(this.read('/proc/self/status') ?? '');
  }

  /**
   * A chroot shows in that "/" is no mount of this namespace, or is not that of
   * pid 1, where one may look at it.
   */
  get isChroot() {
    const mounts = this.#mounts();
    if (mounts.length > 0 && !mounts.includes('/')) return true;
    try {
      // Another mount namespace (a container that sees the host's processes)
      // has another "/" and is no chroot.
      const [own, first] = ['self', '1'].map((pid) => ({
        namespace: fs.readlinkSync(this.#at(`/proc/${pid}/ns/mnt`)),
        root: fs.statSync(this.#at(`/proc/${pid}/root/`)),
      }));
      return (
        own.namespace === first.namespace &&
        (own.root.ino !== first.root.ino || own.root.dev !== first.root.dev)
      );
    } catch {
      return false;
    }
  }

  #at(file) {
    return path.join(this.#root, file);
  }

  /** What is mounted over parts of /proc, such as "/proc/kcore". */
  get coversOfProc() {
    return this.#mounts().filter(
      // systemd's mount over an empty folder hides nothing.
      (target) =>
        target.startsWith('/proc/') && target !== '/proc/sys/fs/binfmt_misc',
    );
  }

  #mounts() {
    const lines = (this.read('/proc/self/mountinfo') ?? '').split('\n');
    return lines.map((line) => line.split(' ')[4]).filter(Boolean);
  }

  /**
   * What the launcher sees that this process does not: the security profile
   * that its file has, and which system calls are to be had.
   */
  get probe() {
    this.#probed ??= readProbe(this.#runProbe());
    return this.#probed;
  }

  /** The profile that confines the launcher; undefined if none does. */
  get profile() {
    // "name (mode)"; SELinux has contexts with colons in them instead.
    const [, name, mode] = /^(.*) \((\w+)\)$/.exec(this.probe.profile) ?? [];
    return mode && mode !== 'unconfined' && mode !== 'complain'
      ? name
      : undefined;
  }
}

function runLauncherProbe(launcher) {
  const { stdout, signal } = spawnSync(launcher, ['probe'], {
    cwd: '/',
    env: {},
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
    timeout: probeTimeoutMs,
    killSignal: 'SIGKILL',
  });
  return { stdout: stdout ?? '', signal };
}

/**
 * `{profile, calls, killedFor, ...}`: texts by name, the errno of each call, and
 * the call that the probe was killed for.
 */
function readProbe({ stdout, signal }) {
  const probe = { profile: '', calls: {}, killedFor: undefined, landlock: 0 };
  const texts = ['profile', 'filters', 'capabilities'];
  const lines = stdout.split('\n').filter(Boolean);
  for (const line of lines) {
    const [, name, value] = /^(\w+) (.*)$/.exec(line) ?? [];
    if (signal === 'SIGSYS' && value === '' && !texts.includes(name)) {
      probe.killedFor = name;
    } else if (texts.includes(name)) probe[name] = value;
    else if (name === 'landlock') probe.landlock = Number(value);
    else if (name) probe.calls[name] = Number(value);
  }
  return probe;
}

module.exports = { Facts };
