// SPDX-License-Identifier: Apache-2.0
'use strict';

// A plot as SVG, for a page that may be light or dark.

const width = 720;
const height = 400;
const frame = { left: 72, right: 24, top: 56, bottom: 56 };
const colors = ['#2f74d0', '#d1642a', '#2b9a66', '#a04bc4', '#b8860b'];

const style = `
  text { font: 13px system-ui, sans-serif; fill: #3c4043; }
  .title { font-size: 15px; font-weight: 600; }
  .grid { stroke: #8a8f98; stroke-opacity: 0.3; }
  .axis { stroke: #8a8f98; }
  .line { fill: none; stroke-width: 2; }
  @media (prefers-color-scheme: dark) { text { fill: #d0d4da; } }
`;

function escapeText(text) {
  return String(text).replace(
    /[&<>"]/g,
    (sign) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[sign],
  );
}

// 1, 2 or 5 times a power of ten, so that about `count` of them fit.
function niceStep(span, count) {
  const rough = span / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10);
}

/**
 * `{low, high, ticks, place(value)}`: place gives 0 to 1. A linear axis begins
 * at 0; a logarithmic one has whole powers of ten.
 */
function makeAxis(values, log) {
  if (log) {
    const low = Math.floor(Math.log10(Math.min(...values)) + 1e-9);
    const high = Math.max(
      low + 1,
      Math.ceil(Math.log10(Math.max(...values)) - 1e-9),
    );
    const ticks = [];
    for (let power = low; power <= high; power += 1) ticks.push(10 ** power);
    const place = (value) => (Math.log10(value) - low) / (high - low);
    return { low: 10 ** low, high: 10 ** high, ticks, place };
  }
  const step = niceStep(Math.max(...values) || 1, 5);
  const count = Math.max(1, Math.ceil(Math.max(...values) / step - 1e-9));
  const high = count * step;
  const ticks = Array.from({ length: count + 1 }, (_, i) => i * step);
  return { low: 0, high, ticks, place: (value) => value / high };
}

function formatTick(value) {
  if (value >= 1) {
    return Number(value.toPrecision(3)).toLocaleString('en-US');
  }
  return String(Number(value.toPrecision(2)));
}

/**
 * `x` and `y` are `{label, log}`; each of `series` is `{name, points}` with
 * points as [x, y]. Its text is escaped.
 */
function plot({ title, x, y, series }) {
  const points = series.flatMap((one) => one.points);
  const horizontal = makeAxis(
    points.map(([value]) => value),
    x.log,
  );
  const vertical = makeAxis(
    points.map(([, value]) => value),
    y.log,
  );
  const inner = {
    width: width - frame.left - frame.right,
    height: height - frame.top - frame.bottom,
  };
  const bottom = frame.top + inner.height;
  const round = (value) => Number(value.toFixed(1));
  const atX = (value) =>
    round(frame.left + horizontal.place(value) * inner.width);
  const atY = (value) => round(bottom - vertical.place(value) * inner.height);
  const parts = [];
  const text = (left, top, content, extra = '') =>
    parts.push(
      `<text x="${left}" y="${top}"${extra}>${escapeText(content)}</text>`,
    );

  text(frame.left, 20, title, ' class="title"');
  for (const tick of vertical.ticks) {
    const top = atY(tick);
    parts.push(
      `<line class="grid" x1="${frame.left}" y1="${top}" ` +
        `x2="${width - frame.right}" y2="${top}"/>`,
    );
    text(frame.left - 8, top + 4, formatTick(tick), ' text-anchor="end"');
  }
  for (const tick of horizontal.ticks) {
    const left = atX(tick);
    parts.push(
      `<line class="axis" x1="${left}" y1="${bottom}" ` +
        `x2="${left}" y2="${bottom + 5}"/>`,
    );
    text(left, bottom + 20, formatTick(tick), ' text-anchor="middle"');
  }
  parts.push(
    `<path class="axis" fill="none" d="M${frame.left} ${frame.top}V${bottom}` +
      `H${width - frame.right}"/>`,
  );
  text(
    frame.left + inner.width / 2,
    height - 14,
    x.label,
    ' text-anchor="middle"',
  );
  const middle = frame.top + inner.height / 2;
  text(
    18,
    middle,
    y.label,
    ` text-anchor="middle" transform="rotate(-90 18 ${middle})"`,
  );

  let legend = frame.left;
  series.forEach((one, index) => {
    const color = colors[index % colors.length];
    const places = one.points.map(([a, b]) => [atX(a), atY(b)]);
    const line = places.map((place) => place.join(' ')).join('L');
    parts.push(`<path class="line" stroke="${color}" d="M${line}"/>`);
    for (const [left, top] of places) {
      parts.push(`<circle cx="${left}" cy="${top}" r="3.5" fill="${color}"/>`);
    }
    parts.push(`<circle cx="${legend + 5}" cy="38" r="5" fill="${color}"/>`);
    text(legend + 15, 42, one.name);
    legend += 34 + 7 * one.name.length;
  });

  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" ` +
    `role="img" aria-label="${escapeText(title)}">\n` +
    `<style>${style}</style>\n${parts.join('\n')}\n</svg>\n`
  );
}

module.exports = { makeAxis, niceStep, plot };
