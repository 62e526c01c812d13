// Brings the database to this version of the shop, and loads the demo catalogue into a new one.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Database, type MigrationSource, migrate } from '@jani-juice/backend/database';
import type { Log } from '../monitoring/log.ts';
import type { Config } from './settings/config.ts';

/**
 * The migrations of a shop, in the order they apply.
 * @param root the folder with the migrations: a release, or the project's
 */
export function migrationsOf(root: string): MigrationSource[] {
  return [
    { name: 'platform', folder: join(root, 'packages/backend/platform') },
    { name: 'shop', folder: join(root, 'supabase/migrations') },
  ];
}

/**
 * Migrates the database, then seeds it where the settings ask for it and it is new.
 * @param root the folder with the migrations: a release, or the project's
 * @throws when a migration fails, or the database is of a newer version
 */
export async function prepareDatabase(
  database: Database,
  config: Config,
  root: string,
  log: Log,
): Promise<void> {
  const applied = await migrate(database, migrationsOf(root));
  if (applied.length > 0) log.info({ applied: applied.length }, 'database migrated');
  if (config.seed !== 'demo') return;
  const seed = await readFile(join(root, 'supabase/seed.sql'), 'utf8');
  await database.transaction(async (session) => {
    // Only a new shop gets the demo catalogue, from one process.
    await session.query(`select pg_advisory_xact_lock(hashtext('seed'))`);
    const { rows } = await session.query<{ is_empty: boolean }>(
      `select not exists (select from platform.schema_migrations where source = 'seed')
         and not exists (select from public.products) and not exists (select from public.categories)
         and not exists (select from public.orders) as is_empty`,
    );
    if (!rows[0]?.is_empty) return;
    await session.execute(seed);
    await session.query(
      `insert into platform.schema_migrations (source, version, hash) values ('seed', 'demo', '')`,
    );
    log.info('demo catalogue loaded');
  });
}
