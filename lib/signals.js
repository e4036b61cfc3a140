// SPDX-License-Identifier: Apache-2.0
'use strict';

const { constants } = require('node:os');

// Some numbers have two names (SIGABRT and SIGIOT, SIGIO and SIGPOLL): the
// first in the list of node:os is the one that people use.
const names = new Map();
for (const [name, number] of Object.entries(constants.signals)) {
  if (!names.has(number)) names.set(number, name);
}

// Programs use real-time signals too, and node:os does not list those.
const firstRealTime = 34;
const lastRealTime = 64;

/** "SIGKILL" for 9, null for 0. */
function signalName(number) {
  if (!number) return null;
  const name = names.get(number);
  if (name) return name;
  if (number >= firstRealTime && number <= lastRealTime) {
    return number === firstRealTime
      ? 'SIGRTMIN'
      : `SIGRTMIN+${number - firstRealTime}`;
  }
  return `SIG${number}`;
}

/** 9 for "SIGKILL" and for 9; undefined for what is no signal. 0 sends none. */
function signalNumber(signal) {
  if (typeof signal === 'number') {
    const isKnown =
      Number.isInteger(signal) && signal >= 0 && signal <= lastRealTime;
    return isKnown ? signal : undefined;
  }
  if (typeof signal !== 'string') return undefined;
  if (Object.hasOwn(constants.signals, signal)) {
    return constants.signals[signal];
  }
  const [, offset = '0'] = /^SIGRTMIN(?:\+(\d{1,2}))?$/.exec(signal) ?? [
    null,
    '',
  ];
  const number = firstRealTime + Number(offset);
  return offset !== '' && number <= lastRealTime ? number : undefined;
}

module.exports = { signalName, signalNumber };
