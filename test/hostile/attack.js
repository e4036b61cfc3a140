// SPDX-License-Identifier: Apache-2.0
'use strict';

// The attacker's tools: programs in C, Python with raw system calls, boxes that
// are held while another one attacks. Each works outside of a box too, so that
// a test can show what the box refuses.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { mustRun, outside, packagedPython } = require('../helpers/harness.js');

// From number 424 on all architectures number alike.
const newNumbers = {
  pidfd_send_signal: 424,
  io_uring_setup: 425,
  io_uring_enter: 426,
  io_uring_register: 427,
  open_tree: 428,
  move_mount: 429,
  fsopen: 430,
  fsconfig: 431,
  fsmount: 432,
  fspick: 433,
  pidfd_open: 434,
  clone3: 435,
  openat2: 437,
  pidfd_getfd: 438,
  faccessat2: 439,
  process_madvise: 440,
  mount_setattr: 442,
  landlock_create_ruleset: 444,
  memfd_secret: 447,
  process_mrelease: 448,
  open_tree_attr: 467,
};

// As [x86_64, aarch64]; null where there is no such call.
const oldNumbers = {
  acct: [163, 89],
  add_key: [248, 217],
  adjtimex: [159, 171],
  bpf: [321, 280],
  chroot: [161, 51],
  clock_adjtime: [305, 266],
  clock_settime: [227, 112],
  clone: [56, 220],
  delete_module: [176, 106],
  fanotify_init: [300, 262],
  fcntl: [72, 25],
  finit_module: [313, 273],
  init_module: [175, 105],
  io_setup: [206, 0],
  ioctl: [16, 29],
  ioperm: [173, null],
  iopl: [172, null],
  ioprio_set: [251, 30],
  kcmp: [312, 272],
  kexec_file_load: [320, 294],
  kexec_load: [246, 104],
  keyctl: [250, 219],
  mlock: [149, 228],
  mlockall: [151, 230],
  mount: [165, 40],
  mq_open: [240, 180],
  name_to_handle_at: [303, 264],
  open_by_handle_at: [304, 265],
  perf_event_open: [298, 241],
  personality: [135, 92],
  pivot_root: [155, 41],
  prctl: [157, 167],
  prlimit64: [302, 261],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  ptrace: [101, 117],
  quotactl: [179, 60],
  reboot: [169, 142],
  request_key: [249, 218],
  sched_setscheduler: [144, 119],
  seccomp: [317, 277],
  setdomainname: [171, 162],
  setgroups: [116, 159],
  sethostname: [170, 161],
  setns: [308, 268],
  setpriority: [141, 140],
  setresgid: [119, 149],
  setresuid: [117, 147],
  setrlimit: [160, 164],
  settimeofday: [164, 170],
  setuid: [105, 146],
  shmget: [29, 194],
  socket: [41, 198],
  socketpair: [53, 199],
  statx: [332, 291],
  swapoff: [168, 225],
  swapon: [167, 224],
  syslog: [103, 116],
  umount2: [166, 39],
  unshare: [272, 97],
  userfaultfd: [323, 282],
  vhangup: [153, 58],
};

const isX64 = process.arch === 'x64';

/** Numbers of system calls here, by name. */
const numbers = { ...newNumbers };
for (const [name, pair] of Object.entries(oldNumbers)) {
  const number = pair[isX64 ? 0 : 1];
  if (number !== null) numbers[name] = number;
}

// ---- Programs in C ---------------------------------------------------------

const compiler = process.env.CC || 'gcc';
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'attack-'));
const compiled = new Map();

/** The path of programs/NAME.c, compiled, with further `options`. */
function compile(name, options = []) {
  if (!compiled.has(name)) {
    const target = path.join(folder, name);
    const source = path.join(__dirname, 'programs', `${name}.c`);
    const { stderr, status } = spawnSync(
      compiler,
      ['-std=gnu17', '-O1', '-pthread', '-o', target, source, ...options],
      { encoding: 'utf8' },
    );
    assert.equal(status, 0, stderr);
    compiled.set(name, target);
  }
  return compiled.get(name);
}

/** The same as a library, to be preloaded or loaded as an addon of Node's. */
function compileLibrary(name) {
  return compile(name, ['-shared', '-fPIC']);
}

/** Whether programs can be compiled. Where skips are forbidden they must be. */
function hasCompiler() {
  const found = spawnSync(compiler, ['--version']).status === 0;
  if (mustRun) assert.ok(found, `no ${compiler}`);
  return found;
}

/** Puts a compiled program into the workspace; gives its path in the box. */
async function place(sandbox, name) {
  await sandbox.writeFile(name, fs.readFileSync(compile(name)));
  fs.chmodSync(path.join(sandbox.workspace, name), 0o755);
  return `./${name}`;
}

/**
 * One system call by name, see programs/call.c. `inside` gives the box's
 * result; `outside` gives what the program printed: "RESULT ERRNO".
 */
