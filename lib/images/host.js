// SPDX-License-Identifier: Apache-2.0
'use strict';

// `image: "host"`: a box's read-only root made of what is installed on the host.

const fs = require('node:fs');
const path = require('node:path');
const { SandboxError } = require('../errors.js');
const { joinPath } = require('../paths.js');
const {
  commands,
  findOnPath,
  isExecutable,
  packages,
  probes,
} = require('./interpreters.js');
const {
  findHomes,
  findNodeFolders,
  findPythonFolders,
  findStores,
} = require('./prefixes.js');
const { rethrowShortage } = require('./shortage.js');
const { addEtc, addUserland } = require('./system.js');
const { Tree, isWithin } = require('./tree.js');

const runtimesFolder = path.join(__dirname, '..', 'runtimes');
const runtimesInBox = '/run/glovebox/runtimes';
const joinInBox = '/run/glovebox/join.so';

const languages = Object.keys(commands);

// On every box's PATH already.
const standardPath = new Set(
  ['/usr/local', '/usr', ''].flatMap((prefix) => [
    `${prefix}/sbin`,
    `${prefix}/bin`,
  ]),
);

/**
 * Describes the root, and finds the interpreters:
 *
 * - `entries`: what the root is made of, parents before children. Sources are
 *   real paths that exist.
 * - `path`: folders to put before the standard ones on a box's PATH.
 * - `runtimes`: for each language `{executable}`, its path in the box, or
 *   `{error: {code, message}}` if there is none that works; for a Python that
 *   cannot be started ahead of calls also `lacksCtypes`.
 *
 * `runtimes` of the options names executables that are wanted instead of the
 * first on PATH.
 */
async function prepareHostImage({ runtimes = {}, env = process.env } = {}) {
  checkRuntimesAreReadable();
  const tree = new Tree();
  addUserland(tree);
  addEtc(tree);
  tree.bind(runtimesInBox, runtimesFolder);
  tree.bind(joinInBox, joinPath());

  const context = { tree, homes: findHomes(env), env };
  const found = await Promise.all(
    languages.map((language) =>
      findRuntime(language, runtimes[language], context),
    ),
  );

  const folders = found
    .filter(({ executable }) => executable)
    .map(({ executable }) => path.dirname(executable))
    .filter((folder) => !standardPath.has(folder));
  return {
    entries: tree.entries,
    path: [...new Set(folders)],
    runtimes: Object.fromEntries(
      languages.map((language, index) => [language, found[index]]),
    ),
  };
}

/** The first candidate that works, or an error that says what was tried. */
async function findRuntime(language, wanted, context) {
  const problems = [];
  for (const file of findCandidates(language, wanted, context.env)) {
    try {
      const found = await probes[language](file, context.env);
      addRuntime(language, found, context);
      const { executable, lacksCtypes = false } = found;
      return { executable, ...(lacksCtypes && { lacksCtypes }) };
    } catch (error) {
      rethrowShortage(error);
      problems.push(`${file}: ${explain(error)}`);
    }
  }
  return { error: describeMissing(language, wanted, problems, context.env) };
}

function findCandidates(language, wanted, env) {
  if (wanted === undefined) {
    return commands[language].flatMap((name) => findOnPath(name, env.PATH));
  }
  if (!wanted.includes('/')) return findOnPath(wanted, env.PATH);
  return path.isAbsolute(wanted) && isExecutable(wanted) ? [wanted] : [];
}

// What a failing shim prints says more than that it failed.
function explain(error) {
  const lines = String(error.stderr ?? '').trim();
  if (lines) return lines.split('\n')[0].slice(0, 200);
  return error.killed ? 'it gave no answer' : error.message.split('\n')[0];
}

function addRuntime(language, found, { tree, homes }) {
  const { executable, baseExecutable } = found;
  if (!path.isAbsolute(executable ?? '')) {
    throw new Error('it does not know its own path');
  }
  const finders = {
    python: () => findPythonFolders(found, homes),
    node: () => findNodeFolders(executable, homes),
    bash: () => findStores(executable),
  };
  const folders = finders[language]();
  checkIsReadable(executable, folders);
  for (const folder of folders) {
    tree.reach(folder);
    // Symlinks in it may name it by its real path.
    tree.reach(fs.realpathSync(folder));
  }
  for (const file of [executable, baseExecutable]) {
    if (file && fs.existsSync(file) && !tree.reach(file)) {
      throw new Error(`${file} cannot be shown at its place in a box`);
    }
  }
}

// For root, a box runs under a user id that is nobody's: what only root may
// read, it cannot. What is above a folder that is shown does not matter.
function checkIsReadable(executable, folders) {
  if (process.getuid() !== 0) return;
  const real = fs.realpathSync(executable);
  const isShown = (file) =>
    folders.some((folder) => isWithin(file, fs.realpathSync(folder)));
  const files = [real];
  for (let folder = path.dirname(real); isShown(folder); ) {
    files.push(folder);
    folder = path.dirname(folder);
  }
  for (const file of files) {
    const { mode } = fs.statSync(file);
    if ((mode & 0o5) === 0o5) continue;
    throw new Error(
      `${file} has the mode ${formatMode(mode)}: root's boxes run as another ` +
        'user, who must be able to read it (`chmod o+rx`)',
    );
  }
}

// A checkout under a strict umask: the driver could not be started, and Python
// would only say that it can't open a file.
function checkRuntimesAreReadable(folder = runtimesFolder) {
  if (process.getuid() !== 0) return;
  for (const file of fs.readdirSync(folder, { recursive: true })) {
    const name = path.join(folder, file);
    const stat = fs.statSync(name);
    const needed = stat.isDirectory() ? 0o5 : 0o4;
    if ((stat.mode & needed) === needed) continue;
    const remedy = `Run \`chmod -R o+rX ${folder}\`.`;
    throw new SandboxError(
      `The box could not be set up: ${name} has the mode ` +
        `${formatMode(stat.mode)}, and root's boxes run as another user, who ` +
        `must be able to read it. ${remedy}`,
      { code: 'ERR_SANDBOX_SETUP', step: 'runtimes', remedy },
    );
  }
}

function formatMode(mode) {
  return `0${(mode & 0o777).toString(8)}`;
}

function describeMissing(language, wanted, problems, env) {
  const looked = wanted?.includes('/')
    ? `The option runtimes.${language} names ${JSON.stringify(wanted)}` +
      (problems.length > 0 ? '' : ', which is no executable file')
    : `Looked for ${wanted ?? commands[language].join(', ')} on PATH ` +
      `(${env.PATH || 'which is empty'})`;
  const tried = problems.map((problem) => `; tried ${problem}`).join('');
  const install =
    `Install it (Debian, Ubuntu: \`apt-get install ${packages[language]}\`) ` +
    `or name one: \`runtimes: { ${language}: '/path/to/${commands[language][0]}' }\``;
  return {
    code: 'ERR_SANDBOX_RUNTIME_MISSING',
    message: `No interpreter for ${language} was found. ${looked}${tried}. ${install}.`,
  };
}

module.exports = { prepareHostImage };
