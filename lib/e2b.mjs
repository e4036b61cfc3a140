// SPDX-License-Identifier: Apache-2.0

// The same objects as for require(). The default is the Sandbox, as E2B has it.
import e2b from './e2b.js';

export const {
  Sandbox,
  CommandHandle,
  Execution,
  ExecutionError,
  OutputMessage,
  Result,
  FileType,
  CommandExitError,
  FileNotFoundError,
  InvalidArgumentError,
  NotEnoughSpaceError,
  NotFoundError,
  SandboxError,
  SandboxNotFoundError,
  TimeoutError,
} = e2b;

export default e2b.Sandbox;
