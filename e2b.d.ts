// SPDX-License-Identifier: Apache-2.0

/// <reference types="node" />

import type { ReadableStream } from 'node:stream/web';
import type { SandboxErrorCode, SandboxOptions } from './index.js';

/**
 * The names of E2B's JavaScript SDK, on boxes of this machine. Only what works
 * is here; docs/from-e2b.md has the whole table.
 */

/** Options of {@link Sandbox.create}. Those of E2B's connection do nothing. */
export interface SandboxOpts {
  /**
   * Environment variables of all code and commands.
   *
   * @default {}
   */
  envs?: Record<string, string>;
  /**
   * When the sandbox ends by itself, in milliseconds, 0–2147483647.
   *
   * @default 300000
   */
  timeoutMs?: number;
  /**
   * Whether code has the network of this machine, which relaxes isolation: see
   * `network` of {@link SandboxOptions}. E2B's default is `true`.
   *
   * @default false
   */
  allowInternetAccess?: boolean;
  /** Does nothing. */
  metadata?: Record<string, string>;
  /** Does nothing. */
  secure?: boolean;
  /** Does nothing. */
  apiKey?: string;
  /** Does nothing. */
  domain?: string;
  /** Does nothing. */
  requestTimeoutMs?: number;
  /** If it is aborted already, nothing starts. */
  signal?: AbortSignal;
  /** Not of E2B: options of the Sandbox of glovebox below, such as limits. */
  glovebox?: SandboxOptions;
}

/** `"js"` is JavaScript. Only Python keeps its state between calls. */
export type RunCodeLanguage = 'python' | 'javascript' | 'js' | 'bash';

export interface RunCodeOpts {
  /** What the code is written in; not with `context`. */
  language?: RunCodeLanguage;
  /** Which Python; not with `language`. */
  context?: Context | string;
  onStdout?: (output: OutputMessage) => unknown;
  onStderr?: (output: OutputMessage) => unknown;
  /** Called with each result as it comes. */
  onResult?: (result: Result) => unknown;
  /** Called when the code has ended. */
  onError?: (error: ExecutionError) => unknown;
  /** Environment variables of this call. */
  envs?: Record<string, string>;
  /**
   * In milliseconds; 0 is no limit.
   *
   * @default 60000
   */
  timeoutMs?: number;
  /** Does nothing. */
  requestTimeoutMs?: number;
  /** Interrupts the code; the context keeps its state. */
  signal?: AbortSignal;
}

/** A Python with a state of its own. */
export interface Context {
  id: string;
  language: string;
  cwd: string;
}

export interface CreateCodeContextOpts {
  /** @default "/workspace" */
  cwd?: string;
  language?: 'python';
}

export class OutputMessage {
  constructor(line: string, timestamp: number, error: boolean);
  readonly line: string;
  /** In nanoseconds since 1970. */
  readonly timestamp: number;
  /** Whether it is stderr. */
  readonly error: boolean;
  toString(): string;
}

export class ExecutionError {
  constructor(name: string, value: string, traceback: string);
  name: string;
  value: string;
  traceback: string;
}

/** One rich value. Images and PDF are base64. */
export class Result {
  constructor(raw: Record<string, string>, isMainResult: boolean);
  readonly isMainResult: boolean;
  readonly text?: string;
  readonly html?: string;
  readonly markdown?: string;
  readonly svg?: string;
  readonly png?: string;
  readonly jpeg?: string;
  readonly pdf?: string;
  readonly latex?: string;
  readonly json?: string;
  readonly javascript?: string;
  /** Of other MIME types. */
  readonly extra: Record<string, string>;
  readonly raw: Record<string, string>;
  /** The names of those that it has beside the text: `"png"`. */
  formats(): string[];
  toJSON(): Record<string, unknown>;
}

export interface Logs {
  stdout: string[];
  stderr: string[];
}

export class Execution {
  constructor(
    results?: Result[],
    logs?: Logs,
    error?: ExecutionError,
    executionCount?: number,
  );
  results: Result[];
  logs: Logs;
  error?: ExecutionError;
  /** Of Python; undefined of other languages. */
  executionCount?: number;
  /** Of the main result. */
  get text(): string | undefined;
  toJSON(): Record<string, unknown>;
}

