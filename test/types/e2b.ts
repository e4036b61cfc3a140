// SPDX-License-Identifier: Apache-2.0

// Compiled, not run: glovebox/e2b as a program for E2B uses it.

import {
  CommandExitError,
  type CommandHandle,
  type CommandResult,
  type EntryInfo,
  type Execution,
  type ExecutionError,
  FileNotFoundError,
  FileType,
  type OutputMessage,
  type Result,
  Sandbox,
  SandboxError,
  TimeoutError,
  type WriteInfo,
} from 'glovebox/e2b';

export async function firstExample(): Promise<string | undefined> {
  const sbx = await Sandbox.create();
  await sbx.runCode('x = 1');
  const execution = await sbx.runCode('x+=1; x');
  return execution.text;
}

export async function code(sandbox: Sandbox): Promise<void> {
  const context = await sandbox.createCodeContext({ cwd: '/tmp' });
  const execution: Execution = await sandbox.runCode('1', {
    context,
    envs: { A: 'a' },
    timeoutMs: 0,
    onStdout: (message: OutputMessage) => console.log(message.line),
    onStderr: ({ line, error, timestamp }) => [line, error, timestamp],
    onResult: async (result: Result) => result.png?.length,
    onError: (error: ExecutionError) => error.traceback,
  });
  const out: string[] = execution.logs.stdout;
  const count: number | undefined = execution.executionCount;
  const formats: string[] | undefined = execution.results[0]?.formats();
  console.log(out, count, formats, execution.error?.value);
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
  const killed: boolean = await sandbox.commands.kill(handle.pid);
  console.log(killed);
  try {
    await handle.wait();
  } catch (error) {
    if (error instanceof CommandExitError) console.log(error.exitCode);
    if (error instanceof TimeoutError) console.log(error.code);
    if (error instanceof FileNotFoundError) console.log(error.message);
    if (error instanceof SandboxError) console.log(error.cause);
  }
  // @ts-expect-error: never root
  await sandbox.commands.run('id', { user: 'root' });
}

export async function files(sandbox: Sandbox): Promise<void> {
  const info: WriteInfo = await sandbox.files.write('a', new ArrayBuffer(1));
  const many: WriteInfo[] = await sandbox.files.write([
    { path: 'b', data: new Blob(['b']) },
  ]);
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

export async function life(): Promise<void> {
  class Mine extends Sandbox {
    mine = 1;
  }
  await using sandbox = await Mine.create('base', {
    glovebox: { memoryMb: 256 },
  });
  await sandbox.setTimeout(sandbox.mine);
  const running: boolean = await sandbox.isRunning();
  const killed: boolean = await sandbox.kill();
  console.log(running, killed, sandbox.sandboxId);
  await Sandbox.create({ allowInternetAccess: true });
  // @ts-expect-error: all or nothing
  await Sandbox.create({ network: { allowOut: ['1.1.1.1'] } });
}
