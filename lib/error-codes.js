// SPDX-License-Identifier: Apache-2.0
'use strict';

// The one registry of what can go wrong. A code is a promise: its meaning never
// changes, and it is never used for anything else. `meaning` begins the message
// of an error; `cause` and `remedy` are for people who look the code up. Tests
// hold docs/errors.md, index.d.ts and src/common/error.h to it.
//
// What is known of one failure on one host is in remedies.js.

const doctor = 'Run `npx glovebox doctor`';

// The table of src/common/error.h, under the same names and in its order.
const nativeCodes = {
  INTERNAL: {
    meaning: 'glovebox failed where it never should',
    cause: 'A bug of glovebox, or an installation that was changed.',
    remedy: 'Report the message and `cause`; install it anew if files differ.',
  },
  NO_MEMORY: {
    meaning: 'The host has no memory for this',
    cause: 'The machine, or the container that Node runs in, has none left.',
    remedy: 'Run fewer calls at the same time, or add memory.',
  },
  START: {
    meaning: 'The sandbox processes could not be started',
    cause:
      'The host refuses user namespaces or a step after them (container, ' +
      'AppArmor, sysctl), or may not execute the launcher.',
    remedy: `${doctor}: it names what is in the way and how to change it.`,
  },
  SETUP: {
    meaning: 'The box could not be set up',
    cause:
      'The kernel refused the step that `step` names. With the step "chdir" it ' +
      'is the call: the box has no such folder as `cwd`.',
    remedy: `Correct \`cwd\`; for any other step: ${doctor.toLowerCase()}.`,
  },
  CLOSED: {
    meaning: 'The sandbox is closed',
    cause:
      '`close()` was called, or `withSandbox()` returned, before the call or ' +
      'while it ran.',
    remedy:
      'Await your calls before you close; for more of them make a new Sandbox ' +
      'or Kernel.',
  },
  DIED: {
    meaning: 'The sandbox processes ended before the call did',
    cause:
      'Somebody killed them: the host when it ran out of memory, a service ' +
      'manager, a system call filter from outside.',
    remedy:
      'Call again: the next call starts them. If it happens again, look in ' +
      '`dmesg` and the journal for who kills them.',
  },
  WORKSPACE: {
    meaning: 'The workspace cannot be used',
    cause:
      'It is no folder, this user may not write to it, its disk is full, it ' +
      'was deleted or replaced, or it is a folder of the system or the home ' +
      'folder.',
    remedy:
      'Name a folder that is made for it and that this user may write to, or ' +
      'leave `workspace` out.',
  },
  PATH: {
    meaning: 'The path does not stay inside the workspace, or is malformed',
    cause:
      'It is absolute, has "..", leads through a symlink (which code may have ' +
      'made), or is too long. Of `rename()`: it lies below what is to be ' +
      'moved. Of `snapshot()`: `dest` lies in the workspace.',
    remedy: 'Give a path relative to the workspace, as `listFiles()` does.',
  },
  NOT_FOUND: {
    meaning: 'There is no such file in the workspace',
    cause: 'It was never there, or code deleted or renamed it meanwhile.',
    remedy: 'Look with `exists()` or `listFiles()`.',
  },
  NOT_REGULAR: {
    meaning: 'The path is not a regular file',
    cause:
      'A folder, symlink, pipe, socket or device is there; code can make any ' +
      'of them.',
    remedy:
      'Ask `stat()` what it is. To remove a folder say `recursive: true`.',
  },
  TOO_LARGE: {
    meaning: 'That is larger than allowed',
    cause:
      'A file or an archive has more than `maxBytes`; the workspace has more ' +
      'files than can be looked through, or, of `snapshot()`, a path of more ' +
      'than 4095 bytes.',
    remedy:
      'Raise `maxBytes`, read with `createReadStream()`, or take one folder at ' +
      'a time.',
  },
  IO: {
    meaning: 'Reading or writing in the workspace failed',
    cause:
      'The file system refused: full, read-only, a right that is missing, a ' +
      'failing disk. Of `watch()`: the limits of inotify.',
    remedy: 'Go by `errno`: free some room, or give this user the right.',
  },
  PROTOCOL: {
    meaning: 'The code wrote to the control socket of its interpreter',
    cause:
      'It wrote rubbish to a descriptor that is not its own, by accident or to ' +
      'forge results.',
    remedy:
      'Take it as a failure of the code; nothing left the box. A Kernel has ' +
      'ended: make a new one.',
  },
  EXEC: {
    meaning: 'The program could not be executed',
    cause: 'The box has no such program, or it is not executable.',
    remedy:
      'Nothing rejects with it: look at `exitCode` (127, 126) and `error` of ' +
      'the result.',
  },
  KERNEL_DEAD: {
    meaning: 'The kernel has ended and its state is gone',
    cause:
      'Its interpreter did not start, crashed, or was ended by a limit or an ' +
      'abort; the message says which.',
    remedy:
      '`restart()` it or make a new one, and its state with it. Where there are ' +
      'checkpoints and its box lives, `rollback(id)` brings the state back.',
  },
  INVALID: {
    meaning: 'The engine refused a value',
    cause: 'A bug of glovebox: it should have been refused by its name before.',
    remedy: 'Report the message.',
  },
  UNSUPPORTED: {
    meaning: 'This Linux kernel lacks something that glovebox needs',
    cause:
      'Linux is older than 5.15, or a container hides system calls; also a ' +
      '`spec` without the library cJSON, and `trace` where it is not allowed.',
    remedy: `${doctor}, and do what the message says.`,
  },
  LIMIT: {
    meaning: 'A limit could not be put in force',
    cause:
      '`requireLimits` is set and the kernel does not enforce a limit here, or ' +
      'the cgroup of the boxes is gone since `open()`.',
    remedy:
      'See the table in the README for what it takes; after a log-out, ' +
      '`loginctl enable-linger` keeps the cgroups.',
  },
  ABORTED: {
    meaning: 'The call was ended by the caller',
    cause:
      'A process was disposed of while it ran: `await using`, or ' +
      '`[Symbol.asyncDispose]()`.',
    remedy:
      'None, if you meant it; else `await process.wait()` first. An aborted ' +
      '`signal` rejects with its own reason.',
  },
  BUSY: {
    meaning: 'Code in the box, or another call, is using it',
    cause:
      'A file changed while it was read, or code holds a lease on it; of ' +
      '`restore()`: a call runs.',
    remedy: 'Try again when the calls of this Sandbox have ended.',
  },
  DISK_FULL: {
    meaning: 'The workspace is full',
    cause: 'It has grown by more than `diskMb` since `open()`.',
    remedy:
      'Delete files with `rm()` or from the folder `sandbox.workspace`; or ' +
      'make a Sandbox with a higher `diskMb`, or null.',
  },
  EXISTS: {
    meaning: 'Something else is there already',
    cause: 'A file is where a folder is needed, or a folder where a file is.',
    remedy: 'Remove it with `rm()`, or take another name.',
  },
  MOUNT_REFUSED: {
    meaning: 'The mount is refused',
    cause:
      'No box may have this of the machine, or have it at that place. `rule` ' +
      'says which rule it breaks, `source` and `target` which mount it is.',
    remedy:
      'Mount a folder that is made for the code, or a copy of what it needs; ' +
      'see `remedy`.',
  },
  MOUNT: {
    meaning: 'The mount could not be made',
    cause:
      'Its source is not there or was deleted or replaced, its target has no ' +
      "place in the box's root, or its file system cannot give it to root's " +
      'boxes.',
    remedy: 'Go by the message: it names the path and what is wrong with it.',
  },
  PRELOAD: {
    meaning: 'The modules of `preload` could not be imported',
    cause:
      "The image's Python has no such module, or importing it fails, hangs, or " +
      'leaves what calls cannot share: a thread, an open file, shared memory.',
    remedy:
      'Import it in a call without `preload` to see its traceback; leave out ' +
      'what cannot be shared.',
  },
};

