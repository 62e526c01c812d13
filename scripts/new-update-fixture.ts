// `npm run new-update-fixture`: stores a filled database of this commit in supabase/tests/updates/, from which later versions are tested to
// update. Once for every version that shops get, before the next migration is written.
import { execFileSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliCompressSync } from 'node:zlib';
import { throwawayDatabase } from '@jani-juice/backend/testing';
import { fillShop } from '../supabase/tests/updates/fill-shop.ts';
import { shopMigrations } from './databases/shop-migrations.ts';
import { startThrowawayPostgresql } from './databases/throwaway-postgresql.ts';
import { findPostgresqlPrograms } from './tests/ensure-programs.mjs';

const programs = findPostgresqlPrograms('pg_dump');
if (!programs) throw new Error('pg_dump is not on this machine: install PostgreSQL.');
const commit = execFileSync('git', ['rev-parse', '--short=8', 'HEAD'], { encoding: 'utf8' }).trim();
const folder = await mkdtemp(join(tmpdir(), 'jani-fixture-'));
const cluster = await startThrowawayPostgresql();
try {
  process.env.TEST_POSTGRESQL_URL = cluster.url;
  const database = await throwawayDatabase('postgresql', shopMigrations);
  await fillShop(database);
  const { rows } = await database.query<{ version: string }>(
    `select max(version) as version from platform.schema_migrations where source = 'shop'`,
  );
  const lastMigration = rows[0]?.version.split('_')[0];
  const file = join(folder, 'dump.sql');
  execFileSync(join(programs, 'pg_dump'), [
    ...['--no-owner', '--inserts', '--rows-per-insert=100', '--file', file],
    ...['--dbname', database.url ?? ''],
  ]);
  await database.close();
  // psql's own commands, which newer versions of pg_dump write.
  const script = (await readFile(file, 'utf8')).replaceAll(/^\\(?:un)?restrict .*\n/gm, '');
  const fixture = `supabase/tests/updates/${lastMigration}-${commit}.sql.br`;
  await writeFile(new URL(`../${fixture}`, import.meta.url), brotliCompressSync(script));
  console.log(fixture);
} finally {
  await cluster.stop();
  await rm(folder, { recursive: true });
}
