// A build beside a running shop, in a copy of the project: every page and file stays whole, before the restart and after it.
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { appendFileSync, cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { copyMigratedDatabase } from '@jani-juice/backend/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { shopMigrations } from '../databases/shop-migrations.ts';
import { freePort } from '../tests/free-port.ts';
import { until } from '../tests/open-shop.ts';
import { currentRelease } from './releases.mjs';

const root = join(import.meta.dirname, '../..');
let project: string;
let url: string;
let shop: ChildProcess | undefined;
let output = '';

/** Starts the shop's current release, once the former process has ended. */
async function start(): Promise<void> {
  if (shop) {
    const ended = new Promise((done) => shop?.once('exit', done));
    shop.kill('SIGTERM');
    await ended;
  }
  const child = spawn(process.execPath, ['scripts/start.mjs', '--as-built'], {
    cwd: project,
    env: {
      ...process.env,
      PORT: new URL(url).port,
      DATA_DIR: join(project, 'data'),
      MPESA_ENV: 'simulator',
      SIMULATOR_PORT: '0',
    },
  });
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text));
  shop = child;
  await until(
    async () => {
      if (child.exitCode !== null) throw new Error(`the shop process exited:\n${output}`);
      return (await fetch(`${url}/readyz`)).ok;
    },
    'the shop is ready',
    180_000,
  );
}

beforeAll(async () => {
  const built = spawnSync(process.execPath, [join(root, 'scripts/build.mjs')], { stdio: 'inherit' });
  expect(built.status).toBe(0);
  project = mkdtempSync(join(tmpdir(), 'jani-build-'));
  for (const path of execFileSync('git', ['ls-files'], { cwd: root, encoding: 'utf8' }).trim().split('\n')) {
    mkdirSync(dirname(join(project, path)), { recursive: true });
    cpSync(join(root, path), join(project, path));
  }
  // The build of these sources, and the installed packages.
  const release = currentRelease(root) ?? '';
  for (const path of [join('build/releases', basename(release)), 'build/packages', 'build/blank-database'])
    cpSync(join(root, path), join(project, path), { recursive: true, verbatimSymlinks: true });
  writeFileSync(join(project, 'build/current'), `${basename(release)}\n`);
  symlinkSync(join(root, 'node_modules'), join(project, 'node_modules'), 'junction');
  await copyMigratedDatabase(join(project, 'data/database'), shopMigrations).catch(() => {});
  url = `http://127.0.0.1:${await freePort()}`;
  await start();
}, 600_000);
afterAll(() => {
  shop?.kill('SIGKILL');
  rmSync(project, { recursive: true, force: true, maxRetries: 10 });
});

const filesOf = (page: string) => new Set(page.match(/\/(?:assets|fonts)\/[\w.-]+\.\w+/g));

test('leaves every page and file of the running shop whole, and those of its open pages after the restart', async () => {
  const opened = filesOf(await (await fetch(`${url}/`)).text());
  expect(opened.size).toBeGreaterThan(3);
  // A change that no minifier removes.
  appendFileSync(
    join(project, 'web/root.tsx'),
    "\nif (typeof window !== 'undefined') window.name = 'another build';\n",
  );

  let isBuilt = false;
  const failed: string[] = [];
  let read = 0;
  const reading = (async () => {
    while (!isBuilt) {
      for (const path of ['/', '/shop', '/sw.js', '/offline.html', ...opened]) {
        const status = await fetch(url + path, { signal: AbortSignal.timeout(30_000) }).then(
          async (answer) => {
            await answer.arrayBuffer();
            return answer.status;
          },
          (error) => String(error),
        );
        read += 1;
        if (status !== 200) failed.push(`${path}: ${status}`);
      }
    }
  })();
  const build = spawn(process.execPath, ['scripts/build.mjs'], { cwd: project, stdio: 'inherit' });
  const code = await new Promise((done) => build.once('exit', done));
  isBuilt = true;
  await reading;
  expect(code).toBe(0);
  expect(failed).toEqual([]);
  expect(read).toBeGreaterThan(20);

  await start();
  const now = filesOf(await (await fetch(`${url}/`)).text());
  expect([...now].sort(), 'another build runs').not.toEqual([...opened].sort());
  for (const path of opened) expect((await fetch(url + path)).status, path).toBe(200);
}, 600_000);
