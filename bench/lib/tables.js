// SPDX-License-Identifier: Apache-2.0
'use strict';

// What was measured, as Markdown.

const { isHeld } = require('./goals.js');

const inMs = 'median (p95, n) in ms';

function table(head, rows) {
  return [head, head.map(() => '---'), ...rows]
    .map((cells) => `| ${cells.join(' | ')} |`)
    .join('\n');
}

// Of two that differ in their third figure nobody should say which is faster.
function number(value) {
  if (value === 0) return '0';
  return value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
}

function mark(verdict) {
  return isHeld(verdict) ? verdict : `**${verdict}**`;
}

function share(most) {
  return most >= 0.1 && most !== 1 / 8
    ? number(most)
    : `${number(most)} (1/${number(1 / most)})`;
}

const timed = ({ n, medianMs, p95Ms }) =>
  n === undefined ? '' : `${number(medianMs)} (${number(p95Ms)}, ${n})`;

/** What is measured alone: `[{work, paced, backToBack}]`. */
function formatFloors(rows) {
  return table(
    ['measured against', `paced: ${inMs}`, `back to back: ${inMs}`],
    rows.map(({ work, paced, backToBack }) => [
      `\`${work}\``,
      timed(paced),
      timed(backToBack),
    ]),
  );
}

/** `rows` as goals.js judged them. */
function formatSpeed(rows) {
  const cells = ({ ratio, most }) => [
    ratio === null || ratio === undefined ? '' : number(ratio),
    `≤ ${share(most)}`,
  ];
  return table(
    [
      'work',
      `paced: ${inMs}`,
      'ratio',
      'goal',
      `back to back: ${inMs}`,
      'ratio',
      'goal',
      'ratio to',
      '',
    ],
    rows.map(({ work, against, times, paced, backToBack, verdict }) => [
      `\`${work}\``,
      timed(paced),
      ...cells(paced),
      timed(backToBack),
      ...cells(backToBack),
      `${times > 1 ? `${times} × ` : ''}\`${against}\``,
      mark(verdict),
    ]),
  );
}

/** A shorter one for the README: goals and what they are measured against. */
function formatHeadline(floors, rows) {
  const median = ({ medianMs }) =>
    medianMs === undefined ? '' : number(medianMs);
  const ratio = (mode) =>
    mode.ratio === null || mode.ratio === undefined
      ? '–'
      : `${number(mode.ratio)} (≤ ${number(mode.most)})`;
  return table(
    [
      'ms',
      '50 ms apart',
      'ratio (goal)',
      'back to back',
      'ratio (goal)',
      'ratio to',
      '',
    ],
    [
      ...floors.map(({ work, paced, backToBack }) => [
        `\`${work}\``,
        median(paced),
        '',
        median(backToBack),
        '',
        '',
        '',
      ]),
      ...rows.map(({ work, against, times, paced, backToBack, verdict }) => [
        `\`${work}\``,
        median(paced),
        ratio(paced),
        median(backToBack),
        ratio(backToBack),
        `${times > 1 ? `${times} × ` : ''}\`${against}\``,
        mark(verdict),
      ]),
    ],
  );
}

function formatStreams(rows) {
  return table(
    ['1 GiB', inMs, 'MiB/s', 'ratio', 'ratio to'],
    rows.map(({ name, n, medianMs, p95Ms, ratio, against }) => [
      `\`${name}\``,
      `${medianMs.toFixed(0)} (${p95Ms.toFixed(0)}, ${n})`,
      (1024 / (medianMs / 1000)).toFixed(0),
      ratio === null ? '' : ratio.toFixed(2),
      against ? `\`${against}\`` : '',
    ]),
  );
}

function formatMemory({ skipped, rows, idle }) {
  if (skipped) return skipped;
  const sizes = table(
    ['waiting for a call', 'PSS in MB', 'goal', ''],
    rows.map(({ what, mb, most, verdict }) => [
      what,
      mb === null ? '' : number(mb),
      most === undefined ? '' : `≤ ${most}`,
      most === undefined && verdict === 'held' ? '' : mark(verdict),
    ]),
  );
  const wakeUps = table(
    ['context switches a second', 'of whom', 'of all', 'goal', ''],
    idle.map(({ what, seconds, perSecond, total, most, verdict }) => [
      `${what}, for ${seconds} s`,
      Object.entries(perSecond)
        .map(([role, count]) => `${role} ${number(count)}`)
        .join(', '),
      number(total),
      `≤ ${most}`,
      mark(verdict),
    ]),
  );
  return `${sizes}\n\n${wakeUps}`;
}

function formatBoxes(rows) {
  return table(
    [
      'boxes alive',
      `\`run(["true"])\`, paced: ${inMs}`,
      'back to back',
      `\`runCode("print(1)")\`, paced: ${inMs}`,
      'back to back',
    ],
    rows.map(({ count, run, code }) => [
      String(count),
      ...[run.paced, run.backToBack, code.paced, code.backToBack].map(timed),
    ]),
  );
}

function formatHeaps(rows) {
  return table(
    [
      'heap in MB',
      `kernel cell \`1+1\`, paced: ${inMs}`,
      'back to back',
      `\`runCode()\` with it preloaded, paced: ${inMs}`,
      'back to back',
    ],
    rows.map(({ megabytes, cell, preloaded }) => [
      String(megabytes),
      timed(cell.paced),
      timed(cell.backToBack),
      ...(preloaded
        ? [timed(preloaded.paced), timed(preloaded.backToBack)]
        : ['**not built**', '']),
    ]),
  );
}

const modeNames = { paced: 'paced', backToBack: 'back to back' };

// In µs: nothing here is as long as that it would be hard to read.
function formatProfile(profiles) {
  const us = (ms) => (ms * 1000).toFixed(0);
  return profiles
    .map(({ work, mode, steps }) => {
      const last = steps.at(-1);
      const rows = steps.map((step) => [
        step.where,
        step.what,
        us(step.meanMs),
        us(step.medianMs),
        us(step.p95Ms),
        String(step.n),
        `${((step.meanMs * step.n * 100) / (last.meanMs * last.n)).toFixed(0)} %`,
      ]);
      const head = ['noted in', 'step, µs', 'mean', 'median', 'p95', 'n'];
      const title = `\`${work}\`, ${modeNames[mode]}:`;
      return `${title}\n\n${table([...head, 'share'], rows)}`;
    })
    .join('\n\n');
}

module.exports = {
  formatBoxes,
  formatFloors,
  formatHeadline,
  formatHeaps,
  formatMemory,
  formatProfile,
  formatSpeed,
  formatStreams,
  number,
  table,
};
