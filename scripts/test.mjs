// `npm test`: installs what is missing, a browser and a PostgreSQL included, then types, lint, units, services, SQL, staff screens
// and the main stories (with STORIES=each all, once). `npm run test:quick`: types, lint and units, which need neither browser nor
// database. `npm run test:proofs`: the long proofs and the SQL on PGlite. `npm run test:long`: all stories at every size, all long
// proofs, every case of the sampled tests, and the SQL on the other databases.
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

const isFailed = ({ status }) => status === 'failed';
// The report has no message of a hook in a group of tests, and of a test that took too long only where it stands.
const reasonOf = (message = '') =>
  `\n    ${message.split('\n')[0].replace('STACK_TRACE_ERROR', 'timed out') || 'a hook failed, see above'}`;

/** Runs Vitest. Returns the outcome of each test, and of each file that failed without one. */
async function runFiles(title, config, { projects = [], paths = [], environment = {} }) {
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
  const report = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : { testResults: [] };
  const outcomes = report.testResults.flatMap(({ name, message, assertionResults, status: fileStatus }) => {
    const path = name.slice(root.length + 1);
    const tests = assertionResults.map((test) => ({
      path,
      title: `${path}: ${test.fullName}`,
      status: test.status,
      reason: reasonOf(test.failureMessages[0]),
    }));
    const hasFailedAlone = fileStatus === 'failed' && !tests.some(isFailed);
    return hasFailedAlone
      ? [...tests, { path, title: path, status: 'failed', reason: reasonOf(message) }]
      : tests;
  });
  if (status !== 0 && !outcomes.some(isFailed)) failed.push(`${title}: the run itself`);
  return outcomes;
}

/**
 * Runs Vitest and counts each of its tests. In CI a file with a failure runs once more as a whole, because what its tests share is no
 * longer as it was, and is listed even if it passes then.
 */
async function suite(title, config, options = {}) {
  let outcomes = await runFiles(title, config, options);
  const failures = outcomes.filter(isFailed);
  const paths = [...new Set(failures.map(({ path }) => path))];
  // More are no accident.
  if (process.env.CI && paths.length > 0 && paths.length <= 6) {
    const again = await runFiles(`${title}, again`, config, { ...options, paths });
    outcomes = [...outcomes.filter(({ path }) => !paths.includes(path)), ...again];
    for (const before of failures) {
      const after = again.find((outcome) => outcome.title === before.title && isFailed(outcome));
      if (after) after.reason = before.reason + after.reason;
      else passedOnRetry.push(`${before.title}${before.reason}`);
    }
  }
  for (const { title: test, status, reason } of outcomes) {
    if (status === 'failed') failed.push(`${test}${reason}`);
    else if (status === 'passed') passed.push(test);
    else skipped.push(test);
  }
}

async function checkSource() {
  await check('types of the routes', bin('react-router'), ['typegen']);
  await Promise.all([
    check('types', bin('tsc'), []),
    check('lint, format, import cycles, floating promises', bin('biome'), ['ci', '.']),
    check('unused files, exports and packages', bin('knip'), ['--no-progress']),
  ]);
}

async function stories(selection) {
  const titles = { main: 'main stories', each: 'all stories', every: 'all stories at every size' };
  const title = `${titles[selection]} in a browser`;
  if (chromium) await suite(title, 'vitest.browser.config.ts', { environment: { STORIES: selection } });
  else failed.push(`${title}: there is no browser`);
}

const sqlOnPglite = (environment = {}) =>
  suite('SQL on PGlite', 'vitest.config.ts', {
    projects: ['sql'],
    environment: { TEST_DATABASES: 'pglite', ...environment },
  });

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
    await stories(process.env.STORIES === 'each' ? 'each' : 'main');
  },
  async proofs() {
    const environment = { PROOFS: 'landing' };
    await suite('long proofs', 'vitest.config.ts', { projects: ['long'], environment });
    await sqlOnPglite(environment);
  },
  async long() {
    await stories('every');
    await suite('long proofs', 'vitest.config.ts', { projects: ['long', 'every-case'] });
    await sqlOnPglite();
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
