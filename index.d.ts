// SPDX-License-Identifier: Apache-2.0

/// <reference types="node" />

import type { EventEmitter } from 'node:events';
import type { Readable, Writable } from 'node:stream';

/**
 * glovebox runs code that nobody has read (Python, bash, JavaScript, or any
 * command) in a sandbox of the Linux kernel, on this machine.
 *
 * Three things can go wrong, and they never look alike:
 *
 * - Wrong options or arguments: rejects (a constructor throws) with a
 *   {@link SandboxError} before anything has started.
 * - The sandbox could not do its work: rejects with a {@link SandboxError} that
 *   names the step, the errno and what to do.
 * - The code ended badly: resolves, with an {@link ExecutionResult} whose
 *   `success` is false.
 */

/**
 * The languages of `runCode()`. `"bash"` is bash, not a POSIX shell; `"node"`
 * is JavaScript.
 */
export type Language = 'python' | 'bash' | 'node';

/** Called with output as it arrives: exactly the bytes that the code wrote. */
export type OutputCallback = (chunk: Buffer) => void;

/** Gets each rich result as it arrives. */
export type ResultCallback = (result: Result) => void;

/** Options of a {@link Sandbox}. */
export interface SandboxOptions {
  /**
   * All other options at once, and the root: all of what {@link Sandbox.plan}
   * gave, or the path of a file with it as JSON. It makes the same box again,
   * also where what is installed has changed since; the files themselves are not
   * in it. Beside it only `onStdout`, `onStderr`, `onResult` and `trace` may be given. It is
   * read when the Sandbox opens, and what is wrong in it is refused with its
   * place.
   *
   * A spec says which folders of this machine a box sees, and may name any: take
   * none from somebody whose code you would not run.
   *
   * @default null
   */
  spec?: string | Pick<SandboxPlan, 'version' | 'spec'> | null;

  /**
   * Where the programs and libraries in the box come from. `"host"`: this
   * machine's own, read-only, without its configuration and private files.
   *
   * @default "host"
   */
  image?: 'host';

  /**
   * A folder of this machine that the box sees as `/workspace`, its working
   * folder. It is made if missing, and stays after `close()`. A relative path
   * starts at the folder that the process is in when the Sandbox is made.
   * Without it: an empty temporary folder that `close()` deletes.
   *
   * What is refused as a writable mount (see {@link MountRule}) is refused here,
   * too.
   *
   * @default null
   */
  workspace?: string | null;

  /**
   * Files and folders of this machine that boxes see beside the workspace:
   * `{source: target}` or `{source: [target, access]}`, at most 64. A source is
   * a path of this machine, a relative one starting at the folder that the
   * process is in when the Sandbox is made; it must be there, and symlinks are
   * followed. A target is an absolute path in the box, where the source's
   * content then is. Access is `"ro"`, which is meant where nothing is said, or
   * `"rw"`; both hold for all that is mounted below the source too.
   *
   * Code in a box can read all of it, and change it with `"rw"`; setuid
   * programs and devices have no power. What it makes belongs to the owner of
   * the source, and outlives the Sandbox. It counts neither for `diskMb` nor in
   * `result.files`; no single file grows beyond diskMb.
   *
   * `~` is a name like any other: say `os.homedir()`. A target may be in that of
   * another mount if such a place is there already.
   * It may not be in `/workspace`, `/proc`, `/dev`, `/sys` and `/run/glovebox`,
   * nor hide a folder that every box needs: `/usr`, `/etc` or `/tmp` as a whole.
   *
   * Sources that no box may have, what is in them and what holds them are
   * refused: see {@link MountRule}. `open()` finds that out of the file itself,
   * so another spelling, a symlink, a bind mount or an overlay of it is refused
   * as well. A source that is deleted or replaced after that makes calls reject;
   * a folder that is mounted shows what is replaced in it.
   *
   * @default null
   * @throws {MountRefused} ERR_SANDBOX_MOUNT_REFUSED — from the constructor if
   * the box has no place for the target, from `open()` if the source is refused
   * @throws {SandboxError} ERR_SANDBOX_MOUNT — from `open()` if it cannot be
   * mounted
   *
   * @example
   * ```ts
   * import { mkdtemp, rm, writeFile } from 'node:fs/promises';
   * import { tmpdir } from 'node:os';
   * import { join } from 'node:path';
   * import { withSandbox } from 'glovebox';
   *
   * const folder = await mkdtemp(join(tmpdir(), 'data-'));
   * await writeFile(join(folder, 'a.txt'), 'hello');
   * await withSandbox({ mounts: { [folder]: '/data' } }, async (sandbox) => {
   *   console.log((await sandbox.run(['cat', '/data/a.txt'])).stdout); // "hello"
   *   const { exitCode } = await sandbox.run(['touch', '/data/b.txt']);
   *   console.log(exitCode); // 1
   * });
   * await rm(folder, { recursive: true });
   * ```
   */
  mounts?: Record<string, MountSpec> | null;

  /**
   * Memory of each box in MiB, 1–2147483648; everything in it counts, `/tmp`
   * too. `null` lifts the limit.
   *
   * @default 512
   */
  memoryMb?: number | null;

  /**
   * Processor time of each box in cores, 0.01–1024: 0.5 is half of one core.
   * `null` is no limit.
   *
   * @default null
   */
  cpus?: number | null;

  /**
   * Processes and threads of each box, 1–4194304. `null` lifts the limit.
   * Above it a program cannot start another and meets EAGAIN. Node.js needs some
   * ten threads, and with fewer it may wait in silence until `timeoutS`.
   *
   * @default 256
   */
  pids?: number | null;

  /**
   * By how many MiB the workspace may grow while the Sandbox is open,
   * 1–2147483648. All of its calls count together, and what `writeFile()` puts
   * there; what was there before does not. Files count by the room they take on
   * the disk, so holes are free, and each name takes another 4 KiB; files that
   * are deleted count while the code has them open. `/tmp` and the other places
   * that code can write to count as memory instead.
   *
   * Above it, everything that runs in this Sandbox is killed, with the fault
   * `"killed"` whose message names diskMb, and further calls reject with
   * ERR_SANDBOX_DISK_FULL until enough is deleted, with `rm()` or from {@link
   * Sandbox.workspace}: the methods for files go on working.
   *
   * A watchdog looks 10 times a second, and only while code runs: see
   * {@link LimitForce}. The kernel itself lets no file of the box, in memory or
   * on the disk, grow beyond diskMb: writing on fails with EFBIG, or ends a
   * program that does not expect that by SIGXFSZ.
   *
   * `null` lifts the limit.
   *
   * @default 1024
   */
  diskMb?: number | null;

  /**
   * How long one call may take, in seconds, 0.001–31536000. Then the box is
   * killed, whatever the JavaScript of this process is doing at the time.
   *
   * @default 30
   */
  timeoutS?: number;

  /**
   * Environment variables of the code, besides PATH, HOME, USER, LOGNAME and
   * LANG, which it always has. Nothing of this process' environment is passed
   * on. At most 131071 bytes for one `name=value`.
   *
   * @default {}
   */
  env?: Record<string, string>;

  /**
   * How many bytes of stdout, and of stderr, are kept: 0–536870888. What the
   * code writes beyond that is dropped, and the result is `truncated`; the code
   * does not notice.
   *
   * @default 67108864
   */
  maxOutputBytes?: number;

  /**
   * Whether limits are put in force with the best means that this host has;
   * {@link Sandbox.limits} says which. If one of memoryMb, pids and cpus is not
   * the kernel's to enforce, a warning `GLOVEBOX_LIMITS` is emitted, once in a
   * thread. `false`: boxes get no cgroup, and no watchdog looks at the memory;
   * pids and diskMb stay in force.
   *
   * @default true
   */
  enforceLimits?: boolean;

  /**
   * Whether results list the files that changed in the workspace. Takes time
   * in proportion to the number of files that were touched; for a first call,
   * for cells, and where folders were made or moved, to that of all there are.
   *
   * @default true
   */
  trackFiles?: boolean;

  /**
   * `"blocked"`: results say in {@link ExecutionResult.blocked} which system
   * calls the sandbox refused. To find out why a program fails, not for every
   * day: the box is made for the call, and each refused call takes some ten
   * microseconds, of which most is this process' helper's and not the box's.
   *
   * @default null
   */
  trace?: 'blocked' | null;

  /**
   * Which interpreters to use, as absolute paths, where the first on PATH is
   * not the wanted one.
   *
   * @default {}
   */
  runtimes?: { [language in Language]?: string | null };

  /**
   * Called with stdout as it arrives; the result has it too. What it throws
   * ends the call, which then rejects with it. A promise that it returns is not
   * waited for, but if it is rejected in time, that counts the same.
   *
   * @default null
   */
  onStdout?: OutputCallback | null;

  /**
   * Called with stderr as it arrives, like `onStdout`.
   *
   * @default null
   */
  onStderr?: OutputCallback | null;

  /**
   * Called with each rich result as it arrives, like `onStdout`: not with those
   * that are dropped for being too many. What the code wrote to stdout and
   * stderr before a result comes before it. The result of the call has the same
   * objects in `results`.
   *
   * @default null
   */
  onResult?: ResultCallback | null;

  /**
   * Whether boxes, and interpreters in them, may be started ahead of calls. A
   * box serves one call in either case, and is as isolated. Interpreters of
   * Python that were started ahead are forks of one: they have its hash seed and
   * the places of its memory in common. `false`: a box and an interpreter are
   * made for each call.
   *
   * @default true
   * @see docs/threat-model.md
   */
  warm?: boolean;

