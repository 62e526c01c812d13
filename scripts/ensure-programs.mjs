// Programs that the tests need besides npm packages: a browser and a PostgreSQL server. Installs them where possible.
import { spawn } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';

// The shell without windows first: the same engine, and a quarter less work for the processor.
const browserNames = [
  'chromium-headless-shell',
  'chromium',
  'chromium-browser',
  'google-chrome-stable',
  'google-chrome',
  'chrome',
];
const usualBrowsers = [
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  'C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe',
];

/**
 * Makes sure of a Chromium and of PostgreSQL's server binaries, where they can be had: as root on a Debian they are installed
 * by a process beside this one, while npm installs its packages.
 * @returns what waits for the end of it and gives the path of the Chromium, null when there is none
 */
export function ensurePrograms() {
  const missing = [
    ...(findBrowser() ? [] : ['chromium-headless-shell']),
    ...(hasPostgresql() ? [] : ['postgresql']),
  ];
  const installed = missing.length > 0 ? installFromDebian(missing) : Promise.resolve();
  return installed.then(async () => {
    // Older Debians have no package of the shell alone, and then nothing of the list is installed.
    if (!findBrowser()) await installFromDebian(['chromium']);
    if (!hasPostgresql()) await installFromDebian(['postgresql']);
    const browser = findBrowser();
    if (!browser)
      console.log('There is no Chromium here and it could not be installed; set CHROMIUM_PATH to one.');
    if (!hasPostgresql())
      console.log('There is no PostgreSQL here: tests run on PGlite alone, races are skipped.');
    return browser;
  });
}

function findBrowser() {
  const given = process.env.CHROMIUM_PATH;
  if (given) return existsSync(given) ? given : null;
  const folders = (process.env.PATH ?? '').split(delimiter);
  const named = browserNames.flatMap((name) => folders.map((folder) => join(folder, name)));
  return [...named, ...usualBrowsers].find((path) => existsSync(path)) ?? null;
}

function hasPostgresql() {
  const root = '/usr/lib/postgresql';
  const folders = existsSync(root) ? readdirSync(root).map((version) => join(root, version, 'bin')) : [];
  return [...folders, ...(process.env.PATH ?? '').split(delimiter)].some(
    (folder) => existsSync(join(folder, 'initdb')) && existsSync(join(folder, 'postgres')),
  );
}

function installFromDebian(packageNames) {
  if (process.getuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) return Promise.resolve();
  console.log(`Installing ${packageNames.join(' and ')} …`);
  // One command: a caller that waits for npm cannot start a second one.
  const command = `apt-get update -qq && apt-get install -y -qq ${packageNames.join(' ')}`;
  const apt = spawn('/bin/sh', ['-c', command], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
  });
  return new Promise((done) => apt.once('close', done).once('error', done));
}