export interface CommandRequestOpts {
  /** Ends the command. */
  signal?: AbortSignal;
  /** Does nothing. */
  requestTimeoutMs?: number;
}

export interface CommandStartOpts extends CommandRequestOpts {
  /** @default false */
  background?: boolean;
  /** @default "/workspace" */
  cwd?: string;
  user?: 'user';
  envs?: Record<string, string>;
  onStdout?: (data: string) => unknown;
  onStderr?: (data: string) => unknown;
  /**
   * Whether `sendStdin()` is possible; else stdin is at its end.
   *
   * @default false
   */
  stdin?: boolean;
  /**
   * In milliseconds; 0 is no limit.
   *
   * @default 60000
   */
  timeoutMs?: number;
}

export interface CommandResult {
  exitCode: number;
  stdout: string;
  stderr: string;
  error?: string;
}

export interface ProcessInfo {
  pid: number;
  cmd: string;
  args: string[];
  envs: Record<string, string>;
  cwd?: string;
}

/** A command that runs, from {@link Commands.run} with `background: true`. */
export class CommandHandle {
  private constructor();
  /** For the methods of {@link Commands}; not its number in the box. */
  readonly pid: number;
  get stdout(): string;
  get stderr(): string;
  get exitCode(): number | undefined;
  get error(): string | undefined;
  /**
   * @throws {CommandExitError} It ended with another exit code than 0.
   * @throws {TimeoutError} `timeoutMs` was over.
   */
  wait(): Promise<CommandResult>;
  kill(): Promise<boolean>;
  sendStdin(data: string | Uint8Array): Promise<void>;
  closeStdin(): Promise<void>;
}

export interface Commands {
  /**
   * Runs a command line with bash, in a box of its own.
   *
   * @throws {CommandExitError} It ended with another exit code than 0.
   * @throws {TimeoutError} `timeoutMs` was over.
   */
  run(
    cmd: string,
    opts?: CommandStartOpts & { background?: false },
  ): Promise<CommandResult>;
  run(
    cmd: string,
    opts: CommandStartOpts & { background: true },
  ): Promise<CommandHandle>;
  run(
    cmd: string,
    opts?: CommandStartOpts,
  ): Promise<CommandHandle | CommandResult>;
  list(): Promise<ProcessInfo[]>;
  kill(pid: number): Promise<boolean>;
  sendStdin(pid: number, data: string | Uint8Array): Promise<void>;
  closeStdin(pid: number): Promise<void>;
}

export declare const FileType: {
  readonly FILE: 'file';
  readonly DIR: 'dir';
  readonly SYMLINK: 'symlink';
};
export type FileType = (typeof FileType)[keyof typeof FileType];

export interface WriteInfo {
  name: string;
  /** Undefined for what is neither file, folder nor symlink. */
  type?: FileType;
  /** In the box. */
  path: string;
}

export interface EntryInfo extends WriteInfo {
  size: number;
  /** Not of `list()`. */
  mode?: number;
  modifiedTime?: Date;
}

export interface FilesystemRequestOpts {
  user?: 'user';
  /** Does nothing. */
  signal?: AbortSignal;
  /** Does nothing. */
  requestTimeoutMs?: number;
}

export type FileContent =
  | string
  | ArrayBuffer
  | Uint8Array
  | Blob
  | ReadableStream
  | NodeJS.ReadableStream;

export interface WriteEntry {
  path: string;
  data: FileContent;
}