  /**
   * Python modules that are imported once for the session, such as
   * `["numpy", "pandas"]`: calls and kernels of Python find them imported. They
   * are those of the image: the workspace is not seen. Python only; calls of
   * other languages are as without.
   *
   * `open()` waits for the imports, at most a minute for all. What a module
   * made while it was imported is what every call begins with, but for files,
   * which it wrote nowhere. The imports see `env` of the session, not of a call;
   * a call whose `env` changes what Python reads at its start (`PYTHON*`,
   * `LANG`, `TZ`, ...), a traced one and one with a terminal import modules
   * themselves.
   *
   * If that interpreter is killed, by a host without memory, calls import
   * modules themselves until another has.
   *
   * The generators of `random` and `numpy.random` are seeded anew for each
   * call. A generator that a module has made for itself is not: seed it.
   *
   * @default []
   * @throws {SandboxError} ERR_SANDBOX_PRELOAD — of `open()`: a module cannot be
   *   imported, or leaves a thread, an open file or shared memory (`mmap`, a lock of
   *   `multiprocessing`), which calls cannot share.
   * @throws {SandboxError} ERR_SANDBOX_INVALID_OPTION — no module's name, more
   *   than 64 of them, or `warm: false` beside it.
   *
   * @example
   * ```ts
   * import { withSandbox } from 'glovebox';
   *
   * await withSandbox({ preload: ['json', 'decimal'] }, async (sandbox) => {
   *   const { text } = await sandbox.runCode(
   *     'import sys; "decimal" in sys.modules',
   *   );
   *   console.log(text); // "True"
   * });
   * ```
   */
  preload?: string[];

  /**
   * Accepted for the sake of old code: a box never has any capability.
   *
   * @default ["ALL"]
   */
  capDrop?: string[];

  /**
   * Whether boxes share the network of this machine. `false`: a box has a
   * loopback interface of its own, and nothing else.
   *
   * `true` **relaxes isolation**. Code can then reach whatever this machine can:
   * the internet, the networks around it, and what listens on its loopback
   * addresses and trusts who connects there: databases, development servers,
   * 169.254.169.254 with the credentials of a cloud machine. It can listen on
   * ports from 1024 for all who reach this machine, and see in `/proc/net` which
   * sockets there are. Other Sandboxes with `network: true` meet it on loopback.
   *
   * Nothing else changes: files, processes, limits, the filter of system calls.
   * Raw and packet sockets, lower ports, and changes to interfaces, routes and
   * firewall are refused. So are the abstract unix sockets of the host, where
   * the kernel has Landlock's scopes (Linux 6.12); where it has not, a warning
   * `GLOVEBOX_NETWORK` says once in a thread that code can connect to them.
   *
   * Names are found as this machine finds them by `/etc/resolv.conf` and
   * `/etc/hosts`, as those are when the Sandbox opens. Certificates are those
   * of the host. Variables such as `HTTPS_PROXY` are not passed on: see `env`.
   *
   * It is for the Sandbox, not for one call.
   *
   * @default false
   * @see docs/threat-model.md, "With the host's network"
   */
  network?: boolean;

  /**
   * Whether `open()` refuses, with `ERR_SANDBOX_LIMIT`, to go on where one of
   * memoryMb, pids and cpus is not the kernel's to enforce: the message names
   * the limit and what to do. A limit that is lifted with `null` is none. See
   * {@link Sandbox.limits}.
   *
   * @default false
   */
  requireLimits?: boolean;

  /**
   * Whether installed dependencies are read-only. Not built yet: only `false`
   * is accepted.
   *
   * @default false
   */
  depsReadonly?: false;

  /**
   * Further hardening. Not built yet: only `"default"` is accepted.
   *
   * @default "default"
   */
  securityProfile?: 'default' | null;
}

/** Options of one call. What is left out is as the session has it. */
export interface PerCallOptions {
  /**
   * How long this call may take, in seconds, 0.001–31536000. `null` inherits.
   *
   * @default the session's
   */
  timeoutS?: number | null;

  /**
   * Called with stdout as it arrives, see {@link SandboxOptions.onStdout}.
   * `null`: no callback for this call.
   *
   * @default the session's
   */
  onStdout?: OutputCallback | null;

  /**
   * Called with stderr as it arrives. `null`: no callback for this call.
   *
   * @default the session's
   */
  onStderr?: OutputCallback | null;

  /**
   * Called with each rich result as it arrives, see
   * {@link SandboxOptions.onResult}. `null`: no callback for this call.
   *
   * @default the session's
   */
  onResult?: ResultCallback | null;

  /**
   * Environment variables, over those of the session.
   *
   * @default {}
   */
  env?: Record<string, string>;

  /**
   * See {@link SandboxOptions.trace}. `null`: not for this call. Of a Kernel it
   * is for all cells.
   *
   * @default the session's
   */
  trace?: 'blocked' | null;

  /**
   * The folder in the box that the code starts in. A relative one starts at
   * `/workspace`. One that the box does not have is ERR_SANDBOX_SETUP with the
   * step `"chdir"`. `null` is the default.
   *
   * @default "/workspace"
   */
  cwd?: string | null;

  /**
   * What the code reads from its stdin: text (as UTF-8), bytes, or a stream of
   * either. Read no faster than the code does. If the code ends first, that is
   * no error; the rest is not read, and a stream is destroyed or cancelled. What
   * the stream throws ends the call, which then rejects with it. `null`, or left
   * out: stdin is at its end from the start.
   *
   * @default null
   */
  stdin?: InputSource | null;

  /**
   * Ends the call when it is aborted: the box is killed, and when it is gone
   * the promise rejects with the signal's reason. If it is aborted already,
   * nothing starts. `null`: none.
   *
   * @default null
   */
  signal?: AbortSignal | null;

  /**
   * Memory of the box of this call in MiB, see {@link SandboxOptions.memoryMb}.
   * `null` lifts the limit.
   *
   * @default the session's
   */
  memoryMb?: number | null;

  /**
   * Processor time of this box in cores. `null` lifts the limit.
   *
   * @default the session's
   */
  cpus?: number | null;

  /**
   * Processes and threads of this box. `null` lifts the limit.
   *
   * @default the session's
   */
  pids?: number | null;
}

/** What stdin can be made of. Strings are written as UTF-8. */
export type InputSource =
  | string
  | Uint8Array
  | NodeJS.ReadableStream
  | AsyncIterable<string | Uint8Array>;

/** The size of a terminal in characters, each 1–65535. */
export interface TerminalSize {
  /** @default 80 */
  cols?: number;
  /** @default 24 */
  rows?: number;
}

/** A terminal for {@link Sandbox.spawn}. */
export interface TerminalOptions extends TerminalSize {
  /**
   * What TERM says, unless `env` has one.
   *
   * @default "xterm-256color"
   */
  term?: string;
}

/**
 * Options of {@link Sandbox.spawn}. With `onStdout` or `onStderr` that stream
 * flows, whether or not anybody else reads it.
 */
export interface SpawnOptions extends Omit<PerCallOptions, 'stdin'> {
  /**
   * Gives the process a terminal of its own, which is also its controlling one:
   * `isatty()` is true, Ctrl-C and job control work. All output comes as
   * `stdout`; `stderr` is at its end. No other box has terminals: a program that
   * makes some for itself, as `script` and `tmux` do, needs this too. `null`:
   * pipes.
   *
   * @default null
   */
  pty?: TerminalOptions | null;
}

/** Options of {@link Sandbox.runCode}. */
export interface RunCodeOptions extends PerCallOptions {
  /**
   * What the code is written in.
   *
   * @default "python"
   */
  language?: Language;
}

/** Options of {@link runCode}: those of the session and of the call. */
export interface OneShotOptions extends Omit<SandboxOptions, 'timeoutS'> {
  /**
   * How long the code may run, in seconds, 0.001–31536000. `null` is the
   * default.
   *
   * @default 30
   */
  timeoutS?: number | null;

  /**
   * What the code is written in.
   *
   * @default "python"
   */
  language?: Language;

  /**
   * The folder in the box that the code starts in, see
   * {@link PerCallOptions.cwd}.
   *
   * @default "/workspace"
   */
  cwd?: string | null;

  /**
   * What the code reads from its stdin, see {@link PerCallOptions.stdin}.
   *
   * @default null
   */
  stdin?: InputSource | null;

  /**
   * Ends the call when it is aborted, see {@link PerCallOptions.signal}.
   *
   * @default null
   */
  signal?: AbortSignal | null;
}

/**
 * Options of {@link Sandbox.kernel}; `timeoutS` is for each cell. An abort of
 * `signal` ends the kernel for good. There is no `stdin`: that of cells is at its
 * end from the start.
 */
export interface KernelOptions extends Omit<PerCallOptions, 'stdin'> {
  /**
   * The language of the cells.
   *
   * - `"python"`: as in a notebook, with top-level `await`.
   * - `"node"`: `const`, `let`, `class` and `import` of a cell stay for the next
   *   ones and may be said again; `await` at the top; `require`. The event loop
   *   goes on between cells. `process.exit()` ends the cell.
   * - `"bash"`: one shell; variables, functions, folder and options stay. `exit`
   *   ends the shell and the kernel, and so does what ends a script: a failing
   *   command under `set -e`, an unset variable under `set -u`, `${name:?}`, `exec`.
   *   The cell's `exitCode` is then the shell's.
   *
   * @default "python"
   */
  language?: Language;

  /**
   * `"each"`, of python: a {@link Kernel.checkpoint} is made before every cell.
   * A cell that takes the interpreter down then costs itself alone: its `fault`
   * says that the state is that of before it, and the next cell goes on from
   * there. What ends its whole box costs the kernel all the same: the faults
   * `"oom"` and `"escape_blocked"`, and a full `diskMb`. Each cell takes as much
   * longer as two forks do, and what it changes in memory is there twice.
   * `null`: none but those of `checkpoint()`.
   *
   * @default null
   */
  checkpoint?: 'each' | null;
}

/**
 * Options of {@link Kernel.runCode}. What is left out inherits. An abort of
 * `signal` interrupts the cell if it runs, as its timeout would; a cell that
 * waits is left out. Of a box of many cells all else is fixed when it is made:
 * `env`, `cwd`, limits; and there is no `stdin`.
 */
export type CellOptions = Pick<
  PerCallOptions,
  'timeoutS' | 'onStdout' | 'onStderr' | 'onResult' | 'signal'
>;

/**
 * A path of the workspace, relative to it, with "/" and without "..". Names of
 * files are bytes: a string stands for its UTF-8; a name that is not UTF-8 is
 * given as its bytes, see {@link WorkspaceFile.pathBuffer}. At most 4095 bytes,
 * and 255 for each name.
 */