// What never comes from the engine.
const libraryCodes = {
  INVALID_OPTION: {
    meaning: 'An option or argument is wrong',
    cause:
      'It is unknown, of the wrong type, out of its range, or not built yet. ' +
      '`option`, `expected` and `received` say more.',
    remedy: 'Correct it: nothing has started.',
  },
  NOT_OPEN: {
    meaning: 'The sandbox is not open',
    cause: '`open()` was not called, or not awaited.',
    remedy: '`await sandbox.open()` first, or use `withSandbox()`.',
  },
  RUNTIME_MISSING: {
    meaning: 'The interpreter is not installed',
    cause: 'PATH has none for this language, or `runtimes` names none.',
    remedy:
      'Install it, or name one with the option `runtimes`; then make a new ' +
      'Sandbox.',
  },
  UNSUPPORTED_PLATFORM: {
    meaning: 'glovebox runs on Linux only',
    cause: 'This is another system, or not Node.js but Bun or Deno.',
    remedy: 'Use Node.js on Linux, in a virtual machine or in WSL 2.',
  },
  CHECKPOINT: {
    meaning: 'The checkpoint cannot be made, or gone back to',
    cause:
      'It is older than the last 16, was made before a `restart()`, or its copy ' +
      'of the interpreter was killed; the box has no room for another process; ' +
      'or the kernel is not of python.',
    remedy:
      'Make a new checkpoint; raise `pids` or `memoryMb` if there is no room.',
  },
  LOAD: {
    meaning: 'The compiled part of glovebox could not be loaded',
    cause:
      'It was not built, is of another version, was built on a machine with ' +
      'another processor, or the launcher may not be executed.',
    remedy:
      'Run `npm run build` in the checkout of glovebox; where it was installed ' +
      'from a package, install it anew from there.',
  },
  ARCHIVE: {
    meaning: 'The archive is refused',
    cause:
      'It breaks a rule that the message names: a path or link that leads ' +
      'outside, a device, a header with two readings. `member` says where.',
    remedy: 'Do not trust whoever made it; the workspace is as it was.',
  },
  HOST_FILE: {
    meaning: 'A file of the host cannot be used',
    cause:
      'The archive that `snapshot()` or `restore()` was given cannot be ' +
      'written or read.',
    remedy: 'Go by `errno`: correct the path, or its rights.',
  },
};

/** Every code with its row, "ERR_SANDBOX_" before the name. */
const errorCodes = new Map(
  Object.entries({ ...nativeCodes, ...libraryCodes }).map(([name, row]) => [
    `ERR_SANDBOX_${name}`,
    row,
  ]),
);

module.exports = { errorCodes, libraryCodes, nativeCodes };