/** Paths are relative to `/workspace`, or begin with it. */
export interface Filesystem {
  read(
    path: string,
    opts?: FilesystemRequestOpts & { format?: 'text' },
  ): Promise<string>;
  read(
    path: string,
    opts: FilesystemRequestOpts & { format: 'bytes' },
  ): Promise<Uint8Array>;
  read(
    path: string,
    opts: FilesystemRequestOpts & { format: 'blob' },
  ): Promise<Blob>;
  read(
    path: string,
    opts: FilesystemRequestOpts & { format: 'stream' },
  ): Promise<ReadableStream<Uint8Array>>;
  write(
    path: string,
    data: FileContent,
    opts?: FilesystemRequestOpts,
  ): Promise<WriteInfo>;
  write(
    files: WriteEntry[],
    opts?: FilesystemRequestOpts,
  ): Promise<WriteInfo[]>;
  writeFiles(
    files: WriteEntry[],
    opts?: FilesystemRequestOpts,
  ): Promise<WriteInfo[]>;
  /**
   * `depth` is 1 if left out: what is in the folder itself. Also of folders
   * outside of `/workspace`, but not of those that are new for each command.
   */
  list(
    path: string,
    opts?: FilesystemRequestOpts & { depth?: number },
  ): Promise<EntryInfo[]>;
  exists(path: string, opts?: FilesystemRequestOpts): Promise<boolean>;
  getInfo(path: string, opts?: FilesystemRequestOpts): Promise<EntryInfo>;
  /** A folder goes with all that is in it. */
  remove(path: string, opts?: FilesystemRequestOpts): Promise<void>;
  /** False if it is there. */
  makeDir(path: string, opts?: FilesystemRequestOpts): Promise<boolean>;
  rename(
    oldPath: string,
    newPath: string,
    opts?: FilesystemRequestOpts,
  ): Promise<EntryInfo>;
}

/**
 * E2B's Sandbox on this machine.
 *
 * @example
 * ```ts
 * import { Sandbox } from 'glovebox/e2b';
 *
 * const sandbox = await Sandbox.create();
 * await sandbox.runCode('x = 1');
 * const execution = await sandbox.runCode('x += 1; x');
 * console.log(execution.text); // "2"
 * await sandbox.kill();
 * ```
 */
export class Sandbox {
  protected constructor();
  /** The name of a template that E2B has by default is accepted. */
  static create<T extends typeof Sandbox>(
    this: T,
    opts?: SandboxOpts,
  ): Promise<T['prototype']>;
  static create<T extends typeof Sandbox>(
    this: T,
    template: 'base' | 'code-interpreter-v1',
    opts?: SandboxOpts,
  ): Promise<T['prototype']>;

  readonly sandboxId: string;
  readonly files: Filesystem;
  readonly commands: Commands;

  /**
   * Runs code. It throws not for how the code ended, but for a timeout.
   *
   * @throws {TimeoutError} `timeoutMs` was over. The context keeps its state,
   *   unless the code could not be interrupted.
   */
  runCode(code: string, opts?: RunCodeOpts): Promise<Execution>;
  createCodeContext(opts?: CreateCodeContextOpts): Promise<Context>;
  listCodeContexts(): Promise<Context[]>;
  removeCodeContext(context: Context | string): Promise<void>;
  restartCodeContext(context: Context | string): Promise<void>;

  isRunning(): Promise<boolean>;
  /** When it ends by itself, in milliseconds from now. */
  setTimeout(timeoutMs: number): Promise<void>;
  /** Ends it, with all that runs in it. False if it had ended before. */
  kill(): Promise<boolean>;
  /** {@link kill}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** The base of the errors here; not that of glovebox, which is its `cause`. */
export class SandboxError extends Error {
  constructor(message: string, details?: { cause?: unknown });
  /** Of the error of glovebox, if it is from one. */
  code?: SandboxErrorCode;
}
/** `timeoutMs` was over. */
export class TimeoutError extends SandboxError {}
/** An option or argument is wrong. */
export class InvalidArgumentError extends SandboxError {}
/** The workspace has grown by more than `diskMb`. */
export class NotEnoughSpaceError extends SandboxError {}
export class NotFoundError extends SandboxError {}
/** There is no such file. */
export class FileNotFoundError extends NotFoundError {}
/** The sandbox has ended. */
export class SandboxNotFoundError extends NotFoundError {}
/** A command ended with another exit code than 0. */
export class CommandExitError extends SandboxError implements CommandResult {
  constructor(result: CommandResult);
  exitCode: number;
  stdout: string;
  stderr: string;
  error?: string;
}