export type WorkspacePath = string | Uint8Array;

/** What {@link Sandbox.writeFile} writes; text as UTF-8. */
export type FileData =
  | string
  | Uint8Array
  | AsyncIterable<string | Uint8Array>
  | NodeJS.ReadableStream;

/** Options of {@link Sandbox.readFile}. */
export interface ReadFileOptions {
  /**
   * The largest file to read, in bytes. A larger one is refused as a whole,
   * never cut. Whole number, 0 to `buffer.constants.MAX_LENGTH`; with an
   * encoding at most 536870888, the longest string.
   *
   * @default 1073741824
   */
  maxBytes?: number;

  /**
   * Decode the bytes to a string, as `buffer.toString(encoding)` does.
   *
   * @default null
   */
  encoding?: BufferEncoding | null;
}

/** Options of {@link Sandbox.writeFile}. */
export interface WriteFileOptions {
  /**
   * What strings are, of a stream too, as in `Buffer.from(text, encoding)`.
   * Bytes are written as they are.
   *
   * @default "utf8"
   */
  encoding?: BufferEncoding;
}

/** Options of {@link Sandbox.createReadStream}. */
export interface ReadStreamOptions {
  /**
   * The first byte to read, from 0.
   *
   * @default 0
   */
  start?: number;

  /**
   * The last byte to read; it is read too, as in `node:fs`. Code in a box can
   * make a file of any size for nothing, so say it where what comes out is kept.
   *
   * @default the end of the file
   */
  end?: number;

  /**
   * Give strings instead of Buffers.
   *
   * @default null
   */
  encoding?: BufferEncoding | null;

  /**
   * How much is read ahead, in bytes, 1–16777216.
   *
   * @default 65536
   */
  highWaterMark?: number;
}

/** Options of {@link Sandbox.createWriteStream}. */
export interface WriteStreamOptions {
  /**
   * How much is taken before `write()` returns false, in bytes, 1–16777216.
   *
   * @default 65536
   */
  highWaterMark?: number;
}

/** Options of {@link Sandbox.listFiles}. */
export interface ListFilesOptions {
  /**
   * Whether what is in folders below is listed.
   *
   * @default true
   */
  recursive?: boolean;

  /**
   * Whether not only regular files are listed, but folders, symlinks and others
   * too. Entries then have a `type`, and a folder comes before what is in it.
   *
   * @default false
   */
  all?: boolean;
}

/** Options of {@link Sandbox.rm}. */
export interface RmOptions {
  /**
   * Whether a folder is removed, with all that is in it.
   *
   * @default false
   */
  recursive?: boolean;

  /**
   * Whether it is no error that there is nothing.
   *
   * @default false
   */
  force?: boolean;
}

/** Options of {@link Sandbox.snapshot} and {@link Sandbox.restore}. */
export interface ArchiveOptions {
  /**
   * How many bytes all files may have together, before compression. More is
   * refused as a whole.
   *
   * @default 10737418240
   */
  maxBytes?: number;
}

/** What an archive holds. */
export interface ArchiveInfo {
  files: number;
  folders: number;
  /** Symlinks, and further names of a file. */
  links: number;
  /** Of all files, before compression. */
  bytes: number;
}

/** What {@link Sandbox.snapshot} wrote. */
export interface SnapshotInfo extends ArchiveInfo {
  /**
   * What was left out: sockets, pipes, devices, mounts, and symlinks that
   * lead out of the workspace.
   */
  skipped: SkippedEntry[];
}

/** Something that is not in a snapshot. */
export interface SkippedEntry {
  /** Relative to the workspace. */
  path: string;
  /** The bytes of a name that is not UTF-8. Not in JSON. */
  readonly pathBuffer?: Buffer;
  /** `"a fifo"`, `"a symlink to an absolute path"`. */
  reason: string;
}

/** What something in the workspace is. `"other"`: pipe, socket, device, mount. */
export type EntryType = 'file' | 'directory' | 'symlink' | 'other';

/** What {@link Sandbox.stat} says. */
export interface EntryInfo {
  type: EntryType;
  /** In bytes; 0 for a folder. */
  size: number;
  /** When its content last changed, in milliseconds since 1970. */
  mtimeMs: number;
  /** Permission bits: 0o644. */
  mode: number;
}

/** A change in the workspace, from {@link Sandbox.watch}. */
export interface WorkspaceChange {
  /**
   * - `"created"`: made, moved there, or put in the place of what was there.
   * - `"modified"`: its content, mode or time.
   * - `"deleted"`: removed, or moved away.
   * - `"lost"`: changes came faster than they were taken, or in too many
   *   folders, and some are missing: look for yourself. `path` is empty.
   */
  change: 'created' | 'modified' | 'deleted' | 'lost';
  /** Relative to the workspace, with "/". */
  path: string;
  /** The bytes of a name that is not UTF-8. Not in JSON. */
  readonly pathBuffer?: Buffer;
  /** `"file"` stands for everything that is no folder. */
  type: 'file' | 'directory';
}

