// SPDX-License-Identifier: Apache-2.0

// Compiled, not run, with --strict in each module mode: see types.test.js.

import { Readable, type Writable } from 'node:stream';
import api, {
  type ArchiveInfo,
  type ArchiveOptions,
  type BlockedCall,
  type BoxDescription,
  type BoxEntry,
  type BoxMount,
  type BoxSpec,
  type CallLimits,
  type CellOptions,
  type CodeError,
  type DoctorCheck,
  type DoctorReport,
  doctor,
  type EntryInfo,
  type EntryType,
  ExecutionResult,
  type FileData,
  type FileInfo,
  type InputSource,
  isSupported,
  Kernel,
  type KernelOptions,
  type Language,
  type LimitForce,
  type ListFilesOptions,
  MountRefused,
  type MountRule,
  type MountSpec,
  type OneShotOptions,
  type OutputCallback,
  type PerCallOptions,
  type ReadFileOptions,
  type ReadStreamOptions,
  Result,
  type ResultCallback,
  type RmOptions,
  type RunCodeOptions,
  runCode,
  Sandbox,
  SandboxError,
  type SandboxErrorCode,
  type SandboxFault,
  type SandboxFaultType,
  type SandboxLimits,
  type SandboxOptions,
  type SandboxPlan,
  SandboxProcess,
  type SandboxProcessEvents,
  type SkippedEntry,
  type SnapshotInfo,
  type SpawnOptions,
  type TerminalOptions,
  type TerminalSize,
  type Usage,
  version,
  type Watcher,
  type WorkspaceChange,
  type WorkspaceFile,
  type WorkspacePath,
  type WriteFileOptions,
  type WriteStreamOptions,
  withSandbox,
} from 'glovebox';

type Same<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2
    ? true
    : false;
function isType<A, B>(_same: Same<A, B>): void {}

export async function oneShot(): Promise<void> {
  const result: ExecutionResult = await runCode('1');
  const text: string | undefined = result.results[0]?.text;
  const png: Buffer | null | undefined = result.results[0]?.png;
  if (result.fault?.type === 'timeout') console.log(result.fault.message);
  const error: CodeError | null = result.error;
  const files: FileInfo[] = result.files;
  const deleted: Buffer[] = result.deletedFileBuffers;
  for (const { path, size, change } of files) {
    const said: 'created' | 'modified' = change;
    console.log(path.length + size, said);
  }
  const bytes: Buffer = result.stdoutBuffer;
  console.log(
    text,
    png,
    error?.line,
    bytes,
    deleted,
    result.usage.cpuMs?.toFixed(),
  );
  if (result.signal === 'SIGKILL' || result.signal === 'SIGRTMIN+1') return;

  // @ts-expect-error: no such language
  await runCode('1', { language: 'ruby' });
  // @ts-expect-error: no such option
  await runCode('1', { timeout: 5 });
  // @ts-expect-error: a unit is in the name, not in the value
  await runCode('1', { timeoutS: '5s' });
  await runCode('1', { network: true });
  // @ts-expect-error: there is the host's and none
  await runCode('1', { network: 'host' });
  // @ts-expect-error: code is a string
  await runCode(Buffer.from('1'));
  // @ts-expect-error: results come from calls
  new ExecutionResult();
  // @ts-expect-error: a fault is one of a few
  if (result.fault?.type === 'slow') return;

  const blocked: BlockedCall[] | undefined = result.blocked;
  for (const { syscall, errno, count } of blocked ?? []) {
    console.log(syscall.length + count, errno?.length);
  }

  const spec: MountSpec = ['/out', 'rw'];
  // @ts-expect-error: no such access
  await runCode('1', { mounts: { '/srv/a': ['/a', 'wr'] } });

  const options: OneShotOptions = {
    language: 'node',
    mounts: { '/srv/in': '/in', '/srv/out': spec },
    timeoutS: null,
    memoryMb: null,
    diskMb: 64,
    env: { A: '1' },
    runtimes: { python: '/usr/bin/python3' },
    trace: 'blocked',
    onStdout: (chunk) => {
      isType<typeof chunk, Buffer>(true);
    },
    onStderr: null,
    onResult: (result) => {
      isType<typeof result, Result>(true);
      const isMain: boolean = result.isMainResult;
      console.log(isMain, result.text);
    },
  };
  await runCode('1', options);
  const viaDefault: ExecutionResult = await api.runCode('1');
  console.log(
    viaDefault.text,
    viaDefault.success,
    api.version,
    version,
    isSupported(),
  );
}

