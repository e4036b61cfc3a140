// SPDX-License-Identifier: Apache-2.0
'use strict';

// The disks of the test machine.
//
// The root disk is Debian with systemd, node and two users. It takes minutes to
// make and seldom changes, so it is kept in the user's cache folder under a hash
// of all that it is made of, and the machine boots from a throw-away snapshot of
// it. The checkout is on a disk of its own, made anew for each run.

const { spawnSync } = require('node:child_process');
const crypto = require('node:crypto');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { plainUsers } = require('./scenarios.js');

const root = path.join(__dirname, '..', '..');

const suite = 'bookworm';
const mirror = process.env.GLOVEBOX_VM_MIRROR ?? 'http://deb.debian.org/debian';

const packages = [
  'apparmor',
  'dbus',
  'dbus-user-session',
  'initramfs-tools',
  'iproute2',
  'libpam-systemd',
  'libstdc++6',
  'linux-image-cloud-amd64',
  'passwd',
  'procps',
  'python3',
  'systemd',
  'systemd-sysv',
  'udev',
  'util-linux',
];

// Much of the time goes into writing files that nobody reads.
const dpkgOptions = [
  'force-unsafe-io',
  'path-exclude=/usr/share/doc/*',
  'path-exclude=/usr/share/locale/*',
  'path-exclude=/usr/share/man/*',
];

// The kernel has ext4 built in and the virtio drivers as modules. The initrd
// has those and nothing else: under emulation, unpacking it is felt.
const initramfsFiles = {
  'etc/initramfs-tools/conf.d/glovebox':
    'MODULES=list\nBUSYBOX=n\nCOMPRESS=gzip\nRESUME=none\n',
  'etc/initramfs-tools/modules': 'virtio_pci\nvirtio_blk\n',
};

const files = {
  'etc/fstab': '/dev/vdb /opt/glovebox ext4 defaults 0 0\n',
  'etc/hostname': 'glovebox-vm\n',
  // Each costs a second of an emulated processor, and none has work here.
  'etc/modprobe.d/glovebox.conf': [
    'acpi_cpufreq',
    'binfmt_misc',
    'dm_mod',
    'evdev',
    'floppy',
    'kvm',
    'kvm_amd',
    'kvm_intel',
    'powernow_k8',
    'psmouse',
  ]
    .map((name) => `install ${name} /bin/true\n`)
    .join(''),
  'etc/systemd/system/glovebox-vm.service': fs.readFileSync(
    path.join(__dirname, 'guest', 'glovebox-vm.service'),
    'utf8',
  ),
  // A user with "linger" has a service manager from boot on, as one who is
  // logged in.
  ...Object.fromEntries(
    plainUsers
      .filter(({ linger }) => linger)
      .map(({ name }) => [`var/lib/systemd/linger/${name}`, '']),
  ),
};

const links = {
  'etc/systemd/system/default.target': '/lib/systemd/system/multi-user.target',
  'etc/systemd/system/multi-user.target.wants/glovebox-vm.service':
    '../glovebox-vm.service',
  ...Object.fromEntries(
    [
      'getty@tty1.service',
      'modprobe@configfs.service',
      'modprobe@dm_mod.service',
      'modprobe@drm.service',
      'modprobe@efi_pstore.service',
      'modprobe@fuse.service',
      'modprobe@loop.service',
      'proc-sys-fs-binfmt_misc.automount',
      'systemd-binfmt.service',
      'systemd-pstore.service',
      'systemd-update-utmp.service',
      'systemd-update-utmp-runlevel.service',
      'sys-kernel-debug.mount',
      'sys-kernel-tracing.mount',
    ].map((name) => [`etc/systemd/system/${name}`, '/dev/null']),
  ),
};

function run(command, args, options) {
  const { status, signal, error, stderr, stdout } = spawnSync(command, args, {
    encoding: 'utf8',
    maxBuffer: 64 * 2 ** 20,
    ...options,
  });
  if (error) throw error;
  if (status !== 0) {
    const words = [command, ...args].join(' ');
    throw new Error(`\`${words}\` failed (${status ?? signal}):\n${stderr}`);
  }
  return stdout;
}

function place(tree, name, text) {
  const file = path.join(tree, name);
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, text);
}

function makeDisk(tree, file, mebibytes) {
  fs.rmSync(file, { force: true });
  // Without a journal: nobody reads the disk after a crash.
  run('mke2fs', [
    ...['-q', '-t', 'ext4', '-O', '^has_journal', '-m', '0'],
    ...['-E', 'root_owner=0:0', '-d', tree],
    ...[file, `${mebibytes}M`],
  ]);
}

// ---- The root disk ---------------------------------------------------------

function hashRecipe() {
  const hash = crypto.createHash('sha256');
  const parts = { suite, mirror, packages, dpkgOptions, plainUsers };
  hash.update(JSON.stringify([parts, initramfsFiles, files, links]));
  hash.update(fs.readFileSync(__filename));
  hash.update(fs.readFileSync(process.execPath));
  return hash.digest('hex').slice(0, 16);
}

