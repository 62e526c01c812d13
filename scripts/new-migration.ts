// `npm run new-migration NAME`: drafts the migration from supabase/migrations to supabase/schemas.
import { readdir, writeFile } from 'node:fs/promises';
import { platform, throwawayDatabase } from '@jani-juice/backend/testing';
import { describeCatalogue } from '../supabase/tests/database/database-catalogue.ts';
import { draftMigration } from './databases/draft-migration.ts';
import { readSchemas } from './databases/schema-files.ts';
import { shopMigrations } from './databases/shop-migrations.ts';

const [, , name = ''] = process.argv;
if (!/^[a-z][a-z0-9_]*$/.test(name)) {
  process.stderr.write('Name the migration in snake case: npm run new-migration cheaper_delivery\n');
  process.exit(1);
}
const supabase = new URL('../supabase/', import.meta.url);
const last = (await readdir(new URL('migrations/', supabase))).sort().at(-1) ?? '0';
const now = new Date().toISOString().replaceAll(/\D/g, '').slice(0, 14);
const version = Math.max(Number(now), Number.parseInt(last, 10) + 1);

const [migrated, declared] = await Promise.all([
  throwawayDatabase('pglite', shopMigrations),
  throwawayDatabase('pglite', [platform]),
]);
const schemas = readSchemas().map(({ sql }) => sql);
for (const sql of schemas) await declared.execute(sql);
const draft = draftMigration(
  await describeCatalogue(migrated),
  await describeCatalogue(declared),
  schemas.join('\n'),
);
await Promise.all([migrated.close(), declared.close()]);
const file = new URL(`migrations/${version}_${name}.sql`, supabase);
await writeFile(file, draft, { flag: 'wx' });
process.stdout.write(`supabase/migrations/${version}_${name}.sql\n`);
