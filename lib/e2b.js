// SPDX-License-Identifier: Apache-2.0
'use strict';

// The names of E2B's JavaScript SDK on boxes of this machine, for programs that
// were written for E2B. docs/from-e2b.md says what is the same and what is not.

const { Sandbox } = require('./e2b/sandbox.js');
const { CommandHandle } = require('./e2b/commands.js');
const {
  Execution,
  ExecutionError,
  OutputMessage,
  Result,
} = require('./e2b/execution.js');
const { FileType } = require('./e2b/filesystem.js');
const {
  CommandExitError,
  FileNotFoundError,
  InvalidArgumentError,
  NotEnoughSpaceError,
  NotFoundError,
  SandboxError,
  SandboxNotFoundError,
  TimeoutError,
} = require('./e2b/errors.js');

// Names only: Node reads them from the text of this file to let ES modules
// import them by name.
module.exports = {
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
};