/** Changes as they come, from {@link Sandbox.watch}. */
export interface Watcher extends AsyncIterableIterator<WorkspaceChange> {
  /** Ends it: the loop over it ends. */
  close(): Promise<void>;
  /** {@link close}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
  [Symbol.asyncIterator](): Watcher;
}

/** A file that changed during a call. */
export interface FileInfo {
  /** Relative to the workspace, with "/". */
  path: string;
  /** The bytes of a name that is not UTF-8. Not in JSON. */
  readonly pathBuffer?: Buffer;
  /** In bytes, after the call. */
  size: number;
  change: 'created' | 'modified';
}

/** A file in the workspace. */
export interface WorkspaceFile {
  /**
   * Relative to the workspace, with "/". In a name that is not UTF-8, what is
   * not is U+FFFD.
   */
  path: string;
  /**
   * The bytes of a name that is not UTF-8, for the methods that take a path.
   * Missing where `path` says it all. Not in JSON.
   */
  readonly pathBuffer?: Buffer;
  /** In bytes. */
  size: number;
  /** When its content last changed, in milliseconds since 1970. */
  mtimeMs: number;
  /** With `all: true`. */
  type?: EntryType;
}

/**
 * What stopped the code, as a fact that the kernel reported.
 *
 * - `"timeout"`: it took longer than timeoutS. A cell of a Kernel is then
 *   interrupted first, and reads exit code 130 if that ended it.
 * - `"oom"`: it used more than memoryMb.
 * - `"escape_blocked"`: it made a system call that no program in a box needs.
 * - `"killed"`: something else killed it, or a Kernel's interpreter ended: the
 *   exit code is then -1, and `signal` says by which. If the workspace grew by
 *   more than diskMb, the message says so.
 * - `"startup_failed"`: never; a box that cannot start rejects. For old code.
 */
export type SandboxFaultType =
  | 'timeout'
  | 'oom'
  | 'escape_blocked'
  | 'killed'
  | 'startup_failed';

/** What stopped the code. */
export interface SandboxFault {
  type: SandboxFaultType;
  /** The limit that was hit, and what to do. */
  message: string;
  /**
   * Of `"escape_blocked"`: the forbidden system call, `"mount"`; its number as
   * text where it has no name. Missing on kernels that do not say.
   */
  syscall?: string;
}

/** A system call that the sandbox refused. */
export interface BlockedCall {
  /**
   * `"chroot"`; the number as text where it has no name. `"others"` sums up all
   * that came after 128 different ones.
   */
  syscall: string;
  /** What the code was told: `"EPERM"`, `"ENOSYS"`; `null` of `"others"`. */
  errno: string | null;
  /** How often. */
  count: number;
}

/** An uncaught exception of the code. */
export interface CodeError {
  /**
   * Its class: `"ZeroDivisionError"`. For a program that cannot be executed the
   * errno: `"ENOENT"`; for what JavaScript throws that is no error its type:
   * `"string"`.
   */
  name: string;
  /** `"division by zero"`. */
  message: string;
  /** As printed to stderr, with its causes; empty for want of a program. */
  traceback: string;
  /** The line of the code, from 1, where it is known. */
  line: number | null;
}

/**
 * What a call used. `null` where this host does not say.
 *
 * Of a cell: what its whole box used while the cell ran, and what no cgroup
 * counts is `null`.
 */
export interface Usage {
  /**
   * Processor time of all processes of the box, in milliseconds. If the box was
   * made ahead of the call, this has what that took, which `wallMs` has not: of
   * JavaScript that is the start of Node.js.
   */
  cpuMs: number | null;
  /**
   * The time in their own code, in milliseconds. Without cgroup v2 only of the
   * program and of those of its children that were waited for, counted apart
   * from `cpuMs`, and often not known if the sandbox stopped them.
   */
  cpuUserMs: number | null;
  /** Likewise the time in system calls. */
  cpuSystemMs: number | null;
  /** From the start to the end of the code, in milliseconds. */
  wallMs: number;
  /**
   * The most memory at one time, in bytes. Without a cgroup that of the largest
   * process, and often `null` if the box was killed. Of a cell it is known with
   * cgroup v1, and with v2 from Linux 6.12.
   */
  maxMemoryBytes: number | null;
  /**
   * The most processes and threads at one time. Known with cgroup v2 and Linux
   * 6.1 or later, and not of a cell.
   */
  maxPids: number | null;
  /**
   * What the program, and those of its children that were waited for, read from
   * disks, in bytes. What was in memory already is not read.
   */
  ioReadBytes: number | null;
  /** What they wrote to disks, in bytes; some of it may still be on its way. */
  ioWriteBytes: number | null;
}

/**
 * What a call could use at most, by the options that it and its Sandbox were
 * given; `null` where a limit was lifted. {@link Sandbox.limits} says how they
 * are enforced.
 */
export interface CallLimits {
  /** Of a cell: its own. */
  timeoutS: number;
  memoryMb: number | null;
  cpus: number | null;
  pids: number | null;
  /** Of the workspace, for all calls together. */
  diskMb: number | null;
}

/**
 * How a call ended. Plain data, made for `JSON.stringify` too.
 *
 * @example
 * ```ts
 * import { runCode } from 'glovebox';
 *
 * const result = await runCode('print(6 * 7)\n1/0');
 * console.log(result.stdout); // "42\n"
 * console.log(result.success); // false
 * // The sandbox did not stop it:
 * console.log(result.fault); // null
 * console.log(result.error?.name); // "ZeroDivisionError"
 * ```
 */
export class ExecutionResult {
  private constructor();
  /** What the code wrote to stdout, as UTF-8; invalid bytes are U+FFFD. */
  stdout: string;
  /** What the code wrote to stderr, and nothing else. */
  stderr: string;
  /**
   * 0–255; 128 + n for signal n. 137 for the faults timeout, oom and killed,
   * 159 for escape_blocked. 127 if the program of `run()` was not found, 126 if
   * it cannot be executed. -1 for a cell in which the interpreter died.
   */
  exitCode: number;
  /** The signal that ended the code, such as `"SIGSEGV"`. */
  signal: NodeJS.Signals | (string & {}) | null;
  /** From the start to the end of the code, in milliseconds. */
  durationMs: number;
  /** Why the sandbox stopped the code; `null` if it did not. */
  fault: SandboxFault | null;
  /**
   * New and changed files of the workspace. Empty without trackFiles. Made to
   * work with, not to convict: code can put files where no list looks, see
   * docs/threat-model.md.
   */
  files: FileInfo[];
  /**
   * Paths that are gone from the workspace. Empty without trackFiles. In a name
   * that is not UTF-8, what is not is U+FFFD: {@link deletedFileBuffers}.
   */
  deletedFiles: string[];
  /**
   * Rich results: display(), figures, the last expression. At most 1000. Of
   * Python and JavaScript.
   */
  results: Result[];
  /**
   * Whether output or results were dropped for being too many, or `files` is
   * empty because the workspace has more than a million.
   */
  truncated: boolean;
  /** `exitCode` is 0 and `fault` is null. */
  success: boolean;
  /** The exception that ended the code; `null` if none is known. bash has none. */
  error: CodeError | null;
  /**
   * `text` of the main result: of the value of the code's last expression.
   * `undefined` if it has none. Not in JSON.
   */
  readonly text: string | undefined;
  usage: Usage;
  limits: CallLimits;
  /**
   * The system calls that the filter refused, the most frequent first; empty if
   * there were none. Only with {@link SandboxOptions.trace}, and not if the call
   * ended because nothing answered any more. What the filter lets through and
   * the kernel then refuses, for want of a right or of a file, is not in it.
   * Programs try calls in order to fall back: `clone3`, `ENOSYS`, is in every
   * program with threads.
   */
  blocked?: BlockedCall[];
  /** The bytes of `stdout` as they were written. Not in JSON. */
  readonly stdoutBuffer: Buffer;
  /** The bytes of `stderr` as they were written. Not in JSON. */
  readonly stderrBuffer: Buffer;
  /**
   * The bytes of the names in `deletedFiles`, in the same order. Not in JSON.
   */
  readonly deletedFileBuffers: Buffer[];
}

/**
 * One rich value in its several forms.
 *
 * @example
 * ```ts
 * import { runCode } from 'glovebox';
 *
 * const { results } = await runCode('[n * n for n in range(4)]');
 * console.log(results[0]?.text); // "[0, 1, 4, 9]"
 * console.log(results[0]?.formats()); // ["text/plain"]
 * ```
 */
export class Result {
  constructor(data: Record<string, string>, isMainResult?: boolean);
  /** From MIME type to content; binary types as base64. */
  data: Record<string, string>;
  /** Whether it is the value of the code's last expression. */
  isMainResult: boolean;
  /** text/plain; every value has it. */
  get text(): string | undefined;
  /** text/html */
  get html(): string | undefined;
  /** text/markdown */
  get markdown(): string | undefined;
  /** image/svg+xml */
  get svg(): string | undefined;
  /** text/latex */
  get latex(): string | undefined;
  /**
   * application/json, as text. Of a pandas DataFrame: its rows as a list of
   * objects without the index; none for a frame of more than 100,000 cells or
   * 8 MiB of JSON, or with two columns of one name. Dates are ISO 8601, and NaN
   * is null.
   */
  get json(): string | undefined;
  /** application/javascript */
  get javascript(): string | undefined;
  /** image/png, decoded. */
  get png(): Buffer | null;
  /** image/jpeg, decoded. */
  get jpeg(): Buffer | null;
  /** application/pdf, decoded. */
  get pdf(): Buffer | null;
  /** The MIME types that it has. */
  formats(): string[];
}

/**
 * How a limit is enforced: by the kernel, by a watchdog that looks 20 times a
 * second (10 times at the disk), or not at all; `null` where it was lifted. What
 * a box can take between two looks of a watchdog, it can take for that long.
 */
export type LimitForce = 'kernel' | 'watchdog' | 'none' | null;

/** How each limit is enforced on this host, for this user. */
export interface SandboxLimits {
  readonly memoryMb: LimitForce;
  readonly pids: LimitForce;
  readonly cpus: LimitForce;
  /** On every host; neither a warning nor `requireLimits` speaks of it. */
  readonly diskMb: 'watchdog' | null;
}

/** Where something of this machine goes in a box, and what the box may do. */
export type MountSpec = string | [target: string, access: 'ro' | 'rw'];

/**
 * Why a mount is refused: for what it is, what it lies in, or what it holds.
 *
 * - `"root"`: `/`
 * - `"system"`: `/boot`, `/etc`, `/var` and some folders in it; if writable
 *   also `/usr`, `/bin`, `/sbin` and `/lib`
 * - `"kernel"`: `/dev`, `/proc`, `/sys`, and such file systems anywhere
 * - `"run"`: `/run`
 * - `"containers"`: where Docker, Podman, Kubernetes and the like keep theirs
 * - `"home"`: `/home`, `/root`, the home of a person, but not folders in it
 * - `"hidden"`: what in a home has a name with a dot at the beginning
 * - `"temp"`: `/tmp`, the folder for temporary files, but not folders in it
 * - `"own"`: a temporary workspace
 * - `"special-file"`: a socket, a named pipe, a device
 * - `"hard-link"`: a file with more than one name
 * - `"submounts"`: more than 256 mounts are in it
 * - `"target"`: its place in the box
 */
export type MountRule =
  | 'root'
  | 'system'
  | 'kernel'
  | 'run'
  | 'containers'
  | 'home'
  | 'hidden'
  | 'temp'
  | 'own'
  | 'special-file'
  | 'hard-link'
  | 'submounts'
  | 'target';

/** What a box is made of, beside what every box has. */
export type BoxEntry =
  /** An empty folder. */
  | { kind: 'dir'; target: string }
  /** A file or folder of the host, read-only. */
  | { kind: 'bind'; target: string; source: string }
  /** A symlink with the text `source`. */
  | { kind: 'symlink'; target: string; source: string }
  /** A read-only file with this text. */
  | { kind: 'file'; target: string; data: string };

/** What makes a box: as options, but all of them, and the root. */
export interface BoxSpec {
  /** The root, parents before children. Targets are paths in the box. */
  entries: BoxEntry[];
  /** The interpreters' paths in the box; `null` where there is none. */
  runtimes: Record<Language, string | null>;
  /** An absolute path; `null` for a temporary folder. */
  workspace: string | null;
  /** By absolute paths of this machine. */
  mounts: Record<string, [target: string, access: 'ro' | 'rw']>;
  /** The folder in the box that code starts in. */
  cwd: string;
  /** All variables that code gets, PATH and HOME among them. */
  env: Record<string, string>;
  limits: {
    memoryMb: number | null;
    pids: number | null;
    cpus: number | null;
    diskMb: number | null;
  };
  enforceLimits: boolean;
  requireLimits: boolean;
  trackFiles: boolean;
  warm: boolean;
  /** Whether it has the host's network. How names are found is in `entries`. */
  network: boolean;
  preload: string[];
  timeoutS: number;
  maxOutputBytes: number;
}

/** A mount of a box. */
export interface BoxMount {
  target: string;
  /** `"hidden"`: a file or folder of `/proc` that reads as empty. */
  type: 'bind' | 'tmpfs' | 'proc' | 'hidden';
  access: 'ro' | 'rw' | 'none';
  /** Of a bind: the path on the host. */
  source?: string;
  /** Of a tmpfs that is limited; `null` where it is not. */
  sizeBytes?: number | null;
}

/** What came of a spec on this host. */
export interface BoxDescription {
  mounts: BoxMount[];
  devices: string[];
  /** The namespaces that are the box's own. */
  namespaces: string[];
  /** Its own loopback interface alone, or all that the host has. */
  network: 'loopback' | 'host';
  /**
   * With the host's network: what Landlock keeps within the box. Empty where the
   * network namespace does, and where the kernel has no scopes.
   */
  scopes: string[];
  /** What options opened that a box does not have by default. For people. */
  relaxes: string[];
  /** Always empty. */
  capabilities: string[];
  user: { name: string; uid: number; gid: number; home: string };
  hostname: string;
  limits: Record<
    keyof SandboxLimits,
    { value: number | null; force: LimitForce }
  >;
  /**
   * The system calls by verdict: `allow`, `kill`, `EPERM`, and `arguments` where
   * the arguments decide. Every other call gets `otherwise`. Then the size and
   * the digest of the program that the kernel runs.
   */
  filter: {
    otherwise: string;
    instructions: number;
    sha256: string;
    allow: string[];
    kill: string[];
    EPERM: string[];
    arguments: string[];
  };
  /**
   * From what a call without options of its own starts, and why: a box, and in
   * it each interpreter. `"ready"`: it was there before the call, unless a burst
   * of calls has used all up; `"on demand"`: it is made for the call, an
   * interpreter as a fork of one that is there; `"cold"`: it is executed. As far
   * as is known: an interpreter that turns out not to be able to wait is cold
   * from then on.
   */
  start: Record<
    'box' | Language,
    { from: 'ready' | 'on demand' | 'cold'; why: string }
  >;
}

/** What {@link Sandbox.plan} gives. */
export interface SandboxPlan {
  /** Of this format. */
  version: 2;
  /** The version of glovebox that wrote it. */
  glovebox: string;
  /** What makes the box: this part is read when it is given as option `spec`. */
  spec: BoxSpec;
  /** What comes of it here: told, and not read back. */
  box: BoxDescription;
}

/**
 * A session: options and a workspace. Every call runs in a new box: files in
 * `/workspace` persist from one to the next, memory and processes do not. Calls
 * may run at the same time.
 *
 * @example
 * ```ts
 * import { Sandbox } from 'glovebox';
 *
 * const sandbox = await new Sandbox({ memoryMb: 256 }).open();
 * try {
 *   await sandbox.writeFile('data.csv', 'n\n1\n2\n');
 *   const result = await sandbox.runCode('len(list(open("data.csv")))');
 *   console.log(result.results[0]?.text); // "3"
 * } finally {
 *   await sandbox.close();
 * }
 * ```
 */
export class Sandbox {
  /**
   * Checks the options. Nothing starts before {@link open}.
   *
   * @throws {SandboxError} ERR_SANDBOX_INVALID_OPTION — an option is unknown,
   *   of the wrong type, out of its range, or not built yet; it says which, what
   *   was expected and what came.
   */
  constructor(options?: SandboxOptions);

