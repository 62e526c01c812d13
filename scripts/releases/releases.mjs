// Releases: each build is a folder of its own with all that a process of the shop reads, and `build/current` names the one that the next
// start runs. A process finds its files beside its program, so that another release that is built and becomes current does not affect it.
// Plain JavaScript: it runs before anything is installed.

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  cpSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { basename, join, relative } from 'node:path';

const dayMs = 24 * 60 * 60 * 1000;
/** How long a replaced release stays for processes that have not been restarted. */
const stayMs = 7 * dayMs;
/** Releases besides the current one that always stay. */
const formerReleases = 2;
/** Where updates compare the migrations of the services in two releases. Former releases have them there alone. */
export const releasedPlatform = 'backend/platform';
/** Files of the project that a process reads, and their places in a release. */
const ownFiles = [
  ['packages/backend/platform'],
  ['packages/backend/platform', releasedPlatform],
  ['build/blank-database'],
  ['supabase/functions/mobile-money/function.bundle.js'],
  ['supabase/migrations'],
  ['supabase/seed.sql'],
];

const releasesOf = (root) => join(root, 'build', 'releases');
const packagesOf = (root) => join(root, 'build', 'packages');
const pointerOf = (root) => join(root, 'build', 'current');
const nextPointerOf = (root) => join(root, 'build', 'next');
const isUnfinished = (name) => name.endsWith('.making');

/**
 * @param {string} root the project's folder
 * @returns {string | null} the folder of a complete release
 */
export function findRelease(root, id) {
  const folder = join(releasesOf(root), id);
  // A pointer may be empty after a power cut.
  return id !== '' && existsSync(folder) ? folder : null;
}

/** @returns {string | null} the folder of the release that the next start runs; null before the first build */
export const currentRelease = (root) => readPointer(root, pointerOf(root));

/** @returns {string | null} the folder of the release that an update has built last */
export const nextRelease = (root) => readPointer(root, nextPointerOf(root));

function readPointer(root, pointer) {
  return existsSync(pointer) ? findRelease(root, readFileSync(pointer, 'utf8').trim()) : null;
}

/**
 * Creates the folder of a build, and deletes those of interrupted ones. One process at a time.
 * @returns {string} relative to the project's folder
 */
export function newRelease(root) {
  for (const folder of [releasesOf(root), packagesOf(root)]) {
    mkdirSync(folder, { recursive: true });
    for (const name of readdirSync(folder)) {
      if (isUnfinished(name)) rmSync(join(folder, name), { recursive: true, force: true });
    }
  }
  const making = join(releasesOf(root), `${process.pid}.making`);
  mkdirSync(making);
  return relative(root, making);
}

/** Adds to a build what else a process reads, the packages included. Only complete releases have their name. */
export function completeRelease(root, making, id) {
  const folder = join(root, making);
  for (const [path, place = path] of ownFiles) {
    if (existsSync(join(root, path))) cpSync(join(root, path), join(folder, place), { recursive: true });
  }
  const packages = join(providePackages(root), 'node_modules');
  // A junction needs no rights on Windows; elsewhere the kind is ignored.
  writeFileSync(join(folder, 'version.json'), `${JSON.stringify(versionOf(root))}\n`);
  symlinkSync(
    process.platform === 'win32' ? packages : relative(folder, packages),
    join(folder, 'node_modules'),
    'junction',
  );
  syncDisks();
  renameSync(folder, join(releasesOf(root), id));
}

/** What staff read about a build (domain/running-version.ts). Sources without a history, as in a container, have no commit. */
function versionOf(root) {
  const { status, stdout } = spawnSync('git', ['log', '-1', '--format=%h %cI'], {
    cwd: root,
    encoding: 'utf8',
  });
  const [commit = null, changedAt = null] = status === 0 ? stdout.trim().split(' ') : [];
  return { commit, changedAt, builtAt: new Date().toISOString() };
}

/** After a power cut a release with its name must have its content. Where there is no such command, the disks are synced later. */
const syncDisks = () => void spawnSync('sync');

/** Makes a release the one that the next start runs, and deletes those that no process needs any longer. */
export function switchTo(root, id) {
  const before = currentRelease(root);
  if (before && basename(before) !== id) utimesSync(before, new Date(), new Date());
  writePointer(pointerOf(root), id);
  deleteFormer(root, id);
}

/** Notes the release that an update is about to switch to. */
export const noteNext = (root, id) => writePointer(nextPointerOf(root), id);

/** Replaces a pointer atomically. */
function writePointer(pointer, id) {
  const making = `${pointer}.${process.pid}`;
  writeFileSync(making, `${id}\n`);
  syncDisks();
  renameSync(making, pointer);
}

/** Deletes all releases but the current one, the two before it, and those that were current within a week. */
function deleteFormer(root, current) {
  const folder = releasesOf(root);
  const former = readdirSync(folder)
    .filter((name) => name !== current && !isUnfinished(name))
    .map((name) => ({ name, replacedAt: statSync(join(folder, name)).mtimeMs }))
    .sort((one, other) => other.replacedAt - one.replacedAt)
    .slice(formerReleases)
    .filter(({ replacedAt }) => Date.now() - replacedAt > stayMs);
  for (const { name } of former) rmSync(join(folder, name), { recursive: true, force: true });
  const used = new Set(
    readdirSync(folder).map(
      (name) => statSync(join(folder, name, 'node_modules'), { throwIfNoEntry: false })?.ino,
    ),
  );
  for (const name of readdirSync(packagesOf(root)).filter((name) => !isUnfinished(name))) {
    const packages = join(packagesOf(root), name);
    if (!used.has(statSync(join(packages, 'node_modules')).ino))
      rmSync(packages, { recursive: true, force: true });
  }
}

/**
 * The packages of production, apart from `node_modules`, which the next installation changes under a running process. Releases with the same
 * lockfile share them. They cost no space: the files are the same ones under another name (npm replaces files, it does not write into them).
 */
function providePackages(root) {
  const lockfile = readFileSync(join(root, 'package-lock.json'));
  const folder = join(packagesOf(root), createHash('sha256').update(lockfile).digest('hex').slice(0, 16));
  if (existsSync(folder)) return folder;
  const making = `${folder}.making`;
  mkdirSync(join(making, 'node_modules'), { recursive: true });
  for (const [path, { dev, link }] of Object.entries(JSON.parse(lockfile).packages)) {
    // Optional packages of other platforms are not installed.
    if (path.startsWith('node_modules/') && !dev && !link && existsSync(join(root, path)))
      linkFolder(join(root, path), join(making, path));
  }
  renameSync(making, folder);
  return folder;
}

function linkFolder(from, to) {
  mkdirSync(to, { recursive: true });
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    // Packages inside a package have entries of their own in the lockfile.
    if (entry.isDirectory() && entry.name === 'node_modules') continue;
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) linkFolder(source, target);
    else if (entry.isFile()) linkFile(source, target);
  }
}

function linkFile(source, target) {
  try {
    linkSync(source, target);
  } catch (error) {
    // Another file system, or one without links.
    if (!['EXDEV', 'EPERM', 'ENOTSUP', 'EMLINK'].includes(error.code)) throw error;
    copyFileSync(source, target);
  }
}
