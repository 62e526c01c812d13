// What `npm start`, `npm test` and `npm run build` need first. Plain JavaScript: it runs before anything is installed.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** Runs a command in the project's folder; ends this process with its code when it fails. */
export function run(command, parameters, environment = {}) {
  const { status, error } = spawnSync(command, parameters, {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, ...environment },
    shell: process.platform === 'win32',
  });
  if (error) console.error(`${command} could not be run: ${error.message}`);
  if (status !== 0) process.exit(status ?? 1);
}

export const bin = (name) => join(root, 'node_modules', '.bin', name);

/** Refuses a Node that is too old, in words. */
export function checkNode() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major > 20 || (major === 20 && minor >= 19)) return;
  console.error(`Node ${process.versions.node} is too old: Jani Juice needs Node 20.19 or newer.`);
  process.exit(1);
}

/** Installs the packages when they are missing or the lockfile has changed since. */
export function installPackages() {
  const stamp = join(root, 'node_modules', '.installed');
  const lock = hashOf([join(root, 'package-lock.json')]);
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === lock) return;
  console.log('Installing packages …');
  // Not `npm ci`: it refuses a lockfile written on another platform.
  run('npm', ['install', '--no-audit', '--no-fund', '--include=dev', '--loglevel=error']);
  writeFileSync(stamp, hashOf([join(root, 'package-lock.json')]));
}

const sources = [
  'web',
  'domain',
  'backend',
  'server',
  'supabase/functions',
  'supabase/types.ts',
  'simulators',
  'scripts/lean-framework.ts',
  'scripts/make-blank-database.mjs',
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

/** Builds the pages and the server when any of their sources has changed since. */
export function build() {
  const stamp = join(root, 'build', '.built');
  const fingerprint = hashOf([...sources, ...settings].map((path) => join(root, path)).flatMap(filesOf));
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === fingerprint) return;
  console.log('Building …');
  run(bin('react-router'), ['build'], { NODE_ENV: 'production' });
  run(bin('vite'), ['build', '--config', 'vite.server.config.ts', '--logLevel', 'warn'], {
    NODE_ENV: 'production',
  });
  for (const config of ['vite.worker.config.ts', 'vite.function.config.ts']) {
    run(bin('vite'), ['build', '--config', config, '--logLevel', 'warn'], { NODE_ENV: 'production' });
  }
  run(process.execPath, [join(root, 'scripts', 'compress-assets.mjs')]);
  run(process.execPath, [join(root, 'scripts', 'make-blank-database.mjs')]);
  mkdirSync(dirname(stamp), { recursive: true });
  writeFileSync(stamp, fingerprint);
}

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