  /**
   * Prepares the workspace and what boxes are made from. Resolves with the
   * Sandbox itself. Calling it again gives the same; after a failure it tries
   * again.
   *
   * @throws {SandboxError} ERR_SANDBOX_UNSUPPORTED_PLATFORM — this is not
   *   Linux, or not Node.js.
   * @throws {SandboxError} ERR_SANDBOX_LOAD — the compiled part is missing or
   *   does not load.
   * @throws {SandboxError} ERR_SANDBOX_START, ERR_SANDBOX_SETUP,
   *   ERR_SANDBOX_UNSUPPORTED — the kernel refused a step.
   * @throws {SandboxError} ERR_SANDBOX_WORKSPACE — the workspace cannot be made
   *   or used.
   * @throws {SandboxError} ERR_SANDBOX_LIMIT — `requireLimits`, and the kernel
   *   does not enforce a limit.
   * @throws {SandboxError} ERR_SANDBOX_INVALID_OPTION — the `spec` is wrong.
   * @throws {MountRefused} ERR_SANDBOX_MOUNT_REFUSED, ERR_SANDBOX_MOUNT,
   *   ERR_SANDBOX_PRELOAD — see `mounts` and `preload`.
   * @throws {SandboxError} ERR_SANDBOX_CLOSED — `close()` was called.
   */
  open(): Promise<this>;

  /**
   * Ends the session: kills what runs (those calls reject with
   * ERR_SANDBOX_CLOSED), ends its kernels, waits until all is gone, and deletes
   * a temporary workspace. Calling it again gives the same promise; before
   * `open()` it only marks the Sandbox as closed.
   *
   * @throws {SandboxError} ERR_SANDBOX_IO — some of a temporary workspace could
   *   not be deleted, which no code in a box can bring about: this machine has
   *   made it immutable, mounted something there or put another folder in its
   *   place. All else is done.
   */
  close(): Promise<void>;

  /** {@link close}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;

  /**
   * The absolute path of the workspace on this machine.
   *
   * @throws {SandboxError} ERR_SANDBOX_NOT_OPEN — before `open()`.
   */
  get workspace(): string;

  /**
   * How the limits are enforced here, for as long as the Sandbox is open: if
   * what enforces them is lost, calls reject with `ERR_SANDBOX_LIMIT`.
   *
   * @throws {SandboxError} ERR_SANDBOX_NOT_OPEN — before `open()`.
   */
  get limits(): SandboxLimits;

  /**
   * Says what every box of this Sandbox gets, as plain data: mounts, devices,
   * limits, environment, the system calls with their verdicts. The environment
   * is in it as it is, secrets too.
   *
   * Given back as the option `spec`, also from a file, it makes the same box.
   * That takes the library cJSON (Debian, Ubuntu: libcjson1) on this machine.
   *
   * @throws {SandboxError} ERR_SANDBOX_NOT_OPEN — before `open()`.
   *
   * @example
   * ```ts
   * import { Sandbox, withSandbox } from 'glovebox';
   *
   * const plan = await withSandbox({ pids: 50 }, (sandbox) => sandbox.plan());
   * console.log(plan.box.limits.pids.value); // 50
   * console.log(plan.box.filter.kill.includes('mount')); // true
   *
   * plan.spec.env.GREETING = 'hello';
   * await withSandbox({ spec: plan }, async (sandbox) => {
   *   const result = await sandbox.run(['printenv', 'GREETING']);
   *   console.log(result.stdout); // "hello\n"
   * });
   * ```
   */
  plan(): Promise<SandboxPlan>;

  /**
   * Runs code and resolves with how it ended.
   *
   * @param code Source text of any length up to 64 MiB. Python and JavaScript
   *   may use top-level `await`.
   * @throws {SandboxError} ERR_SANDBOX_INVALID_OPTION — an argument is wrong.
   * @throws {SandboxError} ERR_SANDBOX_RUNTIME_MISSING — this machine has no
   *   interpreter for the language.
   * @throws {SandboxError} ERR_SANDBOX_NOT_OPEN, ERR_SANDBOX_CLOSED — the
   *   Sandbox is not open.
   * @throws {SandboxError} ERR_SANDBOX_SETUP, ERR_SANDBOX_LIMIT,
   *   ERR_SANDBOX_DIED — the box could not be made or was lost.
   * @throws {SandboxError} ERR_SANDBOX_UNSUPPORTED — with `trace`: this kernel
   *   does not say what it refuses.
   * @throws {SandboxError} ERR_SANDBOX_DISK_FULL — the workspace has grown by
   *   more than diskMb: delete some of its files.
   *
   * @example
   * ```ts
   * import { withSandbox } from 'glovebox';
   *
   * await withSandbox(async (sandbox) => {
   *   await sandbox.runCode('echo hello > greeting', { language: 'bash' });
   *   const result = await sandbox.runCode('open("greeting").read()');
   *   console.log(result.results[0]?.text); // "'hello\\n'"
   * });
   * ```
   */
  runCode(code: string, options?: RunCodeOptions): Promise<ExecutionResult>;

  /**
   * Runs a program. A program that is not found or cannot be executed is a
   * result: exitCode 127 or 126, with `error`.
   *
   * @param argv The program, looked up on the PATH of the box, and its
   *   arguments. No shell reads them. At most 131071 bytes each.
   * @throws {SandboxError} as {@link runCode} does.
   *
   * @example
   * ```ts
   * import { withSandbox } from 'glovebox';
   *
   * await withSandbox(async (sandbox) => {
   *   const result = await sandbox.run(['echo', '$HOME; ls']);
   *   console.log(result.stdout); // "$HOME; ls\n"
   * });
   * ```
   */
  run(
    argv: readonly string[],
    options?: PerCallOptions,
  ): Promise<ExecutionResult>;

  /**
   * Starts a program, or code, to talk to while it runs. Returns at once, with
   * streams; {@link SandboxProcess} has the rest. The process, and all that it
   * starts, is gone when it ends, when the session's `timeoutS` or the call's is
   * over, or when the Sandbox is closed.
   *
   * @param command The program and its arguments, as for {@link run}; or code, as
   *   for {@link runCode}.
   * @throws {SandboxError} as {@link runCode} does, but it throws at once what is
   *   known at once; of the rest `wait()` tells.
   *
   * @example
   * ```ts
   * import { withSandbox } from 'glovebox';
   *
   * await withSandbox(async (sandbox) => {
   *   const sort = sandbox.spawn(['sort', '-n']);
   *   sort.stdin.end('10\n9\n');
   *   for await (const chunk of sort.stdout) console.log(String(chunk)); // "9\n10\n"
   *
   *   const shell = sandbox.spawn(['bash', '-i'], { pty: { cols: 80, rows: 24 } });
   *   shell.stdin.write('stty size; exit\n');
   *   const { stdout } = await shell.wait();
   *   console.log(stdout.includes('24 80')); // true
   * });
   * ```
   */
  spawn(
    command: readonly string[] | { code: string; language?: Language },
    options?: SpawnOptions,
  ): SandboxProcess;

  /**
   * Starts an interpreter that keeps its state from one cell to the next, in a
   * box of its own. Resolves when it is ready.
   *
   * A Kernel that is garbage collected is closed, with a warning
   * `GLOVEBOX_UNCLOSED`.
   *
   * @throws {SandboxError} ERR_SANDBOX_INVALID_OPTION — an option is wrong.
   * @throws {SandboxError} ERR_SANDBOX_KERNEL_DEAD — it did not start; the
   *   message says why.
   * @throws {SandboxError} as {@link runCode} does.
   *
   * @example
   * ```ts
   * import { withSandbox } from 'glovebox';
   *
   * await withSandbox(async (sandbox) => {
   *   const kernel = await sandbox.kernel();
   *   await kernel.runCode('n = 41');
   *   const result = await kernel.runCode('n + 1');
   *   console.log(result.results[0]?.text); // "42"
   * });
   * ```
   */
  kernel(options?: KernelOptions): Promise<Kernel>;

  /**
   * Writes a file of the workspace in one step: a reader sees the old content
   * or the new, never half, also when this process is killed meanwhile. Missing
   * folders are made. No link is followed. A file that was there keeps its mode;
   * a hard link to it keeps the old content.
   *
   * A stream is written piece by piece, and the file is there when it has
   * ended; if it fails, nothing has changed, and the promise rejects with its
   * error.
   *
   * @param path Relative to the workspace, without "..".
   * @param data Bytes, text that is written as UTF-8, or a stream of either.
   * @throws {SandboxError} ERR_SANDBOX_PATH — the path leads outside, also by a
   *   link.
   * @throws {SandboxError} ERR_SANDBOX_NOT_REGULAR — a folder or a special file
   *   is there.
   * @throws {SandboxError} ERR_SANDBOX_BUSY, ERR_SANDBOX_IO — the file system
   *   refused.
   *
   * @example
   * ```ts
   * import { Readable } from 'node:stream';
   * import { withSandbox } from 'glovebox';
   *
   * await withSandbox(async (sandbox) => {
   *   await sandbox.writeFile('notes/a.txt', 'hello');
   *   await sandbox.writeFile('b.bin', Uint8Array.of(0, 255));
   *   await sandbox.writeFile('c.txt', Readable.from(['one ', 'two']));
   *   console.log(await sandbox.readFile('c.txt', 'utf8')); // "one two"
   * });
   * ```
   */
  writeFile(
    path: WorkspacePath,
    data: FileData,
    options?: BufferEncoding | WriteFileOptions,
  ): Promise<void>;

