// Databases for tests: a fresh one each time, copied from a template that is migrated once.
import { createHash, randomBytes } from 'node:crypto';
import { constants, copyFileSync, mkdirSync, readdirSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Database } from '../database/database.ts';
import { type MigrationSource, migrate } from '../database/migrate.ts';
import { versionOfPglite } from '../database/pglite/blank-pglite.ts';
import { openPglite } from '../database/pglite/pglite.ts';
import { openPostgresql } from '../database/postgresql/postgresql.ts';

/** The migrations of the platform itself. */
export const platform: MigrationSource = {
  name: 'platform',
  folder: join(import.meta.dirname, '../platform'),
};

/** Small, because all of it is filled with zeros at each start. */
export const sharedBuffers = '16MB';

/**
 * The databases that tests run on: PGlite, and PostgreSQL when the run has started a cluster. `TEST_DATABASES` narrows them to
 * `pglite`, or to `one`: PostgreSQL where there is one.
 */
export function testDatabases(): Database['kind'][] {
  const { TEST_DATABASES: chosen, TEST_POSTGRESQL_URL: cluster } = process.env;
  if (!cluster || chosen === 'pglite') return ['pglite'];
  return chosen === 'one' ? ['postgresql'] : ['pglite', 'postgresql'];
}

/**
 * Creates an empty, migrated database that is deleted when it is closed.
 * @param kind one of `testDatabases()`
 * @param sources its migrations; the template is cached by their content
 */
export async function throwawayDatabase(
  kind: Database['kind'],
  sources: readonly MigrationSource[],
): Promise<Database & { url?: string }> {
  const fingerprint = await fingerprintOf(sources);
  return kind === 'pglite'
    ? throwawayPglite(fingerprint, sources)
    : throwawayPostgresql(fingerprint, sources);
}

async function throwawayPglite(fingerprint: string, sources: readonly MigrationSource[]): Promise<Database> {
  const folder = await mkdtemp(join(tmpdir(), 'jani-test-pglite-run-'));
  copyFolder(await templateFolder(fingerprint, sources), join(folder, 'database'), isUnusedTemplate);
  const database = await openPglite(join(folder, 'database'), { isDurable: false, sharedBuffers });
  return {
    ...database,
    async close() {
      await database.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/**
 * Copies the files of an embedded database into a folder, for tests that open it themselves. The result is as if it had been opened,
 * migrated and closed there before.
 * @param folder is created; must not exist
 */
export async function copyMigratedDatabase(
  folder: string,
  sources: readonly MigrationSource[],
): Promise<void> {
  copyFolder(await templateFolder(await fingerprintOf(sources), sources), folder);
}

/** Creates the template of embedded databases if it is missing; later ones are copies. */
export async function prepareTemplate(sources: readonly MigrationSource[]): Promise<void> {
  await templateFolder(await fingerprintOf(sources), sources);
}

async function templateFolder(fingerprint: string, sources: readonly MigrationSource[]): Promise<string> {
  // Templates outlive the run and its temporary folder.
  const templates = process.env.TEST_TEMPLATES ?? tmpdir();
  const template = join(templates, `jani-test-pglite-${await versionOfPglite()}-${fingerprint}`);
  if (await exists(template)) return template;
  const making = await mkdtemp(join(templates, 'jani-test-making-'));
  const folder = join(making, 'database');
  // Creating a database costs more than filling it, so both happen once.
  if (sources.length > 0) copyFolder(await templateFolder(await fingerprintOf([]), []), folder);
  const database = await openPglite(folder, { isDurable: false, sharedBuffers });
  if (sources.length > 0) await migrate(database, sources);
  await database.close();
  // The first one to finish provides it; other copies are deleted.
  await rename(folder, template).catch(() => {});
  await rm(making, { recursive: true, force: true });
  return template;
}

/** Files of template1 and template0, which PGlite does not copy. */
const isUnusedTemplate = (path: string) => /[/\\]base[/\\][14]$/.test(path);

// More than a thousand small files: copying them synchronously takes a tenth of the time of Node's asynchronous copy.
function copyFolder(from: string, to: string, isLeftOut = (_: string) => false): void {
  mkdirSync(to);
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const path = join(from, entry.name);
    if (!entry.isDirectory()) copyFileSync(path, join(to, entry.name), constants.COPYFILE_FICLONE);
    else if (!isLeftOut(path)) copyFolder(path, join(to, entry.name), isLeftOut);
  }
}

async function throwawayPostgresql(fingerprint: string, sources: readonly MigrationSource[]) {
  const cluster = process.env.TEST_POSTGRESQL_URL;
  if (!cluster) throw new Error('TEST_POSTGRESQL_URL is not set: the test run has started no PostgreSQL');
  const admin = openPostgresql(cluster, { poolSize: 1 });
  const template = `template_${fingerprint}`;
  await makeTemplate(admin, cluster, template, sources);
  const name = `test_${randomBytes(6).toString('hex')}`;
  await admin.execute(`create database ${name} template ${template}`);
  const url = urlOf(cluster, name);
  const database = openPostgresql(url);
  return {
    ...database,
    url,
    async close() {
      await database.close();
      await admin.execute(`drop database if exists ${name} with (force)`);
      await admin.close();
    },
  };
}

async function makeTemplate(
  admin: Database,
  cluster: string,
  template: string,
  sources: readonly MigrationSource[],
): Promise<void> {
  const isThere = async () =>
    (await admin.query('select from pg_database where datname = $1', [template])).rowCount > 0;
  // Several test files start concurrently: one of them creates the template, under a lock; the others wait. The lock is taken
  // in another transaction, because `create database` may not run inside one.
  const lockHolder = openPostgresql(cluster, { poolSize: 1 });
  try {
    await lockHolder.transaction(async (session) => {
      await session.query(`select pg_advisory_xact_lock(hashtext('jani test templates'))`);
      if (await isThere()) return;
      const making = `${template}_making`;
      await admin.execute(`drop database if exists ${making} with (force)`);
      await admin.execute(`create database ${making}`);
      const database = openPostgresql(urlOf(cluster, making), { poolSize: 2 });
      await migrate(database, sources);
      await database.close();
      await admin.execute(`alter database ${making} rename to ${template}`);
    });
  } finally {
    await lockHolder.close();
  }
}

function urlOf(cluster: string, database: string): string {
  const url = new URL(cluster);
  url.pathname = `/${database}`;
  return url.href;
}

async function fingerprintOf(sources: readonly MigrationSource[]): Promise<string> {
  const hash = createHash('sha256');
  for (const { name, folder } of sources) {
    for (const file of (await readdir(folder)).filter((entry) => entry.endsWith('.sql')).sort()) {
      hash.update(`${name}/${file}\n`).update(await readFile(join(folder, file)));
    }
  }
  return hash.digest('hex').slice(0, 16);
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