export async function session(options: SandboxOptions): Promise<void> {
  const sandbox: Sandbox = await new Sandbox(options).open();
  const perCall: PerCallOptions = {
    timeoutS: 1,
    onStdout: null,
    onResult: null,
  };
  await sandbox.run(['ls', '-l'], perCall);
  await sandbox.run(['ls'] as const);
  // @ts-expect-error: argv is an array
  await sandbox.run('ls -l');
  const language: Language = 'bash';
  await sandbox.runCode('ls', { ...perCall, language });
  const force: LimitForce = sandbox.limits.memoryMb;
  const diskForce: 'watchdog' | null = sandbox.limits.diskMb;
  const folder: string = sandbox.workspace;
  const limits: SandboxLimits = sandbox.limits;
  console.log(force, diskForce, folder, limits.pids, limits.cpus);
  // @ts-expect-error: they are facts
  limits.pids = 'kernel';

  await sandbox.writeFile('a', 'text');
  await sandbox.writeFile('a', new Uint8Array(1));
  await sandbox.writeFile('a', '00ff', 'hex');
  const ofText: WriteFileOptions = { encoding: 'hex' };
  await sandbox.writeFile('a', '00ff', ofText);
  // @ts-expect-error: files are replaced, never appended to
  await sandbox.writeFile('a', 'text', { flag: 'a' });
  const bytes = await sandbox.readFile('a');
  const limited = await sandbox.readFile('a', { maxBytes: 5 });
  const reading: ReadFileOptions = { maxBytes: 5, encoding: null };
  const text = await sandbox.readFile('a', 'utf8');
  const hex = await sandbox.readFile('a', { encoding: 'hex' });
  isType<typeof bytes, Buffer>(true);
  isType<typeof limited, Buffer>(true);
  isType<typeof text, string>(true);
  isType<typeof hex, string>(true);
  const [first] = await sandbox.listFiles('sub');
  console.log(first?.mtimeMs, first?.path, first?.size, first?.pathBuffer);
  console.log(reading.maxBytes);
  await files(sandbox);
  await plan(sandbox);
  const closed = await sandbox.close();
  isType<typeof closed, void>(true);
  await sandbox[Symbol.asyncDispose]();
}

async function plan(sandbox: Sandbox): Promise<void> {
  const made: SandboxPlan = await sandbox.plan();
  const spec: BoxSpec = made.spec;
  const box: BoxDescription = made.box;
  const entry: BoxEntry | undefined = spec.entries[0];
  if (entry?.kind === 'bind') console.log(entry.source);
  // @ts-expect-error: a folder has none
  if (entry?.kind === 'dir') console.log(entry.source);
  const mount: BoxMount | undefined = box.mounts[0];
  console.log(mount?.sizeBytes?.toFixed(), box.start.python.why);
  isType<typeof box.limits.memoryMb.force, LimitForce>(true);
  await new Sandbox({ spec: made }).open();
  await new Sandbox({ spec: 'plan.json' }).open();
  await new Sandbox().open();
  // @ts-expect-error: all of the plan
  new Sandbox({ spec: made.spec });
}

export async function diagnosis(): Promise<string> {
  const report: DoctorReport = await doctor();
  const check: DoctorCheck | undefined = report.checks[0];
  const advice: string | undefined = check?.fix ?? check?.cause;
  console.log(advice, check?.name, check?.ok, check?.needed, check?.detail);
  return report.ok ? report.version : report.toString();
}

