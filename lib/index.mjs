// SPDX-License-Identifier: Apache-2.0

// The same objects as for require(): a SandboxError caught by one is an
// instance of the class imported by the other.
import glovebox from './index.js';

export const {
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
} = glovebox;

export default glovebox;