function installDebian(tree) {
  const stage = fs.mkdtempSync(path.join(os.tmpdir(), 'glovebox-vm-'));
  try {
    for (const [name, text] of Object.entries(initramfsFiles)) {
      place(stage, name, text);
    }
    run('mmdebstrap', [
      '--mode=root',
      '--variant=essential',
      '--format=directory',
      `--include=${packages.join(',')}`,
      ...dpkgOptions.map((option) => `--dpkgopt=${option}`),
      // Before the kernel is installed, which makes the initrd.
      `--essential-hook=cp -a '${stage}/.' "$1"`,
      suite,
      tree,
      `deb ${mirror} ${suite} main`,
    ]);
  } finally {
    fs.rmSync(stage, { recursive: true });
  }
}

function addUsers(tree) {
  for (const { name, uid } of plainUsers) {
    const options = ['--create-home', '--shell=/bin/bash', `--uid=${uid}`];
    run('chroot', [tree, 'useradd', ...options, name]);
  }
}

// This node, with those of its libraries that Debian 12 does not have.
function addNode(tree) {
  fs.copyFileSync(process.execPath, path.join(tree, 'usr/bin/node'));
  for (const [, file] of run('ldd', [process.execPath]).matchAll(
    /(\/\S+) \(0x/g,
  )) {
    const copy = path.join(tree, file);
    if (fs.existsSync(copy)) continue;
    fs.mkdirSync(path.dirname(copy), { recursive: true });
    fs.copyFileSync(file, copy);
  }
  const version = run('chroot', [tree, 'node', '--version']).trim();
  if (version !== process.version) throw new Error(`node is ${version}`);
}

function findBoot(tree, prefix) {
  const folder = path.join(tree, 'boot');
  const name = fs.readdirSync(folder).find((entry) => entry.startsWith(prefix));
  return path.join(folder, name);
}

function buildRootDisk(folder) {
  const tree = path.join(folder, 'tree');
  installDebian(tree);
  addUsers(tree);
  addNode(tree);
  for (const [name, text] of Object.entries(files)) place(tree, name, text);
  fs.mkdirSync(path.join(tree, 'opt/glovebox'), { recursive: true });
  for (const [name, target] of Object.entries(links)) {
    const link = path.join(tree, name);
    fs.mkdirSync(path.dirname(link), { recursive: true });
    fs.rmSync(link, { force: true });
    fs.symlinkSync(target, link);
  }
  fs.copyFileSync(findBoot(tree, 'vmlinuz-'), path.join(folder, 'vmlinuz'));
  fs.copyFileSync(findBoot(tree, 'initrd.img-'), path.join(folder, 'initrd'));
  makeDisk(tree, path.join(folder, 'root.img'), 2048);
  fs.rmSync(tree, { recursive: true });
}

function cacheFolder() {
  const home = process.env.XDG_CACHE_HOME || path.join(os.homedir(), '.cache');
  return path.join(home, 'glovebox-vm');
}

// Those of other recipes that nobody has used for a week.
function removeOldImages(cache) {
  for (const name of fs.readdirSync(cache)) {
    const folder = path.join(cache, name);
    const ageMs = Date.now() - fs.statSync(folder).mtimeMs;
    if (ageMs > 7 * 24 * 3600 * 1000) fs.rmSync(folder, { recursive: true });
  }
}

/** `{kernel, initrd, disk, made}`: paths, and whether it was made just now. */
function prepareRootDisk() {
  const cache = cacheFolder();
  const folder = path.join(cache, hashRecipe());
  const made = !fs.existsSync(folder);
  if (made) {
    if (process.getuid() !== 0) {
      throw new Error(
        `making the disk of the test machine takes root. Once it is in ${cache}, ` +
          'any user can run it',
      );
    }
    fs.mkdirSync(cache, { recursive: true });
    // Under another name, so that half an image is never taken for one.
    const unfinished = fs.mkdtempSync(path.join(cache, 'unfinished-'));
    try {
      buildRootDisk(unfinished);
      fs.renameSync(unfinished, folder);
    } catch (error) {
      fs.rmSync(unfinished, { recursive: true, force: true });
      throw error;
    }
  }
  const now = new Date();
  fs.utimesSync(folder, now, now);
  removeOldImages(cache);
  return {
    kernel: path.join(folder, 'vmlinuz'),
    initrd: path.join(folder, 'initrd'),
    disk: path.join(folder, 'root.img'),
    made,
  };
}

// ---- The disk with the checkout --------------------------------------------

// What an installed package has, and what the tests need.
const checkoutFiles = [
  ...require(path.join(root, 'package.json')).files,
  'package.json',
  'examples',
  'test',
];

/** Writes a disk with the built checkout and `choice` to `file`. */
function makeCheckoutDisk(file, choice) {
  const stage = fs.mkdtempSync(path.join(os.tmpdir(), 'glovebox-vm-'));
  try {
    for (const name of checkoutFiles) {
      const target = path.join(stage, name);
      fs.mkdirSync(path.dirname(target), { recursive: true });
      fs.cpSync(path.join(root, name), target, { recursive: true });
    }
    place(stage, 'test/vm/choice.json', JSON.stringify(choice));
    // The clone may be private to its owner; the machine's users are others.
    if (process.getuid() === 0) run('chown', ['-R', '0:0', stage]);
    run('chmod', ['-R', 'u+rwX,go+rX', stage]);
    makeDisk(stage, file, 128);
  } finally {
    fs.rmSync(stage, { recursive: true });
  }
}

module.exports = { makeCheckoutDisk, prepareRootDisk };
