// SPDX-License-Identifier: Apache-2.0

export * from './e2b.js';
export { Sandbox as default } from './e2b.js';