async function files(sandbox: Sandbox): Promise<void> {
  const path: WorkspacePath = Buffer.from('a');
  const data: FileData = Readable.from(['a']);
  await sandbox.writeFile(path, data);
  await sandbox.writeFile(
    'b',
    (async function* () {
      yield 'b';
    })(),
  );
  // @ts-expect-error: an array is no stream
  await sandbox.writeFile('b', [1]);
  const range: ReadStreamOptions = { start: 1, end: 2, encoding: 'hex' };
  const source: Readable = sandbox.createReadStream(path, range);
  const writing: WriteStreamOptions = { highWaterMark: 1 };
  const sink: Writable = sandbox.createWriteStream('c', writing);
  source.pipe(sink);
  const options: ListFilesOptions = { all: true, recursive: false };
  const listed: WorkspaceFile[] = await sandbox.listFiles(options);
  const below: WorkspaceFile[] = await sandbox.listFiles('d', options);
  const type: EntryType | undefined = [...listed, ...below][0]?.type;
  const info: EntryInfo = await sandbox.stat(path);
  const there: boolean = await sandbox.exists(path);
  console.log(type, info.type, info.size, info.mode, info.mtimeMs, there);
  await sandbox.mkdir('e/f');
  await sandbox.rename('e', path);
  const removal: RmOptions = { recursive: true, force: true };
  await sandbox.rm('e', removal);
  // @ts-expect-error: no such option
  await sandbox.rm('e', { recurse: true });
  const watcher: Watcher = await sandbox.watch('d');
  for await (const event of watcher) {
    const change: WorkspaceChange = event;
    isType<typeof change.type, 'file' | 'directory'>(true);
    console.log(change.change, change.path, change.pathBuffer);
  }
  const same: Watcher = watcher[Symbol.asyncIterator]();
  await same[Symbol.asyncDispose]();
  await watcher.close();
  const bound: ArchiveOptions = { maxBytes: 1 };
  const saved: SnapshotInfo = await sandbox.snapshot('/tmp/a.tar.gz', bound);
  const skipped: SkippedEntry | undefined = saved.skipped[0];
  const restored: ArchiveInfo = await sandbox.restore('/tmp/a.tar.gz');
  console.log(skipped?.path, skipped?.reason, restored.bytes, restored.links);
}

export async function calls(sandbox: Sandbox): Promise<void> {
  const source: InputSource = new ReadableStream<Uint8Array>();
  const { signal } = new AbortController();
  await sandbox.run(['cat'], { stdin: source, signal, cwd: 'sub' });
  await sandbox.runCode('1', { stdin: 'x', memoryMb: null, cpus: 2, pids: 5 });
  await sandbox.run(['cat'], { stdin: Readable.from(['a']) });
  await sandbox.run(['cat'], { stdin: process.stdin });
  // @ts-expect-error: a number has no bytes
  await sandbox.run(['cat'], { stdin: 5 });
  // @ts-expect-error: the signal, not its controller
  await sandbox.run(['cat'], { signal: new AbortController() });
  const onStdout: OutputCallback = (chunk) => chunk.toString('utf8');
  const onResult: ResultCallback = (one) => one.formats();
  const coded: RunCodeOptions = { language: 'bash', onStdout, onResult };
  await sandbox.runCode('ls', coded);
  const { usage, limits } = await sandbox.run(['true'], {
    cwd: null,
    stdin: null,
  });
  isType<typeof usage, Usage>(true);
  isType<typeof limits, CallLimits>(true);
  isType<Usage['wallMs'], number>(true);
  const known: (number | null)[] = Object.values(usage);
  console.log(known, usage.cpuUserMs?.toFixed(), usage.maxPids);
}

