// Preparation of `npm start`, `npm test` and `npm run build`: packages and builds. Plain JavaScript: it runs before anything is installed.
// Every build is a new release, a folder with all that a process of the shop reads (scripts/releases/releases.mjs).
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  appendFileSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { completeRelease, currentRelease, findRelease, newRelease, switchTo } from '../releases/releases.mjs';
import { takeTurn } from '../releases/take-turn.mjs';

export const root = join(dirname(fileURLToPath(import.meta.url)), '../..');

/**
 * Runs commands in the project's folder, one after the other. Their output goes to `build/<name>.log`; a terminal shows the time
 * elapsed. If one fails, prints the end of the log and exits.
 * @param {string} title progress text, such as `Building`
 * @param {string} name of the log
 * @param {[command: string, parameters: string[]][]} commands
 */
async function runSteps(title, name, commands, environment = {}) {
  const log = join(root, 'build', `${name}.log`);
  mkdirSync(dirname(log), { recursive: true });
  writeFileSync(log, '');
  const startedAt = Date.now();
  const seconds = () => Math.round((Date.now() - startedAt) / 1000);
  const { isTTY } = process.stdout;
  if (!isTTY) console.log(`${title} ...`);
  const show = () => process.stdout.write(`\r${title} ... ${seconds()} s`);
  if (isTTY) show();
  const timer = isTTY ? setInterval(show, 1000) : undefined;
  for (const [command, parameters] of commands) {
    const code = await runStep(command, parameters, log, environment);
    if (code === 0) continue;
    clearInterval(timer);
    const end = readFileSync(log, 'utf8').trimEnd().split('\n').slice(-40).join('\n');
    console.error(`\n${end}\n\n${title} failed. The whole log: ${log}`);
    process.exit(code);
  }
  clearInterval(timer);
  console.log(isTTY ? `\r${title} ... done in ${seconds()} s` : `Done in ${seconds()} s.`);
}

function runStep(command, parameters, log, environment) {
  return new Promise((done) => {
    const output = openSync(log, 'a');
    const child = spawn(command, parameters, {
      cwd: root,
      stdio: ['ignore', output, output],
      env: { ...process.env, ...environment },
      shell: process.platform === 'win32',
    });
    const end = (code) => {
      closeSync(output);
      done(code);
    };
    child.once('error', (error) => {
      appendFileSync(log, `${command} could not be run: ${error.message}\n`);
      end(1);
    });
    child.once('exit', (code) => end(code ?? 1));
  });
}

/** One process at a time: several that start together, as after an update, would overwrite each other's files. */
const takeTurnHere = () =>
  takeTurn(join(root, 'node_modules', '.preparing'), () =>
    console.log('Waiting for another process that installs or builds ...'),
  );

export const bin = (name) => join(root, 'node_modules', '.bin', name);

/** Exits with an explanation if Node is too old. */
export function checkNode() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major > 20 || (major === 20 && minor >= 19)) return;
  console.error(`Node ${process.versions.node} is too old: Jani Juice needs Node 20.19 or newer.`);
  process.exit(1);
}

/** Reads the owner's settings in `.env`, where there are any. Those of the environment take precedence. */
export function readOwnSettings() {
  const file = join(root, '.env');
  if (!existsSync(file)) return;
  try {
    process.loadEnvFile(file);
  } catch {
    console.error(`${file} cannot be read: it must be a file that the user who runs this command may read.`);
    process.exit(1);
  }
}

/**
 * Imports a program of a release. Settings in `.env` are read before.
 * @param {string} name such as `main`
 * @param {{ isAsBuilt?: boolean }} options `isAsBuilt`: runs the current release, without checking the sources. It is built if there is
 * none yet
 */
export async function importProgram(name, { isAsBuilt = false } = {}) {
  checkNode();
  let release = isAsBuilt ? currentRelease(root) : null;
  if (!release) {
    await installPackages();
    release = await build();
  }
  readOwnSettings();
  return import(pathToFileURL(join(release, 'service', `${name}.js`)).href);
}

/** Installs the packages when they are missing or the lockfile has changed since. */
export async function installPackages() {
  const stamp = join(root, 'node_modules', '.installed');
  const isInstalled = () => isStamped(stamp, hashOf([join(root, 'package-lock.json')]));
  if (isInstalled()) return;
  const giveBack = await takeTurnHere();
  if (!isInstalled()) {
    // Not `npm ci`: it refuses a lockfile written on another platform. `--no-save`: other versions of npm write other fields into it.
    await runSteps('Installing packages', 'install', [
      ['npm', ['install', '--no-save', '--no-audit', '--no-fund', '--include=dev', '--loglevel=error']],
    ]);
    writeFileSync(stamp, hashOf([join(root, 'package-lock.json')]));
  }
  giveBack();
}

const sources = [
  'web',
  'domain',
  'packages',
  'server',
  'supabase/functions',
  'supabase/migrations',
  'supabase/seed.sql',
  'supabase/types.ts',
  'scripts/build/compress-assets.mjs',
  'scripts/build/flatten-layers.mjs',
  'scripts/build/make-blank-database.mjs',
  'scripts/releases/releases.mjs',
];
const settings = [
  'package-lock.json',
  'vite.config.ts',
  'vite.server.config.ts',
  'vite.worker.config.ts',
  'vite.function.config.ts',
  'react-router.config.ts',
  'tsconfig.json',
];

/**
 * Builds the pages and the server as a new release, unless the one of these sources exists, and makes it the current one. Running
 * processes keep their release; a failed or interrupted build leaves the current one.
 * @param {{ isSwitched?: boolean }} options `isSwitched: false` leaves the current release. Default: true
 * @returns {Promise<string>} the folder of the release
 */
export async function build({ isSwitched = true } = {}) {
  const id = hashOf([...sources, ...settings].map((path) => join(root, path)).flatMap(filesOf)).slice(0, 16);
  const built = findRelease(root, id);
  if (built && (!isSwitched || built === currentRelease(root))) return built;
  const giveBack = await takeTurnHere();
  if (!findRelease(root, id)) {
    const making = newRelease(root);
    const vite = (config) => [bin('vite'), ['build', '--config', config, '--logLevel', 'warn']];
    const script = (name) => [process.execPath, [join(root, 'scripts/build', name)]];
    await runSteps(
      'Building',
      'build',
      [
        [bin('react-router'), ['build']],
        vite('vite.server.config.ts'),
        vite('vite.worker.config.ts'),
        vite('vite.function.config.ts'),
        script('compress-assets.mjs'),
        script('make-blank-database.mjs'),
      ],
      { NODE_ENV: 'production', RELEASE_FOLDER: making },
    );
    completeRelease(root, making, id);
  }
  if (isSwitched) switchTo(root, id);
  giveBack();
  return findRelease(root, id);
}

const isStamped = (stamp, content) => existsSync(stamp) && readFileSync(stamp, 'utf8') === content;

function filesOf(path) {
  if (!existsSync(path)) return [];
  if (statSync(path).isFile()) return [path];
  return readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !/\.test\.tsx?$|\.bundle\.js$/.test(entry.name))
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
    .sort();
}

function hashOf(files) {
  const hash = createHash('sha256');
  for (const file of files) hash.update(file.slice(root.length)).update(readFileSync(file));
  return hash.digest('hex');
}
