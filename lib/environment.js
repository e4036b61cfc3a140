// SPDX-License-Identifier: Apache-2.0
'use strict';

// The environment of a payload, all of it: nothing of the host's leaks in.

const standardPath = [
  '/usr/local/sbin',
  '/usr/local/bin',
  '/usr/sbin',
  '/usr/bin',
  '/sbin',
  '/bin',
];

// LC_ALL is left unset, so that code can choose a locale; TMPDIR, since /tmp is
// what everyone assumes; TERM, since there is no terminal.
function baseEnvironment(firstOnPath) {
  return {
    PATH: [...new Set([...firstOnPath, ...standardPath])].join(':'),
    HOME: '/home/user',
    USER: 'user',
    LOGNAME: 'user',
    LANG: 'C.UTF-8',
  };
}

/** The variables of a session, by name: those of `env`, a Map, win. */
function environmentOf(firstOnPath, env) {
  return new Map([...Object.entries(baseEnvironment(firstOnPath)), ...env]);
}

/** "NAME=value" strings; variables of the call, a Map if there are any, win. */
function variablesOf(environment, callEnv) {
  const merged = callEnv ? new Map([...environment, ...callEnv]) : environment;
  return Array.from(merged, ([name, value]) => `${name}=${value}`);
}

// An interpreter that was started before its call has read these already.
const readAtStart =
  /^(?:HOME|LANG|LANGUAGE|TZ|TZDIR|NO_COLOR|FORCE_COLOR|(?:PYTHON|LC_|LD_|GLIBC_|MALLOC_|GCONV_|LOCPATH|NODE_|UV_|ICU_|SSL_|OPENSSL_).*)=/;

// The kernel refuses to start a program with too many, which code would learn
// from its children only if they could come late.
const maxLateLength = 32 * 1024;

/** What it is started with. */
const standbyVariables = Object.entries(baseEnvironment([])).map(
  ([name, value]) => `${name}=${value}`,
);

/**
 * Whether a program that was started with the variables `started`, and got
 * `variables` later, has seen all that it would look at only once.
 */
function canComeLate(variables, started = standbyVariables) {
  const differs = (list, others) =>
    list.some((one) => readAtStart.test(one) && !others.includes(one));
  const length = variables.reduce((sum, one) => sum + one.length, 0);
  return (
    length <= maxLateLength &&
    !differs(variables, started) &&
    !differs(started, variables)
  );
}

module.exports = { canComeLate, environmentOf, standbyVariables, variablesOf };
