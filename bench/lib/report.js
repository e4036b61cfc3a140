// SPDX-License-Identifier: Apache-2.0
'use strict';

// One report of all that was measured: as text, and in README.md and docs.

const path = require('node:path');
const { writeSections } = require('./documents.js');
const { writePlots } = require('./plots.js');
const {
  formatBoxes,
  formatFloors,
  formatHeadline,
  formatHeaps,
  formatMemory,
  formatProfile,
  formatSpeed,
  formatStreams,
  number,
} = require('./tables.js');
const { formatTrees } = require('./trees.js');

/** Every goal of a report: `{goal, verdict, detail}`. */
function listGoals({ speed, streams, memory }) {
  const ratio = (value) =>
    value === null || value === undefined ? '–' : number(value);
  const goals = speed.map((row) => ({
    goal: `${row.work} against ${row.times > 1 ? `${row.times} × ` : ''}${row.against}`,
    verdict: row.verdict,
    detail: ['paced', 'backToBack']
      .map((mode) => `${ratio(row[mode].ratio)} ≤ ${number(row[mode].most)}`)
      .join(', back to back '),
  }));
  for (const { name, ratio: value, most, verdict } of streams) {
    if (!verdict) continue;
    goals.push({ goal: name, verdict, detail: `${number(value)} ≤ ${most}` });
  }
  if (memory.skipped) {
    goals.push({ goal: 'memory', verdict: memory.skipped, detail: '' });
    return goals;
  }
  for (const { what, mb, most, verdict } of memory.rows) {
    if (most === undefined && verdict === 'held') continue;
    const limit = most === undefined ? '' : ` ≤ ${most} MB`;
    goals.push({
      goal: `PSS: ${what}`,
      verdict,
      detail: `${ratio(mb)}${limit}`,
    });
  }
  for (const { what, total, most, verdict } of memory.idle) {
    goals.push({
      goal: `context switches a second: ${what}`,
      verdict,
      detail: `${number(total)} ≤ ${most}`,
    });
  }
  return goals;
}

function formatGoals(report) {
  return listGoals(report)
    .map(({ goal, verdict, detail }) => `${verdict}: ${goal}: ${detail}`)
    .join('\n');
}

function describeRun({ machine, limits, quick }) {
  const facts = Object.entries(machine)
    .map(([key, value]) => `${key} ${value}`)
    .join(', ');
  const who = Object.entries(limits)
    .map(([key, value]) => `${key} ${JSON.stringify(value)}`)
    .join(', ');
  const warning = quick
    ? '**A quick run, on a machine that did other things: it shows that the bench works, and little else.** '
    : '';
  return `${warning}Measured on ${facts}; limits: ${who}.`;
}

function formatReadme(report) {
  const { floors, speed } = report;
  return `${formatHeadline(floors, speed)}\n\n${describeRun(report)}`;
}

function makeSections(report) {
  return {
    run: describeRun(report),
    goals: `${formatSpeed(report.speed)}\n\n${formatFloors(report.floors)}`,
    streams: formatStreams(report.streams),
    memory: formatMemory(report.memory),
    boxes: formatBoxes(report.boxes),
    files: formatTrees(report.trees),
    heap: formatHeaps(report.heaps),
    profile: formatProfile(report.profile),
  };
}

function formatReport(report) {
  return [...Object.values(makeSections(report)), formatGoals(report)].join(
    '\n\n',
  );
}

/** `root` is the folder of the project. */
function writeReport(root, report) {
  writePlots(path.join(root, 'docs', 'performance'), report);
  writeSections(
    path.join(root, 'docs', 'performance.md'),
    makeSections(report),
  );
  writeSections(path.join(root, 'README.md'), {
    headline: formatReadme(report),
  });
}

module.exports = { formatReport, listGoals, writeReport };
