// `npm test`: installs what is missing, a browser and a PostgreSQL included, then types, lint, units, services, SQL, staff screens
// and the main stories. `npm run test:quick`: types, lint and units, which need neither browser nor database. `npm run test:long`: all
// stories at every size, the long proofs, and the SQL on the other databases. With STORIES=every `npm test` runs all stories, and
// `npm run test:long` not again.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { bin, build, checkNode, installPackages, root } from './build/prepare.mjs';
import { ensurePrograms } from './tests/ensure-programs.mjs';

const level = process.argv[2] ?? 'usual';
checkNode();
const programs = level === 'quick' ? null : ensurePrograms({ everyPostgresql: level === 'long' });
await installPackages();
const { chromium, postgresql, otherPostgresql } = (await programs) ?? {};
if (level !== 'quick') await build();

const results = join(root, 'build', 'test-results');
mkdirSync(results, { recursive: true });

// Colours are for people at a terminal.
if (!process.stdout.isTTY) process.env.NO_COLOR = '1';

const passed = [];
const failed = [];
const skipped = [];
// In CI a failed test is retried once, and listed even if it passes then.
const passedOnRetry = [];

const ended = (child) => new Promise((done) => child.once('close', done).once('error', done));

/** Runs a command as one test. Prints its output only if it fails. */
async function check(title, command, parameters) {
  const child = spawn(command, parameters, { cwd: root, shell: process.platform === 'win32' });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text));
  const status = await ended(child);
  console.log(`\n— ${title}${status === 0 ? '' : `\n${output}`}`);
  (status === 0 ? passed : failed).push(title);
}

/** Runs Vitest and counts each of its tests. */
async function suite(title, config, { projects = [], paths = [], environment = {} } = {}) {
  console.log(`\n— ${title}`);
  const file = join(results, `${title.replaceAll(/\W+/g, '-')}.json`);
  rmSync(file, { force: true });
  const child = spawn(
    bin('vitest'),
    [
      'run',
      ...paths,
      '--config',
      config,
      ...projects.map((name) => `--project=${name}`),
      ...(process.env.CI ? ['--retry=1'] : []),
      '--reporter=dot',
      '--reporter=json',
      `--outputFile.json=${file}`,
    ],
    {
      cwd: root,
      stdio: 'inherit',
      shell: process.platform === 'win32',
      env: {
        ...process.env,
        NODE_ENV: 'test',
        ...(chromium ? { CHROMIUM_PATH: chromium } : {}),
        ...(postgresql ? { POSTGRESQL_PROGRAMS: postgresql } : {}),
        ...environment,
      },
    },
  );
  const status = await ended(child);
  if (!existsSync(file)) {
    failed.push(`${title}: the run itself`);
    return;
  }
  const report = JSON.parse(readFileSync(file, 'utf8'));
  for (const { name, message, assertionResults, status: fileStatus } of report.testResults) {
    if (fileStatus === 'failed' && assertionResults.every((test) => test.status !== 'failed')) {
      failed.push(`${name.slice(root.length + 1)}: ${message.split('\n')[0]}`);
    }
    for (const test of assertionResults) {
      const title = `${name.slice(root.length + 1)}: ${test.fullName}`;
      const reasons = test.failureMessages.map((text) => `\n    ${text.split('\n')[0]}`).join('');
      if (test.status === 'failed') failed.push(`${title}${reasons}`);
      else if (test.status === 'passed') passed.push(title);
      else skipped.push(title);
      if (test.status === 'passed' && reasons) passedOnRetry.push(`${title}${reasons}`);
    }
  }
  if (status !== 0 && failed.length === 0) failed.push(`${title}: the run itself`);
}

async function checkSource() {
  await check('types of the routes', bin('react-router'), ['typegen']);
  await Promise.all([
    check('types', bin('tsc'), []),
    check('lint, format, import cycles, floating promises', bin('biome'), ['ci', '.']),
    check('unused files, exports and packages', bin('knip'), ['--no-progress']),
  ]);
}

const hasEveryStory = process.env.STORIES === 'every';

async function stories(selection) {
  const title =
    selection === 'main' ? 'main stories in a browser' : 'all stories in a browser, at every size';
  if (chromium) await suite(title, 'vitest.browser.config.ts', { environment: { STORIES: selection } });
  else failed.push(`${title}: there is no browser`);
}

const levels = {
  async quick() {
    await checkSource();
    await suite('units', 'vitest.config.ts', { projects: ['units'] });
  },
  async usual() {
    // The first tests wait more than they work.
    const checked = checkSource();
    await suite('units, services, SQL and screens', 'vitest.config.ts', {
      projects: ['units', 'services', 'sql', 'screens'],
    });
    await checked;
    await stories(hasEveryStory ? 'every' : 'main');
  },
  async long() {
    if (!hasEveryStory) await stories('every');
    await suite('long proofs', 'vitest.config.ts', { projects: ['long', 'every-case'] });
    await suite('SQL on PGlite', 'vitest.config.ts', {
      projects: ['sql'],
      environment: { TEST_DATABASES: 'pglite' },
    });
    for (const [version, folder] of otherPostgresql) {
      await suite(`SQL on PostgreSQL ${version}`, 'vitest.config.ts', {
        projects: ['sql'],
        paths: ['supabase/tests'],
        environment: { POSTGRESQL_PROGRAMS: folder },
      });
    }
  },
};
await levels[level]();

if (passedOnRetry.length > 0) {
  console.log(`\nPassed at the second attempt:\n${passedOnRetry.map((title) => `  ${title}`).join('\n')}`);
}
if (failed.length > 0) console.log(`\nFailed:\n${failed.map((title) => `  ${title}`).join('\n')}`);
console.log(
  `\n${passed.length} passed, ${failed.length} failed${skipped.length > 0 ? `, ${skipped.length} skipped` : ''}`,
);
process.exit(failed.length > 0 ? 1 : 0);
