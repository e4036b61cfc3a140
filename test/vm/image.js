// SPDX-License-Identifier: Apache-2.0
'use strict';

// The disks of the test machine.
//
// The root disk is Debian with systemd, node and two users. It takes minutes to
// make and seldom changes, so it is kept in the user's cache folder under a hash
// of all that it is made of, and the machine boots from a throw-away snapshot of
// it. The checkout is on a disk of its own, made anew for each run.
//
// Where the machine's architecture is not the host's, Debian's programs that
// set packages up are emulated too, and beside the disk lies what compiles for
// it: the machine's headers and libraries, and Node's.

const { spawnSync } = require('node:child_process');
const crypto = require('node:crypto');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { architectures } = require('./architectures.js');
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
  'passwd',
  'procps',
  'python3',
  'systemd',
  'systemd-sysv',
  'udev',
  'util-linux',
];

// What the compiled part is linked with, and what tests compile with.
const developerPackages = [
  'gcc',
  'libc6-dev',
  'libcjson-dev',
  'libseccomp-dev',
];

// Much of the time goes into writing files that nobody reads.
const dpkgOptions = [
  'force-unsafe-io',
  'path-exclude=/usr/share/doc/*',
  'path-exclude=/usr/share/locale/*',
  'path-exclude=/usr/share/man/*',
];

// Some kernels have ext4 and the virtio drivers built in, some as modules. The
// initrd has those and nothing else: under emulation, unpacking it is felt.
const initramfsFiles = {
  'etc/initramfs-tools/conf.d/glovebox':
    'MODULES=list\nBUSYBOX=n\nCOMPRESS=gzip\nRESUME=none\n',
  'etc/initramfs-tools/modules': 'virtio_pci\nvirtio_blk\next4\n',
};