  /**
   * Reads a file of the workspace. No link is followed. For one that is too
   * large for memory see {@link createReadStream}.
   *
   * @param path Relative to the workspace, without "..".
   * @throws {SandboxError} ERR_SANDBOX_NOT_FOUND — there is no such file.
   * @throws {SandboxError} ERR_SANDBOX_TOO_LARGE — it has more than `maxBytes`.
   * @throws {SandboxError} as {@link writeFile} does.
   *
   * @example
   * ```ts
   * import { withSandbox } from 'glovebox';
   *
   * await withSandbox(async (sandbox) => {
   *   await sandbox.writeFile('a/b.txt', 'hello');
   *   console.log(await sandbox.readFile('a/b.txt', 'utf8')); // "hello"
   *   console.log((await sandbox.readFile('a/b.txt')).length); // 5
   * });
   * ```
   */
  readFile(
    path: WorkspacePath,
    options?: { maxBytes?: number; encoding?: null },
  ): Promise<Buffer>;
  readFile(
    path: WorkspacePath,
    options: BufferEncoding | { maxBytes?: number; encoding: BufferEncoding },
  ): Promise<string>;

  /**
   * A stream of a file in the workspace, as `fs.createReadStream()` is of one on
   * the host. What goes wrong with the file is its `error` event; it ends with
   * ERR_SANDBOX_CLOSED when the Sandbox is closed.
   *
   * @throws {SandboxError} ERR_SANDBOX_PATH, ERR_SANDBOX_INVALID_OPTION,
   *   ERR_SANDBOX_NOT_OPEN, ERR_SANDBOX_CLOSED — at once.
   *
   * @example
   * ```ts
   * import { withSandbox } from 'glovebox';
   *
   * await withSandbox(async (sandbox) => {
   *   await sandbox.writeFile('log', 'first\nsecond\n');
   *   const stream = sandbox.createReadStream('log', { start: 6, end: 11 });
   *   for await (const chunk of stream) console.log(String(chunk)); // "second"
   * });
   * ```
   */
  createReadStream(
    path: WorkspacePath,
    options?: BufferEncoding | ReadStreamOptions,
  ): Readable;

  /**
   * A stream into a file of the workspace, which is there, whole, once the
   * stream has finished. Destroyed before, it leaves nothing behind.
   *
   * @throws {SandboxError} as {@link createReadStream} does.
   *
   * @example
   * ```ts
   * import { Readable } from 'node:stream';
   * import { pipeline } from 'node:stream/promises';
   * import { withSandbox } from 'glovebox';
   *
   * await withSandbox(async (sandbox) => {
   *   const source = Readable.from(['a,b\n', '1,2\n']);
   *   await pipeline(source, sandbox.createWriteStream('data.csv'));
   *   console.log((await sandbox.stat('data.csv')).size); // 8
   * });
   * ```
   */
  createWriteStream(
    path: WorkspacePath,
    options?: WriteStreamOptions,
  ): Writable;

  /**
   * Lists the regular files of the workspace, or of one folder in it with all
   * that is below, sorted by path; without the workspace's own `.deps`, unless
   * that is the folder. What has a path of more than 4095 bytes, or lies in a
   * folder that this process may not read, is left out; more than a million
   * entries are refused.
   *
   * @param folder Relative to the workspace, without "..". Left out: all.
   * @throws {SandboxError} ERR_SANDBOX_NOT_FOUND — there is no such folder.
   * @throws {SandboxError} ERR_SANDBOX_TOO_LARGE — there are too many.
   * @throws {SandboxError} as {@link writeFile} does.
   *
   * @example
   * ```ts
   * import { withSandbox } from 'glovebox';
   *
   * await withSandbox(async (sandbox) => {
   *   await sandbox.writeFile('src/a.py', 'pass');
   *   const [file] = await sandbox.listFiles();
   *   console.log(file?.path); // "src/a.py"
   *   const entries = await sandbox.listFiles({ all: true });
   *   console.log(entries.length); // 2
   *   console.log(entries[0]?.type); // "directory"
   * });
   * ```
   */
  listFiles(
    folder?: WorkspacePath,
    options?: ListFilesOptions,
  ): Promise<WorkspaceFile[]>;
  listFiles(options: ListFilesOptions): Promise<WorkspaceFile[]>;

  /**
   * What is at a path, itself: of a symlink, the symlink.
   *
   * @throws {SandboxError} ERR_SANDBOX_NOT_FOUND — there is nothing.
   * @throws {SandboxError} ERR_SANDBOX_PATH — the path leads outside, or through
   *   a symlink.
   */
  stat(path: WorkspacePath): Promise<EntryInfo>;

  /**
   * Whether there is anything at a path, if only a symlink that leads nowhere.
   *
   * @throws {SandboxError} ERR_SANDBOX_PATH — as {@link stat}.
   */
  exists(path: WorkspacePath): Promise<boolean>;

  /**
   * Makes a folder, with those that it lies in. One that is there is no error.
   *
   * @throws {SandboxError} ERR_SANDBOX_EXISTS — something else is there.
   * @throws {SandboxError} as {@link writeFile} does.
   */
  mkdir(path: WorkspacePath): Promise<void>;

  /**
   * Moves a file or folder within the workspace, in one step. Folders that `to`
   * lies in are made. A file that is there is replaced, a folder never.
   *
   * @throws {SandboxError} ERR_SANDBOX_NOT_FOUND — there is nothing at `from`.
   * @throws {SandboxError} ERR_SANDBOX_EXISTS — a folder is at `to`.
   * @throws {SandboxError} ERR_SANDBOX_PATH — `to` lies below `from`.
   * @throws {SandboxError} as {@link writeFile} does.
   */
  rename(from: WorkspacePath, to: WorkspacePath): Promise<void>;

  /**
   * Removes a file, a symlink itself, or with `recursive` a folder with all that
   * is in it, whatever names and modes that has.
   *
   * @throws {SandboxError} ERR_SANDBOX_NOT_FOUND — there is nothing, and no
   *   `force`.
   * @throws {SandboxError} ERR_SANDBOX_NOT_REGULAR — it is a folder, and no
   *   `recursive`.
   * @throws {SandboxError} as {@link writeFile} does.
   *
   * @example
   * ```ts
   * import { withSandbox } from 'glovebox';
   *
   * await withSandbox(async (sandbox) => {
   *   await sandbox.writeFile('old/a', 'x');
   *   await sandbox.rename('old/a', 'new/b');
   *   await sandbox.rm('old', { recursive: true });
   *   console.log(await sandbox.exists('old')); // false
   *   console.log(await sandbox.exists('new/b')); // true
   * });
   * ```
   */
  rm(path: WorkspacePath, options?: RmOptions): Promise<void>;

  /**
   * What changes in the workspace, or below one folder of it, by code in boxes
   * and by this host, from the moment that the promise resolves. At most 8192
   * folders; symlinks are not followed. What is not taken waits in the kernel, up
   * to a bound; of a folder that appears, some MiB of names are told; `"lost"` says
   * that there was more. The loop ends with `watcher.close()`, when the folder is
   * gone or has moved, also with a folder that it lies in, and when the Sandbox
   * is closed.
   *
   * @throws {SandboxError} ERR_SANDBOX_NOT_FOUND — there is no such folder.
   * @throws {SandboxError} ERR_SANDBOX_TOO_LARGE — it has too many folders.
   * @throws {SandboxError} ERR_SANDBOX_IO — the kernel's limits of inotify are
   *   reached; the message says which to raise.
   *
   * @example
   * ```ts
   * import { withSandbox } from 'glovebox';
   *
   * await withSandbox(async (sandbox) => {
   *   const watcher = await sandbox.watch();
   *   await sandbox.run(['touch', 'report.txt']);
   *   for await (const { change, path } of watcher) {
   *     console.log(`${change} ${path}`); // "created report.txt"
   *     break;
   *   }
   * });
   * ```
   */
  watch(folder?: WorkspacePath): Promise<Watcher>;

  /**
   * Writes the whole workspace, `.deps` too, to a `.tar.gz` file of this
   * machine: files with their modes (not setuid) and times (whole seconds),
   * folders, also empty ones, hard links, and symlinks that stay inside. Any tar
   * reads it. It gets its name when it is whole; a file that was there is
   * replaced. Memory does not grow with the workspace.
   *
   * Each file is as it was when it was read: end your calls first for an archive
   * of one moment.
   *
   * @param dest A path of this machine, outside the workspace.
   * @throws {SandboxError} ERR_SANDBOX_TOO_LARGE — more than `maxBytes`, 500000
   *   files and folders, 128 MiB of their names, 8 GiB in one file, or 4095 bytes
   *   in one path.
   * @throws {SandboxError} ERR_SANDBOX_PATH — `dest` lies in the workspace, or
   *   its way leads through it.
   * @throws {SandboxError} ERR_SANDBOX_EXISTS — `dest` is there and is no file.
   * @throws {SandboxError} ERR_SANDBOX_HOST_FILE — `dest` cannot be written;
   *   `errno` says why.
   * @throws {SandboxError} ERR_SANDBOX_BUSY, ERR_SANDBOX_IO — a file cannot be
   *   read, or shrank while it was.
   */
  snapshot(dest: string, options?: ArchiveOptions): Promise<SnapshotInfo>;

