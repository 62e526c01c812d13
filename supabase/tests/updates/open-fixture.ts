// Opens a filled database of an earlier version (npm run new-update-fixture).
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';
import type { Database } from '@jani-juice/backend/database';
import { platform, throwawayDatabase } from '@jani-juice/backend/testing';

const ending = '.sql.br';

/** The stored databases, the oldest first: their last migration and their commit. */
export async function listFixtures(): Promise<string[]> {
  const files = await readdir(new URL('.//', import.meta.url));
  return files
    .filter((name) => name.endsWith(ending))
    .map((name) => name.slice(0, -ending.length))
    .sort();
}

/** Restores a stored database into an empty one, which is deleted when it is closed. */
export async function openFixture(
  kind: Database['kind'],
  fixture: string,
): Promise<Database & { url?: string }> {
  const database = await throwawayDatabase(kind, []);
  const [roles] = (await readFile(join(platform.folder, '01_roles.sql'), 'utf8')).split('grant anon');
  await database.execute(roles ?? '');
  await database.execute('drop schema if exists platform cascade');
  const dump = brotliDecompressSync(await readFile(new URL(fixture + ending, import.meta.url))).toString();
  // The schema public exists, and a dump changes settings of its session.
  await database.execute(`${dump.replace('CREATE SCHEMA public;', '')}\nreset all;`);
  return database;
}
