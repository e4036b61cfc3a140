// SPDX-License-Identifier: Apache-2.0
'use strict';

const { runCode, withSandbox } = require('./one-shot.js');
const { Sandbox } = require('./sandbox.js');
const { Kernel } = require('./kernel.js');
const { SandboxProcess } = require('./process.js');
const { ExecutionResult, Result } = require('./result.js');
const { MountRefused, SandboxError } = require('./errors.js');
const { doctor } = require('./doctor.js');
const { isSupported } = require('./native.js');
const { version } = require('./options.js');

// Names only: Node reads them from the text of this file to let ES modules
// import them by name.
module.exports = {
  runCode,
  withSandbox,
  Sandbox,
  Kernel,
  SandboxProcess,
  ExecutionResult,
  Result,
  SandboxError,
  MountRefused,
  doctor,
  isSupported,
  version,
};