  /**
   * Replaces all that is in the workspace by what a `.tar.gz` file holds: one of
   * {@link snapshot}, of kern-sandbox, or of `tar --format=pax`. All or nothing:
   * the archive is unpacked aside and takes its place in the end; after an error
   * the workspace is as it was. Should this process be killed meanwhile, the next
   * Sandbox with the same `workspace` finds all of the one or of the other.
   *
   * The archive may be anybody's. Refused are: names that are absolute or have
   * "..", devices, pipes and the like, symlinks that lead outside, members
   * below a symlink, members that are there twice, and headers that two readers
   * of archives could read in two ways.
   *
   * @param src A path of this machine.
   * @throws {SandboxError} ERR_SANDBOX_ARCHIVE — it is refused; the message says
   *   which rule is broken, and `member` by whom.
   * @throws {SandboxError} ERR_SANDBOX_BUSY — a call runs, or another restore.
   * @throws {SandboxError} ERR_SANDBOX_HOST_FILE — `src` cannot be read.
   * @throws {SandboxError} ERR_SANDBOX_NOT_REGULAR — `src` is no file.
   * @throws {SandboxError} ERR_SANDBOX_IO — the workspace cannot be written.
   *
   * @example
   * ```ts
   * import { rm } from 'node:fs/promises';
   * import { tmpdir } from 'node:os';
   * import { join } from 'node:path';
   * import { withSandbox } from 'glovebox';
   *
   * const archive = join(tmpdir(), `checkpoint-${process.pid}.tar.gz`);
   * await withSandbox(async (sandbox) => {
   *   await sandbox.writeFile('state.json', '{}');
   *   const { files } = await sandbox.snapshot(archive);
   *   console.log(files); // 1
   *   await sandbox.run(['rm', 'state.json']);
   *   await sandbox.restore(archive);
   *   console.log(await sandbox.readFile('state.json', 'utf8')); // "{}"
   * });
   * await rm(archive);
   * ```
   */
  restore(src: string, options?: ArchiveOptions): Promise<ArchiveInfo>;
}

/**
 * An interpreter that keeps its state, from {@link Sandbox.kernel}. Cells run
 * one after the other, in the order of the calls.
 */
export class Kernel {
  private constructor();

  /**
   * Whether its interpreter lives, so that {@link runCode} can be called. While
   * it restarts it does.
   */
  readonly isAlive: boolean;

  /**
   * Runs one cell and resolves with how it ended. An exception or `sys.exit()`
   * ends the cell only, and so does a timeout: the cell is interrupted, as by
   * {@link interrupt}, and the state is kept. Code that goes on for another half
   * second costs the interpreter. The `fault` says which it was. Any other fault
   * ends the interpreter: the cell resolves with it, later calls reject.
   *
   * What a callback throws does not end the cell; the promise rejects with it
   * when the cell has ended, and the kernel lives on.
   *
   * @throws {SandboxError} ERR_SANDBOX_INVALID_OPTION — an argument is wrong.
   * @throws {SandboxError} ERR_SANDBOX_KERNEL_DEAD — the kernel has ended; the
   *   message says why.
   * @throws {SandboxError} ERR_SANDBOX_CLOSED — the kernel or its Sandbox was
   *   closed.
   * @throws {SandboxError} ERR_SANDBOX_PROTOCOL — the code wrote rubbish to the
   *   interpreter's own channel; the kernel has ended.
   *
   * @example
   * ```ts
   * import { withSandbox } from 'glovebox';
   *
   * await withSandbox(async (sandbox) => {
   *   const kernel = await sandbox.kernel({ timeoutS: 10 });
   *   await kernel.runCode('n = 41');
   *   const result = await kernel.runCode('while True: pass', { timeoutS: 1 });
   *   console.log(result.fault?.type); // "timeout"
   *   console.log((await kernel.runCode('n')).results[0]?.text); // "41"
   * });
   * ```
   */
  runCode(code: string, options?: CellOptions): Promise<ExecutionResult>;

  /**
   * Interrupts the cell that runs, and the programs it has started and waits
   * for, as Ctrl-C does: KeyboardInterrupt in python, an error of node:vm with
   * code `ERR_SCRIPT_EXECUTION_INTERRUPTED` in node, the end of all loops and
   * functions in bash. The cell's `exitCode` is then 130, the state stays.
   * Resolves at once: with false if no cell runs, and nothing has happened.
   * Code may catch the interrupt and go on; `timeoutS` counts all the same.
   *
   * What a cell of node waits for is left, not stopped. Its code cannot be
   * interrupted where it loops for ever after it has waited for a timer or for
   * input; then its timeout costs the interpreter. Its listeners of SIGINT are
   * called while it waits, also for one that it sends to itself with
   * `process.kill(process.pid, 'SIGINT')`. One that another process sends to it
   * reaches none of them; it ends code that does not wait.
   *
   * @example
   * ```ts
   * import { withSandbox } from 'glovebox';
   *
   * await withSandbox(async (sandbox) => {
   *   const kernel = await sandbox.kernel();
   *   const cell = kernel.runCode('print("up")\nwhile True: pass', {
   *     onStdout: () => kernel.interrupt(),
   *   });
   *   console.log((await cell).exitCode); // 130
   * });
   * ```
   */
  interrupt(): Promise<boolean>;

  /**
   * Starts it anew in another box: no state, no checkpoints. It works on a dead
   * kernel too. A cell that runs and those that wait reject with
   * ERR_SANDBOX_KERNEL_DEAD; cells that are given to it from now on wait for the
   * new interpreter. Resolves when that is ready.
   *
   * @throws {SandboxError} ERR_SANDBOX_CLOSED — the kernel or its Sandbox was
   *   closed.
   * @throws {SandboxError} ERR_SANDBOX_KERNEL_DEAD — the new one did not start.
   * @throws {SandboxError} as {@link Sandbox.kernel} does.
   *
   * @example
   * ```ts
   * import { withSandbox } from 'glovebox';
   *
   * await withSandbox(async (sandbox) => {
   *   const kernel = await sandbox.kernel({ language: 'bash' });
   *   await kernel.runCode('n=41; exit 1');
   *   console.log(kernel.isAlive); // false
   *   await kernel.restart();
   *   console.log((await kernel.runCode('echo "<$n>"')).stdout); // "<>\n"
   * });
   * ```
   */
  restart(): Promise<void>;

  /**
   * Of python: keeps a copy of the interpreter as it is now, asleep in the box,
   * for {@link rollback}. It waits for the cells before it. Resolves with the
   * number of the checkpoint. There are at most 16; a further one takes the place
   * of the oldest.
   *
   * A copy is a fork: it costs milliseconds, shares its memory until one of both
   * changes it, and counts as one process. It has all that is in memory, but no
   * threads; a lock that one of them held stays held. What is outside of the
   * interpreter is not in it: files, child processes, the other end of sockets.
   *
   * @throws {SandboxError} ERR_SANDBOX_CHECKPOINT — there is no room for it, or
   *   the kernel is not of python.
   * @throws {SandboxError} ERR_SANDBOX_KERNEL_DEAD — the kernel has ended.
   * @throws {SandboxError} ERR_SANDBOX_CLOSED — the kernel or its Sandbox was
   *   closed.
   *
   * @example
   * ```ts
   * import { withSandbox } from 'glovebox';
   *
   * await withSandbox(async (sandbox) => {
   *   const kernel = await sandbox.kernel();
   *   await kernel.runCode('n = 41');
   *   const id = await kernel.checkpoint();
   *   await kernel.runCode('import os; os.abort()');
   *   await kernel.rollback(id);
   *   console.log((await kernel.runCode('n + 1')).results[0]?.text); // "42"
   * });
   * ```
   */
  checkpoint(): Promise<number>;

  /**
   * Goes back to a checkpoint: within milliseconds, as often as you like, and
   * also when the interpreter has crashed or was killed, as long as its box
   * lives. It waits for the cells before it. The interpreter of now ends.
   *
   * @param id What {@link checkpoint} resolved with.
   *
   * @throws {SandboxError} ERR_SANDBOX_INVALID_OPTION — `id` is no such number.
   * @throws {SandboxError} ERR_SANDBOX_CHECKPOINT — there is no such checkpoint,
   *   or not any more; the state is as it was.
   * @throws {SandboxError} ERR_SANDBOX_KERNEL_DEAD — its box is gone.
   * @throws {SandboxError} ERR_SANDBOX_CLOSED — the kernel or its Sandbox was
   *   closed.
   */
  rollback(id: number): Promise<void>;

  /**
   * Ends the kernel and waits until its box is gone, not for a cell: one that
   * runs rejects with ERR_SANDBOX_CLOSED. Calling it again gives the same promise.
   */
  close(): Promise<void>;

  /** {@link close}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** The events of {@link SandboxProcess}, with their arguments. */
export interface SandboxProcessEvents {
  /** Its box has it; `pid` is known. Comes before all output. */
  spawn: [];
  /** It has ended, and its box is gone. Output may still have to be read. */
  exit: [exitCode: number | null, signal: string | null];
  /**
   * It has ended, and both streams were read to their end or destroyed. One that
   * nobody reads is not waited for: it keeps what it has.
   */
  close: [exitCode: number | null, signal: string | null];
  /** What `wait()` rejects with, before `"exit"`; only if somebody listens. */
  error: [error: unknown];
}

/**
 * A process to talk to, from {@link Sandbox.spawn}. What it has in common with a
 * `ChildProcess` of node:child_process works as there.
 *
 * Output waits in the box until somebody reads it, and the program with it, as
 * with any pipe: `maxOutputBytes` cuts nothing from the streams.
 *
 * @see {@link https://nodejs.org/api/child_process.html#class-childprocess}
 */
export class SandboxProcess extends EventEmitter<SandboxProcessEvents> {
  private constructor();

  /**
   * What the program reads. With a terminal, what is typed: `end()` types
   * Ctrl-D. It is destroyed, without an error, when nobody reads it any more; a
   * write that is on its way then has `EPIPE` in its callback.
   */
  readonly stdin: Writable;
  /**
   * What the program writes, as Buffers; `setEncoding()` is for this stream, and
   * not for callbacks and the result. If it is destroyed, the program gets
   * SIGPIPE when it writes on; with a terminal, the rest is dropped.
   */
  readonly stdout: Readable;
  readonly stderr: Readable;