async function placeCaller(sandbox) {
  const program = await place(sandbox, 'call');
  const words = (name, args) => [
    String(numbers[name] ?? name),
    ...args.map(String),
  ];
  return {
    inside: (name, ...args) => sandbox.run([program, ...words(name, args)]),
    outside(name, ...args) {
      const { exitCode, signal, stdout, stderr } = outside([
        compile('call'),
        ...words(name, args),
      ]);
      assert.deepEqual(
        { exitCode, signal, stderr },
        {
          exitCode: 0,
          signal: null,
          stderr: '',
        },
      );
      return stdout.trim();
    },
  };
}

// ---- Verdicts --------------------------------------------------------------

/** The box was ended for a call that it may not make. */
function assertBlocked(result, title) {
  const { exitCode, signal, success, fault } = result;
  assert.deepEqual(
    { exitCode, signal, success, fault: fault?.type },
    {
      exitCode: 159,
      signal: 'SIGSYS',
      success: false,
      fault: 'escape_blocked',
    },
    `${title}: ${result.stdout}${result.stderr}`,
  );
}

/** The code came to its end. */
function assertFinished(result, title = '') {
  const { exitCode, signal, fault, stderr } = result;
  assert.deepEqual(
    { exitCode, signal, fault, stderr },
    { exitCode: 0, signal: null, fault: null, stderr: '' },
    title,
  );
}

// ---- Python ----------------------------------------------------------------

const prelude = `
import ctypes, errno, json, os, sys, time
NUMBERS = json.loads('${JSON.stringify(numbers)}')
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

def call(name, *arguments):
    """The result of a raw system call, or the name of its errno."""
    number = NUMBERS[name] if isinstance(name, str) else name
    converted = [value if isinstance(value, (bytes, ctypes.Array)) else
                 ctypes.byref(value) if isinstance(value, ctypes.Structure) else
                 ctypes.c_ulong(value & (1 << 64) - 1) for value in arguments]
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *converted)
    return result if result != -1 else errno.errorcode[ctypes.get_errno()]

def attempt(function, *arguments, **options):
    """The result, or the name of the errno that it raises."""
    try:
        return function(*arguments, **options)
    except OSError as error:
        return errno.errorcode[error.errno]

def read(path):
    """The first bytes of a file, or the name of an errno."""
    def read_bytes():
        with open(path, 'rb') as file:
            return file.read(65536).decode('latin1')
    return attempt(read_bytes)

def hold():
    """Says that it is ready, and waits for the host's release()."""
    print('READY', flush=True)
    while not os.path.exists('/workspace/release'):
        time.sleep(0.005)
`;

/** Runs `code` with the prelude, which sets `answer`, and gives that. */
async function ask(sandbox, code, options) {
  const result = await sandbox.runCode(script(code), options);
  assertFinished(result);
  return parseAnswer(result.stdout);
}

/** The same outside of any box: the twin. */
function askOutside(code, options) {
  const python = packagedPython ?? 'python3';
  const result = outside([python, '-c', script(code)], options);
  assert.equal(result.exitCode, 0, result.stderr);
  return parseAnswer(result.stdout);
}

function script(code) {
  return `${prelude}\n${code}\nprint(json.dumps(answer))`;
}

function parseAnswer(stdout) {
  return JSON.parse(stdout.trim().split('\n').at(-1));
}

/**
 * Starts `code`, whose `hold()` waits for `release()`. `ready` resolves when it
 * holds; `answer` with what it sets in the end.
 */
function askAndHold(sandbox, code, options) {
  let settle;
  const said = new Promise((resolve) => {
    settle = resolve;
  });
  let text = '';
  const answer = ask(sandbox, code, {
    ...options,
    onStdout(chunk) {
      text += chunk;
      if (/^READY$/m.test(text)) settle();
    },
  });
  return {
    answer,
    // What ends before it is ready fails here.
    ready: Promise.race([said, answer.then(() => assert.fail('not held'))]),
    release: () => sandbox.writeFile('release', ''),
  };
}

/** `{path, device, filesystem, options, propagation}` of every mount of a box. */
async function listMounts(sandbox) {
  const result = await sandbox.run(['cat', '/proc/self/mountinfo']);
  assertFinished(result);
  return result.stdout
    .trim()
    .split('\n')
    .map((line) => {
      const [before, after] = line.split(' - ');
      const [, , device, , mountPoint, options, ...propagation] =
        before.split(' ');
      return {
        path: mountPoint,
        device,
        filesystem: after.split(' ')[0],
        options: options.split(','),
        propagation,
      };
    });
}

module.exports = {
  ask,
  askAndHold,
  askOutside,
  assertBlocked,
  assertFinished,
  compile,
  compileLibrary,
  hasCompiler,
  isX64,
  listMounts,
  numbers,
  place,
  placeCaller,
  prelude,
};