const files = {
  // On a busy host it takes the machine more than systemd's 90 s to see a disk.
  'etc/fstab':
    '/dev/vdb /opt/glovebox ext4 x-systemd.device-timeout=infinity 0 0\n',
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
  // Where something is missing the machine ends, and waits for nobody.
  'etc/systemd/system/emergency.service':
    '[Unit]\nDefaultDependencies=no\n' +
    '[Service]\nType=oneshot\nExecStart=systemctl --force poweroff\n',
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

const isForeign = (name) => name !== process.arch;

function hashRecipe(name) {
  const hash = crypto.createHash('sha256');
  const parts = { suite, mirror, packages, dpkgOptions, plainUsers };
  hash.update(JSON.stringify([parts, initramfsFiles, files, links]));
  const { debian, kernel } = architectures[name];
  hash.update(JSON.stringify([debian, kernel, developerPackages]));
  hash.update(fs.readFileSync(__filename));
  hash.update(
    isForeign(name) ? process.version : fs.readFileSync(process.execPath),
  );
  return hash.digest('hex').slice(0, 16);
}

// For as long as the disk is made, and with a name of its own: the host may
// have another rule for the same programs.
function emulatePrograms({ emulator, binfmt }) {
  const folder = '/proc/sys/fs/binfmt_misc';
  const isMounted = fs.existsSync(`${folder}/register`);
  if (!isMounted) run('mount', ['-t', 'binfmt_misc', 'binfmt_misc', folder]);
  const rule = `glovebox-vm-${process.pid}`;
  const bytes = (hex) => hex.replaceAll(/../g, '\\x$&');
  const { magic, mask } = binfmt;
  // F: the emulator is opened now, on the host.
  fs.writeFileSync(
    `${folder}/register`,
    `:${rule}:M::${bytes(magic)}:${bytes(mask)}:${emulator}:F`,
  );
  return () => {
    fs.writeFileSync(`${folder}/${rule}`, '-1');
    if (!isMounted) run('umount', [folder]);
  };
}

function installDebian(name, tree) {
  const { debian, kernel } = architectures[name];
  const all = [...packages, kernel];
  if (isForeign(name)) all.push(...developerPackages);
  const stage = fs.mkdtempSync(path.join(os.tmpdir(), 'glovebox-vm-'));
  try {
    for (const [file, text] of Object.entries(initramfsFiles)) {
      place(stage, file, text);
    }
    run('mmdebstrap', [
      '--mode=root',
      '--variant=essential',
      '--format=directory',
      `--architectures=${debian}`,
      // It looks for a rule of a name that it knows.
      '--skip=check/qemu',
      `--include=${all.join(',')}`,
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
}

// The same version for another architecture, with its headers.
function addForeignNode(name, tree, folder) {
  const spec = `node-linux-${name}@${process.versions.node}`;
  const [{ filename }] = JSON.parse(
    run('npm', ['pack', '--json', `--pack-destination=${folder}`, spec]),
  );
  const archive = path.join(folder, filename);
  run('tar', ['-xzf', archive, '-C', folder, 'package/bin', 'package/include']);
  fs.rmSync(archive);
  const unpacked = path.join(folder, 'package');
  fs.renameSync(
    path.join(unpacked, 'bin/node'),
    path.join(tree, 'usr/bin/node'),
  );
  fs.renameSync(unpacked, path.join(folder, 'node'));
}

// What a compiler on the host needs of the machine.
function keepLibraries(name, tree, folder) {
  fs.mkdirSync(path.join(folder, 'usr/lib'), { recursive: true });
  const { triplet } = architectures[name];
  for (const part of ['usr/include', `usr/lib/${triplet}`]) {
    run('cp', ['-a', path.join(tree, part), path.join(folder, part)]);
  }
  // Debian's linker scripts and links name both.
  fs.symlinkSync('usr/lib', path.join(folder, 'lib'));
}

function findBoot(tree, prefix) {
  const folder = path.join(tree, 'boot');
  const name = fs.readdirSync(folder).find((entry) => entry.startsWith(prefix));
  return path.join(folder, name);
}

function buildRootDisk(name, folder) {
  const stopEmulation = isForeign(name)
    ? emulatePrograms(architectures[name])
    : () => {};
  const tree = path.join(folder, 'tree');
  try {
    installDebian(name, tree);
    addUsers(tree);
    if (isForeign(name)) addForeignNode(name, tree, folder);
    else addNode(tree);
    const version = run('chroot', [tree, 'node', '--version']).trim();
    if (version !== process.version) throw new Error(`node is ${version}`);
  } finally {
    stopEmulation();
  }
  if (isForeign(name)) keepLibraries(name, tree, path.join(folder, 'sysroot'));
  for (const [file, text] of Object.entries(files)) place(tree, file, text);
  fs.mkdirSync(path.join(tree, 'opt/glovebox'), { recursive: true });
  for (const [file, target] of Object.entries(links)) {
    const link = path.join(tree, file);
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

/**
 * Of the machine of architecture `name`: `{folder, kernel, initrd, disk, made}`,
 * paths, and whether it was made just now.
 */
function prepareRootDisk(name) {
  const cache = cacheFolder();
  const folder = path.join(cache, hashRecipe(name));
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
      buildRootDisk(name, unfinished);
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
    folder,
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

/**
 * Writes a disk with the checkout and `choice` to `file`. The compiled part comes
 * from the checkout too, or from `compiled`, where that of the machine is, and
 * its tests in C.
 */
function makeCheckoutDisk(file, choice, compiled = root) {
  const stage = fs.mkdtempSync(path.join(os.tmpdir(), 'glovebox-vm-'));
  try {
    for (const name of checkoutFiles) {
      const target = path.join(stage, name);
      fs.mkdirSync(path.dirname(target), { recursive: true });
      const from = name.startsWith('build/') ? compiled : root;
      fs.cpSync(path.join(from, name), target, { recursive: true });
    }
    if (compiled !== root) {
      const units = 'build/c-units';
      fs.cpSync(path.join(compiled, units), path.join(stage, units), {
        recursive: true,
      });
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