export async function spawned(sandbox: Sandbox): Promise<void> {
  const pty: TerminalOptions = { cols: 80, rows: 24, term: 'dumb' };
  const options: SpawnOptions = { pty, timeoutS: 60, onStdout: null };
  const child: SandboxProcess = sandbox.spawn(['bash'] as const, options);
  child.on('exit', (exitCode, signalCode) => {
    isType<typeof exitCode, number | null>(true);
    isType<typeof signalCode, string | null>(true);
  });
  isType<SandboxProcessEvents['error'], [error: unknown]>(true);
  child.once('spawn', () => console.log(child.pid?.toFixed()));
  // @ts-expect-error: no such event
  child.on('ended', () => {});
  const stdin: Writable = child.stdin;
  stdin.write('ls\n');
  for await (const chunk of child.stdout) console.log(chunk);
  const stderr: Readable = child.stderr;
  const sent: boolean = child.kill('SIGTERM') && child.kill(9) && child.kill();
  const size: TerminalSize = { cols: 100 };
  child.resize(size);
  const ended: [number | null, string | null] = [
    child.exitCode,
    child.signalCode,
  ];
  const result: ExecutionResult = await child.ref().unref().wait();
  console.log(stderr, sent, ended, child.killed, result.signal);
  await child[Symbol.asyncDispose]();
  sandbox.spawn({ code: '1', language: 'node' });
  // @ts-expect-error: its handle has a stdin
  sandbox.spawn(['cat'], { stdin: 'x' });
  // @ts-expect-error: an argv, not a line
  sandbox.spawn('ls -l');
  // @ts-expect-error: sandbox.spawn() makes them
  new SandboxProcess();
}

export async function kernel(sandbox: Sandbox): Promise<void> {
  const { signal } = new AbortController();
  const options: KernelOptions = {
    env: {},
    language: 'python',
    cwd: '/tmp',
    memoryMb: 64,
    signal,
  };
  const opened: Kernel = await sandbox.kernel(options);
  const cell: CellOptions = { timeoutS: 1, signal };
  // @ts-expect-error: a Kernel traces all of its cells, or none
  const traced: CellOptions = { trace: 'blocked' };
  console.log(traced);
  const result: ExecutionResult = await opened.runCode('1', cell);
  // @ts-expect-error: a kernel has one environment
  await opened.runCode('1', { env: {} });
  // @ts-expect-error: a cell has no input
  await opened.runCode('1', { stdin: 'x' });
  const others: KernelOptions[] = [
    { language: 'node' },
    { language: 'bash', checkpoint: null },
    { checkpoint: 'each' },
  ];
  console.log(others);
  // @ts-expect-error: there is one way only
  await sandbox.kernel({ checkpoint: 'all' });
  const wasRunning: boolean = await opened.interrupt();
  const id: number = await opened.checkpoint();
  await opened.rollback(id);
  // @ts-expect-error: the number of one
  await opened.rollback();
  await opened.restart();
  const { isAlive }: { isAlive: boolean } = opened;
  // @ts-expect-error: it is for reading
  opened.isAlive = false;
  console.log(wasRunning, isAlive);
  // @ts-expect-error: sandbox.kernel() makes them
  new Kernel();
  await opened.close();
  await opened[Symbol.asyncDispose]();
  console.log(result.exitCode);
}

export async function helpers(): Promise<void> {
  const five: number = await withSandbox(async () => 5);
  const six: number = await withSandbox({ pids: 64 }, () => 6);
  const name: string = await withSandbox(undefined, (sandbox) => {
    isType<typeof sandbox, Sandbox>(true);
    return sandbox.workspace;
  });
  console.log(five, six, name, new Result({ 'text/plain': '5' }).formats());
}

export function errors(error: unknown): string | undefined {
  if (error instanceof MountRefused) {
    const rule: MountRule = error.rule;
    isType<typeof error.source, string | undefined>(true);
    return rule + error.source + error.target;
  }
  if (!(error instanceof SandboxError)) return undefined;
  const code: SandboxErrorCode = error.code;
  const mine = new SandboxError('mine', { code, cause: error });
  new SandboxError(mine.message);
  new MountRefused('mine', { cause: mine });
  // @ts-expect-error: no such code
  new SandboxError('mine', { code: 'EMINE' });
  // @ts-expect-error: no such code
  if (code === 'ERR_SANDBOX_RUBY') return undefined;
  return `${error.step} ${error.errno} ${error.remedy} ${error.cause}`;
}

export function faults(fault: SandboxFault): string {
  const type: SandboxFaultType = fault.type;
  switch (type) {
    case 'timeout':
    case 'oom':
    case 'escape_blocked':
    case 'killed':
    case 'startup_failed':
      return fault.syscall ?? fault.message;
  }
}
