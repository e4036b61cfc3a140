// SPDX-License-Identifier: Apache-2.0

// Compiled, not run: glovebox/e2b as a program for E2B uses it.

import {
  CommandExitError,
  type CommandHandle,
  type CommandRequestOpts,
  type CommandResult,
  type CommandStartOpts,
  type Commands,
  type Context,
  type CreateCodeContextOpts,
  type EntryInfo,
  Execution,
  ExecutionError,
  type FileContent,
  FileNotFoundError,
  type Filesystem,
  type FilesystemRequestOpts,
  FileType,
  InvalidArgumentError,
  type Logs,
  NotEnoughSpaceError,
  NotFoundError,
  OutputMessage,
  type ProcessInfo,
  Result,
  type RunCodeLanguage,
  type RunCodeOpts,
  Sandbox,
  SandboxError,
  SandboxNotFoundError,
  type SandboxOpts,
  TimeoutError,
  type WriteEntry,
  type WriteInfo,
} from 'glovebox/e2b';

export async function firstExample(): Promise<string | undefined> {
  const sbx = await Sandbox.create();
  await sbx.runCode('x = 1');
  const execution = await sbx.runCode('x+=1; x');
  return execution.text;
}

export async function code(sandbox: Sandbox): Promise<void> {
  const wanted: CreateCodeContextOpts = { cwd: '/tmp', language: 'python' };
  const context: Context = await sandbox.createCodeContext(wanted);
  const execution: Execution = await sandbox.runCode('1', {
    context,
    envs: { A: 'a' },
    timeoutMs: 0,
    onStdout: (message: OutputMessage) => console.log(message.line),
    onStderr: ({ line, error, timestamp }) => [line, error, timestamp],
    onResult: async (result: Result) => result.png?.length,
    onError: (error: ExecutionError) => error.traceback,
  });
  const { logs }: { logs: Logs } = execution;
  const out: string[] = logs.stdout;
  const count: number | undefined = execution.executionCount;
  const formats: string[] | undefined = execution.results[0]?.formats();
  console.log(out, count, formats, execution.error?.value);
  const language: RunCodeLanguage = 'js';
  const options: RunCodeOpts = { language, timeoutMs: 0 };
  await sandbox.runCode('1', options);
  const contexts: Context[] = await sandbox.listCodeContexts();
  await sandbox.restartCodeContext(contexts[0] ?? context.id);
  await sandbox.removeCodeContext(context);
  // @ts-expect-error: no such language
  await sandbox.runCode('1', { language: 'r' });
  // @ts-expect-error: there are no ports
  sandbox.getHost(3000);
  // @ts-expect-error: a constructor that nobody calls
  new Sandbox();
}

export async function commands(sandbox: Sandbox): Promise<void> {
  const result: CommandResult = await sandbox.commands.run('id', { cwd: '/' });
  const handle: CommandHandle = await sandbox.commands.run('cat', {
    background: true,
    stdin: true,
  });
  await handle.sendStdin(result.stdout);
  await handle.closeStdin();
  const { commands }: { commands: Commands } = sandbox;
  await commands.sendStdin(handle.pid, new Uint8Array(1));
  await commands.closeStdin(handle.pid);
  const listed: ProcessInfo[] = await commands.list();
  const request: CommandRequestOpts = { requestTimeoutMs: 1 };
  const start: CommandStartOpts = { ...request, background: listed.length > 1 };
  const either: CommandHandle | CommandResult = await commands.run('a', start);
  const ended: boolean = await handle.kill();
  console.log(either.exitCode, ended);
  const killed: boolean = await sandbox.commands.kill(handle.pid);
  console.log(killed);
  try {
    await handle.wait();
  } catch (error) {
    if (error instanceof CommandExitError) console.log(error.exitCode);
    if (error instanceof TimeoutError) console.log(error.code);
    if (error instanceof FileNotFoundError) console.log(error.message);
    if (error instanceof SandboxNotFoundError) console.log(error.message);
    if (error instanceof NotFoundError) console.log(error.message);
    if (error instanceof NotEnoughSpaceError) console.log(error.code);
    if (error instanceof InvalidArgumentError) console.log(error.code);
    if (error instanceof SandboxError) console.log(error.cause);
  }
  // @ts-expect-error: never root
  await sandbox.commands.run('id', { user: 'root' });
}

export async function files(sandbox: Sandbox): Promise<void> {
  const info: WriteInfo = await sandbox.files.write('a', new ArrayBuffer(1));
  const content: FileContent = new Blob(['b']);
  const entry: WriteEntry = { path: 'b', data: content };
  const many: WriteInfo[] = await sandbox.files.write([entry]);
  const { files }: { files: Filesystem } = sandbox;
  const asked: FilesystemRequestOpts = { user: 'user' };
  const more: WriteInfo[] = await files.writeFiles([entry], asked);
  const there: boolean = await files.exists('a', asked);
  const found: EntryInfo = await files.getInfo('a');
  console.log(more, there, found.modifiedTime?.getTime(), found.mode);
  const text: string = await sandbox.files.read(info.path);
  const bytes: Uint8Array = await sandbox.files.read('a', { format: 'bytes' });
  const blob: Blob = await sandbox.files.read('a', { format: 'blob' });
  const stream = await sandbox.files.read('a', { format: 'stream' });
  await sandbox.files.write('c', stream);
  const entries: EntryInfo[] = await sandbox.files.list('.', { depth: 2 });
  const folders = entries.filter(({ type }) => type === FileType.DIR);
  const made: boolean = await sandbox.files.makeDir('d');
  const moved: EntryInfo = await sandbox.files.rename('a', 'd/a');
  await sandbox.files.remove('d');
  console.log(many, text, bytes, blob, folders, made, moved);
}

// What its classes are made of is public there, too.
export function made(): (string | undefined)[] {
  const message = new OutputMessage('line', 0, false);
  const error = new ExecutionError('name', 'value', 'traceback');
  const result = new Result({ text: '1' }, true);
  const logs: Logs = { stdout: [message.toString()], stderr: [] };
  const execution = new Execution([result], logs, error, 1);
  const plain: Record<string, unknown>[] = [
    result.toJSON(),
    execution.toJSON(),
    new Execution().toJSON(),
  ];
  const ended = new CommandExitError({ exitCode: 1, stdout: '', stderr: '' });
  const failed = new SandboxError('failed', { cause: ended });
  console.log(plain, failed.cause);
  return [execution.text, ended.stdout];
}

export async function life(): Promise<void> {
  class Mine extends Sandbox {
    mine = 1;
  }
  const options: SandboxOpts = { glovebox: { memoryMb: 256 } };
  await using sandbox = await Mine.create('base', options);
  await sandbox.setTimeout(sandbox.mine);
  const running: boolean = await sandbox.isRunning();
  const killed: boolean = await sandbox.kill();
  await sandbox[Symbol.asyncDispose]();
  console.log(running, killed, sandbox.sandboxId);
  await Sandbox.create({ allowInternetAccess: true });
  // @ts-expect-error: all or nothing
  await Sandbox.create({ network: { allowOut: ['1.1.1.1'] } });
}
