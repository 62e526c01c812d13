// What `supabase db push` does with the migrations of a hosted project: it compares their versions, not their contents.
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Database } from '@jani-juice/backend/database';

/** Turns the history of a shop's own database into that of a hosted project. The platform of a project migrates itself. */
export async function asHostedProject(database: Database): Promise<void> {
  await database.execute(`
    create schema supabase_migrations;
    create table supabase_migrations.schema_migrations (version text primary key, statements text[], name text);
    insert into supabase_migrations.schema_migrations (version, name)
    select split_part(version, '_', 1), substr(version, strpos(version, '_') + 1) from platform.schema_migrations where source = 'shop';
    delete from platform.schema_migrations where source = 'shop'`);
}

/**
 * Applies the migrations that the project does not have.
 * @returns their file names
 * @throws where the command refuses, with its own words
 */
export async function pushMigrations(database: Database, folder: string): Promise<string[]> {
  const { rows } = await database.query<{ version: string }>(
    'select version from supabase_migrations.schema_migrations order by version',
  );
  const remote = rows.map(({ version }) => version);
  const files = (await readdir(folder)).filter((name) => /^\d+_.*\.sql$/.test(name)).sort();
  const versionOf = (name: string) => name.slice(0, name.indexOf('_'));
  const local = files.map(versionOf);
  if (remote.some((version) => !local.includes(version)))
    throw new Error('Remote migration versions not found in local migrations directory.');
  const pending = files.filter((name) => !remote.includes(versionOf(name)));
  const last = remote.at(-1) ?? '';
  if (pending.some((name) => versionOf(name) < last))
    throw new Error(
      'Found local migration files to be inserted before the last migration on remote database.',
    );
  for (const name of pending) {
    const text = await readFile(join(folder, name), 'utf8');
    await database.transaction(async (session) => {
      await session.execute(text);
      await session.query(
        'insert into supabase_migrations.schema_migrations (version, name) values ($1, $2)',
        [versionOf(name), name.slice(name.indexOf('_') + 1, -'.sql'.length)],
      );
    });
  }
  return pending;
}
