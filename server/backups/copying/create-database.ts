// Creates a shop's database with the rows of a source, in an empty place.
import { join } from 'node:path';
import { DatabaseError, repeatAfterCollisions } from '@jani-juice/backend/database';
import { openPglite } from '@jani-juice/backend/pglite';
import { openPostgresql } from '@jani-juice/backend/postgresql';
import { migrationsOf } from '../../start/prepare-database.ts';
import type { Content } from '../manifest.ts';
import { dropShopSchemas } from './drop-shop-schemas.ts';
import type { RowSource } from './row-source.ts';
import { createShop } from './write-rows.ts';

/** A restore or a move that was not started; the message has the reason. */
export class Refused extends Error {
  override readonly name = 'Refused';
}

/**
 * Creates an embedded database. An interrupted one must not be used.
 * @param target `isTemporary`: does not wait for the disk
 * @param root the folder with the migrations and the blank database: a release, or the project's
 */
export async function createEmbedded(
  { folder, isTemporary }: { folder: string; isTemporary: boolean },
  source: RowSource,
  root: string,
): Promise<Content> {
  const blanks = join(root, 'build/blank-database');
  const database = await openPglite(folder, { blanks, isDurable: !isTemporary, sharedBuffers: '16MB' });
  try {
    return await database.transaction((session) => createShop(session, source, migrationsOf(root)));
  } finally {
    await database.close();
  }
}

/**
 * Creates a shop in a PostgreSQL database, all in one transaction.
 * @param replaces the shop that is there now
 */
export async function createInPostgresql(
  url: string,
  source: RowSource,
  root: string,
  replaces: boolean,
): Promise<Content> {
  const database = openPostgresql(url, { poolSize: 1 });
  try {
    // Migrations come before the first row is read.
    return await repeatAfterCollisions(() =>
      database.transaction(
        async (session) => {
          if (replaces) await session.execute(dropShopSchemas);
          return createShop(session, source, migrationsOf(root));
        },
        { settings: { lock_timeout: lockTimeout } },
      ),
    );
  } catch (error) {
    throw isLockTimeout(error) ? inUse() : error;
  } finally {
    await database.close();
  }
}

const lockTimeout = '20s';

function isLockTimeout(error: unknown): boolean {
  return error instanceof DatabaseError && error.code === '55P03';
}

const inUse = () =>
  new Refused('Another process is connected to that database: stop every process of the shop first.');

/** Maximum time PostgreSQL takes to detect that a shop was stopped. */
const disconnectTimeoutMs = 5000;

export type Occupant = 'nothing' | 'a shop' | 'a Supabase project';

/**
 * What is in a PostgreSQL database.
 * @throws Refused when another process uses it
 */
export async function findOccupant(url: string): Promise<Occupant> {
  const database = openPostgresql(url, { poolSize: 1 });
  try {
    const startedAt = performance.now();
    for (;;) {
      const { rows } = await database.query<{ others: number; is_shop: boolean; is_project: boolean }>(
        `select count(*) as others, to_regclass('platform.schema_migrations') is not null as is_shop,
           exists (select from pg_namespace where nspname = 'auth' and pg_get_userbyid(nspowner) like 'supabase%') as is_project
         from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`,
      );
      if (rows[0]?.is_project) return 'a Supabase project';
      if (rows[0]?.others === 0) return rows[0].is_shop ? 'a shop' : 'nothing';
      if (performance.now() - startedAt > disconnectTimeoutMs) throw inUse();
      await new Promise((done) => setTimeout(done, 100));
    }
  } finally {
    await database.close();
  }
}
