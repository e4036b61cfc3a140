// SPDX-License-Identifier: Apache-2.0
'use strict';

// Who of the processes below Node is what, and what each takes: by what /proc
// shows of them, so that no part of glovebox has to say.

const fs = require('node:fs');

function readText(file) {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch {
    return undefined; // it ended, or is not ours to read
  }
}

function readLink(file) {
  try {
    return fs.readlinkSync(file);
  } catch {
    return undefined;
  }
}

// Of the file itself: a process in another mount namespace may show another
// path for it.
function identify(file) {
  try {
    const { dev, ino } = fs.statSync(file);
    return `${dev}:${ino}`;
  } catch {
    return undefined;
  }
}

function field(text, name) {
  return new RegExp(`^${name}:\\s*(.*)$`, 'm').exec(text)?.[1];
}

/**
 * All processes below this one: `{pid, ppid, argv, executable, identity,
 * numbers, namespace}`. `numbers` has the process' number in each pid namespace
 * that it is in, outermost first.
 */
function listBelow(top = process.pid) {
  const found = new Map();
  for (const name of fs.readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const folder = `/proc/${name}`;
    const status = readText(`${folder}/status`);
    if (status === undefined) continue;
    found.set(Number(name), {
      pid: Number(name),
      ppid: Number(field(status, 'PPid')),
      numbers: field(status, 'NSpid').split(/\s+/).map(Number),
      argv: (readText(`${folder}/cmdline`) ?? '').split('\0').slice(0, -1),
      executable: readLink(`${folder}/exe`),
      identity: identify(`${folder}/exe`),
      namespace: readLink(`${folder}/ns/pid`),
    });
  }
  const isBelow = ({ pid, ppid }) =>
    pid !== top &&
    (ppid === top || (found.has(ppid) && isBelow(found.get(ppid))));
  return [...found.values()].filter(isBelow);
}

function kindOf({ identity, executable }, ours) {
  if (identity === ours) return 'argv'; // it waits to execute something
  const name = executable?.split('/').at(-1) ?? '';
  if (name.startsWith('python')) return 'python';
  if (name.startsWith('node')) return 'node';
  return 'other';
}

/**
 * `{keeper, launcher, zygotes, boxes}` of a list as listBelow() gives it. The
 * keeper and launcher are undefined where there is none; a zygote is what lives
 * beside the launcher, in its pid namespace; a box is `{kind, init, payloads}`,
 * what lives in one of its own. `ours` identifies the launcher's executable.
 */
function tellApart(list, ours) {
  const isOurs = ({ identity, argv }, role) =>
    identity === ours && argv[1] === role;
  const keeper = list.find((one) => isOurs(one, 'keeper'));
  const launcher = list.find(
    (one) => isOurs(one, 'launcher') && one.ppid === keeper?.pid,
  );
  const zygotes = [];
  const boxes = new Map();
  for (const one of list) {
    if (!launcher || one === keeper || one === launcher) continue;
    if (one.numbers.length < launcher.numbers.length) continue; // not below it
    if (one.namespace === launcher.namespace) {
      zygotes.push({ kind: kindOf(one, ours), process: one });
      continue;
    }
    const box = boxes.get(one.namespace) ?? { payloads: [] };
    boxes.set(one.namespace, box);
    // Number 1 of the box, and not of a namespace that the code made in it.
    if (one.numbers.at(-1) === 1) box.init = one;
    else box.payloads.push(one);
  }
  for (const box of boxes.values()) {
    const kinds = box.payloads.map((one) => kindOf(one, ours));
    box.kind = kinds.find((kind) => kind !== 'argv') ?? 'argv';
  }
  return { keeper, launcher, zygotes, boxes: [...boxes.values()] };
}

/** Bytes of the proportional set size; undefined where that cannot be read. */
function proportionalBytes({ pid }) {
  const text = readText(`/proc/${pid}/smaps_rollup`);
  const kilobytes = text && field(text, 'Pss');
  return kilobytes ? Number.parseInt(kilobytes, 10) * 1024 : undefined;
}

function countOf(folder) {
  const status = readText(`${folder}/status`);
  if (status === undefined) return 0;
  return (
    Number(field(status, 'voluntary_ctxt_switches')) +
    Number(field(status, 'nonvoluntary_ctxt_switches'))
  );
}

/**
 * How often the given processes, and the engine's threads in this one, were put
 * on a processor so far: a Map of who → count.
 */
function countSwitches(processes) {
  const counts = new Map();
  const folders = processes.map(({ role, pid }) => [
    role,
    `/proc/${pid}/task`,
    () => true,
  ]);
  folders.push([
    'engine',
    '/proc/self/task',
    (folder) => (readText(`${folder}/comm`) ?? '').startsWith('glovebox'),
  ]);
  for (const [role, tasks, isWanted] of folders) {
    let threads = [];
    try {
      threads = fs.readdirSync(tasks);
    } catch {
      // It ended.
    }
    for (const thread of threads) {
      const folder = `${tasks}/${thread}`;
      if (!isWanted(folder)) continue;
      counts.set(role, (counts.get(role) ?? 0) + countOf(folder));
    }
  }
  return counts;
}

module.exports = {
  countSwitches,
  identify,
  listBelow,
  proportionalBytes,
  tellApart,
};
