// The generated types match the migrated database.
import { readFile } from 'node:fs/promises';
import { throwawayDatabase } from '@jani-juice/backend/testing';
import { expect, test } from 'vitest';
import { describeDatabase } from '../../../scripts/databases/database-types.ts';
import { shopMigrations } from '../../../scripts/databases/shop-migrations.ts';

test('supabase/types.ts describes the migrated database; npm run generate-types updates it', async () => {
  const database = await throwawayDatabase('pglite', shopMigrations);
  const described = await describeDatabase(database);
  await database.close();
  expect(await readFile(new URL('../../types.ts', import.meta.url), 'utf8')).toBe(described);
});
