// SPDX-License-Identifier: Apache-2.0
'use strict';

// The plots of docs/performance: how calls grow.

const fs = require('node:fs');
const path = require('node:path');
const { plot } = require('./plot.js');
const { names: treeNames } = require('./trees.js');

const milliseconds = 'median, ms';

function linesOf(rows, at, columns) {
  return Object.entries(columns)
    .map(([name, of]) => ({
      name,
      points: rows
        .map((row) => [row[at], of(row)?.medianMs])
        .filter(([, value]) => value !== undefined),
    }))
    .filter(({ points }) => points.length > 0);
}

/** File name → SVG. */
function drawPlots({ boxes, trees, heaps }) {
  return {
    'boxes.svg': plot({
      title: 'A call, by the number of other boxes alive',
      x: { label: 'boxes alive', log: true },
      y: { label: milliseconds },
      series: linesOf(boxes, 'count', {
        'run, 50 ms apart': ({ run }) => run.paced,
        'run, back to back': ({ run }) => run.backToBack,
        'runCode, 50 ms apart': ({ code }) => code.paced,
        'runCode, back to back': ({ code }) => code.backToBack,
      }),
    }),
    'files.svg': plot({
      title: 'A call, by the number of files in the workspace',
      x: { label: 'files', log: true },
      y: { label: milliseconds, log: true },
      series: linesOf(trees, 'count', {
        'run, files tracked': (row) => row[treeNames.tracked],
        'run, trackFiles: false': (row) => row[treeNames.untracked],
        listFiles: (row) => row[treeNames.list],
      }),
    }),
    'heap.svg': plot({
      title: 'A call, by the memory that the interpreter holds',
      x: { label: 'heap of 1 KB objects, MB', log: true },
      y: { label: milliseconds, log: true },
      series: linesOf(heaps, 'megabytes', {
        'kernel cell, 50 ms apart': ({ cell }) => cell.paced,
        'kernel cell, back to back': ({ cell }) => cell.backToBack,
        'preloaded, 50 ms apart': ({ preloaded }) => preloaded?.paced,
        'preloaded, back to back': ({ preloaded }) => preloaded?.backToBack,
      }),
    }),
  };
}

function writePlots(folder, report) {
  fs.mkdirSync(folder, { recursive: true });
  for (const [name, svg] of Object.entries(drawPlots(report))) {
    fs.writeFileSync(path.join(folder, name), svg);
  }
}

module.exports = { writePlots };