  /** Its number inside its box; undefined before `"spawn"`. */
  get pid(): number | undefined;
  /** 0–255; `null` while it runs, and if a signal ended it. */
  get exitCode(): number | null;
  /** The signal that ended it, such as `"SIGTERM"`; else `null`. */
  get signalCode(): NodeJS.Signals | (string & {}) | null;
  /** Whether `kill()` sent a signal. */
  get killed(): boolean;

  /**
   * Sends a signal to the process, not to its children. It comes as soon as the
   * process is there; false if it has ended.
   *
   * @param signal A name, or a number 0–64. 0 sends none.
   * @default "SIGTERM"
   * @throws {SandboxError} ERR_SANDBOX_INVALID_OPTION — there is no such signal.
   */
  kill(signal?: NodeJS.Signals | (string & {}) | number): boolean;

  /**
   * Changes the size of the terminal; programs get SIGWINCH.
   *
   * @throws {SandboxError} ERR_SANDBOX_INVALID_OPTION — it has no terminal, or
   *   the size is wrong.
   */
  resize(size: TerminalSize): void;

  /**
   * Resolves with how it ended, as `run()` does. `stdout` and `stderr` of the
   * result are what nobody else reads when this is called, or what a callback
   * got: at most `maxOutputBytes` of it. A stream that somebody else reads is
   * an empty string there.
   *
   * @throws {SandboxError} ERR_SANDBOX_ABORTED — it was disposed of.
   * @throws {SandboxError} as {@link Sandbox.runCode} does.
   */
  wait(): Promise<ExecutionResult>;

  /** Keeps this program alive as long as the process runs, as it does anyway. */
  ref(): this;
  /** Lets this program end before the process does, which then ends too. */
  unref(): this;

  /** Kills it and waits until its box is gone; `wait()` then rejects. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** The codes of {@link SandboxError}. docs/errors.md has cause and remedy. */
export type SandboxErrorCode =
  /** glovebox failed where it never should. */
  | 'ERR_SANDBOX_INTERNAL'
  /** The host has no memory for this. */
  | 'ERR_SANDBOX_NO_MEMORY'
  /** The sandbox processes could not be started. */
  | 'ERR_SANDBOX_START'
  /** The box could not be set up. */
  | 'ERR_SANDBOX_SETUP'
  /** The sandbox is closed. */
  | 'ERR_SANDBOX_CLOSED'
  /** The sandbox processes ended before the call did. */
  | 'ERR_SANDBOX_DIED'
  /** The workspace cannot be used. */
  | 'ERR_SANDBOX_WORKSPACE'
  /** The path does not stay inside the workspace, or is malformed. */
  | 'ERR_SANDBOX_PATH'
  /** There is no such file in the workspace. */
  | 'ERR_SANDBOX_NOT_FOUND'
  /** The path is not a regular file. */
  | 'ERR_SANDBOX_NOT_REGULAR'
  /** That is larger than allowed. */
  | 'ERR_SANDBOX_TOO_LARGE'
  /** Reading or writing in the workspace failed. */
  | 'ERR_SANDBOX_IO'
  /** The code wrote to the control socket of its interpreter. */
  | 'ERR_SANDBOX_PROTOCOL'
  /** The program could not be executed. */
  | 'ERR_SANDBOX_EXEC'
  /** The kernel has ended and its state is gone. */
  | 'ERR_SANDBOX_KERNEL_DEAD'
  /** The engine refused a value. */
  | 'ERR_SANDBOX_INVALID'
  /** This Linux kernel lacks something that glovebox needs. */
  | 'ERR_SANDBOX_UNSUPPORTED'
  /** A limit could not be put in force. */
  | 'ERR_SANDBOX_LIMIT'
  /** The call was ended by the caller. */
  | 'ERR_SANDBOX_ABORTED'
  /** Code in the box, or another call, is using it. */
  | 'ERR_SANDBOX_BUSY'
  /** The workspace is full. */
  | 'ERR_SANDBOX_DISK_FULL'
  /** Something else is there already. */
  | 'ERR_SANDBOX_EXISTS'
  /** The mount is refused. */
  | 'ERR_SANDBOX_MOUNT_REFUSED'
  /** The mount could not be made. */
  | 'ERR_SANDBOX_MOUNT'
  /** The modules of `preload` could not be imported. */
  | 'ERR_SANDBOX_PRELOAD'
  /** An option or argument is wrong. */
  | 'ERR_SANDBOX_INVALID_OPTION'
  /** The sandbox is not open. */
  | 'ERR_SANDBOX_NOT_OPEN'
  /** The interpreter is not installed. */
  | 'ERR_SANDBOX_RUNTIME_MISSING'
  /** glovebox runs on Linux only. */
  | 'ERR_SANDBOX_UNSUPPORTED_PLATFORM'
  /** The checkpoint cannot be made, or gone back to. */
  | 'ERR_SANDBOX_CHECKPOINT'
  /** The compiled part of glovebox could not be loaded. */
  | 'ERR_SANDBOX_LOAD'
  /** The archive is refused. */
  | 'ERR_SANDBOX_ARCHIVE'
  /** A file of the host cannot be used. */
  | 'ERR_SANDBOX_HOST_FILE';

/**
 * Misuse, or a failure of the sandbox; never how the code ended. The message
 * says what failed and what to do.
 *
 * @example
 * ```ts
 * import { Sandbox, SandboxError } from 'glovebox';
 *
 * try {
 *   new Sandbox({ memoryMb: 0 });
 * } catch (error) {
 *   if (!(error instanceof SandboxError)) throw error;
 *   console.log(error.code); // "ERR_SANDBOX_INVALID_OPTION"
 *   console.log(error.option); // "memoryMb"
 * }
 * ```
 */
export class SandboxError extends Error {
  constructor(
    message: string,
    details?: { code?: SandboxErrorCode; cause?: unknown },
  );
  code: SandboxErrorCode;
  /** The step that failed: `"clone3"`, `"pivot_root"`. */
  step?: string;
  /** The errno's name: `"ENOSPC"`. The number is in `cause.errno`. */
  errno?: string;
  /** Why, where it is known, and what to do; also in the message. */
  remedy?: string;
  /** The option or argument that is wrong. */
  option?: string;
  /** What was expected for it. */
  expected?: string;
  /** What came instead. */
  received?: string;
  /** The member of the archive that is refused. */
  member?: string;
}

/** A mount of the host that would put it at risk, or the box. */
export class MountRefused extends SandboxError {
  constructor(message: string, details?: { cause?: unknown });
  code: 'ERR_SANDBOX_MOUNT_REFUSED';
  /** Which rule it breaks. */
  rule: MountRule;
  /** The path on this machine; undefined where the target is the reason. */
  source?: string;
  /** The path in the box. */
  target?: string;
}

/**
 * Opens a {@link Sandbox}, calls `fn` with it, closes it however `fn` ended,
 * and resolves with what `fn` returned. If both `fn` and closing fail, the error is
 * that of `fn`, and the other is its property `suppressed`.
 *
 * @throws {SandboxError} as the constructor and `open()` do.
 *
 * @example
 * ```ts
 * import { withSandbox } from 'glovebox';
 *
 * const name = await withSandbox({ pids: 64 }, async (sandbox) => {
 *   const result = await sandbox.run(['whoami']);
 *   return result.stdout;
 * });
 * console.log(name); // "user\n"
 * ```
 */
export function withSandbox<T>(
  fn: (sandbox: Sandbox) => T | PromiseLike<T>,
): Promise<T>;
export function withSandbox<T>(
  options: SandboxOptions | undefined,
  fn: (sandbox: Sandbox) => T | PromiseLike<T>,
): Promise<T>;

/**
 * Runs code in a {@link Sandbox} of its own, which is gone when it resolves.
 *
 * @param code Source text of any length up to 64 MiB.
 * @param options Those of a Sandbox and of a call.
 * @throws {SandboxError} as the constructor, `open()` and `runCode()` of a
 *   Sandbox do.
 *
 * @example
 * ```ts
 * import { runCode } from 'glovebox';
 *
 * const result = await runCode('console.log([1, 2, 3].map((n) => n * n))', {
 *   language: 'node',
 *   timeoutS: 5,
 * });
 * console.log(result.stdout); // "[ 1, 4, 9 ]\n"
 * ```
 */
export function runCode(
  code: string,
  options?: OneShotOptions,
): Promise<ExecutionResult>;

/** One thing that {@link doctor} looked at. */
export interface DoctorCheck {
  /** What: `"box"`, `"limit memoryMb"`, `"python"`. */
  name: string;
  ok: boolean;
  /** Whether there is no box without it. */
  needed: boolean;
  /** What was found. */
  detail: string;
  /** Why it is not ok, where more is known than the detail says. */
  cause?: string;
  /** What to do about it: a command, a flag, a profile. */
  fix?: string;
}

/** What {@link doctor} found. `String(report)` is the text for people. */
export interface DoctorReport {
  /** Whether boxes work here. They may still have weaknesses. */
  ok: boolean;
  /** Of glovebox. */
  version: string;
  checks: DoctorCheck[];
  toString(): string;
}

/**
 * Says whether boxes work on this machine, for this user, by making one; which
 * limits the kernel enforces, which interpreters there are; and for what does
 * not work, why and how to change it. A call that cannot start rejects with the
 * same words. `npx glovebox doctor` prints it.
 *
 * It never rejects for what it finds.
 *
 * @example
 * ```ts
 * import { doctor } from 'glovebox';
 *
 * const report = await doctor();
 * if (!report.ok) console.error(String(report));
 * const box = report.checks.find((check) => check.name === 'box');
 * console.log(box?.ok); // true
 * ```
 */
export function doctor(): Promise<DoctorReport>;

/**
 * Whether this can work here at all: Linux, Node.js, and the compiled part
 * loads. It starts nothing, so the kernel may still refuse: {@link doctor} says
 * whether it does.
 *
 * @example
 * ```ts
 * import { isSupported } from 'glovebox';
 *
 * if (!isSupported()) console.log('no sandbox on this machine');
 * ```
 */
export function isSupported(): boolean;

/** The version of glovebox, such as `"0.1.0"`. */
export const version: string;
