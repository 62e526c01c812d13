// Programs the tests drive that npm does not bring: a browser, and PostgreSQL's server. Installed where that is allowed.
import { spawnSync } from 'node:child_process';
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

/** The path of a Chromium; installs Debian's when there is none and this is root on a Debian. Null when there is none. */
export function ensureBrowser() {
  const found = findBrowser();
  if (found) return found;
  installFromDebian('chromium-headless-shell', 'a browser');
  // Older Debians have no package of the shell alone.
  if (!findBrowser()) installFromDebian('chromium', 'a browser');
  const installed = findBrowser();
  if (!installed)
    console.log('There is no Chromium here and it could not be installed; set CHROMIUM_PATH to one.');
  return installed;
}

/** Makes sure that PostgreSQL's server binaries are there, where they can be had. */
export function ensurePostgresql() {
  if (hasPostgresql()) return;
  installFromDebian('postgresql', 'PostgreSQL');
  if (!hasPostgresql())
    console.log('There is no PostgreSQL here: tests run on PGlite alone, races are skipped.');
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

function installFromDebian(packageName, what) {
  if (process.getuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) return;
  console.log(`Installing ${what} …`);
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  spawnSync('apt-get', ['update', '-qq'], { stdio: 'inherit', env });
  spawnSync('apt-get', ['install', '-y', '-qq', packageName], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env,
  });
}
